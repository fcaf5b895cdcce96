"""Reads Converse requests: blocks keyed by their kind, each a canister.

A reader takes the keys that it understands from each object; the rest is residue. A cache point is the mark of the
block before it. Content with more than one spelling (text or bytes of a document, the format of a file, the pieces of a
cited text) records its spelling as words of its form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from cannery.dialects.bedrock_converse.settings import TABLE
from cannery.dialects.bedrock_converse.tools import NAME, open_settings, read_mark
from cannery.families.blocks.reading import (
    ROLES,
    BlockReader,
    take_citable,
    text_or_none,
)
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    new_invocation,
    new_result,
)
from cannery.messages.content import (
    PLAIN,
    Citation,
    FileContentClass,
    new_audio,
    new_data,
    new_file,
    new_image,
    new_opaque,
    new_parts,
    new_reasoning,
    new_text,
    new_video,
)
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.payload import Base64, Location
from cannery.messages.requests import Request, new_request
from cannery.messages.residue import Residue
from cannery.wire.arguments import unwrapped_input
from cannery.wire.bodies import (
    Object,
    body_reader,
    decoded,
    encode,
    is_named,
    opened,
    plain,
    spelled_text,
)
from cannery.wire.contents import as_content
from cannery.wire.controls import text
from cannery.wire.media import SEARCH_RESULT, UNKNOWN_TYPE, sniff
from cannery.wire.places import Path, Places
from cannery.wire.residues import nested, set_again
from cannery.wire.turns import changed

# Words of a form: a system message among the others, a message without content, a result with an explicit success
# status, a call with an explicit type, a guarded block, the text of a document as text, text in a block for citations,
# a text whose citations are in a block after it, a patch of a block's content; and the prefixes of the piece lengths of
# a cited text, and of a format.
INLINE, EMPTY, SUCCESS, TYPED = "message", "empty", "success", "tool_use"
# The input of a call that is not an object: JSON, or a string.
BARE, STRING = "bare", "string"
GUARDED, AS_TEXT, CITED, BEHIND, INNER, LENGTHS, FORMAT = (
    *("guard", "text", "cited", "behind", "in", "n=", "as="),
)
# The media type of each format, by block kind; of several formats for one type, the first is the usual one.
DOCUMENTS = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html",
    "txt": PLAIN,
    "md": "text/markdown",
}
_FORMATS: dict[str, dict[str, str]] = {
    "image": {each: f"image/{each}" for each in ("png", "jpeg", "gif", "webp")},
    "video": {
        "mp4": "video/mp4",
        "mov": "video/quicktime",
        "mkv": "video/x-matroska",
        "webm": "video/webm",
        "flv": "video/x-flv",
        "mpeg": "video/mpeg",
        "mpg": "video/mpeg",
        "wmv": "video/x-ms-wmv",
        "three_gp": "video/3gpp",
    },
    "audio": {
        "mp3": "audio/mpeg",
        "mpeg": "audio/mpeg",
        "mpga": "audio/mpeg",
        "mkv": "audio/x-matroska",
        "mka": "audio/x-matroska",
        **{
            each: f"audio/{each}"
            for each in ("opus", "wav", "aac", "flac", "mp4", "ogg", "x-aac", "m4a", "pcm", "webm")
        },
    },
    "document": DOCUMENTS,
}
_MAKERS: dict[str, Callable[..., Any]] = {
    "image": new_image,
    "video": new_video,
    "audio": new_audio,
}
# The kinds of blocks; each block has one.
KINDS = frozenset(
    {
        *("text", "image", "document", "video", "audio", "toolUse", "toolResult", "guardContent"),
        *("cachePoint", "reasoningContent", "citationsContent", "searchResult", "json"),
        *("toolAddition", "toolRemoval"),
    }
)
_THOUGHT = "reasoningContent"
# Kinds of which a loss may name single facts, so their content is the place.
_DEEP = ("document", "searchResult")
_FORMAT = re.compile(r"[A-Za-z0-9_.+-]+")
# The content of a block, the patch for the rest of it, and the words of its form.
Held = tuple[Any, Object | None, list[str]]
_Scalar = bool | int | float | str | None
_Block = _Scalar | list[Any] | dict[str, _Scalar | list[Any] | dict[str, Raw]]
_Item = _Scalar | list[Any] | dict[str, _Scalar | list[_Block] | dict[str, Raw]]
_decode_levels = msgspec.json.Decoder(dict[str, _Scalar | list[_Item] | dict[str, Raw]]).decode


def format_of(kind: str, mime_type: str) -> str | None:
    """The format of a media type; None if there is none."""
    return next((key for key, value in _FORMATS[kind].items() if value == mime_type), None)


@body_reader(NAME, _decode_levels)
def read_request(body: Object, places: Places) -> Request:
    """Read the request from a body."""
    reader = ConverseReader(NAME, places)
    system = body.get("system")
    if system:
        del body["system"]
    messages = body.pop("messages", absent)
    open_settings(body)
    # The model is in the URL; a model in the body stays there as residue.
    model = text(body.get("modelId"))
    _, *settings = TABLE.read(body, places)
    reader.model = model
    if system:
        reader.content(system, "system", ("system",), None, [])
    if messages is not absent:
        for index, message in enumerate(reader.list(messages, "messages")):
            reader.message(message, ("messages", index))
    else:
        reader.fail("messages", "is required")
    return new_request(Conversation.trusted(reader.canisters), model, *settings, NAME)  # type: ignore[no-any-return]


class ConverseReader(BlockReader):
    """Reads the messages of one body."""

    # A cache point in a response marks nothing.
    takes_marks = True

    # --- messages ------------------------------------------------------------------------------

    def message(self, message: Any, path: Path) -> None:
        """One message of a body."""
        if type(message) is not dict:
            self.object(message, path)
        role = message.pop("role", absent)
        if type(role) is not str or role not in ROLES:
            role = self.role(role, path)
        if "content" not in message:
            self.fail(path + ("content",), "is required")
        content = message.pop("content")
        left = {key: opened(item) for key, item in message.items()} if message else {}
        words = [INLINE] if role == "system" else []
        self.content(content, role, (*path, "content"), set_again(left) if left else None, words)

    def content(
        self, value: Any, role: str, path: Path, envelope: Object | None, words: list[str]
    ) -> None:
        """The blocks of a message or of the system field: a canister for each."""
        blocks = value if type(value) is list else self.list(value, path)
        start = len(self.canisters)
        if not blocks:
            held = absent if role == "assistant" else ""
            self.add(role, held, path, False, _residue(None, [*words, EMPTY]))
        for index, block in enumerate(blocks):
            where = path + (index,)
            joined = len(self.canisters) > start
            if type(block) is not dict:
                self.object(block, where)
            text = block.get("text")
            if type(text) is str and len(block) == 1:
                self.add(role, text, where, joined, _residue(None, words) if words else None)
                continue
            if "cachePoint" in block and joined and self.takes_marks:
                mark = read_mark(block)
                if mark is not None and self._mark(*mark):
                    continue
            if "citationsContent" in block and joined and self._cite(block["citationsContent"]):
                continue
            self._block(block, role, where, words, joined=joined)
        if envelope is not None:
            head = self.canisters[start]
            residue = head.residue or Residue(NAME)
            residue = msgspec.structs.replace(residue, envelope=encode(envelope).decode())
            msgspec.structs.force_setattr(head, "residue", residue)

    def _mark(self, cache: str, word: str) -> bool:
        """Mark the last canister; False if it already has a mark, or cannot have one."""
        last = self.canisters[-1]
        residue = last.residue or Residue(NAME)
        if residue.cache is not None or last.held is absent:
            return False
        form = " ".join(filter(None, (residue.form, word))) or None
        residue = msgspec.structs.replace(residue, cache=cache, form=form)
        msgspec.structs.force_setattr(last, "residue", residue)
        return True

    def _cite(self, value: Any) -> bool:
        """Attach citations without text to the text before them, as Nova sends them; False if it is not plain."""
        last = self.canisters[-1]
        value = decoded(value) if type(value) is dict else {}
        listed = value.get("citations")
        is_bare = type(last.held) is str and bool(last.held) and last.residue is None
        if not is_bare or value.keys() != {"citations"} or not is_cited(listed):
            return False
        held = new_text(last.held, PLAIN, tuple(map(read_citation, listed)))
        self.canisters[-1] = changed(last, held=held, residue=_residue(None, [BEHIND]))
        return True

    def _block(
        self, block: Object, role: str, path: Path, words: list[str], *, joined: bool
    ) -> None:
        kind = _kind(block)
        if kind == "toolUse" and role == "assistant" and self._call(block, path, joined=joined):
            return
        if kind == "toolResult" and role == "user" and self._result(block, path, joined=joined):
            return
        held, patch, more = self.block(block, path, is_answer=role == "assistant")
        if kind in _DEEP and len(block) == 1 and type(held) is FileContentClass:
            path = (*path, kind)
            if patch is not None:
                patch, more = patch["d"][kind], [*more, INNER]
        self.add(role, held, path, joined, _residue(patch, [*words, *more]))

    # --- calls and results ---------------------------------------------------------------------

    def _call(self, block: Object, path: Path, *, joined: bool) -> bool:
        """Add a call; False for a call of the server or an invalid one."""
        fields = {**block["toolUse"]} if type(block["toolUse"]) is dict else {}
        given = fields.pop("input", absent)
        fields = decoded(fields)
        kind = fields.get("type")
        identifier, name = fields.get("toolUseId"), fields.get("name")
        if kind not in (None, TYPED) or not is_named(identifier) or not is_named(name):
            return False
        words = []
        if kind is not None:
            words.append(TYPED)
            del fields["type"]
        del fields["toolUseId"], fields["name"]
        dropped: list[str] = []
        text = "{}"
        if given is absent:
            dropped = ["input"]
        elif plain(given) is None:
            text, fields["input"] = "", None
        else:
            text = spelled_text(given) if type(given) is Raw else write_json(given)
            if text.lstrip()[:1] == "{":
                text = unwrapped_input(text)
            elif type(value := plain(given)) is str:
                text = value
                words.append(STRING)
            else:
                words.append(BARE)
        inner = nested(fields, {}, dropped) if fields or dropped else None
        patch = _beside(block, "toolUse", inner)
        if not joined:
            self.add("assistant", absent, path[:-2], False, None)
        residue = _residue(patch, words)
        own = (identifier, name, False)
        self.canisters.append(new_invocation(text, self.when, True, residue, None, *own))
        self.paths.append(path)
        return True

    def _result(self, block: Object, path: Path, *, joined: bool) -> bool:
        """Add a result; False for a result of the server or an invalid one."""
        fields = decoded(block["toolResult"]) if type(block["toolResult"]) is dict else {}
        identifier, content = fields.get("toolUseId"), fields.get("content")
        if "type" in fields or not is_named(identifier) or type(content) is not list:
            return False
        del fields["toolUseId"], fields["content"]
        words: list[str] = []
        error: Any = absent
        status = fields.get("status")
        if status == "error":
            error = True
        elif status == "success":
            words.append(SUCCESS)
        if status in ("error", "success"):
            del fields["status"]
        held, inner, more = self._parts(content, (*path, "toolResult", "content"))
        if fields or inner is not None:
            inner = nested(fields, {"content": inner})
        patch = _beside(block, "toolResult", inner)
        residue = _residue(patch, words + more)
        self.canisters.append(new_result(held, self.when, joined, residue, None, identifier, error))
        self.paths.append(path)
        return True

    def _parts(self, content: list[Any], path: Path) -> Held:
        """The contents of a result's blocks, together."""
        if not content:
            return "", None, [EMPTY]
        found: list[Any] = []
        patches: Object = {}
        words: list[str] = []
        for index, item in enumerate(content):
            where = path + (index,)
            if type(item) is not dict:
                self.object(item, where)
            held, patch, more = self.block(item, where, is_answer=False)
            found.append(held)
            words += [f"{index}:{word}" for word in more]
            if patch:
                patches[str(index)] = patch
        inner = {"i": patches} if patches else None
        if len(found) == 1:
            return found[0], inner, words
        return new_parts(tuple(map(as_content, found))), inner, words

    # --- blocks --------------------------------------------------------------------------------

    def block(self, block: Object, path: Path, *, is_answer: bool) -> Held:
        """The content of one block and the rest of it; an unknown block is kept whole."""
        kind = _kind(block)
        if kind == "text" and len(block) == 1 and type(block["text"]) is str:
            return block["text"], None, []
        found = {key: opened(value) for key, value in block.items()}
        held = None
        if kind is not None and kind in self._blocks and (kind != _THOUGHT or is_answer):
            held = self._blocks[kind](self, found[kind], kind, path)
        if kind is None or held is None:
            tag = kind or next(iter(found), "unknown")
            return new_opaque(NAME, tag or "unknown", write_json(found)), None, []
        return held[0], _beside(found, kind, held[1]), held[2]

    def _text(self, value: Any, _kind: str, _path: Path) -> Held | None:
        return (value, None, []) if type(value) is str else None

    def _json(self, value: Any, _kind: str, _path: Path) -> Held | None:
        return new_data(write_json(value)), None, []

    def _reasoning(self, value: Any, _kind: str, _path: Path) -> Held | None:
        if type(value) is not dict:
            return None
        others = {**value}
        thought, sealed = others.pop("reasoningText", None), others.pop("redactedContent", None)
        if "reasoningText" in value and "redactedContent" in value:
            return None
        if type(thought) is dict and type(thought.get("text")) is str:
            facts = {**thought}
            said = facts.pop("text")
            signature = facts.pop("signature") if is_named(facts.get("signature")) else None
            held = new_reasoning((said,) if said else (), (), signature, None, self.origin)
            return held, nested(others, {"reasoningText": set_again(facts)}), []
        if type(sealed) is str and sealed and not others:
            return new_reasoning((), (), None, sealed, self.origin), None, []
        return None

    def _cited(self, value: Any, _kind: str, _path: Path) -> Held | None:
        if type(value) is not dict or not value.keys() & {"content", "citations"}:
            return None
        pieces, listed = value.get("content", []), value.get("citations", [])
        if type(pieces) is not list or not all(map(_is_text, pieces)):
            return None
        if listed != [] and not is_cited(listed):
            return None
        left = {key: item for key, item in value.items() if key not in ("content", "citations")}
        words = [] if listed else [CITED]
        text = "".join(each["text"] for each in pieces)
        if "content" in value and (len(pieces) != 1 or not text):
            words.append(LENGTHS + ",".join(str(len(each["text"])) for each in pieces))
        patch = nested(left, {}, [] if "citations" in value else ["citations"])
        held = new_text(text, PLAIN, tuple(map(read_citation, listed))) if listed else text
        return held, patch, words

    def _guarded(self, value: Any, _kind: str, path: Path) -> Held | None:
        """The content of a guarded block; the guard itself is residue."""
        if type(value) is not dict:
            return None
        kind = "text" if "text" in value else "image"
        inner = value.get(kind)
        if type(inner) is not dict or ("text" in value and "image" in value):
            return None
        others = {key: item for key, item in value.items() if key != kind}
        if kind == "text":
            if type(inner.get("text")) is not str:
                return None
            left = {key: item for key, item in inner.items() if key != "text"}
            return inner["text"], {"v": {**others, "text": left}}, [GUARDED]
        held = self._medium(inner, "image", (*path, "image"))
        if held is None or type(held[0].payload) is not Base64 or held[1] is not None:
            return None
        return held[0], {"v": {**others, "image": {}}}, [GUARDED, *held[2]]

    def _medium(self, value: Any, kind: str, _path: Path) -> Held | None:
        if type(value) is not dict:
            return None
        fields = {**value}
        source, name = fields.pop("source", None), fields.pop("format", None)
        found = _payload(source)
        if type(name) is not str or not _FORMAT.fullmatch(name):
            return None
        if found is None:
            return None
        payload, inner = found
        mime_type = _FORMATS[kind].get(name, f"{kind}/{name.lower()}")
        words = [] if format_of(kind, mime_type) == name else [FORMAT + name]
        return _MAKERS[kind](payload, mime_type), nested(fields, {"source": inner}), words

    def _document(self, value: Any, _kind: str, _path: Path) -> Held | None:
        if type(value) is not dict:
            return None
        fields = {**value}
        name, source, title = (fields.pop(key, None) for key in ("format", "source", "name"))
        has_format = "format" in value
        if type(title) is not str or (
            has_format and (type(name) is not str or name not in DOCUMENTS)
        ):
            return None
        found = self._source(source)
        if found is None:
            return None
        payload, chunks, inner, words = found
        if has_format:
            mime_type = DOCUMENTS[str(name)]
        else:
            words = [*words, FORMAT]
            mime_type = _guessed(payload, is_text=AS_TEXT in words)
        context = fields.pop("context") if type(fields.get("context")) is str else None
        citable, cited = take_citable(fields)
        held = new_file(payload, mime_type, title or None, context, citable, chunks)
        if not title:
            fields["name"] = title
        return held, nested(fields, {"source": inner, "citations": cited}), words

    def _source(self, source: Any) -> tuple[Any, tuple[Any, ...], Object | None, list[str]] | None:
        """The payload and chunks of a document, the rest of its source, and words of its form."""
        match source:
            case {"text": str(said)} if len(source) == 1:
                return said.encode(), (), None, [AS_TEXT]
            case {"content": [_, *_] as listed} if len(source) == 1 and all(map(_is_text, listed)):
                return b"", tuple(new_text(each["text"]) for each in listed), None, []
        found = _payload(source)
        return None if found is None else (found[0], (), found[1], [])

    def _search_result(self, value: Any, _kind: str, _path: Path) -> Held | None:
        if type(value) is not dict:
            return None
        fields = {**value}
        source, title, listed = (fields.pop(key, None) for key in ("source", "title", "content"))
        if type(source) is not str or type(title) is not str or type(listed) is not list:
            return None
        if not listed or not all(map(_is_text, listed)):
            return None
        citable, cited = take_citable(fields)
        chunks = tuple(new_text(each["text"]) for each in listed)
        held = new_file(b"", SEARCH_RESULT, title, source, citable, chunks)
        return held, nested(fields, {"citations": cited}), []

    _blocks: ClassVar[dict[str, Callable[[Any, Any, str, Path], Held | None]]] = {
        "text": _text,
        "json": _json,
        "image": _medium,
        "video": _medium,
        "audio": _medium,
        "document": _document,
        "searchResult": _search_result,
        _THOUGHT: _reasoning,
        "citationsContent": _cited,
        "guardContent": _guarded,
    }


def read_citation(item: Object) -> Citation:
    """A citation: it covers its whole block, so it has no span."""
    location = item.get("location")
    web = location.get("web") if type(location) is dict else None
    url = web.get("url") if type(web) is dict else item.get("source")
    pieces = item.get("sourceContent")
    cited = None
    if type(pieces) is list and pieces and all(map(_is_text, pieces)):
        cited = "".join(each["text"] for each in pieces)
    return Citation(
        NAME, write_json(item), text_or_none(url), text_or_none(item.get("title")), cited
    )


def _payload(source: Any) -> tuple[Any, Object | None] | None:
    """The payload of a source, and the rest of it; None for an unknown source."""
    if type(source) is not dict or ("bytes" in source and "s3Location" in source):
        return None
    others = {**source}
    data, place = others.pop("bytes", None), others.pop("s3Location", None)
    if type(data) is str:
        return Base64(data), set_again(others)
    if type(place) is not dict or not is_named(place.get("uri")):
        return None
    rest = {key: value for key, value in place.items() if key != "uri"}
    return Location("url", place["uri"]), nested(others, {"s3Location": set_again(rest)})


def _guessed(payload: Any, *, is_text: bool) -> str:
    """The type of a document without a format."""
    if is_text:
        return PLAIN
    if not isinstance(payload, Base64):
        return ""
    return sniff(payload) or UNKNOWN_TYPE


def _kind(block: Object) -> str | None:
    """The kind of a block; None without exactly one."""
    if len(block) == 1:
        kind: str = next(iter(block))
        return kind if kind in KINDS else None
    found = KINDS & block.keys()
    return next(iter(found)) if len(found) == 1 else None


def _beside(block: Object, kind: str, inner: Object | None) -> Object | None:
    """The patch of a block from the patch of its content."""
    if inner is None and len(block) == 1:
        return None
    others = {key: opened(value) for key, value in block.items() if key != kind}
    return nested(others, {kind: inner})


def _residue(patch: Object | None, words: list[str]) -> Residue | None:
    if patch is None and not words:
        return None
    part = None if patch is None else encode(patch).decode()
    return Residue(NAME, part, None, " ".join(words) or None)


def is_cited(listed: Any) -> bool:
    """Whether a value is a list with citations."""
    return type(listed) is list and bool(listed) and all(type(each) is dict for each in listed)


def _is_text(value: Any) -> bool:
    return type(value) is dict and value.keys() == {"text"} and type(value["text"]) is str

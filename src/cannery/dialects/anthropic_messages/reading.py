"""Reads Messages bodies.

A reader takes the keys that it understands from each object; the rest is residue. A message becomes one canister per
block, joined. The top-level system comes first, as supervisors; a message of role system is a supervisor at its place
that remembers its position. The input of a call keeps the body's spelling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import msgspec
from msgspec import Raw

from cannery.dialects.anthropic_messages.models import NAME
from cannery.dialects.anthropic_messages.settings import (
    TABLE,
    Path,
    read_mark,
    read_tool,
    refuse,
)
from cannery.families.blocks.reading import (
    ROLES,
    BlockReader,
    take_citable,
    text_or_none,
)
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    new_assistant,
    new_invocation,
    new_result,
    new_user,
)
from cannery.messages.content import (
    PLAIN,
    Citation,
    new_file,
    new_image,
    new_opaque,
    new_parts,
    new_reasoning,
    new_text,
)
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.payload import Base64, Location
from cannery.messages.requests import Request, new_request
from cannery.messages.residue import Residue
from cannery.wire.arguments import RAW_ARGUMENTS, unwrapped_input
from cannery.wire.bodies import (
    Object,
    body_reader,
    decode,
    decoded,
    encode,
    is_named,
    kind_of,
    long_text,
    opened,
    spelled_object,
)
from cannery.wire.call_ids import set_apart
from cannery.wire.contents import as_content
from cannery.wire.controls import take_listed
from cannery.wire.media import SEARCH_RESULT
from cannery.wire.patches import base64_of
from cannery.wire.places import Places
from cannery.wire.residues import nested, set_again

# The form of a system message among the messages; ``:`` and the form of its content may follow.
INLINE = "message"
# The forms of a call whose input is not an object: JSON, or a string, as some clients build it from a stream.
BARE, STRING = "bare", "text"
# The content of a block, and the patch for the rest of it.
Held = tuple[Any, Object | None]
# Payload, type and chunks of a document, and the patch for the rest of its source.
Source = tuple[Any, str, tuple[Any, ...], Object | None]
_EITHER = "a string or a list of blocks"
# Objects in blocks and tools keep their fields as text: call inputs and tool schemas only pass through.
_Scalar = bool | int | float | str | None
_Object = _Scalar | list[Any] | dict[str, Raw]
_Block = _Scalar | list[Any] | dict[str, _Object]
_Item = _Scalar | list[Any] | dict[str, _Scalar | list[_Block] | dict[str, Raw]]
decode_levels = msgspec.json.Decoder(dict[str, _Scalar | list[_Item] | dict[str, Any]]).decode


@body_reader(NAME, decode_levels)
def read_request(body: Object, places: Places) -> Request:
    """Read the request from a body."""
    if "messages" not in body:
        refuse(("messages",), "is required")
    messages = body.pop("messages")
    system = body.get("system")
    if system is not None:
        if system == []:
            system = None
        else:
            del body["system"]
    tools = (*map(read_tool, take_listed(NAME, body, "tools")),) if "tools" in body else ()
    settings = TABLE.read(body, places, tools)
    reader = MessageReader(NAME, places, settings[0])
    if system is not None:
        reader.content(system, "system", ("system",), None, None)
    if type(messages) is not list:
        refuse(("messages",), f"expected a list, got {kind_of(messages)}")
    for index, message in enumerate(messages):
        reader.message(message, ("messages", index))
    if reader.made:
        set_apart(reader.canisters, reader.made)
    return new_request(Conversation.trusted(reader.canisters), *settings, NAME)  # type: ignore[no-any-return]


class MessageReader(BlockReader):
    """Reads the messages of one body."""

    # --- messages ------------------------------------------------------------------------------

    def message(self, message: Any, place: Path) -> None:
        """One message of a body."""
        if type(message) is not dict:
            self.object(message, place)
        role = message.pop("role", absent)
        if type(role) is not str or role not in ROLES:
            role = self.role(role, place)
        content = message.pop("content", absent)
        envelope = encode({"s": message}).decode() if message else None
        if type(content) is str and role != "system":
            residue = None if envelope is None else Residue(NAME, None, envelope)
            make = new_user if role == "user" else new_assistant
            self.canisters.append(make(content, self.when, False, residue))
            self.paths.append(place + ("content",))
        elif content is absent:
            self._without_content("absent", role, place, envelope)
        elif role == "assistant":
            self.answer(content, place + ("content",), envelope)
        elif role != "system":
            self.content(content, role, place + ("content",), envelope, None)
        elif content is None:
            self._without_content("null", role, place, envelope)
        else:
            self.content(content, role, place + ("content",), envelope, INLINE)

    def _without_content(self, form: str, role: str, place: Path, envelope: str | None) -> None:
        if role != "system":
            refuse(place + ("content",), "is required")
        residue = Residue(NAME, None, envelope, f"{INLINE}:{form}")
        self.add(role, "", place, False, residue)

    def content(
        self, content: Any, role: str, path: Path, envelope: str | None, form: str | None
    ) -> None:
        """The content of a user or system message: a canister for each block."""
        if type(content) is str:
            residue = Residue(NAME, None, envelope, form) if envelope or form else None
            self.add(role, content, path, False, residue)
        elif type(content) is not list:
            refuse(path, f"expected {_EITHER}")
        elif not content:
            self.add(role, "", path, False, Residue(NAME, None, envelope, _shape(form, "empty")))
        else:
            is_single, joined = len(content) == 1, False
            for index, block in enumerate(content):
                where = path + (index,)
                if type(block) is not dict:
                    self.object(block, where)
                if role == "user" and block.get("type") == "tool_result":
                    self._result(block, where, joined, envelope)
                else:
                    self.add_block(block, role, where, joined, envelope, is_single, form)
                envelope, joined = None, True

    def answer(self, content: Any, path: Path, envelope: str | None) -> None:
        """The content of an assistant message: a canister for each block, and an empty one before a leading call."""
        if type(content) is str:
            residue = None if envelope is None else Residue(NAME, None, envelope)
            self.add("assistant", content, path, False, residue)
        elif type(content) is not list:
            refuse(path, f"expected {_EITHER}, got {kind_of(content)}")
        elif not content:
            self.add("assistant", absent, path, False, Residue(NAME, None, envelope, "empty"))
        else:
            self.blocks(content, path, envelope, is_single=len(content) == 1)

    def blocks(
        self, content: list[Any], path: Path, envelope: str | None, *, is_single: bool
    ) -> None:
        """The blocks of the assistant; a single block may be the text that a string could replace."""
        for index, block in enumerate(content):
            where = path + (index,)
            if type(block) is not dict:
                self.object(block, where)
            if block.get("type") == "tool_use":
                if not index:
                    silent = None if envelope is None else Residue(NAME, None, envelope)
                    self.add("assistant", absent, path[:-1], False, silent)
                self._call(block, where)
            elif index:
                self.add_block(block, "assistant", where, True, None, False, None)
            else:
                self.add_block(block, "assistant", where, False, envelope, is_single, None)

    def add_block(
        self,
        block: Object,
        role: str,
        path: Path,
        joined: bool,  # noqa: FBT001 - by position, as constructors take it
        envelope: str | None,
        is_single: bool,  # noqa: FBT001 - the same
        form: str | None,
    ) -> None:
        """Add the canister of one block."""
        mark = _read_mark(block) if "cache_control" in block else None
        held, patch = self.block(block, path, is_answer=role == "assistant")
        if is_single and patch is None and type(held) is str:
            # A single text, which a string could replace.
            form = _shape(form, "list")
        residue = None
        if patch or envelope or form or mark:
            part = None if patch is None else encode(patch).decode()
            residue = Residue(NAME, part, envelope, form, None, mark)
        self.add(role, held, path, joined, residue)

    # --- calls and results ---------------------------------------------------------------------

    def _call(self, block: Object, path: Path) -> None:
        identifier, name = _take(block, "id", path), _take(block, "name", path)
        del block["type"]
        given = block.pop("input", absent)
        text, form = "", None
        patch: Object = {"s": block} if block else {}
        if type(given) is dict:
            text = spelled_object(given)
            if RAW_ARGUMENTS in given:
                text = unwrapped_input(text)
        elif given is absent:
            patch["x"] = ["input"]
        elif given is None:
            patch["s"] = {**block, "input": None}
        elif type(given) is str:
            text, form = given, STRING
        else:
            text, form = write_json(given), BARE
        if not identifier:
            identifier = f"call_{len(self.canisters)}"
            self.made.append(len(self.canisters))
            patch["s"] = {**patch.get("s", {}), "id": ""}
        residue = None
        if patch or form:
            part = encode(patch).decode() if patch else None
            mark = _read_mark(block) if "cache_control" in block else None
            residue = Residue(NAME, part, None, form, None, mark)
        self.canisters.append(
            new_invocation(text, self.when, True, residue, None, identifier, name, False)
        )
        self.paths.append(path)

    def _result(
        self,
        block: Object,
        path: Path,
        joined: bool,  # noqa: FBT001 - by position, as constructors take it
        envelope: str | None,
    ) -> None:
        del block["type"]
        identifier = _take(block, "tool_use_id", path)
        held, form, inner = self._result_content(block, path)
        error = absent
        if block.get("is_error") is True:
            error = block.pop("is_error")
        patch: Object = {}
        if inner:
            patch["d"] = {"content": {"i": inner}}
        if block:
            patch["s"] = block
        residue = None
        if patch or form or envelope:
            part = encode(patch).decode() if patch else None
            mark = _read_mark(block) if "cache_control" in block else None
            residue = Residue(NAME, part, envelope, form, None, mark)
        self.canisters.append(new_result(held, self.when, joined, residue, None, identifier, error))
        self.paths.append(path)

    def _result_content(self, block: Object, path: Path) -> tuple[Any, str | None, Object | None]:
        """The content of a result, the form of its content and the patches of its blocks."""
        if "content" not in block:
            return "", "absent", None
        content = block.pop("content")
        if type(content) is str:
            return content, None, None
        if content is None:
            return "", "null", None
        if not content and type(content) is list:
            return "", "empty", None
        parts, inner = self._parts(content, path + ("content",))
        if len(parts) == 1:
            return parts[0], "list", inner
        return new_parts(tuple(map(as_content, parts))), None, inner

    def _parts(self, content: Any, path: Path) -> tuple[list[Any], Object]:
        """The contents of the blocks inside a block, and the patches of those that have residue."""
        self.list(content, path)
        parts: list[Any] = []
        patches: Object = {}
        for index, block in enumerate(content):
            where = path + (index,)
            self.object(block, where)
            held, patch = self.block(block, where, is_answer=False)
            parts.append(held)
            if patch:
                patches[str(index)] = patch
        return parts, patches

    # --- blocks --------------------------------------------------------------------------------

    def block(self, block: Object, path: Path, *, is_answer: bool) -> Held:
        """The content of one block and the rest of it; an unknown block is kept whole."""
        kind = block.get("type")
        if type(kind) is not str:
            refuse(path + ("type",), "expected a string")
        if kind == "text":
            return self._text(block, path)
        for key, value in block.items():
            if type(value) is dict and key != "source":
                block[key] = decoded(value)
        read = self._blocks.get(kind) or (self._thoughts.get(kind) if is_answer else None)
        held = None if read is None else read(self, block, path)
        return (new_opaque(NAME, kind, write_json(block)), None) if held is None else held

    def _text(self, block: Object, path: Path) -> Held:
        said: Any = _take(block, "text", path)
        del block["type"]
        if not block:
            return said, None
        listed = block.get("citations")
        if type(listed) is list and listed and all(type(item) is dict for item in listed):
            del block["citations"]
            said = new_text(said, PLAIN, tuple(map(read_citation, listed)))
        return said, set_again(block)

    def _thinking(self, block: Object, path: Path) -> Held:
        thought = _take(block, "thinking", path)
        del block["type"]
        signature = block.get("signature")
        if type(signature) is str and signature:
            del block["signature"]
        else:
            signature = None
        texts = (thought,) if thought else ()
        return new_reasoning(texts, (), signature, None, self.origin), set_again(block)

    def _redacted(self, block: Object, path: Path) -> Held | None:
        if not block.get("data"):
            return None
        data = _take(block, "data", path)
        del block["type"]
        return new_reasoning((), (), None, data, self.origin), set_again(block)

    def _image(self, block: Object, path: Path) -> Held | None:
        source = _take_source(block, path)
        found = self._payload(source, path + ("source",))
        if found is None:
            block["source"] = source
            return None
        del block["type"]
        return new_image(*found), nested(block, {"source": set_again(source)})

    def _payload(self, source: Object, path: Path) -> tuple[Any, str] | None:
        """The payload and type of a source; None, with nothing taken, for an unknown source."""
        kind = source.get("type")
        if kind == "base64":
            data, media_type = _check(source, "data", path), _check(source, "media_type", path)
            del source["type"], source["data"], source["media_type"]
            return Base64(data), media_type
        key = {"url": "url", "file": "file_id"}.get(kind) if type(kind) is str else None
        if key is None:
            return None
        place = _check(source, key, path)
        if not is_named(place):
            return None
        del source["type"], source[key]
        return Location("url" if key == "url" else "file", place), ""

    def _document(self, block: Object, path: Path) -> Held | None:
        source = _take_source(block, path)
        found = self._document_source(source, path + ("source",))
        if found is None:
            block["source"] = source
            return None
        payload, mime_type, chunks, inner = found
        del block["type"]
        facts = [_take_named(block, "title"), _take_named(block, "context")]
        citable, cited = take_citable(block)
        held = new_file(payload, mime_type, *facts, citable, chunks)
        return held, nested(block, {"source": inner, "citations": cited})

    def _document_source(self, source: Object, path: Path) -> Source | None:
        """Payload, type and chunks of a document, and the rest of its source; None if the source is unknown."""
        kind = source.get("type")
        if kind == "text":
            return _text_source(source, path)
        if kind == "content":
            if "content" not in source:
                refuse(path + ("content",), "is required")
            content = source["content"]
            if content == []:
                return None
            del source["type"], source["content"]
            if type(content) is str:
                return b"", PLAIN, (new_text(content),), set_again(source)
            parts, inner = self._parts(content, path + ("content",))
            patch = nested(source, {"content": {"i": inner} if inner else None})
            return b"", "", tuple(map(as_content, parts)), patch
        found = self._payload(source, path)
        if found is None:
            return None
        payload, mime_type = found
        patch = set_again(source)
        if isinstance(payload, Base64) and mime_type.startswith("text/"):
            if not payload.is_readable:
                source.update(type="base64", data=payload.text, media_type=mime_type)
                return None
            patch = {**(patch or {}), **_as_base64(payload)}
        return payload, mime_type, (), patch

    def _search_result(self, block: Object, path: Path) -> Held | None:
        source, title = _check(block, "source", path), _check(block, "title", path)
        if "content" not in block:
            refuse(path + ("content",), "is required")
        content = block.pop("content")
        if content == []:
            block["content"] = content
            return None
        parts, inner = self._parts(content, path + ("content",))
        del block["type"], block["source"], block["title"]
        citable, cited = take_citable(block)
        chunks = tuple(map(as_content, parts))
        held = new_file(b"", SEARCH_RESULT, title, source, citable, chunks)
        return held, nested(block, {"content": {"i": inner} if inner else None, "citations": cited})

    _blocks: ClassVar[dict[str, Callable[[Any, Object, Path], Held | None]]] = {
        "image": _image,
        "document": _document,
        "search_result": _search_result,
    }
    _thoughts: ClassVar[dict[str, Callable[[Any, Object, Path], Held | None]]] = {
        "thinking": _thinking,
        "redacted_thinking": _redacted,
    }


def _take_source(block: Object, path: Path) -> Object:
    source = _take(block, "source", path, dict)
    return {
        key: long_text(value) if key == "data" else decode(value) if type(value) is Raw else value
        for key, value in source.items()
    }


def _read_mark(block: Object) -> str | None:
    block["cache_control"] = opened(block["cache_control"])
    return read_mark(block)


def read_citation(item: Object) -> Citation:
    """A citation: it covers its whole text block, so it has no span."""
    url = item.get("url", item.get("source"))
    title = item.get("title", item.get("document_title"))
    cited = text_or_none(item.get("cited_text"))
    return Citation(NAME, write_json(item), text_or_none(url), text_or_none(title), cited)


def _text_source(source: Object, path: Path) -> Source:
    data = _take(source, "data", path, str)
    del source["type"]
    patch: Object = {}
    mime_type = source.get("media_type")
    if type(mime_type) is str:
        del source["media_type"]
    else:
        mime_type = PLAIN
        patch = {} if "media_type" in source else {"x": ["media_type"]}
    if not mime_type.startswith("text/"):
        # Writing gives a base64 source.
        patch.update(d={"data": {"b": False}}, m={"type": "text"})
    if source:
        patch["s"] = source
    return data.encode(), mime_type, (), patch or None


def _as_base64(payload: Base64) -> Object:
    """The patch of a text document that came in base64; writing gives a text source."""
    spelled = payload.text
    if base64_of(payload.data.decode("utf-8", "replace").encode()) == spelled:
        return {"d": {"data": {"b": True}}, "m": {"type": "base64"}}
    return {"m": {"type": "base64", "data": spelled}}


def _take_named(block: Object, key: str) -> str | None:
    """Take a field if it is text."""
    return block.pop(key) if type(block.get(key)) is str else None


def _check(block: Object, key: str, path: Path, kind: type = str) -> Any:
    """Check a required field: text, or another kind of value."""
    value = block.get(key, absent)
    if type(value) is not kind:
        _refuse_field(value, path + (key,), kind)
    return value


def _take(block: Object, key: str, path: Path, kind: type = str) -> Any:
    """Check a required field and take it."""
    value = block.pop(key, absent)
    if type(value) is not kind:
        _refuse_field(value, path + (key,), kind)
    return value


def _refuse_field(value: Any, path: Path, kind: type) -> NoReturn:
    if value is absent:
        refuse(path, "is required")
    expected = "a string" if kind is str else "an object"
    refuse(path, f"expected {expected}, got {kind_of(value)}")


def _shape(form: str | None, shape: str) -> str:
    return shape if form is None else f"{form}:{shape}"

"""Reads messages of the OpenTelemetry conventions.

Each part of a message becomes a canister. The reader takes the keys that it understands, and the rest is the residue.
Keys that begin with ``cannery.`` hold what the conventions cannot express (``writing``). The form of a canister is a
list of words about the spelling of its message and part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cannery.dialects.otel_genai.hosted import BLOCK, CALL, RESPONSE, kept_block
from cannery.dialects.otel_genai.settings import NAME, RESIDUE, converted, is_usual_object
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    ResultCanisterClass,
    new_assistant,
    new_document,
    new_invocation,
    new_result,
    new_supervisor,
    new_user,
)
from cannery.messages.checked import now
from cannery.messages.content import (
    Citation,
    Origin,
    new_audio,
    new_data,
    new_file,
    new_image,
    new_opaque,
    new_parts,
    new_reasoning,
    new_refusal,
    new_text,
    new_video,
)
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.payload import Base64, Location, Payload
from cannery.messages.residue import Residue
from cannery.roles.vocabularies import OPENAI
from cannery.wire.bodies import Object, Reader, is_named
from cannery.wire.media import sniff
from cannery.wire.places import Path, path_text
from cannery.wire.residues import set_again
from cannery.wire.turns import MODEL, SIDES, USER
from cannery.wire.wire_roles import read_role

_TOOL_ROLES = ("tool", "function")
_MEDIA = {"image": new_image, "audio": new_audio, "video": new_video, "document": new_file}
# The media types of bytes of unknown type.
_UNKNOWN_TYPES = {
    "image": "image/*",
    "audio": "audio/*",
    "video": "video/*",
    "document": "application/octet-stream",
}
# The key of a media part's reference, and the kind of location.
_LOCATIONS = {"uri": ("uri", "url"), "file": ("file_id", "file")}
_Read = Callable[["MessageReader", Object], Any]


class Reasoning(msgspec.Struct, forbid_unknown_fields=True):
    """The facts of a thought beyond its text."""

    texts: tuple[str, ...] = ()
    summaries: tuple[str, ...] = ()
    signature: str | None = None
    encrypted: str | None = None
    origin: Origin | None = None


class File(msgspec.Struct, forbid_unknown_fields=True):
    """The facts of a file beyond its bytes."""

    name: str | None = None
    context: str | None = None
    citable: bool | None = None
    chunks: list[Any] | None = None


class MessageReader(Reader):
    """Reads messages in order; ``places`` takes the path of each canister."""

    def __init__(self, places: list[Path], *, is_answer: bool = False) -> None:
        super().__init__(NAME)
        self.is_answer = is_answer
        self.canisters: list[AnyCanister] = []
        self.places = places
        self.when = now()
        # Generated ids of calls, which results without an id answer in this order.
        self._waiting: list[str] = []
        # Positions of calls and results with such ids.
        self.made: list[int] = []
        self._count = 0

    def instructions(self, listed: Any, key: str) -> None:
        """System instructions: bare parts, or whole messages as some exporters write them."""
        for index, item in enumerate(self.list(listed, (key,))):
            path = (key, index)
            part = self.object(item, path)
            if "parts" in part:
                self.message(part, path, ["instructions"])
            else:
                self._part(part, "system", path, None, ["instructions", "bare"], joined=index > 0)

    def messages(self, listed: Any, key: str) -> None:
        """All messages of a list."""
        for index, item in enumerate(self.list(listed, (key,))):
            self.message(self.object(item, (key, index)), (key, index), [])

    def message(self, message: Object, path: Path, words: list[str]) -> None:
        """Read one message; ``words`` begin the form of its canisters."""
        place = path_text(path)
        role = read_role(NAME, self.field(message, "role", place), OPENAI, f"{place}.role")
        parts = self.list(self.field(message, "parts", place), f"{place}.parts")
        del message["role"], message["parts"]
        if self.is_answer and role != "assistant":
            # An output message is the model's, whatever its role is called.
            message["role"], role = role, "assistant"
        is_joined = message.get("cannery.joined") is True and self._may_join(role)
        if is_joined:
            del message["cannery.joined"]
        envelope = set_again(message)
        if role == "function":
            words = [*words, role]
        if not parts:
            residue = _kept(None, envelope, [*words, "empty"])
            self._add(self._spoken("", role, residue, joined=is_joined), path)
        elif not is_joined and self._falls_to_neighbour(parts[0], role):
            opener = self._spoken(
                absent, role, _kept(None, envelope, [*words, "opener"]), joined=False
            )
            self._add(opener, path)
            envelope, is_joined = None, True
        for index, item in enumerate(parts):
            where = (*path, "parts", index)
            part = self.object(item, where)
            joined = is_joined if index == 0 else not self._opens(part)
            self._part(part, role, where, envelope, words, joined=joined)
            envelope = None

    def _may_join(self, role: str) -> bool:
        """Whether a message continues one message of results and other parts."""
        if self.is_answer or not self.canisters or role not in ("user", *_TOOL_ROLES):
            return False
        last = self.canisters[-1]
        is_split = isinstance(last, ResultCanisterClass) is not (role in _TOOL_ROLES)
        return SIDES[type(last)] == USER and is_split

    def _opens(self, part: Object) -> bool:
        """Whether a part of a response begins a wire message; its mark is taken off."""
        is_marked = self.is_answer and part.get("cannery.opens") is True
        if is_marked:
            del part["cannery.opens"]
        return is_marked

    def _falls_to_neighbour(self, part: Any, role: str) -> bool:
        """Whether a call that opens a message would belong to the model's turn before it."""
        is_call = role == "assistant" and type(part) is dict and part.get("type") == "tool_call"
        return is_call and bool(self.canisters) and SIDES[type(self.canisters[-1])] == MODEL

    def _add(self, canister: AnyCanister, path: Path) -> None:
        self.canisters.append(canister)
        self.places.append(path)

    def _part(
        self,
        part: Object,
        role: str,
        path: Path,
        envelope: Object | None,
        words: list[str],
        *,
        joined: bool,
    ) -> None:
        """Add the canister of one part."""
        kind = self.text_field(part, "type", path_text(path))
        more: list[str] = []
        if kind == "tool_call" and role == "assistant" and type(part.get("name")) is str:
            made = self._call(part, more, joined=joined)
        elif kind == "tool_call_response" and self._answers(role) and "response" in part:
            made = self._response(part, more, joined=joined)
        else:
            title = part.get("cannery.document")
            is_silent = kind == "cannery.silence" and role == "assistant"
            held = absent if is_silent else self.content(part, kind)
            if role in _TOOL_ROLES:
                more.append("spoken")
            if is_silent and RESIDUE not in part:
                more.append("silent")
            made = self._spoken(held, role, None, joined=joined)
            if type(title) is dict and role == "user" and held is not None:
                made = self._document(made, part)
        residue = self._residue(part, envelope, [*words, *more])
        self._add(made if residue is None else msgspec.structs.replace(made, residue=residue), path)

    def _answers(self, role: str) -> bool:
        """Whether a message of this role has results: tool messages, and responses with tools of their own."""
        return role in _TOOL_ROLES or (self.is_answer and role == "assistant")

    def _residue(self, left: Object, envelope: Object | None, words: list[str]) -> Residue | None:
        """The residue of a part: its own, or that of another dialect if there is nothing beside it."""
        left.pop("type", None)
        if left.keys() == {RESIDUE} and envelope is None and not words:
            found = converted(left[RESIDUE], Residue)
            if found is not None and found.dialect != NAME:
                return found  # type: ignore[no-any-return]
        return _kept(left, envelope, words)

    def _spoken(self, held: Any, role: str, residue: Residue | None, *, joined: bool) -> Any:
        if role == "user":
            return new_user(held, self.when, joined, residue)
        if role == "assistant":
            return new_assistant(held, self.when, joined, residue)
        if role in _TOOL_ROLES:
            return new_result(held, self.when, joined, residue)
        return new_supervisor(held, self.when, joined, residue, None, role)

    def _document(self, made: Any, part: Object) -> Any:
        """A user part as the document that it was."""
        match part["cannery.document"]:
            case {"title": str(given), **others} if not others:
                title: Any = given
            case {**others} if not others:
                title = absent
            case _:
                return made
        del part["cannery.document"]
        return new_document(made.held, made.timestamp, made.joined, None, None, title)

    # --- calls and results ---------------------------------------------------------------------

    def _call(self, part: Object, words: list[str], *, joined: bool) -> Any:
        identifier = part.get("id", absent)
        if type(identifier) is str:
            del part["id"]
        else:
            self._count += 1
            if identifier is absent:
                words.append("no_id")
            identifier = f"call_{self._count}"
            self._waiting.append(identifier)
            self.made.append(len(self.canisters))
        given = part.pop("arguments", absent)
        # Free text is always a string; an object keeps the key as a field that is not understood.
        is_freeform = part.get("cannery.freeform") is True and type(given) is str
        if is_freeform:
            del part["cannery.freeform"]
        text = given if is_freeform else _arguments(given, words)
        return new_invocation(
            text, self.when, joined, None, None, identifier, part.pop("name"), is_freeform
        )

    def _response(self, part: Object, words: list[str], *, joined: bool) -> Any:
        identifier = part.get("id", absent)
        if type(identifier) is str:
            del part["id"]
        else:
            if identifier is absent:
                words.append("no_id")
            identifier = ""
            if self._waiting:
                identifier = self._waiting.pop(0)
                self.made.append(len(self.canisters))
        held = self._answered(part)
        error = part.get("cannery.error", absent)
        if error is True or type(error) is str:
            del part["cannery.error"]
        else:
            error = absent
        return new_result(held, self.when, joined, None, None, identifier, error)

    def _answered(self, part: Object) -> Any:
        """The output of a tool: text, a JSON value, or contents that were written as parts."""
        response, shape = part.pop("response"), part.get("cannery.content")
        if type(response) is list and (
            shape == "parts" or (shape == "part" and len(response) == 1)
        ):
            contents = [self._inner(item) for item in response]
            if all(content is not None for content in contents):
                del part["cannery.content"]
                return new_parts(contents) if shape == "parts" else contents[0]
        if type(response) is str:
            return response
        text = write_json(response)
        if _spells(part.get("cannery.json"), text):
            text = part.pop("cannery.json")
        return new_data(text)

    def _inner(self, item: Any) -> Any:
        """A content inside another; None if any of it would be left over."""
        if type(item) is not dict or type(item.get("type")) is not str:
            return None
        copy = {**item}
        held = self.content(copy, item["type"])
        copy.pop("type", None)
        return None if copy else new_text(held) if type(held) is str else held

    # --- contents ------------------------------------------------------------------------------

    def content(self, part: Object, kind: str) -> Any:
        """The content of one part; its keys are taken."""
        read = _PARTS.get(kind)
        held = None if read is None else read(self, part)
        if held is None:
            held = new_opaque(NAME, kind, write_json(part))
            part.clear()
        return held

    def _text(self, part: Object) -> Any:
        if type(part.get("content")) is not str:
            return None
        text = part.pop("content")
        cited = converted(part.get("cannery.citations"), tuple[Citation, ...])
        mime_type = part.get("cannery.mime_type")
        if not cited and type(mime_type) is not str:
            return text
        if cited:
            del part["cannery.citations"]
        if type(mime_type) is str:
            del part["cannery.mime_type"]
        else:
            mime_type = "text/plain"
        return new_text(text, mime_type, cited or ())

    def _refusal(self, part: Object) -> Any:
        text = part.get("content")
        return new_refusal(part.pop("content")) if type(text) is str else None

    def _reasoning(self, part: Object) -> Any:
        text = part.get("content")
        if type(text) is not str:
            return None
        more = converted(part.get("cannery.reasoning"), Reasoning)
        if more is not None:
            made = new_reasoning(
                more.texts, more.summaries, more.signature, more.encrypted, more.origin
            )
            if made.shown == text:
                del part["content"], part["cannery.reasoning"]
                return made
        del part["content"]
        return new_reasoning((text,) if text else ())

    def _blob(self, part: Object) -> Any:
        data = part.get("content")
        payload = Base64(data) if type(data) is str and data else b""
        return self._media(part, "content", payload) if type(data) is str else None

    def _located(self, part: Object) -> Any:
        key, kind = _LOCATIONS[part["type"]]
        target = part.get(key)
        return self._media(part, key, Location(kind, target)) if is_named(target) else None

    def _media(self, part: Object, key: str, payload: Payload) -> Any:
        modality, mime_type = part.get("modality"), part.get("mime_type")
        make = _MEDIA.get(modality) if type(modality) is str else None
        if make is None or type(mime_type) not in (str, type(None)):
            return None
        facts: tuple[Any, ...] = ()
        if make is new_file and "cannery.file" in part:
            facts = self._file_facts(part)
        del part[key], part["modality"]
        if mime_type is not None:
            del part["mime_type"]
            return make(payload, mime_type, *facts)
        if isinstance(payload, Location):
            return make(payload, "", *facts)
        # The type comes from the bytes; a type of null stays in the residue.
        if "mime_type" not in part:
            part["cannery.no_type"] = True
        return make(payload, sniff(payload) or _UNKNOWN_TYPES[str(modality)], *facts)

    def _file_facts(self, part: Object) -> tuple[Any, ...]:
        """Name, context, switch and chunks of a file; none if they are not as a writer wrote them."""
        more = converted(part["cannery.file"], File)
        if more is None:
            return ()
        chunks = [self._inner(item) for item in more.chunks or ()]
        if any(chunk is None for chunk in chunks):
            return ()
        del part["cannery.file"]
        return more.name, more.context, more.citable, tuple(chunks)

    def _opaque(self, part: Object) -> Any:
        """A block of another dialect."""
        dialect, tag = part.get("dialect"), part.get("tag")
        if not is_named(dialect) or dialect == NAME or type(tag) is not str or "value" not in part:
            return None
        del part["dialect"], part["tag"]
        return new_opaque(dialect, tag, write_json(part.pop("value")))

    def _hosted(self, part: Object) -> Any:
        """A call of a hosted tool, or what came of one, as the block of another dialect that it is."""
        kept = kept_block(part)
        if kept is None:
            return None
        for key in (BLOCK, part["type"], "id", "name"):
            part.pop(key, None)
        dialect, tag, value = kept
        return new_opaque(dialect, tag, write_json(value))

    def _data(self, part: Object) -> Any:
        return new_data(write_json(part.pop("value"))) if "value" in part else None


_PARTS: dict[str, _Read] = {
    "text": MessageReader._text,  # noqa: SLF001 - a table of its own methods
    "reasoning": MessageReader._reasoning,  # noqa: SLF001 - the same
    "refusal": MessageReader._refusal,  # noqa: SLF001 - the same
    "blob": MessageReader._blob,  # noqa: SLF001 - the same
    "uri": MessageReader._located,  # noqa: SLF001 - the same
    "file": MessageReader._located,  # noqa: SLF001 - the same
    "cannery.opaque": MessageReader._opaque,  # noqa: SLF001 - the same
    CALL: MessageReader._hosted,  # noqa: SLF001 - the same
    RESPONSE: MessageReader._hosted,  # noqa: SLF001 - the same
    "cannery.data": MessageReader._data,  # noqa: SLF001 - the same
}


def _spells(spelled: Any, text: str) -> bool:
    """Whether a text is another spelling of the same JSON."""
    try:
        return type(spelled) is str and write_json(decode_json(spelled)) == text
    except ValueError:
        return False


def _arguments(value: Any, words: list[str]) -> str:
    """The text of a call's arguments; ``words`` gets their spelling if it is unusual."""
    if value is absent or value is None:
        words.append("no_arguments" if value is absent else "null_arguments")
        return ""
    if type(value) is str:
        if is_usual_object(value):
            words.append("quoted")
        return value
    if type(value) is not dict:
        words.append("unquoted")
    return write_json(value)


def _kept(left: Object | None, envelope: Object | None, words: list[str]) -> Residue | None:
    """The residue of one canister; None if there is nothing to keep."""
    if not left and envelope is None and not words:
        return None
    return Residue(
        NAME,
        write_json(set_again(left)) if left else None,
        None if envelope is None else write_json(envelope),
        " ".join(words) or None,
    )

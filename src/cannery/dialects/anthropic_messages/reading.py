"""Reading Messages bodies.

A message becomes one canister for each block, joined; what the model has no place for is remembered as the difference
to what writing would give. The top-level system comes first, as supervisors; a message of role system is a supervisor
at its place that remembers where it stood.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.anthropic_messages.blocks import SEARCH_RESULT, is_bare_text
from cannery.dialects.anthropic_messages.settings import (
    CACHE,
    CONTROL_PATHS,
    NAME,
    read_controls,
    read_tool_choice,
    read_tools,
    write_settings,
)
from cannery.dialects.anthropic_messages.writing import INLINE, MessageWriter
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    new_assistant,
    new_invocation,
    new_result,
)
from cannery.messages.content import (
    PLAIN,
    Citation,
    Origin,
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
from cannery.roles.vocabularies import VOCABULARIES
from cannery.wire.arguments import input_text
from cannery.wire.bodies import Object, guarded, is_named, read_object
from cannery.wire.canister_reading import CanisterReader
from cannery.wire.contract import Piece
from cannery.wire.controls import flag
from cannery.wire.losses import Report
from cannery.wire.places import Places, note_settings
from cannery.wire.residues import patch_text, remember
from cannery.wire.wire_roles import read_role

_ROLES = VOCABULARIES["anthropic"]


def read_request(body: bytes, places: Places) -> Request:
    """The request that a body asks for."""
    value = read_object(NAME, body)
    return guarded(NAME, lambda: _read_request(value, places))  # type: ignore[no-any-return]


def _read_request(body: Object, places: Places) -> Request:
    reader = MessageReader(body.get("model"))
    is_said = reader.system(body.get("system"))
    reader.messages(body)
    return _request(body, reader, places, is_said=is_said)


def _request(body: Object, reader: MessageReader, places: Places, *, is_said: bool) -> Request:
    """The request of what was read and the settings of a body."""
    model = body.get("model")
    places.canisters.extend(reader.paths)
    note_settings(places, body, CONTROL_PATHS)
    request: Request = new_request(
        Conversation.trusted(reader.canisters),
        model if type(model) is str else absent,
        read_tools(body),
        read_tool_choice(body),
        read_controls(body),
        flag(body.get("stream")),
        source=NAME,
    )
    apart = ("messages", "system") if is_said else ("messages",)
    rest = {key: item for key, item in body.items() if key not in apart}
    patch = patch_text(write_settings(request, Report()), rest)
    return request if patch is None else request.replace(residue=Residue(NAME, envelope=patch))


class MessageReader(CanisterReader):
    """Reads the messages of one body, in order."""

    def __init__(self, model: Any = None) -> None:
        super().__init__(NAME)
        self.origin = Origin(NAME, model if type(model) is str else None)
        self.writer = MessageWriter(Report(), at_home=True)

    # --- messages ------------------------------------------------------------------------------

    def system(self, value: Any) -> bool:
        """The system field; whether it says anything."""
        if value is None or value == []:
            return False
        form = self.content(value, "system", "system")
        remember(self.canisters[0], dialect=NAME, form=form)
        return True

    def messages(self, body: Object) -> None:
        """All messages of a body."""
        for index, item in enumerate(self.list(self.field(body, "messages", ""), "messages")):
            self.message(item, index)

    def message(self, item: Any, index: int) -> None:
        """One message of a body."""
        path = f"messages[{index}]"
        message = self.object(item, path)
        role = self._role(message, index)
        start = len(self.canisters)
        form = self._message_content(message, role, f"{path}.content")
        if role == "system":
            for canister in self.canisters[start + 1 :]:
                remember(canister, dialect=NAME, form=INLINE)
            form = INLINE if form is None else f"{INLINE}:{form}"
        beside = {key: value for key, value in message.items() if key != "content"}
        envelope = patch_text({"role": role}, {**beside, "role": role})
        remember(self.canisters[start], dialect=NAME, form=form, envelope=envelope)

    def _role(self, message: Object, index: int) -> str:
        role = self.field(message, "role", f"messages[{index}]")
        return read_role(NAME, role, _ROLES, f"messages.{index}.role")

    def _message_content(self, message: Object, role: str, path: str) -> str | None:
        if role != "system":
            content = self.field(message, "content", path.removesuffix(".content"))
            return self.content(content, role, path)
        content = message.get("content", absent)
        if content is not None and content is not absent:
            return self.content(content, role, path)
        self.add(self.said_by(role, ""), path.removesuffix(".content"))
        return "null" if content is None else "absent"

    def content(self, content: Any, role: str, path: str) -> str | None:
        """Add a canister for each block; give the form of the content where it is not the usual one."""
        if type(content) is str:
            self.add(self.said_by(role, content), path)
            return None
        if type(content) is not list:
            self.fail(path, "expected a string or a list of blocks")
        if not content:
            held = absent if role == "assistant" else ""
            self.add(self.said_by(role, held), path)
            return "empty"
        self.blocks(content, role, path)
        return "list" if is_bare_text(content) else None

    def blocks(self, content: list[Any], role: str, path: str) -> None:
        """Add a canister for each block of a message."""
        start = len(self.canisters)
        for index, item in enumerate(content):
            place = f"{path}[{index}]"
            block = self.object(item, place)
            kind = block.get("type")
            is_joined = len(self.canisters) > start
            if kind == "tool_use" and role == "assistant":
                if not is_joined:
                    self.add(new_assistant(absent, self.when), path.removesuffix(".content"))
                self._call(block, place)
            elif kind == "tool_result" and role == "user":
                self._result(block, place, joined=is_joined)
            else:
                held = self.block(block, place, is_answer=role == "assistant")
                canister = self.add(self.said_by(role, held, joined=is_joined), place)
                self._remember(canister, self.writer.blocks(held, None)[0], block)

    def _remember(self, canister: AnyCanister, ours: Object, block: Object) -> None:
        """Keep what the usual form of a block would not say."""
        mark = block.get("cache_control")
        cache = CACHE.get(str(mark.get("ttl")), "short") if type(mark) is dict else None
        remember(canister, dialect=NAME, part=patch_text(ours, block), cache=cache)

    # --- calls and results ---------------------------------------------------------------------

    def _call(self, block: Object, path: str) -> None:
        identifier = self.text_field(block, "id", path)
        name = self.text_field(block, "name", path)
        value = block.get("input", absent)
        arguments = "" if value is absent or value is None else input_text(value)
        own = (identifier or f"call_{len(self.canisters)}", name, False)
        canister = self.add(new_invocation(arguments, self.when, True, None, None, *own), path)
        ours: Object = {"type": "tool_use", "id": own[0], "name": name}
        # What is an object is written back from its own text; only odd inputs are compared.
        ours["input"] = value if type(value) is dict else {}
        self._remember(canister, ours, block)

    def _result(self, block: Object, path: str, *, joined: bool) -> None:
        identifier = self.text_field(block, "tool_use_id", path)
        held, form = self._result_content(block.get("content", absent), f"{path}.content")
        error = True if block.get("is_error") is True else absent
        own = (identifier, error)
        canister = self.add(new_result(held, self.when, joined, None, None, *own), path)
        remember(canister, dialect=NAME, form=form)
        ours = self.writer.piece_blocks(Piece(canister, None))[0]
        self._remember(canister, ours, block)

    def _result_content(self, content: Any, path: str) -> tuple[Any, str | None]:
        if type(content) is str:
            return content, None
        if content is absent or content is None:
            return "", "absent" if content is absent else "null"
        parts = self._parts(content, path)
        if not parts:
            return "", "empty"
        if len(parts) == 1:
            return parts[0], "list"
        return new_parts(tuple(map(_wrapped, parts))), None

    def _parts(self, content: Any, path: str) -> list[Any]:
        return [
            self.block(self.object(item, f"{path}[{index}]"), f"{path}[{index}]", is_answer=False)
            for index, item in enumerate(self.list(content, path))
        ]

    # --- blocks --------------------------------------------------------------------------------

    def block(self, block: Object, path: str, *, is_answer: bool) -> Any:
        """What one block says; blocks that nobody here knows are kept to the letter."""
        kind = block.get("type")
        match kind:
            case "text":
                return self._text(block, path)
            case "image":
                return self._image(block, path)
            case "document":
                return self._document(block, path)
            case "search_result":
                return self._search_result(block, path)
            case "thinking" if is_answer:
                thought = self.text_field(block, "thinking", path)
                signature = block.get("signature")
                signed = signature if type(signature) is str and signature else None
                texts = (thought,) if thought else ()
                return new_reasoning(texts, (), signed, None, self.origin)
            case "redacted_thinking" if is_answer and block.get("data"):
                data = self.text_field(block, "data", path)
                return new_reasoning((), (), None, data, self.origin)
            case _:
                return self.opaque(block, path)

    def opaque(self, block: Object, path: str) -> Any:
        """A block that nobody here knows."""
        kind = block.get("type")
        if type(kind) is not str:
            self.fail(f"{path}.type", "expected a string")
        return new_opaque(NAME, kind, write_json(block))

    def _text(self, block: Object, path: str) -> Any:
        said = self.text_field(block, "text", path)
        listed = block.get("citations")
        if type(listed) is not list or not listed:
            return said
        if not all(type(item) is dict for item in listed):
            return said
        return new_text(said, PLAIN, tuple(map(read_citation, listed)))

    def _image(self, block: Object, path: str) -> Any:
        source = self.object(self.field(block, "source", path), f"{path}.source")
        found = self._payload(source, f"{path}.source")
        return self.opaque(block, path) if found is None else new_image(*found)

    def _payload(self, source: Object, path: str) -> tuple[Any, str] | None:
        """The payload and type of a source; None for a source that is not known."""
        match source.get("type"):
            case "base64":
                payload = Base64(self.text_field(source, "data", path))
                return payload, self.text_field(source, "media_type", path)
            case "url":
                place = self.text_field(source, "url", path)
                return (Location("url", place), "") if is_named(place) else None
            case "file":
                place = self.text_field(source, "file_id", path)
                return (Location("file", place), "") if is_named(place) else None
            case _:
                return None

    def _document(self, block: Object, path: str) -> Any:
        source = self.object(self.field(block, "source", path), f"{path}.source")
        where = f"{path}.source"
        chunks: tuple[Any, ...] = ()
        found: tuple[Any, str] | None
        if source.get("type") == "text":
            data = self.text_field(source, "data", where)
            media_type = source.get("media_type")
            found = data.encode(), media_type if type(media_type) is str else PLAIN
        elif source.get("type") == "content":
            chunks, mime_type = self._chunks(source, where)
            found = (b"", mime_type) if chunks else None
        else:
            found = self._payload(source, where)
        if found is None or _is_unreadable_text(*found):
            return self.opaque(block, path)
        facts = (_text_or_none(block.get("title")), _text_or_none(block.get("context")))
        return new_file(*found, *facts, _citable(block), chunks)

    def _chunks(self, source: Object, path: str) -> tuple[tuple[Any, ...], str]:
        """The chunks of a document; its type tells one chunk given as a string from a list."""
        content = self.field(source, "content", path)
        if type(content) is str:
            return (new_text(content),), PLAIN
        return tuple(map(_wrapped, self._parts(content, f"{path}.content"))), ""

    def _search_result(self, block: Object, path: str) -> Any:
        source = self.text_field(block, "source", path)
        title = self.text_field(block, "title", path)
        content = self.field(block, "content", path)
        chunks = tuple(map(_wrapped, self._parts(content, f"{path}.content")))
        if not chunks:
            return self.opaque(block, path)
        return new_file(b"", SEARCH_RESULT, title, source, _citable(block), chunks)


def read_citation(item: Object) -> Citation:
    """A citation: it covers its whole text block, so that it has no span."""
    url = item.get("url", item.get("source"))
    title = item.get("title", item.get("document_title"))
    cited = _text_or_none(item.get("cited_text"))
    return Citation(NAME, write_json(item), _text_or_none(url), _text_or_none(title), cited)


def _citable(block: Object) -> bool | None:
    citations = block.get("citations")
    enabled = citations.get("enabled") if type(citations) is dict else None
    return enabled if type(enabled) is bool else None


def _is_unreadable_text(payload: Any, mime_type: str) -> bool:
    return mime_type.startswith("text/") and isinstance(payload, Base64) and not payload.is_readable


def _text_or_none(value: Any) -> str | None:
    return value if type(value) is str else None


def _wrapped(held: Any) -> Any:
    return new_text(held) if type(held) is str else held

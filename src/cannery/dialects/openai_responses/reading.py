"""Reading Responses bodies.

An item becomes one canister, a message one for each part; what the model has no place for is
remembered as the difference to what writing would give. An item of the model directly behind
reasoning, or behind an item that nobody here knows, is joined to it: they are one turn. Roles are
normalized first, so a client's odd spelling never comes back.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.openai_responses.settings import (
    NAME,
    read_controls,
    read_tool_choice,
    read_tools,
    write_settings,
)
from cannery.dialects.openai_responses.writing import (
    MADE,
    MADE_FORMATS,
    ItemWriter,
    after,
    made_item,
    reasoning_item,
)
from cannery.families.openai.shared import cache_mark
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    new_assistant,
    new_invocation,
    new_result,
    new_supervisor,
    new_user,
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
    new_refusal,
    new_text,
)
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.payload import Base64, Location
from cannery.messages.requests import Request, new_request
from cannery.messages.role import Role
from cannery.roles.vocabularies import VOCABULARIES
from cannery.wire.bodies import Object, guarded, is_named, read_object
from cannery.wire.canister_reading import CanisterReader, join
from cannery.wire.contract import Piece
from cannery.wire.controls import flag, integer, text
from cannery.wire.losses import Report
from cannery.wire.markers import read_error_flag
from cannery.wire.media import is_broken, sniff, split_data_url
from cannery.wire.places import Places
from cannery.wire.residues import patch_text, remember
from cannery.wire.wire_roles import read_role

_ROLES = VOCABULARIES["openai"]
_MESSAGE_ROLES = frozenset({"user", "assistant", "system", "developer"})
# Items that the client says, and items that a developer says; the model says all others.
_CLIENT_ITEMS = frozenset(
    {
        "computer_call_output",
        "local_shell_call_output",
        "shell_call_output",
        "apply_patch_call_output",
        "mcp_approval_response",
        "compaction_trigger",
    }
)
_DEVELOPER_ITEMS = frozenset({"additional_tools", "configuration_update"})
# The second stays on calls that are finished, image and all (github.com/Wei-Shaw/sub2api/issues/4051, 2026-07-11).
_MADE_STATES = ("completed", "generating")
_MODEL_ROLES = (Role.Assistant, Role.Invocation)


def read_request(body: bytes, places: Places) -> Request:
    """The request that a body asks for."""
    value = read_object(NAME, body)
    return guarded(NAME, lambda: _read_request(value, places))  # type: ignore[no-any-return]


def _read_request(body: Object, places: Places) -> Request:
    reader = ItemReader(body.get("model"))
    rest = {key: item for key, item in body.items() if key != "input"}
    instructions = body.get("instructions")
    if type(instructions) is str and instructions:
        reader.instructions(instructions)
        del rest["instructions"]
    form = reader.input(body)
    places.canisters.extend(reader.paths)
    request: Any = new_request(
        Conversation.trusted(reader.canisters),
        text(body.get("model")),
        read_tools(body),
        read_tool_choice(body),
        read_controls(body),
        flag(body.get("stream")),
        source=NAME,
    )
    envelope = patch_text(write_settings(request, Report()), rest)
    remember(request, dialect=NAME, envelope=envelope, form=form)
    return request  # type: ignore[no-any-return]


class ItemReader(CanisterReader):
    """Reads the items of one body, in order."""

    def __init__(self, model: Any = None, *, is_answer: bool = False) -> None:
        super().__init__(NAME)
        self.is_answer = is_answer
        self.model = model if type(model) is str else None
        self.writer = ItemWriter(Report(), at_home=True)
        self._reasoning_id: str | None = None
        self._follows_alone = False

    def instructions(self, words: str) -> None:
        """The instructions stand before everything else."""
        canister = self.add(new_supervisor(words, self.when), "instructions")
        remember(canister, dialect=NAME, form="instructions")

    def input(self, body: Object) -> str | None:
        """The input of a request; gives its form where it is no list and no text."""
        given = body.get("input", absent)
        if given is absent or given is None:
            return "absent" if given is absent else "null"
        if type(given) is str:
            canister = self.add(new_user(given, self.when), "input")
            remember(canister, dialect=NAME, form="input")
            return None
        self.items(given, "input")
        return None

    def items(self, given: Any, path: str) -> None:
        """All items of a list."""
        for index, item in enumerate(self.list(given, path)):
            place = f"{path}[{index}]"
            self.item(self.object(item, place), place)

    def item(self, item: Object, path: str) -> list[AnyCanister]:
        """One item: gives the canisters that it became."""
        start = len(self.canisters)
        kind = item.get("type")
        if kind is None and "role" in item:
            kind = "message"
        match kind:
            case "message":
                self._message(item, path)
            case "function_call" | "custom_tool_call":
                self._call(item, kind, path)
            case "function_call_output" | "custom_tool_call_output":
                self._result(item, kind, path)
            case "reasoning":
                self._reasoning(item, path)
            case "image_generation_call" if (made := _made(item)) is not None:
                canister = self.add(new_assistant(made, self.when), path)
                part = patch_text(made_item(made), item)
                remember(canister, dialect=NAME, part=part, form=MADE)
            case _:
                self._other(item, kind, path)
        head = self.canisters[start]
        if head.role not in _MODEL_ROLES:
            self._reasoning_id = None
        elif self._follows_alone:
            self._follow(start, start - 1)
        # What no target could send as a turn of its own takes the next item of the model with it.
        self._follows_alone = head.role is Role.Assistant and kind != "message"
        return self.canisters[start:]

    def _follow(self, position: int, before: int) -> None:
        """Join an item of the model to the reasoning or unknown item before it."""
        join(self.canisters[position])
        previous = self.canisters[before]
        if previous.held.kind == "reasoning":
            words = "" if previous.residue is None else previous.residue.form or ""
            remember(previous, dialect=NAME, form=f"{words} followed".strip())

    def _other(self, item: Object, kind: Any, path: str) -> None:
        """An item that nobody here knows, kept to the letter."""
        if kind is None and type(item.get("id")) is str:
            kind = "item_reference"
        if type(kind) is not str:
            problem = "is required" if kind is None else "expected a string"
            self.fail(f"{path}.type", problem)
        held = new_opaque(NAME, kind, write_json(item))
        if kind in _CLIENT_ITEMS:
            self.add(new_user(held, self.when), path)
        elif kind in _DEVELOPER_ITEMS:
            self.add(new_supervisor(held, self.when, False, None, None, "developer"), path)
        else:
            self.add(new_assistant(held, self.when), path)

    # --- messages ------------------------------------------------------------------------------

    def _message(self, item: Object, path: str) -> None:
        role = self._role(item, path)
        if role != item.get("role"):
            item = {**item, "role": role}
        start = len(self.canisters)
        words = self._content(item.get("content", absent), role, f"{path}.content")
        head = self.canisters[start]
        mark = after(self._reasoning_id) if role == "assistant" else ""
        own = "" if head.residue is None else head.residue.form or ""
        remember(head, dialect=NAME, form=" ".join(filter(None, (words, own, mark))))
        if words or mark:
            for canister in self.canisters[start + 1 :]:
                own = "" if canister.residue is None else canister.residue.form or ""
                remember(canister, dialect=NAME, form=" ".join(filter(None, (words, own, mark))))
        self.writer.reasoning_id = self._reasoning_id
        written = self.writer.message(
            [Piece(canister, None) for canister in self.canisters[start:]]
        )
        remember(head, dialect=NAME, envelope=patch_text(written, item))

    def _role(self, item: Object, path: str) -> str:
        role = self.field(item, "role", path)
        place = f"{path.replace('[', '.').replace(']', '')}.role"
        found = read_role(NAME, role, _ROLES, place)
        if found not in _MESSAGE_ROLES:
            self.fail(f"{path}.role", f"a message has no role {found!r}")
        return found

    def _content(self, content: Any, role: str, path: str) -> str:
        """Add a canister for each part; give the word for the shape of the content."""
        if type(content) is str:
            self.add(self.said_by(role, content), path)
            return ""
        if type(content) is not list:
            if content is not None and content is not absent:
                self.fail(path, "expected a string or a list of parts")
            self.add(self.said_by(role, ""), path)
            return "null" if content is None else "absent"
        for index, item in enumerate(content):
            place = f"{path}[{index}]"
            self.part(self.object(item, place), role, place, joined=index > 0)
        if not content:
            self.add(self.said_by(role, ""), path)
            return "empty"
        is_usual = role != "assistant" and (
            len(content) > 1 or content[0].get("type") != "input_text"
        )
        return "" if is_usual else "list"

    def part(self, part: Object, role: str, path: str, *, joined: bool = False) -> None:
        """One content part of a message."""
        held = self.content(part, path)
        canister = self.add(self.said_by(role, held, joined=joined), path)
        write = self.writer.output_parts if role == "assistant" else self.writer.input_parts
        ours = write(held, None)[0]
        apart = ("opaque", "image") if role == "assistant" else ("opaque",)
        could_be_item = type(held) is not str and held.kind in apart
        remember(
            canister,
            dialect=NAME,
            part=patch_text(ours, part),
            form="part" if could_be_item else None,
            cache=cache_mark(part),
        )

    def content(self, part: Object, path: str) -> Any:
        """What one content part says."""
        kind = part.get("type")
        match kind:
            case "input_text":
                return self.text_field(part, "text", path)
            case "output_text":
                return self._output_text(part, path)
            case "refusal":
                return new_refusal(self.text_field(part, "refusal", path))
            case "input_image":
                return self._image(part)
            case "input_file":
                return self._file(part)
            case _:
                if type(kind) is not str:
                    self.fail(f"{path}.type", "expected a string")
                return _opaque(part, kind)

    def _output_text(self, part: Object, path: str) -> Any:
        words = self.text_field(part, "text", path)
        annotations = part.get("annotations")
        if type(annotations) is not list or not annotations:
            return words
        return new_text(words, PLAIN, tuple(map(read_citation, annotations)))

    def _image(self, part: Object) -> Any:
        url, identifier = part.get("image_url"), part.get("file_id")
        if is_named(url):
            inline = split_data_url(url)
            if inline is not None:
                return new_image(inline[1], inline[0])
            return new_image(Location("url", url), "")
        if is_named(identifier):
            return new_image(Location("file", identifier), "")
        return _opaque(part, "input_image")

    def _file(self, part: Object) -> Any:
        name = part.get("filename") if type(part.get("filename")) is str else None
        data, url, identifier = (part.get(key) for key in ("file_data", "file_url", "file_id"))
        if type(data) is str:
            mime_type, payload = split_data_url(data) or ("application/pdf", Base64(data))
            return new_file(payload, mime_type, name)
        if is_named(url):
            return new_file(Location("url", url), "", name)
        if is_named(identifier):
            return new_file(Location("file", identifier), "", name)
        return _opaque(part, "input_file")

    # --- tools ---------------------------------------------------------------------------------

    def _call(self, item: Object, kind: str, path: str) -> None:
        name = self.text_field(item, "name", path)
        is_freeform = kind == "custom_tool_call"
        given = item.get("input" if is_freeform else "arguments", "")
        arguments = given if type(given) is str else "" if given is None else write_json(given)
        own = (self._call_id(item), name, is_freeform)
        canister = new_invocation(arguments, self.when, False, None, None, *own)
        self.add(canister, path)
        remember(canister, dialect=NAME, form=after(self._reasoning_id))
        self.writer.reasoning_id = self._reasoning_id
        part = patch_text(self.writer.call(Piece(canister, None)), item)
        remember(canister, dialect=NAME, part=part)

    def _call_id(self, item: Object) -> str:
        for key in ("call_id", "id"):
            if type(item.get(key)) is str and item[key]:
                return str(item[key])
        return f"call_{len(self.canisters)}"

    def _result(self, item: Object, kind: str, path: str) -> None:
        output = item.get("output", absent)
        words = ["custom"] if kind == "custom_tool_call_output" else []
        held: Any = ""
        if type(output) is str:
            held = output
        elif type(output) is list:
            held = self._result_parts(output, f"{path}.output")
            if not output:
                words.append("empty")
            elif type(held) is str:
                words.append("list")
        elif output is absent:
            words.append("absent")
        elif output is not None:
            self.fail(f"{path}.output", "expected a string or a list of parts")
        held, error = _unflagged(held)
        own = (self._call_id(item), error)
        canister = new_result(held, self.when, False, None, None, *own)
        self.add(canister, path)
        marks = list(filter(None, map(cache_mark, output))) if type(output) is list else []
        remember(canister, dialect=NAME, form=" ".join(words), cache=marks[-1] if marks else None)
        ours = self.writer.result(Piece(canister, None))
        name = item.get("name")
        if type(name) is str:
            # It says what the call says, and is no loss where results have no names.
            remember(canister, dialect=NAME, envelope=patch_text(ours, {**ours, "name": name}))
            ours["name"] = name
        remember(canister, dialect=NAME, part=patch_text(ours, item))

    def _result_parts(self, output: list[Any], path: str) -> Any:
        parts = [
            self.content(self.object(item, f"{path}[{index}]"), f"{path}[{index}]")
            for index, item in enumerate(output)
        ]
        if not parts:
            return ""
        if len(parts) == 1 and type(parts[0]) is str:
            return parts[0]
        return new_parts(tuple(new_text(part) if type(part) is str else part for part in parts))

    # --- reasoning -----------------------------------------------------------------------------

    def _reasoning(self, item: Object, path: str) -> None:
        encrypted = item.get("encrypted_content")
        held = new_reasoning(
            _texts(item.get("content"), "reasoning_text"),
            _texts(item.get("summary"), "summary_text"),
            None,
            encrypted if type(encrypted) is str and encrypted else None,
            Origin(NAME, self.model),
        )
        canister = self.add(new_assistant(held, self.when), path)
        identifier = item.get("id")
        self._reasoning_id = identifier if type(identifier) is str and identifier else None
        form = "" if self._reasoning_id else "bare"
        if self.is_answer and held.encrypted is None:
            form = f"{form} answered".strip()
        part = patch_text(reasoning_item(held), item)
        remember(canister, dialect=NAME, part=part, form=form, model=self.model)


def read_citation(item: Any) -> Citation:
    """An annotation; where it points to a page, in words that every dialect understands."""
    raw = write_json(item)
    if type(item) is not dict or item.get("type") != "url_citation":
        return Citation(NAME, raw)
    url, title = item.get("url"), item.get("title")
    start, end = integer(item.get("start_index")), integer(item.get("end_index"))
    return Citation(
        NAME,
        raw,
        url if type(url) is str else None,
        title if type(title) is str else None,
        None,
        None if start is absent else start,
        None if end is absent else end,
    )


def _made(item: Object) -> Any:
    """The image that a call has made; None if it has made none, or none that could be shown."""
    result, word = item.get("result"), item.get("output_format")
    if type(result) is not str or not result or item.get("status") not in _MADE_STATES:
        return None
    payload = Base64(result)
    mime_type = MADE_FORMATS.get(word) if type(word) is str else None
    if word is None:
        seen = sniff(payload)
        mime_type = seen if seen in MADE_FORMATS.values() else MADE_FORMATS["png"]
    image = None if mime_type is None else new_image(payload, mime_type)
    return None if image is None or is_broken(image) else image


def _texts(parts: Any, kind: str) -> tuple[str, ...]:
    if type(parts) is not list:
        return ()
    return tuple(
        part["text"]
        for part in parts
        if type(part) is dict and part.get("type") == kind and type(part.get("text")) is str
    )


def _opaque(part: Object, kind: str) -> Any:
    return new_opaque(NAME, kind, write_json(part))


def _unflagged(held: Any) -> tuple[Any, Any]:
    """A result without the words that say that the tool failed, and whether they were there."""
    if type(held) is str:
        words = read_error_flag(held)
        return (held, absent) if words is None else (words, True)
    first = held.parts[0]
    words = read_error_flag(first.text) if first.kind == "text" else None
    if words is None:
        return held, absent
    rest = new_text(words, first.mime_type, first.citations)
    return new_parts((rest, *held.parts[1:])), True

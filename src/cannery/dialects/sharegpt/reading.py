"""Reads ShareGPT records.

A turn with text becomes one canister (more if images stand between the texts), a ``function_call`` turn a call, and an
``observation`` its result: it answers the first open call before it.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.sharegpt.calls import (
    BARE,
    MORE,
    NAMELESS,
    Call,
    keep_spelling,
    read_calls,
    write_call,
    write_calls,
)
from cannery.dialects.sharegpt.tools import NAME, read_tools, spell_tools
from cannery.dialects.sharegpt.writing import FIELD, IMAGE
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    new_assistant,
    new_invocation,
    new_result,
    new_supervisor,
    new_user,
)
from cannery.messages.checked import now
from cannery.messages.content import new_image, new_parts
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.payload import Location
from cannery.messages.requests import DEFAULT_CONTROLS, Request, Tool, new_request
from cannery.messages.residue import Residue
from cannery.roles.vocabularies import SHAREGPT
from cannery.wire.bodies import Object, Reader, decoded, listed_reader
from cannery.wire.contents import as_content
from cannery.wire.markers import flag_error, read_error_flag
from cannery.wire.media import split_data_url
from cannery.wire.places import Path, Places
from cannery.wire.wire_roles import read_role

_PLAIN_MEDIA = "image/"
_ROLES = frozenset(SHAREGPT.readings)
_SPEAKERS: dict[str, Any] = {"human": new_user, "gpt": new_assistant}


def _new_system(held: Any, when: Any, joined: bool, residue: Residue | None) -> AnyCanister:  # noqa: FBT001 - as the makers
    return new_supervisor(held, when, joined, residue, None, "system")  # type: ignore[no-any-return]


@listed_reader(NAME)
def read_request(left: Object, places: Places) -> Request:
    """The conversation of a record."""
    reader = RecordReader(places.canisters)
    reader.record(left)
    tools: tuple[Tool, ...] = ()
    form = None
    if "tools" in left:
        tools, form = _take_tools(left, places)
    residue = None
    if left or form is not None:
        envelope = write_json({"s": {key: _opened(value) for key, value in left.items()}})
        residue = Residue(NAME, None, envelope if left else None, form)
    return new_request(  # type: ignore[no-any-return]
        Conversation.trusted(reader.canisters),
        absent,
        tools,
        absent,
        DEFAULT_CONTROLS,
        absent,
        residue,
        NAME,
    )


def _opened(value: Any) -> Any:
    """A field fully decoded; only the items of lists may stay text."""
    return decode_json(write_json(value)) if type(value) is list else value


def _take_tools(left: Object, places: Places) -> tuple[tuple[Tool, ...], str | None]:
    """The tools of a record, and the form of their spelling."""
    value = left["tools"]
    if not value:
        return (), None
    tools = read_tools(value if type(value) is str else write_json(value))
    if not tools:
        return (), None
    del left["tools"]
    if type(value) is str:
        # The tools are inside one string, which is their path.
        places.tools += [("tools",)] * len(tools)
    return tools, keep_spelling(spell_tools(tools, is_same=True), _opened(value))


class RecordReader(Reader):
    """Reads the turns of one record, in order; ``places`` takes the path of each canister."""

    def __init__(self, places: list[Path]) -> None:
        self.dialect = NAME
        self.when = now()
        self.canisters: list[AnyCanister] = []
        self.places = places
        self.images: list[Any] = []
        self._placed = 0
        self._calls = 0
        self._open: list[str] = []
        self._is_calling = False

    def record(self, body: Object) -> None:
        """Take the system text, the images and all turns of a record."""
        turns = self.list(self.field(body, "conversations", ""), "conversations")
        del body["conversations"]
        for index, turn in enumerate(turns):
            if (
                type(turn) is not dict
                or type(turn.get("value")) is not str
                or type(turn.get("from")) is not str
                or turn["from"] not in _ROLES
            ):
                self._check(turn, index)
        if "system" in body:
            self._system(body)
        if "images" in body:
            self._find_images(body["images"], turns)
            if self.images:
                del body["images"]
        for index, turn in enumerate(turns):
            self._read(turn, ("conversations", index, "value"))

    def _check(self, turn: Any, index: int) -> None:
        """Refuse an invalid turn, and give its role the usual spelling."""
        path = f"conversations[{index}]"
        self.object(turn, path)
        role = self.field(turn, "from", path)
        turn["from"] = read_role(NAME, role, SHAREGPT, f"conversations.{index}.from")
        self.text_field(turn, "value", path)

    def _system(self, body: Object) -> None:
        """Take the system text, if there is any."""
        system = body["system"]
        if type(system) is str and system:
            del body["system"]
            residue = Residue(NAME, form=FIELD)
            self._add(new_supervisor(system, self.when, False, residue), ("system",))

    def _find_images(self, images: Any, turns: list[Object]) -> None:
        """Take the images if they can be matched: all by URL, and a placeholder for each."""
        if type(images) is not list or not images:
            return
        found = [_image(image) for image in images]
        shown = [turn["value"].count(IMAGE) for turn in turns if turn["from"] != "function_call"]
        is_plain = not any(IMAGE in turn["value"] for turn in turns if turn["from"] == "system")
        if None not in found and sum(shown) == len(found) and is_plain:
            self.images = found

    def _add(self, canister: AnyCanister, path: Path) -> None:
        self.canisters.append(canister)
        self.places.append(path)

    def _read(self, turn: Object, path: Path) -> None:
        role, value = turn.pop("from"), turn.pop("value")
        envelope = _envelope(turn) if turn else None
        if role == "function_call":
            if not self._is_calling:
                self._open = []
                self._is_calling = True
            self._read_calls(value, path, envelope)
            return
        self._is_calling = False
        if role == "observation":
            self._read_result(value, path, envelope)
            return
        residue = None if envelope is None else Residue(NAME, None, envelope)
        make = _SPEAKERS.get(role, _new_system)
        if not self.images:
            self.canisters.append(make(value, self.when, False, residue))
            self.places.append(path)
            return
        for index, held in enumerate(self._parts(value)):
            self._add(make(held, self.when, index > 0, None if index else residue), path)

    def _parts(self, value: str) -> list[Any]:
        """The texts and images of a value, in order."""
        if not self.images or IMAGE not in value:
            return [value]
        parts: list[Any] = []
        for index, text in enumerate(value.split(IMAGE)):
            if index:
                parts.append(self.images[self._placed])
                self._placed += 1
            if text:
                parts.append(text)
        return parts

    def _read_calls(self, value: str, path: Path, envelope: str | None) -> None:
        calls = read_calls(value)
        form: str | None = BARE
        if calls is None:
            calls = [Call(NAMELESS, value)]
        else:
            usual = [write_call(call.name, call.arguments, call.part) for call in calls]
            form = keep_spelling(write_calls(usual), value)
        for index, call in enumerate(calls):
            if index:
                form, envelope = MORE, None
            residue = None
            if call.part is not None or envelope is not None or form is not None:
                residue = Residue(NAME, call.part, envelope, form)
            identifier = f"call_{self._calls}"
            own = (residue, None, identifier, call.name, False)
            self._add(new_invocation(call.arguments, self.when, index > 0, *own), path)
            self._open.append(identifier)
            self._calls += 1

    def _read_result(self, value: str, path: Path, envelope: str | None) -> None:
        residue = None if envelope is None else Residue(NAME, None, envelope)
        failed = read_error_flag(value)
        if failed is not None and flag_error(failed) != value:
            failed = None
        parts = self._parts(value if failed is None else failed)
        held = (
            parts[0]
            if len(parts) == 1
            else new_parts(tuple(map(as_content, parts)))
            if parts
            else ""
        )
        call = self._open.pop(0) if self._open else f"observation_{len(self.canisters)}"
        error = absent if failed is None else True
        self._add(new_result(held, self.when, False, residue, None, call, error), path)


def _envelope(left: Object) -> str:
    """The patch that sets the rest of a turn."""
    fields = {key: decoded(held) if type(held) is dict else held for key, held in left.items()}
    return write_json({"s": fields})


def _image(value: Any) -> Any:
    """The image in an entry of ``images`` by URL; None for a local file."""
    if type(value) is not str:
        return None
    if value.startswith(("http://", "https://")):
        return new_image(Location("url", value), "")
    inline = split_data_url(value)
    if inline is None or not inline[0].startswith(_PLAIN_MEDIA):
        return None
    return new_image(inline[1], inline[0])

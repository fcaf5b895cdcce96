"""Reading ShareGPT records.

A turn that speaks becomes one canister (more where images stand between the words), a ``function_call`` turn a call,
and an ``observation`` its result: the first open one of the calls before it is answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from cannery.dialects.sharegpt.calls import (
    BARE,
    MORE,
    NAMELESS,
    Call,
    read_calls,
    spelling,
    write_call,
)
from cannery.dialects.sharegpt.tools import NAME, read_tools, write_tools
from cannery.dialects.sharegpt.writing import FIELD, IMAGE, TurnWriter
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
from cannery.messages.content import new_image, new_parts, new_text
from cannery.messages.conversation import Conversation
from cannery.messages.payload import Location
from cannery.messages.requests import DEFAULT_CONTROLS, Request, new_request
from cannery.messages.residue import Residue
from cannery.roles.vocabularies import SHAREGPT
from cannery.wire.bodies import Object, Reader, guarded, read_object
from cannery.wire.losses import Report
from cannery.wire.markers import flag_error, read_error_flag
from cannery.wire.media import split_data_url
from cannery.wire.places import Places
from cannery.wire.residues import patch_text, remember
from cannery.wire.wire_roles import read_role

_PLAIN_MEDIA = "image/"


def read_request(body: bytes, places: Places) -> Request:
    """The conversation of a record."""
    value = read_object(NAME, body)
    return guarded(NAME, lambda: _read_request(value, places))  # type: ignore[no-any-return]


def _read_request(body: Object, places: Places) -> Request:
    reader = RecordReader()
    reader.record(body)
    places.canisters.extend(reader.paths)
    tools = read_tools(body["tools"]) if body.get("tools") else ()
    request = new_request(
        Conversation.trusted(reader.canisters),
        absent,
        tools,
        absent,
        DEFAULT_CONTROLS,
        absent,
        None,
        NAME,
    )
    return _remembered(request, body, reader)


def _remembered(request: Request, body: Object, reader: RecordReader) -> Request:
    """The request with what writing would not say by itself."""
    usual: Object = {"conversations": body["conversations"]}
    if reader.system is not None:
        usual["system"] = reader.system
    if reader.images:
        usual["images"] = body["images"]
    form = None
    if request.tools:
        form = patch_text(write_tools(request, Report()), body["tools"])
        usual["tools"] = body["tools"]
    patch = patch_text(usual, body)
    if patch is None and form is None:
        return request
    residue = Residue(NAME, envelope=patch, form=form)
    return msgspec.structs.replace(request, residue=residue)


class RecordReader(Reader):
    """Reads the turns of one record, in order."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self.when = now()
        self.canisters: list[AnyCanister] = []
        self.paths: list[str] = []
        self.system: str | None = None
        self.images: list[Any] = []
        self._placed = 0
        self._writer = TurnWriter(Report(), is_same=True)
        self._calls = 0
        self._open: list[str] = []
        self._is_calling = False

    def record(self, body: Object) -> None:
        """The system text and all turns."""
        turns = [
            self._turn(item, index)
            for index, item in enumerate(
                self.list(self.field(body, "conversations", ""), "conversations")
            )
        ]
        system = body.get("system")
        if type(system) is str and system:
            self.system = system
            residue = Residue(NAME, form=FIELD)
            self._add(new_supervisor(system, self.when, False, residue), "system")
        self._find_images(body.get("images"), turns)
        for index, turn in enumerate(turns):
            self._read(turn, f"conversations[{index}]")

    def _turn(self, item: Any, index: int) -> Object:
        path = f"conversations[{index}]"
        turn = self.object(item, path)
        spelled = self.field(turn, "from", path)
        role = read_role(NAME, spelled, SHAREGPT, f"conversations.{index}.from")
        self.text_field(turn, "value", path)
        return turn if role == spelled else {**turn, "from": role}

    def _find_images(self, images: Any, turns: list[Object]) -> None:
        """Take the images if they can be told: all by URL, and a placeholder for each."""
        if type(images) is not list or not images:
            return
        found = [_image(image) for image in images]
        shown = [turn["value"].count(IMAGE) for turn in turns if turn["from"] != "function_call"]
        is_plain = not any(IMAGE in turn["value"] for turn in turns if turn["from"] == "system")
        if None not in found and sum(shown) == len(found) and is_plain:
            self.images = found

    def _add(self, canister: AnyCanister, path: str) -> AnyCanister:
        self.canisters.append(canister)
        self.paths.append(path)
        return canister

    def _read(self, turn: Object, path: str) -> None:
        start = len(self.canisters)
        role, value = turn["from"], turn["value"]
        if role == "function_call":
            self._read_calls(value, path)
        elif role == "observation":
            self._read_result(value, path)
        else:
            self._speak(role, value, path)
        self._is_calling = role == "function_call"
        if turn.keys() != {"from", "value"}:
            envelope = patch_text({"from": role, "value": value}, turn)
            remember(self.canisters[start], dialect=NAME, envelope=envelope)

    def _speak(self, role: str, value: str, path: str) -> None:
        for index, held in enumerate(self._parts(value)):
            joined = index > 0
            if role == "human":
                canister = new_user(held, self.when, joined)
            elif role == "gpt":
                canister = new_assistant(held, self.when, joined)
            else:
                own = (None, None, "system")
                canister = new_supervisor(held, self.when, joined, *own)
            self._add(canister, f"{path}.value")

    def _parts(self, value: str) -> Iterator[Any]:
        """The words and images of a value, in order."""
        if not self.images or IMAGE not in value:
            yield value
            return
        for index, text in enumerate(value.split(IMAGE)):
            if index:
                yield self.images[self._placed]
                self._placed += 1
            if text:
                yield text

    def _read_calls(self, value: str, path: str) -> None:
        if not self._is_calling:
            self._open = []
        calls = read_calls(value)
        form: str | None = BARE
        if calls is None:
            calls = [Call(NAMELESS, value)]
        else:
            form = spelling([write_call(call.name, call.arguments) for call in calls], value)
        for index, call in enumerate(calls):
            own = (f"call_{self._calls}", call.name, False)
            canister = new_invocation(call.arguments, self.when, index > 0, None, None, *own)
            part = patch_text({}, call.others) if call.others else None
            own_form = MORE if index else form
            remember(canister, dialect=NAME, form=own_form, part=part)
            self._add(canister, f"{path}.value")
            self._open.append(own[0])
            self._calls += 1

    def _read_result(self, value: str, path: str) -> None:
        failed = read_error_flag(value)
        if failed is not None and flag_error(failed) != value:
            failed = None
        parts = list(self._parts(value if failed is None else failed))
        held = (
            parts[0] if len(parts) == 1 else new_parts(tuple(map(_wrapped, parts))) if parts else ""
        )
        call = self._open.pop(0) if self._open else f"observation_{len(self.canisters)}"
        error = absent if failed is None else True
        self._add(new_result(held, self.when, False, None, None, call, error), f"{path}.value")


def _image(value: Any) -> Any:
    """The image that an entry of ``images`` gives by URL; None for a file on somebody's disk."""
    if type(value) is not str:
        return None
    if value.startswith(("http://", "https://")):
        return new_image(Location("url", value), "")
    inline = split_data_url(value)
    if inline is None or not inline[0].startswith(_PLAIN_MEDIA):
        return None
    return new_image(inline[1], inline[0])


def _wrapped(held: Any) -> Any:
    return new_text(held) if type(held) is str else held

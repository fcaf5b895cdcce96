"""Writes ShareGPT records.

A message becomes one turn, every call and every result a turn of its own, in order. Ids cannot be written: results
follow their calls in call order, and reading generates the same ids again.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.sharegpt.calls import (
    BARE,
    MORE,
    is_digested,
    respell,
    write_call,
    write_calls,
)
from cannery.dialects.sharegpt.tools import NAME, write_tools
from cannery.messages.canisters import InvocationCanisterClass, ResultCanisterClass
from cannery.messages.content import ImageContentClass
from cannery.messages.payload import Location
from cannery.messages.requests import Request
from cannery.messages.role import Role
from cannery.wire.bodies import Object
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Place, Report
from cannery.wire.media import data_url, standard_base64
from cannery.wire.records import TextWriter, drop_settings
from cannery.wire.residues import own_residue, recall
from cannery.wire.turns import turns

IMAGE = "<image>"
FIELD = "field"
_SPOKEN = {
    Role.User: "human",
    Role.Document: "human",
    Role.Assistant: "gpt",
    Role.Supervisor: "system",
}


class TurnWriter(TextWriter):
    """Writes turns and collects the fields beside them: images and the system text."""

    def __init__(self, report: Report, *, is_same: bool) -> None:
        super().__init__(NAME, report, is_same=is_same)
        self.images: list[str] = []
        self.system: str | None = None
        self._calls = 0

    def turns(self, pieces: list[Piece]) -> list[Object]:
        """The turns of all pieces."""
        written: list[Object] = []
        for turn in turns(pieces):
            position = 0
            while position < len(turn):
                stop = _run(turn, position)
                written += self._turn(turn[position:stop])
                position = stop
        return written

    def _turn(self, run: list[Piece]) -> list[Object]:
        head = own_residue(run[0].canister, NAME)
        form = None if head is None else head.form
        if isinstance(run[0].canister, InvocationCanisterClass):
            turn = self.call_turn(run)
        elif isinstance(run[0].canister, ResultCanisterClass):
            turn = {"from": "observation", "value": self.result(run[0])}
        else:
            spoken = "".join(self.spoken(piece) for piece in run)
            if form == FIELD and self.system is None:
                self.system = spoken
                return []
            if not spoken and not self.is_same and run[0].canister.role is Role.Assistant:
                return []
            turn = {"from": _SPOKEN[run[0].canister.role], "value": spoken}
        return [turn if head is None else recall(turn, head.envelope)]

    def call_turn(self, run: list[Piece]) -> Object:
        """One turn of one or more calls."""
        for piece in run:
            canister: Any = piece.canister
            if own_residue(canister, NAME) is None:
                report_residue(canister, self.report, piece.place)
            if not self.is_same and canister.identifier != f"call_{self._calls}":
                self.report.lose("CALL_ID_DROPPED", piece.place)
            self._calls += 1
        return {"from": "function_call", "value": _spell([piece.canister for piece in run])}

    def image(self, content: ImageContentClass, place: Place) -> str:
        """The placeholder of an image; the image itself goes to the list beside the turns."""
        payload = content.payload
        if isinstance(payload, Location):
            if payload.kind == "file":
                self.report.lose("REFERENCE_UNRESOLVABLE", place)
                return ""
            self.images.append(payload.value)
            return IMAGE
        if self.is_same:
            self.images.append(data_url(content))
        else:
            self.images.append(f"data:{content.mime_type};base64,{standard_base64(payload)}")
        return IMAGE


def _spell(calls: list[Any]) -> Any:
    """The value of a turn of calls, in its original spelling if the meaning is the same."""
    residues = [own_residue(call, NAME) for call in calls]
    form = None if residues[0] is None else residues[0].form
    if form == BARE:
        return calls[0].held
    if form is not None and not is_digested(form):
        usual = write_calls([write_call(call.name, call.held) for call in calls])
        count, _, patch = form.partition(" ")
        return recall(usual, patch) if patch and count == str(len(calls)) else usual
    usual = write_calls(
        [
            write_call(call.name, call.held, None if residue is None else residue.part)
            for call, residue in zip(calls, residues, strict=True)
        ]
    )
    return usual if form is None else respell(usual, form)


def _run(turn: list[Piece], start: int) -> int:
    """The end of the wire turn that starts at a position."""
    head = turn[start].canister
    stop = start + 1
    while stop < len(turn):
        canister = turn[stop].canister
        if isinstance(canister, InvocationCanisterClass):
            residue = own_residue(canister, NAME)
            follows = residue is not None and residue.form == MORE and type(head) is type(canister)
        else:
            follows = canister.role in _SPOKEN and _SPOKEN.get(head.role) == _SPOKEN[canister.role]
        if not follows:
            break
        stop += 1
    return stop


def _spell_tools(usual: str, form: str | None) -> Any:
    """The tools in their original spelling, if they are still the same."""
    if form is not None and is_digested(form):
        return respell(usual, form)
    return recall(usual, form)


def write_request(request: Request, pieces: list[Piece], report: Report) -> Object:
    """The record of a conversation."""
    is_same = request.source == NAME
    writer = TurnWriter(report, is_same=is_same)
    body: Object = {"conversations": writer.turns(pieces)}
    if writer.system is not None:
        body["system"] = writer.system
    tools = write_tools(request, report)
    residue = own_residue(request, NAME)
    if tools is not None:
        body["tools"] = tools if residue is None else _spell_tools(tools, residue.form)
    if writer.images:
        body["images"] = writer.images
    if not is_same:
        drop_settings(request, report)
    return body if residue is None else recall(body, residue.envelope)

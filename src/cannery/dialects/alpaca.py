"""Alpaca: ``{"instruction", "input", "output", "history"?, "system"?}``, one exchange per record.

Oddities: ``input`` is often empty; otherwise instruction and input form one prompt, a line each (LLaMA-Factory,
2026-11-15); earlier exchanges are ``history``, pairs of strings. A record holds only text, and only conversations that
alternate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    InvocationCanisterClass,
    ResultCanisterClass,
    new_assistant,
    new_supervisor,
    new_user,
)
from cannery.messages.checked import now
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.requests import DEFAULT_CONTROLS, Request, new_request
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, Reader, body_reader
from cannery.wire.contract import Piece, Rules
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.places import Path, Places
from cannery.wire.records import TextWriter, data_set, drop_settings
from cannery.wire.residues import nested, own_residue, recall
from cannery.wire.signs import Evidence, Sign
from cannery.wire.turns import MODEL, SUPERVISOR, USER, side

NAME = "alpaca"
# Between an instruction and its input, and between messages of the same side.
_LINE, _PARAGRAPH = "\n", "\n\n"

_decode = msgspec.json.Decoder(dict[str, Any]).decode

# --- reading -----------------------------------------------------------------------------------


@body_reader(NAME, _decode)
def read_request(left: Object, places: Places) -> Request:
    """The conversation of a record."""
    # Writing adds these fields.
    dropped = [key for key in ("input", "output") if key not in left]
    canisters = _take_turns(left, places.canisters)
    patch = nested(left, {}, dropped)
    residue = None if patch is None else Residue(NAME, None, write_json(patch))
    return new_request(  # type: ignore[no-any-return]
        Conversation.trusted(canisters), absent, (), absent, DEFAULT_CONTROLS, absent, residue, NAME
    )


def _take_turns(body: Object, places: list[Path]) -> list[AnyCanister]:
    """Take every turn out of a record and record its path."""
    reader, when = Reader(NAME), now()
    found: list[AnyCanister] = []
    instruction = reader.text_field(body, "instruction", "")
    del body["instruction"]
    output = reader.text(body.pop("output"), "output") if "output" in body else None
    system, given = body.get("system"), body.get("input")
    if type(system) is str and system:
        del body["system"]
        found.append(new_supervisor(system, when))
        places.append(("system",))
    history = _history(body.get("history"))
    if history:
        del body["history"]
    for index, (asked, answered) in enumerate(history):
        found += new_user(asked, when), new_assistant(answered, when)
        places += ("history", index, 0), ("history", index, 1)
    if type(given) is str:
        del body["input"]
    if type(given) is str and given:
        residue = Residue(NAME, form=str(len(instruction)))
        found.append(new_user(instruction + _LINE + given, when, False, residue))
    else:
        found.append(new_user(instruction, when))
    places.append(("instruction",))
    if output is not None:
        found.append(new_assistant(output, when))
        places.append(("output",))
    return found


def _history(value: Any) -> list[list[str]]:
    """The earlier exchanges; none if they are not pairs of strings, which then stay in the residue."""
    pairs = value if type(value) is list else []
    is_paired = all(
        type(pair) is list and len(pair) == 2 and all(type(text) is str for text in pair)
        for pair in pairs
    )
    return pairs if is_paired else []


# --- writing -----------------------------------------------------------------------------------


class Said(NamedTuple):
    """The text of one side, and where its instruction ends if an input follows."""

    side: str
    text: str
    split: str | None


def write_request(request: Request, pieces: list[Piece], report: Report) -> Object:
    """The record of a conversation."""
    is_same = request.source == NAME
    writer = TextWriter(NAME, report, is_same=is_same)
    if not is_same:
        drop_settings(request, report)
        for index, tool in enumerate(request.tools):
            report.lose(
                "TOOL_DROPPED", report.tool_place(index), f"Alpaca has no tools: {tool.name!r}"
            )
    body = _write_record(_said(pieces, writer))
    residue = own_residue(request, NAME)
    return body if residue is None else recall(body, residue.envelope)


def _said(pieces: list[Piece], writer: TextWriter) -> list[Said]:
    """The alternating texts of the two sides; calls and their results are lost."""
    said: list[Said] = []
    for piece in pieces:
        canister = piece.canister
        if isinstance(canister, InvocationCanisterClass):
            writer.report.lose("CALL_DROPPED", piece.place)
            report_residue(canister, writer.report, piece.place)
            continue
        if isinstance(canister, ResultCanisterClass):
            writer.report.lose("RESULT_DROPPED", piece.place, "Alpaca has no tool results")
            continue
        if canister.held is absent:
            continue
        is_led = side(piece) == SUPERVISOR
        residue = None if is_led else own_residue(canister, NAME)
        whose = USER if said and is_led else side(piece)
        own = Said(whose, writer.spoken(piece), None if residue is None else residue.form)
        _take(own, piece, said, writer)
    return said


def _take(own: Said, piece: Piece, said: list[Said], writer: TextWriter) -> None:
    """Add a text, to the last turn if that is of the same side."""
    if not said or said[-1].side != own.side:
        said.append(own)
        return
    between = "" if piece.canister.joined else _PARAGRAPH
    if between and not writer.is_same:
        writer.report.repair("alternation", piece.place)
    last = said[-1].text
    said[-1] = Said(own.side, f"{last}{between if last and own.text else ''}{own.text}", None)


def _write_record(said: list[Said]) -> Object:
    body: Object = {}
    if said and said[0].side == SUPERVISOR:
        body["system"] = said.pop(0).text
    if said and said[0].side == MODEL:
        said.insert(0, Said(USER, "", None))
    output = said.pop().text if said and said[-1].side == MODEL else ""
    prompt = said.pop() if said and said[-1].side == USER else Said(USER, "", None)
    at = len(prompt.text) if prompt.split is None else int(prompt.split)
    body["instruction"], body["input"] = prompt.text[:at], prompt.text[at + len(_LINE) :]
    body["output"] = output
    if said:
        asked, answered = said[::2], said[1::2]
        body["history"] = [
            [question.text, answer.text] for question, answer in zip(asked, answered, strict=False)
        ]
    return body


DIALECT = data_set(
    NAME,
    Rules(
        starts_with_user=True,
        ends_with_calls=True,
        leading_supervisors="one",
        late_supervisors="fold",
        cache_marks=0,
    ),
    read_request,
    write_request,
    messages="",
    fixed_repairs=frozenset({"late_supervisors", "single_system"}),
    signs=(
        Sign(
            "request",
            Evidence.RECORD_FIELD,
            "it has an instruction",
            lambda value: "instruction" in value and "response" not in value,
        ),
    ),
)

"""Ollama's generate (``POST /api/generate``): one prompt and its answer, for clients without messages.

Oddities: there are no turns, so a conversation of another dialect is accepted only if it is one question; ``context``
is the history as tokens of one model, which no other can read; ``suffix``, ``template`` and ``raw`` concern the text
that the model itself sees. Everything else is as in ``ollama_chat``. Written against ollama 0.6.3 (2026-11-18).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from cannery.families.ollama.answers import Shape, response_reader, response_writer
from cannery.families.ollama.reading import OllamaReader
from cannery.families.ollama.service import ollama_service
from cannery.families.ollama.settings import (
    DEFAULTS,
    MODELLED_ANSWER,
    ollama_table,
    shared_settings,
    write_settings,
)
from cannery.families.ollama.streams import (
    OllamaStreamReader,
    OllamaStreamWriter,
    read_error,
    write_error,
)
from cannery.families.ollama.writing import OllamaWriter
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    ResultCanisterClass,
    SupervisorCanisterClass,
    new_supervisor,
)
from cannery.messages.checked import now
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Request, ToolChoice, new_request
from cannery.wire.aliasing import aliased
from cannery.wire.bodies import Fields, Object, decode, fields_reader
from cannery.wire.contract import Dialect, Piece, Route, Rules
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import own_residue, recall_settings
from cannery.wire.settings import Writing
from cannery.wire.signs import ANSWERS, Evidence, Sign, both, has
from cannery.wire.turns import USER, side, turns

NAME = "ollama_generate"
SHAPE = Shape(NAME, "", "response")
_ASKED = Shape(NAME, "", "prompt")
RULES = Rules(
    alternates=True,
    late_supervisors="fold",
    leading_supervisors="one",
    cache_marks=0,
    knows_developer=False,
)
_OWN = (
    "options",
    "keep_alive",
    "raw",
    "template",
    "context",
    "system",
    "images",
    "think",
    "format",
)


def _drop_choice(choice: ToolChoice, to: Writing) -> Any:
    if choice.mode not in ("auto", "none"):
        to.drop("there are no tools")
    return absent


TABLE = ollama_table(NAME, _drop_choice)


@fields_reader(NAME)
def read_request(fields: Fields, places: Places) -> Request:
    """Read the request from a body."""
    body = {key: decode(field) for key, field in fields.items()}
    asked: Object = {key: body.pop(key) for key in ("prompt", "images") if key in body}
    system = body.pop("system") if body.get("system") else ""
    settings = TABLE.read(body, places)
    reader = OllamaReader(NAME, places.canisters, settings[0], content="prompt")
    if system:
        reader.add(new_supervisor(reader.text(system, "system"), now()), ("system",))
    reader.spoken(asked, "user", ())
    return new_request(Conversation.trusted(reader.canisters), *settings, NAME)  # type: ignore[no-any-return]


def write_request(request: Request, pieces: list[Piece], report: Report) -> Object:
    """The body of a request: instructions and the last question; everything else is reported as lost."""
    body = write_settings(TABLE, request, report)
    for index, tool in enumerate(request.tools):
        report.lose("TOOL_DROPPED", f"tools[{index}]", f"there are no tools: {tool.name!r}")
    body = recall_settings(body, own_residue(request, NAME))
    writer = OllamaWriter(NAME, report, is_same=request.source == NAME)
    lead = 0
    while lead < len(pieces) and type(pieces[lead].canister) is SupervisorCanisterClass:
        lead += 1
    if lead:
        body["system"] = writer.spoken(pieces[:lead], "system")["content"]
    asked = _question(pieces[lead:], report)
    said = writer.spoken(asked, "user") if asked else {"content": ""}
    return {**body, **_ASKED.wrap(said)}


def _question(pieces: list[Piece], report: Report) -> list[Piece]:
    """The user's last message; other turns are blocking losses."""
    groups = [group for group in turns(pieces) if side(group[0]) == USER]
    words = [
        [piece for piece in group if type(piece.canister) is not ResultCanisterClass]
        for group in groups
    ]
    asked = next((group for group in reversed(words) if group), [])
    for piece in pieces:
        if piece not in asked and piece.canister.held is not absent:
            report.lose("TURN_DROPPED", piece.place)
    return asked


def _asks(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("prompt"), str) and not ANSWERS & value.keys()


def _is_bare(value: Mapping[str, Any]) -> bool:
    return _asks(value) and {"model", "prompt"} <= value.keys() <= {"model", "prompt", "stream"}


DIALECT = Dialect(
    name=NAME,
    rules=RULES,
    read_request=read_request,
    write_request=write_request,
    read_response=response_reader(SHAPE),
    write_response=response_writer(SHAPE),
    stream_reader=partial(OllamaStreamReader, SHAPE),
    stream_writer=aliased(partial(OllamaStreamWriter, SHAPE), NAME),
    read_error=read_error,
    write_error=write_error,
    routes=(Route("POST", "/api/generate", "generate"),),
    control_paths=TABLE.paths,
    references={"context": "HISTORY_MISSING"},
    messages="prompt",
    takes_turns=False,
    modelled=TABLE.modelled,
    modelled_answer=MODELLED_ANSWER | {"context"},
    defaults={**DEFAULTS, "raw": (False,)},
    takes_over=shared_settings,
    service=ollama_service(SHAPE),
    signs=(
        Sign(
            "request",
            Evidence.OWN_FIELD,
            "it has a prompt beside fields of Ollama",
            both(_asks, has(*_OWN)),
        ),
        Sign("response", Evidence.OWN_FIELD, "it is done", both(has("response"), has("done"))),
        Sign(
            "stream",
            Evidence.OWN_FIELD,
            "its lines say whether it is done",
            both(has("response"), has("done")),
        ),
        Sign("request", Evidence.SHAPE, "it has a model and a prompt", _is_bare),
    ),
)

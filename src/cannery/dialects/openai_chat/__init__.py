"""OpenAI Chat Completions (``POST /v1/chat/completions``), and every server that is compatible with it.

Oddities: system and developer messages may stand anywhere; tool results are messages of their own and take only text;
arguments are a JSON string that need not be JSON; compatible servers add ``reasoning_content``. Written against the
types of openai 3.49.0 (2026-11-15).
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.openai_chat.settings import (
    CONTROL_PATHS,
    MODELLED,
    NAME,
    takes_over,
    write_settings,
)
from cannery.dialects.openai_chat.sliced import read_slices
from cannery.messages.absence import absent
from cannery.messages.requests import Request
from cannery.wire.aliasing import aliased
from cannery.wire.chat_tools import tool_paths
from cannery.wire.chat_writing import ChatWriter
from cannery.wire.contract import UNKNOWN_MODEL, Dialect, Piece, Route, Rules
from cannery.wire.lazy import later
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue
from cannery.wire.settled import settle
from cannery.wire.turns import is_prefill

RULES = Rules(
    call_id_length=40,
    name_pattern=r"[A-Za-z0-9_-]+",
    name_length=64,
)


_read_request = later(__name__, "reading", "read_request")


def write_request(
    request: Request, pieces: list[Piece], report: Report, turns: list[Any] | None = None
) -> dict[str, Any]:
    """The body of a request; ``turns`` are messages that are written already."""
    at_home = request.source == NAME
    writer = ChatWriter(NAME, report, at_home=at_home)
    body = write_settings(request, report)
    residue = own_residue(request, NAME)
    body = settle(body, request, residue, "messages", _read_request)
    body["messages"] = writer.messages(pieces) if turns is None else turns
    # A record of a data set, which asks no model, may well end with an answer.
    is_asked = not at_home and request.model not in (None, absent, UNKNOWN_MODEL)
    if is_asked and pieces and is_prefill(pieces[-1]):
        report.lose("PREFILL_DROPPED", pieces[-1].place)
    return body


DIALECT = Dialect(
    name=NAME,
    rules=RULES,
    read_request=_read_request,
    write_request=write_request,
    read_response=later(__name__, "fast_responses", "read_response"),
    write_response=later(__name__, "responses", "write_response"),
    stream_reader=later(__name__, "stream_reading", "ChatStreamReader"),
    stream_writer=aliased(later(__name__, "stream_writing", "ChatStreamWriter")),
    read_error=later(__name__, "errors", "read_error"),
    write_error=later(__name__, "errors", "write_error"),
    routes=(
        Route("POST", "/v1/chat/completions", "generate"),
        Route("GET", "/v1/models", "models"),
        Route("GET", "/v1/models/{model}", "model"),
    ),
    control_paths=CONTROL_PATHS,
    tool_paths=tool_paths,
    modelled=MODELLED,
    takes_over=takes_over,
    read_paths=later(__name__, "paths", "read_paths"),
    read_plain=later(__name__, "fast", "read_plain"),
    plan_turns=later(__name__, "fast_writing", "plan_turns"),
    read_slices=read_slices,
    write_slices=later(__name__, "slice_writing", "write_slices"),
    write_plain=later(__name__, "fast", "write_plain"),
    write_reply=later(__name__, "fast_responses", "write_reply"),
    write_lines=later(__name__, "lines", "write_lines"),
)

"""Anthropic Messages (``POST /v1/messages``).

Oddities: leading system text is a field and late system text a message that only newer models take; tool results stand
first in the user turn after the calls; arguments are objects; text must have a visible character; a thinking block goes
back with its signature, to the letter. Written against the types of anthropic 2.8.0 (2026-11-15).
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.anthropic_messages.models import RULES, rules_for
from cannery.dialects.anthropic_messages.settings import (
    CONTROL_PATHS,
    MODELLED,
    NAME,
    write_settings,
)
from cannery.dialects.anthropic_messages.sliced import write_slices
from cannery.dialects.anthropic_messages.writing import MessageWriter
from cannery.messages.absence import absent
from cannery.messages.requests import Request
from cannery.wire.aliasing import aliased
from cannery.wire.contract import Dialect, Piece, Route
from cannery.wire.lazy import later
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue
from cannery.wire.settled import settle

_read_request = later(__name__, "reading", "read_request")


def write_request(
    request: Request, pieces: list[Piece], report: Report, turns: list[Any] | None = None
) -> dict[str, Any]:
    """The body of a request; ``turns`` are messages that are written already."""
    model = request.model if isinstance(request.model, str) else None
    is_foreign = request.source not in (None, NAME)
    writer = MessageWriter(
        report, at_home=request.source == NAME, is_foreign=is_foreign, model=model
    )
    leading, others = writer.split(pieces)
    system = writer.system(leading)
    messages = writer.messages(others) if turns is None else turns
    body = write_settings(request, report, messages if turns is None else ())
    residue = own_residue(request, NAME)
    body = settle(body, request, residue, "messages", _read_request)
    if writer.displaced:
        system = writer.system([*leading, *writer.displaced])
    if system is not absent:
        body["system"] = system
    body["messages"] = messages
    return body


DIALECT = Dialect(
    name=NAME,
    rules=RULES,
    read_request=_read_request,
    write_request=write_request,
    read_response=later(__name__, "fast_responses", "read_response"),
    write_response=later(__name__, "responses", "write_response"),
    stream_reader=later(__name__, "stream_reading", "MessagesStreamReader"),
    stream_writer=aliased(later(__name__, "stream_writing", "MessagesStreamWriter")),
    read_error=later(__name__, "errors", "read_error"),
    write_error=later(__name__, "errors", "write_error"),
    routes=(
        Route("POST", "/v1/messages", "generate"),
        Route("POST", "/v1/messages/count_tokens", "count"),
        Route("GET", "/v1/models", "models"),
        Route("GET", "/v1/models/{model}", "model"),
    ),
    control_paths=CONTROL_PATHS,
    rules_for=rules_for,
    modelled=MODELLED,
    read_paths=later(__name__, "fast_reading", "read_paths"),
    read_plain=later(__name__, "fast", "read_plain"),
    write_plain=later(__name__, "fast", "write_plain"),
    plan_turns=later(__name__, "fast", "plan_turns"),
    read_slices=later(__name__, "slicing", "read_slices"),
    write_slices=write_slices,
    write_reply=later(__name__, "fast_responses", "write_reply"),
)

"""Anthropic Messages (``POST /v1/messages``).

Oddities: leading system text is a field and late system text a message that only newer models take; tool results stand
first in the user turn after the calls; arguments are objects; text must have a visible character; a thinking block goes
back with its signature, to the letter. Written against the types of anthropic 2.8.0 (2026-11-15).
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.anthropic_messages.models import NAME, RULES, rules_for
from cannery.dialects.anthropic_messages.reading import read_request
from cannery.dialects.anthropic_messages.responses import (
    read_error,
    read_response,
    write_error,
    write_response,
)
from cannery.dialects.anthropic_messages.settings import (
    CONTROL_PATHS,
    MODELLED,
    write_settings,
)
from cannery.dialects.anthropic_messages.stream_reading import MessagesStreamReader
from cannery.dialects.anthropic_messages.stream_writing import MessagesStreamWriter
from cannery.dialects.anthropic_messages.writing import MessageWriter
from cannery.messages.absence import absent
from cannery.messages.requests import Request
from cannery.wire.aliasing import aliased
from cannery.wire.contract import Dialect, Piece, Route
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue
from cannery.wire.settled import settle


def write_request(request: Request, pieces: list[Piece], report: Report) -> dict[str, Any]:
    """The body of a request."""
    model = request.model if isinstance(request.model, str) else None
    is_foreign = request.source not in (None, NAME)
    writer = MessageWriter(
        report, is_same=request.source == NAME, is_foreign=is_foreign, model=model
    )
    leading, others = writer.split(pieces)
    system = writer.system(leading)
    messages = writer.messages(others)
    body = write_settings(request, report, messages)
    residue = own_residue(request, NAME)
    body = settle(body, request, residue, "messages", read_request)
    if writer.displaced:
        system = writer.system([*leading, *writer.displaced])
    if system is not absent:
        body["system"] = system
    body["messages"] = messages
    return body


DIALECT = Dialect(
    name=NAME,
    rules=RULES,
    read_request=read_request,
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
    stream_reader=MessagesStreamReader,
    stream_writer=aliased(MessagesStreamWriter, NAME),
    read_error=read_error,
    write_error=write_error,
    routes=(
        Route("POST", "/v1/messages", "generate"),
        Route("POST", "/v1/messages/count_tokens", "count"),
        Route("GET", "/v1/models", "models"),
        Route("GET", "/v1/models/{model}", "model"),
    ),
    control_paths=CONTROL_PATHS,
    rules_for=rules_for,
    modelled=MODELLED,
)

"""Gemini generateContent (``POST /v1beta/models/{model}:generateContent``).

Oddities: the model and the choice to stream are in the URL; keys come in camelCase and snake_case, mixed; calls often
have no id and results find them by name and order; any part may carry a ``thoughtSignature`` that Gemini 3 insists on;
the system instruction is one field. Written against the types of google-genai 3.1.0 (2026-11-15).
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.gemini_generate.models import RULES, needs_signatures, rules_for
from cannery.dialects.gemini_generate.settings import (
    CONTROL_PATHS,
    MODELLED,
    tool_paths,
    write_settings,
)
from cannery.dialects.gemini_generate.sliced import write_slices
from cannery.dialects.gemini_generate.spelling import NAME, Object, camel, read_form
from cannery.dialects.gemini_generate.writing import MessageWriter
from cannery.messages.requests import Request
from cannery.wire.aliasing import aliased
from cannery.wire.contract import Dialect, Piece, Route
from cannery.wire.lazy import later
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue
from cannery.wire.settled import settle

_read_request = later(__name__, "reading", "read_request")


def write_request(
    request: Request, pieces: list[Piece], report: Report, turns: Any = None
) -> Object:
    """The body of a request; ``turns`` are contents that are written already."""
    model = request.model if isinstance(request.model, str) else None
    at_home = request.source == NAME
    signs = not at_home and needs_signatures(model)
    writer = MessageWriter(report, at_home=at_home, model=model, signs=signs)
    residue = own_residue(request, NAME)
    shapes, _ = read_form(None if residue is None else residue.form)
    body = write_settings(request, report, shapes)
    body = settle(body, request, residue, "contents", _read_request, camel)
    messages = writer.messages(pieces)
    contents = messages["contents"]
    if turns is not None:
        messages["contents"] = turns
    elif "content" in shapes and len(contents) == 1:
        messages["contents"] = contents[0]
    return {**body, **messages}


_KINDS = {
    ("POST", "/models/{model}:generateContent"): "generate",
    ("POST", "/models/{model}:streamGenerateContent"): "stream",
    ("POST", "/models/{model}:countTokens"): "count",
    ("GET", "/models"): "models",
    ("GET", "/models/{model}"): "model",
}

DIALECT = Dialect(
    name=NAME,
    names_model=False,
    rules=RULES,
    read_request=_read_request,
    write_request=write_request,
    read_response=later(__name__, "responses", "read_response"),
    write_response=later(__name__, "responses", "write_response"),
    stream_reader=later(__name__, "stream_reading", "GeminiStreamReader"),
    stream_writer=aliased(later(__name__, "stream_writing", "GeminiStreamWriter")),
    read_error=later(__name__, "errors", "read_error"),
    write_error=later(__name__, "errors", "write_error"),
    routes=tuple(
        Route(method, f"{version}{path}", kind)
        for version in ("/v1beta", "/v1", "")
        for (method, path), kind in _KINDS.items()
    ),
    control_paths=CONTROL_PATHS,
    tool_paths=tool_paths,
    modelled=MODELLED,
    rules_for=rules_for,
    fixed_repairs=frozenset({"late_supervisors"}),
    write_plain=later(__name__, "fast", "write_plain"),
    plan_turns=later(__name__, "fast", "plan_turns"),
    read_slices=later(__name__, "slicing", "read_slices"),
    write_slices=write_slices,
)

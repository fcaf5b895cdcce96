"""OpenAI Responses (``POST /v1/responses``).

Oddities: everything is an item of its own; ``instructions`` are separate from the items; a call has two ids, and
``call_id`` is the one that pairs; a reasoning item must keep the item after it; only the server generates item ids, so
items from elsewhere have none. Written against the types of openai 3.49.0 (2026-11-15).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from cannery.dialects.openai_responses.forms import form_words
from cannery.dialects.openai_responses.hosted import HOSTED
from cannery.dialects.openai_responses.reading import read_request
from cannery.dialects.openai_responses.responses import COUNTS, read_response, write_response
from cannery.dialects.openai_responses.settings import (
    MODELLED_ANSWER,
    NAME,
    TABLE,
    write_settings,
)
from cannery.dialects.openai_responses.stream_reading import ResponsesStreamReader
from cannery.dialects.openai_responses.stream_writing import ResponsesStreamWriter
from cannery.dialects.openai_responses.writing import ItemWriter
from cannery.families.openai.errors import read_openai_error, write_openai_error
from cannery.families.openai.service import HEADERS, HOST, PASSED, azure
from cannery.families.openai.shared import shared_settings
from cannery.messages.canisters import SupervisorCanisterClass, text_of
from cannery.messages.requests import Request
from cannery.wire.aliasing import aliased
from cannery.wire.contract import Dialect, Piece, Route, Rules
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, recall_settings
from cannery.wire.service import Continuing, Replies, Service, Streams
from cannery.wire.signs import Evidence, Sign, asks, has
from cannery.wire.turns import is_prefill

RULES = Rules(
    call_id_length=64,
    name_pattern=r"[A-Za-z0-9_-]+",
    name_length=64,
)


def write_request(request: Request, pieces: list[Piece], report: Report) -> dict[str, Any]:
    """The body of a request."""
    is_same = request.source == NAME
    body = write_settings(request, report)
    residue = own_residue(request, NAME)
    body = recall_settings(body, residue)
    is_stored = body.get("store") is not False
    writer = ItemWriter(report, is_same=is_same, model=request.model, is_stored=is_stored)
    lead = pieces[0] if _leads_as_instructions(pieces, is_same=is_same) else None
    pieces = pieces if lead is None else pieces[1:]
    writer.has_lead = lead is not None or not is_same
    items = writer.items(pieces)
    if lead is not None and (items or is_same):
        body["instructions"] = text_of(lead.canister.held)
        if own_residue(lead.canister, NAME) is None:
            report_residue(lead.canister, report, lead.place)
    elif lead is not None:
        # Nothing is left of the item after it, and the input must not be empty.
        items = writer.items([lead])
    if writer.displaced is not None:
        body["instructions"] = writer.displaced
    if not is_same and pieces and is_prefill(pieces[-1]):
        report.lose("PREFILL_DROPPED", pieces[-1].place)
    words = form_words(residue)
    if len(pieces) == 1 and "input" in form_words(own_residue(pieces[0].canister, NAME)):
        body["input"] = items[0]["content"]
    elif items or not words & {"absent", "null"}:
        body["input"] = items
    elif "null" in words:
        body["input"] = None
    return body


def _leads_as_instructions(pieces: list[Piece], *, is_same: bool) -> bool:
    """Whether the first piece goes into ``instructions``; as the only piece it must stay in the input."""
    canister = pieces[0].canister if pieces else None
    if type(canister) is not SupervisorCanisterClass or canister.content.kind != "text":
        return False
    residue = canister.residue
    if _is_instructions(pieces[0]):
        return True
    if is_same:
        is_own = residue is None and not isinstance(canister.rank, str)
        return is_own and not any(map(_is_instructions, pieces[1:]))
    is_marked = residue is not None and (residue.dialect == NAME or bool(residue.cache))
    is_single = not pieces[1].canister.joined if len(pieces) > 1 else False
    return is_single and not is_marked and canister.rank != "developer" and bool(canister.text)


def _is_instructions(piece: Piece) -> bool:
    return "instructions" in form_words(own_residue(piece.canister, NAME))


DIALECT = Dialect(
    name=NAME,
    messages="input",
    rules=RULES,
    read_request=read_request,
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
    stream_reader=ResponsesStreamReader,
    stream_writer=aliased(ResponsesStreamWriter, NAME),
    read_error=partial(read_openai_error, NAME),
    write_error=write_openai_error,
    routes=(
        Route("POST", "/v1/responses", "generate"),
        Route("GET", "/v1/models", "models"),
        Route("GET", "/v1/models/{model}", "model"),
    ),
    control_paths=TABLE.paths,
    defaults={
        "background": (False,),
        "frequency_penalty": (0, 0.0),
        "presence_penalty": (0, 0.0),
        "service_tier": ("auto",),
        # No other service stores responses, so none needs to be told not to.
        "store": (True, False),
        "stream_options": ({"include_obfuscation": True}, {"include_obfuscation": False}),
        "text.verbosity": ("medium",),
        "top_logprobs": (0,),
        "truncation": ("disabled",),
    },
    hosted=HOSTED,
    references={
        "previous_response_id": "HISTORY_MISSING",
        "conversation": "HISTORY_MISSING",
        "item_reference": "HISTORY_MISSING",
        "prompt": "PROMPT_MISSING",
    },
    modelled=TABLE.modelled,
    modelled_answer=MODELLED_ANSWER,
    takes_over=partial(shared_settings, NAME),
    needs_roles=False,
    short_names=("responses",),
    variants=(azure("/openai/responses", "2025-04-01-preview"),),
    service=Service(
        host=HOST,
        headers=HEADERS,
        replies=Replies(
            "resp_",
            ("output",),
            COUNTS,
        ),
        streams=Streams(
            endings=(
                b"response.completed",
                b"response.incomplete",
                b"response.failed",
                b"event: error",
            )
        ),
        count=lambda tokens: {"object": "response.input_tokens", "input_tokens": tokens},
        continuing=Continuing(
            reply="previous_response_id",
            conversation="conversation",
            endpoint="/responses",
            # Codex warms up a connection with this field; over HTTP it means nothing.
            ignored=("generate",),
        ),
        passed=PASSED,
        is_anywhere=True,
    ),
    signs=(
        Sign(
            "response",
            Evidence.ANSWER,
            "its object is response",
            lambda value: value.get("object") == "response",
        ),
        Sign(
            "stream",
            Evidence.ANSWER,
            "its events are named response.…",
            lambda value: str(value.get("type", "")).startswith("response."),
        ),
        Sign("request", Evidence.SHAPE, "it has input and no messages", asks("input")),
        Sign("request", Evidence.SHAPE, "it has instructions", asks("instructions")),
        Sign(
            "request",
            Evidence.SHAPE,
            "it names a stored prompt",
            lambda value: isinstance(value.get("prompt"), Mapping),
        ),
        Sign(
            "request",
            Evidence.SHAPE,
            "it goes on with an answer or a conversation",
            has("previous_response_id", "conversation", "max_output_tokens"),
        ),
    ),
)

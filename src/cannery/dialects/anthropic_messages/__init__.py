"""Anthropic Messages (``POST /v1/messages``).

Oddities: leading system text is a field, and late system text a message that only newer models accept; tool results
come first in the user turn after the calls; arguments are objects; text must have a visible character; a thinking block
is sent back unchanged, with its signature. Written against the types of anthropic 2.8.0 (2026-11-15).
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cannery.dialects.anthropic_messages.hosted import HOSTED
from cannery.dialects.anthropic_messages.models import NAME, RULES, rules_for
from cannery.dialects.anthropic_messages.reading import read_request
from cannery.dialects.anthropic_messages.responses import (
    COUNTS,
    read_error,
    read_response,
    write_error,
    write_response,
)
from cannery.dialects.anthropic_messages.settings import (
    MODELLED_ANSWER,
    TABLE,
    write_settings,
)
from cannery.dialects.anthropic_messages.streams import MessagesStreamReader, MessagesStreamWriter
from cannery.dialects.anthropic_messages.writing import MessageWriter
from cannery.families.bedrock import errors
from cannery.families.bedrock.chunks import AWS_CHUNKS
from cannery.messages.absence import absent
from cannery.messages.requests import Request
from cannery.roles.vocabularies import ANTHROPIC
from cannery.wire.aliasing import aliased
from cannery.wire.contract import Dialect, Piece, Route, Variant
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, recall_settings
from cannery.wire.service import (
    VERTEX_BASE,
    Continuing,
    Headers,
    Host,
    Models,
    Replies,
    Service,
    Streams,
)
from cannery.wire.signs import (
    Evidence,
    Sign,
    block_ends,
    blocks,
    both,
    has,
    listed,
    model_starts,
    tool_has,
)


def write_request(request: Request, pieces: list[Piece], report: Report) -> dict[str, Any]:
    """The body of a request."""
    source, model = request.source, request.model
    writer = MessageWriter(
        report,
        is_same=source == NAME,
        is_foreign=source is not None and source != NAME,
        model=model if isinstance(model, str) else None,
    )
    leading, others = writer.split(pieces)
    system = writer.system(leading)
    messages = writer.messages(others)
    if not writer.is_same:
        writer.trim(messages)
    body = write_settings(request, report, messages)
    body = recall_settings(body, own_residue(request, NAME))
    if writer.displaced:
        system = writer.system([*leading, *writer.displaced])
    if system is not absent:
        body["system"] = system
    body["messages"] = messages
    return body


def _describe_model(name: str, _: str) -> dict[str, Any]:
    created = "2026-01-01T00:00:00Z"
    return {"type": "model", "id": name, "display_name": name, "created_at": created}


def _list_models(listed: list[dict[str, Any]]) -> dict[str, Any]:
    first, last = (listed[0]["id"], listed[-1]["id"]) if listed else (None, None)
    return {"data": listed, "has_more": False, "first_id": first, "last_id": last}


# https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html (2026-11-18)
BEDROCK = Variant(
    "bedrock",
    (
        Route("POST", "/model/{model}/invoke", "generate", safe=":"),
        Route("POST", "/model/{model}/invoke-with-response-stream", "stream", safe=":"),
    ),
    replace(errors.HEADERS, forwarded=("anthropic-beta",)),
    fields={"anthropic_version": "bedrock-2023-05-31"},
    without_fields=("stream",),
    header_fields={"anthropic_beta": "anthropic-beta"},
    read_error=errors.read_error,
    write_error=errors.write_error,
    packing=AWS_CHUNKS,
)
# https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude (2026-11-18)
VERTEX = Variant(
    "vertex",
    (
        Route("POST", "/publishers/anthropic/models/{model}:rawPredict", "generate", safe="@"),
        Route("POST", "/publishers/anthropic/models/{model}:streamRawPredict", "stream", safe="@"),
        Route("POST", "/publishers/anthropic/models/count-tokens:rawPredict", "count"),
    ),
    Headers(
        forwarded=("anthropic-beta",), returned=("anthropic-ratelimit-*",), request_id="request-id"
    ),
    base=VERTEX_BASE,
    fields={"anthropic_version": "vertex-2023-10-16"},
)

SERVICE = Service(
    host=Host("https://api.anthropic.com", ("ANTHROPIC_API_KEY",), ("claude-*",)),
    headers=Headers(
        key="x-api-key",
        always={"anthropic-version": "2023-06-01"},
        asked={"mcp_servers": ("anthropic-beta", "mcp-client-2025-11-20")},
        forwarded=("anthropic-version", "anthropic-beta"),
        returned=("anthropic-organization-id", "anthropic-ratelimit-*"),
        tell=("anthropic-version", "anthropic-beta", "x-api-key"),
        agents=("anthropic", "claude"),
        request_id="request-id",
    ),
    replies=Replies(
        "msg_",
        ("content",),
        COUNTS,
    ),
    streams=Streams(endings=(b"message_stop", b"event: error", b'"type":"error"')),
    models=Models(_describe_model, _list_models, "?limit=1000"),
    continuing=Continuing(thread="thread"),
    passed=("/messages/batches", "/files"),
)

_MANY = listed("messages")
SIGNS = (
    Sign(
        "response",
        Evidence.ANSWER,
        "its type is message",
        lambda value: value.get("type") == "message" and "content" in value,
    ),
    # Other dialects also have events of type error.
    Sign(
        "stream",
        Evidence.SHARED_DETAIL,
        "its events start with message_start",
        lambda value: (
            value.get("type") in ("message_start", "ping", "content_block_start", "error")
        ),
    ),
    Sign("request", Evidence.DETAIL, "it has system beside messages", both(has("system"), _MANY)),
    Sign(
        "request",
        Evidence.DETAIL,
        "its tools have an input_schema",
        both(tool_has("input_schema"), _MANY),
    ),
    Sign(
        "request",
        Evidence.DETAIL,
        "it has blocks of tool_use or tool_result",
        block_ends(
            *("tool_use", "tool_result", "thinking", "container_upload", "compaction"),
            *("search_result", "tool_reference", "tool_addition", "tool_removal"),
        ),
    ),
    Sign(
        "request",
        Evidence.DETAIL,
        "it has images or documents with a source",
        lambda value: any("source" in block for block in blocks(value)),
    ),
    Sign(
        "request",
        Evidence.DETAIL,
        "it has stop_sequences or an anthropic_version",
        both(has("stop_sequences", "anthropic_version", "anthropic_beta"), _MANY),
    ),
    Sign(
        "request",
        Evidence.DETAIL,
        "it has settings that only this dialect has",
        both(
            has("mcp_servers", "container", "context_management", "output_config", "inference_geo"),
            _MANY,
        ),
    ),
    Sign("request", Evidence.MODEL, "it asks for a Claude model", model_starts("claude")),
)

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
    control_paths=TABLE.paths,
    defaults={"context_management": ({"edits": []},), "service_tier": ("auto",), "top_p": (-1,)},
    hosted=HOSTED,
    rules_for=rules_for,
    modelled=TABLE.modelled,
    modelled_answer=MODELLED_ANSWER,
    short_names=("anthropic", "claude"),
    vocabulary=ANTHROPIC,
    variants=(BEDROCK, VERTEX),
    service=SERVICE,
    signs=SIGNS,
)

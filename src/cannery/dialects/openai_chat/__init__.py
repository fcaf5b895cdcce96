"""OpenAI Chat Completions (``POST /v1/chat/completions``), and every compatible server.

Oddities: system and developer messages may stand anywhere; tool results are messages of their own and hold only text;
arguments are a JSON string that need not be JSON; compatible servers add ``reasoning_content``. Written against the
types of openai 3.49.0 (2026-11-15).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cannery.dialects.openai_chat.errors import read_error, write_error
from cannery.dialects.openai_chat.hosted import HOSTED
from cannery.dialects.openai_chat.reading import read_request
from cannery.dialects.openai_chat.responses import SHAPE
from cannery.dialects.openai_chat.settings import (
    MODELLED_ANSWER,
    NAME,
    TABLE,
    write_settings,
)
from cannery.families.chat.answers import response_reader, response_writer
from cannery.families.chat.stream_reading import ChatStreamReader
from cannery.families.chat.stream_writing import ChatStreamWriter
from cannery.families.chat.tools import TOOL_PATHS
from cannery.families.chat.writing import ChatWriter
from cannery.families.openai.service import HEADERS, HOST, PASSED, azure
from cannery.families.openai.shared import shared_settings
from cannery.messages.absence import absent
from cannery.messages.requests import Request
from cannery.wire.aliasing import aliased
from cannery.wire.contract import UNKNOWN_MODEL, Dialect, Piece, Route, Rules, Variant
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, recall_settings
from cannery.wire.service import VERTEX_BASE, Replies, Service, Streams
from cannery.wire.signs import Evidence, Sign, both, has, listed, role_is
from cannery.wire.turns import is_prefill

RULES = Rules(
    call_id_length=40,
    name_pattern=r"[A-Za-z0-9_-]+",
    name_length=64,
)


def write_request(request: Request, pieces: list[Piece], report: Report) -> dict[str, Any]:
    """The body of a request."""
    is_same = request.source == NAME
    writer = ChatWriter(NAME, report, is_same=is_same)
    body = recall_settings(write_settings(request, report), own_residue(request, NAME))
    body["messages"] = writer.messages(pieces)
    # A data set record is not sent to a model, so it may end with an answer.
    is_asked = not is_same and request.model not in (None, absent, UNKNOWN_MODEL)
    if is_asked and pieces and is_prefill(pieces[-1]):
        report.lose("PREFILL_DROPPED", pieces[-1].place)
    return body


DIALECT = Dialect(
    name=NAME,
    rules=RULES,
    read_request=read_request,
    write_request=write_request,
    read_response=response_reader(SHAPE),
    write_response=response_writer(SHAPE),
    stream_reader=partial(ChatStreamReader, SHAPE),
    stream_writer=aliased(partial(ChatStreamWriter, SHAPE), NAME),
    read_error=read_error,
    write_error=write_error,
    routes=(
        Route("POST", "/v1/chat/completions", "generate"),
        Route("GET", "/v1/models", "models"),
        Route("GET", "/v1/models/{model}", "model"),
    ),
    control_paths=TABLE.paths,
    defaults={
        "logprobs": (False,),
        "top_logprobs": (0,),
        "modalities": (["text"],),
        "service_tier": ("auto",),
        "store": (False,),
        "verbosity": ("medium",),
    },
    hosted=HOSTED,
    modelled=TABLE.modelled,
    modelled_answer=MODELLED_ANSWER,
    takes_over=partial(shared_settings, NAME),
    tool_paths=TOOL_PATHS,
    short_names=("openai", "chat", "gpt"),
    variants=(
        azure("/openai/deployments/{model}/chat/completions", "2024-10-21"),
        # https://docs.cloud.google.com/vertex-ai/generative-ai/docs/start/openai (2026-11-18)
        Variant(
            "vertex",
            (Route("POST", "/endpoints/openapi/chat/completions", "generate"),),
            HEADERS,
            base=VERTEX_BASE,
        ),
    ),
    service=Service(
        host=HOST,
        headers=HEADERS,
        replies=Replies("chatcmpl-", ("choices",), SHAPE.counts, has_own_fields=True),
        streams=Streams(endings=(b"data: [DONE]", b"data:[DONE]"), tells_usage=False),
        passed=PASSED,
        is_anywhere=True,
    ),
    signs=(
        Sign("response", Evidence.ANSWER, "it has choices", listed("choices")),
        Sign("stream", Evidence.ANSWER, "its events are chat completion chunks", has("choices")),
        Sign("request", Evidence.SHARED_DETAIL, "it has developer messages", role_is("developer")),
        Sign(
            "request",
            Evidence.SHARED_DETAIL,
            "it has settings that only this dialect has",
            both(has("max_completion_tokens", "logit_bias", "stream_options"), listed("messages")),
        ),
        Sign("request", Evidence.SHAPE, "it has messages", listed("messages")),
    ),
)

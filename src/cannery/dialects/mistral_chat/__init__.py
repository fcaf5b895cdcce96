"""Mistral chat completions (``POST /v1/chat/completions`` of api.mistral.ai).

Oddities: call ids of older models have nine letters or digits; a system message may not follow the assistant or a
result; ``prefix`` on the last assistant message asks to continue it; thoughts, documents and references are chunks of
the content; results name their function. Written against mistralai 3.7.0 and mistral-common 1.13.0 (2026-11-18).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cannery.dialects.mistral_chat.hosted import HOSTED
from cannery.dialects.mistral_chat.reading import read_request
from cannery.dialects.mistral_chat.settings import MODELLED_ANSWER, NAME, TABLE
from cannery.dialects.mistral_chat.streams import (
    SHAPE,
    MistralStreamReader,
    MistralStreamWriter,
    read_error,
    write_error,
)
from cannery.dialects.mistral_chat.writing import write_request
from cannery.families.chat.answers import response_reader, response_writer
from cannery.families.chat.tools import TOOL_PATHS
from cannery.wire.aliasing import aliased
from cannery.wire.contract import Dialect, Route, Rules
from cannery.wire.service import Headers, Host, Replies, Service, Streams
from cannery.wire.signs import (
    Evidence,
    Sign,
    block_ends,
    blocks,
    both,
    has,
    listed,
    message_has,
    model_starts,
)

RULES = Rules(
    late_supervisors="behind_words",
    call_id_pattern=r"[A-Za-z0-9]{9}",
    call_id_length=9,
    name_pattern=r"[A-Za-z0-9_-]+",
    name_length=64,
    cache_marks=0,
    knows_developer=False,
    takes_reasoning_text=True,
)
_MODELS = (
    *("mistral-", "ministral-", "magistral-", "codestral-", "devstral-", "pixtral-"),
    *("open-mistral", "open-mixtral", "voxtral-", "labs-"),
)


def _has_thoughts(value: Mapping[str, Any]) -> bool:
    return any(type(block.get("thinking")) is list for block in blocks(value))


def _is_answer(value: Mapping[str, Any]) -> bool:
    return "choices" in value and str(value.get("model", "")).lower().startswith(_MODELS)


DIALECT = Dialect(
    name=NAME,
    rules=RULES,
    read_request=read_request,
    write_request=write_request,
    read_response=response_reader(SHAPE),
    write_response=response_writer(SHAPE),
    stream_reader=MistralStreamReader,
    stream_writer=aliased(MistralStreamWriter, NAME),
    read_error=read_error,
    write_error=write_error,
    routes=(
        Route("POST", "/v1/chat/completions", "generate"),
        Route("GET", "/v1/models", "models"),
        Route("GET", "/v1/models/{model}", "model"),
    ),
    control_paths=TABLE.paths,
    modelled=TABLE.modelled,
    defaults={"safe_prompt": (False,)},
    modelled_answer=MODELLED_ANSWER,
    tool_paths=TOOL_PATHS,
    hosted=HOSTED,
    short_names=("mistral",),
    service=Service(
        host=Host(
            "https://api.mistral.ai",
            ("MISTRAL_API_KEY",),
            (
                *("mistral-*", "ministral-*", "magistral-*", "codestral-*", "devstral-*"),
                *("pixtral-*", "open-mistral-*", "open-mixtral-*", "voxtral-*"),
            ),
        ),
        headers=Headers(
            returned=("mistral-correlation-id", "x-ratelimit-*"),
            agents=("mistral-client", "mistralai"),
        ),
        replies=Replies("", ("choices",), SHAPE.counts, has_own_fields=True),
        streams=Streams(endings=(b"data: [DONE]", b"data:[DONE]")),
        passed=(
            *("/agents", "/audio", "/batch", "/embeddings", "/files", "/fim", "/fine_tuning"),
            *("/libraries", "/moderations", "/ocr"),
        ),
        provider="mistral_ai",
    ),
    signs=(
        Sign("request", Evidence.OWN_FIELD, "its thoughts are lists", _has_thoughts),
        Sign("response", Evidence.OWN_FIELD, "a Mistral model answers", _is_answer),
        Sign("stream", Evidence.OWN_FIELD, "a Mistral model answers", _is_answer),
        Sign(
            "request",
            Evidence.DETAIL,
            "it has fields that only this dialect has",
            both(has("random_seed", "safe_prompt", "prompt_mode"), listed("messages")),
        ),
        Sign("request", Evidence.DETAIL, "its messages have a prefix", message_has("prefix")),
        Sign("request", Evidence.DETAIL, "it has documents", block_ends("document_url")),
        Sign("request", Evidence.MODEL, "it asks for a Mistral model", model_starts(*_MODELS)),
    ),
)

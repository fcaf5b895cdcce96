"""Cohere chat (``POST /v2/chat`` of api.cohere.com).

Oddities: documents are beside the messages, and responses cite them and tool results by text offsets; the model's plan
for its calls is a field; results may be documents; strictness applies to all tools or none; stream events have names,
and contents and calls have numbers. Written against cohere 7.3.1 (2026-11-18).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cannery.dialects.cohere_chat.reading import PLAN, read_request
from cannery.dialects.cohere_chat.responses import (
    COUNTS,
    read_error,
    read_response,
    write_error,
    write_response,
)
from cannery.dialects.cohere_chat.settings import (
    MODELLED_ANSWER,
    NAME,
    STRICT,
    TABLE,
)
from cannery.dialects.cohere_chat.streams import CohereStreamReader, CohereStreamWriter
from cannery.dialects.cohere_chat.writing import write_request
from cannery.wire.aliasing import aliased
from cannery.wire.contract import Dialect, Route, Rules
from cannery.wire.service import Headers, Host, Models, Replies, Service, Streams
from cannery.wire.signs import (
    Evidence,
    Sign,
    block_ends,
    both,
    has,
    listed,
    message_has,
    model_starts,
)

RULES = Rules(cache_marks=0, knows_developer=False, takes_reasoning_text=True)
_MODELS = ("command-", "c4ai-", "north-")
_CONTEXT = 256_000


def _describe_model(name: str, owner: str) -> dict[str, Any]:
    return {
        "name": name,
        "endpoints": ["chat"],
        "finetuned": False,
        "context_length": _CONTEXT,
        "features": ["tools", "vision", "json_schema"],
        "owned_by": owner,
    }


def _list_models(models: list[dict[str, Any]]) -> dict[str, Any]:
    return {"models": models}


def _is_event(value: Mapping[str, Any]) -> bool:
    kinds = ("message-", "content-", "tool-", "citation-")
    return isinstance(value.get("type"), str) and value["type"].startswith(kinds)


def _is_answer(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("message"), Mapping) and "finish_reason" in value


DIALECT = Dialect(
    name=NAME,
    rules=RULES,
    read_request=read_request,
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
    stream_reader=CohereStreamReader,
    stream_writer=aliased(CohereStreamWriter, NAME),
    read_error=read_error,
    write_error=write_error,
    routes=(
        Route("POST", "/v2/chat", "generate"),
        Route("GET", "/v1/models", "models"),
        Route("GET", "/v1/models/{model}", "model"),
    ),
    control_paths=TABLE.paths,
    modelled=TABLE.modelled | {STRICT},
    defaults={
        "safety_mode": ("CONTEXTUAL",),
        "logprobs": (False,),
        "priority": (0,),
        "raw_prompting": (False,),
        "citation_options": ({"mode": "accurate"},),
    },
    modelled_answer=MODELLED_ANSWER,
    tool_paths={"strict": f"$.{STRICT}"},
    short_names=("cohere",),
    service=Service(
        host=Host(
            "https://api.cohere.com",
            ("CO_API_KEY", "COHERE_API_KEY"),
            ("command-*", "c4ai-*", "north-*"),
        ),
        headers=Headers(returned=("x-debug-trace-id", "x-trial-endpoint-*"), agents=("cohere",)),
        replies=Replies(
            "",
            ("message",),
            COUNTS,
            has_own_fields=True,
        ),
        streams=Streams(endings=(b'"message-end"',)),
        models=Models(_describe_model, _list_models),
        passed=(
            *("/audio", "/batches", "/check-api-key", "/classify", "/connectors", "/datasets"),
            *("/detokenize", "/embed", "/embed-jobs", "/finetuning", "/rerank", "/tokenize"),
        ),
    ),
    signs=(
        Sign(
            "request",
            Evidence.OWN_FIELD,
            "it has documents beside its messages",
            both(listed("documents"), listed("messages")),
        ),
        Sign("request", Evidence.OWN_FIELD, "its messages have plans", message_has(PLAN)),
        Sign("response", Evidence.OWN_FIELD, "it has one message that ended", _is_answer),
        Sign("stream", Evidence.OWN_FIELD, "its events have names of Cohere", _is_event),
        Sign(
            "request",
            Evidence.OWN_FIELD,
            "it asks for a Cohere model that thought",
            both(model_starts(*_MODELS), block_ends("thinking")),
        ),
        Sign(
            "request",
            Evidence.OWN_FIELD,
            "it has fields that only this dialect has",
            both(has("safety_mode", "citation_options", STRICT, "k", "p"), listed("messages")),
        ),
        Sign("request", Evidence.MODEL, "it asks for a Cohere model", model_starts(*_MODELS)),
    ),
)

"""Ollama's chat (``POST /api/chat``) and what its programs ask beside it.

Oddities: the text of a message is one string and images stand beside it as bare base64; calls need no id, and results
are paired by name and order; arguments are objects; a request that does not say otherwise streams; streams are lines of
JSON. Written against ollama 0.6.3 and the server at fb30760 (2026-08-21), whose calls and results may have ids.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.ollama_chat.reading import read_request
from cannery.dialects.ollama_chat.responses import read_response, write_response
from cannery.dialects.ollama_chat.settings import CONTROL_PATHS, MODELLED, NAME
from cannery.dialects.ollama_chat.streams import (
    OllamaStreamReader,
    OllamaStreamWriter,
    read_error,
    write_error,
)
from cannery.dialects.ollama_chat.writing import write_request
from cannery.messages import digests
from cannery.wire.aliasing import aliased
from cannery.wire.contract import Dialect, Route, Rules
from cannery.wire.framing import NDJSON
from cannery.wire.service import Headers, Models, Replies, Service, Streams, TokenFields
from cannery.wire.signs import Evidence, Sign, both, has, listed, message_has

RULES = Rules(cache_marks=0, knows_developer=False, takes_reasoning_text=True)
_MODIFIED = "2026-01-01T00:00:00Z"
# What every model is said to be able to do: programs do not send what is not in this list.
_CAPABILITIES = ("completion", "tools", "vision", "thinking")


def _describe_model(name: str, owner: str) -> dict[str, Any]:
    details = {
        "parent_model": "",
        "format": "",
        "family": owner,
        "families": [owner],
        "parameter_size": "",
        "quantization_level": "",
    }
    return {
        "name": name,
        "model": name,
        "modified_at": _MODIFIED,
        "size": 0,
        # Programs take models with the same digest for one.
        "digest": digests.sha256(name.encode()).hexdigest(),
        "details": details,
    }


def _show_model(name: str, owner: str) -> dict[str, Any]:
    """What ``/api/show`` tells of a model."""
    details = _describe_model(name, owner)["details"]
    return {
        "modelfile": f"FROM {name}\n",
        "parameters": "",
        "template": "{{ .Prompt }}",
        "details": details,
        "model_info": {"general.architecture": owner},
        "capabilities": [*_CAPABILITIES],
        "modified_at": _MODIFIED,
    }


def _list_models(models: list[dict[str, Any]]) -> dict[str, Any]:
    return {"models": models}


DIALECT = Dialect(
    name=NAME,
    rules=RULES,
    read_request=read_request,
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
    stream_reader=OllamaStreamReader,
    stream_writer=aliased(OllamaStreamWriter, NAME),
    read_error=read_error,
    write_error=write_error,
    routes=(
        Route("POST", "/api/chat", "generate"),
        Route("GET", "/api/tags", "models"),
        Route("POST", "/api/show", "model"),
        Route("GET", "/api/version", "version"),
    ),
    control_paths=CONTROL_PATHS,
    modelled=MODELLED,
    nests_tools=True,
    short_names=("ollama",),
    service=Service(
        headers=Headers(agents=("ollama",)),
        replies=Replies(
            "",
            ("message",),
            TokenFields("", ("prompt_eval_count",), ("eval_count",), ()),
            has_own_fields=True,
        ),
        streams=Streams(
            NDJSON, endings=(b'"done":true', b'"done": true', b'"error"'), by_default=True
        ),
        models=Models(_describe_model, _list_models, show=_show_model),
        version={"version": "0.12.0"},
    ),
    signs=(
        Sign(
            "request",
            Evidence.OWN_FIELD,
            "it has options",
            both(has("options"), listed("messages")),
        ),
        Sign(
            "request",
            Evidence.DETAIL,
            "it has fields that only this dialect has",
            both(has("keep_alive", "think"), listed("messages")),
        ),
        Sign(
            "request",
            Evidence.DETAIL,
            "its messages have images",
            message_has("images", "tool_name"),
        ),
        Sign("response", Evidence.OWN_FIELD, "it is done", both(has("message"), has("done"))),
        Sign(
            "stream",
            Evidence.OWN_FIELD,
            "its lines say whether it is done",
            both(has("message"), has("done")),
        ),
    ),
)

"""Values for what Ollama's server does around bodies: model lists, capabilities, token counts, streams of lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannery.errors import DialectError
from cannery.families.ollama.answers import COUNTS, Shape, write_time
from cannery.messages import digests
from cannery.messages.checked import now
from cannery.wire.bodies import read_object
from cannery.wire.contract import Rules
from cannery.wire.framing import NDJSON
from cannery.wire.service import Headers, Models, Replies, Service, Streams

RULES = Rules(cache_marks=0, knows_developer=False, takes_reasoning_text=True)
_MODIFIED = "2026-01-01T00:00:00Z"
# A request without a question is shorter.
_SHORT = 2000
# The request fields that hold a question.
_ASKING = ("messages", "prompt", "images", "suffix")
# The capabilities reported for every model: clients do not use a capability that is not listed.
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
        # Clients treat models with the same digest as one.
        "digest": digests.sha256(name.encode()).hexdigest(),
        "details": details,
    }


def _show_model(name: str, owner: str) -> dict[str, Any]:
    """The reply of ``/api/show`` for a model."""
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


def _idle(shape: Shape) -> Callable[[bytes], dict[str, Any] | None]:
    """The reply to a request that only loads or unloads a model."""

    def answer(body: bytes) -> dict[str, Any] | None:
        if len(body) > _SHORT:
            return None
        try:
            asked = read_object(shape.name, body)
        except DialectError:
            return None
        if type(asked.get("model")) is not str or any(asked.get(key) for key in _ASKING):
            return None
        return {
            "model": asked["model"],
            "created_at": write_time(int(now().timestamp())),
            **shape.wrap({"role": "assistant", "content": ""}),
            "done": True,
            "done_reason": "unload" if asked.get("keep_alive") in (0, "0") else "load",
        }

    return answer


def ollama_service(shape: Shape) -> Service:
    """The service of one of the two APIs."""
    endings = (b'"done":true', b'"done": true', b'"error"')
    return Service(
        headers=Headers(agents=("ollama",)),
        replies=Replies("", shape.said[:1], COUNTS, "", has_own_fields=True),
        streams=Streams(NDJSON, endings=endings, by_default=True),
        models=Models(_describe_model, _list_models, show=_show_model),
        version={"version": "0.12.0"},
        idle=_idle(shape),
    )

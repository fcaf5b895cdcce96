"""Judges bodies by the official SDKs' own types, eagerly and with unknown keys forbidden.

Exceptions from the plain types, each with its reason:

- Anthropic `temperature`, `top_p`, `top_k` left the typed parameters (anthropic 2.8.0), yet
  servers and all clients still speak them: they are known keys of their old types.
- Anthropic `betas`, `workspace_id`, `user_profile_id` are typed as parameters but travel as
  headers: in a body they are unknown. Response models that the parameter unions admit too (to echo
  SDK objects) are left out, so that response-only fields in a request are found.
- Gemini's REST body has no type of its own in the SDK; `GenerateContentRequest` below lists what
  google-genai 3.1.0 writes for `generateContent`. Both key spellings pass, as on the server.
  Integers may be digit strings (protobuf JSON), schema `type` names may be lower case.
- `parsed`, `automaticFunctionCallingHistory`, `sdkHttpResponse` of a Gemini response are made by
  the SDK itself and are unknown on the wire; `citationMetadata.citations` is `citationSources` on
  the Developer API's wire.
- Chat's `delta.annotations` is not typed (openai 3.49.0), yet the search models send it in a chunk
  of its own (openai-java issue 297): it is judged by the type of a whole message.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Optional

import pydantic
import typing_extensions as te
from anthropic.types import Message
from anthropic.types import message_create_params as anthropic_params
from anthropic.types.beta import BetaMessage
from anthropic.types.beta import message_create_params as anthropic_beta_params
from google.genai import types as gemini
from openai.types.chat import ChatCompletion
from openai.types.chat import completion_create_params as chat_params
from openai.types.chat.chat_completion_message import Annotation
from openai.types.responses import Response
from openai.types.responses import response_create_params as responses_params
from pydantic.alias_generators import to_camel

from .judges import JUDGES
from .typecheck import Walker


class AnthropicUntyped(te.TypedDict, total=False):
    """What Anthropic servers take although the SDK no longer types it."""

    temperature: float
    top_p: float
    top_k: int


_HEADERS = frozenset({"betas", "workspace_id", "user_profile_id"})
_GEMINI_SDK_ONLY = frozenset({"parsed", "automaticFunctionCallingHistory", "sdkHttpResponse"})


class GenerateContentRequest(pydantic.BaseModel):
    """The body of `:generateContent`, as the official SDK writes it."""

    model_config = pydantic.ConfigDict(
        alias_generator=to_camel, populate_by_name=True, defer_build=True
    )

    contents: list[gemini.Content]
    system_instruction: Optional[gemini.Content] = None  # noqa: UP045 - same form as the SDK's
    tools: Optional[list[gemini.Tool]] = None  # noqa: UP045
    tool_config: Optional[gemini.ToolConfig] = None  # noqa: UP045
    generation_config: Optional[gemini.GenerationConfig] = None  # noqa: UP045
    safety_settings: Optional[list[gemini.SafetySetting]] = None  # noqa: UP045
    cached_content: Optional[str] = None  # noqa: UP045
    labels: Optional[dict[str, str]] = None  # noqa: UP045
    service_tier: Optional[gemini.ServiceTier] = None  # noqa: UP045
    continuation_token: Optional[bytes] = None  # noqa: UP045
    store: Optional[bool] = None  # noqa: UP045


def validate_request(dialect: str, body: Any, *, beta: bool = False) -> list[str]:
    """The problems of a request body by the SDK's types; `beta` widens Anthropic to its beta."""
    if dialect == "anthropic_messages":
        return _validate_anthropic(body, beta=beta or needs_beta(body))
    walker, hint = _request_judge(dialect)
    return walker.check(hint, body)


def needs_beta(body: Any) -> bool:
    """Whether a body has MCP servers or calls of them, which only the beta types of Anthropic have."""
    if isinstance(body, dict):
        is_mcp = "mcp_servers" in body or str(body.get("type")).startswith("mcp_tool")
        return is_mcp or any(map(needs_beta, body.values()))
    return isinstance(body, list) and any(map(needs_beta, body))


def validate_response(dialect: str, body: Any, *, beta: bool = False) -> list[str]:
    """The problems of a whole response body by the SDK's response models."""
    walker, hint = _response_judge(dialect, beta or needs_beta(body))
    return walker.check(hint, body)


def validate_chunk(dialect: str, body: Any, *, beta: bool = False) -> list[str]:
    """The problems of one decoded stream event by the SDK's event models."""
    walker, hint = _chunk_judge(dialect, beta or needs_beta(body))
    if dialect == "openai_chat" and isinstance(body, dict):
        body, annotations = _without_annotations(body)
        found = [walker.check(Annotation, item, "annotations") for item in annotations]
        return [*walker.check(hint, body), *(problem for one in found for problem in one)]
    return walker.check(hint, body)


def _without_annotations(body: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """A chunk as the types know it, and the annotations of its deltas; later chunks number theirs."""
    choices: list[Any] = []
    annotations: list[Any] = []
    for choice in body.get("choices") or ():
        delta = dict(choice.get("delta") or {})
        annotations += [
            {key: value for key, value in item.items() if key != "index"}
            for item in delta.pop("annotations", None) or ()
        ]
        choices.append({**choice, "delta": delta})
    return {**body, "choices": choices}, annotations


def _validate_anthropic(body: Any, *, beta: bool) -> list[str]:
    if not isinstance(body, dict):
        return ["$: the body is no object"]
    params = anthropic_beta_params if beta else anthropic_params
    untyped = {key: body[key] for key in AnthropicUntyped.__annotations__ if key in body}
    typed = {key: value for key, value in body.items() if key not in untyped}
    names = ("MessageCreateParamsNonStreaming", "MessageCreateParamsStreaming")
    walker = Walker(models=False, closed_keys=dict.fromkeys(names, _HEADERS))
    return walker.check(AnthropicUntyped, untyped) + walker.check(params.MessageCreateParams, typed)


@cache
def _request_judge(dialect: str) -> tuple[Walker, Any]:
    match dialect:
        case "openai_chat":
            return Walker(models=False), chat_params.CompletionCreateParams
        case "openai_responses":
            return Walker(models=False), responses_params.ResponseCreateParams
        case "gemini_generate":
            return _gemini_walker(), GenerateContentRequest
    return JUDGES[dialect].walker, JUDGES[dialect].request


@cache
def _response_judge(dialect: str, beta: bool) -> tuple[Walker, Any]:
    match dialect:
        case "openai_chat":
            return Walker(), ChatCompletion
        case "openai_responses":
            return Walker(), Response
        case "anthropic_messages":
            return Walker(), BetaMessage if beta else Message
        case "gemini_generate":
            return _gemini_walker(), gemini.GenerateContentResponse
    return JUDGES[dialect].walker, JUDGES[dialect].response


@cache
def _chunk_judge(dialect: str, beta: bool) -> tuple[Walker, Any]:
    from anthropic.types import RawMessageStreamEvent
    from anthropic.types.beta import BetaRawMessageStreamEvent
    from openai.types.chat import ChatCompletionChunk
    from openai.types.responses import ResponseStreamEvent

    match dialect:
        case "openai_chat":
            return Walker(), ChatCompletionChunk
        case "openai_responses":
            return Walker(), ResponseStreamEvent
        case "anthropic_messages":
            return Walker(), BetaRawMessageStreamEvent if beta else RawMessageStreamEvent
        case "gemini_generate":
            return _gemini_walker(), gemini.GenerateContentResponse
    return JUDGES[dialect].walker, JUDGES[dialect].chunk


def _gemini_walker() -> Walker:
    return Walker(
        proto=True,
        loose_enums=frozenset({"Type"}),
        closed_keys={"GenerateContentResponse": _GEMINI_SDK_ONLY},
        wire_names={("CitationMetadata", "citations"): "citationSources"},
    )

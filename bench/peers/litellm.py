"""litellm: the request transformations of its providers, and its adapters for the clients of other APIs.

Its proxy converts a body of another API to Chat first, and then to the provider's; the pairs here do the same.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from peers import Json, Pair, Translation, renamed, through

Convert = Callable[[Json], Any]

PACKAGE = "litellm"
EXTRAS = ()


class _Log:
    """A substitute for the logging object of a call, on which its transformations set fields."""


def _split(body: Json) -> tuple[list[Any], Json]:
    settings = {name: value for name, value in body.items() if name not in {"model", "messages"}}
    return body["messages"], settings


def translations() -> dict[Pair, Translation]:
    """The conversions of ``completion`` and the proxy before they send."""
    litellm: Any = importlib.import_module("litellm")
    anthropic = litellm.AnthropicConfig()
    vertex: Any = importlib.import_module("litellm.llms.vertex_ai.gemini.transformation")
    gemini = litellm.GoogleAIStudioGeminiConfig()
    adapters = "litellm.llms.anthropic.pass_through.adapters.transformation"
    adapter = importlib.import_module(adapters).LiteLLMAnthropicMessagesAdapter()
    bridge = importlib.import_module(
        "litellm.completion_extras.litellm_responses_transformation.transformation"
    ).LiteLLMResponsesTransformationHandler()

    def to_anthropic(body: Json) -> Any:
        messages, settings = _split(body)
        model = "claude-sonnet-4-5"
        optional = anthropic.map_openai_params(settings, {}, model, drop_params=False)
        return anthropic.transform_request(model, messages, optional, {}, {})

    def to_gemini(body: Json) -> Any:
        messages, settings = _split(body)
        model = "gemini-2.5-pro"
        return vertex.transform_request_body(
            messages=messages,
            model=model,
            custom_llm_provider="gemini",
            litellm_params={},
            cached_content=None,
            optional_params=gemini.map_openai_params(settings, {}, model, drop_params=False),
        )

    def to_responses(body: Json) -> Any:
        messages, settings = _split(body)
        written = bridge.transform_request("gpt-5.5", messages, settings, {}, {}, _Log())
        return {
            name: value
            for name, value in written.items()
            if name not in {"litellm_logging_obj", "client"}
        }

    def from_anthropic(body: Json) -> Any:
        written, _ = adapter.translate_anthropic_to_openai(anthropic_message_request=body)
        return written

    chat = {"anthropic_messages": from_anthropic, **_other_sources()}
    targets = {
        "anthropic_messages": to_anthropic,
        "gemini_generate": to_gemini,
        "openai_responses": to_responses,
    }
    found = {("openai_chat", target): through(write) for target, write in targets.items()}
    for source, read in chat.items():
        found[source, "openai_chat"] = through(read)
        for target, write in targets.items():
            if target != source:
                found[source, target] = through(partial(_in_turn, read, write))
    return found


def _in_turn(read: Convert, write: Convert, body: Json) -> Any:
    return write(read(body))


def _other_sources() -> dict[str, Convert]:
    """The conversions of its proxy from Responses and Gemini to Chat."""
    responses = importlib.import_module(
        "litellm.responses.litellm_completion_transformation.transformation"
    ).LiteLLMCompletionResponsesConfig()
    adapter = importlib.import_module("litellm.google_genai.adapters.transformation")
    gemini = adapter.GoogleGenAIAdapter()

    def from_responses(body: Json) -> Any:
        settings = {name: value for name, value in body.items() if name not in {"model", "input"}}
        return responses.transform_responses_api_request_to_chat_completion_request(
            model=body["model"], input=body["input"], responses_api_request=settings
        )

    def from_gemini(body: Json) -> Any:
        beside = {
            name: value
            for name, value in body.items()
            if name not in {"contents", "generationConfig"}
        }
        return gemini.translate_generate_content_to_completion(
            model="gemini-2.5-pro",
            contents=body["contents"],
            config=body.get("generationConfig"),
            **beside,
        )

    return {"openai_responses": from_responses, "gemini_generate": from_gemini}


def bulk() -> Translation:
    """The renamed turns as its message objects, in which it holds a conversation."""
    message: Any = importlib.import_module("litellm").Message

    def translate(line: bytes) -> bytes:
        messages = [message(**turn) for turn in renamed(orjson.loads(line))]
        return orjson.dumps({"messages": [one.model_dump(exclude_none=True) for one in messages]})

    return translate


def held(count: int) -> list[Any]:
    """Messages in the type of its answers."""
    message: Any = importlib.import_module("litellm").Message
    roles = ("user", "assistant")
    return [message(role=roles[n & 1], content=f"message number {n}") for n in range(count)]

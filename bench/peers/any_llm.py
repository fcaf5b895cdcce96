"""any-llm: the parameter converters of its providers, and its bridge for the Messages API."""

from __future__ import annotations

import importlib
from typing import Any

from peers import (
    FROM_ANTHROPIC,
    TO_ANTHROPIC,
    TO_GEMINI,
    TO_RESPONSES,
    Json,
    Pair,
    Translation,
    through,
)

PACKAGE = "any-llm-sdk"
EXTRAS = ("anthropic", "gemini", "openai")
PARTIAL = {TO_RESPONSES: "converts the messages only"}


def translations() -> dict[Pair, Translation]:
    """The conversions of ``completion`` and ``messages`` before they call a provider's SDK."""
    completion: Any = importlib.import_module("any_llm.types.completion").CompletionParams
    messages: Any = importlib.import_module("any_llm.types.messages").MessagesParams
    anthropic: Any = importlib.import_module("any_llm.providers.anthropic.utils")
    gemini: Any = importlib.import_module("any_llm.providers.gemini.base").GoogleProvider
    compat: Any = importlib.import_module("any_llm.utils.messages_compat")
    responses: Any = importlib.import_module("any_llm.providers.openai.messages_responses")

    def read(body: Json) -> Any:
        return completion(model_id=body.pop("model"), **body)

    def to_anthropic(body: Json) -> Any:
        return anthropic._convert_params(read(body), provider_name="anthropic")  # noqa: SLF001

    def to_gemini(body: Json) -> Any:
        written = gemini._convert_completion_params(read(body), provider_name="gemini")  # noqa: SLF001
        dump = {"mode": "json", "by_alias": True, "exclude_none": True}
        contents = [content.model_dump(**dump) for content in written["contents"]]
        return {**written, "config": written["config"].model_dump(**dump), "contents": contents}

    def to_responses(body: Json) -> Any:
        said = body.pop("messages")
        items = responses._openai_messages_to_responses_input(said)  # noqa: SLF001
        return {**body, "input": items}

    def from_anthropic(body: Json) -> Any:
        return compat.messages_params_to_completion_params(messages(**body))

    return {
        TO_ANTHROPIC: through(to_anthropic),
        TO_GEMINI: through(to_gemini),
        TO_RESPONSES: through(to_responses),
        FROM_ANTHROPIC: through(from_anthropic),
    }


def held(count: int) -> list[Any]:
    """Messages in the type of its answers."""
    message: Any = importlib.import_module("any_llm.types.completion").ChatCompletionMessage
    return [message(role="assistant", content=f"message number {n}") for n in range(count)]

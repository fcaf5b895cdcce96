"""pydantic-ai: its own stored messages, mapped by its model classes."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Coroutine
from typing import Any

import orjson

from peers import FROM_ANTHROPIC, TO_ANTHROPIC, TO_GEMINI, TO_RESPONSES, Json, Pair, Translation

PACKAGE = "pydantic-ai-slim"
EXTRAS = ("openai", "anthropic", "google")
NOTE = "reads no provider's body: it starts from its own stored JSON (ModelMessagesTypeAdapter), and so does its floor"


def source(body: Json, _: Pair) -> bytes:
    """An OpenAI body as pydantic-ai stores the conversation."""
    names: dict[str, str] = {}
    messages: list[Json] = []
    for message in body["messages"]:
        if message["role"] == "assistant":
            messages.append({"kind": "response", "parts": list(_response_parts(message, names))})
        else:
            messages.append({"kind": "request", "parts": [_request_part(message, names)]})
    return orjson.dumps(messages)


def _response_parts(message: Json, names: dict[str, str]) -> Any:
    if message["content"]:
        yield {"part_kind": "text", "content": message["content"]}
    for call in message.get("tool_calls", ()):
        names[call["id"]] = call["function"]["name"]
        yield {
            "part_kind": "tool-call",
            "tool_name": call["function"]["name"],
            "args": call["function"]["arguments"],
            "tool_call_id": call["id"],
        }


def _request_part(message: Json, names: dict[str, str]) -> Json:
    role, content = message["role"], message["content"]
    if isinstance(content, list):
        content = [_item(part) for part in content]
    if role == "tool":
        identifier = message["tool_call_id"]
        return {
            "part_kind": "tool-return",
            "tool_name": names[identifier],
            "content": content,
            "tool_call_id": identifier,
        }
    kind = "system-prompt" if role in {"system", "developer"} else "user-prompt"
    return {"part_kind": kind, "content": content}


def _item(part: Json) -> Any:
    if part["type"] == "text":
        return part["text"]
    data = part["image_url"]["url"].partition(";base64,")[2]
    return {"kind": "binary", "media_type": "image/png", "data": data}


Mapped = Callable[[list[Any]], Coroutine[Any, Any, Json]]


def _finished(work: Coroutine[Any, Any, Json]) -> Json:
    """The value of a coroutine that never waits, without the cost of an event loop."""
    try:
        work.send(None)
    except StopIteration as stop:
        value: Json = stop.value
        return value
    return asyncio.run(work)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    raise TypeError(type(value))


def translations() -> dict[Pair, Translation]:
    """Read its own JSON with its adapter, and convert as each model class does before it calls an SDK."""
    parameters = importlib.import_module("pydantic_ai.models").ModelRequestParameters()
    settings: Json = {"max_tokens": 1024}
    adapter: Any = importlib.import_module("pydantic_ai.messages").ModelMessagesTypeAdapter
    anthropic, chat, responses, google = _models()

    async def to_anthropic(messages: list[Any]) -> Json:
        system, written = await anthropic._map_message(messages, parameters, settings)  # noqa: SLF001
        return {**settings, "system": system, "messages": written}

    async def to_chat(messages: list[Any]) -> Json:
        written = await chat._map_messages(messages, parameters, model_settings=settings)  # noqa: SLF001
        return {**settings, "messages": written}

    async def to_responses(messages: list[Any]) -> Json:
        said, written = await responses._map_messages(messages, settings, parameters)  # noqa: SLF001
        instructions = {"instructions": said} if isinstance(said, str) else {}
        return {**instructions, "max_output_tokens": 1024, "input": written}

    async def to_gemini(messages: list[Any]) -> Json:
        system, written = await google._map_messages(messages, parameters)  # noqa: SLF001
        limit = {"maxOutputTokens": 1024}
        return {"systemInstruction": system, "contents": written, "generationConfig": limit}

    def reading(work: Mapped) -> Translation:
        def translate(body: bytes) -> bytes:
            written = _finished(work(adapter.validate_json(body)))
            return orjson.dumps(written, default=_plain)

        return translate

    return {
        TO_ANTHROPIC: reading(to_anthropic),
        TO_GEMINI: reading(to_gemini),
        TO_RESPONSES: reading(to_responses),
        FROM_ANTHROPIC: reading(to_chat),
    }


def _models() -> tuple[Any, Any, Any, Any]:
    def made(module: str, model: str, provider: str, name: str) -> Any:
        models: Any = importlib.import_module(f"pydantic_ai.models.{module}")
        providers: Any = importlib.import_module(f"pydantic_ai.providers.{module}")
        return getattr(models, model)(name, provider=getattr(providers, provider)(api_key="none"))

    return (
        made("anthropic", "AnthropicModel", "AnthropicProvider", "claude-sonnet-4-5"),
        made("openai", "OpenAIChatModel", "OpenAIProvider", "gpt-5.5"),
        made("openai", "OpenAIResponsesModel", "OpenAIProvider", "gpt-5.5"),
        made("google", "GoogleModel", "GoogleProvider", "gemini-3-pro"),
    )


def held(count: int) -> list[Any]:
    """Messages in the types of its histories."""
    types: Any = importlib.import_module("pydantic_ai.messages")

    def made(number: int) -> Any:
        text = f"message number {number}"
        if number & 1:
            return types.ModelResponse(parts=[types.TextPart(content=text)])
        return types.ModelRequest(parts=[types.UserPromptPart(content=text)])

    return [made(number) for number in range(count)]

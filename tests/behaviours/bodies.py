"""Short spellings of wire messages for the cases."""

from __future__ import annotations

import json
from typing import Any

import cannery

CHAT, RESPONSES = "openai_chat", "openai_responses"
CLAUDE, GEMINI = "anthropic_messages", "gemini_generate"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQK"


class Told:
    """A translation: its body as JSON, the codes of its losses, the names of its repairs."""

    def __init__(self, rendered: Any) -> None:
        self.body = json.loads(rendered.body)
        self.losses = {loss.code for loss in rendered.losses if loss.code != "CONTROL_DEFAULTED"}
        self.paths = {(loss.code, loss.path) for loss in rendered.losses}
        self.repairs = {repair.name for repair in rendered.repairs}
        self.rendered = rendered


def told(body: Any, source: str, target: str, **options: Any) -> Told:
    return Told(cannery.translate(body, source=source, target=target, **options))


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def system(content: Any) -> dict[str, Any]:
    return {"role": "system", "content": content}


def call(identifier: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {
        "id": identifier,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def calls(*made: dict[str, Any], content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(made)}


def tool(identifier: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identifier, "content": content}


def chat(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-5.5", "messages": list(messages), **fields}


def claude(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "claude-opus-5-5", "max_tokens": 64, "messages": list(messages), **fields}


def tool_use(identifier: str, name: str = "f", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identifier, "name": name, "input": given}


def tool_result(identifier: str, *content: Any, **fields: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": identifier, **fields}
    return {**block, "content": content[0]} if content else block


def png() -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}

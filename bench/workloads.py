"""The bodies of all translation benchmarks, generated deterministically."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

from by_hand import as_anthropic, as_gemini, as_responses

TEXT = (
    "the quick brown fox jumps over a lazy dog while many engineers read logs and wait for "
    "builds that pass only on their own machines because somebody forgot to commit a file"
)
WORDS = TEXT.split()


def sentence(rng: random.Random, length: int) -> str:
    """Prose of about the given length."""
    words: list[str] = []
    size = 0
    while size < length:
        word = rng.choice(WORDS)
        words.append(word)
        size += len(word) + 1
    return " ".join(words)[:length].strip() + "."


def short() -> dict[str, Any]:
    """Ten short text messages."""
    rng = random.Random(1)
    messages = [{"role": "system", "content": "You are a helpful assistant."}]
    for turn in range(9):
        role = "user" if turn % 2 == 0 else "assistant"
        messages.append({"role": role, "content": sentence(rng, rng.randrange(40, 90))})
    return {"model": "gpt-5.5", "max_tokens": 1024, "messages": messages}


def agentic() -> dict[str, Any]:
    """Four hundred messages of system, user, tool calls and results of 0.2 to 4 KB."""
    rng = random.Random(2)
    messages: list[dict[str, Any]] = [{"role": "system", "content": sentence(rng, 4000)}]
    while len(messages) < 397:
        messages.append({"role": "user", "content": sentence(rng, rng.randrange(200, 1000))})
        for step in range(4):
            identifier = f"call_{len(messages)}_{step}"
            arguments = json.dumps(
                {
                    "path": f"src/module_{step}.py",
                    "content": sentence(rng, rng.randrange(200, 2000)),
                    "line": rng.randrange(1000),
                }
            )
            call = {
                "id": identifier,
                "type": "function",
                "function": {"name": "edit_file", "arguments": arguments},
            }
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            result = sentence(rng, rng.randrange(200, 4000))
            messages.append({"role": "tool", "tool_call_id": identifier, "content": result})
        messages.append({"role": "assistant", "content": sentence(rng, rng.randrange(200, 1500))})
    messages = messages[:399]
    while messages[-1]["role"] != "assistant" or "tool_calls" in messages[-1]:
        messages.pop()
    messages.append({"role": "user", "content": "Go on."})
    return {"model": "gpt-5.5", "max_tokens": 1024, "messages": messages}


def images() -> dict[str, Any]:
    """Twenty messages with four images of 300 KB each as data URLs."""
    rng = random.Random(3)
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Describe what you see."}]
    for turn in range(19):
        if turn % 2:
            messages.append({"role": "assistant", "content": sentence(rng, 300)})
            continue
        content: Any = sentence(rng, 200)
        if turn in (0, 4, 8, 12):
            data = b"\x89PNG\r\n\x1a\n" + rng.randbytes(300 * 1024)
            url = "data:image/png;base64," + base64.b64encode(data).decode()
            content = [
                {"type": "text", "text": content},
                {"type": "image_url", "image_url": {"url": url}},
            ]
        messages.append({"role": "user", "content": content})
    return {"model": "gpt-5.5", "max_tokens": 1024, "messages": messages}


def long() -> dict[str, Any]:
    """Two thousand messages of 1 KB."""
    rng = random.Random(4)
    messages = [{"role": "system", "content": sentence(rng, 1000)}]
    for turn in range(1999):
        role = "user" if turn % 2 == 0 else "assistant"
        messages.append({"role": role, "content": sentence(rng, 1000)})
    return {"model": "gpt-5.5", "max_tokens": 1024, "messages": messages}


BY_HAND: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "anthropic_messages": as_anthropic,
    "gemini_generate": as_gemini,
    "openai_responses": as_responses,
}
WORKLOADS: dict[str, Callable[[], dict[str, Any]]] = {
    "short": short,
    "agentic": agentic,
    "images": images,
    "long": long,
}


@cache
def said_by(workload: str) -> dict[str, Any]:
    """A workload as an OpenAI body, created once; callers must not change it."""
    return WORKLOADS[workload]()


@cache
def encoded(workload: str, dialect: str = "openai_chat") -> bytes:
    """A workload as the bytes of a body in a dialect; ``by_hand`` converts it from OpenAI's."""
    body = said_by(workload)
    if dialect != "openai_chat":
        body = BY_HAND[dialect](body)
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

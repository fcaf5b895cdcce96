"""The bodies that every translation benchmark uses, built the same way each time."""

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
    """Prose of about so many characters."""
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


def tools() -> dict[str, Any]:
    """The agentic conversation with a dozen tools defined, as every agent sends it."""
    body = agentic()
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file, from the root."},
            "content": {"type": "string"},
            "line": {"type": "integer", "minimum": 0},
            "mode": {"type": "string", "enum": ["append", "replace"]},
        },
        "required": ["path", "content"],
        "additionalProperties": False,
    }
    names = ("edit_file", *(f"tool_{number}" for number in range(11)))
    body["tools"] = [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": f"Does what {name} does.",
                "parameters": schema,
            },
        }
        for name in names
    ]
    body["tool_choice"] = "auto"
    return body


def parallel() -> dict[str, Any]:
    """Assistant messages with text and three calls at once, three results after each."""
    rng = random.Random(6)
    messages: list[dict[str, Any]] = [{"role": "system", "content": sentence(rng, 2000)}]
    for turn in range(60):
        messages.append({"role": "user", "content": sentence(rng, 300)})
        names = [f"call_{turn}_{number}" for number in range(3)]
        calls = [
            {
                "id": name,
                "type": "function",
                "function": {
                    "name": "search",
                    "arguments": json.dumps({"query": sentence(rng, 60), "limit": 5}),
                },
            }
            for name in names
        ]
        messages.append({"role": "assistant", "content": sentence(rng, 90), "tool_calls": calls})
        messages.extend(
            {"role": "tool", "tool_call_id": name, "content": sentence(rng, 1500)} for name in names
        )
        messages.append({"role": "assistant", "content": sentence(rng, 500)})
    messages.append({"role": "user", "content": "Go on."})
    return {"model": "gpt-5.5", "max_tokens": 1024, "messages": messages}


def controls() -> dict[str, Any]:
    """The short chat with sampling set, streamed."""
    settings = {"temperature": 0.7, "top_p": 0.9, "stream": True, "stop": ["\n\nHuman:"]}
    return {**short(), **settings}


def chinese() -> dict[str, Any]:
    """The agentic conversation with every text in Chinese and emoji."""
    body = agentic()
    signs = "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里"
    rng = random.Random(8)

    def said(length: int) -> str:
        text = "".join(rng.choices(signs, k=length // 3))
        return text + rng.choice(("。", "、🎉", "👩‍👩‍👧", "🚀"))

    for message in body["messages"]:
        if isinstance(message["content"], str):
            message["content"] = said(len(message["content"]))
        for call in message.get("tool_calls", ()):
            given = {"path": "资料.txt", "content": said(900), "line": 3}
            call["function"]["arguments"] = json.dumps(given, ensure_ascii=False)
    return body


def odd_field() -> dict[str, Any]:
    """The agentic conversation with one unknown field in one message."""
    body = agentic()
    body["messages"][201]["x_trace"] = {"span": "b7ad6b7169203331"}
    return body


def result_images() -> dict[str, Any]:
    """The agentic conversation where each tenth result is a text and a picture of 20 KB."""
    body = agentic()
    rng = random.Random(9)
    results = [message for message in body["messages"] if message["role"] == "tool"]
    for message in results[::10]:
        data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + rng.randbytes(20 * 1024)).decode()
        message["content"] = [
            {"type": "text", "text": message["content"]},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        ]
    return body


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

# Nobody's shortcut is made for these: they show what a small change of the input costs.
CLIFFS: dict[str, Callable[[], dict[str, Any]]] = {
    "tools": tools,
    "parallel calls": parallel,
    "sampling set": controls,
    "Chinese and emoji": chinese,
    "spaced and escaped": chinese,
    "one odd field": odd_field,
    "images in results": result_images,
}
# Bodies that are spelled as ``json.dumps`` does by default: with spaces, and ASCII only.
ESCAPED = frozenset({"spaced and escaped"})


@cache
def said_by(workload: str) -> dict[str, Any]:
    """A workload as an OpenAI body, which is made once and which nobody may change."""
    return {**WORKLOADS, **CLIFFS}[workload]()


@cache
def encoded(workload: str, dialect: str = "openai_chat") -> bytes:
    """A workload as the bytes of a body in a source dialect; those that are not OpenAI's are made by hand."""
    body = said_by(workload)
    if dialect != "openai_chat":
        body = BY_HAND[dialect](body)
    if workload in ESCAPED:
        return json.dumps(body).encode()
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()

"""The judge of Ollama: ollama 0.6.3's types and parser, and what its server is known to refuse.

The server's structs (ollama/ollama at fb30760, 2026-08-21) have fields that the Python types leave out:
``id`` and ``function.index`` of a call, ``tool_call_id`` of a result. Tools may have any schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Optional, Union

import httpx
import ollama
import pydantic
from ollama import _types as types

from tests.oracles.judge import Accumulated, Body, Judge
from tests.oracles.leaf import Leaf, call, inline
from tests.oracles.rules.findings import decode, finding, names_are_unique, objects, sniff
from tests.oracles.sse import Frame
from tests.oracles.typecheck import Walker
from tests.strategies import ollama_bodies


class Function(pydantic.BaseModel):
    """The function of a call."""

    name: str
    arguments: Mapping[str, Any]
    index: Optional[int] = None  # noqa: UP045 - the same form as the SDK's


class ToolCall(pydantic.BaseModel):
    """A call, as the server writes and reads it."""

    function: Function
    id: Optional[str] = None  # noqa: UP045


class Message(pydantic.BaseModel):
    """A message, as the server reads it."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Optional[str] = None  # noqa: UP045
    thinking: Optional[str] = None  # noqa: UP045
    images: Optional[Sequence[str]] = None  # noqa: UP045
    tool_name: Optional[str] = None  # noqa: UP045
    tool_call_id: Optional[str] = None  # noqa: UP045
    tool_calls: Optional[Sequence[ToolCall]] = None  # noqa: UP045


class ToolFunction(pydantic.BaseModel):
    """What a tool is called and takes."""

    name: str
    description: Optional[str] = None  # noqa: UP045
    parameters: Optional[Mapping[str, Any]] = None  # noqa: UP045
    strict: Optional[bool] = None  # noqa: UP045


class Tool(pydantic.BaseModel):
    """A tool."""

    type: Optional[Literal["function"]] = "function"  # noqa: UP045
    function: ToolFunction


class Request(pydantic.BaseModel):
    """The body of ``/api/chat``, by ``ChatRequest`` of the SDK."""

    model: str
    messages: Sequence[Message]
    stream: Optional[bool] = None  # noqa: UP045
    options: Optional[types.Options] = None  # noqa: UP045
    format: Optional[Union[Literal["", "json"], Mapping[str, Any]]] = None  # noqa: UP007, UP045
    keep_alive: Optional[Union[float, str]] = None  # noqa: UP007, UP045
    tools: Optional[Sequence[Tool]] = None  # noqa: UP045
    think: Optional[Union[bool, Literal["low", "medium", "high"]]] = None  # noqa: UP007, UP045
    logprobs: Optional[bool] = None  # noqa: UP045
    top_logprobs: Optional[int] = None  # noqa: UP045


class Response(types.BaseGenerateResponse):
    """A whole answer or a line of a stream."""

    message: Message
    logprobs: Optional[Sequence[Any]] = None  # noqa: UP045


def rules(body: Body) -> Iterator[str]:
    """The rules that a request body breaks."""
    if not body.get("model"):
        yield finding("$.model", "model", "a model is required")
    for index, message in enumerate(objects(body.get("messages"))):
        for at, data in enumerate(message.get("images") or ()):
            payload = decode(data)
            if payload is None or (sniff(payload) or "").startswith("application/"):
                yield finding(f"$.messages[{index}].images[{at}]", "base64", "no base64 image")
        if message["role"] == "system" and message.get("images"):
            yield finding(f"$.messages[{index}]", "system", "a system message shows no images")
    named = [
        (f"$.tools[{index}]", tool["function"].get("name"))
        for index, tool in enumerate(objects(body.get("tools")))
    ]
    yield from names_are_unique(named)


def leaves(body: Body) -> Iterator[Leaf]:
    """Every leaf of a request body."""
    for index, message in enumerate(objects(body.get("messages"))):
        path = f"$.messages[{index}]"
        kind = {"system": "system", "tool": "result"}.get(str(message.get("role")), "text")
        is_model = message.get("role") == "assistant"
        if is_model and isinstance(message.get("thinking"), str) and message["thinking"]:
            yield Leaf("reasoning", message["thinking"], f"{path}.thinking")
        if isinstance(message.get("content"), str) and message["content"]:
            yield Leaf(kind, message["content"], f"{path}.content")
        images = None if message.get("role") == "system" else message.get("images")
        for at, data in enumerate(images if isinstance(images, list) else ()):
            yield inline(data, f"{path}.images[{at}]")
        for at, item in enumerate(objects(message.get("tool_calls")) if is_model else ()):
            function = item.get("function") or {}
            yield call(function.get("name"), function.get("arguments"), f"{path}.tool_calls[{at}]")


def as_history(body: Body) -> Body:
    """An answer as a request that has it for its history."""
    return {"messages": [body.get("message") or {}]}


def as_history_path(path: str) -> str:
    """The path of a loss in an answer as one in that request."""
    return re.sub(r"^message\b", "messages[0]", path)


def _client(chunks: list[bytes], media_type: str) -> ollama.Client:
    def answer(request: httpx.Request) -> httpx.Response:
        headers = {"content-type": media_type}
        return httpx.Response(200, headers=headers, content=iter(chunks), request=request)

    return ollama.Client("http://sdk.invalid", transport=httpx.MockTransport(answer))


_USER: Any = [{"role": "user", "content": "x"}]


def parse_stream(chunks: list[bytes]) -> Accumulated:
    """The lines as the SDK reads them, folded as its documentation says."""
    found = _client(chunks, "application/x-ndjson").chat("m", messages=_USER, stream=True)
    events = [event.model_dump(mode="json", exclude_unset=True) for event in found]
    sent = [frame.value for frame in lines(b"".join(chunks))]
    if not events or events[-1].get("done") is not True:
        raise ValueError("the stream does not end")
    final: Body = {}
    message: Body = {"role": "assistant", "content": ""}
    for event in sent:
        final |= {key: item for key, item in event.items() if key != "message"}
        _fold(message, event.get("message") or {})
    return Accumulated({**final, "message": message}, events)


def _fold(message: Body, fragment: Body) -> None:
    for key in ("content", "thinking"):
        if fragment.get(key):
            message[key] = message.get(key, "") + fragment[key]
    for key in ("tool_calls", "images"):
        if fragment.get(key):
            message[key] = [*message.get(key, ()), *fragment[key]]


def parse_whole(chunks: list[bytes]) -> Body:
    """A whole answer that the SDK reads; it leaves out what it does not know."""
    _client(chunks, "application/json").chat("m", messages=_USER)
    body: Body = json.loads(b"".join(chunks))
    return body


def lines(transcript: bytes) -> list[Frame]:
    """The lines of a stream."""
    return [Frame(None, line.decode()) for line in transcript.splitlines() if line.strip()]


def stream_rules(found: list[Frame]) -> Iterator[str]:
    """The order of lines."""
    events = [frame.value for frame in found]
    if any("error" in event for event in events):
        return
    done = [number for number, event in enumerate(events) if event.get("done")]
    if done != [len(events) - 1]:
        yield finding("$", "done", "exactly the last line is done")
    for number, event in enumerate(events):
        for item in objects((event.get("message") or {}).get("tool_calls")):
            if not isinstance(item["function"].get("arguments"), dict):
                yield finding(f"frame[{number}]", "arguments", "arguments are no object")


def around_stream(events: list[Body]) -> Body:
    """What the lines say around the answer: the last line counts."""
    found: Body = {}
    for event in events:
        found |= {key: item for key, item in event.items() if item is not None and key != "message"}
    return found


def around_whole(body: Body) -> Body:
    """The same of a whole answer."""
    return {key: item for key, item in body.items() if key != "message"}


def error(_status: int, message: str) -> Body:
    """An error as the server writes it."""
    return {"error": message}


JUDGE = Judge(
    dialect="ollama_chat",
    walker=Walker(),
    request=Request,
    response=Response,
    chunk=Response,
    rules=rules,
    leaves=leaves,
    as_history=as_history,
    as_history_path=as_history_path,
    parse_stream=parse_stream,
    parse_whole=parse_whole,
    stream_rules=stream_rules,
    around_stream=around_stream,
    around_whole=around_whole,
    draw_request=ollama_bodies.request,
    draw_response=ollama_bodies.response,
    error=error,
    host="localhost:11434",
    path="/api/chat",
    unconfirmed=frozenset({"name-duplicate"}),
    frames=lines,
)

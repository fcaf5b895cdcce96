"""The judge of Mistral: mistralai 3.7.0's types and parser, and the rules of mistral-common 1.13.0's validators.

The hosted API is wider than those validators: it has documents, files and references, null as a result, and ``index``
on calls. Nine-character ids are asked for by models with tokenizers up to v11. The types are open to words that they do
not know; here such words are problems.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
from mistralai.client import Mistral, models

from tests.oracles.judge import Accumulated, Body, Judge
from tests.oracles.leaf import Leaf, call, filed, inline, located
from tests.oracles.rules.findings import (
    OPENAI_NAME,
    finding,
    in_range,
    names_are_legal,
    names_are_unique,
    objects,
)
from tests.oracles.sse import Frame, frames
from tests.oracles.typecheck import Walker
from tests.strategies import mistral_bodies

_ID = re.compile(r"[a-zA-Z0-9]{9}")
_LEFT_OUT = frozenset(
    {"Unset", "UnrecognizedStr", "UnknownContentChunk", "UnknownResourceChunkContent"}
)
# Which role may stand behind which.
_FOLLOWERS = {
    "system": ("user", "assistant", "system"),
    "user": ("assistant", "system", "user"),
    "assistant": ("assistant", "user", "tool"),
    "tool": ("assistant", "tool", "user"),
}


def rules(body: Body) -> Iterator[str]:
    """The rules that a request body breaks."""
    messages = objects(body.get("messages"))
    if not messages:
        yield finding("$.messages", "empty", "at least one message is required")
    if not body.get("model"):
        yield finding("$.model", "model", "a model is required")
    for index, message in enumerate(messages):
        yield from _message(message, f"$.messages[{index}]", is_last=index == len(messages) - 1)
        if index and message.get("role") not in _FOLLOWERS[messages[index - 1]["role"]]:
            yield finding(f"$.messages[{index}]", "order", "no such role may stand here")
    if messages:
        last = messages[-1]
        if last["role"] not in ("user", "tool") and not last.get("prefix"):
            yield finding("$.messages", "last", "the last message is neither user, tool nor prefix")
    yield from _pairing(messages)
    yield from _tools(body)
    yield from in_range(body, "temperature", 0, 1.5)
    yield from in_range(body, "top_p", 0, 1)


def _message(message: Body, path: str, *, is_last: bool) -> Iterator[str]:
    calls = objects(message.get("tool_calls"))
    if message["role"] == "assistant" and not message.get("content") and not calls:
        yield finding(path, "assistant", "neither content nor calls")
    if message.get("prefix") and not is_last:
        yield finding(path, "prefix", "a prefix must be the last message")
    if message["role"] == "system" and message.get("content") is None:
        yield finding(path, "system", "a system message must have content")
    named = [
        (f"{path}.tool_calls[{at}]", item["function"].get("name")) for at, item in enumerate(calls)
    ]
    if message["role"] == "tool" and message.get("name") is not None:
        named.append((f"{path}.name", message["name"]))
    yield from names_are_legal(named, OPENAI_NAME)
    for at, item in enumerate(calls):
        if not _ID.fullmatch(str(item.get("id"))):
            yield finding(f"{path}.tool_calls[{at}].id", "id", "not nine letters or digits")


def _pairing(messages: list[Body]) -> Iterator[str]:
    waiting: list[Any] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                yield finding(f"$.messages[{index}]", "orphan", "no call waits for this result")
            else:
                waiting.remove(message["tool_call_id"])
        elif waiting:
            yield finding(f"$.messages[{index}]", "unanswered", "a call has no result")
            waiting = []
        if message["role"] == "assistant":
            waiting = [item.get("id") for item in objects(message.get("tool_calls"))]
    if waiting:
        yield finding("$.messages", "unanswered", "a call has no result")


def _tools(body: Body) -> Iterator[str]:
    tools = [*objects(body.get("tools"))]
    named = [
        (f"$.tools[{index}].function.name", tool["function"].get("name"))
        for index, tool in enumerate(tools)
        if isinstance(tool.get("function"), dict)
    ]
    yield from names_are_legal(named, OPENAI_NAME)
    yield from names_are_unique(named)
    choice = body.get("tool_choice")
    if choice not in (None, "none", "auto") and not tools:
        yield finding("$.tool_choice", "tools-missing", "a choice without tools")
    if isinstance(choice, dict) and choice["function"]["name"] not in {name for _, name in named}:
        yield finding("$.tool_choice", "tool-choice", "no declared tool")


def leaves(body: Body) -> Iterator[Leaf]:
    """Every leaf of a request body; a reference is a citation of the text before it."""
    for index, message in enumerate(objects(body.get("messages"))):
        path = f"$.messages[{index}]"
        kind = {"system": "system", "tool": "result"}.get(str(message.get("role")), "text")
        content = message.get("content")
        if isinstance(content, str) and content:
            yield Leaf(kind, content, f"{path}.content")
        before: Any = None
        for at, part in enumerate(objects(content)):
            if _kind(part) != "reference" or _kind(before) != "text":
                yield from _part(part, kind, f"{path}.content[{at}]")
            before = part
        for at, item in enumerate(objects(message.get("tool_calls"))):
            function = item.get("function")
            where = f"{path}.tool_calls[{at}]"
            if isinstance(function, dict):
                yield call(function.get("name"), function.get("arguments"), where)
            else:
                yield Leaf("opaque", item, where)


def _kind(part: Any) -> str | None:
    if not isinstance(part, dict):
        return None
    keys = ("text", "image_url", "document_url", "input_audio", "thinking")
    return part.get("type") or next((key for key in keys if key in part), None)


def _part(part: Body, kind: str, path: str) -> Iterator[Leaf]:
    match _kind(part):
        case "text":
            if part.get("text"):
                yield Leaf(kind, part["text"], f"{path}.text")
        case "image_url":
            image = part.get("image_url")
            yield located(image.get("url") if isinstance(image, dict) else image, path)
        case "document_url":
            yield located(part.get("document_url"), path)
            if isinstance(part.get("document_name"), str):
                yield Leaf("document", part["document_name"], f"{path}.document_name")
        case "file" if "file_id" in part:
            yield filed(part["file_id"], path)
        case "input_audio" if isinstance(part.get("input_audio"), str):
            sound = part["input_audio"]
            yield located(sound, path) if "://" in sound else inline(sound, path)
        case "thinking":
            for at, item in enumerate(objects(part.get("thinking"))):
                if item.get("type") == "text" and item.get("text"):
                    yield Leaf("reasoning", item["text"], f"{path}.thinking[{at}].text")
            if part.get("signature"):
                yield Leaf("signature", part["signature"], f"{path}.signature")
        case _:
            yield Leaf("opaque", part, path)


def as_history(body: Body) -> Body:
    """An answer as a request that has it for its history."""
    return {"messages": [choice.get("message") or {} for choice in body.get("choices") or ()]}


def as_history_path(path: str) -> str:
    """The path of a loss in an answer as one in that request."""
    return re.sub(r"^choices\[(\d+)\](\.message)?", r"messages[\1]", path)


def _client(chunks: list[bytes], media_type: str) -> Mistral:
    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": media_type}
        return httpx2.Response(200, headers=headers, content=iter(chunks), request=request)

    client = httpx2.Client(transport=httpx2.MockTransport(answer))
    return Mistral(api_key="x", server_url="http://sdk.invalid", client=client)


_USER: Any = [{"role": "user", "content": "x"}]


def parse_stream(chunks: list[bytes]) -> Accumulated:
    """The events as the SDK reads them, folded as its documentation says."""
    with _client(chunks, "text/event-stream").chat.stream(model="m", messages=_USER) as stream:
        events = [event.data.model_dump(mode="json", by_alias=True) for event in stream]
    if not events:
        raise ValueError("no chunk")
    sent = [frame.value for frame in frames(b"".join(chunks)) if frame.data != "[DONE]"]
    events = [on_wire(event, given) for event, given in zip(events, sent, strict=True)]
    return Accumulated(fold(events), events)


def on_wire(read: Any, given: Any) -> Any:
    """What the SDK read, without the defaults that it added."""
    if isinstance(read, dict) and isinstance(given, dict):
        return {key: on_wire(item, given[key]) for key, item in read.items() if key in given}
    if isinstance(read, list) and isinstance(given, list):
        return [on_wire(one, other) for one, other in zip(read, given, strict=True)]
    return read


def fold(events: list[Body]) -> Body:
    """The whole answer: contents and calls line up."""
    first = events[0]
    message: Body = {"role": "assistant", "content": ""}
    finish = None
    usage: Body = {}
    for event in events:
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            finish = choice.get("finish_reason") or finish
            _fold_delta(message, choice["delta"])
    if finish is None:
        raise ValueError("no finish_reason")
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    head = {key: first.get(key) for key in ("id", "model", "created")}
    return {**head, "object": "chat.completion", "choices": choices, "usage": usage}


def _fold_delta(message: Body, delta: Body) -> None:
    content = delta.get("content")
    if isinstance(content, list) or isinstance(message["content"], list):
        held = message["content"]
        parts = held if isinstance(held, list) else [{"type": "text", "text": held}] if held else []
        more = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        for part in more:
            _fold_part(parts, part)
        message["content"] = parts
    elif content:
        message["content"] += content
    if delta.get("tool_calls"):
        message["tool_calls"] = [*message.get("tool_calls", ()), *delta["tool_calls"]]


def _fold_part(parts: list[Body], part: Body) -> None:
    last = parts[-1] if parts else {}
    if part.get("type") == last.get("type") == "text":
        last["text"] += part["text"]
    elif part.get("type") == last.get("type") == "thinking":
        words = "".join(item.get("text", "") for item in part["thinking"])
        if last["thinking"]:
            last["thinking"][-1]["text"] += words
        else:
            last["thinking"] = part["thinking"]
        if part.get("signature"):
            last["signature"] = part["signature"]
    elif part != {"type": "text", "text": ""}:
        parts.append(dict(part))


def parse_whole(chunks: list[bytes]) -> Body:
    """A whole answer as the SDK reads it."""
    answer = _client(chunks, "application/json").chat.complete(model="m", messages=_USER)
    dumped: Body = answer.model_dump(mode="json", by_alias=True)
    return on_wire(dumped, json.loads(b"".join(chunks)))  # type: ignore[no-any-return]


def stream_rules(found: list[Frame]) -> Iterator[str]:
    """The order of chunks."""
    events = [frame.value for frame in found if frame.data != "[DONE]"]
    if any(event.get("object") == "error" for event in events):
        return
    if found[-1].data != "[DONE]":
        yield finding("$", "done", "the stream does not end with [DONE]")
    if len({(event.get("id"), event.get("model")) for event in events}) > 1:
        yield finding("$", "identity", "id or model changes between chunks")
    is_over = False
    for number, event in enumerate(events):
        for choice in objects(event.get("choices")):
            if choice.get("index"):
                continue
            delta = choice.get("delta") or {}
            if is_over and any(delta.get(key) for key in ("content", "tool_calls")):
                yield finding(f"frame[{number}]", "after-end", "a delta after finish_reason")
            for item in objects(delta.get("tool_calls")):
                if not item["function"].get("name") or "arguments" not in item["function"]:
                    yield finding(f"frame[{number}]", "call", "a call without name or arguments")
            is_over = is_over or bool(choice.get("finish_reason"))
    if not is_over:
        yield finding("$", "finish", "no finish_reason")


def around_stream(events: list[Body]) -> Body:
    """What the chunks say around the answer."""
    found: Body = {}
    for event in events:
        found |= {key: item for key, item in event.items() if item is not None}
        for choice in objects(event.get("choices")):
            if choice.get("finish_reason"):
                found["finish"] = choice["finish_reason"]
    return {key: item for key, item in found.items() if key not in ("choices", "object")}


def around_whole(body: Body) -> Body:
    """The same of a whole answer."""
    choices = objects(body.get("choices"))
    finish = {"finish": choices[0].get("finish_reason")} if choices else {}
    return {key: item for key, item in body.items() if key not in ("choices", "object")} | finish


def error(status: int, message: str) -> Body:
    """An error as the server writes it."""
    if status == 401:
        return {"detail": message}
    kinds = {429: "rate_limited", 500: "internal_server_error"}
    kind = kinds.get(status, "invalid_request_error")
    return {"object": "error", "message": message, "type": kind, "param": None, "code": "1300"}


JUDGE = Judge(
    dialect="mistral_chat",
    walker=Walker(left_out=_LEFT_OUT),
    request=models.ChatCompletionRequest,
    response=models.ChatCompletionResponse,
    chunk=models.CompletionChunk,
    rules=rules,
    leaves=leaves,
    as_history=as_history,
    as_history_path=as_history_path,
    parse_stream=parse_stream,
    parse_whole=parse_whole,
    stream_rules=stream_rules,
    around_stream=around_stream,
    around_whole=around_whole,
    draw_request=mistral_bodies.request,
    draw_response=mistral_bodies.response,
    error=error,
    host="api.mistral.ai",
    path="/v1/chat/completions",
    needed={
        "ChatCompletionChoice": ("message",),
        "AssistantMessage": ("role",),
        "SystemMessage": ("role",),
        "ToolMessage": ("role",),
        "UserMessage": ("role",),
    },
    # Models with tokenizers from v13 on take any id.
    unconfirmed=frozenset(
        {"tools-missing", "tool-choice", "name-duplicate", "range", "empty", "id"}
    ),
)

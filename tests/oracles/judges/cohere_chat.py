"""The judge of Cohere: cohere 7.3.1's types and parser, and what the SDK's documentation says that the server refuses.

The types are open to words that they do not know; here such words are problems. The server begins a stream with empty
fields that the SDK's types do not have (recorded by several projects in 2024 and 2025).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal, Optional, Union, get_args

import cohere
import httpx
import pydantic
from cohere import types
from cohere.v2.types import V2ChatResponse, V2ChatStreamResponse
from cohere.v2.types.v2chat_stream_response import MessageStartV2ChatStreamResponse

from tests.oracles.judge import Accumulated, Body, Judge
from tests.oracles.leaf import Leaf, call, located
from tests.oracles.rules.findings import finding, in_range, names_are_unique, objects
from tests.oracles.sse import Frame, frames
from tests.oracles.typecheck import Walker
from tests.strategies import cohere_bodies


class Request(pydantic.BaseModel):
    """The body of ``/v2/chat``, by the arguments of ``V2Client.chat``."""

    model: str
    messages: list[types.ChatMessageV2]
    tools: Optional[list[types.ToolV2]] = None  # noqa: UP045 - the same form as the SDK's
    strict_tools: Optional[bool] = None  # noqa: UP045
    documents: Optional[list[Union[str, types.Document]]] = None  # noqa: UP007, UP045
    citation_options: Optional[types.CitationOptions] = None  # noqa: UP045
    response_format: Optional[types.ResponseFormatV2] = None  # noqa: UP045
    safety_mode: Optional[Literal["CONTEXTUAL", "STRICT", "OFF"]] = None  # noqa: UP045
    max_tokens: Optional[int] = None  # noqa: UP045
    stop_sequences: Optional[list[str]] = None  # noqa: UP045
    temperature: Optional[float] = None  # noqa: UP045
    seed: Optional[int] = None  # noqa: UP045
    frequency_penalty: Optional[float] = None  # noqa: UP045
    presence_penalty: Optional[float] = None  # noqa: UP045
    k: Optional[int] = None  # noqa: UP045
    p: Optional[float] = None  # noqa: UP045
    logprobs: Optional[bool] = None  # noqa: UP045
    tool_choice: Optional[Literal["REQUIRED", "NONE"]] = None  # noqa: UP045
    thinking: Optional[types.Thinking] = None  # noqa: UP045
    priority: Optional[int] = None  # noqa: UP045
    stream: Optional[bool] = None  # noqa: UP045


class StartMessage(pydantic.BaseModel):
    """The message that a stream begins with."""

    role: Literal["assistant"]
    content: list[Any] = []
    tool_plan: str = ""
    tool_calls: list[Any] = []
    citations: list[Any] = []


class StartDelta(pydantic.BaseModel):
    """What holds it."""

    message: StartMessage


class MessageStart(pydantic.BaseModel):
    """The event that a stream begins with."""

    type: Literal["message-start"]
    id: str
    delta: StartDelta


_EVENTS = [
    each
    for each in get_args(get_args(V2ChatStreamResponse)[0])
    if each is not MessageStartV2ChatStreamResponse
]
Event: Any = Union[(MessageStart, *_EVENTS)]


def rules(body: Body) -> Iterator[str]:
    """The rules that a request body breaks."""
    messages = objects(body.get("messages"))
    if not messages:
        yield finding("$.messages", "empty", "at least one message is required")
    if not body.get("model"):
        yield finding("$.model", "model", "a model is required")
    yield from _pairing(messages)
    named = [
        (f"$.tools[{index}].function.name", (tool.get("function") or {}).get("name"))
        for index, tool in enumerate(objects(body.get("tools")))
    ]
    yield from names_are_unique(named)
    if body.get("tool_choice") and not named:
        yield finding("$.tool_choice", "tools-missing", "a choice without tools")
    form = body.get("response_format") or {}
    if form.get("type") == "json_object" and (named or body.get("documents")):
        yield finding("$.response_format", "format", "no format beside tools or documents")
    if len(body.get("stop_sequences") or ()) > 5:
        yield finding("$.stop_sequences", "stops", "at most five")
    for key, least, most in (("p", 0.01, 0.99), ("k", 0, 500)):
        yield from in_range(body, key, least, most)
    for key in ("frequency_penalty", "presence_penalty"):
        yield from in_range(body, key, 0, 1)


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
            if not any(message.get(key) for key in ("content", "tool_calls", "tool_plan")):
                yield finding(f"$.messages[{index}]", "assistant", "neither content nor calls")
    if waiting:
        yield finding("$.messages", "unanswered", "a call has no result")


def leaves(body: Body) -> Iterator[Leaf]:
    """Every leaf of a request body."""
    documents = body.get("documents")
    for index, document in enumerate(documents if isinstance(documents, list) else ()):
        yield from _document(document, "text", f"$.documents[{index}]")
    for index, message in enumerate(objects(body.get("messages"))):
        path = f"$.messages[{index}]"
        kind = {"system": "system", "tool": "result"}.get(str(message.get("role")), "text")
        content = message.get("content")
        if isinstance(content, str) and content:
            yield Leaf(kind, content, f"{path}.content")
        for at, part in enumerate(objects(content)):
            yield from _part(part, kind, f"{path}.content[{at}]")
        if isinstance(message.get("tool_plan"), str) and message["tool_plan"]:
            yield Leaf("reasoning", message["tool_plan"], f"{path}.tool_plan")
        for at, item in enumerate(objects(message.get("tool_calls"))):
            function = item.get("function")
            where = f"{path}.tool_calls[{at}]"
            if isinstance(function, dict):
                yield call(function.get("name"), function.get("arguments"), where)
            else:
                yield Leaf("opaque", item, where)


def _document(document: Any, kind: str, path: str) -> Iterator[Leaf]:
    data = document.get("data") if isinstance(document, dict) else document
    if isinstance(data, dict) and data.keys() <= {"title", "text", "snippet"}:
        texts = [(key, item) for key, item in data.items() if isinstance(item, str) and item]
        yield from (Leaf(kind, item, f"{path}.data.{key}") for key, item in texts)
    elif data:
        kind = kind if isinstance(data, str) else "result"
        yield Leaf(kind, data, f"{path}.data" if isinstance(document, dict) else path)


def _part(part: Body, kind: str, path: str) -> Iterator[Leaf]:
    match part.get("type"):
        case "text":
            if part.get("text"):
                yield Leaf(kind, part["text"], f"{path}.text")
        case "thinking":
            if part.get("thinking"):
                yield Leaf("reasoning", part["thinking"], f"{path}.thinking")
        case "image_url":
            image = part.get("image_url")
            yield located(image.get("url") if isinstance(image, dict) else image, path)
        case "document" if isinstance(part.get("document"), dict):
            data = part["document"].get("data")
            if data not in (None, ""):
                yield Leaf(kind, data, f"{path}.document.data")
        case _:
            yield Leaf("opaque", part, path)


def as_history(body: Body) -> Body:
    """An answer as a request that has it for its history."""
    return {"messages": [body.get("message") or {}]}


def as_history_path(path: str) -> str:
    """The path of a loss in an answer as one in that request."""
    return re.sub(r"^message\b", "messages[0]", path)


def _client(chunks: list[bytes], media_type: str) -> cohere.ClientV2:
    def answer(request: httpx.Request) -> httpx.Response:
        headers = {"content-type": media_type}
        return httpx.Response(200, headers=headers, content=iter(chunks), request=request)

    client = httpx.Client(transport=httpx.MockTransport(answer))
    return cohere.ClientV2("x", base_url="http://sdk.invalid", httpx_client=client)


_USER: Any = [{"role": "user", "content": "x"}]


def parse_stream(chunks: list[bytes]) -> Accumulated:
    """The events as the SDK reads them, folded as its documentation says."""
    found = _client(chunks, "text/event-stream").chat_stream(model="m", messages=_USER)
    read = [json.loads(event.json(exclude_unset=True)) for event in found]
    sent = [frame.value for frame in frames(b"".join(chunks)) if frame.data != "[DONE]"]
    if len(read) != len(sent):
        raise ValueError(f"the SDK skips {len(sent) - len(read)} events")
    if not sent or sent[-1].get("type") != "message-end":
        raise ValueError("the stream does not end")
    if sent[-1]["delta"].get("error"):
        raise ValueError(sent[-1]["delta"]["error"])
    return Accumulated(fold(sent), sent)


def fold(events: list[Body]) -> Body:
    """The whole answer: contents, calls and citations stand by their numbers, plans line up."""
    message: Body = {"role": "assistant"}
    contents: dict[int, Body] = {}
    calls: dict[int, Body] = {}
    for event in events:
        said = (event.get("delta") or {}).get("message") or {}
        match event["type"]:
            case "content-start":
                contents[event["index"]] = dict(said["content"])
            case "content-delta":
                for key, words in said["content"].items():
                    contents[event["index"]][key] += words
            case "tool-plan-delta":
                message["tool_plan"] = message.get("tool_plan", "") + said["tool_plan"]
            case "tool-call-start":
                calls[event["index"]] = json.loads(json.dumps(said["tool_calls"]))
            case "tool-call-delta":
                words = said["tool_calls"]["function"]["arguments"]
                calls[event["index"]]["function"]["arguments"] += words
            case "citation-start":
                message["citations"] = [*message.get("citations", ()), said["citations"]]
    if contents:
        message["content"] = [contents[index] for index in sorted(contents)]
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {"message": message, **around_stream(events)}


def parse_whole(chunks: list[bytes]) -> Body:
    """A whole answer as the SDK reads it."""
    answer = _client(chunks, "application/json").chat(model="m", messages=_USER)
    read: Body = json.loads(answer.json(exclude_unset=True))
    return read


def stream_rules(found: list[Frame]) -> Iterator[str]:
    """The order of events."""
    events = [frame.value for frame in found if frame.data != "[DONE]"]
    if any(frame.event != frame.value.get("type") for frame in found if frame.data != "[DONE]"):
        yield finding("$", "name", "an event is not called by its type")
    if events[0].get("type") != "message-start":
        yield finding("$", "start", "the stream does not begin with message-start")
    if events[-1].get("type") != "message-end" or found[-1].data != "[DONE]":
        yield finding("$", "end", "the stream does not end with message-end and [DONE]")
    opened: set[tuple[str, Any]] = set()
    ended: set[tuple[str, Any]] = set()
    for number, event in enumerate(events):
        kind, _, step = str(event.get("type")).rpartition("-")
        place = (kind, event.get("index"))
        if kind not in ("content", "tool-call", "citation"):
            continue
        if step == "start" and place in opened | ended:
            yield finding(f"frame[{number}]", "twice", f"{place} starts twice")
        if step != "start" and place not in opened:
            yield finding(f"frame[{number}]", "closed", f"{place} is not open")
        if step == "start":
            opened.add(place)
        elif step == "end":
            opened.discard(place)
            ended.add(place)
    is_whole = not (events[-1].get("delta") or {}).get("error")
    if opened and is_whole:
        yield finding("$", "open", f"{opened} never end")


def around_stream(events: list[Body]) -> Body:
    """What the events say around the answer."""
    found: Body = {}
    for event in events:
        if event.get("type") == "message-start":
            found["id"] = event.get("id")
        if event.get("type") == "message-end":
            found |= event.get("delta") or {}
        if event.get("logprobs") is not None:
            found["logprobs"] = [*found.get("logprobs", ()), event["logprobs"]]
    return found


def around_whole(body: Body) -> Body:
    """The same of a whole answer."""
    return {key: item for key, item in body.items() if key != "message"}


def error(_status: int, message: str) -> Body:
    """An error as the server writes it."""
    return {"id": "00000000-0000-0000-0000-000000000000", "message": message}


_TAGGED = (
    *("TextContent", "ImageUrlContent", "TextToolContent", "DocumentToolContent"),
    *("TextAssistantMessageV2ContentOneItem", "ThinkingAssistantMessageV2ContentOneItem"),
    *("TextAssistantMessageResponseContentItem", "ThinkingAssistantMessageResponseContentItem"),
    *("TextSystemMessageV2ContentOneItem", "TextResponseFormatV2", "JsonObjectResponseFormatV2"),
    *("ToolSource", "DocumentSource"),
)
_ROLES = (
    *("UserChatMessageV2", "AssistantChatMessageV2", "SystemChatMessageV2", "ToolChatMessageV2"),
    "AssistantMessageResponse",
)
JUDGE = Judge(
    dialect="cohere_chat",
    walker=Walker(left_out=frozenset({"Any"})),
    request=Request,
    response=V2ChatResponse,
    chunk=Event,
    rules=rules,
    leaves=leaves,
    as_history=as_history,
    as_history_path=as_history_path,
    parse_stream=parse_stream,
    parse_whole=parse_whole,
    stream_rules=stream_rules,
    around_stream=around_stream,
    around_whole=around_whole,
    draw_request=cohere_bodies.request,
    draw_response=cohere_bodies.response,
    error=error,
    host="api.cohere.com",
    path="/v2/chat",
    needed={
        **dict.fromkeys(_TAGGED, ("type",)),
        **dict.fromkeys(_ROLES, ("role",)),
        "ToolV2": ("type", "function"),
        "ToolCallV2": ("type", "function"),
        "ToolCallV2Function": ("name", "arguments"),
    },
    # The documentation says that these are not supported together, or limited; no refusal was recorded.
    unconfirmed=frozenset({"name-duplicate", "empty", "format", "range", "tools-missing", "stops"}),
)

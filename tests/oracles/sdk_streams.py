"""Feeds bytes to the official SDKs' own parsers, with a transport that never leaves the process.

`parse_stream` lets the SDK decode the events and its own accumulator fold them (openai's chat and
responses helpers, anthropic's MessageStream). google-genai has no accumulator, so its parsed chunks
are folded here as its documentation says: per candidate, neighbouring text parts with equal
`thought` join, everything else is kept in order. The SDKs construct objects without validation;
`Accumulated.problems` therefore adds the strict type findings of every event and of the result.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import anthropic
import httpx2
import openai
from google import genai
from google.genai import types as gemini

from .judge import Accumulated
from .judges import JUDGES
from .sdk_types import validate_chunk, validate_response
from .stream_rules import frames_of

_USER: Any = [{"role": "user", "content": "x"}]
_DONE = "[DONE]"


class StreamRefusedError(Exception):
    """The SDK would not take the stream, or the stream ended without its final event."""


def parse_stream(dialect: str, chunks: list[bytes], *, beta: bool = False) -> Accumulated:
    """The accumulated message and the events; raises when the SDK refuses the bytes."""
    try:
        with warnings.catch_warnings(action="ignore"):  # pydantic, on blocks it does not know
            accumulated = _read(dialect, chunks, beta=beta)
    except Exception as error:
        raise StreamRefusedError(f"{dialect}: {type(error).__name__}: {error}") from error
    return Accumulated(
        accumulated.final,
        accumulated.events,
        partial(_problems, dialect, b"".join(chunks), accumulated, beta=beta),
    )


def parse_whole(dialect: str, body: dict[str, Any], *, beta: bool = False) -> dict[str, Any]:
    """A whole response as the SDK reads it, dumped again with only what was on the wire."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return _read_whole(dialect, [json.dumps(body).encode()], beta=beta)
    except Exception as error:
        raise StreamRefusedError(f"{dialect}: {type(error).__name__}: {error}") from error


def _read(dialect: str, chunks: list[bytes], *, beta: bool) -> Accumulated:
    if dialect in JUDGES:
        return JUDGES[dialect].parse_stream(chunks)
    return _STREAMS[dialect](chunks, beta)


def _read_whole(dialect: str, chunks: list[bytes], *, beta: bool) -> dict[str, Any]:
    if dialect in JUDGES:
        return JUDGES[dialect].parse_whole(chunks)
    return _WHOLES[dialect](chunks, beta)


def _problems(
    dialect: str, transcript: bytes, accumulated: Accumulated, *, beta: bool
) -> list[str]:
    found = [
        f"event {index}: {problem}"
        for index, frame in enumerate(frames_of(dialect, transcript))
        if frame.data != _DONE and frame.event != "ping"
        for problem in validate_chunk(dialect, frame.value, beta=beta)
    ]
    final = validate_response(dialect, accumulated.final, beta=beta)
    return found + [f"final: {problem}" for problem in final]


def _transport(chunks: list[bytes], media_type: str) -> httpx2.MockTransport:
    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": media_type}
        return httpx2.Response(200, headers=headers, content=_pieces(chunks), request=request)

    return httpx2.MockTransport(answer)


def _pieces(chunks: list[bytes]) -> Iterator[bytes]:
    yield from chunks


def _openai(chunks: list[bytes], media_type: str = "text/event-stream") -> openai.OpenAI:
    transport = httpx2.Client(transport=_transport(chunks, media_type))
    return openai.OpenAI(
        api_key="x", base_url="http://sdk.invalid/v1", http_client=transport, max_retries=0
    )


def _anthropic(chunks: list[bytes], media_type: str = "text/event-stream") -> anthropic.Anthropic:
    transport = httpx2.Client(transport=_transport(chunks, media_type))
    return anthropic.Anthropic(
        api_key="x", base_url="http://sdk.invalid", http_client=transport, max_retries=0
    )


def _gemini(chunks: list[bytes], media_type: str = "text/event-stream") -> genai.Client:
    transport = httpx2.Client(transport=_transport(chunks, media_type))
    options = gemini.HttpOptions(base_url="http://sdk.invalid", httpx_client=transport)
    return genai.Client(api_key="x", vertexai=False, http_options=options)


def _plain(model: Any) -> dict[str, Any]:
    """An SDK object of openai or anthropic as the JSON that was on the wire."""
    dumped: dict[str, Any] = model.to_dict(mode="json", warnings=False)
    return dumped


def _chat_stream(chunks: list[bytes], _beta: bool) -> Accumulated:
    completions: Any = _openai(chunks).chat.completions
    with completions.create(model="m", messages=_USER, stream=True) as raw:
        events = [_plain(chunk) for chunk in raw]
    with _openai(chunks).chat.completions.stream(model="m", messages=_USER) as stream:
        stream.until_done()
        final = _plain(stream.current_completion_snapshot)
    for choice in final["choices"]:
        if choice.get("finish_reason") is None:
            raise ValueError(f"choice {choice['index']} has no finish_reason")
        _drop_parsed(choice["message"])
    return Accumulated(final, events)


def _drop_parsed(message: dict[str, Any]) -> None:
    """Remove what the helper adds to the wire's own message."""
    message.pop("parsed", None)
    for annotation in message.get("annotations") or ():
        annotation.pop("index", None)  # what the helper joins them by
    for call in message.get("tool_calls") or ():
        call.pop("index", None)
        if call.get("function") is None:
            call.pop("function", None)
        else:
            call["function"].pop("parsed_arguments", None)


def _responses_stream(chunks: list[bytes], _beta: bool) -> Accumulated:
    with _openai(chunks).responses.create(model="m", input="x", stream=True) as raw:
        events = [_plain(event) for event in raw]
    with _openai(chunks).responses.stream(model="m", input="x") as stream:
        terminal: list[Any] = [event for event in stream if event.type in _TERMINAL]
    if len(terminal) != 1:
        raise ValueError(f"{len(terminal)} terminal events")
    final = _plain(terminal[0].response)
    for item in final.get("output") or ():
        item.pop("parsed_arguments", None)
        for part in item.get("content") or ():
            part.pop("parsed", None)
    return Accumulated(final, events)


_TERMINAL = ("response.completed", "response.incomplete", "response.failed")


def _anthropic_stream(chunks: list[bytes], beta: bool) -> Accumulated:
    client = _anthropic(chunks)
    source: Any = client.beta.messages if beta else client.messages
    with source.create(model="m", max_tokens=1, messages=_USER, stream=True) as raw:
        events = [_plain(event) for event in raw]
    client = _anthropic(chunks)
    source = client.beta.messages if beta else client.messages
    with source.stream(model="m", max_tokens=1, messages=_USER) as stream:
        final = _plain(stream.get_final_message())
    if not events or events[-1].get("type") != "message_stop":
        raise ValueError("the stream ended without message_stop")
    for block in final["content"]:
        block.pop("parsed_output", None)
    return Accumulated(final, events)


def _gemini_stream(chunks: list[bytes], _beta: bool) -> Accumulated:
    stream = _gemini(chunks).models.generate_content_stream(model="m", contents="x")
    events = [_plain_gemini(chunk) for chunk in stream]
    if not events:
        raise ValueError("no chunk")
    return Accumulated(fold_gemini(events), events)


def _plain_gemini(response: gemini.GenerateContentResponse) -> dict[str, Any]:
    dumped: dict[str, Any] = response.model_dump(
        mode="json", by_alias=True, exclude_unset=True, exclude_none=True
    )
    for key in ("sdkHttpResponse", "parsed", "automaticFunctionCallingHistory"):
        dumped.pop(key, None)
    _to_wire(dumped)
    return dumped


def _to_wire(value: Any) -> None:
    """Undo what the SDK changes: URL-safe base64, and the name of `citationSources`."""
    if isinstance(value, dict):
        citations = value.get("citationMetadata")
        if isinstance(citations, dict) and "citations" in citations:
            citations["citationSources"] = citations.pop("citations")
        for holder, key in ((value, "thoughtSignature"), (value.get("inlineData"), "data")):
            if isinstance(holder, dict) and isinstance(holder.get(key), str):
                holder[key] = holder[key].translate(str.maketrans("-_", "+/"))
        inner = [item for name, item in value.items() if name not in ("args", "response")]
    else:
        inner = value if isinstance(value, list) else []
    for item in inner:
        _to_wire(item)


def fold_gemini(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """The chunks as one response: later values win, text parts join, other parts line up."""
    final: dict[str, Any] = {}
    candidates: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        final |= {key: value for key, value in chunk.items() if key != "candidates"}
        for position, candidate in enumerate(chunk.get("candidates") or ()):
            index = candidate.get("index", position)
            _fold_candidate(candidates.setdefault(index, {}), candidate)
    if candidates:
        final["candidates"] = [candidates[index] for index in sorted(candidates)]
    return final


def _fold_candidate(into: dict[str, Any], candidate: dict[str, Any]) -> None:
    into |= {key: value for key, value in candidate.items() if key != "content"}
    content = candidate.get("content")
    if not content:
        return
    folded = into.setdefault("content", {"parts": []})
    folded |= {key: value for key, value in content.items() if key != "parts"}
    for part in content.get("parts") or ():
        last = folded["parts"][-1] if folded["parts"] else {}
        if _is_bare_text(last) and _is_bare_text(part) and _same_thought(last, part):
            last["text"] += part["text"]
        else:
            folded["parts"].append(dict(part))


def _is_bare_text(part: dict[str, Any]) -> bool:
    return "text" in part and set(part) <= {"text", "thought"}


def _same_thought(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(one.get("thought")) == bool(other.get("thought"))


def _chat_whole(chunks: list[bytes], _beta: bool) -> dict[str, Any]:
    client = _openai(chunks, "application/json")
    return _plain(client.chat.completions.create(model="m", messages=_USER))


def _responses_whole(chunks: list[bytes], _beta: bool) -> dict[str, Any]:
    return _plain(_openai(chunks, "application/json").responses.create(model="m", input="x"))


def _anthropic_whole(chunks: list[bytes], beta: bool) -> dict[str, Any]:
    client = _anthropic(chunks, "application/json")
    source: Any = client.beta.messages if beta else client.messages
    return _plain(source.create(model="m", max_tokens=1, messages=_USER))


def _gemini_whole(chunks: list[bytes], _beta: bool) -> dict[str, Any]:
    client = _gemini(chunks, "application/json")
    return _plain_gemini(client.models.generate_content(model="m", contents="x"))


_STREAMS: dict[str, Callable[[list[bytes], bool], Accumulated]] = {
    "openai_chat": _chat_stream,
    "openai_responses": _responses_stream,
    "anthropic_messages": _anthropic_stream,
    "gemini_generate": _gemini_stream,
}
_WHOLES: dict[str, Callable[[list[bytes], bool], dict[str, Any]]] = {
    "openai_chat": _chat_whole,
    "openai_responses": _responses_whole,
    "anthropic_messages": _anthropic_whole,
    "gemini_generate": _gemini_whole,
}

"""Judges stream transcripts by the order that each dialect documents, on the bytes themselves.

SDK accumulators forgive much; clients in the field forgive less. Every part has one start and one
end, no delta comes after its end, indexes count up, what deltas add up to is what the closing
events say. A stream that ends in an error owes no closing events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from .judges import JUDGES
from .rules.findings import finding, objects
from .sse import Frame, frames

Event = dict[str, Any]


def check_stream_rules(dialect: str, transcript: bytes) -> list[str]:
    """The broken rules as `path: code: sentence`, the path being the frame's number."""
    found = frames_of(dialect, transcript)
    if not found:
        return [finding("$", "empty", "the stream has no events")]
    return list(_RULES[dialect](found))


def frames_of(dialect: str, transcript: bytes) -> list[Frame]:
    """The frames of a transcript, as its dialect tells events apart."""
    return JUDGES[dialect].frames(transcript) if dialect in JUDGES else frames(transcript)


def _values(found: list[Frame]) -> list[tuple[str, Event]]:
    return [
        (f"frame[{index}]", frame.value)
        for index, frame in enumerate(found)
        if frame.data != "[DONE]"
    ]


def _names_match(found: list[Frame]) -> Iterator[str]:
    for index, frame in enumerate(found):
        kind = None if frame.data == "[DONE]" else frame.value.get("type")
        if frame.event != kind:
            yield finding(f"frame[{index}]", "event-name", f"{frame.event!r} carries {kind!r}")


def _chat(found: list[Frame]) -> Iterator[str]:
    events = _values(found)
    failed = any("error" in event for _, event in events)
    if not failed and found[-1].data != "[DONE]":
        yield finding("$", "done", "the stream does not end with [DONE]")
    if sum(frame.data == "[DONE]" for frame in found) > 1:
        yield finding("$", "done", "more than one [DONE]")
    chunks = [(path, event) for path, event in events if "error" not in event]
    if len({(chunk.get("id"), chunk.get("model")) for _, chunk in chunks}) > 1:
        yield finding("$", "identity", "id or model changes between chunks")
    yield from _chat_usage(chunks)
    choices: dict[Any, list[tuple[str, Event]]] = {}
    for path, chunk in chunks:
        for choice in objects(chunk.get("choices")):
            choices.setdefault(choice.get("index"), []).append((path, choice))
    for choice_events in choices.values():
        yield from _chat_choice(choice_events, failed=failed)


def _chat_usage(chunks: list[tuple[str, Event]]) -> Iterator[str]:
    with_usage = [(path, chunk) for path, chunk in chunks if chunk.get("usage")]
    if len(with_usage) > 1:
        yield finding(with_usage[1][0], "usage", "usage is given twice")
    for path, chunk in with_usage:
        if not chunk.get("choices") and chunk is not chunks[-1][1]:
            yield finding(path, "usage", "the usage chunk is not the last one")


def _chat_choice(events: list[tuple[str, Event]], *, failed: bool) -> Iterator[str]:
    calls: dict[Any, str] = {}
    ended = False
    first_delta = events[0][1].get("delta") or {}
    if first_delta.get("role") != "assistant":
        yield finding(events[0][0], "role", "the first delta has no role")
    for path, choice in events:
        delta = choice.get("delta") or {}
        if ended and any(delta.get(key) for key in ("content", "tool_calls", "refusal")):
            yield finding(path, "after-end", "a delta after finish_reason")
        for call in objects(delta.get("tool_calls")):
            yield from _chat_call(call, calls, path)
        if choice.get("finish_reason"):
            if ended:
                yield finding(path, "finish", "a second finish_reason")
            ended = True
    if not ended and not failed:
        yield finding(events[-1][0], "finish", "no finish_reason")


def _chat_call(call: Event, calls: dict[Any, str], path: str) -> Iterator[str]:
    index = call.get("index")
    named = call.get("function") or call.get("custom") or {}
    if index in calls:
        if call.get("id") or named.get("name"):
            yield finding(path, "call-again", f"id or name repeated for call {index}")
        return
    if index != len(calls):
        yield finding(path, "call-index", f"call index {index}, expected {len(calls)}")
    if not call.get("id") or not named.get("name"):
        yield finding(path, "call-start", f"call {index} starts without id or name")
    calls[index] = str(call.get("id"))


_DELTAS = {
    "text_delta": {"text"},
    "citations_delta": {"text"},
    "thinking_delta": {"thinking"},
    "signature_delta": {"thinking"},
    "input_json_delta": {"tool_use", "server_tool_use", "mcp_tool_use"},
}


def _anthropic(found: list[Frame]) -> Iterator[str]:
    yield from _names_match(found)
    events = [(path, event) for path, event in _values(found) if event.get("type") != "ping"]
    kinds = [event.get("type") for _, event in events]
    failed = "error" in kinds
    if kinds and kinds[0] != "message_start" and not failed:
        yield finding(events[0][0], "start", "the first event is no message_start")
    if kinds.count("message_start") > 1:
        yield finding("$", "start", "message_start twice")
    if not failed and (kinds[-1:] != ["message_stop"] or "message_delta" not in kinds):
        yield finding("$", "end", "no message_delta and message_stop at the end")
    yield from _anthropic_blocks(events, failed=failed)


def _anthropic_blocks(events: list[tuple[str, Event]], *, failed: bool) -> Iterator[str]:
    opened: Event | None = None
    count, arguments = 0, ""
    for path, event in events:
        match event.get("type"):
            case "content_block_start":
                if opened is not None or event.get("index") != count:
                    yield finding(path, "block-start", f"block {event.get('index')} out of turn")
                opened, arguments, count = event, "", count + 1
                yield from _anthropic_start(event.get("content_block") or {}, path)
            case "content_block_delta":
                if opened is None or opened.get("index") != event.get("index"):
                    yield finding(path, "block-delta", "a delta outside of its block")
                    continue
                delta = event.get("delta") or {}
                arguments += delta.get("partial_json", "")
                yield from _anthropic_delta(opened["content_block"], delta, path)
            case "content_block_stop":
                if opened is None or opened.get("index") != event.get("index"):
                    yield finding(path, "block-stop", "a stop outside of its block")
                yield from _is_object_text(arguments, path)
                opened = None
            case "message_delta" | "message_stop":
                if opened is not None:
                    yield finding(path, "block-open", "a block is still open")
    if opened is not None and not failed:
        yield finding("$", "block-open", "a block is never closed")


def _anthropic_start(block: Event, path: str) -> Iterator[str]:
    is_call = block.get("type") in _DELTAS["input_json_delta"]
    if is_call and block.get("input") != {}:
        yield finding(path, "block-input", "a call starts with its input")


def _anthropic_delta(block: Event, delta: Event, path: str) -> Iterator[str]:
    allowed = _DELTAS.get(str(delta.get("type")))
    if allowed is not None and block.get("type") not in allowed:
        yield finding(path, "delta-kind", f"{delta.get('type')} in a {block.get('type')} block")


def _is_object_text(arguments: str, path: str) -> Iterator[str]:
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict):
        yield finding(path, "arguments", "partial_json does not add up to an object")


def _gemini(found: list[Frame]) -> Iterator[str]:
    for index, frame in enumerate(found):
        if frame.event or frame.data == "[DONE]":
            yield finding(
                f"frame[{index}]", "event-name", "chunks have no name, no [DONE] ends them"
            )
    events = _values(found)
    failed = any("error" in event for _, event in events)
    ended: dict[Any, bool] = {}
    for path, event in events:
        for candidate in objects(event.get("candidates")):
            index = candidate.get("index", 0)
            if ended.get(index) and (candidate.get("content") or {}).get("parts"):
                yield finding(path, "after-end", "content after finishReason")
            ended[index] = ended.get(index, False) or bool(candidate.get("finishReason"))
    if not failed:
        for index, has_ended in ended.items():
            if not has_ended:
                yield finding("$", "finish", f"candidate {index} has no finishReason")


_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})
_TEXTS = {
    "response.output_text": ("delta", "text", "content_index"),
    "response.refusal": ("delta", "refusal", "content_index"),
    "response.reasoning_text": ("delta", "text", "content_index"),
    "response.reasoning_summary_text": ("delta", "text", "summary_index"),
    "response.function_call_arguments": ("delta", "arguments", None),
    "response.custom_tool_call_input": ("delta", "input", None),
    "response.mcp_call_arguments": ("delta", "arguments", None),
    "response.code_interpreter_call_code": ("delta", "code", None),
}


def _responses(found: list[Frame]) -> Iterator[str]:
    yield from _names_match(found)
    events = _values(found)
    kinds = [event.get("type") for _, event in events]
    failed = "error" in kinds or "response.failed" in kinds
    numbers = [event.get("sequence_number") for _, event in events]
    if numbers != list(range(len(numbers))):
        yield finding("$", "sequence", f"sequence_number does not count from 0: {numbers[:8]}")
    if kinds[0] != "response.created" and not failed:
        yield finding("frame[0]", "start", "the first event is no response.created")
    if not failed and [kind for kind in kinds if kind in _TERMINAL] != kinds[-1:]:
        yield finding("$", "end", "one terminal event must come last")
    yield from _response_items(events, failed=failed)
    yield from _response_parts(events, failed=failed)
    yield from _response_texts(events)


def _response_items(events: list[tuple[str, Event]], *, failed: bool) -> Iterator[str]:
    items: dict[Any, Event] = {}
    done: dict[Any, Event] = {}
    for path, event in events:
        index, kind = event.get("output_index"), event.get("type")
        if kind == "response.output_item.added":
            if index != len(items):
                yield finding(path, "item-index", f"item {index}, expected {len(items)}")
            items[index] = event.get("item") or {}
        elif index is not None and index not in items:
            yield finding(path, "item-start", f"item {index} was never added")
        elif index in done:
            yield finding(path, "after-end", f"item {index} is done")
        elif kind == "response.output_item.done":
            done[index] = event.get("item") or {}
        if "item_id" in event and event["item_id"] != items.get(index, {}).get("id"):
            yield finding(path, "item-id", f"{event['item_id']!r} is not the id of item {index}")
        if kind in ("response.completed", "response.incomplete"):
            yield from _response_output(event, items, done, path)
    if not failed and len(done) != len(items):
        yield finding("$", "item-open", "an item is never done")


def _response_output(
    event: Event, items: dict[Any, Event], done: dict[Any, Event], path: str
) -> Iterator[str]:
    output = (event.get("response") or {}).get("output")
    if output != [done.get(index) for index in sorted(items)]:
        yield finding(path, "output", "the final output differs from the items that were done")


def _response_parts(events: list[tuple[str, Event]], *, failed: bool) -> Iterator[str]:
    opened: dict[tuple[Any, ...], bool] = {}
    for path, event in events:
        kind = str(event.get("type"))
        for prefix, index in (("content", "content_index"), ("reasoning_summary", "summary_index")):
            key = (prefix, event.get("output_index"), event.get(index))
            if kind == f"response.{prefix}_part.added":
                if key in opened:
                    yield finding(path, "part-start", "the part was added before")
                opened[key] = True
            elif kind == f"response.{prefix}_part.done":
                if not opened.get(key):
                    yield finding(path, "part-end", "the part is not open")
                opened[key] = False
            elif index in event and not opened.get(key):
                yield finding(path, "part-delta", f"{kind} outside of its part")
    if any(opened.values()) and not failed:
        yield finding("$", "part-open", "a part is never done")


def _response_texts(events: list[tuple[str, Event]]) -> Iterator[str]:
    sums: dict[tuple[Any, ...], str] = {}
    for path, event in events:
        kind, _, step = str(event.get("type")).rpartition(".")
        if kind not in _TEXTS:
            continue
        delta, whole, index = _TEXTS[kind]
        key = (kind, event.get("output_index"), event.get(index) if index else None)
        if step == "delta":
            sums[key] = sums.get(key, "") + str(event.get(delta))
        elif step == "done" and sums.get(key, "") != event.get(whole):
            yield finding(path, "sum", f"the deltas do not add up to {whole}")


_RULES: dict[str, Callable[[list[Frame]], Iterator[str]]] = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic_messages": _anthropic,
    "gemini_generate": _gemini,
    **{name: judge.stream_rules for name, judge in JUDGES.items()},
}

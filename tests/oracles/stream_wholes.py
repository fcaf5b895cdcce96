"""What stands around an answer, told from its stream: the last word that each field has in it.

A stream tells its envelope in pieces: the start has some fields, the end others, usage comes more than once. A field's
last value that is not null counts, but an answer keeps the name and time that its first chunk gave it; null is as good
as nothing. Texts and calls are not looked at here, nor what belongs to a single chunk (``obfuscation`` is padding).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .judges import JUDGES
from .stream_rules import frames_of

Body = dict[str, Any]
_FIRST = ("id", "created", "model")
_OF_CHUNKS = frozenset({"choices", "object", "obfuscation"})
_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})


def envelope_of_stream(dialect: str, transcript: bytes) -> Body:
    """The fields around the content, by the events of a stream."""
    events = [frame.value for frame in frames_of(dialect, transcript) if frame.data != "[DONE]"]
    return _STREAMS[dialect]([event for event in events if isinstance(event, dict)])


def envelope_of_whole(dialect: str, body: Body) -> Body:
    """The same of a whole answer."""
    return _WHOLES[dialect](body)


def differences(wanted: Body, found: Body, path: str = "") -> list[str]:
    """What is in the first envelope and not, or otherwise, in the second."""
    problems: list[str] = []
    for key, value in wanted.items():
        place = f"{path}{key}"
        other = found.get(key)
        if isinstance(value, dict) and isinstance(other, dict):
            problems += differences(said(value), other, f"{place}.")
        elif value != other:
            problems.append(f"{place}: {str(other)[:100]} instead of {str(value)[:100]}")
    return problems


def said(*parts: Any, without: frozenset[str] | set[str] = frozenset()) -> Body:
    """Objects over each other, later ones on top."""
    found: Body = {}
    for part in parts:
        for key, value in (part or {}).items():
            if value is not None and key not in without:
                found[key] = value
    return found


def _chat_stream(events: list[Body]) -> Body:
    choices = [first(event.get("choices")) for event in events]
    named = [{key: event.get(key) or None for key in _FIRST} for event in reversed(events)]
    choice = said(*choices, without={"delta", "index"})
    probabilities = [each.get("logprobs") for each in choices if isinstance(each, dict)]
    if any(probabilities):
        choice["logprobs"] = _in_a_row(probabilities)
    return said(*events, without=_OF_CHUNKS) | said(*named) | {"choice": choice}


def _in_a_row(parts: list[Any]) -> Body:
    """Lists that come in pieces, each as a whole."""
    found: Body = {}
    for part in parts:
        for key, value in (part or {}).items():
            if isinstance(value, list):
                found[key] = found.get(key, []) + value
    return found


def _chat_whole(body: Body) -> Body:
    choice = said(first(body.get("choices")), without={"message", "index"})
    return said(body, without=_OF_CHUNKS) | {"choice": choice}


def _anthropic_stream(events: list[Body]) -> Body:
    starts = [event.get("message") or {} for event in events]
    deltas = [event.get("delta") for event in events if event.get("type") == "message_delta"]
    usages = [holder.get("usage") for holder in (*starts, *events)]
    around = [
        said(event, without={"type", "delta", "usage"})
        for event in events
        if event.get("type") == "message_delta"
    ]
    message = said(*starts, *deltas, *around, without={"content", "usage"})
    return message | {"usage": said(*usages)}


def _anthropic_whole(body: Body) -> Body:
    return said(body, without={"content", "usage"}) | {"usage": said(body.get("usage"))}


def _gemini_stream(events: list[Body]) -> Body:
    candidates = [first(event.get("candidates")) for event in events]
    return said(*events, without={"candidates"}) | {
        "candidate": said(*candidates, without={"content", "index"})
    }


def _gemini_whole(body: Body) -> Body:
    candidate = said(first(body.get("candidates")), without={"content", "index"})
    return said(body, without={"candidates"}) | {"candidate": candidate}


def _responses_stream(events: list[Body]) -> Body:
    ends = [event["response"] for event in events if event.get("type") in _TERMINAL]
    return said(*ends, without={"output"})


def _responses_whole(body: Body) -> Body:
    return said(body, without={"output"})


def first(items: Any) -> Body:
    """The first choice or candidate, which is the one that is kept in a conversation."""
    found = [item for item in items or () if isinstance(item, dict) and not item.get("index")]
    return found[0] if found else {}


_STREAMS: dict[str, Callable[[list[Body]], Body]] = {
    "openai_chat": _chat_stream,
    "openai_responses": _responses_stream,
    "anthropic_messages": _anthropic_stream,
    "gemini_generate": _gemini_stream,
    **{name: judge.around_stream for name, judge in JUDGES.items()},
}
_WHOLES: dict[str, Callable[[Body], Body]] = {
    "openai_chat": _chat_whole,
    "openai_responses": _responses_whole,
    "anthropic_messages": _anthropic_whole,
    "gemini_generate": _gemini_whole,
    **{name: judge.around_whole for name, judge in JUDGES.items()},
}

"""Lists of API messages, ``{role, content, …}``, read message by message with their times and models.

Programs store the messages that they send and receive, with additional fields. Only fields of the API are read as
the message; the others are stored as facts, which are never sent to a provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cannery import detection
from cannery.errors import InputError
from cannery.importers.contract import UNREADABLE, Unknown
from cannery.importers.pieces import (
    moment,
    spoken_by,
    text_of,
    unknown_record,
    usage_of,
    whole,
    with_facts,
    with_fields,
)
from cannery.messages import AnyCanister, Usage

# The message fields of the APIs.
_KNOWN = (
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    "audio",
    "parts",
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "weight",
    "images",
    "thinking",
    "tool_name",
)
_TIMES = ("timestamp", "ts", "created_at", "createdAt", "create_time", "created", "date", "time")
_FACTS = (*_TIMES, "model", "usage", "modelInfo", "metrics", "id")
_WORDS = ("content", "parts", "tool_calls", "function_call", "refusal", "audio")

Turn = tuple[str, tuple[AnyCanister, ...]]


class Spoken(NamedTuple):
    """The result of reading a list of messages: turns, unknown records, and the last model named."""

    turns: list[Turn]
    unknown: list[Unknown]
    model: str | None


def is_message(value: Any) -> bool:
    """Whether a value is a message: it has a role and a content."""
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        return False
    return any(key in value for key in _WORDS)


def time_of(value: dict[str, Any]) -> Any:
    """The time of a message, under one of its common names."""
    return next(filter(None, (moment(value.get(key)) for key in _TIMES)), None)


def dialect_of(messages: Sequence[Any], default: str = "openai_chat") -> str:
    """The dialect of some messages, detected."""
    if any(isinstance(each, dict) and "parts" in each for each in messages):
        return "gemini_generate"
    try:
        return detection.detect({"messages": list(messages)}).dialect
    except InputError:
        return default


def read_messages(
    messages: Sequence[Any], source: str, place: str, dialect: str | None = None
) -> Spoken:
    """Read messages in order; one that cannot be read becomes an unknown record."""
    spelled = dialect or dialect_of(messages)
    turns: list[Turn] = []
    unknown: list[Unknown] = []
    model: str | None = None
    for number, message in enumerate(messages):
        where = f"{place}[{number}]"
        try:
            said, made_by = _message(message, source, spelled)
        except InputError as error:
            above = turns[-1][0] if turns else None
            unknown.append(unknown_record(UNREADABLE, f"{where}: {error}", message, above))
            continue
        model = made_by or model
        turns.append((text_of(message.get("id")) or f"#{number}", said))
    names = [name for name, _ in turns]
    if len(set(names)) < len(names):
        turns = [(f"#{number}", said) for number, (_, said) in enumerate(turns)]
    return Spoken(turns, unknown, model)


def _message(message: Any, source: str, dialect: str) -> tuple[tuple[AnyCanister, ...], str | None]:
    if not is_message(message):
        raise InputError("a message has a role and a content")
    kept = {key: message[key] for key in _KNOWN if key in message}
    if dialect == "gemini_generate":
        body: dict[str, Any] = {"contents": [kept]}
    else:
        body = {"messages": [kept], "model": "unknown", "max_tokens": 1}
    said = spoken_by(dialect, body, time_of(message))
    info = message.get("modelInfo")
    named = info.get("id", info.get("modelId")) if isinstance(info, dict) else None
    model = text_of(message.get("model")) or text_of(named) or None
    is_made = message.get("role") not in ("user", "system", "tool", "developer", "human")
    usage = read_usage(message.get("usage", message.get("metrics")))
    told = with_facts(said, source, model=model if is_made else None, usage=usage)
    return with_fields(told, source, message, *_KNOWN, *_FACTS), model


def read_usage(value: Any) -> Usage | None:
    """Token counts in one of the spellings of the APIs."""
    if not isinstance(value, dict):
        return None
    if "prompt_tokens" in value:
        details = value.get("prompt_tokens_details")
        cached = whole(details.get("cached_tokens")) if isinstance(details, dict) else 0
        return usage_of(
            fresh=whole(value.get("prompt_tokens")) - cached,
            output=value.get("completion_tokens"),
            read=cached or None,
        )
    names = (
        ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
        ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"),
        ("input", "output", "cacheRead", "cacheWrite"),
    )
    for fresh, output, read, written in names:
        if fresh in value or output in value:
            return usage_of(
                fresh=value.get(fresh),
                output=value.get(output),
                read=value.get(read),
                written=value.get(written),
            )
    return None

"""Vercel AI SDK messages (``UIMessage``): a list of ``{id, role, parts}``, bare or under ``messages`` of a chat.

A part of the type ``tool-NAME`` or ``dynamic-tool`` is a call with its state; older messages have ``toolInvocations``
and ``content``. As in ``ui-messages.ts`` of vercel/ai 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from cannery.importers.api_messages import Turn, read_usage, time_of
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Sample,
)
from cannery.importers.drafts import Draft, role_of
from cannery.importers.pieces import (
    nodes_with_fields,
    objects,
    text_of,
    unknown_record,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.importers.trees import linear
from cannery.importers.values import Record

NAME = "uimessage"
_MARKS = ("step-start",)
_GIVEN = ("output-available", "result")
_TAKEN = ("id", "role", "parts", "content", "toolInvocations", "createdAt")


def detect(sample: Sample) -> Detection | None:
    """Messages whose parts have types of the SDK."""
    for record in sample.records:
        listed = _messages(record) or ([record] if isinstance(record, dict) else [])
        if any(map(_is_message, listed)):
            return Detection(0.85, "its messages have a role and typed parts")
    return None


def _messages(record: Any) -> list[dict[str, Any]]:
    if isinstance(record, list):
        return objects(record)
    return objects(record.get("messages")) if isinstance(record, dict) else []


def _is_message(message: dict[str, Any]) -> bool:
    parts = objects(message.get("parts"))
    typed = bool(parts) and all(isinstance(part.get("type"), str) for part in parts)
    return isinstance(message.get("role"), str) and (typed or "toolInvocations" in message)


def read(source: Source) -> Iterator[Found]:
    """One conversation per list."""

    def which(found: tuple[Record, Any]) -> int:
        record, value = found
        return -1 - record.group if _messages(value) else record.group if record.is_item else 0

    for _, found in groupby(source.values(), which):
        together = list(found)
        if _messages(together[0][1]):
            for record, value in together:
                yield from _chat(value, source.place_of(record))
        else:
            messages = [value for _, value in together]
            yield from _chat({"messages": messages}, source.name)


def _chat(value: Any, place: str) -> Iterator[Found]:
    chat: dict[str, Any] = value if isinstance(value, dict) else {"messages": value}
    unknown: Counter[str] = Counter()
    turns: list[Turn] = []
    model: str | None = None
    for number, message in enumerate(chat["messages"]):
        role = role_of(message.get("role")) if isinstance(message, dict) else ""
        if not role:
            above = turns[-1][0] if turns else None
            yield unknown_record(UNREADABLE, f"{place}[{number}]", message, above)
            continue
        facts = message.get("metadata")
        facts = facts if isinstance(facts, dict) else {}
        draft = Draft(NAME, role, time_of(message) or time_of(facts), unknown)
        _say(draft, message)
        made_by = text_of(facts.get("model"))
        model = made_by or model
        usage = read_usage(facts.get("usage", facts.get("totalUsage")))
        said = with_fields(draft.done(model=made_by, usage=usage), NAME, message, *_TAKEN)
        name = text_of(message.get("id"))
        known = {turn for turn, _ in turns}
        turns.append((name if name and name not in known else f"#{number}", said))
    title = text_of(chat.get("title"))
    name = text_of(chat.get("id")) or text_of(chat.get("chatId")) or place
    nodes = nodes_with_fields(linear(turns), NAME, chat, "id", "title", "messages")
    yield Imported(name, nodes, title, time_of(chat), model=model, unknown=dict(unknown))


def _say(draft: Draft, message: dict[str, Any]) -> None:
    parts = objects(message.get("parts"))
    if not parts:
        draft.part(message.get("content") or "")
    for part in parts:
        _take(draft, part)
    if not any("tool" in text_of(part.get("type")) for part in parts):
        for call in objects(message.get("toolInvocations")):
            _call(draft, text_of(call.get("toolName")), call)


def _take(draft: Draft, part: dict[str, Any]) -> None:
    kind = text_of(part.get("type"))
    if kind == "text":
        draft.text(part.get("text"))
    elif kind == "reasoning":
        draft.thought(part.get("text", part.get("reasoning")))
    elif kind == "tool-invocation" and isinstance(part.get("toolInvocation"), dict):
        call = part["toolInvocation"]
        _call(draft, text_of(call.get("toolName")), call)
    elif kind.startswith("tool-") or kind == "dynamic-tool":
        _call(draft, text_of(part.get("toolName")) or kind.removeprefix("tool-"), part)
    elif kind == "file" and (part.get("url") or part.get("data")):
        data = f"data:{text_of(part.get('mimeType'))};base64,{part.get('data')}"
        media = part.get("mediaType", part.get("mimeType"))
        draft.media(part.get("url") or data, media, part.get("filename"))
    elif kind not in _MARKS:
        draft.strange(kind, part)


def _call(draft: Draft, name: str, call: dict[str, Any]) -> None:
    draft.call(call.get("toolCallId"), name, call.get("input", call.get("args")))
    state = call.get("state")
    if state in _GIVEN:
        draft.answer(call.get("toolCallId"), call.get("output", call.get("result")))
    elif state == "output-error":
        draft.answer(call.get("toolCallId"), call.get("errorText"), failed=True)


FORMAT = Format(
    NAME,
    "Vercel AI SDK messages",
    detect,
    read,
    keys=("id", "role", "parts", "type", "toolCallId", "state"),
)

"""Continue sessions: ``{sessionId, title, history: [{message, contextItems, toolCallStates}]}``.

A call is in its message as ``toolCalls`` and, with its result, in ``toolCallStates``. Messages have no times; the
session's time is in ``sessions.json`` in the same folder. Seen with Continue 1.5.47.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from cannery.importers.api_messages import Turn, read_usage
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
    list_beside,
    moment,
    nodes_with_fields,
    objects,
    text_of,
    unknown_record,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.importers.trees import linear

NAME = "continue_dev"
_UNTITLED = ("New Session", "Untitled Session")


def detect(sample: Sample) -> Detection | None:
    """A history of messages with context."""
    for record in sample.objects:
        history = objects(record.get("history"))
        if "sessionId" in record and any(
            isinstance(step.get("message"), dict) and "contextItems" in step for step in history
        ):
            return Detection(0.95, "it has a sessionId and a history of messages with contextItems")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per session."""
    for record, value in source.values():
        if not isinstance(value, dict) or not isinstance(value.get("history"), list):
            yield unknown_record("no history", record.place, value)
            continue
        yield from _session(source, value, source.place_of(record))


def _session(source: Source, session: dict[str, Any], place: str) -> Iterator[Found]:
    unknown: Counter[str] = Counter()
    turns: list[Turn] = []
    model: str | None = None
    for number, step in enumerate(session["history"]):
        message = step.get("message") if isinstance(step, dict) else None
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not (role_of(role) or role in ("thinking", "tool")):
            above = turns[-1][0] if turns else None
            yield unknown_record(UNREADABLE, f"{place}[{number}]", step, above)
            continue
        draft = Draft(NAME, role_of(role) or "assistant", None, unknown)
        _say(draft, message, step)
        usage = message.get("usage")
        named = text_of(usage.get("model")) if isinstance(usage, dict) else ""
        model = named or model
        cents = usage.get("cost_cents") if isinstance(usage, dict) else None
        cost = cents / 100 if isinstance(cents, (int, float)) else None
        said = draft.done(model=named, usage=read_usage(usage), cost=cost)
        said = with_fields(said, NAME, step, "message", "contextItems", "editorState")
        turns.append((text_of(message.get("id")) or f"#{number}", said))
    name = text_of(session.get("sessionId"))
    title = text_of(session.get("title"))
    yield Imported(
        name or place,
        nodes_with_fields(linear(turns), NAME, session, "sessionId", "history"),
        "" if title in _UNTITLED else title,
        _created(source, name),
        model=model or text_of(session.get("chatModelTitle")) or None,
        unknown=dict(unknown),
    )


def _say(draft: Draft, message: dict[str, Any], step: dict[str, Any]) -> None:
    content = message.get("content")
    if message.get("role") == "tool":
        draft.answer(message.get("toolCallId"), content)
        return
    for item in objects(step.get("contextItems")):
        draft.strange("contextItem", item)
    if message.get("role") == "thinking":
        draft.thought(content, message.get("signature"))
    else:
        for part in content if isinstance(content, list) else [content]:
            if part is not None:
                draft.part(_as_api(part))
    for call in objects(message.get("toolCalls")):
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        draft.call(call.get("id"), function.get("name"), function.get("arguments"))
    for state in objects(step.get("toolCallStates")):
        if isinstance(state.get("output"), list):
            texts = [text_of(item.get("content")) for item in objects(state["output"])]
            failed = state.get("status") == "errored"
            draft.answer(state.get("toolCallId"), "\n".join(texts), failed=failed)


def _as_api(part: Any) -> Any:
    """An image in the spelling of OpenAI's API."""
    if isinstance(part, dict) and part.get("type") == "imageUrl":
        return {"type": "image_url", "image_url": part.get("imageUrl")}
    return part


def _created(source: Source, name: str) -> Any:
    """The start of a session, from the list of all sessions."""
    for entry in list_beside(source, "sessions.json"):
        if entry.get("sessionId") == name:
            return moment(entry.get("dateCreated"))
    return None


FORMAT = Format(
    NAME,
    "Continue session",
    detect,
    read,
    keys=("sessionId", "history", "contextItems", "toolCallStates"),
    folders=(".continue/sessions",),
)

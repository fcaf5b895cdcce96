"""VS Code Copilot Chat sessions: ``{sessionId, requests: [{message, response, result}]}``, a document or its changes.

``response`` is the text that the panel displays; if the request has the model's output (``toolCallRounds``), that is
read instead, and the rest is stored as facts. Newer sessions are lines of changes: the document (0), a value set (1),
items appended after truncation to a length (2), a value removed (3). As in ``chatModel.ts`` and
``objectMutationLog.ts`` of vscode (read 2026-11-18).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from cannery.importers.api_messages import Turn
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Sample,
)
from cannery.importers.drafts import Draft
from cannery.importers.pieces import (
    moment,
    nodes_with_fields,
    objects,
    text_of,
    unknown_record,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.importers.trees import linear

NAME = "copilot_chat"
_DOCUMENT, _SET, _PUSH, _DELETE = range(4)


def detect(sample: Sample) -> Detection | None:
    """A session with requests, or its first line of changes."""
    for record in sample.objects:
        is_change = record.get("kind") == _DOCUMENT and isinstance(record.get("v"), dict)
        session = record["v"] if is_change else record
        if isinstance(session.get("requests"), list) and (
            "sessionId" in session or "responderUsername" in session
        ):
            return Detection(0.9, "it is a session of requests with message and response")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per session."""
    session: Any = None
    place = source.name
    for record, value in source.values():
        if isinstance(value, dict) and isinstance(value.get("requests"), list):
            yield from _session(value, source.place_of(record))
        elif isinstance(value, dict) and value.get("kind") == _DOCUMENT:
            session = value.get("v")
        elif session is None or not _change(session, value):
            yield unknown_record("unknown change", record.place, value)
    if isinstance(session, dict):
        yield from _session(session, place)


def _change(session: Any, change: Any) -> bool:
    """Apply a change to the document; return whether it was understood."""
    path = change.get("k") if isinstance(change, dict) else None
    if not isinstance(path, list) or not path:
        return False
    target = session
    try:
        for key in path[:-1]:
            target = target[key]
        last = path[-1]
        if change.get("kind") == _SET:
            if isinstance(target, list) and last == len(target):
                target.append(change.get("v"))
            else:
                target[last] = change.get("v")
        elif change.get("kind") == _PUSH:
            items = target[last]
            if isinstance(change.get("i"), int):
                del items[change["i"] :]
            items.extend(change.get("v") or ())
        elif change.get("kind") == _DELETE:
            del target[last]
        else:
            return False
    except (KeyError, IndexError, TypeError, AttributeError):
        return False
    return True


def _session(session: dict[str, Any], place: str) -> Iterator[Found]:
    unknown: Counter[str] = Counter()
    turns: list[Turn] = []
    model: str | None = None
    requests = session.get("requests")
    for number, request in enumerate(requests if isinstance(requests, list) else ()):
        if not isinstance(request, dict):
            above = turns[-1][0] if turns else None
            yield unknown_record(UNREADABLE, f"{place}[{number}]", request, above)
            continue
        when = moment(request.get("timestamp"))
        asked = Draft(NAME, "user", when, unknown)
        message = request.get("message")
        asked.text(message.get("text") if isinstance(message, dict) else message)
        turns.append((f"#{number}", asked.done()))
        model = text_of(request.get("modelId")) or model
        answer = Draft(NAME, "assistant", when, unknown)
        rounds = _rounds(request)
        if rounds:
            _say_rounds(answer, rounds, request)
        else:
            _say_shown(answer, request.get("response"))
        said = answer.done(model=request.get("modelId"))
        taken = ("message", "timestamp", "modelId", *(() if rounds else ("response",)))
        turns.append((f"#{number}:answer", with_fields(said, NAME, request, *taken)))
    yield Imported(
        text_of(session.get("sessionId")) or place,
        nodes_with_fields(linear(turns), NAME, session, "sessionId", "requests", "customTitle"),
        text_of(session.get("customTitle")),
        moment(session.get("creationDate")),
        model=model,
        unknown=dict(unknown),
    )


def _metadata(request: dict[str, Any]) -> dict[str, Any]:
    result = request.get("result")
    metadata = result.get("metadata") if isinstance(result, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _rounds(request: dict[str, Any]) -> list[dict[str, Any]]:
    rounds = objects(_metadata(request).get("toolCallRounds"))
    return rounds if any(text_of(each.get("response")) for each in rounds) else []


def _say_rounds(draft: Draft, rounds: list[dict[str, Any]], request: dict[str, Any]) -> None:
    """The model's output: text and calls, with the results of the tools."""
    results = _metadata(request).get("toolCallResults")
    results = results if isinstance(results, dict) else {}
    for each in rounds:
        thinking = each.get("thinking")
        if isinstance(thinking, dict):
            draft.thought(thinking.get("text"))
        draft.text(each.get("response"))
        calls = objects(each.get("toolCalls"))
        for call in calls:
            draft.call(call.get("id"), call.get("name"), call.get("arguments"))
        for call in calls:
            given = results.get(text_of(call.get("id")))
            if isinstance(given, dict):
                parts = objects(given.get("content"))
                texts = [text_of(part.get("value")) for part in parts]
                whole = "".join(texts) if all(texts) else parts
                draft.answer(call.get("id"), whole)


def _say_shown(draft: Draft, response: Any) -> None:
    """The displayed items; consecutive texts are joined."""
    words: list[str] = []
    for item in response if isinstance(response, list) else [response]:
        kind = item.get("kind") if isinstance(item, dict) else None
        text = _words(item, kind)
        if text is not None:
            words.append(text)
            continue
        draft.text("".join(words))
        words = []
        if kind == "thinking":
            draft.thought(_text(item.get("value")))
        elif kind == "toolInvocationSerialized":
            given = item.get("toolSpecificData")
            draft.call(item.get("toolCallId"), item.get("toolId"), given)
            told = item.get("pastTenseMessage") or item.get("invocationMessage")
            draft.answer(item.get("toolCallId"), _text(told) or "")
        elif item is not None:
            draft.strange(kind, item)
    draft.text("".join(words))


def _words(item: Any, kind: Any) -> str | None:
    """The Markdown of an item; None if it is something else."""
    if isinstance(item, str):
        return item
    if not isinstance(item, dict):
        return None
    if kind == "markdownContent":
        return _text(item.get("content"))
    if kind == "inlineReference":
        return f"`{text_of(item.get('name'))}`" if item.get("name") else None
    return item["value"] if kind is None and isinstance(item.get("value"), str) else None


def _text(value: Any) -> str | None:
    """A text, or the text of a Markdown string."""
    found = value.get("value") if isinstance(value, dict) else value
    return found if isinstance(found, str) else None


FORMAT = Format(
    NAME,
    "VS Code Copilot Chat session",
    detect,
    read,
    keys=("sessionId", "requests", "requesterUsername", "responderUsername", "response"),
    folders=(
        ".config/Code/User/workspaceStorage/*/chatSessions",
        ".config/Code/User/globalStorage/emptyWindowChatSessions",
        "Library/Application Support/Code/User/workspaceStorage/*/chatSessions",
    ),
)

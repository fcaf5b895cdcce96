"""LibreChat exports: ``{conversationId, title, options, messages}``, a list of messages or a tree of ``children``.

The parent of a root is the zero UUID or null. ``promptPrefix`` of the options is the system text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
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
from cannery.messages import AnyCanister, supervisor

NAME = "librechat"
_SYSTEM = "promptPrefix"
# The fields of a message that are read; the others are stored as facts.
_READ = (
    "messageId",
    "parentMessageId",
    "conversationId",
    "children",
    "isCreatedByUser",
    "text",
    "content",
    "createdAt",
    "model",
)


def detect(sample: Sample) -> Detection | None:
    """A conversationId, and messages with isCreatedByUser."""
    for record in sample.objects:
        messages = objects(record.get("messages"))
        if "conversationId" in record and any("isCreatedByUser" in each for each in messages):
            return Detection(0.95, "it has a conversationId and messages with isCreatedByUser")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per record, with its branches."""
    for record, value in source.values():
        if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
            yield unknown_record("no messages", record.place, value)
            continue
        yield _conversation(value, source.place_of(record))


def _conversation(value: dict[str, Any], place: str) -> Imported:
    unknown: Counter[str] = Counter()
    options = value.get("options")
    prefix = text_of(options.get(_SYSTEM)) if isinstance(options, dict) else ""
    root = _SYSTEM if prefix else None
    nodes = [Node(_SYSTEM, None, (supervisor(prefix),))] if prefix else []
    messages = list(_flat(value["messages"], None))
    names = {name for name, _, _ in messages}
    for name, above, message in messages:
        parent = above if above in names else root
        nodes.append(Node(name, parent, _canisters(message, unknown)))
    created = moment(messages[0][2].get("createdAt")) if messages else None
    models = [text_of(message.get("model")) for _, _, message in messages]
    return Imported(
        text_of(value.get("conversationId")) or place,
        nodes_with_fields(nodes, NAME, value, "conversationId", "title", "messages"),
        text_of(value.get("title")),
        created,
        messages[-1][0] if messages else None,
        next(filter(None, models), None),
        dict(unknown),
    )


def _flat(messages: Any, above: str | None) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """Each message with its id and its parent's, children after their parent."""
    waiting = [(message, above) for message in reversed(objects(messages))]
    number = 0
    while waiting:
        message, parent = waiting.pop()
        name = text_of(message.get("messageId")) or f"#{number}"
        number += 1
        yield name, parent or text_of(message.get("parentMessageId")) or None, message
        waiting += [(child, name) for child in reversed(objects(message.get("children")))]


def _canisters(message: dict[str, Any], unknown: Counter[str]) -> tuple[AnyCanister, ...]:
    role = "user" if message.get("isCreatedByUser") is True else "assistant"
    draft = Draft(NAME, role, moment(message.get("createdAt")), unknown)
    draft.text(message.get("text"))
    for part in objects(message.get("content")):
        _take(draft, part)
    model = message.get("model") if role == "assistant" else None
    return with_fields(draft.done(model=model), NAME, message, *_READ)


def _take(draft: Draft, part: dict[str, Any]) -> None:
    kind, inner = part.get("type"), part.get(text_of(part.get("type")))
    text = inner.get("value") if isinstance(inner, dict) else inner
    if kind == "text" and isinstance(text, str):
        draft.text(text)
    elif kind == "think" and isinstance(text, str):
        draft.thought(text)
    elif kind == "tool_call" and isinstance(inner, dict) and inner.get("name"):
        draft.call(inner.get("id"), inner.get("name"), inner.get("args"))
        if inner.get("output") is not None:
            draft.answer(inner.get("id"), inner.get("output"))
    else:
        draft.strange(kind, part)


FORMAT = Format(
    NAME,
    "LibreChat export",
    detect,
    read,
    keys=("conversationId", "messages", "isCreatedByUser", "messageId"),
)

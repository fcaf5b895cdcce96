"""Open Assistant trees: rows of ``{parent_message_id, text, role}``, or prompts with ``replies`` below them.

Rows of one tree may be anywhere in a file, so the whole file is held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import moment, objects, text_of, unknown_record, with_fields
from cannery.importers.sources import Source
from cannery.messages import AssistantCanisterClass, TextualContentClass, UserCanisterClass, absent

NAME = "oasst"
# The fields of a message that are read; the others are stored as facts.
_READ = (
    "message_id",
    "user_message_id",
    "parent_message_id",
    "parent_id",
    "role",
    "text",
    "replies",
    "children",
    "created_date",
)
_MAKERS = {"prompter": UserCanisterClass, "assistant": AssistantCanisterClass}


def detect(sample: Sample) -> Detection | None:
    """Messages by a prompter."""
    for record in sample.objects:
        prompt = record.get("prompt") if isinstance(record.get("prompt"), dict) else record
        if isinstance(prompt, dict) and prompt.get("role") == "prompter" and "text" in prompt:
            return Detection(0.95, "its messages are by a prompter")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per tree."""
    rows: list[tuple[str, str | None, Any]] = []
    for record, value in source.values():
        prompt = value.get("prompt", value) if isinstance(value, dict) else None
        if not isinstance(prompt, dict) or text_of(prompt.get("role")) not in _MAKERS:
            yield unknown_record("no message", record.place, value)
            continue
        rows += _flat(prompt, record.place)
    yield from _trees(rows)


def _flat(prompt: dict[str, Any], place: str) -> Iterator[tuple[str, str | None, Any]]:
    waiting: list[tuple[dict[str, Any], str | None]] = [(prompt, _parent(prompt))]
    number = 0
    while waiting:
        message, above = waiting.pop()
        name = _name(message) or f"{place}#{number}"
        number += 1
        yield name, above, message
        children = objects(message.get("replies")) or objects(message.get("children"))
        waiting += [(child, name) for child in reversed(children)]


def _name(message: dict[str, Any]) -> str:
    return text_of(message.get("message_id")) or text_of(message.get("user_message_id"))


def _parent(message: dict[str, Any]) -> str | None:
    return text_of(message.get("parent_message_id")) or text_of(message.get("parent_id")) or None


def _trees(rows: list[tuple[str, str | None, Any]]) -> Iterator[Imported]:
    names = {name for name, _, _ in rows}
    roots: dict[str, str] = {}
    trees: dict[str, list[Node]] = {}
    waiting = rows
    while waiting:
        later = []
        for name, above, message in waiting:
            parent = above if above in names else None
            if parent is not None and parent not in roots:
                later.append((name, above, message))
                continue
            roots[name] = name if parent is None else roots[parent]
            make: Any = _MAKERS.get(text_of(message.get("role")), UserCanisterClass)
            when = moment(message.get("created_date")) or absent
            said = make(TextualContentClass(text_of(message.get("text"))), when)
            kept = with_fields((said,), NAME, message, *_READ)
            trees.setdefault(roots[name], []).append(Node(name, parent, kept))
        if len(later) == len(waiting):  # a cycle: its first row becomes a root
            name, _, message = later[0]
            later[0] = (name, None, message)
        waiting = later
    for root, nodes in trees.items():
        yield Imported(root, tuple(nodes))


FORMAT = Format(
    NAME,
    "Open Assistant trees",
    detect,
    read,
    is_data_set=True,
    keys=("message_id", "parent_id", "text", "role", "replies"),
)

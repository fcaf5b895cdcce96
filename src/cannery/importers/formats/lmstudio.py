"""LM Studio ``*.conversation.json``: messages with ``versions``, of which one is selected; the others are branches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import (
    joined,
    moment,
    nodes_with_fields,
    objects,
    opaque,
    text_of,
    unknown_record,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.messages import (
    AnyCanister,
    AssistantCanisterClass,
    SupervisorCanisterClass,
    TextualContentClass,
    UserCanisterClass,
    supervisor,
)

NAME = "lmstudio"
# The fields of a conversation that are read; the others are stored as facts.
_READ = ("id", "title", "name", "createdAt", "messages", "systemPrompt")
_MAKERS = {
    "user": UserCanisterClass,
    "assistant": AssistantCanisterClass,
    "system": SupervisorCanisterClass,
}


def detect(sample: Sample) -> Detection | None:
    """Messages with versions."""
    for record in sample.objects:
        versions = [
            version
            for message in objects(record.get("messages"))
            for version in objects(message.get("versions"))
        ]
        if any("role" in each and ("content" in each or "steps" in each) for each in versions):
            return Detection(0.95, "its messages have versions with role and content")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per record."""
    for record, value in source.values():
        if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
            yield unknown_record("no messages", record.place, value)
            continue
        yield _conversation(value, source.place_of(record))


def _conversation(value: dict[str, Any], place: str) -> Imported:
    unknown: Counter[str] = Counter()
    prompt = text_of(value.get("systemPrompt"))
    nodes = [Node("system", None, (supervisor(prompt),))] if prompt else []
    above = "system" if prompt else None
    for number, message in enumerate(objects(value["messages"])):
        versions = objects(message.get("versions"))
        chosen = message.get("currentlySelected")
        for version, said in enumerate(versions):
            kept = with_fields(_canisters(said, unknown), NAME, said, "role", "content", "steps")
            nodes.append(Node(f"{number}.{version}", above, kept))
        if versions:
            is_there = isinstance(chosen, int) and 0 <= chosen < len(versions)
            above = f"{number}.{chosen if is_there else 0}"
    return Imported(
        text_of(value.get("id")) or place,
        nodes_with_fields(nodes, NAME, value, *_READ),
        text_of(value.get("title")) or text_of(value.get("name")),
        moment(value.get("createdAt")),
        above,
        unknown=dict(unknown),
    )


def _canisters(version: dict[str, Any], unknown: Counter[str]) -> tuple[AnyCanister, ...]:
    make: Any = _MAKERS.get(text_of(version.get("role")))
    if make is None:
        return (UserCanisterClass(opaque(NAME, version.get("role"), version, unknown)),)
    return joined([make(content) for content in _contents(version, unknown)])


def _contents(version: dict[str, Any], unknown: Counter[str]) -> Iterator[Any]:
    for part in objects(version.get("content")):
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            yield TextualContentClass(part["text"])
        else:
            yield opaque(NAME, part.get("type"), part, unknown)
    for step in objects(version.get("steps")):
        if step.get("type") == "contentBlock":
            yield from _contents(step, unknown)
        else:
            yield opaque(NAME, step.get("type"), step, unknown)


FORMAT = Format(
    NAME,
    "LM Studio conversation",
    detect,
    read,
    keys=("messages", "versions", "currentlySelected", "steps"),
    folders=(".lmstudio/conversations", ".cache/lm-studio/conversations"),
)

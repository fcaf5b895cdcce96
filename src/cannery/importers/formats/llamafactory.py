"""LLaMA-Factory v1: lines of messages whose parts have a ``value``: text, reasoning, tool_call, image_url.

Preferences (``chosen_messages``, ``rejected_messages``) become two branches; the chosen one is current.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import (
    joined,
    objects,
    opaque,
    row_digest,
    text_of,
    unknown_record,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.messages import (
    AnyCanister,
    AssistantCanisterClass,
    ImageContentClass,
    InvocationCanisterClass,
    Location,
    ReasoningContentClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    TextualContentClass,
    UserCanisterClass,
)
from cannery.messages.json_text import decode_json, write_json

NAME = "llamafactory"
_MAKERS = {
    "user": UserCanisterClass,
    "assistant": AssistantCanisterClass,
    "system": SupervisorCanisterClass,
}
_LISTS = ("messages", "chosen_messages", "rejected_messages")


def detect(sample: Sample) -> Detection | None:
    """Parts with a type and a value."""
    for record in sample.objects:
        for key in _LISTS:
            for message in objects(record.get(key)):
                if any(
                    "value" in part and "type" in part for part in objects(message.get("content"))
                ):
                    return Detection(0.95, "its parts have a type and a value")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per record."""
    for record, value in source.values():
        if not isinstance(value, dict) or not any(
            isinstance(value.get(key), list) for key in _LISTS
        ):
            yield unknown_record("no messages", record.place, value)
            continue
        yield _conversation(value, source.place_of(record))


def _conversation(value: dict[str, Any], place: str) -> Imported:
    unknown: Counter[str] = Counter()
    nodes = []
    for key in _LISTS:
        reader = _Turns(unknown)
        above = None
        for number, message in enumerate(objects(value.get(key))):
            name = f"{key}[{number}]"
            nodes.append(Node(name, above, reader.canisters(message)))
            above = name
    if nodes:
        nodes[0] = Node(*nodes[0][:2], with_fields(nodes[0].canisters, NAME, value, *_LISTS))
    current = f"chosen_messages[{len(objects(value.get('chosen_messages'))) - 1}]"
    return Imported(
        place, tuple(nodes), current=current, unknown=dict(unknown), row=row_digest(value)
    )


class _Turns:
    """The messages of one list; results answer the open calls in order."""

    def __init__(self, unknown: Counter[str]) -> None:
        self._unknown = unknown
        self._calls = 0
        self._open: list[str] = []

    def canisters(self, message: dict[str, Any]) -> tuple[AnyCanister, ...]:
        role = text_of(message.get("role"))
        parts = objects(message.get("content"))
        if role == "tool":
            return self._results(parts)
        if role == "assistant":
            self._open = []
        make: Any = _MAKERS.get(role)
        if make is None:
            return (UserCanisterClass(opaque(NAME, role, message, self._unknown)),)
        found: list[AnyCanister] = []
        for part in parts:
            call = self._call(part) if part.get("type") == "tool_call" else None
            found.append(call or make(self._content(part)))
        return joined(found)

    def _results(self, parts: list[dict[str, Any]]) -> tuple[AnyCanister, ...]:
        found: list[AnyCanister] = []
        for part in parts:
            call = self._open.pop(0) if self._open else f"call_{self._calls}"
            found.append(ResultCanisterClass(call, self._content(part)))
        return joined(found)

    def _call(self, part: dict[str, Any]) -> InvocationCanisterClass | None:
        value = part.get("value")
        try:
            call = decode_json(value) if isinstance(value, str) else value
        except ValueError:
            return None
        if not isinstance(call, dict) or not text_of(call.get("name")):
            return None
        arguments = call.get("arguments", {})
        words = arguments if isinstance(arguments, str) else write_json(arguments)
        identifier = f"call_{self._calls}"
        self._calls += 1
        self._open.append(identifier)
        return InvocationCanisterClass(identifier, call["name"], words)

    def _content(self, part: dict[str, Any]) -> Any:
        kind, value = part.get("type"), part.get("value")
        if isinstance(value, str):
            if kind == "text":
                return TextualContentClass(value)
            if kind == "reasoning":
                return ReasoningContentClass((value,))
            if kind == "image_url" and value:
                return ImageContentClass(Location("url" if "://" in value else "file", value))
        return opaque(NAME, kind, part, self._unknown)


FORMAT = Format(
    NAME,
    "LLaMA-Factory v1 data set",
    detect,
    read,
    is_data_set=True,
    keys=("messages", "role", "content", "type", "value"),
)

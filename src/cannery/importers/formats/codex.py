"""Codex rollouts: lines of ``{type, timestamp, payload}``; the payload of a ``response_item`` is an item of Responses.

Older rollouts begin with a bare ``{id, timestamp, instructions}`` and hold the items themselves. ``event_msg`` and its
like repeat what the items say. A fork of a session copies its history, which the store recognises.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cannery.errors import InputError
from cannery.importers.contract import UNREADABLE, Detection, Format, Found, Imported, Sample
from cannery.importers.pieces import moment, spoken_by, text_of, unknown_record
from cannery.importers.sources import Source
from cannery.importers.trees import linear
from cannery.messages import AnyCanister, supervisor

NAME = "codex"
_SURROUNDINGS = ("event_msg", "turn_context", "world_state", "token_usage_record")
_ITEMS = ("message", "reasoning", "function_call", "function_call_output")


def detect(sample: Sample) -> Detection | None:
    """A rollout's first line, or its items."""
    for record in sample.objects:
        if record.get("type") == "session_meta" or (
            record.get("type") == "response_item" and isinstance(record.get("payload"), dict)
        ):
            return Detection(0.95, "its lines are those of a rollout")
    first, *rest = sample.objects or [{}]
    is_rollout = any(record.get("type") in _ITEMS for record in rest)
    if {"id", "timestamp", "instructions"} <= first.keys() and (is_rollout or not rest):
        return Detection(0.8, "it begins like an older rollout")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation a file."""
    session = _Session()
    for record, value in source.values():
        kind = session.take(value, record.place)
        if kind is not None:
            yield unknown_record(kind, record.place, value)
    yield session.imported(source.name)


class _Session:
    """The lines of one file."""

    def __init__(self) -> None:
        self._turns: list[tuple[str, tuple[AnyCanister, ...]]] = []
        self._identifier = ""
        self._created: datetime | None = None
        self._model: str | None = None

    def take(self, value: Any, place: str) -> str | None:
        """Take a line; the kind of record if it is not understood."""
        if not isinstance(value, dict):
            return "no object"
        payload = value.get("payload")
        kind = text_of(value.get("type"))
        when = moment(value.get("timestamp"))
        if kind == "session_meta" and isinstance(payload, dict):
            self._begin(
                payload.get("meta") if isinstance(payload.get("meta"), dict) else payload, when
            )
            return None
        if kind == "response_item" and isinstance(payload, dict):
            return self._item(payload, place, when)
        if kind in _SURROUNDINGS:
            if isinstance(payload, dict) and isinstance(payload.get("model"), str):
                self._model = payload["model"]
            return None
        if not kind and "id" in value and "timestamp" in value:
            self._begin(value, when)
            return None
        if "payload" not in value and (kind in _ITEMS or kind.endswith("_call")):
            return self._item(value, place, when)
        return kind or text_of(value.get("record_type")) or "unknown"

    def _begin(self, meta: Any, when: datetime | None) -> None:
        self._identifier = self._identifier or text_of(meta.get("id"))
        self._created = self._created or moment(meta.get("timestamp")) or when
        instructions = text_of(meta.get("instructions"))
        if instructions and not self._turns:
            self._turns.append(("instructions", (supervisor(instructions),)))

    def _item(self, item: dict[str, Any], place: str, when: datetime | None) -> str | None:
        body = {"model": self._model or "unknown", "input": [item]}
        try:
            canisters = spoken_by("openai_responses", body, when or self._created)
        except InputError:
            return text_of(item.get("type")) or UNREADABLE
        self._turns.append((place, tuple(canisters)))
        return None

    def imported(self, name: str) -> Imported:
        """The conversation of all lines."""
        return Imported(
            self._identifier or name,
            linear(self._turns),
            created=self._created,
            model=self._model,
        )


FORMAT = Format(
    NAME,
    "Codex rollout",
    detect,
    read,
    "openai_responses",
    keys=("timestamp", "type", "payload"),
    folders=(".codex/sessions", ".codex/archived_sessions"),
)

"""Codex rollouts: lines of ``{type, timestamp, payload}``; the payload of a ``response_item`` is an item of Responses.

Older rollouts begin with a bare ``{id, timestamp, instructions}`` and contain the items directly. Events that repeat
items are skipped; ``token_count`` has the usage of an answer, ``thread_rolled_back`` removes turns. A fork of a session
copies its history, which the store recognises; a sub-agent names the thread that spawned it. Seen with Codex 0.169.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cannery.errors import InputError
from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import (
    moment,
    nodes_with_fields,
    spoken_by,
    text_of,
    usage_of,
    whole,
    with_facts,
)
from cannery.importers.sessions import read_session
from cannery.importers.sources import Source
from cannery.messages import AnyCanister, Role, Usage, supervisor

NAME = "codex"
# The fields of the header that are read; the others are stored as facts.
_READ = ("id", "session_id", "timestamp", "instructions")
_ITEMS = ("message", "reasoning", "function_call", "function_call_output")
# Events that repeat an item, or mark the beginning and end of a turn.
_REPEATS = frozenset(
    {
        "user_message",
        "agent_message",
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "agent_reasoning_section_break",
        "task_started",
        "task_complete",
        "token_count",
        "thread_rolled_back",
    }
)
_REPEATED_ITEMS = frozenset({"UserMessage", "AgentMessage", "Reasoning"})
_MADE = (Role.Assistant, Role.Invocation)


def detect(sample: Sample) -> Detection | None:
    """A rollout's first line, or its items."""
    for record in sample.objects:
        is_line = record.get("type") in ("session_meta", "response_item")
        if is_line and isinstance(record.get("payload"), dict):
            return Detection(0.95, f"its lines are those of a rollout ({record['type']})")
    first, *rest = sample.objects or [{}]
    is_rollout = any(record.get("type") in _ITEMS for record in rest)
    if {"id", "timestamp", "instructions"} <= first.keys() and (is_rollout or not rest):
        return Detection(0.8, "it begins like an older rollout")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per file."""
    yield from read_session(source, _Session())


class _Session:
    """The lines of one file."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        # The messages that were not rolled back, in order.
        self._line: list[str] = []
        self._identifier = ""
        self._meta: dict[str, Any] = {}
        self._started_by: str | None = None
        self._created: datetime | None = None
        self._model: str | None = None
        self._tokens: Any = None
        self._taken: dict[str, Usage] = {}

    @property
    def last(self) -> str | None:
        """The message that was read last."""
        return self._line[-1] if self._line else None

    def take(self, value: Any, place: str) -> str | None:
        """Read a line; return the kind of the record if it is unknown."""
        if not isinstance(value, dict):
            return "no object"
        payload = value.get("payload")
        kind = text_of(value.get("type"))
        when = moment(value.get("timestamp"))
        if isinstance(payload, dict):
            return self._take_payload(kind, payload, place, when)
        if not kind and "id" in value and "timestamp" in value:
            self._begin(value, when)
            return None
        if "payload" not in value and (kind in _ITEMS or kind.endswith("_call")):
            return self._item(value, place, when)
        return kind or text_of(value.get("record_type")) or "unknown"

    def _take_payload(
        self, kind: str, payload: dict[str, Any], place: str, when: datetime | None
    ) -> str | None:
        if kind == "response_item":
            return self._item(payload, place, when)
        if kind == "session_meta":
            meta = payload.get("meta")
            self._begin(meta if isinstance(meta, dict) else payload, when)
            return None
        if kind == "event_msg":
            return self._event(payload)
        self._model = text_of(payload.get("model")) or self._model
        # The next event repeats the counts of a usage record.
        return None if kind == "token_usage_record" else kind or "unknown"

    def _begin(self, meta: dict[str, Any], when: datetime | None) -> None:
        if self._identifier:
            return
        self._identifier = text_of(meta.get("id"))
        self._meta = meta
        self._created = moment(meta.get("timestamp")) or when
        self._started_by = _parent(meta)
        instructions = text_of(meta.get("instructions"))
        if instructions and not self._line:
            self._add("instructions", (supervisor(instructions),))

    def _event(self, payload: dict[str, Any]) -> str | None:
        kind = text_of(payload.get("type"))
        if kind == "token_count":
            self._count(payload.get("info"))
        elif kind == "thread_rolled_back":
            self._roll_back(whole(payload.get("num_turns")))
        item = payload.get("item")
        if kind == "item_completed" and isinstance(item, dict):
            told = text_of(item.get("type"))
            return None if told in _REPEATED_ITEMS else told or "item"
        return None if kind in _REPEATS else kind or "event_msg"

    def _count(self, info: Any) -> None:
        """Add the usage to the last answer; repeated counts are ignored."""
        info = info if isinstance(info, dict) else {}
        total, usage = info.get("total_token_usage"), _usage(info.get("last_token_usage"))
        if total == self._tokens or usage is None:
            return
        self._tokens = total
        for name in reversed(self._line):
            if any(canister.role in _MADE for canister in self._nodes[name].canisters):
                before = self._taken.get(name)
                self._taken[name] = usage if before is None else _sum(before, usage)
                return

    def _roll_back(self, turns: int) -> None:
        """Remove the last turns from the current path: they become a branch."""
        asked = [number for number, name in enumerate(self._line) if self._is_asked(name)]
        if turns and asked:
            del self._line[asked[-min(turns, len(asked))] :]

    def _is_asked(self, name: str) -> bool:
        return any(canister.role is Role.User for canister in self._nodes[name].canisters)

    def _item(self, item: dict[str, Any], place: str, when: datetime | None) -> str | None:
        body = {"model": self._model or "unknown", "input": [item]}
        try:
            canisters = spoken_by("openai_responses", body, when or self._created)
        except InputError:
            return text_of(item.get("type")) or "unknown"
        if any(canister.role in _MADE for canister in canisters):
            canisters = with_facts(canisters, NAME, model=self._model)
        self._add(place, tuple(canisters))
        return None

    def _add(self, name: str, canisters: tuple[AnyCanister, ...]) -> None:
        self._nodes[name] = Node(name, self.last, canisters)
        self._line.append(name)

    def imported(self, name: str) -> Imported:
        """The conversation of all lines."""
        for place, usage in self._taken.items():
            node = self._nodes[place]
            self._nodes[place] = Node(
                *node[:2], tuple(with_facts(node.canisters, NAME, usage=usage))
            )
        return Imported(
            self._identifier or name,
            nodes_with_fields(self._nodes.values(), NAME, self._meta, *_READ),
            created=self._created,
            current=self.last,
            model=self._model,
            tags=("subagent",) if self._started_by else (),
            started_by=self._started_by,
        )


def _parent(meta: dict[str, Any]) -> str | None:
    """The thread that spawned this one."""
    source = meta.get("source")
    agent = source.get("subagent") if isinstance(source, dict) else None
    spawned = agent.get("thread_spawn") if isinstance(agent, dict) else None
    parent = spawned.get("parent_thread_id") if isinstance(spawned, dict) else None
    return text_of(meta.get("parent_thread_id")) or text_of(parent) or None


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    read, written = whole(value.get("cached_input_tokens")), value.get("cache_write_input_tokens")
    return usage_of(
        fresh=whole(value.get("input_tokens")) - read - whole(written),
        output=value.get("output_tokens"),
        read=read,
        written=written,
        reasoning=value.get("reasoning_output_tokens"),
    )


def _sum(one: Usage, other: Usage) -> Usage:
    def added(name: str) -> Any:
        counts = [whole(getattr(one, name)), whole(getattr(other, name))]
        return sum(counts)

    return Usage(*(added(name) for name in one.__struct_fields__))


FORMAT = Format(
    NAME,
    "Codex rollout",
    detect,
    read,
    "openai_responses",
    keys=("timestamp", "type", "payload"),
    folders=(".codex/sessions", ".codex/archived_sessions"),
)

"""Claude Code transcripts: one event per line with ``uuid``, ``parentUuid`` and an API ``message``.

Lines of one API message share its id and are joined; each repeats the usage, and the last has the final counts. The
result of each parallel call has its own call as parent; they are put in one chain, not in branches. A compacted session
continues at ``logicalParentUuid``. A sub-agent's lines are marked ``isSidechain``; they are in a file of their own,
with a companion ``.meta.json``, or, in older sessions, in the same file. Lines of other types are stored as unknown
records; those with a uuid still link the chain. Seen with Claude Code 2.1.197.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cannery.errors import InputError
from cannery.importers.contract import (
    UNREADABLE,
    Detection,
    Format,
    Found,
    Imported,
    Node,
    Sample,
)
from cannery.importers.pieces import (
    moment,
    read_beside,
    spoken_by,
    text_of,
    unknown_record,
    usage_of,
    with_facts,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.importers.trees import roots_of, spoken
from cannery.messages import AnyCanister, Role, Usage, absent

NAME = "claude_code"
# The fields of a line and its message that are read; the others are stored as facts.
_READ = (
    "type",
    "uuid",
    "parentUuid",
    "logicalParentUuid",
    "sessionId",
    "timestamp",
    "isSidechain",
    "agentId",
    "message",
    "role",
    "content",
    "model",
    "usage",
    "id",
)
_SPOKEN = ("user", "assistant", "message")
_MADE = (Role.Assistant, Role.Invocation)
_TITLES = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}


def detect(sample: Sample) -> Detection | None:
    """Lines of a session with messages of the API."""
    for record in sample.objects:
        message = record.get("message")
        if not isinstance(message, dict) or not isinstance(record.get("sessionId"), str):
            continue
        if isinstance(message.get("role"), str) and isinstance(message.get("content"), (str, list)):
            return Detection(0.95, "its lines have a sessionId and a message with role and content")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per file, and one for each sub-agent in it."""
    session = _Session()
    for record, value in source.values():
        if not isinstance(value, dict):
            yield unknown_record("no object", record.place, value, session.last)
            continue
        above = session.last
        problem = session.take(value, record.place)
        if problem is not None:
            yield unknown_record(problem, record.place, value, above)
    yield from session.imported(source)


class _Session:
    """The lines of one file."""

    def __init__(self) -> None:
        self.last: str | None = None
        self._nodes: dict[str, Node] = {}
        self._messages: dict[str, str] = {}
        # The last line of each API message, and its usage.
        self._took: dict[str, tuple[str, Usage | None]] = {}
        self._models: dict[str, str] = {}
        self._titles: dict[str, str] = {}
        self._session = ""
        self._created: datetime | None = None
        self._current: str | None = None
        # The lines of sub-agents, with their names.
        self._agents: dict[str, str] = {}
        self._sides: set[str] = set()

    def take(self, value: dict[str, Any], place: str) -> str | None:
        """Read a line; return the kind of the record if it is unknown."""
        kind = text_of(value.get("type"))
        when = moment(value.get("timestamp"))
        self._session = self._session or text_of(value.get("sessionId"))
        self._created = self._created or when
        if kind in _TITLES:
            self._titles[kind] = text_of(value.get(_TITLES[kind])) or self._titles.get(kind, "")
            return None
        message = value.get("message")
        if kind not in _SPOKEN or not isinstance(message, dict):
            self._link(value, place, ())
            return kind or "unknown"
        try:
            canisters = self._canisters(message, when)
        except InputError:
            self._link(value, place, ())
            return UNREADABLE
        self._speak(value, place, message, canisters)
        return None

    def _canisters(self, message: dict[str, Any], when: datetime | None) -> list[AnyCanister]:
        turn = {"role": message.get("role"), "content": message.get("content")}
        model = text_of(message.get("model")) or next(reversed(self._models.values()), "unknown")
        body = {"model": model, "max_tokens": 1, "messages": [turn]}
        return spoken_by("anthropic_messages", body, when)

    def _speak(
        self,
        value: dict[str, Any],
        place: str,
        message: dict[str, Any],
        canisters: list[AnyCanister],
    ) -> None:
        own = text_of(message.get("id"))
        above = self._above(value)
        if own and above is not None and self._messages.get(above) == own and canisters:
            canisters = [each for each in canisters if each.held is not absent] or canisters
            canisters = [canisters[0].replace(joined=True), *canisters[1:]]
        model = text_of(message.get("model"))
        said = with_facts(canisters, NAME, model=model)
        kept = with_fields(said, NAME, {**value, **message}, *_READ)
        name = self._link(value, place, kept)
        if model and not model.startswith("<"):
            self._models[name] = model
        if own:
            self._messages[name] = own
        self._took[own or name] = name, _usage(message.get("usage"))
        if value.get("isSidechain") is True:
            self._agents[name] = text_of(value.get("agentId"))
        else:
            self._current = name

    def _above(self, value: dict[str, Any]) -> str | None:
        if "parentUuid" not in value:
            return self.last
        above = text_of(value["parentUuid"]) or text_of(value.get("logicalParentUuid"))
        return above or None

    def _link(self, value: dict[str, Any], place: str, canisters: tuple[AnyCanister, ...]) -> str:
        name = text_of(value.get("uuid"))
        if not name and not canisters:
            return ""
        name = name or place
        if value.get("isSidechain") is True:
            self._sides.add(name)
        self._nodes[name] = Node(name, self._above(value), canisters)
        self.last = name
        return name

    def imported(self, source: Source) -> Iterator[Imported]:
        """The session, and the sub-agents whose lines are in the same file."""
        for name, usage in self._took.values():
            node = self._nodes[name]
            canisters = with_facts(node.canisters, NAME, usage=usage)
            self._nodes[name] = Node(*node[:2], tuple(canisters))
        self._put_results_behind_calls()
        first = roots_of(self._nodes)
        roots: dict[str, list[Node]] = {
            first[name]: [] for name in self._agents if first[name] in self._sides
        }
        main: list[Node] = []
        for node in self._nodes.values():
            roots.get(first[node.identifier], main).append(node)
        session = self._session or source.name
        titles = [self._titles.get(kind, "") for kind in ("custom-title", "ai-title", "summary")]
        if any(node.canisters for node in main) or not roots:
            yield Imported(
                session,
                tuple(main),
                next(filter(None, titles), ""),
                self._created,
                self._current,
                self._model(main),
            )
        for root, nodes in roots.items():
            yield self._agent(source, session, root, nodes)

    def _put_results_behind_calls(self) -> None:
        """Put parallel calls and their results into one chain; in the file each result is a branch below its call."""
        nodes = spoken(self._nodes)
        lines: dict[str, list[str]] = {}
        results: dict[str, list[str]] = {}
        for name, node in nodes.items():
            above = self._messages.get(node.parent or "")
            if name in self._messages and all(each.role in _MADE for each in node.canisters):
                lines.setdefault(self._messages[name], []).append(name)
            elif above is not None and all(each.role is Role.Result for each in node.canisters):
                results.setdefault(above, []).append(name)
        last: dict[str, str] = {}
        for message, answers in results.items():
            row = [*lines.get(message, ()), *answers]
            last |= dict.fromkeys(row, row[-1])
            for above, name in zip(row[-len(answers) - 1 :], answers, strict=False):
                self._nodes[name] = self._nodes[name]._replace(parent=above)
        for name, node in nodes.items():
            if name not in last and node.parent in last:
                self._nodes[name] = self._nodes[name]._replace(parent=last[node.parent])

    def _agent(self, source: Source, session: str, root: str, nodes: list[Node]) -> Imported:
        name = next(filter(None, (self._agents.get(node.identifier) for node in nodes)), root)
        said = read_beside(source, ".meta.json")
        times = [canister.timestamp for node in nodes for canister in node.canisters]
        return Imported(
            f"{session}/{name}",
            tuple(nodes),
            text_of(said.get("description")),
            min(times, default=self._created),
            next((node.identifier for node in reversed(nodes) if node.canisters), None),
            self._model(nodes),
            tags=("subagent",),
            started_by=session,
        )

    def _model(self, nodes: list[Node]) -> str | None:
        """The last model named in some lines."""
        models = [
            self._models[node.identifier] for node in nodes if node.identifier in self._models
        ]
        return models[-1] if models else None


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    return usage_of(
        fresh=value.get("input_tokens"),
        output=value.get("output_tokens"),
        read=value.get("cache_read_input_tokens"),
        written=value.get("cache_creation_input_tokens"),
    )


FORMAT = Format(
    NAME,
    "Claude Code transcript",
    detect,
    read,
    "anthropic_messages",
    keys=("sessionId", "parentUuid", "uuid", "message", "isSidechain"),
    folders=(".claude/projects",),
)

"""Gemini CLI sessions: a header, one message per line, and lines that change earlier ones.

A message with a known id replaces the earlier one; ``$set`` changes facts about the session, and ``$rewindTo`` goes
back to before a message: the messages from there on become a branch. Older sessions are one document. As in
``chatRecordingTypes.ts`` of gemini-cli (2026-08-21).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cannery.errors import InputError
from cannery.importers.contract import UNREADABLE, Detection, Format, Found, Imported, Node, Sample
from cannery.importers.pieces import (
    moment,
    nodes_with_fields,
    objects,
    spoken_by,
    text_of,
    unknown_record,
    usage_of,
    whole,
    with_facts,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.messages import (
    AnyCanister,
    AssistantCanisterClass,
    ReasoningContentClass,
    Role,
    Usage,
    absent,
)

NAME = "gemini_cli"
# The fields of a session and of a message that are read; the others are stored as facts.
_TAKEN = ("sessionId", "projectHash", "startTime", "lastUpdated", "messages", "summary")
_READ = ("id", "type", "content", "timestamp", "thoughts", "tokens", "model")


def detect(sample: Sample) -> Detection | None:
    """The header of a session."""
    for record in sample.objects:
        if isinstance(record.get("sessionId"), str) and isinstance(record.get("projectHash"), str):
            return Detection(0.97, "it has the sessionId and projectHash of a session")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per file; a resumed session continues in it."""
    session = _Session()
    for record, value in source.values():
        for problem, kept in session.take(value):
            yield unknown_record(problem, record.place, kept, session.last)
    yield session.imported(source.name)


class _Session:
    """The lines of one file."""

    def __init__(self) -> None:
        self._facts: dict[str, Any] = {}
        self._nodes: dict[str, Node] = {}
        # The messages that were not rewound, in order.
        self._line: list[str] = []
        self._model: str | None = None
        self._said: dict[str, dict[str, Any]] = {}

    @property
    def last(self) -> str | None:
        """The message that was read last."""
        return self._line[-1] if self._line else None

    def take(self, value: Any) -> Iterator[tuple[str, Any]]:
        """Read a line; yield parts that are not understood, with their kinds."""
        if not isinstance(value, dict):
            yield "no object", value
        elif isinstance(value.get("$rewindTo"), str):
            self._rewind(value["$rewindTo"])
        elif isinstance(value.get("$set"), dict):
            yield from self._learn(value["$set"])
        elif isinstance(value.get("sessionId"), str):
            yield from self._learn(value)
        elif isinstance(value.get("id"), str):
            yield from self._speak(value)
        else:
            yield "unknown", value

    def _learn(self, facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        self._facts |= {key: fact for key, fact in facts.items() if key != "messages"}
        for message in objects(facts.get("messages")):
            yield from self._speak(message)

    def _rewind(self, name: str) -> None:
        self._line = self._line[: self._line.index(name)] if name in self._line else []

    def _speak(self, message: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        kind, name = text_of(message.get("type")), text_of(message.get("id"))
        if name in self._line:
            # A resumed session repeats its messages without their usage.
            message = {**self._said.get(name, {}), **message}
        self._said[name] = message
        if kind not in ("user", "gemini"):
            yield kind or "unknown", message
            return
        try:
            canisters = self._canisters(message, kind)
        except InputError:
            yield UNREADABLE, message
            return
        if name not in self._line:
            above = self._line[-1] if self._line else None
            # A message repeated after a rewind is a new one.
            while name in self._nodes:
                name += "'"
            self._line.append(name)
        else:
            above = self._nodes[name].parent
        said = with_fields(canisters, NAME, message, *_READ)
        self._nodes[name] = Node(name, above, said)

    def _canisters(self, message: dict[str, Any], kind: str) -> list[AnyCanister]:
        when = moment(message.get("timestamp"))
        if isinstance(message.get("model"), str):
            self._model = message["model"]
        thoughts = list(_thoughts(message, when))
        said = [part for part in _parts(message.get("content")) if part != {"text": ""}]
        calls = objects(message.get("toolCalls"))
        said += [{"functionCall": _called(call)} for call in calls]
        role = "user" if kind == "user" else "model"
        contents = [{"role": role, "parts": said}] if said else []
        answers = [part for call in calls for part in _answer(call)]
        if answers:
            contents.append({"role": "user", "parts": answers})
        canisters = spoken_by("gemini_generate", {"contents": contents}, when) if contents else []
        if thoughts and canisters and said:
            canisters[0] = canisters[0].replace(joined=True)
        found = [*thoughts, *canisters]
        if kind == "user":
            return found
        # Results of tools are not the model's.
        made = [each for each in found if each.role is not Role.Result]
        rest = [each for each in found if each.role is Role.Result]
        told = with_facts(
            made, NAME, model=message.get("model"), usage=_usage(message.get("tokens"))
        )
        return [*told, *rest]

    def imported(self, name: str) -> Imported:
        """The conversation of all lines."""
        return Imported(
            text_of(self._facts.get("sessionId")) or name,
            nodes_with_fields(self._nodes.values(), NAME, self._facts, *_TAKEN),
            text_of(self._facts.get("summary")),
            moment(self._facts.get("startTime")),
            self.last,
            self._model,
        )


def _parts(content: Any) -> list[Any]:
    """A ``PartListUnion`` as a list of parts."""
    items = content if isinstance(content, list) else [] if content is None else [content]
    return [{"text": item} if isinstance(item, str) else item for item in items]


def _thoughts(message: dict[str, Any], when: datetime | None) -> Iterator[AnyCanister]:
    texts = [
        "\n".join(filter(None, (text_of(each.get("subject")), text_of(each.get("description")))))
        for each in objects(message.get("thoughts"))
    ]
    if any(texts):
        thought = ReasoningContentClass((), tuple(filter(None, texts)))
        yield AssistantCanisterClass(thought, when or absent)


def _usage(value: Any) -> Usage | None:
    """The usage of an answer; the source's input includes cached tokens, its output excludes reasoning."""
    if not isinstance(value, dict):
        return None
    read, thought = whole(value.get("cached")), whole(value.get("thoughts"))
    return usage_of(
        fresh=whole(value.get("input")) - read,
        output=whole(value.get("output")) + thought,
        read=read,
        reasoning=thought,
    )


def _called(call: dict[str, Any]) -> dict[str, Any]:
    arguments = call.get("args")
    return {
        "id": text_of(call.get("id")),
        "name": text_of(call.get("name")),
        "args": arguments if isinstance(arguments, dict) else {},
    }


def _answer(call: dict[str, Any]) -> Iterator[Any]:
    """The parts that answer a call; bare text is wrapped in a function response."""
    for part in _parts(call.get("result")):
        if isinstance(part, dict) and "text" in part:
            answered = {"output": part["text"]}
            named = {"id": text_of(call.get("id")), "name": text_of(call.get("name"))}
            yield {"functionResponse": {**named, "response": answered}}
        else:
            yield part


FORMAT = Format(
    NAME,
    "Gemini CLI session",
    detect,
    read,
    "gemini_generate",
    keys=("sessionId", "projectHash", "startTime", "toolCalls"),
    folders=(".gemini/tmp",),
)

"""Stream events: the pieces of a streamed answer.

An answer is ``Start``, then parts (each one ``PartStart``, any number of ``Delta``, one ``PartEnd``, which may
interleave), ``UsageReport`` and ``Finish``. ``fold`` builds the Response that the whole body would have given;
``unfold`` is the inverse.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Iterator
from datetime import datetime
from typing import Any, TypeAlias, Union, assert_never, get_args

from msgspec import Struct

from cannery.errors import MessageError, UpstreamError
from cannery.messages.absence import Absential, absent
from cannery.messages.canisters import (
    AnyCanister,
    AssistantCanisterClass,
    InvocationCanisterClass,
    new_assistant,
    new_invocation,
)
from cannery.messages.checked import now
from cannery.messages.content import (
    PLAIN,
    Citation,
    Origin,
    ReasoningContentClass,
    RefusalContentClass,
    TextualContentClass,
    new_reasoning,
    new_refusal,
    new_text,
)
from cannery.messages.conversation import Conversation
from cannery.messages.requests import FinishReason, Response, Usage, new_response
from cannery.messages.residue import Residue


class Start(Struct, frozen=True, gc=False, tag=True):
    """The answer begins; ``source`` names the dialect that it is read from.

    The residue of the event holds what only that dialect has about the answer, its usage or its end.
    """

    identifier: Absential[str] = absent
    model: Absential[str] = absent
    created: Absential[int] = absent
    source: str | None = None
    residue: Residue | None = None


class PartStart(Struct, frozen=True, gc=False, tag=True):
    """A part begins: ``text``, ``reasoning``, ``refusal`` or ``invocation``.

    A ``whole`` part brings its content at once; a part that is not the model's (such as the result of a tool that ran
    at the provider) brings its ``canister``. A part with ``joined=False`` opens a wire message of its own. The first
    part always does, except a joined call, which belongs to a turn without text.
    """

    index: int
    kind: str
    identifier: str = ""
    name: str = ""
    is_freeform: bool = False
    content: Any = None
    origin: Origin | None = None
    residue: Residue | None = None
    joined: bool = True


class Delta(Struct, frozen=True, gc=False, tag=True):
    """More of a part.

    ``channel`` is the field that grows: ``text``, ``summary``, ``arguments``, ``signature``, ``encrypted`` or a
    ``citation``. Reasoning may have several texts or summaries; ``segment`` is the number of one.
    """

    index: int
    text: str
    channel: str = "text"
    segment: int = 0
    citation: Citation | None = None
    residue: Residue | None = None


class PartEnd(Struct, frozen=True, gc=False, tag=True):
    """A part is complete."""

    index: int
    residue: Residue | None = None


class UsageReport(Struct, frozen=True, gc=False, tag=True):
    """The usage so far."""

    usage: Usage
    residue: Residue | None = None


class Finish(Struct, frozen=True, gc=False, tag=True):
    """The answer is complete; ``around`` is the residue that the whole Response would have."""

    reason: FinishReason
    stop_sequence: Absential[str] = absent
    residue: Residue | None = None
    around: Residue | None = None


class Failure(Struct, frozen=True, gc=False, tag=True):
    """The provider failed in mid-stream; ``raw`` is its error in its own ``dialect``."""

    message: str
    kind: str = "api_error"
    status: int | None = None
    raw: str | None = None
    dialect: str | None = None


class Unknown(Struct, frozen=True, gc=False, tag=True):
    """An event that only its own dialect understands (JSON text); ``item`` is the id of its item."""

    dialect: str
    name: str
    json: str
    item: str | None = None


Event: TypeAlias = Union[  # noqa: UP007 - a closed set
    Start, PartStart, Delta, PartEnd, UsageReport, Finish, Failure, Unknown
]
_EVENTS = frozenset(get_args(Event))


class Part:
    """An open part, and the canister that it becomes."""

    def __init__(self, start: PartStart) -> None:
        self.start = start
        # Channel -> segment -> its deltas.
        self.pieces: dict[str, dict[int, list[str]]] = {}
        # The first segment of the text; most parts have no other.
        self.texts: list[str] = []
        self.citations: list[Citation] = []
        self.residue = start.residue
        self.has_ended = False

    def add(self, delta: Delta) -> None:
        """Add a delta."""
        if delta.channel == "citation":
            if delta.citation is not None:
                self.citations.append(delta.citation)
        elif delta.channel == "text" and not delta.segment:
            self.texts.append(delta.text)
        else:
            segments = self.pieces.setdefault(delta.channel, {})
            segments.setdefault(delta.segment, []).append(delta.text)

    def segments(self, channel: str) -> tuple[str, ...]:
        """The content of each segment of a channel."""
        pieces = self.pieces.get(channel, {})
        if channel == "text" and self.texts:
            pieces = {0: self.texts, **pieces}
        return tuple("".join(pieces[number]) for number in sorted(pieces))

    def joined(self, channel: str) -> str:
        """The content of a channel."""
        return "".join(self.segments(channel))

    def canister(self, when: datetime, *, joined: bool) -> AnyCanister:
        """The canister of the content so far."""
        start = self.start
        if start.kind == "invocation":
            call = (start.identifier, start.name, start.is_freeform)
            return new_invocation(  # type: ignore[no-any-return]
                self.joined("arguments"), when, joined, self.residue, None, *call
            )
        if start.kind == "canister":
            canister: AnyCanister = start.content.replace(joined=joined)
            return canister
        return new_assistant(self._held(), when, joined, self.residue)  # type: ignore[no-any-return]

    def _held(self) -> Any:
        match self.start.kind:
            case "whole":
                return self.start.content
            case "refusal":
                return new_refusal(self.joined("text"))
            case "reasoning":
                return self._reasoning()
            case _:
                text = self.joined("text")
                return new_text(text, PLAIN, tuple(self.citations)) if self.citations else text

    def _reasoning(self) -> Any:
        texts = self.segments("text")
        return new_reasoning(
            () if texts == ("",) else texts,
            self.segments("summary"),
            self.joined("signature") or None,
            self.joined("encrypted") or None,
            self.start.origin,
        )


class Folder:
    """Takes events one by one and holds the Response so far.

    Each part must have one start and at most one end, and no delta outside them: anything else is an UpstreamError,
    because guessing could mix up the model's output.
    """

    def __init__(self) -> None:
        self._start = Start()
        self._parts: dict[int, Part] = {}
        self._usage: Absential[Usage] = absent
        self._finish: Absential[FinishReason] = absent
        self._stop_sequence: Absential[str] = absent
        self._around: Residue | None = None
        self.failure: Failure | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the answer is complete."""
        return self._finish is not absent and self.failure is None

    def feed(self, event: Event) -> None:
        """Add the next event."""
        match event:
            case Delta():
                part = self._parts.get(event.index)
                if part is None or part.has_ended:
                    part = self._open_part(event)
                part.add(event)
            case PartStart():
                if event.index in self._parts:
                    raise UpstreamError(f"part {event.index} of the answer starts twice")
                self._parts[event.index] = Part(event)
            case PartEnd():
                part = self._open_part(event)
                part.has_ended = True
                if event.residue is not None:
                    part.residue = event.residue
            case Start():
                self._start = event
            case UsageReport():
                self._usage = event.usage
            case Finish():
                self._finish = event.reason
                self._stop_sequence = event.stop_sequence
                self._around = event.around
            case Failure():
                self.failure = event
            case Unknown():
                pass
            case _:
                assert_never(event)

    def _open_part(self, event: Delta | PartEnd) -> Part:
        part = self._parts.get(event.index)
        if part is None or part.has_ended:
            why = "has not started" if part is None else "has ended"
            what = "a delta" if isinstance(event, Delta) else "the end"
            raise UpstreamError(f"{what} of part {event.index} of the answer, which {why}")
        return part

    def response(self) -> Response:
        """The Response of all events so far."""
        when = now()
        parts = [self._parts[index] for index in sorted(self._parts)]
        canisters: list[AnyCanister] = []
        if parts and parts[0].start.kind == "invocation" and parts[0].start.joined:
            canisters.append(new_assistant(absent, when))
        for part in parts:
            joined = bool(canisters) and (part is parts[0] or part.start.joined)
            canisters.append(part.canister(when, joined=joined))
        return new_response(  # type: ignore[no-any-return]
            Conversation.trusted(canisters),
            self._finish,
            self._usage,
            self._start.model,
            self._start.identifier,
            self._stop_sequence,
            self._around,
            source=self._start.source,
            created=self._start.created,
        )


def check_events(events: object) -> None:
    """Refuse a value that is not iterable."""
    if not isinstance(events, (Iterable, AsyncIterable)):
        raise MessageError("events", f"expected events one after another, got {_name_of(events)}")


def check_event(event: Any) -> Event:
    """Refuse a value that is not an event."""
    if type(event) not in _EVENTS:
        raise MessageError("events", f"expected an event, got {_name_of(event)}")
    return event  # type: ignore[no-any-return]


def _name_of(value: object) -> str:
    return type(value).__name__


def fold(events: Iterable[Event]) -> Response:
    """The Response that the events form; UpstreamError if the provider failed."""
    if not isinstance(events, Iterable):
        raise MessageError("events", f"expected events one after another, got {_name_of(events)}")
    folder = Folder()
    for event in events:
        folder.feed(check_event(event))
    if folder.failure is not None:
        raise UpstreamError(folder.failure.message)
    return folder.response()


def unfold(response: Response) -> Iterator[Event]:
    """The shortest sequence of events that folds into this Response.

    A turn without text has no part of its own: folding creates one if a call comes first and is joined.
    """
    yield Start(response.identifier, response.model, response.created, response.source)
    index = 0
    for canister in response.canisters:
        if isinstance(canister, AssistantCanisterClass) and canister.held is absent:
            continue
        yield from unfold_part(index, canister, joined=canister.joined)
        index += 1
    if isinstance(response.usage, Usage):
        yield UsageReport(response.usage)
    if isinstance(response.finish, FinishReason):
        yield Finish(response.finish, response.stop_sequence, None, response.residue)


def unfold_part(index: int, canister: AnyCanister, *, joined: bool) -> Iterator[Event]:
    """The events of one part."""
    residue = canister.residue
    if isinstance(canister, InvocationCanisterClass):
        yield PartStart(
            index,
            "invocation",
            canister.identifier,
            canister.name,
            canister.is_freeform,
            residue=residue,
            joined=joined,
        )
        yield Delta(index, canister.arguments_text, "arguments")
    elif not isinstance(canister, AssistantCanisterClass):
        yield PartStart(index, "canister", content=canister, joined=joined)
    else:
        held = canister.held
        if type(held) is str:
            yield PartStart(index, "text", residue=residue, joined=joined)
            yield Delta(index, held)
        elif type(held) is TextualContentClass and held.mime_type == PLAIN:
            yield PartStart(index, "text", residue=residue, joined=joined)
            yield Delta(index, held.text)
            for citation in held.citations:
                yield Delta(index, "", "citation", citation=citation)
        elif type(held) is RefusalContentClass:
            yield PartStart(index, "refusal", residue=residue, joined=joined)
            yield Delta(index, held.text)
        elif type(held) is ReasoningContentClass and _says_in_pieces(held):
            yield PartStart(index, "reasoning", origin=held.origin, residue=residue, joined=joined)
            yield from _unfold_reasoning(index, held)
        else:
            yield PartStart(index, "whole", content=held, residue=residue, joined=joined)
    yield PartEnd(index)


def _says_in_pieces(content: ReasoningContentClass) -> bool:
    """Whether deltas can express the content: an empty text, signature or payload looks like a missing one."""
    return content.texts != ("",) and "" not in {content.signature, content.encrypted}


def _unfold_reasoning(index: int, content: ReasoningContentClass) -> Iterator[Event]:
    for segment, text in enumerate(content.texts):
        yield Delta(index, text, "text", segment)
    for segment, summary in enumerate(content.summaries):
        yield Delta(index, summary, "summary", segment)
    if content.signature is not None:
        yield Delta(index, content.signature, "signature")
    if content.encrypted is not None:
        yield Delta(index, content.encrypted, "encrypted")

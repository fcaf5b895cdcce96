"""Reading streams: bytes become frames, frames become events. Shared by the readers of all dialects.

A dialect maps each frame to method calls, in a table of its events or in ``event``: parts start, continue and end,
and the response ends or fails. Parts are numbered in the order of their starts. Open parts are kept by the wire's key
for them: an index, an id or, on a wire without keys, only their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Generic, TypeVar

from cannery.errors import DialectError, MessageError
from cannery.messages.content import Origin
from cannery.messages.events import (
    Delta,
    Event,
    Failure,
    PartEnd,
    PartStart,
    Start,
    Unknown,
    UsageReport,
)
from cannery.messages.json_text import write_json
from cannery.messages.requests import Usage
from cannery.messages.residue import Residue
from cannery.wire.arguments import RAW_ARGUMENTS, input_text, object_input, unwrapped_input
from cannery.wire.bodies import Object, kind_of
from cannery.wire.framing import AWS_EVENT_STREAM, SSE, Framing
from cannery.wire.residues import nested, set_again
from cannery.wire.sse import DONE, Frame
from cannery.wire.streams import read_chunk, too_deep

# The key of a part on a wire without keys: text continues until another part begins.
SPOKEN = "spoken"
# The beginning of arguments that were wrapped in an object, apart from white space.
_WRAPPED = f'{{"{RAW_ARGUMENTS}"'


def left_of(value: Object, known: Collection[str]) -> Object:
    """The fields of an object except those that are read."""
    return {key: item for key, item in value.items() if key not in known}


def object_of(value: Any) -> Object:
    """The value if it is an object, else an empty one."""
    return value if type(value) is dict else {}


class OpenPart:
    """An open part: its number, its kind, and the text that a dialect keeps of it."""

    def __init__(self, index: int, kind: str) -> None:
        self.index = index
        self.kind = kind
        self.words: list[str] = []


class OpenArguments:
    """Arguments as they arrive: emitted at once, unless they begin like text that was wrapped in an object."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._head = ""
        self._is_told = False

    def add(self, words: str) -> str:
        """The text to emit after more has arrived."""
        if self._is_told:
            return words
        self._held.append(words)
        self._head += "".join(words.split())[: len(_WRAPPED) - len(self._head)]
        if _WRAPPED.startswith(self._head):
            return ""
        self._is_told = True
        return "".join(self._held)

    def rest(self, given: Any = None) -> str:
        """The text to emit at the end; without any text, the arguments that the call began with."""
        if self._is_told:
            return ""
        spelled = "".join(self._held)
        if not spelled.strip():
            return input_text(given if type(given) is dict else {})
        if object_input(spelled) is None:
            return spelled
        return unwrapped_input(spelled)


P = TypeVar("P", bound=OpenPart)


class EventReader(Generic[P]):
    """Consumes the bytes of a stream and gives events."""

    dialect: str
    part: type[P]
    framing: Framing = SSE
    # The method for each event of the dialect, by name. One event only starts the response; some mean nothing.
    starts: str = ""
    readers: ClassVar[Mapping[str, Callable[[Any, Object, Frame], None]]] = {}
    silent: ClassVar[Collection[str]] = ()

    def __init__(self) -> None:
        self._frames = self.framing.reader()
        self._out: list[Event] = []
        self._open: dict[Any, P] = {}
        self._count = 0
        self._model: str | None = None
        self._has_calls = False
        self._is_started = False
        self._is_over = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events completed by these bytes."""
        return self._events(self._frames.feed(chunk))

    def close(self) -> Iterator[Event]:
        """The events completed by the end of the stream."""
        return self._events(chain(self._frames.close(), (None,)))

    def _events(self, frames: Iterable[Frame | None]) -> Iterator[Event]:
        """The events of frames; None is the end of the stream."""
        try:
            for frame in frames:
                if self._is_over:
                    return
                out: list[Event] = []
                self._out = out
                if frame is None:
                    self._is_over = True
                    self.end()
                else:
                    self._frame(frame)
                yield from out
        except RecursionError:
            raise too_deep(self.dialect) from None
        except MessageError as error:
            raise DialectError(self.dialect, "$", str(error)) from None
        except DialectError as error:
            if error.dialect == self.dialect:
                raise
            # Damaged framing is reported for the dialect.
            raise DialectError(self.dialect, error.path, error.problem) from None

    def _frame(self, frame: Frame) -> None:
        data = frame.data
        if data[:1] != "{":
            data = data.strip()
            if data == DONE:
                self.done()
                return
            if not data and self.framing is not AWS_EVENT_STREAM:
                return
        self.event(self.read(data or "{}"), frame)

    # --- what a dialect says of its stream -----------------------------------------------------

    def read(self, data: str) -> Object:
        """The JSON object of a frame."""
        return read_chunk(self.dialect, data)

    def event(self, value: Object, frame: Frame) -> None:
        """Read one frame: by default an event with a name."""
        kind = self.name_of(value, frame)
        read = self.readers.get(kind)
        if read is None and self._is_aside(kind, value, frame.data):
            return
        if not self._is_started:
            self._is_started = True
            self.start(kind, value)
        if kind == self.starts:
            # A response starts once: clients refuse a stream that starts again.
            return
        if read is None:
            self._out.append(Unknown(self.dialect, kind, frame.data))
        else:
            read(self, value, frame)

    def _is_aside(self, kind: str, value: Object, data: str) -> bool:
        """Whether an event carries nothing of the response except a failure, or nothing at all."""
        if kind in self.silent:
            return True
        failure = self.failure(kind, value, data)
        if failure is not None:
            self._fail(failure)
        return failure is not None

    def _fail(self, failure: Failure) -> None:
        """Record that the provider failed."""
        self._is_over = True
        self._out.append(failure)

    def name_of(self, value: Object, frame: Frame) -> str:
        """The name of an event."""
        return str(value.get("type", frame.name))

    def start(self, kind: str, value: Object) -> None:  # noqa: ARG002 - for those that override it
        """The response starts with this event."""
        self._out.append(Start(source=self.dialect))

    def failure(self, kind: str, value: Object, data: str) -> Failure | None:  # noqa: ARG002 - for those that override it
        """The failure that an event reports, if any."""
        return None

    def done(self) -> None:
        """Read the frame that only ends the stream."""

    def end(self) -> None:
        """The end of the bytes; a response that has not ended is incomplete."""
        self._out.append(Failure("the stream ended before the answer was complete", "incomplete"))

    # --- parts ---------------------------------------------------------------------------------

    def _number(self) -> int:
        """The number of the next part."""
        self._count += 1
        return self._count - 1

    def _take_part(self, key: Any, kind: str) -> P:
        """Number a part that the wire knows by a key, without starting it."""
        part = self._open[key] = self.part(self._number(), kind)
        return part

    def _start_part(self, key: Any, kind: str, **facts: Any) -> P:
        """Start a part that the wire knows by a key."""
        part = self._take_part(key, kind)
        if kind == "reasoning":
            facts["origin"] = Origin(self.dialect, self._model)
        self._has_calls = self._has_calls or kind == "invocation"
        self._out.append(PartStart(part.index, kind, **facts))
        return part

    def _add(self, part: P, words: str, channel: str = "text") -> None:
        """Continue a part."""
        if words:
            self._out.append(Delta(part.index, words, channel))

    def _say(self, kind: str, words: str, form: str | None = None) -> P:
        """Continue the open part, or start a new one if the kind differs."""
        part = self._open.get(SPOKEN)
        if part is None or part.kind != kind:
            self._end_spoken()
            part = self._start_part(SPOKEN, kind, residue=self._kept(form=form))
        self._out.append(Delta(part.index, words))
        return part

    def _spoken(self, kind: str) -> P | None:
        """The open part, if it is of this kind."""
        part = self._open.get(SPOKEN)
        return part if part is not None and part.kind == kind else None

    def _end_spoken(self) -> None:
        """End the open part, because another begins."""
        self._end_part(SPOKEN)

    def _whole(self, content: Any, residue: Residue | None = None, **facts: Any) -> None:
        """Emit a part that arrives at once."""
        index = self._number()
        self._out.append(PartStart(index, "whole", content=content, residue=residue, **facts))
        self._out.append(PartEnd(index))

    def _end_part(self, key: Any, residue: Residue | None = None) -> None:
        """End a part if it is open."""
        part = self._open.pop(key, None)
        if part is not None:
            self._out.append(PartEnd(part.index, residue))

    def _end_parts(self) -> None:
        for key in [*self._open]:
            self._end_part(key)

    # --- what is kept, and what is refused -----------------------------------------------------

    def _kept(
        self,
        part: Object | None = None,
        envelope: Object | None = None,
        form: str | None = None,
        model: str | None = None,
    ) -> Residue | None:
        """The residue of what only this dialect expresses; None if there is none."""
        if not part and not envelope and form is None:
            return None
        inner = write_json(part) if part else None
        return Residue(self.dialect, inner, write_json(envelope) if envelope else None, form, model)

    def _left_of_call(self, call: Object, known: Sequence[str]) -> Residue | None:
        """The fields of a ``function`` call beyond its name, its arguments and the known fields beside them."""
        within = left_of(object_of(call.get("function")), ("name", "arguments"))
        missing = [key for key in known if key not in call]
        left = left_of(call, (*known, "function"))
        return self._kept(nested(left, {"function": set_again(within)}, missing))

    def _report_usage(self, usage: Usage, counts: Object, usual: Object) -> None:
        """Report usage, with the server's own object if it has an unusual form."""
        own = None if counts in ({}, usual) else self._kept({"v": counts})
        self._out.append(UsageReport(usage, own))

    def _refuse(self, path: str, wanted: str, found: Any) -> DialectError:
        return DialectError(self.dialect, path, f"expected {wanted}, got {kind_of(found)}")

    def _object(self, value: Object, key: str) -> Object:
        """A required object of an event."""
        found = value.get(key)
        if type(found) is not dict:
            if key not in value:
                raise DialectError(self.dialect, key, "is required")
            raise self._refuse(key, "an object", found)
        return found

    def _index(self, value: Object, key: str) -> int:
        """The position of an event's block."""
        index = value.get(key)
        if type(index) is not int:
            if key not in value:
                raise DialectError(self.dialect, key, "is required")
            raise self._refuse(key, "a number", index)
        return index

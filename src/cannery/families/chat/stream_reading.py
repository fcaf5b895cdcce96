"""Streams of the Chat Completions shape, read.

Chunks name tool calls by index and nothing else by anything: text ends where something else begins, calls end with the
answer. The finish is held back until the stream ends, because usage comes after it. Annotations come behind the text
that they are about, in a chunk of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from msgspec.structs import replace

from cannery.families.chat.answers import read_citation
from cannery.families.chat.details import DETAILS, goes_on, pieces_of, read_details
from cannery.families.chat.shape import Shape
from cannery.families.chat.stream_around import CHOICE, DELTA, HEAD, REASONING, Around
from cannery.families.chat.stream_calls import LEGACY, StreamedCall, StreamedCalls
from cannery.messages.absence import absent
from cannery.messages.content import (
    Citation,
    Origin,
    ReasoningContentClass,
    new_audio,
)
from cannery.messages.events import (
    Delta,
    Event,
    Failure,
    Finish,
    PartEnd,
    PartStart,
    Start,
    Unknown,
    UsageReport,
)
from cannery.messages.json_text import write_json
from cannery.messages.payload import Location
from cannery.messages.requests import Usage
from cannery.messages.residue import Residue
from cannery.wire.answers import call_stem
from cannery.wire.arguments import argument_text
from cannery.wire.bodies import guarded, is_named
from cannery.wire.controls import integer, text
from cannery.wire.residues import set_again
from cannery.wire.sse import DONE, FrameReader
from cannery.wire.streams import (
    beside,
    read_chunk,
)

_NOTHING: tuple[Any, ...] = (None, {}, [])
_NAMED = frozenset({"id", "model", "created"})


class ChatStreamReader:
    """Takes the bytes of a stream and gives events."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.dialect = shape.name
        self._frames = FrameReader()
        # What the answer is called, until its start is told.
        self._head: dict[str, Any] | None = {}
        self._is_over = False
        self._model: str | None = None
        self._count = 0
        self._spoken: tuple[str, int] | None = None
        # Characters of the texts that ended, and of the one under way: annotations count them all.
        self._before = 0
        self._length = 0
        # What was cited before any text.
        self._early: list[Any] = []
        self._audio: str | None = None
        self._calls = StreamedCalls()
        self._call_count = 0
        self._call_stem = "call_"
        self._finish: Finish | None = None
        self._word = ""
        self._around = Around(shape)
        # What was said of the whole answer so far.
        self._told: dict[str, Any] = {}
        self._told_of_choice: dict[str, Any] = {}
        # An empty text, which is the answer if nothing else comes.
        self._is_blank = False
        self._failed = False
        # How thoughts are told: as text, or only in details, of which one is under way.
        self._thinks = ""
        self._detailed: dict[str, Any] | None = None

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        for frame in self._frames.feed(chunk):
            yield from self._frame(frame.data)

    def close(self) -> Iterator[Event]:
        """The events that the end of the stream completes."""
        for frame in self._frames.close():
            yield from self._frame(frame.data)
        if self._is_over or self._failed:
            return
        if self._finish is None:
            yield Failure("the stream ended before the answer was complete", "incomplete")
        else:
            yield from self._end()

    def _frame(self, data: str) -> Iterator[Event]:
        if self._is_over or self._failed:
            return
        data = data.strip()
        if data in ("", DONE):
            if data:
                yield from self._end()
            return
        chunk = read_chunk(self.dialect, data)
        error = _error_of(chunk)
        if error is not None:
            self._failed = True
            yield self.shape.read_failure(self.dialect, error, data)
            return
        found = chunk.get("choices")
        choices = found if isinstance(found, list) else []
        usage = self._around.take_chunk(chunk)
        if self._head is not None:
            yield from self._take_head(self._head, chunk, has_usage=usage is not absent)
        others = []
        for choice in choices:
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                details = self._take_details(choice.get("delta"))
                self._around.take_choice(choice)
                for item, held, left in details:
                    yield from self._detail(item, held, left)
                yield from self._choice(choice)
                others += _unsaid(choice, self._told_of_choice, self.is_said)
            else:
                others.append(choice)
        more = {} if self._head is not None else self._untold(chunk)
        if others or more:
            value = guarded(self.dialect, lambda: write_json({**more, "choices": others}))
            yield Unknown(self.dialect, "chunk", value)
        if isinstance(usage, Usage):
            yield UsageReport(usage, self._count_residue())

    def _count_residue(self) -> Residue | None:
        """What the last count of tokens says beyond the usage that was read from it."""
        patch = self._around.usage_patch
        return (
            None
            if patch is None
            else Residue(self.dialect, guarded(self.dialect, lambda: write_json(patch)))
        )

    def _take_head(
        self, head: dict[str, Any], chunk: dict[str, Any], *, has_usage: bool
    ) -> Iterator[Event]:
        """Take what a chunk says of the whole answer, which starts when it has a name or says something."""
        for key, item in chunk.items():
            is_said = key in _NAMED or (key not in HEAD and item not in _NOTHING)
            if is_said and not head.get(key):
                head[key] = item
        choices = chunk.get("choices")
        # Azure filters the prompt in a first chunk that has no id, no model and no time.
        says = isinstance(choices, list) and any(map(_says, choices))
        if head.get("id") or has_usage or says:
            yield from self._start()

    def _untold(self, chunk: dict[str, Any]) -> dict[str, Any]:
        """What a chunk says of the whole answer that no chunk before it said."""
        more = {
            key: item
            for key, item in chunk.items()
            if key not in HEAD and item not in _NOTHING and self._told.get(key) != item
        }
        self._told.update(more)
        return more

    def _start(self) -> Iterator[Event]:
        if self._head is None:
            return
        head, self._head = self._head, None
        self._told = head
        model = head.get("model")
        self._model = model if isinstance(model, str) else None
        self._call_stem = call_stem(head.get("id"))
        known = text(head.get("id")), text(model), integer(head.get("created"))
        yield Start(*known, self.dialect, beside(self.dialect, head, HEAD))

    def _choice(self, choice: dict[str, Any]) -> Iterator[Event]:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            for key in REASONING:
                if isinstance(delta.get(key), str) and delta[key]:
                    self._thinks = "text"
                    yield from self._say("reasoning", delta[key], key)
                    break
            yield from self._content(delta.get("content"))
            if isinstance(delta.get("refusal"), str) and delta["refusal"]:
                yield from self._say("refusal", delta["refusal"], "refusal")
            self._is_blank = self._is_blank or delta.get("content") == ""
            annotations, audio = delta.get("annotations"), delta.get("audio")
            if isinstance(annotations, list) and annotations:
                yield from self._cite(annotations)
            if isinstance(audio, dict) and is_named(audio.get("id")):
                self._audio = self._audio or audio["id"]
            calls = delta.get("tool_calls")
            for position, call in enumerate(calls if isinstance(calls, list) else ()):
                if isinstance(call, dict):
                    yield from self._call(call, position)
            legacy = delta.get("function_call")
            if isinstance(legacy, dict):
                call = {"id": f"{LEGACY}_0", "type": LEGACY, "function": legacy}
                yield from self._call(call, -1)
        word = choice.get("finish_reason")
        reason = self.shape.finish(word)
        if reason is not absent and self._finish is None:
            own = (
                None
                if self.shape.finish_words[reason] == word
                else Residue(self.dialect, form=word)
            )
            self._finish = Finish(reason, residue=own)
            self._word = str(word)
            yield from self._end_parts()

    def _content(self, content: Any) -> Iterator[Event]:
        for words in filter(None, _texts(content)):
            yield from self._say("text", words)

    def is_said(self, part: Any) -> bool:
        """Whether events say what a part of the content says."""
        return is_text(part)

    def _say(self, kind: str, words: str, form: str | None = None) -> Iterator[Event]:
        if self._spoken is None or self._spoken[0] != kind:
            yield from self._end_spoken()
            self._spoken = (kind, self._count)
            origin = Origin(self.dialect, self._model) if kind == "reasoning" else None
            residue = None if form is None else Residue(self.dialect, form=form)
            yield PartStart(self._count, kind, origin=origin, residue=residue)
            self._count += 1
            if self._early and kind == "text":
                early, self._early = self._early, []
                yield from self._cite(early)
        if kind == "text":
            self._length += len(words)
        yield Delta(self._spoken[1], words)

    def _take_details(self, delta: Any) -> list[tuple[Any, ReasoningContentClass, Any]]:
        """Take the details of thoughts that are told only so: each item, its thought, and what else it says."""
        items = delta.get(DETAILS) if isinstance(delta, dict) else None
        has_text = isinstance(delta, dict) and any(delta.get(key) for key in REASONING)
        if not isinstance(items, list) or has_text or self._thinks == "text":
            return []
        found = read_details(items, Origin(self.dialect, self._model))
        if found:
            del delta[DETAILS]
            self._thinks = "details"
        return [(item, *read) for item, read in zip(items, found, strict=False)]

    def _detail(self, item: Any, held: ReasoningContentClass, left: Any) -> Iterator[Event]:
        """More of a thought, or another one."""
        is_open = self._spoken is not None and self._spoken[0] == "reasoning"
        if not is_open or not goes_on(item, self._detailed):
            yield from self._end_spoken()
            self._spoken = ("reasoning", self._count)
            patch = set_again(left)
            part = None if patch is None else guarded(self.dialect, lambda: write_json(patch))
            residue = Residue(self.dialect, part, None, DETAILS)
            yield PartStart(self._count, "reasoning", origin=held.origin, residue=residue)
            self._count += 1
        self._detailed = item
        for channel, words in pieces_of(held):
            yield Delta(self._spoken[1], words, channel)  # type: ignore[index]

    def _cite(self, annotations: list[Any]) -> Iterator[Event]:
        """Citations of the text under way, or of the first to come; those of an ended text are not translated."""
        part = self._spoken[1] if self._spoken is not None and self._spoken[0] == "text" else None
        if part is None and not self._before:
            self._early += annotations
            return
        late: list[Any] = []
        for item in annotations:
            citation = guarded(self.dialect, lambda item=item: self._citation(item))  # type: ignore[misc]
            if part is None or citation is None:
                late.append(item)
            else:
                yield Delta(part, "", "citation", citation=citation)
        yield from _leave(self.dialect, late)

    def _citation(self, item: Any) -> Citation | None:
        """A citation, its places counted from the beginning of its own text; None if that has ended."""
        citation = read_citation(self.dialect, item)
        if not self._before or citation.start is None or citation.end is None:
            return citation
        if citation.end <= self._before:
            return None
        start = max(0, citation.start - self._before)
        return replace(citation, start=start, end=citation.end - self._before)

    def _sound(self) -> Iterator[Event]:
        """Speech that the server keeps: no request may hold more of it than its id."""
        if self._audio:
            content = new_audio(Location("file", self._audio), "")
            self._audio = ""
            residue = Residue(self.dialect, form="audio")
            yield PartStart(self._count, "whole", content=content, residue=residue)
            yield PartEnd(self._count)
            self._count += 1

    def _call(self, fragment: dict[str, Any], position: int) -> Iterator[Event]:
        kind = "custom" if isinstance(fragment.get("custom"), dict) else "function"
        inner = fragment.get(kind)
        function = inner if isinstance(inner, dict) else {}
        name = function.get("name")
        call = self._calls.find(fragment, name, position)
        if call is None:
            yield from self._end_spoken()
            yield from self._sound()
            identifier = fragment.get("id") or f"{self._call_stem}{self._call_count}"
            self._call_count += 1
            call = self._calls.begin(fragment, position, str(identifier))
            call.is_freeform = kind == "custom" or fragment.get("type") == "custom"
            call.is_legacy = fragment.get("type") == LEGACY
        call.name = call.name or str(name or "")
        key = "input" if kind == "custom" else "arguments"
        known = ("index", "id", "type", kind)
        call.beside |= {name: item for name, item in fragment.items() if name not in known}
        call.within |= {name: item for name, item in function.items() if name not in ("name", key)}
        words = function.get(key)
        if words is not None and words != "":
            call.waiting.append(guarded(self.dialect, lambda: argument_text(words)))
        if call.name:
            yield from self._tell(call)

    def _tell(self, call: StreamedCall) -> Iterator[Event]:
        if call.part is None:
            call.part = self._count
            self._count += 1
            own = (call.identifier, call.name, call.is_freeform)
            residue = guarded(self.dialect, partial(call.residue, self.dialect))
            yield PartStart(call.part, "invocation", *own, residue=residue)
        if call.waiting:
            words, call.waiting, call.has_arguments = "".join(call.waiting), [], True
            yield Delta(call.part, words, "arguments")

    def _end_spoken(self) -> Iterator[Event]:
        if self._spoken is not None:
            yield PartEnd(self._spoken[1])
            self._spoken = None
            self._before += self._length
            self._length = 0

    def _end_parts(self) -> Iterator[Event]:
        yield from self._end_spoken()
        yield from self._sound()
        early, self._early = self._early, []
        yield from _leave(self.dialect, early)
        for call in self._calls.open:
            yield from self._tell(call)
            is_told = call.told == len(call.beside) + len(call.within)
            residue = (
                None if is_told else guarded(self.dialect, partial(call.residue, self.dialect))
            )
            yield PartEnd(call.part, residue)  # type: ignore[arg-type]
        self._calls.clear()

    def _end(self) -> Iterator[Event]:
        self._is_over = True
        yield from self._start()
        yield from self._end_parts()
        if self._finish is None:
            yield Failure("the stream ended without a finish reason", "incomplete")
            return
        if self._is_blank and not self._count:
            yield PartStart(0, "text")
            yield PartEnd(0)
        reason = self._finish.reason
        around = guarded(self.dialect, lambda: self._around.residue(self._told, reason, self._word))
        yield replace(self._finish, around=around)


def _error_of(chunk: dict[str, Any]) -> dict[str, Any] | str | None:
    """The error that a chunk tells of, if it does; some servers put nothing around it."""
    error = chunk if chunk.get("object") == "error" else chunk.get("error")
    return error if isinstance(error, dict) or (isinstance(error, str) and error) else None


def _leave(dialect: str, annotations: list[Any]) -> Iterator[Event]:
    """Annotations that only this dialect can make something of."""
    if annotations:
        value = guarded(dialect, lambda: write_json({"annotations": annotations}))
        yield Unknown(dialect, "annotations", value)


def _says(choice: Any) -> bool:
    return isinstance(choice, dict) and isinstance(choice.get("delta"), dict)


def _texts(content: Any) -> list[str]:
    """The texts of a content, which some servers send in parts."""
    if isinstance(content, list):
        return [part["text"] for part in content if is_text(part)]
    return [content] if isinstance(content, str) else []


def is_text(part: Any) -> bool:
    """Whether a part of the content is text."""
    return isinstance(part, dict) and part.get("type") == "text" and type(part.get("text")) is str


def _unsaid(
    choice: dict[str, Any], told: dict[str, Any], is_said: Callable[[Any], bool]
) -> list[dict[str, Any]]:
    """What no event says of the first choice and no chunk before ``told``, as a choice of its own."""
    delta = choice.get("delta")
    delta = delta if isinstance(delta, dict) else {}
    rest = {key: item for key, item in delta.items() if key not in DELTA and item not in _NOTHING}
    content = delta.get("content")
    parts = content if isinstance(content, list) else ()
    if not all(map(is_said, parts)):
        rest["content"] = [part for part in parts if not is_said(part)]
    if all(isinstance(delta.get(key), str) and delta[key] for key in REASONING):
        rest[REASONING[1]] = delta[REASONING[1]]
    around = {
        key: item
        for key, item in choice.items()
        if key not in CHOICE and item is not None and told.get(key) != item
    }
    told.update(around)
    if not rest and not around:
        return []
    return [{"index": 0, "delta": rest, **around, "finish_reason": None}]

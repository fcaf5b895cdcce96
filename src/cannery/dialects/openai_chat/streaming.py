"""Chat Completions streams, both ways.

Chunks name tool calls by index and nothing else by anything: text ends where something else begins, calls end with the
answer. The finish is held back until the stream ends, because usage comes after it. Annotations come behind the text
that they are about, in a chunk of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cannery.dialects.openai_chat.responses import (
    FINISH,
    FINISH_WORDS,
    read_citation,
    read_usage,
    write_usage,
)
from cannery.dialects.openai_chat.settings import NAME
from cannery.dialects.openai_chat.stream_calls import StreamedCall, StreamedCalls
from cannery.dialects.openai_chat.stream_speech import Citations, Turns
from cannery.messages.absence import absent
from cannery.messages.content import (
    Citation,
    DataContentClass,
    Origin,
    TextualContentClass,
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
from cannery.messages.requests import FinishReason, Usage
from cannery.messages.residue import Residue
from cannery.wire.answers import call_stem
from cannery.wire.bodies import guarded, is_named
from cannery.wire.chat_reading import argument_text
from cannery.wire.contract import StreamOptions
from cannery.wire.controls import integer, text
from cannery.wire.openai_errors import read_openai_failure
from cannery.wire.sse import FrameReader, data_frame, one_line
from cannery.wire.streams import Thoughts, own_failure, read_chunk, too_deep

_SPOKEN = {"content": "text", "refusal": "refusal"}
_REASONING = ("reasoning_content", "reasoning")
# What events say of a choice and of its delta.
_SEEN = frozenset({"index", "delta", "finish_reason"})
_DELTA = frozenset({"role", "annotations", "tool_calls", "function_call", *_SPOKEN, *_REASONING})
_NOTHING: tuple[Any, ...] = (None, {}, [])


class _TextDelta(Struct, gc=False, forbid_unknown_fields=True):
    """A delta of text, and nothing else that a delta may say."""

    content: str
    role: str | None = None
    reasoning_content: None = None
    reasoning: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None
    annotations: None = None
    audio: None = None


class _Empty(Struct, gc=False, forbid_unknown_fields=True):
    """An object without anything in it."""


class _TextChoice(Struct, gc=False, forbid_unknown_fields=True):
    """A choice with some words, and nothing else but what many servers leave empty."""

    delta: _TextDelta
    index: Literal[0] = 0
    finish_reason: None = None
    logprobs: None = None
    content_filter_results: _Empty | None = None
    matched_stop: None = None
    native_finish_reason: None = None
    stop_reason: None = None
    token_ids: None = None


class _TextChunk(Struct, gc=False):
    choices: tuple[_TextChoice]
    usage: None = None
    error: None = None


_decode_text = msgspec.json.Decoder(_TextChunk).decode


class ChatStreamReader:
    """Takes the bytes of a stream and gives events."""

    def __init__(self) -> None:
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
        self._finish: FinishReason | None = None
        self._failed = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        whole = self._frames.whole(chunk)
        if whole is None:
            for frame in self._frames.feed(chunk):
                yield from self._frame(frame.data)
            return
        for data in whole:
            words = self._more_text(data)
            if words is None:
                yield from self._frame(data.decode("utf-8", "replace"))
            else:
                self._length += len(words)
                yield Delta(self._spoken[1], words)  # type: ignore[index]

    def _more_text(self, data: bytes) -> str | None:
        """More of the text under way, if a chunk says nothing else."""
        if self._spoken is None or self._spoken[0] != "text" or self._is_over or self._failed:
            return None
        try:
            return _decode_text(data).choices[0].delta.content or None
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None

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
        if data.strip() == "[DONE]":
            yield from self._end()
            return
        chunk = read_chunk(NAME, data)
        error = chunk.get("error")
        if isinstance(error, dict) or (isinstance(error, str) and error):
            self._failed = True
            yield read_openai_failure(NAME, error, data)
            return
        usage = read_usage(chunk.get("usage"))
        found = chunk.get("choices")
        choices = found if isinstance(found, list) else []
        if self._head is not None:
            for key in ("id", "model", "created"):
                if not self._head.get(key) and key in chunk:
                    self._head[key] = chunk[key]
            # Azure filters the prompt in a first chunk that has no id, no model and no time.
            if self._head.get("id") or usage is not absent or any(map(_says, choices)):
                yield from self._start()
        others = []
        for choice in choices:
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                yield from self._choice(choice)
                others += _unsaid(choice)
            else:
                others.append(choice)
        if others:
            value = guarded(NAME, lambda: write_json({"choices": others}))
            yield Unknown(NAME, "chunk", value)
        if isinstance(usage, Usage):
            yield UsageReport(usage)

    def _start(self) -> Iterator[Event]:
        if self._head is None:
            return
        head, self._head = self._head, None
        model = head.get("model")
        self._model = model if isinstance(model, str) else None
        self._call_stem = call_stem(head.get("id"))
        yield Start(text(head.get("id")), text(model), integer(head.get("created")))

    def _choice(self, choice: dict[str, Any]) -> Iterator[Event]:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            for key in _REASONING:
                if isinstance(delta.get(key), str) and delta[key]:
                    yield from self._say("reasoning", delta[key])
                    break
            for key, kind in _SPOKEN.items():
                if isinstance(delta.get(key), str) and delta[key]:
                    yield from self._say(kind, delta[key])
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
                call = {"id": "function_call_0", "type": "function", "function": legacy}
                yield from self._call(call, -1)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason and self._finish is None:
            self._finish = FINISH.get(reason, FinishReason.Other)
            yield from self._end_parts()

    def _say(self, kind: str, words: str) -> Iterator[Event]:
        if self._spoken is None or self._spoken[0] != kind:
            yield from self._end_spoken()
            self._spoken = (kind, self._count)
            origin = Origin(NAME, self._model) if kind == "reasoning" else None
            yield PartStart(self._count, kind, origin=origin)
            self._count += 1
            if self._early and kind == "text":
                early, self._early = self._early, []
                yield from self._cite(early)
        if kind == "text":
            self._length += len(words)
        yield Delta(self._spoken[1], words)

    def _cite(self, annotations: list[Any]) -> Iterator[Event]:
        """Citations of the text under way, or of the first to come; those of a text that has ended stay at home."""
        part = self._spoken[1] if self._spoken is not None and self._spoken[0] == "text" else None
        if part is None and not self._before:
            self._early += annotations
            return
        late: list[Any] = []
        for item in annotations:
            citation = guarded(NAME, lambda item=item: self._citation(item))  # type: ignore[misc]
            if part is None or citation is None:
                late.append(item)
            else:
                yield Delta(part, "", "citation", citation=citation)
        yield from _leave(late)

    def _citation(self, item: Any) -> Citation | None:
        """A citation, its places counted from the beginning of its own text; None if that has ended."""
        citation = read_citation(item)
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
            residue = Residue(NAME, form="audio")
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
        call.name = call.name or str(name or "")
        words = function.get("input" if kind == "custom" else "arguments")
        if words is not None and words != "":
            call.waiting.append(guarded(NAME, lambda: argument_text(words)))
        if call.name:
            yield from self._tell(call)

    def _tell(self, call: StreamedCall) -> Iterator[Event]:
        if call.part is None:
            call.part = self._count
            self._count += 1
            yield PartStart(call.part, "invocation", call.identifier, call.name, call.is_freeform)
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
        yield from _leave(early)
        for call in self._calls.open:
            yield from self._tell(call)
            yield PartEnd(call.part)  # type: ignore[arg-type]
        self._calls.clear()

    def _end(self) -> Iterator[Event]:
        self._is_over = True
        yield from self._start()
        yield from self._end_parts()
        if self._finish is None:
            yield Failure("the stream ended without a finish reason", "incomplete")
        else:
            yield Finish(self._finish)


def _leave(annotations: list[Any]) -> Iterator[Event]:
    """Annotations that only this dialect can make something of."""
    if annotations:
        value = guarded(NAME, lambda: write_json({"annotations": annotations}))
        yield Unknown(NAME, "annotations", value)


def _says(choice: Any) -> bool:
    return isinstance(choice, dict) and isinstance(choice.get("delta"), dict)


def _unsaid(choice: dict[str, Any]) -> list[dict[str, Any]]:
    """What no event says of the first choice, as a choice of its own."""
    delta = choice.get("delta")
    delta = delta if isinstance(delta, dict) else {}
    rest = {key: item for key, item in delta.items() if key not in _DELTA and item not in _NOTHING}
    around = {
        key: item for key, item in choice.items() if key not in _SEEN and item not in _NOTHING
    }
    if not rest and not around:
        return []
    return [{"index": 0, "delta": rest, **around, "finish_reason": None}]


class ChatStreamWriter:
    """Takes events and gives the bytes of chunks."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._head = {
            "id": "chatcmpl-cannery",
            "object": "chat.completion.chunk",
            "created": options.created,
            "model": options.model or "",
        }
        self._is_started = False
        # What stands before and behind the words of a chunk, by the name of their field.
        self._around: dict[str, tuple[bytes, bytes]] = {}
        self._kinds: dict[int, PartStart] = {}
        self._calls: dict[int, int] = {}
        self._turns = Turns()
        self._citations = Citations()
        self._thoughts = Thoughts()
        # Calls under way of whose arguments nothing has come.
        self._silent: set[int] = set()
        self._usage: Usage | None = None
        self._is_over = False

    def write(self, event: Event) -> bytes:
        """The bytes of one event; may be empty."""
        try:
            match event:
                case Start():
                    return self._start(event)
                case PartStart():
                    return self._part_start(event)
                case Delta():
                    return self._delta(event)
                case UsageReport():
                    self._usage = event.usage
                    return b""
                case Finish():
                    return self._finish(event)
                case Failure():
                    return self._failure(event)
                case PartEnd():
                    return self._part_end(event)
                case Unknown():
                    return self._unknown(event) if event.dialect == NAME else b""
        except RecursionError:
            raise too_deep(NAME) from None

    def close(self) -> bytes:
        """The bytes that end the stream."""
        return b""

    def _start(self, event: Start) -> bytes:
        if event.identifier is not absent:
            self._head["id"] = event.identifier
        if event.model is not absent and not self._options.model:
            self._head["model"] = event.model
        if event.created is not absent and not self._options.created:
            self._head["created"] = event.created
        self._around = {}
        return self._begin()

    def _begin(self) -> bytes:
        if self._is_started:
            return b""
        self._is_started = True
        return self._chunk({"role": "assistant", "content": ""})

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        body: dict[str, Any] = {**self._head, "choices": [choice]}
        if self._options.include_usage:
            body["usage"] = None
        return data_frame(body)

    def _part_start(self, event: PartStart) -> bytes:
        self._kinds[event.index] = event
        begun = self._begin()
        if event.kind != "invocation":
            self._turns.start(event.index)
            content = event.content
            if not isinstance(content, (TextualContentClass, DataContentClass)):
                return begun
            said = content.json if isinstance(content, DataContentClass) else content.text
            return begun + self._delta(Delta(event.index, said))
        begun += self._annotations()
        index = self._calls[event.index] = len(self._calls)
        kind = "custom" if event.is_freeform else "function"
        key = "input" if event.is_freeform else "arguments"
        call: dict[str, Any] = {"index": index, "id": event.identifier, "type": kind}
        call[kind] = {"name": event.name, key: ""}
        if not event.is_freeform:
            self._silent.add(event.index)
        return begun + self._chunk({"tool_calls": [call]})

    def _delta(self, event: Delta) -> bytes:
        start = self._kinds[event.index]
        if not event.text:
            return self._cite(event)
        if start.kind == "text" and event.channel == "text" and self._turns.open == event.index:
            self._citations.length += len(event.text)
            return self._words("content", event.text)
        if event.channel == "arguments":
            return self._arguments(event.index, event.text)
        if self._turns.open != event.index and self._turns.keeps(event):
            return b""
        if start.kind == "reasoning":
            return self._think(start, event)
        if event.channel != "text":
            return b""
        if start.kind == "refusal":
            return self._annotations() + self._words("refusal", event.text)
        self._citations.length += len(event.text)
        return self._words("content", event.text)

    def _think(self, start: PartStart, event: Delta) -> bytes:
        if not self._options.reasoning or event.channel not in ("text", "summary"):
            return b""
        is_own = start.origin is not None and start.origin.dialect == NAME
        words = event.text if is_own else self._thoughts.joined(event)
        return self._annotations() + self._chunk({"reasoning_content": words})

    def _cite(self, event: Delta) -> bytes:
        if event.citation is not None and not self._turns.keeps(event):
            self._citations.cite(event.citation)
        return b""

    def _annotations(self) -> bytes:
        """A chunk with what complete texts cite."""
        annotations = self._citations.taken()
        return self._chunk({"annotations": annotations}) if annotations else b""

    def _part_end(self, event: PartEnd) -> bytes:
        if event.index in self._silent:
            return self._arguments(event.index, "{}")
        if event.index != self._turns.open:
            self._turns.keeps(event)
            return b""
        self._citations.end()
        written: list[bytes] = []
        for late in self._turns.end():
            if isinstance(late, Delta):
                written.append(self._delta(late))
            else:
                self._citations.end()
        return b"".join(written)

    def _arguments(self, index: int, words: str) -> bytes:
        self._silent.discard(index)
        is_freeform = self._kinds[index].is_freeform
        kind, key = ("custom", "input") if is_freeform else ("function", "arguments")
        call = {"index": self._calls[index], kind: {key: words}}
        return self._chunk({"tool_calls": [call]})

    def _words(self, key: str, words: str) -> bytes:
        """A chunk with nothing but words: all but these is written once."""
        around = self._around.get(key)
        if around is None:
            before, mark, behind = self._chunk({key: ""}).partition(f'{{"{key}":""}}'.encode())
            around = self._around[key] = (before + mark[:-3], mark[-1:] + behind)
        return around[0] + one_line(words) + around[1]

    def _finish(self, event: Finish) -> bytes:
        self._is_over = True
        written = [self._begin()]
        written += [self._arguments(index, "{}") for index in sorted(self._silent)]
        while self._turns.open is not None:
            written.append(self._part_end(PartEnd(self._turns.open)))
        written += [self._annotations(), self._chunk({}, FINISH_WORDS[event.reason])]
        if self._options.include_usage and self._usage is not None:
            body = {**self._head, "choices": [], "usage": write_usage(self._usage)}
            written.append(data_frame(body))
        return b"".join([*written, b"data: [DONE]\n\n"])

    def _failure(self, event: Failure) -> bytes:
        self._is_over = True
        own = own_failure(event, NAME)
        if own is not None:
            return data_frame(own)
        error = {"message": event.message, "type": event.kind, "param": None, "code": None}
        return data_frame({"error": error})

    def _unknown(self, event: Unknown) -> bytes:
        """What only this dialect understands: other choices, probabilities, sound, citations of an earlier text."""
        value = read_chunk(NAME, event.json)
        if event.name == "annotations":
            self._citations.keep(value["annotations"])
            return b""
        body = {**self._head, **value}
        if self._options.include_usage:
            body["usage"] = None
        return self._begin() + data_frame(body)

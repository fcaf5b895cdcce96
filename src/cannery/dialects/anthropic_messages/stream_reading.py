"""Messages streams, read: blocks become parts, whatever comes in between.

Usage is cumulative: what ``message_delta`` says replaces what ``message_start`` said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from cannery.dialects.anthropic_messages.blocks import Object, without_file
from cannery.dialects.anthropic_messages.models import NAME
from cannery.dialects.anthropic_messages.reading import read_citation
from cannery.dialects.anthropic_messages.responses import (
    FINISH_WORDS,
    read_finish,
    read_usage,
    stop_word,
    write_usage,
)
from cannery.messages.absence import absent
from cannery.messages.content import (
    Origin,
    new_opaque,
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
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import FinishReason
from cannery.messages.residue import Residue
from cannery.wire.arguments import RAW_ARGUMENTS, input_text, object_input, wrapped_input
from cannery.wire.bodies import guarded
from cannery.wire.controls import text
from cannery.wire.residues import patch_text
from cannery.wire.sse import DONE, Frame, FrameReader
from cannery.wire.streams import beside, counted, read_chunk

_KINDS = {"text": "text", "thinking": "reasoning", "tool_use": "invocation"}
_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "text"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "arguments"),
}
_IMPLIED = {"text_delta": "text", "thinking_delta": "thinking"}
# What events say of an answer, and of its end.
_MODELLED = frozenset(
    {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}
)
_STOP = frozenset({"stop_reason", "stop_sequence"})
_DELTA = frozenset({"type", "delta", "usage"})
# How arguments begin that were wrapped to be an object, white space aside.
_WRAPPED = f'{{"{RAW_ARGUMENTS}"'


class _TextDelta(Struct, gc=False):
    type: Literal["text_delta"]
    text: str


class _TextEvent(Struct, gc=False):
    """An event with more of a text."""

    type: Literal["content_block_delta"]
    index: int
    delta: _TextDelta


_decode_text = msgspec.json.Decoder(_TextEvent).decode


class MessagesStreamReader:
    """Takes the bytes of a stream and gives events."""

    def __init__(self) -> None:
        self._frames = FrameReader()
        self._is_started = False
        self._is_over = False
        self._model: str | None = None
        self._usage: Object = {}
        # What was counted last, as it was said, and what else was said of the end.
        self._last_usage: Object = {}
        self._ending: Object = {}
        self._word: str | None = None
        self._has_calls = False
        self._finish: Any = absent
        self._stop_sequence: Any = absent
        self._open: dict[int, _OpenBlock] = {}
        self._count = 0

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        whole = self._frames.whole(chunk) if self._open and not self._is_over else None
        deltas = None if whole is None else self._more_text(whole)
        if deltas is not None:
            yield from deltas
            return
        for frame in self._frames.feed(chunk):
            yield from self._frame(frame)

    def _more_text(self, whole: list[bytes]) -> list[Event] | None:
        """More of texts under way, if frames say nothing else."""
        found: list[Event] = []
        try:
            for data in whole:
                said = _decode_text(data)
                opened = self._open.get(said.index)
                if opened is None or opened.kind != "text":
                    return None
                if said.delta.text:
                    found.append(Delta(opened.index, said.delta.text))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        return found

    def close(self) -> Iterator[Event]:
        """The events that the end of the stream completes."""
        for frame in self._frames.close():
            yield from self._frame(frame)
        if not self._is_over:
            yield from self._end()

    def _frame(self, frame: Frame) -> Iterator[Event]:
        if self._is_over or frame.data.strip() in ("", DONE):
            return
        events: list[Event] = guarded(NAME, lambda: list(self._event(frame)))
        yield from events

    def _event(self, frame: Frame) -> Iterator[Event]:
        value = read_chunk(NAME, frame.data)
        kind = value.get("type", frame.name)
        match kind:
            case "ping":
                return
            case "error":
                self._is_over = True
                yield _failure(value, frame.data)
            case "message_start":
                yield from self._start(value.get("message"))
            case _:
                if not self._is_started:
                    yield from self._start(None)
                yield from self._later_event(kind, value, frame)

    def _later_event(self, kind: Any, value: Object, frame: Frame) -> Iterator[Event]:
        match kind:
            case "content_block_start":
                yield from self._block_start(value)
            case "content_block_delta":
                yield from self._block_delta(value, frame)
            case "content_block_stop":
                yield from self._block_stop(value.get("index"))
            case "message_delta":
                self._message_delta(value)
            case "message_stop":
                yield from self._end()
            case _:
                yield Unknown(NAME, str(kind), frame.data)

    def _start(self, message: Any) -> Iterator[Event]:
        if self._is_started:
            return
        self._is_started = True
        head: Object = message if type(message) is dict else {}
        model = text(head.get("model"))
        self._model = model if isinstance(model, str) else None
        residue = beside(NAME, head, _MODELLED)
        yield Start(text(head.get("id")), model, source=NAME, residue=residue)
        self._count_tokens(head.get("usage"))
        usage = read_usage(self._usage)
        if usage is not absent:
            yield UsageReport(usage, counted(NAME, write_usage(usage), head["usage"]))

    def _count_tokens(self, usage: Any) -> None:
        if type(usage) is dict:
            self._usage.update({key: item for key, item in usage.items() if item is not None})

    def _message_delta(self, value: Object) -> None:
        delta = value.get("delta")
        if type(delta) is dict:
            # A later one that only counts tokens takes nothing back.
            if delta.get("stop_reason"):
                self._finish = read_finish(delta["stop_reason"])
                self._word = delta["stop_reason"]
            if delta.get("stop_sequence") is not None:
                self._stop_sequence = text(delta["stop_sequence"])
            self._add_ending("delta", {k: v for k, v in delta.items() if k not in _STOP})
        self._add_ending("event", {k: v for k, v in value.items() if k not in _DELTA})
        counts = value.get("usage")
        if type(counts) is dict:
            self._count_tokens(counts)
            self._last_usage |= counts

    def _add_ending(self, level: str, fields: Object) -> None:
        """Keep what only this dialect says of the end, in the delta or beside it."""
        if fields:
            self._ending[level] = {**self._ending.get(level, {}), **fields}

    def _end(self) -> Iterator[Event]:
        self._is_over = True
        if not isinstance(self._finish, FinishReason):
            yield Failure("the stream ended before the answer was complete", "incomplete")
            return
        for index in list(self._open):
            yield from self._block_stop(index)
        self._usage.setdefault("input_tokens", 0)
        usage = read_usage(self._usage)
        if "output_tokens" in self._usage and usage is not absent:
            counts = counted(NAME, write_usage(usage), self._last_usage)
            yield UsageReport(usage, counts if self._last_usage else None)
        usual = stop_word(FINISH_WORDS[self._finish], has_calls=self._has_calls, is_refused=False)
        residue = beside(NAME, self._ending, (), None if self._word == usual else self._word)
        yield Finish(self._finish, self._stop_sequence, residue)

    # --- blocks --------------------------------------------------------------------------------

    def _block_start(self, value: Object) -> Iterator[Event]:
        block = value.get("content_block")
        index = value.get("index")
        if type(block) is not dict or type(index) is not int or index in self._open:
            return
        opened = self._open[index] = _OpenBlock(self._count, block)
        self._count += 1
        self._has_calls = self._has_calls or opened.kind == "invocation"
        yield from opened.start(self._model)

    def _block_delta(self, value: Object, frame: Frame) -> Iterator[Event]:
        delta = value.get("delta")
        index = value.get("index")
        if type(delta) is not dict or type(index) is not int:
            return
        opened = self._open.get(index)
        if opened is None:
            implied = _IMPLIED.get(str(delta.get("type")))
            if implied is None or index < self._count:
                return
            start = {"index": index, "content_block": {"type": implied, implied: ""}}
            yield from self._block_start(start)
            opened = self._open[index]
        yield from opened.delta(delta, frame.data)

    def _block_stop(self, index: Any) -> Iterator[Event]:
        opened = self._open.pop(index, None) if type(index) is int else None
        if opened is not None:
            yield from opened.stop()


class _OpenBlock:
    """A block under way: known kinds give events at once, others when they are complete."""

    def __init__(self, index: int, block: Object) -> None:
        self.index = index
        self.block = dict(block)
        kind = block.get("type")
        self.tag = kind if type(kind) is str else "unknown"
        self.kind = _KINDS.get(self.tag)
        if self.kind == "invocation" and not _is_call(block):
            self.kind = None
        self.json: list[str] = []
        # How the arguments begin, and whether they are told as they come.
        self.head = ""
        self.is_told = False
        # What texts of a block that nobody here knows have grown by.
        self.texts: dict[str, list[str]] = {}

    def start(self, model: str | None) -> Iterator[Event]:
        block = self.block
        origin = Origin(NAME, model)
        if self.tag == "redacted_thinking" and type(block.get("data")) is str:
            self.kind = "redacted"
            residue = _residue(block, {"type": self.tag}, "data")
            yield PartStart(self.index, "reasoning", origin=origin, residue=residue)
            yield Delta(self.index, block["data"], "encrypted")
        elif self.kind == "invocation":
            ours = {key: block[key] for key in ("type", "id", "name")}
            residue = _residue(block, ours, "input")
            call = (block["id"], block["name"])
            yield PartStart(self.index, "invocation", *call, residue=residue)
        elif self.kind is not None:
            residue = _residue(
                block, {"type": self.tag}, "text", "thinking", "signature", "citations"
            )
            bound = origin if self.kind == "reasoning" else None
            yield PartStart(self.index, self.kind, origin=bound, residue=residue)
            for key, channel in ((self.tag, "text"), ("signature", "signature")):
                if type(block.get(key)) is str and block[key]:
                    yield Delta(self.index, block[key], channel)

    def delta(self, delta: Object, raw: str) -> Iterator[Event]:
        tag = str(delta.get("type"))
        if self.kind is None:
            self._keep(delta)
        elif tag == "citations_delta" and type(delta.get("citation")) is dict:
            sendable = without_file(delta["citation"])
            part = patch_text(sendable, delta["citation"])
            own = None if part is None else Residue(NAME, part=part)
            yield Delta(self.index, "", "citation", citation=read_citation(sendable), residue=own)
        elif tag == "input_json_delta" and self.kind == "invocation":
            if type(delta.get("partial_json")) is str:
                yield from self._argue(delta["partial_json"])
        elif tag in _DELTAS:
            key, channel = _DELTAS[tag]
            if type(delta.get(key)) is str and delta[key] and channel != "arguments":
                yield Delta(self.index, delta[key], channel)
        else:
            yield Unknown(NAME, tag, raw, str(self.index))

    def _argue(self, words: str) -> Iterator[Event]:
        """More arguments: they are told as they come, unless they begin like such as were wrapped."""
        if self.is_told:
            if words:
                yield Delta(self.index, words, "arguments")
            return
        self.json.append(words)
        self.head += "".join(words.split())[: len(_WRAPPED) - len(self.head)]
        if not _WRAPPED.startswith(self.head):
            self.is_told = True
            yield Delta(self.index, "".join(self.json), "arguments")

    def _keep(self, delta: Object) -> None:
        """Add a delta to a block that nobody here knows: text grows, anything else is set."""
        for key, value in delta.items():
            if key == "partial_json" and type(value) is str:
                self.json.append(value)
            elif key != "type":
                if type(value) is str and type(self.block.get(key)) is str:
                    self.texts.setdefault(key, []).append(value)
                else:
                    self.texts.pop(key, None)
                    self.block[key] = value

    def stop(self) -> Iterator[Event]:
        spelled = "".join(self.json)
        if self.kind == "invocation":
            if not self.is_told:
                words = _arguments(spelled, self.block.get("input"))
                yield Delta(self.index, words, "arguments")
        elif self.kind is None:
            for key, pieces in self.texts.items():
                self.block[key] += "".join(pieces)
            if spelled.strip():
                try:
                    self.block["input"] = decode_json(spelled)
                except ValueError:
                    self.block["input"] = wrapped_input(spelled)
            content = new_opaque(NAME, self.tag, write_json(self.block))
            yield PartStart(self.index, "whole", content=content)
        yield PartEnd(self.index)


def _is_call(block: Object) -> bool:
    return type(block.get("id")) is str and type(block.get("name")) is str and bool(block["id"])


def _arguments(spelled: str, start: Any) -> str:
    """The argument text that the deltas, or without them the start, add up to."""
    if not spelled.strip():
        return input_text(start if type(start) is dict else {})
    if object_input(spelled) is None:
        return spelled
    value = decode_json(spelled)
    unwrapped = input_text(value)
    return unwrapped if object_input(unwrapped) is None else spelled


def _residue(block: Object, ours: Object, *apart: str) -> Residue | None:
    """What the start of a block says beyond its kind."""
    rest = {key: item for key, item in block.items() if key not in apart}
    part = patch_text(ours, rest)
    return None if part is None else Residue(NAME, part=part)


def _failure(value: Object, raw: str) -> Failure:
    found = value.get("error")
    error: Object = found if type(found) is dict else {"message": found}
    message = str(error.get("message") or "unknown error")
    kind = str(error.get("type") or "api_error")
    return Failure(message, kind, raw=raw, dialect=NAME)

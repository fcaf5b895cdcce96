"""Messages streams, read: blocks become parts, whatever comes in between.

Usage is cumulative: what ``message_delta`` says replaces what ``message_start`` said.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cannery.dialects.anthropic_messages.models import NAME
from cannery.dialects.anthropic_messages.reading import read_citation
from cannery.dialects.anthropic_messages.responses import (
    FINISH_WORDS,
    read_finish,
    read_usage,
    stop_word,
    take_envelope,
    take_files,
    write_usage,
)
from cannery.errors import DialectError, MessageError
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
from cannery.messages.requests import FinishReason, Usage
from cannery.messages.residue import Residue
from cannery.wire.arguments import RAW_ARGUMENTS, input_text, object_input, wrapped_input
from cannery.wire.bodies import Object, kind_of
from cannery.wire.controls import text
from cannery.wire.sse import DONE, Frame, FrameReader
from cannery.wire.streams import read_chunk, too_deep

_KINDS = {"text": "text", "thinking": "reasoning", "tool_use": "invocation"}
_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "text"),
    "signature_delta": ("signature", "signature"),
}
_IMPLIED = {"text_delta": "text", "thinking_delta": "thinking"}
# What events say of an answer, and of its end.
_MODELLED = frozenset(
    {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}
)
_STOP = frozenset({"stop_reason", "stop_sequence"})
_EVENT = frozenset({"type", "message", "delta", "usage", "index", "content_block"})
# What every answer has.
_ALWAYS: Object = {
    "id": "",
    "type": "message",
    "role": "assistant",
    "model": "",
    "stop_reason": None,
    "stop_sequence": None,
}
# How arguments begin that were wrapped to be an object, white space aside.
_WRAPPED = f'{{"{RAW_ARGUMENTS}"'


class MessagesStreamReader:
    """Takes the bytes of a stream and gives events."""

    def __init__(self) -> None:
        self._frames = FrameReader()
        self._is_started = False
        self._is_over = False
        self._model: str | None = None
        # The answer that the events add up to, without its content; what was counted last, as it was said.
        self._message: Object = {}
        self._usage: Object = {}
        self._last_usage: Object = {}
        # What else was said of the end: in the delta, beside it, and in the last event.
        self._ending: Object = {}
        # File ids of citations, by the position of their block.
        self._apart: dict[str, Object] = {}
        self._has_calls = False
        self._open: dict[int, _OpenBlock] = {}
        self._count = 0

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that these bytes complete."""
        events: list[Event] = []
        for frame in self._frames.feed(chunk):
            self._frame(frame, events)
        return events

    def close(self) -> list[Event]:
        """The events that the end of the stream completes."""
        events: list[Event] = []
        for frame in self._frames.close():
            self._frame(frame, events)
        if not self._is_over:
            self._end(events)
        return events

    def _frame(self, frame: Frame, events: list[Event]) -> None:
        if self._is_over or frame.data.strip() in ("", DONE):
            return
        try:
            self._event(read_chunk(NAME, frame.data), frame, events)
        except RecursionError:
            raise too_deep(NAME) from None
        except MessageError as error:
            raise DialectError(NAME, "$", str(error)) from None

    def _event(self, value: Object, frame: Frame, events: list[Event]) -> None:
        kind = value.get("type", frame.name)
        if kind == "ping":
            return
        if kind == "error":
            self._is_over = True
            events.append(_failure(value, frame.data))
            return
        if not self._is_started:
            self._start(value if kind == "message_start" else {}, events)
        if kind == "content_block_delta":
            self._block_delta(value, frame, events)
        elif kind == "content_block_start":
            self._block_start(value, events)
        elif kind == "content_block_stop":
            self._block_stop(_index(value), events)
        elif kind == "message_delta":
            self._message_delta(value)
        elif kind == "message_stop":
            self._add_ending("stop", value, _EVENT)
            self._end(events)
        elif kind != "message_start":
            events.append(Unknown(NAME, str(kind), frame.data))

    def _start(self, value: Object, events: list[Event]) -> None:
        self._is_started = True
        head = _object(value, "message") or {}
        model = text(head.get("model"))
        self._model = model if isinstance(model, str) else None
        self._message = {key: item for key, item in head.items() if key != "content"}
        fields = {key: item for key, item in head.items() if key not in _MODELLED}
        beside = {key: item for key, item in value.items() if key not in _EVENT}
        residue = None
        if fields or beside:
            part = write_json(beside) if beside else None
            residue = Residue(NAME, part, write_json(fields) if fields else None)
        events.append(Start(text(head.get("id")), model, source=NAME, residue=residue))
        counts = head.get("usage")
        if type(counts) is dict:
            self._usage = {**counts}
        usage = read_usage(self._usage)
        if usage is not absent:
            events.append(UsageReport(usage, _counted(usage, self._usage)))

    def _message_delta(self, value: Object) -> None:
        delta = _object(value, "delta") or {}
        for key, item in delta.items():
            # A later one that only counts tokens takes nothing back.
            if item or key not in _STOP:
                self._message[key] = item
        self._add_ending("delta", delta, _STOP)
        self._add_ending("event", value, _EVENT)
        counts = _object(value, "usage")
        if counts is not None:
            self._last_usage |= counts
            for key, item in counts.items():
                if item is not None or key not in self._usage:
                    self._usage[key] = item

    def _add_ending(self, level: str, fields: Object, known: Collection[str]) -> None:
        """Keep what only this dialect says of the end."""
        rest = {key: item for key, item in fields.items() if key not in known}
        if rest:
            self._ending[level] = {**self._ending.get(level, {}), **rest}

    def _end(self, events: list[Event]) -> None:
        self._is_over = True
        body = {**self._message, **self._ending.get("event", {})}
        word = body.get("stop_reason")
        finish = read_finish(word)
        if not isinstance(finish, FinishReason):
            events.append(Failure("the stream ended before the answer was complete", "incomplete"))
            return
        for index in list(self._open):
            self._block_stop(index, events)
        self._usage.setdefault("input_tokens", 0)
        usage = read_usage(self._usage)
        if "output_tokens" in self._usage and usage is not absent:
            counts = _counted(usage, self._last_usage) if self._last_usage else None
            events.append(UsageReport(usage, counts))
            body["usage"] = self._usage
        usual = stop_word(FINISH_WORDS[finish], has_calls=self._has_calls, is_refused=False)
        own = None if word == usual else word
        residue = None
        if self._ending or own is not None:
            residue = Residue(NAME, None, write_json(self._ending) if self._ending else None, own)
        stop = text(body.get("stop_sequence"))
        events.append(Finish(finish, stop, residue, self._around(body)))

    def _around(self, body: Object) -> Residue | None:
        """The residue of the whole answer; what a stream leaves out is no part of it."""
        whole = {**_ALWAYS, **body}
        *_, envelope = take_envelope(whole, self._apart)
        return None if envelope is None else Residue(NAME, None, envelope)

    # --- blocks --------------------------------------------------------------------------------

    def _block_start(self, value: Object, events: list[Event]) -> None:
        block, index = _required(value, "content_block"), _index(value)
        if index in self._open:
            return
        opened = self._open[index] = _OpenBlock(self._count, block)
        self._count += 1
        self._has_calls = self._has_calls or opened.kind == "invocation"
        opened.start(self._model, events)

    def _block_delta(self, value: Object, frame: Frame, events: list[Event]) -> None:
        delta, index = _required(value, "delta"), _index(value)
        opened = self._open.get(index)
        tag = delta.get("type")
        if opened is None:
            implied = _IMPLIED.get(str(tag))
            if implied is None or index < self._count:
                return
            start = {"index": index, "content_block": {"type": implied, implied: ""}}
            self._block_start(start, events)
            opened = self._open[index]
        files = opened.delta(value, delta, tag, frame.data, events)
        if files:
            block = self._apart.setdefault(str(opened.index), {"d": {"citations": {"i": {}}}})
            block["d"]["citations"]["i"] |= files

    def _block_stop(self, index: int, events: list[Event]) -> None:
        opened = self._open.pop(index, None)
        if opened is not None:
            opened.stop(events)


class _OpenBlock:
    """A block under way: known kinds give events at once, others when they are complete."""

    def __init__(self, index: int, block: Object) -> None:
        self.index = index
        self.block = block
        kind = block.get("type")
        self.tag = kind if type(kind) is str else "unknown"
        self.kind = _KINDS.get(self.tag)
        if self.kind == "invocation" and not _is_call(block):
            self.kind = None
        self.cited = 0
        self.json: list[str] = []
        # How the arguments begin, and whether they are told as they come.
        self.head = ""
        self.is_told = False
        # What texts of a block that is not known have grown by.
        self.texts: dict[str, list[str]] = {}

    def start(self, model: str | None, events: list[Event]) -> None:
        block = self.block
        origin = Origin(NAME, model)
        if self.tag == "redacted_thinking" and type(block.get("data")) is str:
            self.kind = "redacted"
            residue = _residue(block, "type", "data")
            events.append(PartStart(self.index, "reasoning", origin=origin, residue=residue))
            events.append(Delta(self.index, block["data"], "encrypted"))
        elif self.kind == "invocation":
            residue = _residue(block, "type", "id", "name", "input")
            call = (block["id"], block["name"])
            events.append(PartStart(self.index, "invocation", *call, residue=residue))
        elif self.kind is not None:
            residue = _residue(block, "type", "text", "thinking", "signature", "citations")
            bound = origin if self.kind == "reasoning" else None
            events.append(PartStart(self.index, self.kind, origin=bound, residue=residue))
            for key, channel in ((self.tag, "text"), ("signature", "signature")):
                if type(block.get(key)) is str and block[key]:
                    events.append(Delta(self.index, block[key], channel))

    def delta(
        self, value: Object, delta: Object, tag: Any, raw: str, events: list[Event]
    ) -> Object | None:
        """Add the events of a delta; give the file ids of a citation, by its position in the block."""
        if self.kind is None:
            self._keep(delta)
            return None
        known = _DELTAS.get(tag) if type(tag) is str else None
        if known is not None:
            key, channel = known
            words = delta.get(key)
            if type(words) is not str:
                raise DialectError(NAME, f"delta.{key}", f"expected a string, got {kind_of(words)}")
            if words:
                own = None
                if len(delta) > 2 or len(value) > 3:
                    own = _beside(value, delta, key)
                events.append(Delta(self.index, words, channel, 0, None, own))
        elif tag == "citations_delta" and type(delta.get("citation")) is dict:
            return self._cite(delta["citation"], events)
        elif tag == "input_json_delta" and self.kind == "invocation":
            if type(delta.get("partial_json")) is str:
                self._argue(delta["partial_json"], events)
        else:
            events.append(Unknown(NAME, str(tag), raw, str(self.index)))
        return None

    def _cite(self, citation: Object, events: list[Event]) -> Object | None:
        files = take_files([citation])
        own = Residue(NAME, write_json(files["0"])) if files else None
        cited = read_citation(citation)
        events.append(Delta(self.index, "", "citation", citation=cited, residue=own))
        self.cited += 1
        return {str(self.cited - 1): files["0"]} if files else None

    def _argue(self, words: str, events: list[Event]) -> None:
        """More arguments: they are told as they come, unless they begin like such as were wrapped."""
        if self.is_told:
            if words:
                events.append(Delta(self.index, words, "arguments"))
            return
        self.json.append(words)
        self.head += "".join(words.split())[: len(_WRAPPED) - len(self.head)]
        if not _WRAPPED.startswith(self.head):
            self.is_told = True
            events.append(Delta(self.index, "".join(self.json), "arguments"))

    def _keep(self, delta: Object) -> None:
        """Add a delta to a block that is not known: text grows, anything else is set."""
        for key, value in delta.items():
            if key == "partial_json" and type(value) is str:
                self.json.append(value)
            elif key != "type":
                if type(value) is str and type(self.block.get(key)) is str:
                    self.texts.setdefault(key, []).append(value)
                else:
                    self.texts.pop(key, None)
                    self.block[key] = value

    def stop(self, events: list[Event]) -> None:
        spelled = "".join(self.json)
        if self.kind == "invocation":
            if not self.is_told:
                words = _arguments(spelled, self.block.get("input"))
                events.append(Delta(self.index, words, "arguments"))
        elif self.kind is None:
            for key, pieces in self.texts.items():
                self.block[key] += "".join(pieces)
            if spelled.strip():
                try:
                    self.block["input"] = decode_json(spelled)
                except ValueError:
                    self.block["input"] = wrapped_input(spelled)
            content = new_opaque(NAME, self.tag, write_json(self.block))
            events.append(PartStart(self.index, "whole", content=content))
        events.append(PartEnd(self.index))


def _object(value: Object, key: str) -> Object | None:
    """An object of an event, or None if the event has none; anything else is an error."""
    found = value.get(key)
    if found is not None and type(found) is not dict:
        raise DialectError(NAME, key, f"expected an object, got {kind_of(found)}")
    return found


def _required(value: Object, key: str) -> Object:
    found = _object(value, key)
    if found is None:
        raise DialectError(
            NAME, key, "expected an object, got null" if key in value else "is required"
        )
    return found


def _index(value: Object) -> int:
    """The position of the block that an event is about."""
    index = value.get("index")
    if type(index) is not int:
        problem = f"expected a number, got {kind_of(index)}" if "index" in value else "is required"
        raise DialectError(NAME, "index", problem)
    return index


def _beside(value: Object, delta: Object, key: str) -> Residue:
    """What a delta says beyond its words, and its event beyond the delta."""
    rest = {name: item for name, item in delta.items() if name not in ("type", key)}
    around = {name: item for name, item in value.items() if name not in _EVENT}
    return Residue(NAME, write_json(rest) if rest else None, write_json(around) if around else None)


def _counted(usage: Usage, counts: Object) -> Residue | None:
    """A count of tokens as the server made it, where it is not the usual one."""
    return None if counts == write_usage(usage) else Residue(NAME, write_json({"v": counts}))


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


def _residue(block: Object, *taken: str) -> Residue | None:
    """What the start of a block says beyond its kind."""
    rest = {key: item for key, item in block.items() if key not in taken}
    return Residue(NAME, write_json({"s": rest})) if rest else None


def _failure(value: Object, raw: str) -> Failure:
    found = value.get("error")
    error: Object = found if type(found) is dict else {"message": found}
    message = str(error.get("message") or "unknown error")
    kind = str(error.get("type") or "api_error")
    return Failure(message, kind, raw=raw, dialect=NAME)

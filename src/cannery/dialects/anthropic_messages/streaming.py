"""Messages streams, both ways.

Blocks come one after the other, so the writer keeps parts that start while another is open until it is their turn, and
a call's arguments until they are complete, because they must add up to an object. Usage is cumulative: what
``message_delta`` says replaces what ``message_start`` said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from cannery.dialects.anthropic_messages.blocks import Object
from cannery.dialects.anthropic_messages.errors import error_body
from cannery.dialects.anthropic_messages.reading import read_citation
from cannery.dialects.anthropic_messages.responses import (
    FINISH_WORDS,
    UNNAMED,
    read_finish,
    read_usage,
    stop_word,
    write_usage,
)
from cannery.dialects.anthropic_messages.settings import NAME
from cannery.messages.absence import absent
from cannery.messages.content import (
    DataContentClass,
    OpaqueContentClass,
    Origin,
    TextualContentClass,
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
from cannery.wire.arguments import FREEFORM_INPUT, input_text, object_input, wrapped_input
from cannery.wire.bodies import encode, guarded
from cannery.wire.contract import StreamOptions
from cannery.wire.controls import text
from cannery.wire.residues import own_residue, patch_text, recall
from cannery.wire.sse import Frame, FrameReader, named_frame, one_line
from cannery.wire.streams import read_chunk

_KINDS = {"text": "text", "thinking": "reasoning", "tool_use": "invocation"}
_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "text"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "arguments"),
}
_IMPLIED = {"text_delta": "text", "thinking_delta": "thinking"}
# What follows the words of a delta of text, two quotes for the words themselves first.
_AFTER_TEXT = b'""}}\n\n'


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
        if self._is_over or not frame.data.strip():
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
        yield Start(text(head.get("id")), model)
        self._count_tokens(head.get("usage"))
        usage = read_usage(self._usage)
        if usage is not absent:
            yield UsageReport(usage)

    def _count_tokens(self, usage: Any) -> None:
        if type(usage) is dict:
            self._usage.update({key: item for key, item in usage.items() if item is not None})

    def _message_delta(self, value: Object) -> None:
        delta = value.get("delta")
        if type(delta) is dict:
            self._finish = read_finish(delta.get("stop_reason"))
            self._stop_sequence = text(delta.get("stop_sequence"))
        self._count_tokens(value.get("usage"))

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
            yield UsageReport(usage)
        yield Finish(self._finish, self._stop_sequence)

    # --- blocks --------------------------------------------------------------------------------

    def _block_start(self, value: Object) -> Iterator[Event]:
        block = value.get("content_block")
        index = value.get("index")
        if type(block) is not dict or type(index) is not int or index in self._open:
            return
        opened = self._open[index] = _OpenBlock(self._count, block)
        self._count += 1
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
            citation = read_citation(delta["citation"])
            yield Delta(self.index, "", "citation", citation=citation)
        elif tag == "input_json_delta" and self.kind == "invocation":
            if type(delta.get("partial_json")) is str:
                self.json.append(delta["partial_json"])
        elif tag in _DELTAS:
            key, channel = _DELTAS[tag]
            if type(delta.get(key)) is str and delta[key] and channel != "arguments":
                yield Delta(self.index, delta[key], channel)
        else:
            yield Unknown(NAME, tag, raw)

    def _keep(self, delta: Object) -> None:
        """Add a delta to a block that nobody here knows: text grows, anything else is set."""
        for key, value in delta.items():
            if key == "partial_json" and type(value) is str:
                self.json.append(value)
            elif key != "type":
                old = self.block.get(key)
                grows = type(old) is str and type(value) is str
                self.block[key] = old + value if grows else value

    def stop(self) -> Iterator[Event]:
        spelled = "".join(self.json)
        if self.kind == "invocation":
            words = _arguments(spelled, self.block.get("input"))
            yield Delta(self.index, words, "arguments")
        elif self.kind is None:
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
    error: Object = found if type(found) is dict else {}
    message = str(error.get("message") or "unknown error")
    return Failure(message, str(error.get("type") or "api_error"), raw=raw)


class _Part:
    """A part that waits for its turn, or is being written."""

    def __init__(self, start: PartStart) -> None:
        self.start = start
        self.waiting: list[Delta] = []
        self.is_ended = False
        self.is_written = False
        self.index = -1
        self.channel = ""
        self.segment = 0
        self.arguments: list[str] = []
        self.signature: list[str] = []
        # What stands before the words of a delta of text, written once.
        self.before_text = b""


class MessagesStreamWriter:
    """Takes events and gives the bytes of named events."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._start = Start()
        self._usage = Usage()
        self._is_begun = False
        self._is_over = False
        self._parts: dict[int, _Part] = {}
        self._queue: list[_Part] = []
        self._count = 0
        self._has_calls = False
        self._is_refused = False

    def write(self, event: Event) -> bytes:
        """The bytes of one event; may be empty."""
        if self._is_over:
            return b""
        match event:
            case Delta():
                return self._delta(event)
            case Start():
                self._start = event
                return b""
            case UsageReport():
                self._usage = event.usage
                return b""
            case PartStart():
                return self._begin() + self._part_start(event)
            case PartEnd():
                return self._part_end(event)
            case Finish():
                return self._begin() + self._finish(event)
            case Failure():
                self._is_over = True
                return named_frame("error", error_body(event.message, event.kind, event.status))
            case Unknown():
                if event.dialect != NAME or event.name.endswith("_delta"):
                    return b""
                return self._begin() + named_frame(event.name, decode_json(event.json))

    def close(self) -> bytes:
        """The bytes that end the stream."""
        return b""

    def _begin(self) -> bytes:
        if self._is_begun:
            return b""
        self._is_begun = True
        start = self._start
        named = start.model if isinstance(start.model, str) else ""
        message: Object = {
            "id": UNNAMED if start.identifier is absent else start.identifier,
            "type": "message",
            "role": "assistant",
            "model": self._options.model or named,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": write_usage(self._usage),
        }
        return named_frame("message_start", {"type": "message_start", "message": message})

    # --- parts ---------------------------------------------------------------------------------

    def _part_start(self, event: PartStart) -> bytes:
        part = self._parts[event.index] = _Part(event)
        self._queue.append(part)
        self._has_calls = self._has_calls or event.kind == "invocation"
        self._is_refused = self._is_refused or event.kind == "refusal"
        return self._open(part) if self._queue[0] is part else b""

    def _delta(self, event: Delta) -> bytes:
        part = self._parts.get(event.index)
        if part is None or part.is_ended:
            return b""
        if self._queue[0] is part:
            return self._write_delta(part, event)
        part.waiting.append(event)
        return b""

    def _part_end(self, event: PartEnd) -> bytes:
        part = self._parts.get(event.index)
        if part is None or part.is_ended:
            return b""
        part.is_ended = True
        return self._advance()

    def _advance(self) -> bytes:
        """Close what has ended and open what waits, in the order of the starts."""
        written = b""
        while self._queue and self._queue[0].is_ended:
            written += self._close(self._queue.pop(0))
            if self._queue:
                following = self._queue[0]
                written += self._open(following)
                for delta in following.waiting:
                    written += self._write_delta(following, delta)
                following.waiting = []
        return written

    def _open(self, part: _Part) -> bytes:
        """Open a part whose block is known from its start; thoughts wait for their first words."""
        start = part.start
        match start.kind:
            case "text" | "refusal":
                return self._block_start(part, {"type": "text", "text": ""})
            case "invocation":
                block: Object = {
                    "type": "tool_use",
                    "id": start.identifier,
                    "name": start.name,
                    "input": {},
                }
                return self._block_start(part, block)
            case "whole":
                return self._whole(part)
            case _:
                return b""

    def _block_start(self, part: _Part, block: Object) -> bytes:
        part.index = self._count
        part.is_written = True
        self._count += 1
        residue = own_residue(part.start, NAME)
        if residue is not None:
            block = recall(block, residue.part)
        event = {"type": "content_block_start", "index": part.index, "content_block": block}
        return named_frame("content_block_start", event)

    def _block_delta(self, part: _Part, tag: str, key: str, value: Any) -> bytes:
        delta = {"type": tag, key: value}
        event = {"type": "content_block_delta", "index": part.index, "delta": delta}
        return named_frame("content_block_delta", event)

    def _whole(self, part: _Part) -> bytes:
        content = part.start.content
        if isinstance(content, OpaqueContentClass) and content.dialect == NAME:
            block = decode_json(content.json)
            asked = block.get("input") if type(block) is dict else None
            if type(asked) is not dict or not str(block.get("type")).endswith("tool_use"):
                return self._block_start(part, block)
            spelled = encode(asked).decode()
            opened = self._block_start(part, {**block, "input": {}})
            if not asked:
                return opened
            return opened + self._block_delta(part, "input_json_delta", "partial_json", spelled)
        if isinstance(content, (TextualContentClass, DataContentClass)):
            said = content.json if isinstance(content, DataContentClass) else content.text
            opened = self._block_start(part, {"type": "text", "text": ""})
            return opened + self._block_delta(part, "text_delta", "text", said)
        return b""

    def _write_delta(self, part: _Part, event: Delta) -> bytes:
        if event.channel == "arguments":
            part.arguments.append(event.text)
        elif part.start.kind == "reasoning":
            return self._think(part, event)
        elif event.channel == "citation":
            if event.citation is not None and event.citation.dialect == NAME:
                raw = decode_json(event.citation.raw)
                return self._block_delta(part, "citations_delta", "citation", raw)
        elif event.channel == "text" and event.text and part.is_written:
            if not part.before_text:
                delta = self._block_delta(part, "text_delta", "text", "")
                part.before_text = delta.removesuffix(_AFTER_TEXT)
            return part.before_text + one_line(event.text) + _AFTER_TEXT[2:]
        return b""

    def _think(self, part: _Part, event: Delta) -> bytes:
        origin = part.start.origin
        is_own = origin is not None and origin.dialect == NAME
        if event.channel == "encrypted":
            if not is_own or part.is_written:
                return b""
            return self._block_start(part, {"type": "redacted_thinking", "data": event.text})
        if event.channel == "signature":
            if is_own:
                part.signature.append(event.text)
            return b""
        if event.channel not in (part.channel or event.channel, "text") or not event.text:
            return b""
        words = event.text
        if part.channel and event.segment != part.segment:
            words = "\n\n" + words
        part.channel, part.segment = event.channel, event.segment
        return self._thought(part) + self._block_delta(part, "thinking_delta", "thinking", words)

    def _thought(self, part: _Part) -> bytes:
        if part.is_written:
            return b""
        return self._block_start(part, {"type": "thinking", "thinking": "", "signature": ""})

    def _close(self, part: _Part) -> bytes:
        start = part.start
        written = b""
        if start.kind == "reasoning" and part.signature:
            signature = "".join(part.signature)
            written = self._thought(part)
            written += self._block_delta(part, "signature_delta", "signature", signature)
        if start.kind == "invocation":
            written = self._arguments(part)
        if not part.is_written:
            return b""
        event = {"type": "content_block_stop", "index": part.index}
        return written + named_frame("content_block_stop", event)

    def _arguments(self, part: _Part) -> bytes:
        said = "".join(part.arguments)
        spelled: Any = {FREEFORM_INPUT: said} if part.start.is_freeform else object_input(said)
        if spelled is None:
            spelled = wrapped_input(said)
        if spelled == {}:
            return b""
        return self._block_delta(part, "input_json_delta", "partial_json", encode(spelled).decode())

    # --- end -----------------------------------------------------------------------------------

    def _finish(self, event: Finish) -> bytes:
        written = b""
        for part in self._queue:
            part.is_ended = True
        written += self._advance()
        self._is_over = True
        word = stop_word(
            FINISH_WORDS[event.reason], has_calls=self._has_calls, is_refused=self._is_refused
        )
        stop = None if event.stop_sequence is absent else event.stop_sequence
        body: Object = {
            "type": "message_delta",
            "delta": {"stop_reason": word, "stop_sequence": stop},
            "usage": write_usage(self._usage),
        }
        written += named_frame("message_delta", body)
        return written + named_frame("message_stop", {"type": "message_stop"})

"""Converse streams, both ways: AWS event stream messages, named by their event.

Text and thoughts have no start event; the tokens come behind the end, so that the answer is complete with them. Blocks
come one after the other: when writing, parts that start while another is open wait for their turn, and a call's
arguments until they are complete, because they must add up to an object. ``p`` in events is mere padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.dialects.bedrock_converse.reading import TYPED, ConverseReader, read_citation
from cannery.dialects.bedrock_converse.responses import (
    FINISH_WORDS,
    read_usage,
    stop_word,
    take_envelope,
    write_usage,
)
from cannery.dialects.bedrock_converse.tools import NAME
from cannery.dialects.bedrock_converse.writing import ConverseWriter
from cannery.errors import DialectError, MessageError
from cannery.messages.absence import absent
from cannery.messages.content import Origin
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
from cannery.messages.requests import Usage
from cannery.messages.residue import Residue
from cannery.wire.arguments import (
    FREEFORM_INPUT,
    RAW_ARGUMENTS,
    input_text,
    object_input,
    wrapped_input,
)
from cannery.wire.blocks_in_turn import BlockWriter, Part
from cannery.wire.bodies import Object, encode, kind_of
from cannery.wire.contract import StreamOptions
from cannery.wire.framing import AWS_EVENT_STREAM
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import own_residue
from cannery.wire.sse import Frame
from cannery.wire.streams import (
    own_failure,
    own_fields,
    own_word,
    read_chunk,
    too_deep,
)

_EXCEPTION = "Exception"
_PADDING = "p"
# How arguments begin that were wrapped to be an object, white space aside.
_WRAPPED = f'{{"{RAW_ARGUMENTS}"'
_TOLD = ("usage", "stopReason")


class ConverseStreamReader:
    """Takes the bytes of a stream and gives events."""

    def __init__(self) -> None:
        self._frames = AWS_EVENT_STREAM.reader()
        self._is_started = False
        self._is_over = False
        # What stands around the answer: at its end, and behind it.
        self._stop: Object | None = None
        self._metadata: Object = {}
        self._open: dict[int, _OpenBlock] = {}
        self._closed: set[int] = set()
        self._count = 0
        self._has_calls = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        try:
            for frame in self._frames.feed(chunk):
                yield from self._frame(frame)
        except DialectError as error:
            # What is damaged is told of the framing.
            raise DialectError(NAME, error.path, error.problem) from None

    def close(self) -> Iterator[Event]:
        """The events that the end of the stream completes."""
        for frame in self._frames.close():
            yield from self._frame(frame)
        if not self._is_over:
            yield from self._end()

    def _frame(self, frame: Frame) -> list[Event]:
        if self._is_over:
            return []
        try:
            return [*self._events(frame)]
        except RecursionError:
            raise too_deep(NAME) from None
        except MessageError as error:
            raise DialectError(NAME, "$", str(error)) from None

    def _events(self, frame: Frame) -> Iterator[Event]:
        value = read_chunk(NAME, frame.data or "{}")
        value.pop(_PADDING, None)
        name = frame.name
        if name.endswith(_EXCEPTION):
            self._is_over = True
            message = value.get("message")
            told = message if type(message) is str and message else name
            yield Failure(told, name, raw=frame.data or "{}", dialect=NAME)
            return
        if not self._is_started:
            self._is_started = True
            yield Start(source=NAME)
        if name == "contentBlockDelta":
            yield from self._delta(value)
        elif name == "contentBlockStart":
            yield from self._block_start(value)
        elif name == "contentBlockStop":
            index = _index(value)
            yield from self._block_stop(index)
        elif name == "messageStop":
            self._stop = {**(self._stop or {}), **value}
        elif name == "metadata":
            self._metadata |= value
            if self._stop is not None:
                yield from self._end()
        elif name != "messageStart":
            yield Unknown(NAME, name, frame.data)

    def _end(self) -> Iterator[Event]:
        self._is_over = True
        body = {**self._metadata, **(self._stop or {})}
        if type(body.get("stopReason")) is not str:
            yield Failure("the stream ended before the answer was complete", "incomplete")
            return
        for index in list(self._open):
            yield from self._block_stop(index)
        word = body["stopReason"]
        usage = read_usage(body.get("usage"))
        counts = body.get("usage")
        finish, _, patch = take_envelope(body, {})
        if usage is not absent:
            own = None if counts == write_usage(usage) else Residue(NAME, write_json({"v": counts}))
            yield UsageReport(usage, own)
        usual = stop_word(FINISH_WORDS[finish], has_calls=self._has_calls, is_refused=False)
        stop = {key: item for key, item in (self._stop or {}).items() if key not in _TOLD}
        metadata = {key: item for key, item in self._metadata.items() if key not in _TOLD}
        beside = {key: each for key, each in (("stop", stop), ("metadata", metadata)) if each}
        residue = None
        if beside or word != usual:
            told = write_json(beside) if beside else None
            residue = Residue(NAME, None, told, None if word == usual else word)
        around = None if patch is None else Residue(NAME, None, encode(patch).decode())
        yield Finish(finish, absent, residue, around)

    # --- blocks --------------------------------------------------------------------------------

    def _opened(self, index: int, kind: str, start: Object | None = None) -> _OpenBlock:
        opened = self._open[index] = _OpenBlock(self._count, kind, start or {})
        self._count += 1
        return opened

    def _block_start(self, value: Object) -> Iterator[Event]:
        index, start = _index(value), _object(value, "start")
        if index in self._open or index in self._closed:
            return
        call = start.get("toolUse")
        if type(call) is dict and call.get("type") in (None, TYPED) and _is_call(call):
            opened = self._opened(index, "invocation", call)
            self._has_calls = True
            yield opened.call()
        elif start:
            self._opened(index, "whole", start)

    def _delta(self, value: Object) -> Iterator[Event]:
        index, delta = _index(value), _object(value, "delta")
        opened = self._open.get(index)
        if index in self._closed:
            return
        if opened is None:
            thought = delta.get("reasoningContent")
            if type(thought) is dict:
                opened = self._opened(index, "reasoning")
                yield PartStart(opened.index, "reasoning", origin=Origin(NAME))
            elif "text" in delta or "citation" in delta:
                opened = self._opened(index, "text")
                yield PartStart(opened.index, "text")
            else:
                opened = self._opened(index, "whole")
        yield from opened.delta(delta)

    def _block_stop(self, index: int) -> Iterator[Event]:
        opened = self._open.pop(index, None)
        if opened is not None:
            self._closed.add(index)
            yield from opened.stop()


class _OpenBlock:
    """A block under way: known kinds give events at once, others when they are complete."""

    def __init__(self, index: int, kind: str, start: Object) -> None:
        self.index = index
        self.kind = kind
        self.start = start
        self.arguments: list[str] = []
        # How the arguments begin, and whether they are told as they come.
        self.head = ""
        self.is_told = False
        self.deltas: list[Object] = []

    def call(self) -> PartStart:
        left = {key: item for key, item in self.start.items() if key not in ("toolUseId", "name")}
        form = TYPED if left.get("type") == TYPED else None
        left.pop("type", None)
        part = write_json({"d": {"toolUse": {"s": left}}}) if left else None
        residue = Residue(NAME, part, None, form) if part or form else None
        call = (self.start["toolUseId"], self.start["name"])
        return PartStart(self.index, "invocation", *call, residue=residue)

    def delta(self, delta: Object) -> Iterator[Event]:
        """The events of a delta."""
        if self.kind == "whole":
            self.deltas.append(delta)
        elif self.kind == "invocation":
            yield from self._argue(_object(delta, "toolUse").get("input"))
        elif self.kind == "reasoning":
            yield from self._think(_object(delta, "reasoningContent"))
        elif type(delta.get("citation")) is dict:
            yield Delta(self.index, "", "citation", citation=read_citation(delta["citation"]))
        else:
            yield from self._say(delta.get("text"), "text")

    def _say(self, words: Any, channel: str) -> Iterator[Event]:
        if type(words) is not str:
            raise DialectError(NAME, f"delta.{channel}", f"expected a string, got {kind_of(words)}")
        if words:
            yield Delta(self.index, words, channel)

    def _think(self, thought: Object) -> Iterator[Event]:
        for key, channel in (
            ("text", "text"),
            ("signature", "signature"),
            ("redactedContent", "encrypted"),
        ):
            if key in thought:
                yield from self._say(thought[key], channel)

    def _argue(self, words: Any) -> Iterator[Event]:
        """More arguments: they are told as they come, unless they begin like such as were wrapped."""
        if type(words) is not str:
            problem = f"expected a string, got {kind_of(words)}"
            raise DialectError(NAME, "delta.toolUse.input", problem)
        if self.is_told:
            if words:
                yield Delta(self.index, words, "arguments")
            return
        self.arguments.append(words)
        self.head += "".join(words.split())[: len(_WRAPPED) - len(self.head)]
        if not _WRAPPED.startswith(self.head):
            self.is_told = True
            yield Delta(self.index, "".join(self.arguments), "arguments")

    def stop(self) -> Iterator[Event]:
        """The events of the end of a block."""
        if self.kind == "invocation" and not self.is_told:
            yield Delta(self.index, _unwrapped("".join(self.arguments)), "arguments")
        elif self.kind == "whole":
            held, patch, words = ConverseReader(NAME, Places()).block(
                self._whole(), (), is_answer=True
            )
            part = None if patch is None else encode(patch).decode()
            residue = Residue(NAME, part, None, " ".join(words) or None) if part or words else None
            yield PartStart(self.index, "whole", content=held, residue=residue)
        yield PartEnd(self.index)

    def _whole(self) -> Object:
        """The block that a start and its deltas add up to."""
        kind = next(iter(self.start or (self.deltas[0] if self.deltas else {"unknown": {}})))
        found = self.start.get(kind)
        block: Object = {**found} if type(found) is dict else {}
        for delta in self.deltas:
            more = delta.get(kind)
            if kind == "toolUse" and type(more) is dict and type(more.get("input")) is str:
                self.arguments.append(more["input"])
            elif type(more) is list:
                block.setdefault("content", []).extend(more)
            elif type(more) is dict:
                block |= more
        if kind == "toolUse":
            spelled = "".join(self.arguments)
            found = object_input(spelled)
            block["input"] = (
                wrapped_input(spelled) if found is None else decode_json(spelled or "{}")
            )
        elif kind == "toolResult":
            block.setdefault("content", [])
        return {kind: block}


def _object(value: Object, key: str) -> Object:
    found = value.get(key)
    if type(found) is not dict:
        problem = f"expected an object, got {kind_of(found)}" if key in value else "is required"
        raise DialectError(NAME, key, problem)
    return found


def _index(value: Object) -> int:
    """The position of the block that an event is about."""
    index = value.get("contentBlockIndex")
    if type(index) is not int:
        raise DialectError(NAME, "contentBlockIndex", "expected a number")
    return index


def _is_call(call: Object) -> bool:
    return all(type(call.get(key)) is str and call[key] for key in ("toolUseId", "name"))


def _unwrapped(spelled: str) -> str:
    """The arguments that were wrapped in an object, or the object."""
    if not spelled.strip():
        return "{}"
    if object_input(spelled) is None:
        return spelled
    unwrapped = input_text(decode_json(spelled))
    return unwrapped if object_input(unwrapped) is None else spelled


# --- writing -----------------------------------------------------------------------------------


class ConverseStreamWriter(BlockWriter[Part]):
    """Takes events and gives the bytes of messages."""

    dialect = NAME

    def __init__(self, options: StreamOptions) -> None:
        super().__init__(Part)
        self._options = options
        self._source: str | None = None
        self._is_begun = False
        self._count = 0
        # White space that waits for the words of a text.
        self._blank = ""
        self._usage = UsageReport(Usage())
        self._finish: Finish | None = None

    def start(self, event: Start) -> bytes:
        """Begin the answer."""
        self._source = event.source
        return self._begin()

    def _begin(self) -> bytes:
        if self._is_begun:
            return b""
        self._is_begun = True
        return AWS_EVENT_STREAM.write("messageStart", {"role": "assistant"})

    def count(self, event: UsageReport) -> None:
        """Keep the last count of tokens."""
        self._usage = event

    def unknown(self, event: Unknown) -> bytes:
        """What only this dialect understands."""
        return AWS_EVENT_STREAM.write(event.name, read_chunk(NAME, event.json))

    def fail(self, event: Failure) -> bytes:
        """End the answer with an exception."""
        self.is_over = True
        own = own_failure(event, NAME)
        body = {"message": event.message} if own is None else own
        return AWS_EVENT_STREAM.write(_exception(event), body)

    def finish(self, event: Finish) -> bytes:
        """Keep the end: tokens may come behind it."""
        for part in self._parts.values():
            part.is_ended = True
        self._finish = event
        return self._advance()

    def close(self) -> bytes:
        """The end of the answer, and its tokens."""
        event = self._finish
        if event is None or self.is_over:
            return b""
        self.is_over = True
        beside = own_fields(event, NAME)
        word = own_word(event, NAME) or stop_word(
            FINISH_WORDS[event.reason], has_calls=self._has_calls, is_refused=self._is_refused
        )
        stop = {"stopReason": word, **beside.get("stop", {})}
        metadata = {
            "usage": self._counts(),
            "metrics": {"latencyMs": 0},
            **beside.get("metadata", {}),
        }
        write = AWS_EVENT_STREAM.write
        return self._begin() + write("messageStop", stop) + write("metadata", metadata)

    def _counts(self) -> Object:
        residue = own_residue(self._usage, NAME)
        if residue is not None and residue.part is not None:
            return decode_json(residue.part)["v"]  # type: ignore[no-any-return]
        return write_usage(self._usage.usage)

    # --- parts ---------------------------------------------------------------------------------

    def _open(self, part: Part) -> bytes:
        start = part.start
        if start.kind == "invocation":
            call = {"toolUseId": start.identifier, "name": start.name}
            residue = own_residue(start, NAME)
            if residue is not None:
                if residue.form == TYPED:
                    call["type"] = TYPED
                if residue.part is not None:
                    call |= decode_json(residue.part)["d"]["toolUse"]["s"]
            return self._block_start(part, {"toolUse": call})
        return self._whole(part) if start.kind == "whole" else b""

    def _block_start(self, part: Part, start: Object) -> bytes:
        part.is_written = True
        event = {"start": start, "contentBlockIndex": self._count}
        return AWS_EVENT_STREAM.write("contentBlockStart", event)

    def _block_delta(self, part: Part, delta: Object) -> bytes:
        part.is_written = True
        event = {"delta": delta, "contentBlockIndex": self._count}
        return AWS_EVENT_STREAM.write("contentBlockDelta", event)

    def _write_delta(self, part: Part, event: Delta) -> bytes:
        if event.channel == "arguments":
            part.arguments.append(event.text)
        elif part.start.kind == "reasoning":
            return self._think(part, event)
        elif event.channel == "citation":
            return self._cite(part, event)
        elif event.channel == "text" and event.text:
            # For another dialect white space waits for words to come, since no request may hold a blank text.
            self._blank += event.text
            if part.is_written or self._source == NAME or not event.text.isspace():
                said, self._blank = self._blank, ""
                return self._block_delta(part, {"text": said})
        return b""

    def _cite(self, part: Part, event: Delta) -> bytes:
        citation = event.citation
        if citation is None:
            return b""
        if citation.dialect == NAME:
            return self._block_delta(part, {"citation": decode_json(citation.raw)})
        if not citation.url:
            return b""
        said: Object = {"location": {"web": {"url": citation.url}}}
        if citation.title is not None:
            said["title"] = citation.title
        return self._block_delta(part, {"citation": said})

    def _think(self, part: Part, event: Delta) -> bytes:
        origin = part.start.origin
        is_own = origin is not None and origin.dialect == NAME
        key = {"encrypted": "redactedContent", "signature": "signature"}.get(event.channel)
        if key is not None:
            return self._thought(part, key, event.text) if is_own else b""
        return self._thought(part, "text", part.thoughts.joined(event)) if event.text else b""

    def _thought(self, part: Part, key: str, words: str) -> bytes:
        return self._block_delta(part, {"reasoningContent": {key: words}})

    def _whole(self, part: Part) -> bytes:
        """A part that comes at once: its block taken apart into a start and a delta."""
        writer = ConverseWriter(Report(), is_same=self._source == NAME, for_answer=True)
        content: Any = part.start.content
        blocks = writer.whole(content, own_residue(part.start, NAME))
        if not blocks or not blocks[0]:
            return b""
        kind, held = next(iter(blocks[0].items()))
        if kind == "text":
            return self._block_delta(part, {"text": held}) if type(held) is str and held else b""
        if type(held) is not dict or kind not in ("toolUse", "toolResult", "image"):
            return self._block_delta(part, {kind: held})
        later = {"toolUse": ("input",), "toolResult": ("content",), "image": ("source", "error")}[
            kind
        ]
        start = {key: item for key, item in held.items() if key not in later}
        delta: Any = {key: held[key] for key in later if key in held}
        if kind == "toolUse":
            delta = {"input": encode(held.get("input", {})).decode()}
        elif kind == "toolResult":
            delta = held.get("content", [])
        opened = self._block_start(part, {kind: start})
        return opened + (self._block_delta(part, {kind: delta}) if delta else b"")

    def _close(self, part: Part) -> bytes:
        written = b""
        if part.start.kind == "invocation":
            words = "".join(part.arguments)
            written = self._block_delta(part, {"toolUse": {"input": self._input(part, words)}})
        elif not part.is_written:
            return b""
        event = {"contentBlockIndex": self._count}
        self._count += 1
        return written + AWS_EVENT_STREAM.write("contentBlockStop", event)

    def _input(self, part: Part, words: str) -> str:
        """The text of an object that holds the arguments."""
        if part.start.is_freeform:
            return write_json({FREEFORM_INPUT: words})
        if not words.strip():
            return "{}"
        if object_input(words) is None and self._source != NAME:
            return write_json(wrapped_input(words))
        return words


def _exception(event: Failure) -> str:
    """The exception of the service that a failure is."""
    if event.dialect == NAME and event.kind.endswith(_EXCEPTION):
        return event.kind
    told = f"{event.status} {event.kind}".lower()
    for name, signs in (
        ("throttlingException", ("429", "rate_limit", "throttl", "resource_exhausted")),
        ("serviceUnavailableException", ("503", "529", "overloaded", "unavailable")),
        ("validationException", ("400", "invalid_request")),
        ("modelStreamErrorException", ("upstream_", "incomplete")),
    ):
        if any(sign in told for sign in signs):
            return name
    return "internalServerException"

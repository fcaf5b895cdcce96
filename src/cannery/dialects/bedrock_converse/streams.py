"""Converse streams, both ways: AWS event stream messages, named by their event.

Text and thoughts have no start event; usage follows the end event and completes the response. Blocks come one after the
other. When writing, a call's arguments wait until they are complete, because together they must be an object. ``p`` in
events is padding.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.bedrock_converse.reading import (
    BEHIND,
    TYPED,
    ConverseReader,
    read_citation,
)
from cannery.dialects.bedrock_converse.responses import (
    ANSWERS,
    COUNTS,
    FINISHES,
)
from cannery.dialects.bedrock_converse.tools import NAME
from cannery.dialects.bedrock_converse.writing import ConverseWriter, web_citation
from cannery.families.bedrock.errors import stream_exception
from cannery.messages.absence import absent
from cannery.messages.events import (
    Delta,
    Failure,
    Finish,
    PartEnd,
    PartStart,
    Start,
    Unknown,
    UsageReport,
)
from cannery.messages.json_text import decode_json
from cannery.messages.requests import Usage
from cannery.messages.residue import Residue
from cannery.wire.arguments import call_input, object_input, wrapped_input
from cannery.wire.bodies import Object, encode
from cannery.wire.framing import AWS_EVENT_STREAM
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import form_words, own_residue
from cannery.wire.sse import Frame
from cannery.wire.stream_reading import EventReader, OpenArguments, OpenPart, left_of, object_of
from cannery.wire.stream_writing import EventWriter, Thoughts, WrittenPart

_EXCEPTION = "Exception"
_PADDING = "p"
_INDEX = "contentBlockIndex"
_TOLD = ("usage", "stopReason")
_THOUGHT = {"text": "text", "signature": "signature", "redactedContent": "encrypted"}
# Fields of a block's delta that its start does not have.
_LATER = {"toolUse": ("input",), "toolResult": ("content",), "image": ("source", "error")}


class _Block(OpenPart):
    """An open block: known kinds give events at once, others when they are complete."""

    def __init__(self, index: int, kind: str) -> None:
        super().__init__(index, kind)
        self.start: Object = {}
        self.arguments = OpenArguments()
        self.deltas: list[Object] = []

    # Whether a text is not empty, and whether its citations are in a block after it.
    has_words = False
    is_behind = False

    def whole(self) -> Object:
        """The block built from a start and its deltas."""
        kind = next(iter(self.start or (self.deltas[0] if self.deltas else {"unknown": {}})))
        block: Object = {**object_of(self.start.get(kind))}
        for delta in self.deltas:
            more = delta.get(kind)
            if kind == "toolUse" and type(more) is dict and type(more.get("input")) is str:
                self.words.append(more["input"])
            elif type(more) is list:
                block.setdefault("content", []).extend(more)
            elif type(more) is dict:
                block |= more
        if kind == "toolUse":
            spelled = "".join(self.words)
            is_object = object_input(spelled) is not None
            block["input"] = decode_json(spelled or "{}") if is_object else wrapped_input(spelled)
        elif kind == "toolResult":
            block.setdefault("content", [])
        return {kind: block}


class ConverseStreamReader(EventReader[_Block]):
    """Consumes the bytes of a stream and gives events."""

    dialect = NAME
    framing = AWS_EVENT_STREAM
    part = _Block
    starts = "messageStart"

    def __init__(self) -> None:
        super().__init__()
        # The fields around the content: at its end, and after it.
        self._stop: Object | None = None
        self._metadata: Object = {}
        self._closed: set[int] = set()
        # A text whose block has ended, and which the next block may cite.
        self._text: int | None = None

    def name_of(self, value: Object, frame: Frame) -> str:
        """The name of the message."""
        value.pop(_PADDING, None)
        return frame.name

    def failure(self, kind: str, value: Object, data: str) -> Failure | None:
        """An exception."""
        if not kind.endswith(_EXCEPTION):
            return None
        message = value.get("message")
        told = message if type(message) is str and message else kind
        return Failure(told, kind, raw=data or "{}", dialect=NAME)

    def _message_stop(self, value: Object, _frame: Frame) -> None:
        self._stop = {**(self._stop or {}), **value}

    def _metadata_event(self, value: Object, _frame: Frame) -> None:
        self._metadata |= value
        if self._stop is not None:
            self.end()

    def end(self) -> None:
        """End the open parts, and the response if it gave a finish reason."""
        self._is_over = True
        stop = self._stop or {}
        body = {**self._metadata, **stop}
        word, counts = body.get("stopReason"), body.get("usage")
        if type(word) is not str:
            super().end()
            return
        for index in [*self._open]:
            self._close(index)
        self._end_parts()
        answer = ANSWERS.read(body, [], Places(), {})
        if isinstance(answer.usage, Usage):
            self._report_usage(answer.usage, object_of(counts), COUNTS.write(answer.usage))
        finish: Any = answer.finish
        usual = FINISHES.word(finish, has_calls=self._has_calls)
        told = {"stop": left_of(stop, _TOLD), "metadata": left_of(self._metadata, _TOLD)}
        beside = {key: each for key, each in told.items() if each}
        residue = self._kept(None, beside, None if word == usual else word)
        self._out.append(Finish(finish, absent, residue, answer.residue))

    # --- blocks --------------------------------------------------------------------------------

    def _block_start(self, value: Object, _frame: Frame) -> None:
        index, start = self._index(value, _INDEX), self._object(value, "start")
        if index in self._open or index in self._closed:
            return
        self._end_text()
        call = object_of(start.get("toolUse"))
        if call.get("type") in (None, TYPED) and _is_call(call):
            left = left_of(call, ("toolUseId", "name", "type"))
            form = TYPED if call.get("type") == TYPED else None
            residue = self._kept({"d": {"toolUse": {"s": left}}} if left else None, None, form)
            named = {"identifier": call["toolUseId"], "name": call["name"]}
            self._start_part(index, "invocation", **named, residue=residue)
        elif start:
            self._take_part(index, "whole").start = start

    def _block_delta(self, value: Object, _frame: Frame) -> None:
        index, delta = self._index(value, _INDEX), self._object(value, "delta")
        if index in self._closed:
            return
        part = self._open.get(index) or self._implied(index, delta)
        if part.kind == "whole":
            part.deltas.append(delta)
        elif part.kind == "invocation":
            words = self._words(self._object(delta, "toolUse"), "input", "delta.toolUse.input")
            self._add(part, part.arguments.add(words), "arguments")
        elif part.kind == "reasoning":
            thought = self._object(delta, "reasoningContent")
            for key, channel in _THOUGHT.items():
                if key in thought:
                    self._add(part, self._words(thought, key, f"delta.{channel}"), channel)
        elif type(delta.get("citation")) is dict:
            part.deltas.append(delta)
            citation = read_citation(delta["citation"])
            self._out.append(Delta(part.index, "", "citation", 0, citation, self._behind(part)))
        else:
            if part.is_behind:
                self._end_part(index, self._behind(part))
                part = self._start_part(index, "text")
            words = self._words(delta, "text", "delta.text")
            part.has_words = part.has_words or bool(words)
            self._add(part, words)

    def _implied(self, index: int, delta: Object) -> _Block:
        """Start a block at its first delta; a block that begins with a citation belongs to the text before it."""
        if self._text is not None and type(delta.get("citation")) is dict:
            part = self._open[index] = self._open.pop(self._text)
            part.is_behind, self._text = True, None
            return part
        self._end_text()
        if type(delta.get("reasoningContent")) is dict:
            return self._start_part(index, "reasoning")
        is_text = "text" in delta or "citation" in delta
        return self._start_part(index, "text") if is_text else self._take_part(index, "whole")

    def _words(self, value: Object, key: str, path: str) -> str:
        words = value.get(key)
        if type(words) is not str:
            raise self._refuse(path, "a string", words)
        return words

    def _block_stop(self, value: Object, _frame: Frame) -> None:
        self._close(self._index(value, _INDEX))

    def _close(self, index: int) -> None:
        part = self._open.get(index)
        if part is None:
            return
        self._closed.add(index)
        if part.has_words and not part.deltas:
            self._text = index
            return
        if part.kind == "invocation":
            self._add(part, part.arguments.rest(), "arguments")
        elif part.kind == "whole":
            reader = ConverseReader(NAME, Places())
            held, patch, words = reader.block(part.whole(), (), is_answer=True)
            residue = self._kept(patch, None, " ".join(words) or None)
            self._out.append(PartStart(part.index, "whole", content=held, residue=residue))
        self._end_part(index, self._behind(part))

    def _behind(self, part: _Block) -> Residue | None:
        return self._kept(form=BEHIND) if part.is_behind else None

    def _end_text(self) -> None:
        """End the text, which no further block can cite."""
        if self._text is not None:
            self._end_part(self._text)
            self._text = None

    readers = {  # noqa: RUF012 - a constant
        "contentBlockStart": _block_start,
        "contentBlockDelta": _block_delta,
        "contentBlockStop": _block_stop,
        "messageStop": _message_stop,
        "metadata": _metadata_event,
    }


def _is_call(call: Object) -> bool:
    return all(type(call.get(key)) is str and call[key] for key in ("toolUseId", "name"))


# --- writing -----------------------------------------------------------------------------------


class _Written(WrittenPart):
    """A part being written."""

    # Whether a text has ended, and a block with its citations has started.
    is_behind = False


class ConverseStreamWriter(EventWriter[_Written]):
    """Consumes events and gives the bytes of messages."""

    dialect = NAME
    part = _Written
    _count = 0

    def start(self, event: Start) -> bytes:  # noqa: ARG002 - an answer has no name
        """Begin the response."""
        return self._begin()

    def begin(self) -> bytes:
        """Write the role."""
        return AWS_EVENT_STREAM.write("messageStart", {"role": "assistant"})

    def unknown(self, event: Unknown, value: Object) -> bytes:
        """Write an event that only this dialect understands."""
        return AWS_EVENT_STREAM.write(event.name, value)

    def fail(self, event: Failure, own: Object | None) -> bytes:
        """End the response with an exception."""
        body = {"message": event.message} if own is None else own
        return AWS_EVENT_STREAM.write(_exception(event), body)

    def finish(self, event: Finish) -> bytes:
        """Write the finish reason, and then the usage."""
        own = self._own_envelope(event)
        word = self._own(event).form or FINISHES.word(
            event.reason, has_calls=self._has_calls, is_refused=self._is_refused
        )
        usage = self._usage or UsageReport(Usage())
        metadata = {
            "usage": self._recall(COUNTS.write(usage.usage), usage),
            "metrics": {"latencyMs": 0},
            **own.get("metadata", {}),
        }
        stop = {"stopReason": word, **own.get("stop", {})}
        write = AWS_EVENT_STREAM.write
        return write("messageStop", stop) + write("metadata", metadata)

    # --- parts ---------------------------------------------------------------------------------

    def open(self, part: _Written) -> bytes:
        """Open a part that has a start event."""
        start = part.start
        if part.kind == "reasoning":
            self._thoughts = Thoughts()
        if part.kind == "invocation":
            own = self._own(start)
            call = {"toolUseId": start.identifier, "name": start.name}
            if own.form == TYPED:
                call["type"] = TYPED
            block = self._recall({"toolUse": call}, start)
            return self._block("Start", part, start=block)
        return self._whole(part) if part.kind == "whole" else b""

    def _block(self, event: str, part: _Written, **fields: Any) -> bytes:
        if part.number is None:
            part.number, self._count = self._count, self._count + 1
        fields[_INDEX] = part.number
        return AWS_EVENT_STREAM.write(f"contentBlock{event}", fields)

    def _delta_of(self, part: _Written, **delta: Any) -> bytes:
        return self._block("Delta", part, delta=delta)

    def more(self, part: _Written, event: Delta) -> bytes:
        """Write more of a block; arguments are kept until its end."""
        if event.channel == "arguments":
            part.words.append(event.text)
        elif part.kind == "reasoning":
            return self._think(part, event)
        elif event.channel == "citation":
            return self._cite(part, event)
        elif event.channel == "text" and event.text:
            words = self._unblank(part, event.text)
            return self._delta_of(part, text=words) if words else b""
        return b""

    def _cite(self, part: _Written, event: Delta) -> bytes:
        citation = event.citation
        if citation is None:
            return b""
        if citation.dialect == NAME:
            own = event.residue or part.start.residue
            ended = b""
            if BEHIND in form_words(own) and not part.is_behind:
                ended, part.number, part.is_behind = self._block("Stop", part), None, True
            return ended + self._delta_of(part, citation=decode_json(citation.raw))
        return self._delta_of(part, citation=web_citation(citation)) if citation.url else b""

    def _think(self, part: _Written, event: Delta) -> bytes:
        key = {"encrypted": "redactedContent", "signature": "signature"}.get(event.channel)
        if key is None:
            said = {"text": self._thought(part, event)} if event.text else {}
        else:
            said = {key: event.text} if self._is_own_thought(part) else {}
        return self._delta_of(part, reasoningContent=said) if said else b""

    def _whole(self, part: _Written) -> bytes:
        """A part that arrives at once: its block split into a start and a delta."""
        writer = ConverseWriter(Report(), is_same=self._is_same, for_answer=True)
        content: Any = part.start.content
        blocks = writer.whole(content, own_residue(part.start, NAME))
        if not blocks or not blocks[0]:
            return b""
        kind, held = next(iter(blocks[0].items()))
        if kind == "text" and not (type(held) is str and held):
            return b""
        if type(held) is not dict or kind not in _LATER:
            return self._delta_of(part, **{kind: held})
        start = left_of(held, _LATER[kind])
        delta: Any = {key: held[key] for key in _LATER[kind] if key in held}
        if kind == "toolUse":
            delta = {"input": encode(held.get("input", {})).decode()}
        elif kind == "toolResult":
            delta = held.get("content", [])
        opened = self._block("Start", part, start={kind: start})
        return opened + (self._delta_of(part, **{kind: delta}) if delta else b"")

    def end(self, part: _Written, event: PartEnd) -> bytes:  # noqa: ARG002 - it says nothing more
        """Write what was kept, and close the block."""
        written = b""
        if part.kind == "invocation":
            written = self._delta_of(part, toolUse={"input": self._input(part)})
        return b"" if part.number is None else written + self._block("Stop", part)

    def _input(self, part: _Written) -> str:
        """The text of an object that holds the arguments; this dialect's own text is unchanged."""
        is_freeform = part.start.is_freeform
        if self._is_same and part.said.strip() and not is_freeform:
            return part.said
        return encode(call_input(part.said, is_freeform=is_freeform)).decode()


def _exception(event: Failure) -> str:
    """The service's exception for a failure."""
    if event.dialect == NAME and event.kind.endswith(_EXCEPTION):
        return event.kind
    return stream_exception(event.status, event.kind)

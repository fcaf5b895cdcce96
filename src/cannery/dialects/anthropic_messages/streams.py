"""Messages streams, both ways: named events, with blocks one after the other.

Usage is cumulative: ``message_delta`` replaces the counts of ``message_start``. When writing, a call's arguments wait
until they are complete, because together they must be an object.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cannery.dialects.anthropic_messages.models import NAME
from cannery.dialects.anthropic_messages.reading import read_citation
from cannery.dialects.anthropic_messages.responses import (
    ANSWERS,
    COUNTS,
    FINISHES,
    UNNAMED,
    content_patch,
    error_body,
    take_files,
)
from cannery.dialects.anthropic_messages.writing import shown_citation
from cannery.messages.absence import absent
from cannery.messages.content import new_opaque
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
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import FinishReason, Usage
from cannery.messages.residue import Residue
from cannery.wire.arguments import call_input, wrapped_input
from cannery.wire.bodies import Object, encode
from cannery.wire.contract import StreamOptions
from cannery.wire.controls import text
from cannery.wire.places import Places
from cannery.wire.sse import Frame, foreign_frame, named_frame
from cannery.wire.stream_reading import EventReader, OpenArguments, OpenPart, left_of, object_of
from cannery.wire.stream_writing import EventWriter, Thoughts, WrittenPart, words_of

_KINDS = {"text": "text", "thinking": "reasoning"}
_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "text"),
    "signature_delta": ("signature", "signature"),
}
_IMPLIED = {"text_delta": "text", "thinking_delta": "thinking"}
# Event fields of a response, of its end, and of a block.
_MODELLED = frozenset(
    {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}
)
_STOP = frozenset({"stop_reason", "stop_sequence"})
_EVENT = frozenset({"type", "message", "delta", "usage", "index", "content_block"})
_CALL = frozenset({"type", "id", "name", "input"})
_REDACTED = frozenset({"type", "data"})
_SAID = frozenset({"type", "text", "thinking", "signature", "citations"})
# Fields that every response has.
_ALWAYS: Object = {
    "id": "",
    "type": "message",
    "role": "assistant",
    "model": "",
    "stop_reason": None,
    "stop_sequence": None,
}


class _Block(OpenPart):
    """An open block: known kinds give events at once, others when they are complete."""

    block: Object
    tag: str

    def __init__(self, index: int, kind: str) -> None:
        super().__init__(index, kind)
        self.arguments = OpenArguments()
        self.cited = 0
        # The grown texts of an unknown block.
        self.texts: dict[str, list[str]] = {}

    def keep(self, delta: Object) -> None:
        """Add a delta to an unknown block: text is appended, any other field is set."""
        for key, value in delta.items():
            if key == "partial_json" and type(value) is str:
                self.words.append(value)
            elif key != "type":
                if type(value) is str and type(self.block.get(key)) is str:
                    self.texts.setdefault(key, []).append(value)
                else:
                    self.texts.pop(key, None)
                    self.block[key] = value

    def whole(self) -> Any:
        """The complete unknown block."""
        for key, pieces in self.texts.items():
            self.block[key] += "".join(pieces)
        spelled = "".join(self.words)
        if spelled.strip():
            try:
                self.block["input"] = decode_json(spelled)
            except ValueError:
                self.block["input"] = wrapped_input(spelled)
        return new_opaque(NAME, self.tag, write_json(self.block))


class MessagesStreamReader(EventReader[_Block]):
    """Consumes the bytes of a stream and gives events."""

    dialect = NAME
    part = _Block
    starts = "message_start"
    silent = ("ping",)

    def __init__(self) -> None:
        super().__init__()
        # The response so far, without its content; the last usage object, as it came.
        self._message: Object = {}
        self._usage: Object = {}
        self._last_usage: Object = {}
        # Other fields at the end: in the delta, beside it, and in the last event.
        self._ending: Object = {}
        # File ids of citations, by the position of their block.
        self._apart: dict[str, Object] = {}

    def failure(self, kind: str, value: Object, data: str) -> Failure | None:
        """The failure in an event with that name."""
        if kind != "error":
            return None
        found = value.get("error")
        error: Object = found if type(found) is dict else {"message": found}
        message = str(error.get("message") or "unknown error")
        return Failure(message, str(error.get("type") or "api_error"), raw=data, dialect=NAME)

    def start(self, kind: str, value: Object) -> None:
        """Read the first event of the response."""
        if kind != self.starts:
            value = {}
        head = self._maybe(value, "message")
        model = text(head.get("model"))
        self._model = model if isinstance(model, str) else None
        self._message = left_of(head, ("content",))
        residue = self._kept(left_of(value, _EVENT), left_of(head, _MODELLED))
        self._out.append(Start(text(head.get("id")), model, source=NAME, residue=residue))
        self._usage = {**object_of(head.get("usage"))}
        self._report(self._usage)

    def _message_delta(self, value: Object, _frame: Frame) -> None:
        delta = self._maybe(value, "delta")
        for key, item in delta.items():
            # A later event that only counts tokens removes nothing.
            if item or key not in _STOP:
                self._message[key] = item
        self._add_ending("delta", delta, _STOP)
        self._add_ending("event", value, _EVENT)
        counts = self._maybe(value, "usage")
        self._last_usage |= counts
        for key, item in counts.items():
            if item is not None or key not in self._usage:
                self._usage[key] = item

    def _message_stop(self, value: Object, _frame: Frame) -> None:
        self._add_ending("stop", value, _EVENT)
        self.end()

    def _maybe(self, value: Object, key: str) -> Object:
        """An optional object of an event."""
        return {} if value.get(key) is None else self._object(value, key)

    def _add_ending(self, level: str, fields: Object, known: Collection[str]) -> None:
        """Keep the fields at the end that only this dialect has."""
        rest = left_of(fields, known)
        if rest:
            self._ending[level] = {**self._ending.get(level, {}), **rest}

    def _report(self, counts: Object) -> None:
        usage = COUNTS.read(self._usage)
        if isinstance(usage, Usage):
            self._report_usage(usage, counts, COUNTS.write(usage))

    def end(self) -> None:
        """End the open parts, and the response if it gave a finish reason."""
        self._is_over = True
        body = {**self._message, **self._ending.get("event", {})}
        word = body.get("stop_reason")
        finish = FINISHES.read(word)
        if not isinstance(finish, FinishReason):
            super().end()
            return
        for index in [*self._open]:
            self._stop(index)
        self._usage.setdefault("input_tokens", 0)
        if "output_tokens" in self._usage:
            self._report(self._last_usage)
            body["usage"] = self._usage
        usual = FINISHES.word(finish, has_calls=self._has_calls)
        residue = self._kept(None, self._ending, None if word == usual else word)
        stop = text(body.get("stop_sequence"))
        # Fields that a stream omits are not part of the residue of the whole response.
        inner = content_patch(self._apart)
        around = ANSWERS.read({**_ALWAYS, **body}, [], Places(), inner).residue
        self._out.append(Finish(finish, stop, residue, around))

    # --- blocks --------------------------------------------------------------------------------

    def _block_start(self, value: Object, _frame: Frame) -> None:
        block, index = self._object(value, "content_block"), self._index(value, "index")
        if index not in self._open:
            self._open_block(index, block)

    def _open_block(self, index: int, block: Object) -> _Block:
        tag = block.get("type")
        tag = tag if type(tag) is str else "unknown"
        if tag in _KINDS:
            part = self._start_part(index, _KINDS[tag], residue=_left(block, _SAID))
            for key, channel in ((tag, "text"), ("signature", "signature")):
                if type(block.get(key)) is str:
                    self._add(part, block[key], channel)
        elif tag == "tool_use" and _is_call(block):
            call = {"identifier": block["id"], "name": block["name"]}
            part = self._start_part(index, "invocation", **call, residue=_left(block, _CALL))
        elif tag == "redacted_thinking" and type(block.get("data")) is str:
            part = self._start_part(index, "reasoning", residue=_left(block, _REDACTED))
            self._out.append(Delta(part.index, block["data"], "encrypted"))
        else:
            part = self._take_part(index, "whole")
        part.block, part.tag = block, tag
        return part

    def _block_delta(self, value: Object, frame: Frame) -> None:
        delta, index = self._object(value, "delta"), self._index(value, "index")
        part = self._open.get(index)
        tag = delta.get("type")
        if part is None:
            implied = _IMPLIED.get(str(tag))
            if implied is None or index < self._count:
                return
            part = self._open_block(index, {"type": implied, implied: ""})
        known = _DELTAS.get(tag) if type(tag) is str else None
        if part.kind == "whole":
            part.keep(delta)
        elif known is not None:
            self._words(part, value, delta, *known)
        elif tag == "citations_delta" and type(delta.get("citation")) is dict:
            self._cite(part, delta["citation"])
        elif tag == "input_json_delta" and part.kind == "invocation":
            if type(delta.get("partial_json")) is str:
                self._add(part, part.arguments.add(delta["partial_json"]), "arguments")
        else:
            self._out.append(Unknown(NAME, str(tag), frame.data, str(part.index)))

    def _words(self, part: _Block, value: Object, delta: Object, key: str, channel: str) -> None:
        words = delta.get(key)
        if type(words) is not str:
            raise self._refuse(f"delta.{key}", "a string", words)
        if words:
            own = None
            if len(delta) > 2 or len(value) > 3:
                own = self._kept(left_of(delta, ("type", key)), left_of(value, _EVENT))
            self._out.append(Delta(part.index, words, channel, 0, None, own))

    def _cite(self, part: _Block, citation: Object) -> None:
        files = take_files([citation])
        own = self._kept(files.get("0"))
        cited = read_citation(citation)
        self._out.append(Delta(part.index, "", "citation", citation=cited, residue=own))
        if files:
            block = self._apart.setdefault(str(part.index), {"d": {"citations": {"i": {}}}})
            block["d"]["citations"]["i"][str(part.cited)] = files["0"]
        part.cited += 1

    def _block_stop(self, value: Object, _frame: Frame) -> None:
        self._stop(self._index(value, "index"))

    def _stop(self, index: int) -> None:
        part = self._open.get(index)
        if part is not None and part.kind == "invocation":
            self._add(part, part.arguments.rest(part.block.get("input")), "arguments")
        elif part is not None and part.kind == "whole":
            self._out.append(PartStart(part.index, "whole", content=part.whole()))
        self._end_part(index)

    readers = {  # noqa: RUF012 - a constant
        "message_delta": _message_delta,
        "message_stop": _message_stop,
        "content_block_start": _block_start,
        "content_block_delta": _block_delta,
        "content_block_stop": _block_stop,
    }


def _is_call(block: Object) -> bool:
    return type(block.get("id")) is str and type(block.get("name")) is str and bool(block["id"])


def _left(block: Object, taken: frozenset[str]) -> Residue | None:
    """The fields at the start of a block beyond its kind."""
    rest = left_of(block, taken)
    return Residue(NAME, write_json({"s": rest})) if rest else None


# --- writing -----------------------------------------------------------------------------------


class MessagesStreamWriter(EventWriter[WrittenPart]):
    """Consumes events and gives the bytes of named events."""

    dialect = NAME
    part = WrittenPart

    def __init__(self, options: StreamOptions) -> None:
        super().__init__(options)
        # The first count, which the beginning reports.
        self._counted_first: UsageReport | None = None
        self._count = 0

    def count(self, event: UsageReport) -> None:
        """Keep the first count of tokens and the last."""
        self._counted_first = self._counted_first or event
        super().count(event)

    def begin(self) -> bytes:
        """Write the known facts of the response."""
        message: Object = {
            "id": self._identifier(UNNAMED),
            "type": "message",
            "role": "assistant",
            "model": self._model(),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": self._counts(self._counted_first),
            **self._own_envelope(self._start),
        }
        return self._event("message_start", message=message, **self._own_part(self._start))

    def _event(self, kind: str, **fields: Any) -> bytes:
        return named_frame(kind, {"type": kind, **fields})

    def _counts(self, report: UsageReport | None) -> Object:
        """Usage so far, in this server's form."""
        report = report or UsageReport(Usage())
        return self._recall(COUNTS.write(report.usage), report)  # type: ignore[no-any-return]

    def fail(self, event: Failure, own: Object | None) -> bytes:
        """End the response with an error."""
        error = error_body(event.message, event.kind, event.status)
        return named_frame("error", error if own is None else own)

    def unknown(self, event: Unknown, value: Object) -> bytes:
        """Write an event that only this dialect understands; a delta continues its block if that is open."""
        if event.item is None:
            return self._begin() + foreign_frame(event.name, value)
        for part in self._parts.values():
            if part.has_turn and str(part.start.index) == event.item:
                opened = self._thinking(part) if part.kind == "reasoning" else b""
                return opened + named_frame("content_block_delta", {**value, "index": part.number})
        return b""

    def finish(self, event: Finish) -> bytes:
        """Write the finish reason, the usage, and the end of the response."""
        word = self._own(event).form or FINISHES.word(
            event.reason, has_calls=self._has_calls, is_refused=self._is_refused
        )
        sequence = None if event.stop_sequence is absent else event.stop_sequence
        own = self._own_envelope(event)
        delta = {"stop_reason": word, "stop_sequence": sequence, **own.get("delta", {})}
        told = {"delta": delta, "usage": self._counts(self._usage), **own.get("event", {})}
        written = self._event("message_delta", **told)
        return written + self._event("message_stop", **own.get("stop", {}))

    # --- parts ---------------------------------------------------------------------------------

    def open(self, part: WrittenPart) -> bytes:
        """Open a part whose block is known from its start; thoughts wait for their first text."""
        start = part.start
        match part.kind:
            case "text" | "refusal":
                # In its own dialect a text may be blank; for others it waits for visible text, because no request may
                # hold it.
                return self._text(part) if self._is_same else b""
            case "reasoning":
                self._thoughts = Thoughts()
                return b""
            case "invocation":
                call = {"type": "tool_use", "id": start.identifier, "name": start.name, "input": {}}
                return self._block_start(part, call)
            case "whole":
                return self._whole(part)
            case _:
                return b""

    def _block_start(self, part: WrittenPart, block: Object) -> bytes:
        part.number, self._count = self._count, self._count + 1
        block = self._recall(block, part.start)
        return self._event("content_block_start", index=part.number, content_block=block)

    def _block_delta(self, part: WrittenPart, tag: str, **delta: Any) -> bytes:
        return self._event("content_block_delta", index=part.number, delta={"type": tag, **delta})

    def _text(self, part: WrittenPart) -> bytes:
        return self._block_start(part, {"type": "text", "text": ""})

    def _thinking(self, part: WrittenPart) -> bytes:
        if part.number is not None:
            return b""
        return self._block_start(part, {"type": "thinking", "thinking": "", "signature": ""})

    def _whole(self, part: WrittenPart) -> bytes:
        block, words = self._own_block(part), words_of(part.start.content)
        if words is not None:
            return self._text(part) + self._block_delta(part, "text_delta", text=words)
        if block is None:
            return b""
        asked = block.get("input") if type(block) is dict else None
        if type(asked) is not dict or not str(block.get("type")).endswith("tool_use"):
            return self._block_start(part, block)
        return self._block_start(part, {**block, "input": {}}) + self._input(part, asked)

    def _input(self, part: WrittenPart, value: Any) -> bytes:
        """The delta of a call's input, whose start event has an empty input."""
        spelled = encode(value).decode()
        return (
            b""
            if value == {}
            else self._block_delta(part, "input_json_delta", partial_json=spelled)
        )

    def more(self, part: WrittenPart, event: Delta) -> bytes:
        """Write more of a block; arguments and signatures are kept until its end."""
        if event.channel == "arguments":
            part.words.append(event.text)
        elif part.kind == "reasoning":
            return self._think(part, event)
        elif event.channel == "citation":
            return self._cite(part, event)
        elif event.channel == "text" and event.text:
            words = self._unblank(part, event.text)
            if words:
                opened = b"" if part.number is not None else self._text(part)
                return opened + self._words(part, "text_delta", "text", words, event)
        return b""

    def _words(self, part: WrittenPart, tag: str, key: str, words: str, event: Delta) -> bytes:
        """Write more text, with this dialect's own fields beside it."""
        delta = {"type": tag, key: words}
        body: Object = {"type": "content_block_delta", "index": part.number, "delta": delta}
        if event.residue is not None:
            delta |= self._own_part(event)
            body |= self._own_envelope(event)
        return named_frame("content_block_delta", body)

    def _cite(self, part: WrittenPart, event: Delta) -> bytes:
        citation = event.citation
        if citation is None:
            return b""
        is_own = citation.dialect == NAME
        shown = (
            self._recall(decode_json(citation.raw), event) if is_own else shown_citation(citation)
        )
        if shown is None:
            return b""
        opened = self._text(part) if part.number is None else b""
        return opened + self._block_delta(part, "citations_delta", citation=shown)

    def _think(self, part: WrittenPart, event: Delta) -> bytes:
        is_own = self._is_own_thought(part)
        if event.channel == "encrypted":
            if not is_own or part.number is not None:
                return b""
            return self._block_start(part, {"type": "redacted_thinking", "data": event.text})
        if event.channel == "signature":
            part.words += [event.text] if is_own else []
            return b""
        if not event.text:
            return b""
        words = self._thought(part, event)
        return self._thinking(part) + self._words(part, "thinking_delta", "thinking", words, event)

    def end(self, part: WrittenPart, event: PartEnd) -> bytes:  # noqa: ARG002 - it says nothing more
        """Write what was kept, and close the block."""
        written = b""
        if part.kind == "reasoning" and part.words:
            written = self._thinking(part)
            written += self._block_delta(part, "signature_delta", signature=part.said)
        elif part.kind == "invocation":
            written = self._input(part, call_input(part.said, is_freeform=part.start.is_freeform))
        if part.number is None:
            return b""
        return written + self._event("content_block_stop", index=part.number)

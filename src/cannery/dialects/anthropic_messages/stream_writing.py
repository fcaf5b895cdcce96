"""Messages streams, written.

Blocks come one after the other, so parts that start while another is open are kept until it is their turn, and a
call's arguments until they are complete, because they must add up to an object.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.anthropic_messages.models import NAME
from cannery.dialects.anthropic_messages.responses import (
    FINISH_WORDS,
    UNNAMED,
    error_body,
    stop_word,
    write_usage,
)
from cannery.dialects.anthropic_messages.writing import shown_citation
from cannery.messages.absence import absent
from cannery.messages.content import (
    Citation,
    DataContentClass,
    OpaqueContentClass,
    TextualContentClass,
)
from cannery.messages.events import (
    Delta,
    Failure,
    Finish,
    PartStart,
    Start,
    Unknown,
    UsageReport,
)
from cannery.messages.json_text import decode_json
from cannery.messages.requests import Usage
from cannery.wire.arguments import FREEFORM_INPUT, object_input, wrapped_input
from cannery.wire.blocks_in_turn import BlockWriter, Part
from cannery.wire.bodies import Object, encode
from cannery.wire.contract import StreamOptions
from cannery.wire.residues import own_residue, recall
from cannery.wire.sse import foreign_frame, named_frame
from cannery.wire.streams import (
    own_count,
    own_failure,
    own_fields,
    own_word,
    read_chunk,
)


class _Part(Part):
    """A part with the number of its block."""

    def __init__(self, start: PartStart) -> None:
        super().__init__(start)
        self.index = -1
        # White space that a text begins with.
        self.blank: list[str] = []
        self.signature: list[str] = []


class MessagesStreamWriter(BlockWriter[_Part]):
    """Takes events and gives the bytes of named events."""

    dialect = NAME

    def __init__(self, options: StreamOptions) -> None:
        super().__init__(_Part)
        self._options = options
        self._start = Start()
        # What was counted first, which the beginning tells, and last.
        self._first: UsageReport | None = None
        self._usage = UsageReport(Usage())
        self._is_begun = False
        self._count = 0

    def start(self, event: Start) -> bytes:
        """Keep what is known of the answer until its first part."""
        self._start = event
        return b""

    def count(self, event: UsageReport) -> None:
        """Keep the first count of tokens and the last."""
        self._first = self._first or event
        self._usage = event

    def fail(self, event: Failure) -> bytes:
        """End the answer with an error."""
        self.is_over = True
        own = own_failure(event, NAME)
        error = error_body(event.message, event.kind, event.status)
        return named_frame("error", error if own is None else own)

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
            "usage": _counts(self._first or self._usage),
            **own_fields(start, NAME),
        }
        beside = own_residue(start, NAME)
        event = {"type": "message_start", "message": message}
        if beside is not None and beside.part is not None:
            event |= decode_json(beside.part)
        return named_frame("message_start", event)

    def unknown(self, event: Unknown) -> bytes:
        """What only this dialect understands; a delta goes on if its block is under way."""
        value = read_chunk(NAME, event.json)
        if event.item is None:
            return self._begin() + foreign_frame(event.name, value)
        part = self._queue[0] if self._queue else None
        if part is None or str(part.start.index) != event.item:
            return b""
        opened = self._thought(part) if part.start.kind == "reasoning" else b""
        return opened + named_frame("content_block_delta", {**value, "index": part.index})

    # --- parts ---------------------------------------------------------------------------------

    def _open(self, part: _Part) -> bytes:
        """Open a part whose block is known from its start; thoughts wait for their first words."""
        start = part.start
        match start.kind:
            case "text" | "refusal":
                # At home a text may be blank; elsewhere it waits for its first words, since no request may hold it.
                return self._text(part) if self._start.source == NAME else b""
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

    def _text(self, part: _Part) -> bytes:
        return self._block_start(part, {"type": "text", "text": ""})

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

    def _words(self, part: _Part, tag: str, key: str, words: str, event: Delta) -> bytes:
        """More words, with what its own dialect said beside them."""
        delta = {"type": tag, key: words}
        body: Object = {"type": "content_block_delta", "index": part.index, "delta": delta}
        residue = own_residue(event, NAME)
        if residue is not None:
            if residue.part is not None:
                delta |= decode_json(residue.part)
            if residue.envelope is not None:
                body |= decode_json(residue.envelope)
        return named_frame("content_block_delta", body)

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
            shown = None if event.citation is None else _shown(event, event.citation)
            if shown is not None:
                opened = b"" if part.is_written else self._text(part)
                return opened + self._block_delta(part, "citations_delta", "citation", shown)
        elif event.channel == "text" and event.text:
            if not part.is_written:
                return self._first_words(part, event.text)
            return self._words(part, "text_delta", "text", event.text, event)
        return b""

    def _first_words(self, part: _Part, words: str) -> bytes:
        """Open a text at its first words; blank ones wait for more."""
        part.blank.append(words)
        if words.isspace():
            return b""
        said = "".join(part.blank)
        return self._text(part) + self._block_delta(part, "text_delta", "text", said)

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
        if not event.text:
            return b""
        words = part.thoughts.joined(event)
        return self._thought(part) + self._words(part, "thinking_delta", "thinking", words, event)

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

    def finish(self, event: Finish) -> bytes:
        """End all parts, and the answer."""
        written = self._begin()
        for part in self._queue:
            part.is_ended = True
        written += self._advance()
        self.is_over = True
        word = own_word(event, NAME) or stop_word(
            FINISH_WORDS[event.reason], has_calls=self._has_calls, is_refused=self._is_refused
        )
        sequence = None if event.stop_sequence is absent else event.stop_sequence
        own = own_fields(event, NAME)
        body: Object = {
            "type": "message_delta",
            "delta": {"stop_reason": word, "stop_sequence": sequence, **own.get("delta", {})},
            "usage": _counts(self._usage),
            **own.get("event", {}),
        }
        written += named_frame("message_delta", body)
        stop = {"type": "message_stop", **own.get("stop", {})}
        return written + named_frame("message_stop", stop)


def _counts(report: UsageReport) -> Object:
    """Tokens counted so far, as this server counts them."""
    return own_count(report, NAME, write_usage(report.usage))


def _shown(event: Delta, citation: Citation) -> Any:
    """A citation as a client of this dialect sees it; None where it cannot."""
    if citation.dialect != NAME:
        return shown_citation(citation)
    residue = own_residue(event, NAME)
    raw = decode_json(citation.raw)
    return raw if residue is None else recall(raw, residue.part)

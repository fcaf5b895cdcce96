"""Writing Responses streams.

Items may be under way side by side, so nothing has to wait: a call or a thought is an item of its own, and texts that
follow each other are the parts of one message, which ends when something else begins. What this dialect's own stream
said of an item, of the answer and of its end is kept; anything else gets the ids and fields that a whole answer has.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.openai_responses.forms import (
    MADE,
    PART,
    call_item,
    form_words,
    is_sayable,
    item_id,
    made_item,
    write_citation,
)
from cannery.dialects.openai_responses.responses import NO_IDENTIFIER, answer_body, ending
from cannery.dialects.openai_responses.settings import NAME
from cannery.dialects.openai_responses.stream_reading import error_of
from cannery.dialects.openai_responses.writing import ItemWriter
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister, ResultCanisterClass
from cannery.messages.content import (
    Citation,
    ImageContentClass,
    OpaqueContentClass,
    ReasoningContentClass,
)
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
from cannery.messages.payload import Location
from cannery.messages.requests import Usage
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.contract import Piece, StreamOptions
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, recall
from cannery.wire.sse import foreign_frame, named_frame
from cannery.wire.streams import EventWriter, own_failure, own_fields, read_chunk

_TEXT = {"text": ("output_text", "text"), "refusal": ("refusal", "refusal")}
_SEGMENTS = {
    "summary": (
        "reasoning_summary_part",
        "reasoning_summary_text",
        "summary_index",
        "summary_text",
    ),
    "text": ("content_part", "reasoning_text", "content_index", "reasoning_text"),
}
_ENDS = ("completed", "incomplete", "failed")
# The kinds of errors that the SDK has a code for; anything else is the server's fault.
_CODES = {
    "invalid_request_error": "invalid_prompt",
    "rate_limit_error": "rate_limit_exceeded",
    "rate_limit_exceeded": "rate_limit_exceeded",
    "request_too_large": "invalid_prompt",
}


class _Item:
    """An item under way."""

    def __init__(self, output_index: int, value: Object) -> None:
        self.output_index = output_index
        self.value = value
        self.open_parts = 0
        self.is_sealed = False
        self.residue: Residue | None = None

    @property
    def place(self) -> Object:
        """How events name the item."""
        return {"item_id": self.value["id"], "output_index": self.output_index}


class _Part:
    """A part under way."""

    def __init__(self, start: PartStart) -> None:
        self.start = start
        self.item: _Item | None = None
        self.content_index = 0
        # What came whole.
        self.value: Object = {}
        self.words: list[str] = []
        self.annotations: list[Any] = []
        # Citations of the whole text, and those behind them, wait until it is complete.
        self.late: list[Citation] = []
        self.encrypted: list[str] = []
        # Channel and segment -> position on the wire and what was said.
        self.segments: dict[tuple[str, int], tuple[int, list[str]]] = {}
        # The last position of each channel.
        self.counts: dict[str, int] = {}
        # Whether this dialect made the thought: then it goes on as it is.
        self.is_own = start.origin is not None and start.origin.dialect == NAME


class ResponsesStreamWriter(EventWriter):
    """Takes events and gives the bytes of a stream."""

    dialect = NAME

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._body = answer_body(NO_IDENTIFIER, options.model or "", options.created)
        self._start = Start()
        self._number = 0
        self._is_started = False
        self._parts: dict[int, _Part] = {}
        self._message: _Item | None = None
        self._output: dict[int, Object] = {}
        # Where the items with an id stand, and what was said of items that have not come yet.
        self._places: dict[str, int] = {}
        self._early: dict[str, list[Unknown]] = {}
        self._count = 0
        self._usage: Usage | None = None

    def start(self, event: Start) -> bytes:
        """Begin the answer."""
        return self._begin(event)

    def delta(self, event: Delta) -> bytes:
        """More of a part."""
        part = self._parts.get(event.index)
        return b"" if part is None else self._delta(part, event)

    def part_end(self, event: PartEnd) -> bytes:
        """End a part."""
        part = self._parts.pop(event.index, None)
        return b"" if part is None else self._part_end(part, event.residue)

    def count(self, event: UsageReport) -> None:
        """Keep the tokens for the end of the answer."""
        self._usage = event.usage

    def _emit(self, kind: str, **fields: Any) -> bytes:
        name = f"response.{kind}"
        frame = named_frame(name, {"type": name, "sequence_number": self._number, **fields})
        self._number += 1
        return frame

    def unknown(self, event: Unknown) -> bytes:
        """An event that only this dialect understands: said again, behind the beginning of its item."""
        written = self._begin()
        if event.item is not None and event.item not in self._places:
            self._early.setdefault(event.item, []).append(event)
            return written
        return written + self._again(event)

    def _again(self, event: Unknown) -> bytes:
        value: Object = read_chunk(NAME, event.json)
        if event.item is not None:
            value["output_index"] = self._places[event.item]
        answer = value.get("response")
        if type(answer) is dict:
            value["response"] = {
                key: self._body[key] if key in ("id", "model", "created_at") else held
                for key, held in answer.items()
            }
        value["sequence_number"] = self._number
        self._number += 1
        return foreign_frame(event.name, value)

    def _begin(self, event: Start | None = None) -> bytes:
        """Begin the answer, if it has not begun."""
        if self._is_started:
            return b""
        self._is_started = True
        start = self._start = event or self._start
        if start.identifier is not absent and start.identifier:
            self._body["id"] = start.identifier
        if start.model is not absent and not self._options.model:
            self._body["model"] = start.model
        if start.created is not absent and not self._options.created:
            self._body["created_at"] = start.created
        body = self._body | own_fields(start, NAME)
        residue = own_residue(start, NAME)
        more = {} if residue is None or residue.part is None else decode_json(residue.part)
        created = self._emit("created", response=body, **more)
        # This dialect's own stream says itself that it is in progress.
        return (
            created if start.source == NAME else created + self._emit("in_progress", response=body)
        )

    def finish(self, event: Finish) -> bytes:
        """End all parts, and the answer."""
        written = self._begin()
        parts, self._parts = self._parts, {}
        written += b"".join([self._part_end(part, None) for part in parts.values()])
        written += self._seal()
        self.is_over = True
        answer = {**self._body, "output": self._items(), **ending(event.reason, self._usage)}
        name = answer["status"]
        around = event.around
        if around is not None and around.dialect == NAME:
            # The output stays what the items were when they were done.
            answer = {**recall(answer, around.envelope), "output": answer["output"]}
            name = answer["status"] if answer.get("status") in _ENDS else name
        return written + self._emit(name, response=answer, **own_fields(event, NAME))

    def fail(self, event: Failure) -> bytes:
        """End the answer with an error."""
        written = self._begin()
        self.is_over = True
        code = _CODES.get(event.kind, "server_error")
        error = {"code": code, "message": event.message, "type": event.kind}
        own = own_failure(event, NAME)
        if own is not None:
            told = error_of(own) or {}
            error |= {key: told[key] for key in told if told[key] not in (None, "error")}
        body = self._body | own_fields(self._start, NAME) | ending(None, self._usage)
        ended = {"output": self._items(), "status": "failed", "error": error}
        return written + self._emit("failed", response=body | ended)

    def _items(self) -> list[Object]:
        return [self._output[index] for index in sorted(self._output)]

    def _add(self, value: Object, kept: str | None) -> tuple[_Item, bytes]:
        """Begin an item; its id is the one it had here, or one that a whole answer would have."""
        known: Object = recall(value, kept)
        if type(known.get("id")) is not str:
            known = {**known, "id": item_id(self._body["id"], value["type"], self._count)}
        item = _Item(self._count, known)
        self._places[known["id"]] = self._count
        self._count += 1
        shown = {**known, "status": "in_progress"} if "status" in known else known
        return item, self._emit("output_item.added", output_index=item.output_index, item=shown)

    def _done(self, item: _Item, value: Object) -> bytes:
        value = {**value, "id": item.value["id"]}
        self._output[item.output_index] = value
        return self._emit("output_item.done", output_index=item.output_index, item=value)

    def _seal(self) -> bytes:
        """End the message under way, now or with its last open part."""
        message, self._message = self._message, None
        if message is None:
            return b""
        message.is_sealed = True
        return b"" if message.open_parts else self._end_message(message)

    def _end_message(self, message: _Item) -> bytes:
        value = {**message.value, "status": "completed"}
        if message.residue is not None:
            base = {"role": "assistant", "content": value["content"]}
            value = recall(base, message.residue.envelope)
        return self._done(message, value)

    def part_start(self, event: PartStart) -> bytes:
        """Begin a part, and the answer if it has not begun."""
        return self._begin() + self._open_part(event)

    def _open_part(self, event: PartStart) -> bytes:
        part = self._parts[event.index] = _Part(event)
        if event.kind in _TEXT:
            residue = own_residue(event, NAME)
            empty = _spoken_part(part, "")
            return self._start_part(part, recall(empty, residue.part) if residue else empty)
        if event.kind == "whole":
            residue = own_residue(event, NAME)
            if residue is None or PART not in form_words(residue):
                return self._whole(event)
            ours = ItemWriter(Report(), is_same=True).output_parts(event.content, None)[0]
            part.value = recall(ours, residue.part)
            return self._start_part(part, part.value)
        if event.kind == "canister":
            return self._canister(event.content)
        if event.kind == "invocation":
            return self._open_item(part, self._call(part, ""))
        return self._open_thought(part) if part.is_own else self._seal()

    def _start_part(self, part: _Part, empty: Object) -> bytes:
        """Begin a part of the message under way, or of a new one."""
        written = b""
        residue = own_residue(part.start, NAME)
        if residue is not None and residue.envelope is not None:
            written += self._seal()
        if self._message is None:
            value = {"type": "message", "status": "in_progress", "role": "assistant", "content": []}
            self._message, added = self._add(value, None if residue is None else residue.envelope)
            self._message.value = {**self._message.value, "content": []}
            written += added
        message = part.item = self._message
        message.open_parts += 1
        part.content_index = len(message.value["content"])
        message.value["content"].append(None)
        return written + self._emit(
            "content_part.added", **message.place, content_index=part.content_index, part=empty
        )

    def _open_item(self, part: _Part, value: Object) -> bytes:
        """Begin an item that is one part."""
        sealed = self._seal()
        residue = own_residue(part.start, NAME)
        part.item, added = self._add(value, None if residue is None else residue.part)
        return sealed + added

    def _open_thought(self, part: _Part) -> bytes:
        return self._open_item(part, {"type": "reasoning", "summary": []})

    def _call(self, part: _Part, arguments: str) -> Object:
        start = part.start
        call = call_item(start.identifier, start.name, arguments, start.is_freeform)
        residue = own_residue(start, NAME)
        is_foreign = residue is None or residue.part is None
        return {**call, "status": "completed"} if is_foreign and not start.is_freeform else call

    def _whole(self, event: PartStart) -> bytes:
        content = event.content
        if isinstance(content, OpaqueContentClass):
            return self._opaque(decode_json(content.json)) if content.dialect == NAME else b""
        if isinstance(content, ReasoningContentClass):
            return self._whole_thought(event, content)
        if isinstance(content, ImageContentClass) and not isinstance(content.payload, Location):
            return self._image(event.residue, content)
        parts = ItemWriter(Report(), is_same=False).output_parts(content, None)
        return b"".join(
            self._whole_text("refusal" if part["type"] == "refusal" else "text", part)
            for part in parts
        )

    def _image(self, residue: Residue | None, content: ImageContentClass) -> bytes:
        """The call that made an image: this server's own as it was."""
        if residue is not None and residue.dialect == NAME:
            is_made = MADE in form_words(residue)
            return self._opaque(recall(made_item(content), residue.part)) if is_made else b""
        writer = ItemWriter(Report(), is_same=False)
        value = writer.foreign_image(content, None)
        if value is None:
            return b""
        value["id"] = item_id(self._body["id"], value["type"], self._count)
        sealed = self._seal()
        item, added = self._add({**value, "result": None}, None)
        written = sealed + added + self._emit("image_generation_call.completed", **item.place)
        return written + self._done(item, value)

    def _canister(self, canister: AnyCanister) -> bytes:
        """What is not the model's own, if it is this server's."""
        held = canister.held
        if isinstance(held, OpaqueContentClass):
            return self._opaque(decode_json(held.json)) if held.dialect == NAME else b""
        is_result = isinstance(canister, ResultCanisterClass)
        if not is_result or own_residue(canister, NAME) is None:
            return b""
        value = ItemWriter(Report(), is_same=True).result(Piece(canister, None))
        sealed = self._seal()
        item, added = self._add(value, None)
        return sealed + added + self._done(item, item.value)

    def _opaque(self, value: Object) -> bytes:
        sealed = self._seal()
        index = self._count
        self._count += 1
        self._output[index] = value
        written = sealed + self._emit("output_item.added", output_index=index, item=value)
        identifier = value.get("id")
        if type(identifier) is str:
            self._places[identifier] = index
            written += b"".join(map(self._again, self._early.pop(identifier, [])))
        return written + self._emit("output_item.done", output_index=index, item=value)

    def _whole_text(self, kind: str, value: Object) -> bytes:
        part = _Part(PartStart(-1, kind))
        written = self._start_part(part, _spoken_part(part, ""))
        written += self._delta(part, Delta(-1, value[_TEXT[kind][1]]))
        return written + self._part_end(part, None)

    def _whole_thought(self, event: PartStart, content: ReasoningContentClass) -> bytes:
        part = _Part(PartStart(-1, "reasoning", origin=content.origin, residue=event.residue))
        written = self._open_thought(part) if part.is_own else b""
        for channel, texts in (("text", content.texts), ("summary", content.summaries)):
            for segment, words in enumerate(texts):
                written += self._delta(part, Delta(-1, words, channel, segment))
        part.encrypted = [content.encrypted] if content.encrypted else []
        return written + self._part_end(part, event.residue)

    def _delta(self, part: _Part, event: Delta) -> bytes:
        kind = part.start.kind
        if kind == "reasoning":
            return self._think(part, event)
        if kind in _TEXT and event.channel == "citation":
            return self._cite(part, event)
        if part.item is None or not event.text or event.channel not in ("text", "arguments"):
            return b""
        part.words.append(event.text)
        fields = {**part.item.place, "delta": event.text}
        if kind == "invocation":
            name = "custom_tool_call_input" if part.start.is_freeform else "function_call_arguments"
        else:
            name = _TEXT[kind][0]
            fields["content_index"] = part.content_index
            if name == "output_text":
                fields["logprobs"] = []
        return self._emit(f"{name}.delta", **fields | _beside(event))

    def _cite(self, part: _Part, event: Delta) -> bytes:
        citation = event.citation
        if citation is None or not is_sayable(citation):
            return b""
        has_place = citation.dialect == NAME or None not in (citation.start, citation.end)
        if part.late or not has_place:
            part.late.append(citation)
            return b""
        return self._annotate(part, citation, 0)

    def _annotate(self, part: _Part, citation: Citation, length: int) -> bytes:
        if part.item is None:
            return b""
        annotation = write_citation(citation, length)
        part.annotations.append(annotation)
        return self._emit(
            "output_text.annotation.added",
            **part.item.place,
            content_index=part.content_index,
            annotation_index=len(part.annotations) - 1,
            annotation=annotation,
        )

    def _think(self, part: _Part, event: Delta) -> bytes:
        if event.channel == "encrypted":
            part.encrypted.append(event.text)
        if event.channel not in _SEGMENTS or not (event.text or part.is_own):
            return b""
        written = b"" if part.item is not None else self._open_thought(part)
        channel = event.channel if part.is_own else "summary"
        added, name, counter, tag = _SEGMENTS[channel]
        key = (event.channel, event.segment)
        place = part.item.place if part.item is not None else {}
        if key not in part.segments:
            position = part.counts[channel] = part.counts.get(channel, -1) + 1
            part.segments[key] = (position, [])
            empty = {"type": tag, "text": ""}
            written += self._emit(f"{added}.added", **place, **{counter: position}, part=empty)
        position, words = part.segments[key]
        words.append(event.text)
        if not event.text:
            return written
        fields = {**place, counter: position, "delta": event.text}
        return written + self._emit(f"{name}.delta", **fields | _beside(event))

    def _part_end(self, part: _Part, residue: Residue | None) -> bytes:
        if part.item is None:
            return b""
        own = residue or part.start.residue
        own = own if own is not None and own.dialect == NAME else None
        if part.start.kind == "invocation":
            return self._end_call(part, part.item, own)
        if part.start.kind == "reasoning":
            return self._end_thought(part, part.item, own)
        if part.start.kind == "whole":
            return self._end_spoken(part, part.item, part.value, own)
        return self._end_text(part, part.item, own)

    def _end_text(self, part: _Part, message: _Item, own: Residue | None) -> bytes:
        tag, key = _TEXT[part.start.kind]
        words = "".join(part.words)
        written = b"".join(self._annotate(part, citation, len(words)) for citation in part.late)
        value = _spoken_part(part, words)
        if own is not None:
            value = recall(value, own.part)
        fields = {**message.place, "content_index": part.content_index, key: words}
        if tag == "output_text":
            fields["logprobs"] = value.get("logprobs") or []
        written += self._emit(f"{tag}.done", **fields)
        return written + self._end_spoken(part, message, value, own)

    def _end_spoken(self, part: _Part, message: _Item, value: Object, own: Residue | None) -> bytes:
        """End a part of a message."""
        if own is not None and part.content_index == 0:
            message.residue = own
        message.value["content"][part.content_index] = value
        place = {**message.place, "content_index": part.content_index}
        written = self._emit("content_part.done", **place, part=value)
        message.open_parts -= 1
        if message.is_sealed and not message.open_parts:
            written += self._end_message(message)
        return written

    def _end_call(self, part: _Part, item: _Item, own: Residue | None) -> bytes:
        is_freeform = part.start.is_freeform
        key = "input" if is_freeform else "arguments"
        name = "custom_tool_call_input" if is_freeform else "function_call_arguments"
        written = b""
        if not (part.words or is_freeform or own):
            written = self._delta(part, Delta(part.start.index, "{}", "arguments"))
        words = "".join(part.words)
        call = self._call(part, words)
        if own is not None:
            call.pop("status", None)
            call = recall(call, own.part)
        written += self._emit(f"{name}.done", **item.place, **{key: words})
        return written + self._done(item, call)

    def _end_thought(self, part: _Part, item: _Item, own: Residue | None) -> bytes:
        written: list[bytes] = []
        value: Object = {"type": "reasoning", "summary": []}
        for (channel, _), (position, words) in part.segments.items():
            shown = channel if part.is_own else "summary"
            added, name, counter, tag = _SEGMENTS[shown]
            whole = {"type": tag, "text": "".join(words)}
            place = {**item.place, counter: position}
            written.append(self._emit(f"{name}.done", **place, text=whole["text"]))
            written.append(self._emit(f"{added}.done", **place, part=whole))
            value.setdefault("summary" if shown == "summary" else "content", []).append(whole)
        if part.is_own and part.encrypted:
            value["encrypted_content"] = "".join(part.encrypted)
        if own is not None:
            value = recall(value, own.part)
        return b"".join(written) + self._done(item, value)


def _spoken_part(part: _Part, words: str) -> Object:
    tag, key = _TEXT[part.start.kind]
    annotations = {"annotations": list(part.annotations)} if tag == "output_text" else {}
    return {"type": tag, key: words, **annotations}


def _beside(event: Delta) -> Object:
    """What this dialect's own event says beside its words."""
    residue = own_residue(event, NAME)
    if residue is None or residue.part is None:
        return {}
    return decode_json(residue.part)  # type: ignore[no-any-return]

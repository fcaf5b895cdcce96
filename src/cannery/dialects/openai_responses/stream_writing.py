"""Writes Responses streams.

Items may be open side by side, so nothing has to wait: a call or a thought is an item of its own, and texts that follow
each other are the parts of one message, which ends when something else begins. The facts of this dialect's own stream
about an item, the response and its end are kept; anything else gets the ids and fields of a whole response.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.openai_responses.forms import (
    MADE,
    PART,
    call_item,
    form_words,
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
)
from cannery.messages.json_text import decode_json
from cannery.messages.payload import Location
from cannery.messages.requests import Usage
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.citations import is_sayable
from cannery.wire.contract import Piece, StreamOptions
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, recall
from cannery.wire.sse import foreign_frame, named_frame
from cannery.wire.stream_writing import EventWriter, WrittenPart

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
# The error kinds with a code in the SDK; any other is the server's fault.
_CODES = {
    "invalid_request_error": "invalid_prompt",
    "rate_limit_error": "rate_limit_exceeded",
    "rate_limit_exceeded": "rate_limit_exceeded",
    "request_too_large": "invalid_prompt",
}


class _Item:
    """An open item."""

    def __init__(self, output_index: int, value: Object) -> None:
        self.output_index = output_index
        self.value = value
        self.open_parts = 0
        self.is_sealed = False
        self.residue: Residue | None = None

    @property
    def place(self) -> Object:
        """The fields by which events name the item."""
        return {"item_id": self.value["id"], "output_index": self.output_index}


class _Part(WrittenPart):
    """An open part."""

    def __init__(self, start: PartStart) -> None:
        super().__init__(start)
        self.item: _Item | None = None
        self.content_index = 0
        # Content that arrived whole.
        self.value: Object = {}
        self.annotations: list[Any] = []
        # Citations of the whole text, and those after them, wait until it is complete.
        self.late: list[Citation] = []
        self.encrypted: list[str] = []
        # Channel and segment -> position on the wire and text so far.
        self.segments: dict[tuple[str, int], tuple[int, list[str]]] = {}
        # The last position of each channel.
        self.counts: dict[str, int] = {}


class ResponsesStreamWriter(EventWriter[_Part]):
    """Consumes events and gives the bytes of a stream."""

    dialect = NAME
    part = _Part

    def __init__(self, options: StreamOptions) -> None:
        super().__init__(options)
        self._body = answer_body(NO_IDENTIFIER, options.model or "", options.created)
        self._number = 0
        self._message: _Item | None = None
        self._output: dict[int, Object] = {}
        # The positions of items with an id, and events of items that have not come yet.
        self._places: dict[str, int] = {}
        self._early: dict[str, list[Unknown]] = {}
        self._count = 0

    def lane(self, start: PartStart) -> None:
        """No lane: every event has the index of its item."""

    def start(self, event: Start) -> bytes:  # noqa: ARG002 - it is kept
        """Begin the response."""
        return self._begin()

    def begin(self) -> bytes:
        """Write the known facts of the response."""
        created = self._created()
        self._body["id"] = self._identifier("") or NO_IDENTIFIER
        self._body["model"] = self._model()
        self._body["created_at"] = 0 if created is absent else created
        body = self._body | self._own_envelope(self._start)
        written = self._emit("created", response=body, **self._own_part(self._start))
        # This dialect's own stream reports that it is in progress.
        return written if self._is_same else written + self._emit("in_progress", response=body)

    def _emit(self, kind: str, **fields: Any) -> bytes:
        name = f"response.{kind}"
        frame = named_frame(name, {"type": name, "sequence_number": self._number, **fields})
        self._number += 1
        return frame

    def unknown(self, event: Unknown, value: Object) -> bytes:
        """Write an event that only this dialect understands, after the start of its item."""
        written = self._begin()
        if event.item is not None and event.item not in self._places:
            self._early.setdefault(event.item, []).append(event)
            return written
        return written + self._again(event, value)

    def _again(self, event: Unknown, value: Object) -> bytes:
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

    def finish(self, event: Finish) -> bytes:
        """Write the whole response."""
        written = self._seal()
        answer = {**self._body, "output": self._items(), **ending(event.reason, self._counted())}
        name = answer["status"]
        around = event.around
        if around is not None and around.dialect == NAME:
            # The output stays as the items were when they were done.
            answer = {**recall(answer, around.envelope), "output": answer["output"]}
            name = answer["status"] if answer.get("status") in _ENDS else name
        return written + self._emit(name, response=answer, **self._own_envelope(event))

    def _counted(self) -> Usage | None:
        return None if self._usage is None else self._usage.usage

    def fail(self, event: Failure, own: Object | None) -> bytes:
        """End the response with an error."""
        written = self._begin()
        code = _CODES.get(event.kind, "server_error")
        error = {"code": code, "message": event.message, "type": event.kind}
        told = {} if own is None else error_of(own) or {}
        error |= {key: told[key] for key in told if told[key] not in (None, "error")}
        body = self._body | self._own_envelope(self._start) | ending(None, self._counted())
        ended = {"output": self._items(), "status": "failed", "error": error}
        return written + self._emit("failed", response=body | ended)

    def _items(self) -> list[Object]:
        return [self._output[index] for index in sorted(self._output)]

    def _add(self, known: Object) -> tuple[_Item, bytes]:
        """Begin an item, with its id in this dialect or a generated one."""
        if type(known.get("id")) is not str:
            kind = known.get("type", "message")
            known = {**known, "id": item_id(self._body["id"], kind, self._count)}
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
        """Seal the open message, now or with its last open part."""
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

    def open(self, part: _Part) -> bytes:
        """Begin an item, or a part of the open message."""
        start = part.start
        if part.kind in _TEXT:
            return self._start_part(part, self._recall(_spoken_part(part, ""), start))
        if part.kind == "whole":
            if PART not in form_words(self._own(start)):
                return self._whole(part)
            ours = ItemWriter(Report(), is_same=True).output_parts(start.content, None)[0]
            part.value = self._recall(ours, start)
            return self._start_part(part, part.value)
        if part.kind == "canister":
            return self._canister(start.content)
        if part.kind == "invocation":
            return self._open_item(part, self._call(part, ""))
        return self._open_thought(part) if self._is_own_thought(part) else self._seal()

    def _start_part(self, part: _Part, empty: Object) -> bytes:
        """Begin a part of the open message, or of a new one."""
        envelope = self._own(part.start).envelope
        written = b"" if envelope is None else self._seal()
        if self._message is None:
            value = {"type": "message", "status": "in_progress", "role": "assistant", "content": []}
            self._message, added = self._add(recall(value, envelope))
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
        """Begin an item with a single part."""
        sealed = self._seal()
        part.item, added = self._add(self._recall(value, part.start))
        return sealed + added

    def _open_thought(self, part: _Part) -> bytes:
        return self._open_item(part, {"type": "reasoning", "summary": []})

    def _call(self, part: _Part, arguments: str) -> Object:
        start = part.start
        call = call_item(start.identifier, start.name, arguments, start.is_freeform)
        is_foreign = self._own(start).part is None
        return {**call, "status": "completed"} if is_foreign and not start.is_freeform else call

    def _whole(self, part: _Part) -> bytes:
        content, item = part.start.content, self._own_block(part)
        if item is not None:
            return self._opaque(item)
        if isinstance(content, ReasoningContentClass):
            return self._whole_thought(part.start, content)
        if isinstance(content, ImageContentClass) and not isinstance(content.payload, Location):
            return self._image(part.start.residue, content)
        parts = ItemWriter(Report(), is_same=False).output_parts(content, None)
        return b"".join(
            self._whole_text("refusal" if part["type"] == "refusal" else "text", part)
            for part in parts
        )

    def _image(self, residue: Residue | None, content: ImageContentClass) -> bytes:
        """The call that generated an image: this server's own unchanged."""
        if residue is not None and residue.dialect == NAME:
            is_made = MADE in form_words(residue)
            return self._opaque(recall(made_item(content), residue.part)) if is_made else b""
        writer = ItemWriter(Report(), is_same=False)
        value = writer.foreign_image(content, None)
        if value is None:
            return b""
        value["id"] = item_id(self._body["id"], value["type"], self._count)
        sealed = self._seal()
        item, added = self._add({**value, "result": None})
        written = sealed + added + self._emit("image_generation_call.completed", **item.place)
        return written + self._done(item, value)

    def _canister(self, canister: AnyCanister) -> bytes:
        """A canister that is not the model's, if it is this server's."""
        held = canister.held
        if isinstance(held, OpaqueContentClass):
            return self._opaque(decode_json(held.json)) if held.dialect == NAME else b""
        is_result = isinstance(canister, ResultCanisterClass)
        if not is_result or own_residue(canister, NAME) is None:
            return b""
        value = ItemWriter(Report(), is_same=True).result(Piece(canister, None))
        sealed = self._seal()
        item, added = self._add(value)
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
            early = self._early.pop(identifier, ())
            written += b"".join(self._again(each, self._read(each.json)) for each in early)
        return written + self._emit("output_item.done", output_index=index, item=value)

    def _whole_text(self, kind: str, value: Object) -> bytes:
        part = _Part(PartStart(-1, kind))
        written = self._start_part(part, _spoken_part(part, ""))
        written += self.more(part, Delta(-1, value[_TEXT[kind][1]]))
        return written + self.end(part, PartEnd(-1))

    def _whole_thought(self, event: PartStart, content: ReasoningContentClass) -> bytes:
        part = _Part(PartStart(-1, "reasoning", origin=content.origin, residue=event.residue))
        written = self._open_thought(part) if self._is_own_thought(part) else b""
        for channel, texts in (("text", content.texts), ("summary", content.summaries)):
            for segment, words in enumerate(texts):
                written += self.more(part, Delta(-1, words, channel, segment))
        part.encrypted = [content.encrypted] if content.encrypted else []
        return written + self.end(part, PartEnd(-1, event.residue))

    def more(self, part: _Part, event: Delta) -> bytes:
        """More of a part."""
        kind = part.kind
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
        if event.residue is not None:
            fields |= self._own_part(event)
        return self._emit(f"{name}.delta", **fields)

    def _cite(self, part: _Part, event: Delta) -> bytes:
        citation = event.citation
        if citation is None or not is_sayable(citation, NAME):
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
        is_own = self._is_own_thought(part)
        if event.channel not in _SEGMENTS or not (event.text or is_own):
            return b""
        written = b"" if part.item is not None else self._open_thought(part)
        channel = event.channel if is_own else "summary"
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
        return written + self._emit(f"{name}.delta", **fields | self._own_part(event))

    def end(self, part: _Part, event: PartEnd) -> bytes:
        """End a part, and its item if it was the last of it."""
        if part.item is None:
            return b""
        own = event.residue or part.start.residue
        own = own if own is not None and own.dialect == NAME else None
        match part.kind:
            case "invocation":
                return self._end_call(part, part.item, own)
            case "reasoning":
                return self._end_thought(part, part.item, own)
            case "whole":
                return self._end_spoken(part, part.item, part.value, own)
            case _:
                return self._end_text(part, part.item, own)

    def _end_text(self, part: _Part, message: _Item, own: Residue | None) -> bytes:
        tag, key = _TEXT[part.kind]
        words = part.said
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
            written = self.more(part, Delta(part.start.index, "{}", "arguments"))
        words = part.said
        call = self._call(part, words)
        if own is not None:
            call.pop("status", None)
            call = recall(call, own.part)
        written += self._emit(f"{name}.done", **item.place, **{key: words})
        return written + self._done(item, call)

    def _end_thought(self, part: _Part, item: _Item, own: Residue | None) -> bytes:
        written: list[bytes] = []
        is_own = self._is_own_thought(part)
        value: Object = {"type": "reasoning", "summary": []}
        for (channel, _), (position, words) in part.segments.items():
            shown = channel if is_own else "summary"
            added, name, counter, tag = _SEGMENTS[shown]
            whole = {"type": tag, "text": "".join(words)}
            place = {**item.place, counter: position}
            written.append(self._emit(f"{name}.done", **place, text=whole["text"]))
            written.append(self._emit(f"{added}.done", **place, part=whole))
            value.setdefault("summary" if shown == "summary" else "content", []).append(whole)
        if is_own and part.encrypted:
            value["encrypted_content"] = "".join(part.encrypted)
        if own is not None:
            value = recall(value, own.part)
        return b"".join(written) + self._done(item, value)


def _spoken_part(part: _Part, words: str) -> Object:
    tag, key = _TEXT[part.kind]
    annotations = {"annotations": list(part.annotations)} if tag == "output_text" else {}
    return {"type": tag, key: words, **annotations}

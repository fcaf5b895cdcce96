"""Writing Interactions streams: each part is a step, but contents that this dialect said in one stay in one."""

from __future__ import annotations

from typing import Any

from cannery.dialects.gemini_interactions.responses import (
    NO_IDENTIFIER,
    answer_body,
    error_value,
    finish_word,
    write_usage,
)
from cannery.dialects.gemini_interactions.settings import NAME
from cannery.dialects.gemini_interactions.stream_reading import BESIDE
from cannery.dialects.gemini_interactions.writing import StepWriter, is_sayable, write_citation
from cannery.families.gemini.errors import status_of
from cannery.messages.content import (
    Citation,
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
from cannery.messages.requests import Usage
from cannery.messages.residue import Residue
from cannery.wire.arguments import (
    FREEFORM_INPUT,
    object_input,
    wrapped_input,
)
from cannery.wire.bodies import Object, encode
from cannery.wire.contract import StreamOptions, WireError
from cannery.wire.losses import Report
from cannery.wire.residues import own_residue, recall
from cannery.wire.sse import foreign_frame, named_frame
from cannery.wire.streams import EventWriter, Thoughts, own_failure, own_fields, read_chunk


class _Part:
    """A part under way: its start, the index of its step, its words and what they cite."""

    def __init__(self, start: PartStart, index: int) -> None:
        self.start = start
        self.index = index
        self.words: list[str] = []
        self.cited: list[Citation] = []
        # Whether this dialect made the thought.
        self.is_own = start.origin is not None and start.origin.dialect == NAME


class InteractionsStreamWriter(EventWriter):
    """Takes events and gives the bytes of a stream; arguments come whole, since they have to be an object."""

    dialect = NAME

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._start = Start()
        self._is_started = False
        self._parts: dict[int, _Part] = {}
        self._count = 0
        # The ``model_output`` that the next content of a stream of this dialect goes on with.
        self._output: int | None = None
        self._thoughts = Thoughts()
        self._usage: Usage | None = None
        # What stands beside events that are still to come, by their kinds and steps.
        self._beside: dict[tuple[str, Any], Object] = {}

    @property
    def _is_same(self) -> bool:
        return self._start.source == NAME

    def _emit(self, kind: str, **fields: Any) -> bytes:
        beside = self._beside.pop((kind, fields.get("index")), {})
        return named_frame(kind, {**fields, "event_type": kind, **beside})

    def _delta(self, index: int, kind: str, **delta: Any) -> bytes:
        return self._emit("step.delta", index=index, delta={**delta, "type": kind})

    def _body(self, **more: Any) -> Object:
        start, options = self._start, self._options
        identifier = start.identifier if isinstance(start.identifier, str) else NO_IDENTIFIER
        created = options.created or start.created
        return {**answer_body(identifier, options.model or start.model, created), **more}

    def _begin(self, event: Start | None = None) -> bytes:
        """Begin the answer, if it has not begun."""
        if self._is_started:
            return b""
        self._is_started = True
        start = self._start = event or self._start
        residue = own_residue(start, NAME)
        more = {} if residue is None or residue.part is None else decode_json(residue.part)
        body = {**self._body(status="in_progress"), **own_fields(start, NAME)}
        written = self._emit("interaction.created", interaction=body, **more)
        if self._is_same:
            # This dialect's own stream says itself that it is in progress.
            return written
        told = {"interaction_id": body["id"], "status": "in_progress"}
        return written + self._emit("interaction.status_update", **told)

    def start(self, event: Start) -> bytes:
        """Begin the answer."""
        return self._begin(event)

    def count(self, event: UsageReport) -> None:
        """Keep the tokens for the end of the answer."""
        self._usage = event.usage

    def unknown(self, event: Unknown) -> bytes:
        """An event that only this dialect understands, or what stands beside the next one."""
        value: Object = read_chunk(NAME, event.json)
        if event.name == BESIDE:
            self._beside[value["event"], value["index"]] = value["fields"]
            return b""
        return self._begin() + foreign_frame(event.name, value)

    # --- steps ---------------------------------------------------------------------------------

    def _seal(self) -> bytes:
        """End the ``model_output`` under way."""
        index, self._output = self._output, None
        return b"" if index is None else self._stop(index)

    def _stop(self, index: int) -> bytes:
        return self._emit("step.stop", index=index)

    def _step(self, value: Object, patch: str | None) -> tuple[int, bytes]:
        """Begin a step of its own."""
        sealed = self._seal()
        index, self._count = self._count, self._count + 1
        return index, sealed + self._emit("step.start", index=index, step=recall(value, patch))

    def _said(self, event: PartStart) -> tuple[int, bytes]:
        """Begin a ``model_output``, or go on with one where this dialect said both in it."""
        residue = own_residue(event, NAME)
        opens = residue is not None and (residue.envelope or "opens" in (residue.form or ""))
        if self._output is not None and not opens:
            return self._output, b""
        patch = None if residue is None else residue.envelope
        index, told = self._step({"type": "model_output"}, patch)
        if self._is_same:
            self._output = index
        return index, told

    def _end_said(self, index: int) -> bytes:
        """End what was said; of this dialect the next part tells whether its step goes on."""
        return b"" if self._is_same else self._stop(index)

    def part_start(self, event: PartStart) -> bytes:
        """Begin a part, and the answer if it has not begun."""
        written = self._begin()
        residue = own_residue(event, NAME)
        patch = None if residue is None else residue.part
        match event.kind:
            case "text" | "refusal":
                index, told = self._said(event)
            case "reasoning":
                index, told = self._step({"type": "thought"}, patch)
            case "invocation":
                call = {"type": "function_call", "id": event.identifier, "name": event.name}
                index, told = self._step({**call, "arguments": {}}, patch)
            case "whole":
                return written + self._whole(event, residue)
            case _:
                return written
        self._parts[event.index] = _Part(event, index)
        return written + told

    def _whole(self, event: PartStart, residue: Residue | None) -> bytes:
        """What comes at once: contents of the model's output, or a step that only this dialect understands."""
        content = event.content
        words = "" if residue is None else residue.form or ""
        if isinstance(content, OpaqueContentClass) and content.dialect == NAME:
            if "part" not in words:
                index, told = self._step(decode_json(content.json), None)
                return told + self._stop(index)
        elif isinstance(content, ReasoningContentClass):
            return self._whole_thought(event, content)
        contents = StepWriter(Report(), is_same=self._is_same).content(content, None)
        if not contents:
            return b""
        index, told = self._said(event)
        for each in contents:
            shown: Object = recall(each, None if residue is None else residue.part)
            told += self._delta(index, shown.pop("type"), **shown)
        return told + self._end_said(index)

    def _whole_thought(self, event: PartStart, content: ReasoningContentClass) -> bytes:
        texts = [words for words in (*content.texts, *content.summaries) if words]
        start = PartStart(event.index, "reasoning", origin=content.origin, residue=event.residue)
        if not texts and not _Part(start, 0).is_own:
            return b""
        written = self.part_start(start)
        for number, words in enumerate(texts):
            written += self.delta(Delta(event.index, words, "summary", number))
        return written + self.delta(Delta(event.index, content.signature or "", "signature"))

    def delta(self, event: Delta) -> bytes:
        """More of a part."""
        part = self._parts.get(event.index)
        if part is None:
            return b""
        kind, words = event.channel, event.text
        if part.start.kind == "reasoning":
            if kind in ("text", "summary"):
                words = words if part.is_own else self._thoughts.joined(event)
                part.words.append(words)
                content = {"text": words, "type": "text"}
                return self._delta(part.index, "thought_summary", content=content)
            is_signed = kind == "signature" and part.is_own
            return (
                self._delta(part.index, "thought_signature", signature=words) if is_signed else b""
            )
        if kind == "citation" and event.citation is not None:
            part.cited.append(event.citation)
        elif words and kind in ("text", "arguments"):
            part.words.append(words)
            if kind == "text":
                residue = own_residue(event, NAME)
                rest = {} if residue is None or residue.part is None else decode_json(residue.part)
                return self._delta(part.index, "text", text=words, **rest)
        return b""

    def part_end(self, event: PartEnd) -> bytes:
        """End a part."""
        part = self._parts.pop(event.index, None)
        if part is None:
            return b""
        said = "".join(part.words)
        match part.start.kind:
            case "invocation":
                return self._arguments(part, said) + self._stop(part.index)
            case "reasoning":
                residue = own_residue(event, NAME)
                patch = None if residue is None else residue.part
                written = b""
                # What is no text stands behind the text.
                told = [None] if said else []
                for content in recall({"summary": told}, patch)["summary"][len(told) :]:
                    written += self._delta(part.index, "thought_summary", content=content)
                return written + self._stop(part.index)
            case _:
                return self._citations(part, said) + self._end_said(part.index)

    def _arguments(self, part: _Part, said: str) -> bytes:
        if not said.strip():
            return b""
        given: Any = {FREEFORM_INPUT: said} if part.start.is_freeform else object_input(said)
        words = said
        if given is None or part.start.is_freeform:
            words = encode(given or wrapped_input(said)).decode()
        return self._delta(part.index, "arguments_delta", arguments=words)

    def _citations(self, part: _Part, said: str) -> bytes:
        cited = [*filter(is_sayable, part.cited)]
        if not cited:
            return b""
        annotations = [write_citation(each, said) for each in cited]
        return self._delta(part.index, "text_annotation_delta", annotations=annotations)

    # --- the end -------------------------------------------------------------------------------

    def finish(self, event: Finish) -> bytes:
        """End all parts, and the answer."""
        written = self._begin()
        for index in [*self._parts]:
            written += self.part_end(PartEnd(index))
        written += self._seal()
        self.is_over = True
        answer = self._body(status=finish_word(event.reason))
        if self._usage is not None:
            answer["usage"] = write_usage(self._usage)
        around = event.around
        if around is not None and around.dialect == NAME:
            answer = recall(answer, around.envelope)
        return written + self._emit("interaction.completed", interaction=answer)

    def fail(self, event: Failure) -> bytes:
        """End the answer with an error."""
        written = self._begin()
        self.is_over = True
        own = own_failure(event, NAME)
        if own is not None:
            return written + named_frame("error", own)
        status = event.status or status_of(event.kind)
        error = error_value(WireError(status, event.message, event.kind))
        return written + self._emit("error", error=error)

    def close(self) -> bytes:
        """The bytes that end the stream."""
        return b"event: done\ndata: [DONE]\n\n" if self.is_over else b""

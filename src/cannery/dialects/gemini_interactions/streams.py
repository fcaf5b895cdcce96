"""Interactions streams, both ways: ``interaction.*`` and ``step.*`` events, which name a step by its index.

A ``model_output`` is sent as its contents: text continues the open text, anything else is a content of its own. The
deltas of a tool that Google runs are fields of its step, which is emitted when it is complete. Fields of an event
beside its known ones (``event_id``, ``metadata``) come before it as an unknown event, for the same dialect only. When
writing, each part is a step, and steps come one after the other as Google sends them; contents from one step of this
dialect stay in one step. Arguments are written whole, because they must be an object.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cannery.dialects.gemini_interactions.reading import (
    CONTENTS,
    StepReader,
    read_citation,
    read_content,
    split_steps,
)
from cannery.dialects.gemini_interactions.responses import (
    COUNTS,
    FINISHES,
    NO_IDENTIFIER,
    answer_body,
    error_value,
    read_answer,
)
from cannery.dialects.gemini_interactions.settings import NAME
from cannery.dialects.gemini_interactions.writing import StepWriter, write_citation
from cannery.families.gemini.answers import read_time
from cannery.families.gemini.errors import facts_of, status_of
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister, new_invocation
from cannery.messages.checked import now
from cannery.messages.content import ReasoningContentClass, new_opaque
from cannery.messages.events import (
    Delta,
    Failure,
    Finish,
    PartEnd,
    Start,
    Unknown,
    UsageReport,
    unfold_part,
)
from cannery.messages.json_text import write_json
from cannery.messages.requests import FinishReason, Usage
from cannery.messages.residue import Residue
from cannery.wire.arguments import argument_text, call_input
from cannery.wire.bodies import Object, encode
from cannery.wire.citations import is_sayable
from cannery.wire.contract import StreamOptions, WireError
from cannery.wire.controls import text
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import nested, recall, set_again
from cannery.wire.sse import Frame, foreign_frame, named_frame
from cannery.wire.stream_reading import EventReader, OpenArguments, OpenPart, left_of, object_of
from cannery.wire.stream_writing import EventWriter, WrittenPart

_BESIDE = "beside"
# The event fields that are read.
_OF_EVENTS = frozenset({"event_type", "index", "step", "delta", "interaction"})
_HEAD = frozenset({"id", "model", "object", "status", "created"})
_THOUGHT = frozenset({"type", "signature", "summary"})
_CALL = frozenset({"type", "id", "name", "arguments"})
_OUTPUT = frozenset({"type", "content"})
_TEXT = frozenset({"type", "text", "annotations"})


class _Step:
    """An open step; its open part has its index."""

    def __init__(self, index: int, value: Object) -> None:
        self.index = index
        self.value = value
        self.kind = value.get("type")
        # Whether any part of it was emitted, and whether all of it was.
        self.has_parts = False
        self.is_told = False
        # Contents of a summary that are not text.
        self.images: list[Any] = []
        self.arguments = OpenArguments()


class InteractionsStreamReader(EventReader[OpenPart]):
    """Consumes the bytes of a stream and gives events."""

    dialect = NAME
    part = OpenPart
    starts = "interaction.created"

    def __init__(self) -> None:
        super().__init__()
        self._answer: Object = {}
        self._created: Any = absent
        self._steps: dict[int, _Step] = {}
        self._has_output = False

    def name_of(self, value: Object, frame: Frame) -> str:
        """The name of an event."""
        if type(value.get("error")) is dict and "interaction" not in value:
            return "error"
        return str(value.get("event_type") or value.get("type") or frame.name)

    def failure(self, kind: str, value: Object, data: str) -> Failure | None:
        """An error in place of a response."""
        if kind != "error":
            return None
        found = value.get("error")
        error: Object = found if type(found) is dict else {"message": found}
        message, named, _ = facts_of(error)
        code = error.get("code")
        status = code if type(code) is int else status_of(named) if named else None
        return Failure(message or "unknown error", named or "api_error", status, data, NAME)

    def start(self, kind: str, value: Object) -> None:
        """Read the first event of the response."""
        answer = object_of(value.get("interaction"))
        self._answer = left_of(answer, ("steps",))
        model = text(answer.get("model"))
        self._model = None if model is absent else model
        self._created = read_time(answer.get("created"))
        beside = left_of(value, _OF_EVENTS) if kind == self.starts else None
        residue = self._kept(beside, left_of(answer, _HEAD))
        self._out.append(Start(text(answer.get("id")), model, self._created, NAME, residue))

    def _tell_beside(self, kind: str, value: Object) -> None:
        """Pass on the fields beside an event, before it."""
        beside, index = left_of(value, _OF_EVENTS), value.get("index")
        if beside:
            told = {"event": kind, "index": index if type(index) is int else None, "fields": beside}
            self._out.append(Unknown(NAME, _BESIDE, write_json(told)))

    # --- steps ---------------------------------------------------------------------------------

    def _started(self, event: Object, _frame: Frame) -> None:
        """A step starts; its start may already have what deltas would bring."""
        self._tell_beside("step.start", event)
        value, index = event.get("step"), event.get("index")
        if type(value) is not dict or type(index) is not int or index in self._steps:
            return
        step = self._steps[index] = _Step(index, value)
        if step.kind == "thought":
            self._thought(step)
        elif step.kind == "function_call":
            self._call(step)
        elif step.kind == "model_output":
            given = value.get("content")
            for content in given if type(given) is list else ():
                self._content(step, content)

    def _begin(self, step: _Step, kind: str, **facts: Any) -> OpenPart:
        """Start a part; all parts of a response are joined to the first."""
        is_first, step.has_parts = not step.has_parts, True
        has_output, self._has_output = self._has_output, step.kind == "model_output"
        if self._has_output and is_first:
            rest = left_of(step.value, _OUTPUT)
            own: Residue = facts.get("residue") or Residue(NAME)
            form = f"{own.form or ''} opens".strip() if has_output else own.form
            envelope = write_json({"s": rest}) if rest else None
            own = replace(own, envelope=envelope, form=form)
            facts["residue"] = None if own == Residue(NAME) else own
        return self._start_part(step.index, kind, joined=self._count > 0, **facts)

    def _thought(self, step: _Step) -> None:
        rest = left_of(step.value, _THOUGHT)
        part = self._begin(step, "reasoning", residue=self._kept(set_again(rest)))
        summary, signature = step.value.get("summary"), step.value.get("signature")
        for content in summary if type(summary) is list else ():
            self._summary(step, part, content)
        if type(signature) is str:
            self._add(part, signature, "signature")

    def _summary(self, step: _Step, part: OpenPart, content: Any) -> None:
        words = content.get("text") if type(content) is dict else None
        if type(words) is str and content.get("type") == "text":
            part.words.append(words)
            self._out.append(Delta(part.index, words, "summary"))
        elif content is not None:
            step.images.append(content)

    def _call(self, step: _Step) -> None:
        value = step.value
        identifier, name = value.get("id"), value.get("name")
        if type(identifier) is not str or not identifier:
            identifier = f"call_{self._count}"
        signer = self._model if "signature" in value else None
        residue = self._kept(set_again(left_of(value, _CALL)), model=signer)
        named = {"identifier": identifier, "name": name if type(name) is str else ""}
        self._begin(step, "invocation", **named, residue=residue)

    def _content(self, step: _Step, content: Any) -> None:
        """Read one content of the model's output."""
        if type(content) is not dict or type(content.get("type")) is not str:
            return
        if content["type"] == "text" and type(content.get("text")) is str:
            part = self._open.get(step.index) or self._begin(step, "text")
            part.words.append(content["text"])
            residue = self._kept(left_of(content, _TEXT))
            self._out.append(Delta(part.index, content["text"], residue=residue))
            self._cite(step, content.get("annotations"))
            return
        self._end_part(step.index)
        held, patch = read_content({**content}, ())
        own = self._kept(form="part") if held.kind == "opaque" else self._kept(patch)
        self._begin(step, "whole", content=held, residue=own)
        self._end_part(step.index)

    def _cite(self, step: _Step, annotations: Any) -> None:
        if type(annotations) is not list or not annotations:
            return
        part = self._open.get(step.index) or self._begin(step, "text")
        said = "".join(part.words)
        for annotation in annotations:
            citation = read_citation(annotation, said)
            self._out.append(Delta(part.index, "", "citation", citation=citation))

    def _delta(self, event: Object, frame: Frame) -> None:
        """Read more of a step."""
        self._tell_beside("step.delta", event)
        index, value = event.get("index"), event.get("delta")
        step = self._steps.get(index) if type(index) is int else None
        if step is None or step.is_told or type(value) is not dict:
            return
        kind, part = value.get("type"), self._open.get(index)
        if step.kind == "model_output" and kind in CONTENTS:
            self._content(step, value)
        elif step.kind == "model_output" and kind == "text_annotation_delta":
            self._cite(step, value.get("annotations"))
        elif part is not None and step.kind == "thought" and kind == "thought_summary":
            self._summary(step, part, value.get("content"))
        elif part is not None and step.kind == "thought" and kind == "thought_signature":
            if type(value.get("signature")) is str:
                self._out.append(Delta(part.index, value["signature"], "signature"))
        elif part is not None and step.kind == "function_call" and kind == "arguments_delta":
            if type(value.get("arguments")) is str:
                part.words.append(value["arguments"])
                self._add(part, step.arguments.add(value["arguments"]), "arguments")
        elif kind == step.kind:
            step.value.update(value)
        else:
            self._out.append(Unknown(NAME, "step.delta", frame.data))

    def _stopped(self, event: Object, _frame: Frame) -> None:
        """A step is complete."""
        self._tell_beside("step.stop", event)
        index = event.get("index")
        step = self._steps.get(index) if type(index) is int else None
        if step is not None:
            self._stop(step)

    def _stop(self, step: _Step) -> None:
        if step.is_told:
            return
        step.is_told = True
        part = self._open.get(step.index)
        residue = None
        if step.kind == "function_call" and part is not None:
            # Arguments without a delta are those of the start event.
            given = step.value.get("arguments")
            if any(part.words):
                self._add(part, step.arguments.rest(), "arguments")
            elif given not in (None, {}):
                self._add(part, argument_text(given), "arguments")
        elif step.kind == "thought" and part is not None and step.images:
            listed = {str(at): held for at, held in enumerate(step.images, bool(part.words))}
            rest = left_of(step.value, _THOUGHT)
            residue = self._kept(nested(rest, {"summary": {"a": listed}}))
        elif step.kind not in ("thought", "model_output") and type(step.kind) is str:
            self._begin(step, "whole", content=new_opaque(NAME, step.kind, write_json(step.value)))
        self._end_part(step.index, residue)

    # --- the end -------------------------------------------------------------------------------

    def _completed(self, event: Object, _frame: Frame) -> None:
        """The response is complete; a response that was not sent as steps has them here."""
        self._tell_beside("interaction.completed", event)
        self._is_over = True
        told = object_of(event.get("interaction"))
        steps = told.get("steps")
        if type(steps) is list and not self._steps:
            self._all_steps(steps)
        for step in self._steps.values():
            self._stop(step)
        calls: list[AnyCanister] = [new_invocation("", now())] if self._has_calls else []
        fields = left_of({**self._answer, **told}, ("steps",))
        if fields.get("status") in (None, "in_progress"):
            fields["status"] = "completed"
        response = read_answer(fields, calls, Places(), None, self._created)
        if isinstance(response.usage, Usage):
            self._out.append(UsageReport(response.usage))
        reason: Any = response.finish
        if not isinstance(reason, FinishReason):
            reason = FinishReason.Other
        self._out.append(Finish(reason, absent, None, response.residue))

    def _all_steps(self, steps: list[Any]) -> None:
        reader = StepReader([], self._model, is_answer=True)
        reader.answer(split_steps(encode(steps)), "steps")
        for canister in reader.canisters:
            if canister.held is not absent:
                index = self._number()
                self._out.extend(unfold_part(index, canister, joined=index > 0))

    readers = {  # noqa: RUF012 - a constant
        "step.start": _started,
        "step.delta": _delta,
        "step.stop": _stopped,
        "interaction.completed": _completed,
    }


# --- writing -----------------------------------------------------------------------------------


class InteractionsStreamWriter(EventWriter[WrittenPart]):
    """Consumes events and gives the bytes of a stream."""

    dialect = NAME
    part = WrittenPart

    def __init__(self, options: StreamOptions) -> None:
        super().__init__(options)
        self._count = 0
        # The ``model_output`` that the next content of a stream of this dialect continues.
        self._output: int | None = None
        # Fields to write beside later events, by their kinds and steps.
        self._beside: dict[tuple[str, Any], Object] = {}

    def _emit(self, kind: str, **fields: Any) -> bytes:
        beside = self._beside.pop((kind, fields.get("index")), {}) if self._beside else {}
        return named_frame(kind, {**fields, "event_type": kind, **beside})

    def _step_delta(self, index: int | None, kind: str, **delta: Any) -> bytes:
        return self._emit("step.delta", index=index, delta={**delta, "type": kind})

    def _answer(self, status: str) -> Object:
        identifier = self._identifier(NO_IDENTIFIER)
        model = self._options.model or self._start.model
        return {**answer_body(identifier, model, self._created()), "status": status}

    def start(self, event: Start) -> bytes:  # noqa: ARG002 - it is kept
        """Begin the response."""
        return self._begin()

    def begin(self) -> bytes:
        """Write the known facts of the response."""
        body = {**self._answer("in_progress"), **self._own_envelope(self._start)}
        more = self._own_part(self._start)
        written = self._emit("interaction.created", interaction=body, **more)
        if self._is_same:
            # This dialect's own stream reports that it is in progress.
            return written
        told = {"interaction_id": body["id"], "status": "in_progress"}
        return written + self._emit("interaction.status_update", **told)

    def unknown(self, event: Unknown, value: Object) -> bytes:
        """Write an event that only this dialect understands, or keep the fields for the next one."""
        if event.name == _BESIDE:
            self._beside[value["event"], value["index"]] = value["fields"]
            return b""
        return self._begin() + foreign_frame(event.name, value)

    # --- steps ---------------------------------------------------------------------------------

    def _seal(self) -> bytes:
        """End the open ``model_output``."""
        index, self._output = self._output, None
        return b"" if index is None else self._stop(index)

    def _stop(self, index: int | None) -> bytes:
        return self._emit("step.stop", index=index)

    def _step(self, part: WrittenPart, value: Object) -> bytes:
        """Begin a step of its own."""
        sealed = self._seal()
        part.number, self._count = self._count, self._count + 1
        return sealed + self._emit("step.start", index=part.number, step=value)

    def _said(self, part: WrittenPart) -> bytes:
        """Begin a ``model_output``, or continue one if this dialect had both contents in it."""
        own = self._own(part.start)
        if self._output is not None and not (own.envelope or "opens" in (own.form or "")):
            part.number = self._output
            return b""
        told = self._step(part, recall({"type": "model_output"}, own.envelope))
        if self._is_same:
            self._output = part.number
        return told

    def _end_said(self, part: WrittenPart) -> bytes:
        """End a content; in this dialect's own stream the next part decides whether its step continues."""
        return b"" if self._is_same else self._stop(part.number)

    def open(self, part: WrittenPart) -> bytes:
        """Begin a part."""
        start = part.start
        match part.kind:
            case "text" | "refusal":
                return self._said(part)
            case "reasoning":
                return self._step(part, self._recall({"type": "thought"}, start))
            case "invocation":
                call = {"type": "function_call", "id": start.identifier, "name": start.name}
                return self._step(part, self._recall({**call, "arguments": {}}, start))
            case "whole":
                return self._whole(part)
            case _:
                return b""

    def _whole(self, part: WrittenPart) -> bytes:
        """Write a part that arrives at once: model output, or a step that only this dialect understands."""
        content, own, step = part.start.content, self._own(part.start), self._own_block(part)
        if isinstance(content, ReasoningContentClass):
            return self._whole_thought(part, content)
        if step is not None and "part" not in (own.form or ""):
            return self._step(part, step)
        contents = StepWriter(Report(), is_same=self._is_same).content(content, None)
        if not contents:
            return b""
        told = self._said(part)
        for each in contents:
            shown: Object = self._recall(each, part.start)
            told += self._step_delta(part.number, shown.pop("type"), **shown)
        return told

    def _whole_thought(self, part: WrittenPart, content: ReasoningContentClass) -> bytes:
        texts = [words for words in (*content.texts, *content.summaries) if words]
        part.start = replace(part.start, kind="reasoning", origin=content.origin, content=None)
        part.kind = "reasoning"
        if not texts and not self._is_own_thought(part):
            return b""
        index = part.start.index
        deltas = [Delta(index, words, "summary", at) for at, words in enumerate(texts)]
        deltas.append(Delta(index, content.signature or "", "signature"))
        return b"".join([self.open(part), *(self.more(part, delta) for delta in deltas)])

    def more(self, part: WrittenPart, event: Delta) -> bytes:
        """Write more of a part; arguments and citations are kept until its end."""
        kind, words = event.channel, event.text
        if part.kind == "reasoning":
            if kind in ("text", "summary"):
                words = self._thought(part, event)
                part.words.append(words)
                content = {"text": words, "type": "text"}
                return self._step_delta(part.number, "thought_summary", content=content)
            if kind == "signature" and self._is_own_thought(part):
                return self._step_delta(part.number, "thought_signature", signature=words)
        elif event.citation is not None:
            part.cited.append(event.citation)
        elif words and kind in ("text", "arguments"):
            part.words.append(words)
            if kind == "text":
                more = self._own_part(event) if event.residue is not None else {}
                return self._step_delta(part.number, "text", text=words, **more)
        return b""

    def end(self, part: WrittenPart, event: PartEnd) -> bytes:
        """Write what was kept, and end the step."""
        if part.number is None:
            return b""
        said = part.said
        match part.kind:
            case "invocation":
                return self._arguments(part, said) + self._stop(part.number)
            case "reasoning":
                # Content that is not text comes after the text.
                told = [None] if said else []
                images = self._recall({"summary": told}, event)["summary"][len(told) :]
                written = [
                    self._step_delta(part.number, "thought_summary", content=each)
                    for each in images
                ]
                return b"".join(written) + self._stop(part.number)
            case "whole" if part.number != self._output and self._own_block(part) is not None:
                return self._stop(part.number)
            case _:
                return self._citations(part, said) + self._end_said(part)

    def _arguments(self, part: WrittenPart, said: str) -> bytes:
        if not said.strip():
            return b""
        value = call_input(said, is_freeform=part.start.is_freeform)
        words = encode(value).decode() if type(value) is dict else said
        return self._step_delta(part.number, "arguments_delta", arguments=words)

    def _citations(self, part: WrittenPart, said: str) -> bytes:
        cited = [each for each in part.cited if is_sayable(each, NAME)]
        if not cited:
            return b""
        annotations = [write_citation(each, said) for each in cited]
        return self._step_delta(part.number, "text_annotation_delta", annotations=annotations)

    # --- the end -------------------------------------------------------------------------------

    def finish(self, event: Finish) -> bytes:
        """The whole response, without its steps."""
        written = self._seal()
        answer = self._answer(FINISHES.word(event.reason))
        if self._usage is not None:
            answer["usage"] = COUNTS.write(self._usage.usage)
        if event.around is not None and event.around.dialect == NAME:
            answer = recall(answer, event.around.envelope)
        return written + self._emit("interaction.completed", interaction=answer)

    def fail(self, event: Failure, own: Object | None) -> bytes:
        """End the response with an error."""
        written = self._begin()
        if own is not None:
            return written + named_frame("error", own)
        status = event.status or status_of(event.kind)
        error = error_value(WireError(status, event.message, event.kind))
        return written + self._emit("error", error=error)

    def close(self) -> bytes:
        """The bytes that end the stream."""
        return b"event: done\ndata: [DONE]\n\n" if self._is_over else b""

"""Interactions streams: ``interaction.*`` and ``step.*`` events, which name a step by its index.

A ``model_output`` is told by its contents: words go on with the text under way, anything else is a content of its own.
The deltas of a tool that Google runs are fields of its step, which is told when it is complete. What an event says
beside its own fields (``event_id``, ``metadata``) comes before it as an unknown event, for the same dialect only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cannery.dialects.gemini_interactions.reading import (
    CONTENTS,
    StepReader,
    read_citation,
    read_content,
    split_steps,
)
from cannery.dialects.gemini_interactions.responses import (
    read_answer,
)
from cannery.dialects.gemini_interactions.settings import NAME
from cannery.families.gemini.answers import read_time
from cannery.families.gemini.errors import facts_of, status_of
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister, new_invocation
from cannery.messages.checked import now
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
    unfold_part,
)
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import FinishReason, Usage
from cannery.messages.residue import Residue
from cannery.wire.arguments import (
    RAW_ARGUMENTS,
    argument_text,
    input_text,
    object_input,
)
from cannery.wire.bodies import Object, encode, guarded
from cannery.wire.controls import text
from cannery.wire.residues import nested, set_again
from cannery.wire.sse import DONE, FrameReader
from cannery.wire.streams import read_chunk

BESIDE = "beside"
_WRAPPED = f'{{"{RAW_ARGUMENTS}"'
# The fields of events that are read.
_OF_EVENTS = frozenset({"event_type", "index", "step", "delta", "interaction"})
_HEAD = frozenset({"id", "model", "object", "status", "created"})
_THOUGHT = frozenset({"type", "signature", "summary"})
_CALL = frozenset({"type", "id", "name", "arguments"})
_OUTPUT = frozenset({"type", "content"})
_TEXT = frozenset({"type", "text", "annotations"})


class _Step:
    """A step under way."""

    def __init__(self, value: Object) -> None:
        self.value = value
        self.kind = value.get("type")
        # The part under way, the text that it has so far, and whether any part was told.
        self.part: int | None = None
        self.text: list[str] = []
        self.has_parts = False
        # Contents of a summary that are no text, and arguments that may yet turn out to be wrapped.
        self.images: list[Any] = []
        self.held: list[str] | None = []
        self.is_told = False


class InteractionsStreamReader:
    """Takes the bytes of a stream and gives events."""

    def __init__(self) -> None:
        self._frames = FrameReader()
        self._answer: Object | None = None
        self._model: str | None = None
        self._created: Any = absent
        self._steps: dict[Any, _Step] = {}
        self._count = 0
        self._has_output = False
        self._has_calls = False
        self._is_over = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        for frame in self._frames.feed(chunk):
            yield from self._frame(frame.name, frame.data)

    def close(self) -> Iterator[Event]:
        """The events that the end of the stream completes."""
        for frame in self._frames.close():
            yield from self._frame(frame.name, frame.data)
        if not self._is_over:
            self._is_over = True
            yield Failure("the stream ended before the answer was complete", "incomplete")

    def _frame(self, name: str, data: str) -> list[Event]:
        if self._is_over or (data[:1] != "{" and data.strip() in ("", DONE)):
            return []
        event = read_chunk(NAME, data)
        kind = event.get("event_type") or event.get("type") or name
        return guarded(NAME, lambda: [*self._event(str(kind), event, data)])  # type: ignore[no-any-return]

    def _event(self, kind: str, event: Object, data: str) -> Iterator[Event]:
        if kind == "error" or (type(event.get("error")) is dict and "interaction" not in event):
            self._is_over = True
            yield _failure(event, data)
            return
        given = event.get("interaction")
        answer: Object = given if type(given) is dict else {}
        if self._answer is None:
            yield self._start(answer, event if kind == "interaction.created" else {})
            if kind == "interaction.created":
                return
        read = _EVENTS.get(kind)
        if read is None:
            yield Unknown(NAME, kind, data)
            return
        beside = _besides(event, _OF_EVENTS)
        if beside:
            index = event.get("index")
            at = index if type(index) is int else None
            told = {"event": kind, "index": at, "fields": beside}
            yield Unknown(NAME, BESIDE, write_json(told))
        yield from read(self, event, data)

    def _start(self, answer: Object, event: Object) -> Start:
        self._answer = {key: value for key, value in answer.items() if key != "steps"}
        model, identifier = answer.get("model"), answer.get("id")
        self._model = model if type(model) is str else None
        rest, beside = _besides(answer, _HEAD), _besides(event, _OF_EVENTS)
        residue = None
        if rest or beside:
            part = write_json(beside) if beside else None
            residue = Residue(NAME, part, write_json(rest) if rest else None)
        self._created = read_time(answer.get("created"))
        return Start(text(identifier), text(model), self._created, NAME, residue)

    # --- steps ---------------------------------------------------------------------------------

    def started(self, event: Object, _: str) -> Iterator[Event]:
        """A step begins; it may say at once what deltas would."""
        value, index = event.get("step"), event.get("index")
        if type(value) is not dict or type(index) is not int or index in self._steps:
            return
        step = self._steps[index] = _Step(value)
        if step.kind == "thought":
            yield from self._thought(step)
        elif step.kind == "function_call":
            yield self._call(step)
        elif step.kind == "model_output":
            given = value.get("content")
            for content in given if type(given) is list else ():
                yield from self._content(step, content)

    def _open(self, step: _Step, kind: str, **more: Any) -> PartStart:
        """The start of a part; all parts of an answer are joined to the first."""
        step.part, self._count = self._count, self._count + 1
        is_first = not step.has_parts
        step.has_parts, step.text = True, []
        if step.kind == "model_output":
            words = "opens" if is_first and self._has_output else None
            rest = _besides(step.value, _OUTPUT)
            envelope = write_json({"s": rest}) if is_first and rest else None
            part = more.pop("patch", None)
            if words or envelope or part:
                text = None if part is None else write_json(part)
                more["residue"] = Residue(NAME, text, envelope, words)
        self._has_output = step.kind == "model_output"
        return PartStart(step.part, kind, joined=step.part > 0, **more)

    def _close(self, step: _Step, residue: Residue | None = None) -> Iterator[Event]:
        if step.part is not None:
            yield PartEnd(step.part, residue)
            step.part = None

    def _thought(self, step: _Step) -> Iterator[Event]:
        rest = _besides(step.value, _THOUGHT)
        residue = Residue(NAME, write_json({"s": rest})) if rest else None
        yield self._open(step, "reasoning", origin=Origin(NAME, self._model), residue=residue)
        summary, signature = step.value.get("summary"), step.value.get("signature")
        for content in summary if type(summary) is list else ():
            yield from self._summary(step, content)
        if type(signature) is str and signature:
            yield Delta(self._count - 1, signature, "signature")

    def _summary(self, step: _Step, content: Any) -> Iterator[Event]:
        words = content.get("text") if type(content) is dict else None
        if type(words) is str and content.get("type") == "text" and step.part is not None:
            step.text.append(words)
            yield Delta(step.part, words, "summary")
        elif content is not None:
            step.images.append(content)

    def _call(self, step: _Step) -> PartStart:
        self._has_calls = True
        value = step.value
        identifier, name = value.get("id"), value.get("name")
        if type(identifier) is not str or not identifier:
            identifier = f"call_{self._count}"
        patch = set_again(_besides(value, _CALL))
        signer = self._model if "signature" in value else None
        residue = None if patch is None else Residue(NAME, write_json(patch), model=signer)
        named = name if type(name) is str else ""
        return self._open(step, "invocation", identifier=identifier, name=named, residue=residue)

    def _content(self, step: _Step, content: Any) -> Iterator[Event]:
        """One content of the model's output."""
        if type(content) is not dict or type(content.get("type")) is not str:
            return
        if content["type"] == "text" and type(content.get("text")) is str:
            if step.part is None:
                yield self._open(step, "text")
            step.text.append(content["text"])
            rest = _besides(content, _TEXT)
            residue = Residue(NAME, write_json(rest)) if rest else None
            yield Delta(step.part or 0, content["text"], residue=residue)
            yield from self._cite(step, content.get("annotations"))
            return
        yield from self._close(step)
        held, patch = read_content({**content}, ())
        if held.kind == "opaque":
            yield self._open(step, "whole", content=held, residue=Residue(NAME, None, None, "part"))
        else:
            yield self._open(step, "whole", content=held, patch=patch)
        yield from self._close(step)

    def _cite(self, step: _Step, annotations: Any) -> Iterator[Event]:
        if type(annotations) is not list or not annotations:
            return
        if step.part is None:
            yield self._open(step, "text")
        said = "".join(step.text)
        for annotation in annotations:
            citation = read_citation(annotation, said)
            yield Delta(step.part or 0, "", "citation", citation=citation)

    def delta(self, event: Object, data: str) -> Iterator[Event]:
        """More of a step."""
        index, value = event.get("index"), event.get("delta")
        step = self._steps.get(index) if type(index) is int else None
        if step is None or step.is_told or type(value) is not dict:
            return
        kind = value.get("type")
        if step.kind == "thought" and kind == "thought_summary":
            yield from self._summary(step, value.get("content"))
        elif step.kind == "thought" and kind == "thought_signature" and step.part is not None:
            if type(value.get("signature")) is str:
                yield Delta(step.part, value["signature"], "signature")
        elif step.kind == "function_call" and kind == "arguments_delta":
            yield from self._arguments(step, value.get("arguments"))
        elif step.kind == "model_output" and kind == "text_annotation_delta":
            yield from self._cite(step, value.get("annotations"))
        elif step.kind == "model_output" and kind in CONTENTS:
            yield from self._content(step, value)
        elif kind == step.kind:
            step.value.update(value)
        else:
            yield Unknown(NAME, "step.delta", data)

    def _arguments(self, step: _Step, words: Any) -> Iterator[Event]:
        if type(words) is not str or not words or step.part is None:
            return
        step.text.append(words)
        if step.held is None:
            yield Delta(step.part, words, "arguments")
            return
        step.held.append(words)
        said = "".join(step.held)
        if not said.startswith(_WRAPPED[: len(said)]):
            step.held = None
            yield Delta(step.part, said, "arguments")

    def stopped(self, event: Object, _: str) -> Iterator[Event]:
        """A step is complete."""
        index = event.get("index")
        step = self._steps.get(index) if type(index) is int else None
        if step is not None:
            yield from self._stop(step)

    def _stop(self, step: _Step) -> Iterator[Event]:
        if step.is_told:
            return
        step.is_told = True
        if step.kind == "function_call":
            yield from self._end_call(step)
        elif step.kind == "thought" and step.images:
            listed = {str(at): held for at, held in enumerate(step.images, bool(step.text))}
            patch = nested(_besides(step.value, _THOUGHT), {"summary": {"a": listed}})
            yield from self._close(step, Residue(NAME, write_json(patch)))
        elif step.kind in ("thought", "model_output"):
            yield from self._close(step)
        elif type(step.kind) is str:
            held = new_opaque(NAME, step.kind, write_json(step.value))
            yield self._open(step, "whole", content=held)
            yield from self._close(step)

    def _end_call(self, step: _Step) -> Iterator[Event]:
        """The end of a call: arguments that no delta said are those that it began with."""
        part = step.part or 0
        given = step.value.get("arguments")
        if step.held:
            said = "".join(step.held)
            found = object_input(said)
            yield Delta(part, said if found is None else input_text(decode_json(said)), "arguments")
        elif not step.text and given not in (None, {}):
            yield Delta(part, argument_text(given), "arguments")
        yield from self._close(step)

    # --- the end -------------------------------------------------------------------------------

    def completed(self, event: Object, _: str) -> Iterator[Event]:
        """The answer is complete; one that was not told in steps has them here."""
        self._is_over = True
        given = event.get("interaction")
        told: Object = given if type(given) is dict else {}
        steps = told.get("steps")
        if type(steps) is list and not self._steps:
            yield from self._whole(steps)
        for step in self._steps.values():
            yield from self._stop(step)
        calls: list[AnyCanister] = [new_invocation("", now())] if self._has_calls else []
        fields = {**(self._answer or {}), **told}
        fields.pop("steps", None)
        if fields.get("status") in (None, "in_progress"):
            fields["status"] = "completed"
        response = read_answer(fields, calls, None, self._created)
        if isinstance(response.usage, Usage):
            yield UsageReport(response.usage)
        reason: Any = response.finish
        if not isinstance(reason, FinishReason):
            reason = FinishReason.Other
        yield Finish(reason, absent, None, response.residue)

    def _whole(self, steps: list[Any]) -> Iterator[Event]:
        reader = StepReader([], self._model, is_answer=True)
        reader.answer(split_steps(encode(steps)), "steps")
        for canister in reader.canisters:
            if canister.held is not absent:
                yield from unfold_part(self._count, canister, joined=self._count > 0)
                self._count += 1


_EVENTS: dict[str, Callable[[InteractionsStreamReader, Object, str], Iterator[Event]]] = {
    "step.start": InteractionsStreamReader.started,
    "step.delta": InteractionsStreamReader.delta,
    "step.stop": InteractionsStreamReader.stopped,
    "interaction.completed": InteractionsStreamReader.completed,
}


def _besides(value: Object, known: frozenset[str]) -> Object:
    """The fields of an object that are not among those that are read."""
    return {key: item for key, item in value.items() if key not in known}


def _failure(event: Object, raw: str) -> Failure:
    found = event.get("error")
    error: Object = found if type(found) is dict else {"message": found}
    message, kind, _ = facts_of(error)
    code = error.get("code")
    status = code if type(code) is int else status_of(kind) if kind else None
    return Failure(message or "unknown error", kind or "api_error", status, raw, NAME)

"""Reads streams of the Chat Completions shape.

Chunks identify only tool calls, by index: text ends when another part begins, calls end with the response. The finish
event is held back until the stream ends, because usage comes after it. Annotations come after the text that they cite,
in a chunk of their own.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cannery.families.chat.answers import read_citation
from cannery.families.chat.reasoning_details import DETAILS, goes_on, pieces_of, read_details
from cannery.families.chat.shape import Shape
from cannery.families.chat.stream_calls import LEGACY, StreamedCall, StreamedCalls
from cannery.families.chat.stream_metadata import DELTA, HEAD, NOTHING, REASONING, Around
from cannery.messages.absence import absent
from cannery.messages.content import Citation, Origin, ReasoningContentClass, new_audio
from cannery.messages.events import Delta, Finish, Start, Unknown, UsageReport
from cannery.messages.json_text import write_json
from cannery.messages.payload import Location
from cannery.messages.requests import Usage
from cannery.wire.answers import call_stem
from cannery.wire.arguments import argument_text
from cannery.wire.bodies import Object, is_named, is_text_part
from cannery.wire.controls import integer, text
from cannery.wire.residues import set_again
from cannery.wire.sse import Frame
from cannery.wire.stream_reading import SPOKEN, EventReader, OpenPart, left_of

_NAMED = frozenset({"id", "model", "created"})


class ChatStreamReader(EventReader[OpenPart]):
    """Consumes the bytes of a stream and gives events."""

    part = OpenPart

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.dialect = shape.name
        # The id of the response, until its start is emitted.
        self._head: Object = {}
        # The lengths of the texts that ended, and of the open one: annotations count all of them.
        self._before = 0
        self._length = 0
        # Citations that came before any text.
        self._early: list[Any] = []
        self._audio: str | None = None
        # The form of thoughts: as text, or only as details, of which one is open.
        self._thinks = ""
        self._detailed: Object | None = None
        self._calls = StreamedCalls()
        self._call_count = 0
        self._call_stem = "call_"
        self._finish: Finish | None = None
        self._word = ""
        self._around = Around(shape)
        # An empty text, which is the answer if nothing else comes.
        self._is_blank = False

    def event(self, value: Object, frame: Frame) -> None:
        """Read a chunk."""
        error = _error_of(value)
        if error is not None:
            self._fail(self.shape.read_failure(self.dialect, error, frame.data))
            return
        more, usage = self._around.take_chunk(value), self._around.take_usage(value.get("usage"))
        if not self._is_started:
            self._take_head(value, has_usage=usage is not absent)
            more = {}
        others = []
        found = value.get("choices")
        for choice in found if isinstance(found, list) else ():
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                others += self._choice(choice)
            else:
                others.append(choice)
                self._around.take_other(choice)
        if others or more:
            self._leave("chunk", {**more, "choices": others})
        if isinstance(usage, Usage):
            self._out.append(UsageReport(usage, self._kept(self._around.usage_patch)))

    def _leave(self, name: str, value: Object) -> None:
        """Pass on what only this dialect understands."""
        self._out.append(Unknown(self.dialect, name, write_json(value)))

    def _take_head(self, chunk: Object, *, has_usage: bool) -> None:
        """Take a chunk's fields of the whole response, which starts with its first id or content."""
        head = self._head
        for key, item in chunk.items():
            is_said = key in _NAMED or (key not in HEAD and item not in NOTHING)
            if is_said and not head.get(key):
                head[key] = item
        choices = chunk.get("choices")
        # Azure filters the prompt in a first chunk without id, model and time.
        says = isinstance(choices, list) and any(map(_says, choices))
        if head.get("id") or has_usage or says:
            self.start("chunk", chunk)

    def start(self, kind: str, value: Object) -> None:  # noqa: ARG002 - the chunks so far name the answer
        """Emit the start of the response."""
        self._is_started = True
        head = self._head
        model = head.get("model")
        self._model = model if isinstance(model, str) else None
        self._call_stem = call_stem(head.get("id"))
        known = text(head.get("id")), text(model), integer(head.get("created"))
        self._out.append(Start(*known, self.dialect, self._kept(None, left_of(head, HEAD))))

    def _choice(self, choice: Object) -> list[Object]:
        """Read more of the first choice; returns the fields that no event carries, as a choice of its own."""
        delta = choice.get("delta")
        details = self._take_details(delta) if isinstance(delta, dict) else []
        more = self._around.take_choice(choice)
        for item, held, left in details:
            self._detail(item, held, left)
        rest = self._message(delta) if isinstance(delta, dict) else {}
        word = choice.get("finish_reason")
        reason = self.shape.finishes.read(word)
        if reason is not absent and self._finish is None:
            is_usual = self.shape.finishes.word(reason) == word
            self._finish = Finish(reason, residue=self._kept(form=None if is_usual else word))
            self._word = str(word)
            self._end_parts()
        if not rest and not more:
            return []
        return [{"index": 0, "delta": rest, **more, "finish_reason": None}]

    def _message(self, delta: Object) -> Object:
        """Read more of the message; returns the fields that no event carries."""
        rest = {
            key: item for key, item in delta.items() if key not in DELTA and item not in NOTHING
        }
        thoughts = [key for key in REASONING if isinstance(delta.get(key), str) and delta[key]]
        if thoughts:
            self._thinks = "text"
            self._say("reasoning", delta[thoughts[0]], thoughts[0])
            rest |= {key: delta[key] for key in thoughts[1:]}
        content = delta.get("content")
        if isinstance(content, list):
            unsaid = [part for part in content if not self._content(part)]
            rest |= {"content": unsaid} if unsaid else {}
        elif isinstance(content, str) and content:
            self._say("text", content)
        if isinstance(delta.get("refusal"), str) and delta["refusal"]:
            self._say("refusal", delta["refusal"], "refusal")
        self._is_blank = self._is_blank or content == ""
        annotations, audio = delta.get("annotations"), delta.get("audio")
        if isinstance(annotations, list) and annotations:
            self._cite(annotations)
        if isinstance(audio, dict) and is_named(audio.get("id")):
            self._audio = self._audio or audio["id"]
        calls = delta.get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, dict):
                self._call(call, position)
        legacy = delta.get("function_call")
        if isinstance(legacy, dict):
            self._call({"id": f"{LEGACY}_0", "type": LEGACY, "function": legacy}, -1)
        return rest

    def _take_details(self, delta: Object) -> list[tuple[Any, ReasoningContentClass, Any]]:
        """Read the details of thoughts that come only so: each item, its thought, and its other fields."""
        items = delta.get(DETAILS)
        has_text = any(delta.get(key) for key in REASONING)
        if not isinstance(items, list) or has_text or self._thinks == "text":
            return []
        found = read_details(items, Origin(self.dialect, self._model))
        if found:
            del delta[DETAILS]
            self._thinks = "details"
        return [(item, *read) for item, read in zip(items, found, strict=False)]

    def _detail(self, item: Any, held: ReasoningContentClass, left: Any) -> None:
        """Continue a thought, or start another one."""
        part = self._spoken("reasoning")
        if part is None or not goes_on(item, self._detailed):
            self._end_spoken()
            residue = self._kept(set_again(left), form=DETAILS)
            part = self._start_part(SPOKEN, "reasoning", residue=residue)
        self._detailed = item
        for channel, words in pieces_of(held):
            self._add(part, words, channel)

    def _content(self, part: Any) -> bool:
        """Read a part of the content, which some servers send in parts; whether events carry it."""
        if is_text_part(part) and part["text"]:
            self._say("text", part["text"])
        return is_text_part(part)

    def _say(self, kind: str, words: str, form: str | None = None) -> OpenPart:
        part = super()._say(kind, words, form)
        if kind == "text":
            self._length += len(words)
            if self._early:
                early, self._early = self._early, []
                self._cite(early)
        return part

    def _cite(self, annotations: list[Any]) -> None:
        """Cite the open text, or the first to come; citations of an ended text are not translated."""
        part = self._spoken("text")
        if part is None and not self._before:
            self._early += annotations
            return
        late: list[Any] = []
        for item in annotations:
            citation = self._citation(item)
            if part is None or citation is None:
                late.append(item)
            else:
                self._out.append(Delta(part.index, "", "citation", citation=citation))
        if late:
            self._leave("annotations", {"annotations": late})

    def _citation(self, item: Any) -> Citation | None:
        """A citation with offsets from the beginning of its own text; None if that has ended."""
        citation = read_citation(self.dialect, item)
        if not self._before or citation.start is None or citation.end is None:
            return citation
        if citation.end <= self._before:
            return None
        start = max(0, citation.start - self._before)
        return replace(citation, start=start, end=citation.end - self._before)

    def _sound(self) -> None:
        """Audio that the server keeps: a request may hold only its id."""
        if self._audio:
            content = new_audio(Location("file", self._audio), "")
            self._audio = ""
            self._whole(content, self._kept(form="audio"))

    def _call(self, fragment: Object, position: int) -> None:
        kind = "custom" if isinstance(fragment.get("custom"), dict) else "function"
        inner = fragment.get(kind)
        function = inner if isinstance(inner, dict) else {}
        name = function.get("name")
        call = self._calls.find(fragment, name, position)
        if call is None:
            self._end_spoken()
            self._sound()
            identifier = fragment.get("id") or f"{self._call_stem}{self._call_count}"
            self._call_count += 1
            call = self._calls.begin(fragment, position, str(identifier))
            call.is_freeform = kind == "custom" or fragment.get("type") == "custom"
            call.is_legacy = fragment.get("type") == LEGACY
        call.name = call.name or str(name or "")
        key = "input" if kind == "custom" else "arguments"
        call.beside |= left_of(fragment, ("index", "id", "type", kind))
        call.within |= left_of(function, ("name", key))
        words = function.get(key)
        if words is not None and words != "":
            call.waiting.append(argument_text(words))
        if call.name:
            self._tell(call)

    def _tell(self, call: StreamedCall) -> None:
        if call.part is None:
            call.part = self._count
            named = {"identifier": call.identifier, "name": call.name}
            own = {"is_freeform": call.is_freeform, "residue": call.residue(self.dialect)}
            self._start_part(call.part, "invocation", **named, **own)
        if call.waiting:
            words, call.waiting, call.has_arguments = "".join(call.waiting), [], True
            self._out.append(Delta(call.part, words, "arguments"))

    def _end_spoken(self) -> None:
        super()._end_spoken()
        self._before += self._length
        self._length = 0

    def _end_parts(self) -> None:
        self._end_spoken()
        self._sound()
        early, self._early = self._early, []
        if early:
            self._leave("annotations", {"annotations": early})
        for call in self._calls.open:
            self._tell(call)
            is_told = call.told == len(call.beside) + len(call.within)
            self._end_part(call.part, None if is_told else call.residue(self.dialect))
        self._calls.clear()

    def done(self) -> None:
        """Read the last frame: the open parts are complete."""
        if not self._is_started:
            self.start("", {})
        self._end_parts()
        self.end()

    def end(self) -> None:
        """End the open parts, and the response if it gave a finish reason."""
        self._is_over = True
        if self._finish is None:
            super().end()
            return
        if not self._is_started:
            self.start("", {})
        self._end_parts()
        if self._is_blank and not self._count:
            self._start_part(SPOKEN, "text")
            self._end_spoken()
        around = self._around.residue(self._head, self._finish.reason, self._word)
        self._out.append(replace(self._finish, around=around))


def _error_of(chunk: Object) -> Object | str | None:
    """The error in a chunk, if any; some servers send it without an envelope."""
    error = chunk if chunk.get("object") == "error" else chunk.get("error")
    return error if isinstance(error, dict) or (isinstance(error, str) and error) else None


def _says(choice: Any) -> bool:
    return isinstance(choice, dict) and isinstance(choice.get("delta"), dict)

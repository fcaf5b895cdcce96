"""Reads Gemini streams.

Every chunk is a complete small response. Adjacent text parts with no other fields join; a part with a signature or an
unknown field stays separate; calls arrive whole. Grounding comes with the finish reason, so a text ends there or when
another text begins, and other parts after the text wait for that. There is no last frame: the finish event is held back
until the bytes end, because usage and metadata may follow it. The fields around the parts are merged, the last value of
each key counting, and read at the end like those of a whole response. Without ``alt=sse`` the chunks are the items of
one JSON list, which is read as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from cannery.dialects.gemini_generate.forms import (
    NAME,
    Section,
    both,
    expect,
    get,
    spelled,
    whole_value,
)
from cannery.dialects.gemini_generate.reading import MessageReader
from cannery.dialects.gemini_generate.responses import (
    CITING,
    FINISHES,
    USUAL,
    candidates_patch,
    decode_response,
    is_blocked,
    read_around,
    read_citations,
    take_ending,
)
from cannery.families.gemini.answers import read_time
from cannery.families.gemini.enums import finish_word
from cannery.families.gemini.errors import facts_of
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    InvocationCanisterClass,
)
from cannery.messages.events import (
    Delta,
    Failure,
    Finish,
    Start,
    Unknown,
    UsageReport,
    unfold_part,
)
from cannery.messages.json_text import write_json
from cannery.messages.requests import FinishReason
from cannery.wire.answers import call_stem
from cannery.wire.bodies import Object, plain
from cannery.wire.controls import text
from cannery.wire.framing import SSE, Reader
from cannery.wire.sse import Frame, FrameReader
from cannery.wire.stream_reading import EventReader, OpenPart

_BARE = frozenset({"text", "thought"})
# The fields that events carry; any other field passes unchanged to clients of this dialect.
_SAID = frozenset(both(("usageMetadata", "modelVersion", "responseId")))
_ENDING = frozenset(both(("finishReason", "index")))
_CONTENT = ("candidates", 0, "content")
# The finish reason of a response without a candidate, because the prompt was refused; no server has this word.
BLOCKED = "blocked"
# A step of an RFC 9535 path, for paths that name one place.
_STEP = r"""\.([^.\[\]'"\s]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
_PATH = ("candidates", 0, "content", "parts", "functionCall")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")
_MARKS = re.compile(rb'["\\{}\[\]]')


class ListReader:
    """Consumes the bytes of a JSON list, or of one object, and gives the completed objects as frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._position = 0
        self._start: int | None = None
        self._depth = 0
        self._in_text = False

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The objects completed by these bytes."""
        self._buffer += chunk
        while (found := _MARKS.search(self._buffer, self._position)) is not None:
            mark, place = found.group(), found.start()
            if mark == b"\\":
                if place + 1 >= len(self._buffer):
                    self._position = place
                    return
                self._position = place + 2
                continue
            self._position = place + 1
            if mark == b'"':
                self._in_text = not self._in_text and self._start is not None
            elif not self._in_text:
                yield from self._bracket(mark, place)
        self._position = len(self._buffer)
        if self._start is None:
            self._buffer.clear()
            self._position = 0

    def close(self) -> Iterator[Frame]:
        """Nothing: a truncated object completes nothing."""
        return iter(())

    def _bracket(self, mark: bytes, place: int) -> Iterator[Frame]:
        if self._start is None:
            if mark == b"{":
                self._start, self._depth = place, 1
            return
        self._depth += 1 if mark in b"{[" else -1
        if self._depth == 0:
            yield Frame("", self._buffer[self._start : place + 1].decode("utf-8", "replace"))
            del self._buffer[: place + 1]
            self._start, self._position = None, 0


class ChunkReader:
    """Reads chunks that are server-sent events or items of a JSON list; the first byte decides."""

    def __init__(self) -> None:
        self._reader: Reader = FrameReader()
        # Blank bytes before the deciding one.
        self._head: list[bytes] | None = []

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The chunks completed by these bytes."""
        if self._head is not None:
            begun = chunk.lstrip(b"\xef\xbb\xbf \t\r\n")
            self._head.append(chunk)
            if not begun:
                return iter(())
            chunk = b"".join(self._head)
            self._head = None
            if begun[:1] in b"[{":
                self._reader = ListReader()
        return self._reader.feed(chunk)

    def close(self) -> Iterator[Frame]:
        """The chunk completed by the end of the stream."""
        return self._reader.close()


class GeminiStreamReader(EventReader[OpenPart]):
    """Consumes the bytes of a stream and gives events."""

    dialect = NAME
    framing = msgspec.structs.replace(SSE, reader=ChunkReader)
    part = OpenPart

    def __init__(self) -> None:
        super().__init__()
        self._reader = MessageReader([])
        self._identifier: str | None = None
        # The texts that ended; grounding may still cite one of them.
        self._texts: dict[int, str] = {}
        # Parts that came after the open text.
        self._behind: list[Object] = []
        self._partial: PartialCall | None = None
        # The merged fields around the candidates, those of the first candidate, and the other candidates.
        self._around: Object = {}
        self._candidate: Object | None = None
        self._others: dict[int, Object] = {}
        self._finish: Any = absent
        self._word: str | None = None

    def read(self, data: str) -> Object:
        """The JSON object of a chunk, with inner values in the form that the part reader takes."""
        try:
            return decode_response(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return super().read(data)

    def event(self, value: Object, frame: Frame) -> None:
        """Read a chunk."""
        error = value.get("error")
        if type(error) is not dict:
            self._chunk(value)
            return
        self._catch_up()
        message, kind, _ = facts_of(error)
        code = error.get("code")
        status = code if type(code) is int else None
        told = (message or "unknown error", kind or "api_error", status)
        self._fail(Failure(*told, frame.data, NAME))

    def _chunk(self, chunk: Object) -> None:
        if not self._is_started:
            self._is_started = True
            self.start("chunk", chunk)
        candidates = chunk.pop("candidates", None)
        unsaid: list[Object] = []
        if candidates is not None:
            for position, candidate in enumerate(expect(list, candidates, ("candidates",))):
                if type(candidate) is not dict:
                    expect(dict, candidate, ("candidates", position))
                index = candidate.get("index", position)
                if index == 0:
                    unsaid += self._first(candidate)
                else:
                    unsaid.append(candidate)
                    self._merge(candidate, index)
        if not candidates and self._finish is absent and is_blocked(chunk):
            self._finish, self._word = FinishReason.Filter, BLOCKED
        if chunk.get("usageMetadata", chunk) is None:
            del chunk["usageMetadata"]
        self._around.update(chunk)
        if unsaid or not chunk.keys() <= _SAID:
            rest = {key: item for key, item in chunk.items() if key not in _SAID}
            if unsaid:
                rest["candidates"] = unsaid
            self._out.append(Unknown(NAME, "chunk", write_json(rest)))

    def start(self, kind: str, value: Object) -> None:  # noqa: ARG002 - chunks have no kinds
        """Read the response facts in the first chunk."""
        identifier, model = get(value, "responseId"), get(value, "modelVersion")
        self._model = model
        self._reader = MessageReader([], model, call_stem(identifier))
        self._identifier = identifier if type(identifier) is str else None
        created = read_time(get(value, "createTime"))
        self._out.append(Start(text(identifier), text(model), created, NAME))

    def _first(self, candidate: Object) -> list[Object]:
        """Read more of the first candidate; returns the fields that only this dialect has."""
        content = candidate.pop("content", None)
        unsaid: Object = {}
        if content is not None:
            if type(content) is not dict:
                expect(dict, content, _CONTENT)
            self._parts(content.pop("parts", None))
            if content.pop("role", "model") != "model" or content:
                unsaid["content"] = content
        if self._candidate is None:
            self._candidate = {}
        self._candidate.update(candidate)
        if not candidate.keys() <= _ENDING:
            unsaid |= {key: item for key, item in candidate.items() if key not in _ENDING}
            spoken = self._spoken("text")
            if spoken is not None:
                self._cite(candidate, spoken)
        word = finish_word(get(candidate, "finishReason"))
        if word:
            self._end_partial()
            if self._behind:
                self._catch_up()
            finish = FINISHES.read(word, has_calls=self._has_calls)
            if finish is not absent and self._finish is absent:
                self._finish, self._word = finish, word
        return [{**unsaid, "index": 0}] if unsaid else []

    def _cite(self, candidate: Object, spoken: OpenPart) -> None:
        """Cite the open text; a citation after the end of its text is known only to this dialect."""
        citing = {key: whole_value(held) for key in CITING if (held := get(candidate, key))}
        if not citing:
            return
        texts = [self._texts.get(at) for at in range(spoken.index)]
        for position, citation in read_citations(citing, [*texts, "".join(spoken.words)]):
            if position == spoken.index:
                self._out.append(Delta(position, "", "citation", citation=citation))

    def _merge(self, candidate: Object, index: Any) -> None:
        """Merge one of the other candidates with its earlier chunks."""
        if type(index) is not int:
            return
        more: Object = whole_value(candidate)
        merged = self._others.setdefault(index, {})
        said, content = merged.get("content"), more.get("content")
        if type(said) is dict and type(content) is dict:
            parts = [*_listed(said.get("parts")), *_listed(content.get("parts"))]
            more["content"] = {**said, **content, "parts": _joined(parts)}
        merged.update(more)

    # --- parts ---------------------------------------------------------------------------------

    def _parts(self, parts: Any) -> None:
        if parts is None:
            return
        listed = [parts] if type(parts) is dict else expect(list, parts, (*_CONTENT, "parts"))
        for index, part in enumerate(listed):
            if type(part) is not dict:
                expect(dict, part, (*_CONTENT, "parts", index))
            self._part(part)

    def _part(self, part: Object) -> None:
        words = part.get("text")
        if type(words) is str and part.keys() <= _BARE:
            if words:
                self._say("reasoning" if part.get("thought") is True else "text", words)
            return
        call = get(part, "functionCall")
        if type(call) is dict and (self._partial is not None or is_fragment(call)):
            self._more_call(part, call)
        else:
            self._take(part)

    def _more_call(self, part: Object, call: Object) -> None:
        if self._partial is not None and self._partial.is_another(call):
            self._end_partial()
        if self._partial is None:
            self._partial = PartialCall()
        if not self._partial.add(part, call):
            self._end_partial()

    def _end_partial(self) -> None:
        if self._partial is not None:
            whole, self._partial = self._partial.whole(), None
            self._take(whole)

    def _take(self, part: Object) -> None:
        """Read a part with more than text; it waits while the text before it may still be cited."""
        if self._spoken("text") is not None:
            self._behind.append(part)
        else:
            self._end_spoken()
            self._read(part)

    def _catch_up(self) -> None:
        """End the open parts, and read the parts that waited for them."""
        behind, self._behind = self._behind, []
        self._end_spoken()
        for part in behind:
            self._read(part)

    def _read(self, part: Object) -> None:
        reader = self._reader
        start = len(reader.canisters)
        reader.content({"parts": [part]}, "model", "model", _CONTENT)
        for canister in reader.canisters[start:]:
            if canister.held is not absent:
                self._has_calls = self._has_calls or type(canister) is InvocationCanisterClass
                self._out.extend(unfold_part(self._number(), canister, joined=True))

    def _say(self, kind: str, words: str, form: str | None = None) -> OpenPart:
        if self._behind:
            self._catch_up()
        part = super()._say(kind, words, form)
        part.words.append(words)
        return part

    def _end_spoken(self) -> None:
        spoken = self._spoken("text")
        if spoken is not None:
            self._texts[spoken.index] = "".join(spoken.words)
        super()._end_spoken()

    # --- the end -------------------------------------------------------------------------------

    def end(self) -> None:
        """End the open parts, and the response if it gave a finish reason."""
        self._end_partial()
        self._catch_up()
        if not isinstance(self._finish, FinishReason):
            super().end()
            return
        section = Section(self._around, USUAL)
        for key, told in (("modelVersion", self._reader.model), ("responseId", self._identifier)):
            if section.get(key) != told:
                # The start did not have it, so it is known only here.
                section.keys.pop(key, None)
        usage = read_around(section)
        counts = section.inner.get("usageMetadata")
        self._nest_candidates(section)
        patch = section.patch()
        if usage is not absent:
            self._out.append(UsageReport(usage, self._kept(counts)))
        is_usual = self._word in (None, FINISHES.word(self._finish))
        residue = self._kept(form=None if is_usual else self._word)
        self._out.append(Finish(self._finish, residue=residue, around=self._kept(None, patch)))

    def _nest_candidates(self, section: Section) -> None:
        """Put the candidates among the fields around the response, as in a whole one."""
        if self._candidate is None:
            section.dropped.append("candidates")
            return
        first = Section(self._candidate, USUAL)
        take_ending(first, has_calls=self._has_calls)
        others = [self._others[index] for index in sorted(self._others)]
        patch = candidates_patch(first, others)
        if patch is not None:
            section.inner["candidates"] = patch


def _listed(parts: Any) -> list[Any]:
    return parts if type(parts) is list else [] if parts is None else [parts]


def _joined(parts: list[Any]) -> list[Any]:
    """Parts with adjacent plain texts joined."""
    found: list[Any] = []
    for part in parts:
        last: Any = found[-1] if found else None
        if _is_bare(part) and _is_bare(last) and part.get("thought") == last.get("thought"):
            found[-1] = {**last, "text": last["text"] + part["text"]}
        else:
            found.append(part)
    return found


def _is_bare(part: Any) -> bool:
    return type(part) is dict and type(part.get("text")) is str and part.keys() <= _BARE


# --- calls whose arguments stream --------------------------------------------------------------


class _Words(list[str]):
    """The pieces of a string so far."""


def is_fragment(call: Object) -> bool:
    """Whether a call is one of several pieces."""
    return get(call, "partialArgs") is not None or get(call, "willContinue") is not None


class PartialCall:
    """An incomplete call."""

    def __init__(self) -> None:
        self._part: Object = {}
        self._call: Object = {}
        self._arguments: Object = {}
        # Path -> the pieces of a string, or the last value of another kind.
        self._leaves: dict[str, Any] = {}

    def is_another(self, call: Object) -> bool:
        """Whether a piece belongs to another call."""
        return any(get(call, key) not in (None, held) for key, held in self._call.items())

    def add(self, part: Object, call: Object) -> bool:
        """Add a piece; whether more is to come."""
        key = spelled(part, "functionCall")
        self._part |= {name: item for name, item in part.items() if name != key}
        self._call |= {name: found for name in ("id", "name") if (found := get(call, name))}
        arguments, leaves = plain(call.get("args")), get(call, "partialArgs")
        if type(arguments) is dict:
            self._arguments |= arguments
        for leaf in () if leaves is None else expect(list, leaves, (*_PATH, "partialArgs")):
            self._add_leaf(expect(dict, leaf, (*_PATH, "partialArgs")))
        return get(call, "willContinue") is True

    def _add_leaf(self, leaf: Object) -> None:
        path = str(get(leaf, "jsonPath"))
        kind = next((kind for kind in _VALUES if spelled(leaf, kind) in leaf), None)
        if kind is None:
            return
        value = None if kind == "nullValue" else get(leaf, kind)
        if kind != "stringValue":
            self._leaves[path] = value
            return
        words = expect(str, value, (*_PATH, "partialArgs", spelled(leaf, kind)))
        before = self._leaves.get(path)
        if type(before) is _Words:
            before.append(words)
        else:
            self._leaves[path] = _Words([words])

    def whole(self) -> Object:
        """The part that all pieces form."""
        for path, leaf in self._leaves.items():
            value = "".join(leaf) if type(leaf) is _Words else leaf
            if not _put(self._arguments, _steps(path), value):
                self._arguments[path] = value
        return {**self._part, "functionCall": {**self._call, "args": self._arguments}}


def _steps(path: str) -> list[str | int]:
    """The keys and positions that lead to a place; none if the path does not name a single place."""
    if re.fullmatch(rf"\$(?:{_STEP})+", path) is None:
        return []
    steps: list[str | int] = []
    for name, position, single, double in re.findall(_STEP, path[1:]):
        quoted = re.sub(r"\\(.)", r"\1", single or double)
        steps.append(int(position) if position else name or quoted)
    return steps


def _put(place: Any, steps: list[str | int], value: Any) -> bool:
    """Put a value at the end of the steps, creating missing objects; whether that was possible."""
    for count, step in enumerate(steps, 1):
        inner = None
        if type(step) is int and type(place) is list and step <= len(place):
            inner = place[step] if step < len(place) else None
        elif type(step) is str and type(place) is dict:
            inner = place.get(step)
        else:
            return False
        rest = steps[count:]
        if inner is not None and rest:
            place = inner
            continue
        if any(type(later) is int and later for later in rest):
            return False
        for later in reversed(rest):
            value = [value] if type(later) is int else {later: value}
        if type(place) is list and step == len(place):
            place.append(value)
        else:
            place[step] = value
        return True
    return False

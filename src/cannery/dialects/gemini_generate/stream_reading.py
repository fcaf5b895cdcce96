"""Gemini streams read.

Every chunk is a whole answer in miniature. Neighbouring text parts with nothing beside them join; whatever carries a
signature or a field nobody knows stays a part of its own; calls come whole. What grounds a text comes with the finish,
so that a text ends there or where other words begin, and whatever else follows it waits for that. There is no last
frame: the finish is held back until the bytes end, because usage and metadata may follow it. Without ``alt=sse`` the
chunks are the items of one JSON list, which is read as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from cannery.dialects.gemini_generate.citations import read_citations
from cannery.dialects.gemini_generate.errors import facts_of
from cannery.dialects.gemini_generate.partial_calls import PartialCall, is_fragment
from cannery.dialects.gemini_generate.reading import MessageReader
from cannery.dialects.gemini_generate.responses import (
    FINISH_WORDS,
    USUAL,
    is_blocked,
    read_finish,
    read_time,
    read_usage,
    write_usage,
)
from cannery.dialects.gemini_generate.spelling import NAME, Object, get, spelled
from cannery.dialects.gemini_generate.taking import Section
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    InvocationCanisterClass,
    ResultCanisterClass,
)
from cannery.messages.content import Origin, ReasoningContentClass
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
)
from cannery.messages.json_text import write_json
from cannery.messages.requests import FinishReason, Usage
from cannery.messages.residue import Residue
from cannery.wire.answers import call_stem
from cannery.wire.bodies import guarded
from cannery.wire.controls import text
from cannery.wire.sse import FrameReader
from cannery.wire.streams import counted, read_chunk

_BARE = frozenset({"text", "thought"})
_CHUNK_KEYS = ("candidates", "usageMetadata", "modelVersion", "responseId")
_CANDIDATE_KEYS = ("content", "finishReason", "index")
_CITING = ("groundingMetadata", "citationMetadata")
# The end of an answer that has no candidate, since the prompt was refused; no server has this word.
BLOCKED = "blocked"
_MARKS = re.compile(rb'["\\{}\[\]]')


class _TextPart(Struct, gc=False, forbid_unknown_fields=True):
    text: str
    thought: bool = False


class _TextContent(Struct, gc=False):
    parts: tuple[_TextPart]


class _TextCandidate(Struct, gc=False, forbid_unknown_fields=True):
    content: _TextContent
    index: Literal[0] = 0


class _TextChunk(Struct, gc=False, forbid_unknown_fields=True):
    """A chunk that says some words and nothing else but what every chunk repeats."""

    candidates: tuple[_TextCandidate]
    usageMetadata: dict[str, Any] | None = None  # noqa: N815 - the wire's own name
    modelVersion: str | None = None  # noqa: N815 - the wire's own name
    responseId: str | None = None  # noqa: N815 - the wire's own name


_decode_text = msgspec.json.Decoder(_TextChunk).decode


class ListReader:
    """Takes the bytes of a JSON list, or of one object, and gives the objects that they complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._position = 0
        self._start: int | None = None
        self._depth = 0
        self._in_text = False

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The objects that these bytes complete."""
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

    def _bracket(self, mark: bytes, place: int) -> Iterator[str]:
        if self._start is None:
            if mark == b"{":
                self._start, self._depth = place, 1
            return
        self._depth += 1 if mark in b"{[" else -1
        if self._depth == 0:
            yield self._buffer[self._start : place + 1].decode("utf-8", "replace")
            del self._buffer[: place + 1]
            self._start, self._position = None, 0


class GeminiStreamReader:
    """Takes the bytes of a stream and gives events."""

    def __init__(self) -> None:
        self._frames = FrameReader()
        self._list: ListReader | None = None
        # Blank bytes before the first that tells how the chunks are framed.
        self._head: list[bytes] | None = []
        self._reader: MessageReader | None = None
        self._count = 0
        self._open: tuple[str, int] | None = None
        self._words: list[str] = []
        # The texts that ended: grounding may be about one of them.
        self._texts: dict[int, str] = {}
        # Parts that came behind the text under way.
        self._behind: list[Object] = []
        self._has_calls = False
        self._partial: PartialCall | None = None
        self._finish: Any = absent
        self._usage: Any = absent
        self._counts: Any = None
        self._word: str | None = None
        self._is_over = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        if self._head is not None:
            begun = chunk.lstrip(b"\xef\xbb\xbf \t\r\n")
            self._head.append(chunk)
            if not begun:
                return
            chunk = b"".join(self._head)
            self._head = None
            self._list = ListReader() if begun[:1] in b"[{" else None
        if self._list is not None:
            for data in self._list.feed(chunk):
                yield from self._frame(data)
            return
        whole = self._frames.whole(chunk) if self._open is not None else None
        if whole is None:
            for frame in self._frames.feed(chunk):
                yield from self._frame(frame.data)
            return
        for line in whole:
            more = self._more_text(line)
            if more is None:
                yield from self._frame(line.decode("utf-8", "replace"))
            else:
                yield more

    def _more_text(self, data: bytes) -> Event | None:
        """More of the words under way, if a chunk says nothing else."""
        if self._open is None or self._is_over or self._behind:
            return None
        try:
            said = _decode_text(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        part = said.candidates[0].content.parts[0]
        if not part.text or self._open[0] != ("reasoning" if part.thought else "text"):
            return None
        self._count_tokens(said.usageMetadata)
        self._words.append(part.text)
        return Delta(self._open[1], part.text)

    def close(self) -> Iterator[Event]:
        """The events that the end of the stream completes."""
        for frame in self._frames.close():
            yield from self._frame(frame.data)
        if self._is_over:
            return
        self._is_over = True
        if self._reader is not None:
            reader = self._reader
            yield from guarded(NAME, lambda: list(self._end_partial(reader)))
        yield from guarded(NAME, lambda: list(self._catch_up()))
        if not isinstance(self._finish, FinishReason):
            yield Failure("the stream ended before the answer was complete", "incomplete")
            return
        if isinstance(self._usage, Usage):
            ours = write_usage(self._usage)
            yield UsageReport(self._usage, guarded(NAME, lambda: counted(NAME, ours, self._counts)))
        usual = self._word in (None, FINISH_WORDS[self._finish])
        yield Finish(self._finish, residue=None if usual else Residue(NAME, form=self._word))

    def _count_tokens(self, counts: Any) -> None:
        usage = absent
        if type(counts) is dict:
            usage = read_usage(Section({**counts}, USUAL))
        if isinstance(usage, Usage):
            self._usage, self._counts = usage, counts

    def _frame(self, data: str) -> Iterator[Event]:
        if self._is_over or not data.strip() or data.strip() == "[DONE]":
            return
        chunk = read_chunk(NAME, data)
        error = chunk.get("error")
        if isinstance(error, dict):
            self._is_over = True
            message, kind, _ = facts_of(error)
            code = error.get("code")
            status = code if type(code) is int else None
            yield from guarded(NAME, lambda: list(self._catch_up()))
            yield Failure(message or "unknown error", kind or "api_error", status, data, NAME)
            return
        yield from guarded(NAME, lambda: list(self._chunk(chunk)))

    def _chunk(self, chunk: Object) -> Iterator[Event]:
        reader = self._reader
        if reader is None:
            identifier, model = get(chunk, "responseId"), get(chunk, "modelVersion")
            reader = self._reader = MessageReader([], model, call_stem(identifier))
            created = read_time(get(chunk, "createTime"))
            yield Start(text(identifier), text(model), created, NAME)
        self._count_tokens(get(chunk, "usageMetadata"))
        rest = {key: value for key, value in chunk.items() if not _is_one_of(key, _CHUNK_KEYS)}
        candidates = chunk.get("candidates")
        others: list[Any] = []
        for position, candidate in enumerate(candidates if isinstance(candidates, list) else ()):
            if isinstance(candidate, dict) and candidate.get("index", position) == 0:
                yield from self._candidate(candidate, reader)
                extra = {
                    key: item
                    for key, item in candidate.items()
                    if not _is_one_of(key, _CANDIDATE_KEYS)
                }
                if extra:
                    others.append({**extra, "index": 0})
            else:
                others.append(candidate)
        if not candidates and self._finish is absent and is_blocked(chunk):
            self._finish, self._word = FinishReason.Filter, BLOCKED
        if others:
            rest["candidates"] = others
        if rest:
            yield Unknown(NAME, "chunk", write_json(rest))

    def _candidate(self, candidate: Object, reader: MessageReader) -> Iterator[Event]:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                yield from self._part(part, reader)
        is_cited = any(get(candidate, key) is not None for key in _CITING)
        if is_cited and self._open is not None and self._open[0] == "text":
            # What comes after its text has ended is left to the event that nobody else knows.
            index = self._open[1]
            texts = [self._texts.get(at) for at in range(index)]
            for position, citation in read_citations(candidate, [*texts, "".join(self._words)]):
                if position == index:
                    yield Delta(index, "", "citation", citation=citation)
        word = get(candidate, "finishReason")
        if word:
            yield from self._end_partial(reader)
            if self._behind:
                yield from self._catch_up()
        finish = read_finish(word, has_calls=self._has_calls)
        if finish is not absent and self._finish is absent:
            self._finish, self._word = finish, word

    def _part(self, part: Object, reader: MessageReader) -> Iterator[Event]:
        words = part.get("text")
        if isinstance(words, str) and part.keys() <= _BARE:
            if words and self._behind:
                yield from self._catch_up()
            yield from self._say("reasoning" if part.get("thought") is True else "text", words)
            return
        call = get(part, "functionCall")
        if isinstance(call, dict) and (self._partial is not None or is_fragment(call)):
            yield from self._more_call(part, call, reader)
        else:
            yield from self._take(part, reader)

    def _more_call(self, part: Object, call: Object, reader: MessageReader) -> Iterator[Event]:
        if self._partial is not None and self._partial.is_another(call):
            yield from self._end_partial(reader)
        if self._partial is None:
            self._partial = PartialCall()
        if not self._partial.add(part, call):
            yield from self._end_partial(reader)

    def _end_partial(self, reader: MessageReader) -> Iterator[Event]:
        if self._partial is not None:
            whole, self._partial = self._partial.whole(), None
            yield from self._take(whole, reader)

    def _take(self, part: Object, reader: MessageReader) -> Iterator[Event]:
        """A part that is not only words; it waits while the text before it may yet be cited."""
        if self._open is not None and self._open[0] == "text":
            self._behind.append(part)
        else:
            yield from self._end_open()
            yield from self._read(part, reader)

    def _catch_up(self) -> Iterator[Event]:
        """End what is open, and take what came behind it."""
        behind, self._behind = self._behind, []
        yield from self._end_open()
        for part in behind:
            yield from self._read(part, self._reader)  # type: ignore[arg-type]

    def _read(self, part: Object, reader: MessageReader) -> Iterator[Event]:
        start = len(reader.canisters)
        reader.content({"parts": [part]}, "model", "model", ("candidates", 0, "content"))
        for canister in reader.canisters[start:]:
            if canister.held is not absent:
                yield from self._whole(canister)

    def _say(self, kind: str, words: str) -> Iterator[Event]:
        if self._open is None or self._open[0] != kind:
            if not words:
                return
            yield from self._end_open()
            self._open = (kind, self._count)
            self._words = []
            model = self._reader.model if self._reader is not None else None
            origin = Origin(NAME, model) if kind == "reasoning" else None
            yield PartStart(self._count, kind, origin=origin)
            self._count += 1
        if words:
            self._words.append(words)
            yield Delta(self._open[1], words)

    def _whole(self, canister: Any) -> Iterator[Event]:
        """A part that came at once."""
        index, held, residue = self._count, canister.held, canister.residue
        self._count += 1
        if isinstance(canister, InvocationCanisterClass):
            self._has_calls = True
            call = (canister.identifier, canister.name)
            yield PartStart(index, "invocation", *call, residue=residue)
            if held:
                yield Delta(index, held, "arguments")
        elif isinstance(canister, ResultCanisterClass):
            yield PartStart(index, "canister", content=canister)
        elif type(held) is str:
            yield PartStart(index, "text", residue=residue)
            if held:
                yield Delta(index, held)
        elif isinstance(held, ReasoningContentClass):
            yield PartStart(index, "reasoning", origin=held.origin, residue=residue)
            if held.text:
                yield Delta(index, held.text)
            if held.signature is not None:
                yield Delta(index, held.signature, "signature")
        else:
            yield PartStart(index, "whole", content=held, residue=residue)
        yield PartEnd(index)

    def _end_open(self) -> Iterator[Event]:
        if self._open is not None:
            yield PartEnd(self._open[1])
            if self._open[0] == "text":
                self._texts[self._open[1]] = "".join(self._words)
            self._open = None


def _is_one_of(key: str, usual: tuple[str, ...]) -> bool:
    return any(spelled({key: None}, name) == key for name in usual)

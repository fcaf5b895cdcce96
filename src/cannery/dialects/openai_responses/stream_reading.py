"""Reading Responses streams.

Events name an item by ``output_index`` and a part of it by ``content_index`` or ``summary_index``, so items may
interleave. Deltas pass through as they come; the finished item has the last word, and what no delta said is taken from
it: servers may leave deltas out, and a reasoning item is sealed only when it is done. Parts start in the order of the
output: what comes of an item while a message or a hosted call before it is under way waits for that to be done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import heappop, heappush
from typing import Any

from msgspec.structs import replace

from cannery.dialects.openai_responses.forms import read_citation
from cannery.dialects.openai_responses.reading import ItemReader
from cannery.dialects.openai_responses.responses import read_answer, take_unsent
from cannery.dialects.openai_responses.settings import NAME, patch_of
from cannery.families.openai.errors import read_openai_failure
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister
from cannery.messages.content import Origin, TextualContentClass
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
from cannery.messages.role import Role
from cannery.wire.bodies import Object, guarded
from cannery.wire.controls import integer, text
from cannery.wire.sse import DONE, FrameReader
from cannery.wire.streams import beside, read_chunk

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_PARTS = {"output_text": "text", "refusal": "refusal"}
# What an event adds to: the channel, and the field that numbers its segment.
_DELTAS = {
    "response.output_text.delta": ("text", None),
    "response.refusal.delta": ("text", None),
    "response.reasoning_text.delta": ("text", "content_index"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index"),
    "response.function_call_arguments.delta": ("arguments", None),
    "response.custom_tool_call_input.delta": ("arguments", None),
}
# Events that say nothing which deltas, finished items or the writer do not say anyway.
_SILENT = frozenset(
    {
        *("response.created", "keepalive"),
        *("response.output_text.done", "response.refusal.done"),
        *("response.function_call_arguments.done", "response.custom_tool_call_input.done"),
        *("response.reasoning_text.done", "response.reasoning_summary_text.done"),
        *("response.reasoning_summary_part.added", "response.reasoning_summary_part.done"),
    }
)
_ENDS = frozenset({"response.completed", "response.incomplete"})
# What events say of the whole answer, and what every event has.
_MODELLED = frozenset(
    {
        *("id", "object", "created_at", "model", "output"),
        *("status", "error", "incomplete_details", "usage"),
    }
)
_OF_EVENTS = frozenset({"type", "sequence_number", "response"})
_OF_DELTAS = (
    *("type", "sequence_number", "item_id", "output_index", "content_index"),
    *("summary_index", "delta"),
)
_ERRORS = frozenset({"error", "response.failed"})
# Beyond this, a number of a part is none that a server counted up to.
_MOST_PARTS = 1000


class _Part:
    """A part under way: its number, its kind once it has started, and what was said of it."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.kind: str | None = None
        self.said: dict[tuple[str, int], list[str]] = {}
        self.citations = 0


class _Item:
    """An item under way; a message has a part for each of its contents, any other item has one."""

    def __init__(self, value: Object) -> None:
        self.value = value
        self.kind = str(value.get("type"))
        self.parts: dict[int, _Part] = {}
        # Whether it is joined to what comes before it.
        self.follows = False
        self.is_done = False

    def started(self) -> list[int]:
        """The positions of the parts that have started."""
        return sorted(position for position, part in self.parts.items() if part.kind is not None)


class ResponsesStreamReader:
    """Takes the bytes of a stream and gives events."""

    def __init__(self) -> None:
        self._frames = FrameReader()
        self._reader = ItemReader([], is_answer=True)
        self._is_started = False
        self._is_over = False
        # The events that came before the answer had a name.
        self._waiting: list[Event] = []
        self._items: dict[int, _Item] = {}
        self._ids: dict[str, int] = {}
        self._last: _Item | None = None
        # The end of reasoning, until it is known whether something follows it.
        self._thought: PartEnd | None = None
        self._count = 0
        # Items that have yet to start a part, and the events of items behind them; a heap of the indices of each.
        self._unsettled: set[int] = set()
        self._first_unsettled: list[int] = []
        self._behind: dict[int, list[tuple[Object, str]]] = {}
        self._first_behind: list[int] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        for frame in self._frames.feed(chunk):
            yield from self._frame(frame.data)

    def close(self) -> Iterator[Event]:
        """The events that the end of the stream completes."""
        for frame in self._frames.close():
            yield from self._frame(frame.data)
        if not self._is_over:
            self._is_over = True
            yield from guarded(NAME, lambda: [*self._catch_up(is_all=True), *self._end_thought()])
            yield Failure("the stream ended before the answer was complete", "incomplete")

    def _frame(self, data: str) -> list[Event]:
        if self._is_over or (data[:1] != "{" and data.strip() in ("", DONE)):
            return []
        event = read_chunk(NAME, data)
        return guarded(NAME, partial(list, self._event(event, data)))  # type: ignore[no-any-return]

    def _event(self, event: Object, data: str) -> Iterator[Event]:
        kind = str(event.get("type"))
        response = event.get("response")
        error = error_of(event) if "error" in event or kind in _ERRORS else None
        if error is not None:
            self._is_over = True
            yield from self._catch_up(is_all=True)
            yield from self._end_thought()
            yield read_openai_failure(NAME, error, data)
            return
        if type(response) is not dict:
            if not self._is_started and not self._says(event, kind):
                # What comes before the answer has a name must not take it the chance to get one.
                if kind not in _SILENT:
                    self._waiting.append(Unknown(NAME, kind, data))
                return
            response = {}
        if not self._is_started:
            yield from self._start(response, event, kind)
        index = event.get("output_index")
        if kind in _ENDS:
            status = {"status": kind.removeprefix("response.")}
            yield from self._end({**status, **response}, event)
        elif type(index) is int and self._is_behind(index):
            if index not in self._behind:
                self._behind[index] = []
                heappush(self._first_behind, index)
            self._behind[index].append((event, data))
        else:
            yield from self._item_event(kind, event, data)
            if self._behind:
                yield from self._catch_up()

    @staticmethod
    def _says(event: Object, kind: str) -> bool:
        """Whether an event is about the answer itself."""
        return kind in _ENDS or kind in _DELTAS or "output_index" in event

    def _start(self, response: Object, event: Object, kind: str) -> Iterator[Event]:
        self._is_started = True
        model = text(response.get("model"))
        self._reader.model = None if model is absent else model
        residue = beside(NAME, response, _MODELLED)
        more = {key: event[key] for key in event if key not in _OF_EVENTS}
        if kind == "response.created" and more:
            residue = replace(residue or Residue(NAME), part=write_json(more))
        created = integer(response.get("created_at"))
        yield Start(text(response.get("id")), model, created, NAME, residue)
        yield from self._waiting

    def _is_behind(self, index: int) -> bool:
        """Whether an item before this one may yet start a part."""
        first = self._first_unsettled
        while first and first[0] not in self._unsettled:
            heappop(first)
        return bool(first) and first[0] < index

    def _catch_up(self, *, is_all: bool = False) -> Iterator[Event]:
        """Take what waited, as far as nothing before it is under way."""
        first = self._first_behind
        while first and (is_all or not self._is_behind(first[0])):
            yield from self._admit(heappop(first))

    def _admit(self, index: int) -> Iterator[Event]:
        """Take what waited of one item."""
        for event, data in self._behind.pop(index, ()):
            yield from self._item_event(str(event.get("type")), event, data)

    def _item_event(self, kind: str, event: Object, data: str) -> Iterable[Event]:
        if kind in _DELTAS:
            return self._delta(event, *_DELTAS[kind])
        if kind in _ITEM_EVENTS:
            return _ITEM_EVENTS[kind](self, event)
        return () if kind in _SILENT else (Unknown(NAME, kind, data, self._item_id(event)),)

    def added(self, event: Object) -> Iterator[Event]:
        """An item begins."""
        index, value = event.get("output_index"), event.get("item")
        if type(index) is not int or type(value) is not dict or index in self._items:
            return
        item = self._items[index] = _Item({**value})
        last, self._last = self._last, item
        item.follows = last is not None and last.kind not in ("message", *_CALLS)
        is_heard = item.kind not in ("function_call_output", "custom_tool_call_output")
        yield from self._end_thought(is_followed=is_heard)
        if type(value.get("id")) is str and value["id"]:
            self._ids.setdefault(value["id"], index)
        if item.kind == "reasoning":
            yield self._open(item, 0, "reasoning")
        elif item.kind in _CALLS:
            yield self._open(item, 0, "invocation")
        else:
            self._unsettled.add(index)
            heappush(self._first_unsettled, index)
            if item.kind != "message":
                self._part(item, 0)

    def _end_thought(self, *, is_followed: bool = False) -> Iterator[Event]:
        """End reasoning that is done; it says so, if the model goes on behind it."""
        end, self._thought = self._thought, None
        if end is not None:
            residue = end.residue
            if is_followed and residue is not None:
                residue = replace(residue, form=f"{residue.form or ''} followed".strip())
            yield PartEnd(end.index, residue)

    def _part(self, item: _Item, position: int) -> _Part:
        """A part of an item; those before it keep the numbers before its own."""
        for place in range(len(item.parts), min(position, _MOST_PARTS)):
            self._part(item, place)
        part = item.parts.get(position)
        if part is None:
            part = item.parts[position] = _Part(self._count)
            self._count += 1
        return part

    def _open(self, item: _Item, position: int, kind: str, content: Any = None) -> PartStart:
        """The start of a part."""
        is_first = not item.started()
        part = self._part(item, position)
        part.kind = kind
        call = ("", "", False)
        if kind == "invocation":
            identifier = item.value.get("call_id") or item.value.get("id") or f"call_{part.index}"
            is_freeform = item.kind == "custom_tool_call"
            call = (str(identifier), str(item.value.get("name") or ""), is_freeform)
        origin = Origin(NAME, self._reader.model) if kind == "reasoning" else None
        residue = _first_residue(item) if is_first else None
        is_joined = item.follows or not is_first
        return PartStart(part.index, kind, *call, content, origin, residue, is_joined)

    def part_added(self, event: Object) -> Iterator[Event]:
        """A part of a message begins."""
        item = self._found(event)
        position = event.get("content_index")
        part: Any = event.get("part")
        if item is None or item.kind != "message" or type(position) is not int:
            return
        if position in item.parts and item.parts[position].kind is not None:
            return
        kind = _PARTS.get(str(part.get("type"))) if type(part) is dict else None
        if kind is None:
            self._part(item, position)
            return
        start = self._open(item, position, kind)
        usual = {"type": part["type"], kind: "", "annotations": []}
        left = {key: held for key, held in part.items() if key not in usual or held != usual[key]}
        if left:
            residue = replace(start.residue or Residue(NAME), part=patch_of(left))
            start = replace(start, residue=residue)
        yield start

    def part_done(self, event: Object) -> Iterator[Event]:
        """A part of an unknown type comes whole when it is done; the others are told by their deltas."""
        item = self._found(event)
        position, part = event.get("content_index"), event.get("part")
        if item is None or item.kind != "message" or type(position) is not int:
            return
        if type(part) is not dict or type(part.get("type")) is not str or part["type"] in _PARTS:
            return
        if self._part(item, position).kind is None:
            reader = ItemReader([], self._reader.model, is_answer=True)
            message = {"role": "assistant", "content": [part]}
            canister = reader.item(message, ("output", event["output_index"]))[0]
            start = self._open(item, position, _kind_of(canister), canister.held)
            known = start.residue if start.residue is not None else Residue(NAME)
            own = canister.residue or Residue(NAME)
            yield replace(start, residue=replace(own, envelope=known.envelope))

    def _found(self, event: Object) -> _Item | None:
        index = event.get("output_index")
        item = self._items.get(index) if type(index) is int else None
        return None if item is None or item.is_done else item

    def _item_id(self, event: Object) -> str | None:
        """The id of the item that an event is about."""
        index, identifier = event.get("output_index"), event.get("item_id")
        item = self._items.get(index) if type(index) is int else None
        if item is not None and type(identifier) is not str:
            identifier = item.value.get("id")
        return identifier if type(identifier) is str else None

    def _started(self, event: Object) -> _Part | None:
        """The part that an event is about, if it has started."""
        item = self._found(event)
        if item is None:
            return None
        position = event.get("content_index") if item.kind == "message" else 0
        part = item.parts.get(position) if type(position) is int else None
        return None if part is None or part.kind is None else part

    def _delta(self, event: Object, channel: str, counter: str | None) -> Iterable[Event]:
        part, words = self._started(event), event.get("delta")
        segment = 0 if counter is None else event.get(counter)
        if part is None or type(words) is not str or type(segment) is not int:
            return ()
        for key in _OF_DELTAS:
            event.pop(key, None)
        if event.get("logprobs") == []:
            del event["logprobs"]
        residue = Residue(NAME, write_json(event)) if event else None
        said = part.said.get((channel, segment))
        if said is None:
            part.said[channel, segment] = [words]
        else:
            said.append(words)
        return (Delta(part.index, words, channel, segment, None, residue),)

    def _complete(self, part: _Part, channel: str, whole: str, segment: int = 0) -> Iterator[Event]:
        """Say what no delta has said."""
        pieces = part.said.get((channel, segment))
        said = "".join(pieces or ())
        if pieces is None or (whole.startswith(said) and len(whole) > len(said)):
            rest = whole[len(said) :]
            if rest or part.kind == "reasoning":
                yield Delta(part.index, rest, channel, segment)

    def annotation(self, event: Object) -> Iterator[Event]:
        """A citation."""
        part = self._started(event)
        if part is not None and part.kind == "text" and "annotation" in event:
            part.citations += 1
            citation = read_citation(event["annotation"])
            yield Delta(part.index, "", "citation", citation=citation)

    def done(self, event: Object) -> Iterator[Event]:
        """An item is complete; one that never began is known by its id, where it has one."""
        index, value = event.get("output_index"), event.get("item")
        if type(index) is not int or type(value) is not dict:
            return
        if index not in self._items:
            index = self._ids.get(str(value.get("id")), index)
        yield from self._finish_item(index, value)

    def _finish_item(self, index: int, value: Object) -> Iterator[Event]:
        yield from self.added({"output_index": index, "item": value})
        item = self._items[index]
        if item.is_done:
            return
        take_unsent([value])
        canisters = self._reader.item(value, ("output", index))
        started = item.started()
        # Not every server counts parts from zero: then they are known by their order.
        is_counted = not started or started[-1] < len(canisters)
        unheard = started[-1] + 1 if started else 0
        for position, canister in enumerate(canisters):
            place = position
            if not is_counted:
                is_heard = position < len(started)
                place = started[position] if is_heard else unheard + position
            yield from self._finish_part(item, place, canister)
        for position in started[len(canisters) :] if not is_counted else ():
            yield PartEnd(item.parts[position].index)
        item.is_done = True
        self._unsettled.discard(index)

    def _finish_part(self, item: _Item, position: int, canister: AnyCanister) -> Iterator[Event]:
        held: Any = canister.held
        kind = _kind_of(canister)
        part = self._part(item, position)
        if part.kind is None:
            whole = {"whole": held, "canister": canister}.get(kind)
            start = self._open(item, position, kind, whole)
            yield replace(start, residue=canister.residue) if kind == "whole" else start
        if part.kind != kind:
            # The finished item contradicts its own beginning: what was said stands.
            yield PartEnd(part.index)
            return
        if part.kind == "invocation":
            yield from self._complete(part, "arguments", held)
        elif part.kind == "reasoning":
            for channel, texts in (("text", held.texts), ("summary", held.summaries)):
                for segment, words in enumerate(texts):
                    yield from self._complete(part, channel, words, segment)
            if held.encrypted:
                yield Delta(part.index, held.encrypted, "encrypted")
            self._thought = PartEnd(part.index, canister.residue)
            if self._last is not item:
                yield from self._end_thought(is_followed=True)
            return
        elif part.kind not in ("canister", "whole"):
            yield from self._complete(part, "text", held if type(held) is str else held.text)
            citations = held.citations if isinstance(held, TextualContentClass) else ()
            for citation in citations[part.citations :]:
                yield Delta(part.index, "", "citation", citation=citation)
        yield PartEnd(part.index, canister.residue)

    def _end(self, answer: Object, event: Object) -> Iterator[Event]:
        self._is_over = True
        output = answer.pop("output", None)
        listed = output if type(output) is list else []
        values: list[Object] = [value if type(value) is dict else {} for value in listed]
        patches = take_unsent(values)
        for index, value in zip(self._places(values), values, strict=True):
            yield from self._admit(index)
            if value:
                yield from self._finish_item(index, value)
            yield from self._catch_up()
        yield from self._catch_up(is_all=True)
        yield from self._end_thought()
        for item in self._items.values():
            for position in item.started() if not item.is_done else ():
                yield PartEnd(item.parts[position].index)
        response = read_answer(answer, self._reader.canisters, patches, [])
        if isinstance(response.usage, Usage):
            yield UsageReport(response.usage)
        is_told = isinstance(response.finish, FinishReason)
        more = {key: event[key] for key in event if key not in _OF_EVENTS}
        reason: Any = response.finish if is_told else FinishReason.Other
        beside_it = Residue(NAME, None, write_json(more)) if more else None
        yield Finish(reason, absent, beside_it, response.residue)

    def _places(self, values: list[Object]) -> list[int]:
        """Where the items of the finished output stand in the stream.

        Not every server counts its output as its events do, nor keeps the ids of its items: an item is known by its
        id, else by its call, else by its position.
        """
        streamed = {index: item.value for index, item in self._items.items()}
        for index, events in self._behind.items():
            item = events[0][0].get("item")
            streamed[index] = item if type(item) is dict else {}
        named: dict[tuple[Any, ...], deque[int]] = {}
        for index in sorted(streamed):
            for name in _names(streamed[index]):
                named.setdefault(name, deque()).append(index)
        free = set(streamed)
        places = [_claim(_names(value), named, free) for value in values]
        fresh = max(len(values), *streamed, 0) + 1
        for position, value in enumerate(values):
            if places[position] is not None:
                continue
            places[position] = position
            if position in streamed and not (
                position in free and self._is_like(position, value, streamed[position])
            ):
                places[position] = fresh
                fresh += 1
            free.discard(position)
        return places  # type: ignore[return-value]

    def _is_like(self, index: int, value: Object, streamed: Object) -> bool:
        """Whether a finished item may be the one that was streamed at its place."""
        item = self._items.get(index)
        return streamed.get("type") == value.get("type") or (item is not None and not item.is_done)


_ITEM_EVENTS: dict[str, Callable[[ResponsesStreamReader, Object], Iterator[Event]]] = {
    "response.output_item.added": ResponsesStreamReader.added,
    "response.output_item.done": ResponsesStreamReader.done,
    "response.content_part.added": ResponsesStreamReader.part_added,
    "response.content_part.done": ResponsesStreamReader.part_done,
    "response.output_text.annotation.added": ResponsesStreamReader.annotation,
}


def _names(value: Object) -> list[tuple[Any, ...]]:
    """What an item may be known by, the surest first."""
    names = (("id", value.get("id")), ("call_id", str(value.get("type")), value.get("call_id")))
    return [name for name in names if type(name[-1]) is str and name[-1]]


def _claim(
    names: list[tuple[Any, ...]], named: dict[tuple[Any, ...], deque[int]], free: set[int]
) -> int | None:
    """The first item with one of these names that is not taken yet."""
    for name in names:
        indices = named.get(name, ())
        while indices:
            index = indices.popleft()
            if index in free:
                free.discard(index)
                return index
    return None


def error_of(event: Object) -> Object | None:
    """The error that an event tells of, if it does."""
    kind, error, response = event.get("type"), event.get("error"), event.get("response")
    if kind == "response.failed" and type(response) is dict:
        error = response.get("error") or {}
    elif kind == "error" and not error:
        # The SDK's type of this event has the fields side by side; the API nests them.
        keys = ("type", "code", "message", "param")
        error = {key: event[key] for key in keys if key in event}
    if type(error) is str and error:
        error = {"message": error}
    return error if type(error) is dict else None


def _kind_of(canister: AnyCanister) -> str:
    if canister.role is not Role.Assistant:
        return "invocation" if canister.role is Role.Invocation else "canister"
    held = canister.held
    kind = "text" if type(held) is str else held.kind
    return kind if kind in ("text", "refusal", "reasoning") else "whole"


def _first_residue(item: _Item) -> Residue | None:
    """What is known of an item when it begins, so that a writer of this dialect can keep its id."""
    value = item.value
    if item.kind == "message":
        taken = {"content", "role"} if value.get("role") == "assistant" else {"content"}
    elif item.kind == "reasoning":
        taken = {"type", "content", "summary", "encrypted_content"}
    elif item.kind in _CALLS:
        taken = {"type", "call_id", "name", _CALLS[item.kind]}
    else:
        return None
    patch = patch_of({key: held for key, held in value.items() if key not in taken})
    return Residue(NAME, None, patch) if item.kind == "message" else Residue(NAME, patch)

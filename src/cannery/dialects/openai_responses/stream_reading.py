"""Reads Responses streams.

Events name an item by ``output_index`` and a part of it by ``content_index`` or ``summary_index``, so items may
interleave. Deltas pass through as they come; the finished item has the last word, and content without deltas is taken
from it: servers may leave deltas out, and a reasoning item is sealed only when it is done. Parts start in the order of
the output: events of an item wait while a message or a hosted call before it is open.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from msgspec.structs import replace

from cannery.dialects.openai_responses.forms import read_citation
from cannery.dialects.openai_responses.reading import ItemReader
from cannery.dialects.openai_responses.responses import lacking_fields, read_answer, take_unsent
from cannery.dialects.openai_responses.settings import NAME, patch_of
from cannery.families.openai.errors import read_openai_failure
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister
from cannery.messages.content import Origin, TextualContentClass
from cannery.messages.events import (
    Delta,
    Event,
    Finish,
    PartEnd,
    PartStart,
    Start,
    Unknown,
    UsageReport,
)
from cannery.messages.requests import FinishReason, Usage
from cannery.messages.residue import Residue
from cannery.messages.role import Role
from cannery.wire.bodies import Object
from cannery.wire.controls import integer, text
from cannery.wire.residues import set_again
from cannery.wire.sse import Frame
from cannery.wire.stream_reading import EventReader, OpenPart, left_of, object_of

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
# Events without facts beyond those of deltas, finished items or the writer.
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
# Event fields of the whole response, and fields that every event has.
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
# A larger part number was not counted by a server.
_MOST_PARTS = 1000


class _Part(OpenPart):
    """An open part, without a kind until it starts: its text by channel and segment, and its citations."""

    def __init__(self, index: int, kind: str = "") -> None:
        super().__init__(index, kind)
        self.said: dict[tuple[str, int], list[str]] = {}
        self.citations = 0


class _Item:
    """An open item; a message has a part for each of its contents, any other item has one."""

    def __init__(self, value: Object) -> None:
        self.value = value
        self.kind = str(value.get("type"))
        self.parts: dict[int, _Part] = {}
        # Whether it is joined to the item before it.
        self.follows = False
        self.is_done = False

    def started(self) -> list[int]:
        """The positions of the parts that have started."""
        return sorted(position for position, part in self.parts.items() if part.kind)


class ResponsesStreamReader(EventReader[_Part]):
    """Consumes the bytes of a stream and gives events."""

    dialect = NAME
    part = _Part

    def __init__(self) -> None:
        super().__init__()
        self._reader = ItemReader([], is_answer=True)
        # The events that came before the response had an id.
        self._waiting: list[Event] = []
        self._items: dict[int, _Item] = {}
        self._ids: dict[str, int] = {}
        self._last: _Item | None = None
        # The end of reasoning, held until it is known whether an item follows.
        self._thought: PartEnd | None = None
        # Items without a started part, and the events of later items; a heap of the indices of each.
        self._unsettled: set[int] = set()
        self._first_unsettled: list[int] = []
        self._behind: dict[int, list[tuple[Object, str]]] = {}
        self._first_behind: list[int] = []

    def event(self, value: Object, frame: Frame) -> None:
        """Read an event; an event of an item waits for the items before it."""
        kind, index = str(value.get("type")), value.get("output_index")
        error = error_of(value) if "error" in value or kind in _ERRORS else None
        if error is not None:
            self._end_items()
            self._fail(read_openai_failure(NAME, error, frame.data))
            return
        if not self._is_started:
            if type(value.get("response")) is not dict and not self._says(value, kind):
                # Events before the response has an id must not prevent it from getting one.
                if kind not in _SILENT:
                    self._waiting.append(Unknown(NAME, kind, frame.data))
                return
            self._is_started = True
            self.start(kind, value)
        if kind in _ENDS:
            self._finish(kind, value)
        elif type(index) is int and self._is_behind(index):
            if index not in self._behind:
                self._behind[index] = []
                heappush(self._first_behind, index)
            self._behind[index].append((value, frame.data))
        else:
            self._item_event(kind, value, frame.data)
            if self._behind:
                self._catch_up()

    def end(self) -> None:
        """Emit what waited; the response is incomplete."""
        self._end_items()
        super().end()

    def _end_items(self) -> None:
        self._catch_up(is_all=True)
        self._end_thought()

    @staticmethod
    def _says(event: Object, kind: str) -> bool:
        """Whether an event concerns the response itself."""
        return kind in _ENDS or kind in _DELTAS or "output_index" in event

    def start(self, kind: str, value: Object) -> None:
        """Read the known facts of the response."""
        response = object_of(value.get("response"))
        model = text(response.get("model"))
        self._reader.model = self._model = None if model is absent else model
        more = left_of(value, _OF_EVENTS) if kind == "response.created" else None
        residue = self._kept(more, left_of(response, _MODELLED))
        created = integer(response.get("created_at"))
        self._out.append(Start(text(response.get("id")), model, created, NAME, residue))
        self._out += self._waiting

    def _is_behind(self, index: int) -> bool:
        """Whether an item before this one may still start a part."""
        first = self._first_unsettled
        while first and first[0] not in self._unsettled:
            heappop(first)
        return bool(first) and first[0] < index

    def _catch_up(self, *, is_all: bool = False) -> None:
        """Process waiting events up to the first item that is still open."""
        first = self._first_behind
        while first and (is_all or not self._is_behind(first[0])):
            self._admit(heappop(first))

    def _admit(self, index: int) -> None:
        """Process the waiting events of one item."""
        for event, data in self._behind.pop(index, ()):
            self._item_event(str(event.get("type")), event, data)

    def _item_event(self, kind: str, event: Object, data: str) -> None:
        if kind in _DELTAS:
            self._delta(event, *_DELTAS[kind])
        elif kind in _ITEM_EVENTS:
            _ITEM_EVENTS[kind](self, event)
        elif kind not in _SILENT:
            self._out.append(Unknown(NAME, kind, data, self._item_id(event)))

    def added(self, event: Object) -> None:
        """An item begins."""
        index, value = event.get("output_index"), event.get("item")
        if type(index) is not int or type(value) is not dict or index in self._items:
            return
        item = self._items[index] = _Item({**value})
        last, self._last = self._last, item
        item.follows = last is not None and last.kind not in ("message", *_CALLS)
        is_heard = item.kind not in ("function_call_output", "custom_tool_call_output")
        self._end_thought(is_followed=is_heard)
        if type(value.get("id")) is str and value["id"]:
            self._ids.setdefault(value["id"], index)
        if item.kind == "reasoning":
            self._open_part(item, 0, "reasoning")
        elif item.kind in _CALLS:
            self._open_part(item, 0, "invocation")
        else:
            self._unsettled.add(index)
            heappush(self._first_unsettled, index)
            if item.kind != "message":
                self._part(item, 0)

    def _end_thought(self, *, is_followed: bool = False) -> None:
        """End finished reasoning, and record whether the model continues after it."""
        end, self._thought = self._thought, None
        if end is not None:
            residue = end.residue
            if is_followed and residue is not None:
                residue = replace(residue, form=f"{residue.form or ''} followed".strip())
            self._out.append(PartEnd(end.index, residue))

    def _part(self, item: _Item, position: int) -> _Part:
        """A part of an item; earlier parts keep the numbers before its own."""
        for place in range(len(item.parts), min(position, _MOST_PARTS)):
            self._part(item, place)
        part = item.parts.get(position)
        if part is None:
            part = item.parts[position] = _Part(self._number())
        return part

    def _open_part(self, item: _Item, position: int, kind: str, **more: Any) -> None:
        """Start a part; the first one has the known facts of the item."""
        is_first = not item.started()
        part = self._part(item, position)
        part.kind = kind
        call = ("", "", False)
        if kind == "invocation":
            identifier = item.value.get("call_id") or item.value.get("id") or f"call_{part.index}"
            is_freeform = item.kind == "custom_tool_call"
            call = (str(identifier), str(item.value.get("name") or ""), is_freeform)
        origin = Origin(NAME, self._model) if kind == "reasoning" else None
        content, residue = more.get("content"), _first_residue(item) if is_first else None
        own = more.get("residue")
        if own is not None:
            envelope = None if residue is None else residue.envelope
            residue = replace(own, envelope=own.envelope or envelope)
        is_joined = item.follows or not is_first
        self._out.append(PartStart(part.index, kind, *call, content, origin, residue, is_joined))

    def part_added(self, event: Object) -> None:
        """A part of a message begins."""
        item = self._found(event)
        position = event.get("content_index")
        part: Any = event.get("part")
        if item is None or item.kind != "message" or type(position) is not int:
            return
        if position in item.parts and item.parts[position].kind:
            return
        kind = _PARTS.get(str(part.get("type"))) if type(part) is dict else None
        if kind is None:
            self._part(item, position)
            return
        usual = {"type": part["type"], kind: "", "annotations": []}
        left = {key: held for key, held in part.items() if key not in usual or held != usual[key]}
        self._open_part(item, position, kind, residue=self._kept(set_again(left)))

    def part_done(self, event: Object) -> None:
        """A part of an unknown type arrives whole when it is done; the others come as deltas."""
        item = self._found(event)
        position, part = event.get("content_index"), event.get("part")
        if item is None or item.kind != "message" or type(position) is not int:
            return
        if type(part) is not dict or type(part.get("type")) is not str or part["type"] in _PARTS:
            return
        if not self._part(item, position).kind:
            reader = ItemReader([], self._model, is_answer=True)
            message = {"role": "assistant", "content": [part]}
            canister = reader.item(message, ("output", event["output_index"]))[0]
            whole = {"content": canister.held, "residue": canister.residue or Residue(NAME)}
            self._open_part(item, position, _kind_of(canister), **whole)

    def _found(self, event: Object) -> _Item | None:
        index = event.get("output_index")
        item = self._items.get(index) if type(index) is int else None
        return None if item is None or item.is_done else item

    def _item_id(self, event: Object) -> str | None:
        """The id of an event's item."""
        index, identifier = event.get("output_index"), event.get("item_id")
        item = self._items.get(index) if type(index) is int else None
        if item is not None and type(identifier) is not str:
            identifier = item.value.get("id")
        return identifier if type(identifier) is str else None

    def _started(self, event: Object) -> _Part | None:
        """The part of an event, if it has started."""
        item = self._found(event)
        if item is None:
            return None
        position = event.get("content_index") if item.kind == "message" else 0
        part = item.parts.get(position) if type(position) is int else None
        return None if part is None or not part.kind else part

    def _delta(self, event: Object, channel: str, counter: str | None) -> None:
        part, words = self._started(event), event.get("delta")
        segment = 0 if counter is None else event.get(counter)
        if part is None or type(words) is not str or type(segment) is not int:
            return
        for key in _OF_DELTAS:
            event.pop(key, None)
        if event.get("logprobs") == []:
            del event["logprobs"]
        said = part.said.get((channel, segment))
        if said is None:
            part.said[channel, segment] = [words]
        else:
            said.append(words)
        residue = self._kept(event) if event else None
        self._out.append(Delta(part.index, words, channel, segment, None, residue))

    def _complete(self, part: _Part, channel: str, whole: str, segment: int = 0) -> None:
        """Emit the text that no delta had."""
        pieces = part.said.get((channel, segment))
        said = "".join(pieces or ())
        if pieces is None or (whole.startswith(said) and len(whole) > len(said)):
            rest = whole[len(said) :]
            if rest or part.kind == "reasoning":
                self._out.append(Delta(part.index, rest, channel, segment))

    def annotation(self, event: Object) -> None:
        """A citation."""
        part = self._started(event)
        if part is not None and part.kind == "text" and "annotation" in event:
            part.citations += 1
            citation = read_citation(event["annotation"])
            self._out.append(Delta(part.index, "", "citation", citation=citation))

    def done_item(self, event: Object) -> None:
        """An item is complete; an item that never started is known by its id, if it has one."""
        index, value = event.get("output_index"), event.get("item")
        if type(index) is not int or type(value) is not dict:
            return
        if index not in self._items:
            index = self._ids.get(str(value.get("id")), index)
        self._finish_item(index, value)

    def _finish_item(self, index: int, value: Object) -> None:
        self.added({"output_index": index, "item": value})
        item = self._items[index]
        if item.is_done:
            return
        take_unsent([value])
        canisters = self._reader.item(value, ("output", index))
        started = item.started()
        # Not every server counts parts from zero; such parts are matched by order.
        is_counted = not started or started[-1] < len(canisters)
        unheard = started[-1] + 1 if started else 0
        for position, canister in enumerate(canisters):
            place = position
            if not is_counted:
                is_heard = position < len(started)
                place = started[position] if is_heard else unheard + position
            self._finish_part(item, place, canister)
        for position in started[len(canisters) :] if not is_counted else ():
            self._out.append(PartEnd(item.parts[position].index))
        item.is_done = True
        self._unsettled.discard(index)

    def _finish_part(self, item: _Item, position: int, canister: AnyCanister) -> None:
        held: Any = canister.held
        kind = _kind_of(canister)
        part = self._part(item, position)
        if not part.kind:
            whole = {"whole": held, "canister": canister}.get(kind)
            own = canister.residue if kind == "whole" else None
            self._open_part(item, position, kind, content=whole, residue=own)
        if part.kind != kind:
            # The finished item contradicts its own beginning, which was already emitted and stands.
            self._out.append(PartEnd(part.index))
            return
        if part.kind == "invocation":
            self._complete(part, "arguments", held)
        elif part.kind == "reasoning":
            self._finish_thought(item, part, canister)
            return
        elif part.kind not in ("canister", "whole"):
            self._complete(part, "text", held if type(held) is str else held.text)
            citations = held.citations if isinstance(held, TextualContentClass) else ()
            for citation in citations[part.citations :]:
                self._out.append(Delta(part.index, "", "citation", citation=citation))
        self._out.append(PartEnd(part.index, canister.residue))

    def _finish_thought(self, item: _Item, part: _Part, canister: AnyCanister) -> None:
        held: Any = canister.held
        for channel, texts in (("text", held.texts), ("summary", held.summaries)):
            for segment, words in enumerate(texts):
                self._complete(part, channel, words, segment)
        self._add(part, held.encrypted or "", "encrypted")
        self._thought = PartEnd(part.index, canister.residue)
        if self._last is not item:
            self._end_thought(is_followed=True)

    def _finish(self, kind: str, event: Object) -> None:
        self._is_over = True
        status = {"status": kind.removeprefix("response.")}
        whole = object_of(event.get("response"))
        # The items give the output, even if the response at the end has none.
        lacking = [key for key in lacking_fields(whole) if key != "output"] if whole else []
        answer = {**status, **whole}
        output = answer.pop("output", None)
        values = [object_of(value) for value in output] if type(output) is list else []
        patches = take_unsent(values)
        for index, value in zip(self._places(values), values, strict=True):
            self._admit(index)
            if value:
                self._finish_item(index, value)
            self._catch_up()
        self._end_items()
        for item in self._items.values():
            for position in item.started() if not item.is_done else ():
                self._out.append(PartEnd(item.parts[position].index))
        response = read_answer(answer, self._reader.canisters, patches, lacking)
        if isinstance(response.usage, Usage):
            self._out.append(UsageReport(response.usage))
        reason: Any = response.finish
        if not isinstance(reason, FinishReason):
            reason = FinishReason.Other
        beside = self._kept(None, left_of(event, _OF_EVENTS))
        self._out.append(Finish(reason, absent, beside, response.residue))

    def _places(self, values: list[Object]) -> list[int]:
        """The positions in the stream of the items of the finished output.

        Not every server counts its output as its events do, nor keeps the ids of its items: an item is known by its id,
        else by its call, else by its position.
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
        """Whether a finished item may be the one that was streamed at its position."""
        item = self._items.get(index)
        return streamed.get("type") == value.get("type") or (item is not None and not item.is_done)


_ITEM_EVENTS: dict[str, Callable[[ResponsesStreamReader, Object], None]] = {
    "response.output_item.added": ResponsesStreamReader.added,
    "response.output_item.done": ResponsesStreamReader.done_item,
    "response.content_part.added": ResponsesStreamReader.part_added,
    "response.content_part.done": ResponsesStreamReader.part_done,
    "response.output_text.annotation.added": ResponsesStreamReader.annotation,
}


def _names(value: Object) -> list[tuple[Any, ...]]:
    """The keys by which an item may be known, the most reliable first."""
    names = (("id", value.get("id")), ("call_id", str(value.get("type")), value.get("call_id")))
    return [name for name in names if type(name[-1]) is str and name[-1]]


def _claim(
    names: list[tuple[Any, ...]], named: dict[tuple[Any, ...], deque[int]], free: set[int]
) -> int | None:
    """The first item with one of these keys that is not taken yet."""
    for name in names:
        indices = named.get(name, ())
        while indices:
            index = indices.popleft()
            if index in free:
                free.discard(index)
                return index
    return None


def error_of(event: Object) -> Object | None:
    """The error in an event, if any."""
    kind, error, response = event.get("type"), event.get("error"), event.get("response")
    if kind == "response.failed" and type(response) is dict:
        error = response.get("error") or {}
    elif kind == "error" and not error:
        # The SDK's type of this event has the fields at its top level; the API nests them.
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
    """The known facts of an item at its start, so that a writer of this dialect can keep its id."""
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

"""Requests that come one a line, as data sets do: many are read and written in one go.

A source reads a line into a ``LineRequest``, whose texts stay as they are spelled in JSON. A target puts between the
texts what leads from one to the next, which only the names of the speakers decide (``wire.line_states``); the calls of
all lines are read together. Both refuse what they do not take with one of ``ODD``, what they note holds for each line,
and the general way takes the rest; the tests hold both ways against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Raw, Struct
from orjson import dumps

from cannery.messages.absence import absent
from cannery.messages.requests import Request, Tool
from cannery.wire.arguments import is_plain_identifier
from cannery.wire.bodies import encode
from cannery.wire.chat_tools import write_tools
from cannery.wire.line_states import END, USUAL, Calling, Speaker, State, UnusualError, next_call
from cannery.wire.losses import Report
from cannery.wire.markers import read_error_flag

ODD = (msgspec.MsgspecError, UnicodeError, RecursionError, UnusualError)


class LineTurn(Struct, frozen=True, gc=False):
    """What somebody says, as it is spelled."""

    speaker: Speaker
    held: Raw


class LineCall(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A call as a turn spells it."""

    name: str
    arguments: Raw


class LineRequest(Protocol):
    """A request of one line: its turns, and what may stand beside them, else absent."""

    @property
    def turns(self) -> Sequence[LineTurn]:
        """What is said, at least once."""

    @property
    def system(self) -> Any:
        """What the system says."""

    @property
    def tools(self) -> Any:
        """What may be called."""

    @staticmethod
    def read_calls(spelled: list[Raw]) -> list[Any]:
        """The call of each of these turns, or a list of them."""

    @staticmethod
    def read_tools(spelled: Raw) -> tuple[Tool, ...]:
        """The tools that a request offers; empty if they cannot be told."""


_EMPTY = Raw(b'""')
_MOST_TOOLS = 128
# No other JSON value begins with a smaller byte than a text does.
_is_text = bytearray(b"#").__gt__
# And none with a greater one than an object.
_is_object = bytearray(b"{").__le__
# Whether a text begins with something that is no bracket, nor a backslash.
_is_unmarked = bytearray(b'"]').__le__
_decode_text = msgspec.json.Decoder(str).decode


class ChatLines:
    """Writes Chat bodies that all name the same model, or none."""

    def __init__(self, dialect: str, model: str | None) -> None:
        self._dialect = dialect
        # Each line ends the one before, which saves a piece a line.
        self._start = END + (b"{" if model is None else b'{"model":%b,' % dumps(model))
        self._first = State(self._start + b'"messages":[')
        self._beside: dict[bytes, State] = {}

    def write(self, requests: Iterable[LineRequest]) -> bytes:
        """Bodies, one a line; one of ``ODD`` if the general way must take one of them."""
        # Texts, and before each of them what leads to it.
        parts: list[Any] = []
        take = parts.append
        answered: list[Any] = []
        first, usual, nothing = self._first, USUAL, absent
        tools: Any = None
        for request in requests:
            state = first
            if request.tools is not nothing:
                if request.tools != tools:
                    tools, beside = request.tools, self._beside_tools(request)
                state = beside
            if request.system is not nothing and request.system != _EMPTY:
                lead, state = state["system"]
                parts += (lead, request.system)
            for turn in request.turns:
                lead, state = state[turn.speaker]
                take(lead)
                take(turn.held)
            if state is not usual:
                answered.append(state.answered)
        if not parts or None in answered or not all(map(_is_text, parts[1::2])):
            raise UnusualError  # a call without an answer, or something that is no text
        if any(answered):
            _write_calls(parts, request, answered)
        return _joined(parts)

    def _beside_tools(self, request: LineRequest) -> State:
        """How a line beside tools starts; the lines of a data set offer the same ones again and again."""
        spelled = bytes(request.tools)
        known = self._beside.get(spelled)
        if known is None:
            if len(self._beside) == _MOST_TOOLS:
                self._beside.clear()
            known = self._beside[spelled] = self._with_tools(request.read_tools(request.tools))
        return known

    def _with_tools(self, tools: tuple[Tool, ...]) -> State:
        """How a line beside these tools starts, unless something would be lost or renamed."""
        report = Report()
        body: dict[str, Any] = {}
        write_tools(self._dialect, Request((), tools=tools, source="another"), body, report)
        is_plain = tools and all(is_plain_identifier(tool.name) for tool in tools)
        if not is_plain or not report.is_empty:
            raise UnusualError
        return State(self._start + b'"tools":%b,"messages":[' % encode(body["tools"]))


def _write_calls(parts: list[Any], request: LineRequest, answered: list[int]) -> None:
    """Put arguments where turns hold calls; of each line so many are ``answered``, and at least one of each turn."""
    leads, held = parts[::2], parts[1::2]
    places = [place for place, lead in enumerate(leads) if type(lead) is Calling]
    found = request.read_calls([held[place] for place in places])
    if sum(answered) == len(places) and list not in map(type, found):
        answers = [held[place + 1] for place in places]
        for place, call, spelled in zip(places, found, _spelled(found), strict=True):
            lead = leads[place]
            if lead.is_said and held[place - 1] == _EMPTY:
                raise UnusualError
            parts[2 * place] = lead[call.name]
            parts[2 * place + 1] = spelled
    else:
        several = [calls if type(calls) is list else [calls] for calls in found]
        _check_answers([leads[place].number for place in places], several, answered)
        _write_several(parts, places, several)
        answers = [
            text
            for place, calls in zip(places, several, strict=True)
            for text in held[place + 1 : place + 1 + len(calls)]
        ]
    if not all(map(_is_unmarked, answers)) and any(map(_is_marked, answers)):
        raise UnusualError


def _check_answers(numbers: list[int], several: list[list[LineCall]], answered: list[int]) -> None:
    """Refuse turns that do not have an answer for each of their calls; ``numbers`` are those of the first calls."""
    counts: list[int] = []
    for number, calls in zip(numbers, several, strict=True):
        if not number:
            counts.append(0)
        if not calls or number != counts[-1]:
            raise UnusualError
        counts[-1] += len(calls)
    if counts != [count for count in answered if count]:
        raise UnusualError


def _write_several(parts: list[Any], places: list[int], several: list[list[LineCall]]) -> None:
    """Put arguments where turns hold any number of calls."""
    spelled = iter(_spelled([call for calls in several for call in calls]))
    for place, calls in zip(places, several, strict=True):
        lead = parts[2 * place]
        if lead.is_said and parts[2 * place - 1] == _EMPTY:
            raise UnusualError
        written = lead[calls[0].name]
        for number, call in enumerate(calls[1:], lead.number + 1):
            written += next(spelled) + next_call(number)[call.name]
        parts[2 * place] = written
        parts[2 * place + 1] = next(spelled)


def _spelled(calls: list[LineCall]) -> list[bytes]:
    """The arguments of calls, spelled in JSON, without quotes."""
    arguments = [call.arguments for call in calls]
    if not all(map(_is_object, arguments)):
        raise UnusualError
    texts = [str(argument, "utf-8") for argument in arguments]
    # No text ends with a comma: this stands between two of them, and nowhere else.
    return dumps(texts)[2:-2].split(b'","')


def _is_marked(text: Raw) -> bool:
    """Whether the text of an answer says that a call failed."""
    return read_error_flag(_decode_text(text)) is not None


def _joined(parts: list[Any]) -> bytes:
    """Lines of texts and what leads to them."""
    parts[0] = parts[0][len(END) :]
    parts.append(END)
    written = b"".join(parts)
    if not written.isascii():
        # What was skipped unread is sound JSON, but perhaps not sound UTF-8.
        written.decode()
    return written

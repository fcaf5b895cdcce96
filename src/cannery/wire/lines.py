"""Requests that come one a line, as data sets do: many are read and written in one go.

A source reads a line into a ``LineRequest``, whose texts stay as they are spelled in JSON. A target puts between the
texts what leads from one to the next, which only the names of the speakers decide (``wire.line_states``); the calls of
all lines are read together (``wire.line_calls``). Both refuse what they do not take with one of ``ODD``
(``wire.slices``), what they note holds for each line, and the general way takes the rest; the tests hold both ways
against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import gt
from typing import Any, Protocol

from msgspec import Raw, Struct
from orjson import dumps

from cannery.messages.absence import absent
from cannery.messages.requests import Request, Tool
from cannery.wire.arguments import is_plain_identifier
from cannery.wire.bodies import encode
from cannery.wire.chat_tools import write_tools
from cannery.wire.line_calls import EMPTY, write_calls
from cannery.wire.line_states import END, USUAL, Speaker, State
from cannery.wire.losses import Report
from cannery.wire.slices import UnusualError


class LineTurn(Struct, frozen=True, gc=False):
    """What somebody says, as it is spelled."""

    speaker: Speaker
    held: Raw


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
    def read_calls(spelled: Raw) -> Any:
        """The call of a turn, or a list of them."""

    @staticmethod
    def read_tools(spelled: Raw) -> tuple[Tool, ...]:
        """The tools that a request offers; empty if they cannot be told."""


_MOST_TOOLS = 128
# No other JSON value begins with a smaller byte than a text does.
_BEHIND_TEXTS = repeat(bytearray(b"#"))


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
        answered: list[Any] = []
        first, usual, nothing = self._first, USUAL, absent
        tools: Any = None
        for request in requests:
            state = first
            if request.tools is not nothing:
                if request.tools != tools:
                    tools, beside = request.tools, self._beside_tools(request)
                state = beside
            if request.system is not nothing and request.system != EMPTY:
                lead, state = state["system"]
                parts += (lead, request.system)
            for turn in request.turns:
                lead, state = state[turn.speaker]
                parts.append(lead)
                parts.append(turn.held)
            if state is not usual:
                answered.append(state.answered)
        held = parts[1::2]
        if not held or None in answered or not all(map(gt, _BEHIND_TEXTS, held)):
            raise UnusualError  # a call without an answer, or something that is no text
        if any(answered):
            leads = parts[::2]
            write_calls(leads, held, request.read_calls, answered)
            parts[::2], parts[1::2] = leads, held
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


def _joined(parts: list[Any]) -> bytes:
    """Lines of texts and what leads to them."""
    parts[0] = parts[0][len(END) :]
    parts.append(END)
    written = b"".join(parts)
    if not written.isascii():
        # What was skipped unread is sound JSON, but perhaps not sound UTF-8.
        written.decode()
    return written

"""Requests that come one a line, as data sets do: many are read and written in one go.

There are two ways. Lines of nothing but texts by the usual roles are taken apart without reading the texts: these go
out as they are spelled. Lines with calls, results and tools become ``LineRequest``. A source refuses a line with one of
``ODD``; a target gives None for what it does not take, and what it notes holds for each line. Everything else is left
to the general way, and the tests hold all of them against each other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from orjson import OPT_APPEND_NEWLINE, Fragment, dumps

from cannery.messages.absence import absent
from cannery.messages.requests import Request, Tool
from cannery.messages.role import Role
from cannery.wire.arguments import is_plain_identifier
from cannery.wire.bodies import encode
from cannery.wire.chat_tools import write_tools
from cannery.wire.losses import Report

ODD = (msgspec.MsgspecError, UnicodeError, RecursionError)
_ROLES = {Role.User: "user", Role.Assistant: "assistant", Role.Supervisor: "system"}


class Calls(Struct, frozen=True, gc=False):
    """What the model said, if anything, and the calls that it made: identifier, name and arguments."""

    held: str | None
    calls: list[tuple[str, str, str]]


class Answer(Struct, frozen=True, gc=False):
    """What a tool answered."""

    identifier: str
    held: str


class LineRequest(Struct, frozen=True, gc=False, kw_only=True):
    """A request of one line: turns with a ``role`` and the text they ``held``, and what may stand beside them."""

    messages: list[Any]
    system: Any = absent
    tools: Any = absent

    def exchanges(self) -> list[Any] | None:
        """The turns with ``Calls`` and ``Answer`` among them, each call answered at once; None if they are not so."""
        return None

    def offers(self) -> tuple[Tool, ...]:
        """The tools; empty if they cannot be told."""
        return ()


class _Openings(dict[type, bytes]):
    """How the message of each class of turn starts; KeyError for calls and results."""

    def __init__(self, before: bytes) -> None:
        super().__init__()
        self._before = before

    def __missing__(self, kind: Any) -> bytes:
        role = _ROLES[kind.role].encode()
        self[kind] = opening = self._before + b'{"role":"%b","content":' % role
        return opening


_END = b"}]}\n"
_first_byte = struct.Struct("c").unpack_from
_QUOTE = {(b'"',)}
_NEXT = _Openings(b"},")


class ChatLines:
    """Writes Chat bodies that all name the same model, or none."""

    def __init__(self, dialect: str, model: str | None) -> None:
        self._dialect = dialect
        self._settings: dict[str, Any] = {} if model is None else {"model": model}
        start = b"{" if model is None else b'{"model":%b,' % dumps(model)
        # Each line ends the one before, which saves a piece a line.
        self._first = _Openings(_END + start + b'"messages":[')

    def write_spelled(self, turns_of: Iterable[list[Any]]) -> bytes | None:
        """Bodies of turns whose texts are spelled in JSON already, one a line; None if they are not texts."""
        parts: list[Any] = []
        take = parts.append
        following = _NEXT
        for turns in turns_of:
            openings = self._first
            for turn in turns:
                take(openings[type(turn)])
                take(turn.held)
                openings = following
            if openings is not following:
                return None
        if not parts or set(map(_first_byte, parts[1::2])) != _QUOTE:
            return None
        take(_END)
        parts[0] = parts[0][len(_END) :]
        written = b"".join(parts)
        if not written.isascii():
            # What was skipped unread is sound JSON, but perhaps not sound UTF-8.
            written.decode()
        return written

    def write(self, requests: Iterable[Any]) -> bytes | None:
        """Bodies, one a line; None if the general way must take one of them."""
        lines: list[bytes] = []
        for request in requests:
            line = self._line(request)
            if line is None:
                return None
            lines.append(line)
        return b"".join(lines)

    def _line(self, request: LineRequest) -> bytes | None:
        body = dict(self._settings)
        if request.tools is not absent:
            body["tools"] = _written_tools(self._dialect, request.offers())
        turns = request.exchanges()
        if not turns or body.get("tools", True) is None:
            return None
        messages: list[Any] = []
        for turn in turns:
            kind = type(turn)
            if kind is Answer:
                messages.append(
                    {"role": "tool", "tool_call_id": turn.identifier, "content": turn.held}
                )
            elif kind is not Calls:
                messages.append({"role": _ROLES[turn.role], "content": turn.held})
            elif all(is_plain_identifier(name) for _, name, _ in turn.calls):
                messages.append(_call_message(turn))
            else:
                return None
        if request.system is not absent and request.system:
            messages.insert(0, {"role": "system", "content": request.system})
        body["messages"] = messages
        return dumps(body, option=OPT_APPEND_NEWLINE)


def _call_message(turn: Calls) -> dict[str, Any]:
    calls = [
        {
            "id": identifier,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for identifier, name, arguments in turn.calls
    ]
    return {"role": "assistant", "content": turn.held, "tool_calls": calls}


@lru_cache(maxsize=128)
def _written_tools(dialect: str, tools: tuple[Tool, ...]) -> Fragment | None:
    """Tools as Chat spells them; None if something would be lost or renamed."""
    report = Report()
    body: dict[str, Any] = {}
    write_tools(dialect, Request((), tools=tools, source="another"), body, report)
    is_plain = tools and all(is_plain_identifier(tool.name) for tool in tools)
    return Fragment(encode(body["tools"])) if is_plain and report.is_empty else None

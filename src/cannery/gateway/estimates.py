"""Tokens of calls whose upstream does not report them, estimated for budgets.

A budget needs a count: otherwise an answer without one, or whose caller leaves before its end, would cost nothing.
"""

from __future__ import annotations

import contextlib

import msgspec

from cannery.gateway.calls import Call
from cannery.gateway.peek import usage_of
from cannery.gateway.refusals import JSON
from cannery.messages import Usage

_BYTES_PER_TOKEN = 4
_DATA = b"data:"
# Some servers report the tokens in the last event with content.
_TAIL = 16 << 10


def has_budget(call: Call) -> bool:
    """Whether the spending of a call's key is limited."""
    return call.key is not None and call.key.limits.has_budget


def is_told(usage: Usage | None) -> bool:
    """Whether an upstream has reported tokens."""
    return usage is not None and bool(usage.input or usage.output)


def estimate(call: Call, said: int, told: Usage | None = None) -> Usage:
    """The approximate tokens of an exchange with incomplete usage; ``said`` are the bytes of the answer's text.

    An interrupted answer has often reported its input tokens, but not its output tokens.
    """
    told = told or Usage()
    asked, said = call.body_bytes // _BYTES_PER_TOKEN, said // _BYTES_PER_TOKEN
    return msgspec.structs.replace(told, input=told.input or asked, output=max(told.output, said))


class EventMeter:
    """Meters a stream of events that is not read: those at its end may report tokens, else each is taken for one."""

    def __init__(self) -> None:
        self._tail = b""
        self._events = 0

    def feed(self, chunk: bytes) -> None:
        """Count the events of some bytes."""
        # An event may begin at the end of the bytes before.
        self._events += (self._tail[1 - len(_DATA) :] + chunk).count(_DATA)
        self._tail = (self._tail + chunk)[-_TAIL:]

    def usage(self, call: Call) -> Usage | None:
        """The tokens so far, estimated only for a budget, and not from media."""
        for line in reversed(self._tail.split(b"\n")):
            if line.startswith(_DATA) and b"usage" in line:
                with contextlib.suppress(msgspec.MsgspecError, UnicodeError):
                    found = usage_of(line[len(_DATA) :])
                    if found is not None:
                        return found
        is_text = str(call.header("content-type") or "").startswith(JSON)
        is_needed = is_text and has_budget(call)
        return estimate(call, self._events * _BYTES_PER_TOKEN) if is_needed else None

"""Chooses the upstream to try next after a failure, and the one to try first the next time.

Rows that share an alias, and the keys of one row, are candidates for a call in the order of the configuration. The next
one is tried, in its own dialect and from the caller's own body, as long as nothing has been sent to the caller. A
conversation continues with the candidate that answered it last, so that the provider's cache stays warm; a new one
begins with the first row, and with one of its keys selected by its first message.
"""

from __future__ import annotations

import contextlib
import zlib
from collections import OrderedDict

from cannery.errors import CanneryError
from cannery.gateway.calls import Call
from cannery.gateway.refusals import NoAnswerError, UpstreamRefusalError, is_transient_status
from cannery.gateway.upstreams import Choice
from cannery.messages import Role, conversation_digest
from cannery.wire.places import Places

_MOST_KEPT = 10_000


def is_transient(error: CanneryError) -> bool:
    """Whether another upstream may succeed: no answer, too many requests, or a server failure."""
    if isinstance(error, NoAnswerError):
        return error.code != "upstream_too_large"
    return isinstance(error, UpstreamRefusalError) and is_transient_status(error.error.status)


class Stickiness:
    """Remembers which candidate answered a conversation."""

    def __init__(self) -> None:
        self._last: OrderedDict[bytes, tuple[str, int]] = OrderedDict()

    def order(self, call: Call, candidates: tuple[Choice, ...]) -> tuple[Choice, ...]:
        """The candidates in the order in which a call tries them."""
        call.fingerprint = _fingerprint(call)
        last = self._last.get(call.fingerprint)
        spread = zlib.crc32(call.fingerprint)
        ordered: list[Choice] = []
        for name in dict.fromkeys(choice.upstream.name for choice in candidates):
            keys = [choice for choice in candidates if choice.upstream.name == name]
            start = spread % len(keys)
            ordered += keys[start:] + keys[:start]
        # Python's sort is stable: the candidate that answered comes first, then its other keys.
        ordered.sort(key=lambda choice: last is not None and choice.place != last)
        return tuple(ordered)

    def remember(self, call: Call) -> None:
        """Record which candidate answered a call."""
        if len(call.candidates) < 2:
            return
        self._last[call.fingerprint] = call.candidates[call.attempt].place
        self._last.move_to_end(call.fingerprint)
        if len(self._last) > _MOST_KEPT:
            self._last.popitem(last=False)


def _fingerprint(call: Call) -> bytes:
    """The common part of a conversation's calls: the key, the model and the first question."""
    scope = "" if call.key is None else call.key.name
    named = call.header("x-cannery-conversation")
    begun = b""
    if named is None:
        with contextlib.suppress(CanneryError):
            history = call.dialect.read_request(call.body, Places()).conversation
            first = [canister for canister in history if canister.role is Role.User][:1]
            begun = conversation_digest(first)
    return f"{scope}\0{call.model}\0{named}\0".encode() + begun

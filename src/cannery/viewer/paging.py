"""Selects the messages of a page: all of them up to a limit, beyond it a window.

A window is read from the store by position, in time independent of the length of the conversation. A few messages after
it are read as well, so that calls at its end have their results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from cannery.messages import InvocationCanisterClass, ResultCanisterClass
from cannery.storage import Damage, StoredConversation
from cannery.viewer.arrangement import Placed, placed

MOST = 5_000
WINDOW = 400
PIECE = 200
_BEHIND = 60


class Window(Struct, frozen=True):
    """The positions from ``start`` up to, not including, ``stop`` in a conversation of ``length`` messages."""

    start: int
    stop: int
    length: int

    @property
    def is_all(self) -> bool:
        """Whether it contains all messages."""
        return self.start == 0 and self.stop >= self.length


def choose(length: int, at: int | None) -> Window:
    """The window to show: everything if it is short enough, otherwise around a message, or the end."""
    if length <= MOST:
        return Window(0, length, length)
    if at is None:
        return Window(length - WINDOW, length, length)
    start = max(0, min(at, length) - WINDOW // 4)
    return Window(start, min(length, start + WINDOW), length)


def bounded(length: int, start: int, stop: int) -> Window:
    """A requested window, limited to the size of a page."""
    first = max(0, min(start, length))
    return Window(first, max(first, min(stop, length, first + MOST)), length)


def pieces(
    conversation: StoredConversation, window: Window
) -> Iterator[tuple[list[Placed], tuple[Damage, ...]]]:
    """Read the messages of a window in chunks, without separating a call from its result."""
    at = window.start
    while at < window.stop:
        stop = min(at + PIECE, window.stop)
        reading = conversation.read(at, min(stop + _BEHIND, window.length))
        if len(reading.canisters) < min(stop + _BEHIND, window.length) - at:
            # Damaged lines are left out; the readable messages are shown with the damage.
            shown = placed(reading.canisters, at)[: stop - at]
            yield shown, reading.damages
            at = stop
            continue
        found = placed(reading.canisters, at)
        cut = _cut(found, stop - at)
        yield found[:cut], reading.damages
        at += cut


def _cut(found: Sequence[Placed], wanted: int) -> int:
    """The end of a chunk: after the results of its calls, if they follow directly."""
    waiting = set()
    for each in found[:wanted]:
        canister = each.canister
        if isinstance(canister, InvocationCanisterClass):
            waiting.add(canister.identifier)
        elif isinstance(canister, ResultCanisterClass):
            waiting.discard(canister.invocation_id)
    cut = wanted
    for at in range(wanted, len(found)):
        if not waiting:
            break
        canister = found[at].canister
        if not isinstance(canister, ResultCanisterClass):
            break
        waiting.discard(canister.invocation_id)
        cut = at + 1
    return min(cut, len(found))

"""The messages of a conversation on one page: all of them up to a limit, beyond it a window.

A window is read from the store by its positions, in time that does not depend on the length of the conversation. A few
messages after it are read as well, so that calls at its end have their results.
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
    """Positions from ``start`` to before ``stop`` of a conversation of ``length`` messages."""

    start: int
    stop: int
    length: int

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.start == 0 and self.stop >= self.length


def choose(length: int, at: int | None) -> Window:
    """The window to show: around a message, or the end; everything if it is not too long."""
    if length <= MOST:
        return Window(0, length, length)
    if at is None:
        return Window(length - WINDOW, length, length)
    start = max(0, min(at, length) - WINDOW // 4)
    return Window(start, min(length, start + WINDOW), length)


def bounded(length: int, start: int, stop: int) -> Window:
    """A window that was asked for, of at most the usual size."""
    first = max(0, min(start, length))
    return Window(first, max(first, min(stop, length, first + MOST)), length)


def pieces(
    conversation: StoredConversation, window: Window
) -> Iterator[tuple[list[Placed], tuple[Damage, ...]]]:
    """The messages of a window, some at a time, cut where no call waits for its result."""
    at = window.start
    while at < window.stop:
        stop = min(at + PIECE, window.stop)
        reading = conversation.read(at, min(stop + _BEHIND, window.length))
        if len(reading.canisters) < min(stop + _BEHIND, window.length) - at:
            # Damaged lines are left out; what can be read is shown with the damage.
            shown = placed(reading.canisters, at)[: stop - at]
            yield shown, reading.damages
            at = stop
            continue
        found = placed(reading.canisters, at)
        cut = _cut(found, stop - at)
        yield found[:cut], reading.damages
        at += cut


def _cut(found: Sequence[Placed], wanted: int) -> int:
    """Where to cut behind a number of messages: behind the results of the calls among them, if they are near."""
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

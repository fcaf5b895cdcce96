"""The log of what exchanges took: what every backend offers, and notes as rows of a table.

Rows are sealed, and numbered in the order in which they become visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from cannery.backends._seals import unseal


class Note(NamedTuple):
    """What is known of one exchange: ``record`` is a JSON object, the rest is what it is found by.

    ``reply`` is the id under which a caller knows the answer, "" if there is none.
    """

    conversation: str
    time: str
    reply: str
    record: bytes


class NotePage(NamedTuple):
    """A page of the log of exchanges: its records, None for one that is damaged, and where to go on.

    With ``is_first`` it is the log's first page, whatever cursor was given: that one is of another log.
    """

    cursor: str
    records: Sequence[bytes | None]
    is_first: bool


class ExchangeLog(Protocol):
    """What exchanges took: a log beside the conversations, which keeps what a deleted one has cost.

    What is appended is visible at once and durable soon after; a crash may lose the notes of the last moment, never
    part of one. No cost but that of reading pages grows with the number of notes.
    """

    def append(self, notes: Sequence[Note]) -> None:
        """Add notes, all of them or, with a StoreUnavailableError, none."""

    def of(self, conversations: Iterable[str]) -> list[bytes]:
        """The records of some conversations, in the order in which they were added."""

    def page(self, cursor: str | None = None) -> NotePage:
        """The records behind a cursor, in the order in which they were added; none if there are no others yet.

        A record that becomes visible is never behind a cursor that was given before.
        """

    def torn(self) -> str | None:
        """What is at the end of the log and no record, if anything is."""

    def replied(self, reply: str) -> bytes | None:
        """The last record of a reply."""


def page_of(
    cursor: str | None,
    behind: Callable[[int], Sequence[tuple[int, bytes]]],
    last: Callable[[], int],
) -> NotePage:
    """The rows behind a cursor; ``last`` is the highest number that there is."""
    place = int(cursor) if cursor is not None and cursor.isdecimal() else 0
    rows = behind(place)
    if not rows and place and last() < place:
        # A log that is shorter is another one: a backup was restored, or another server took over.
        place, rows = 0, behind(0)
    found = rows[-1][0] if rows else place
    return NotePage(str(found), [unseal(record) for _, record in rows], is_first=not place)


def sound(rows: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """The records that are as they were written."""
    for _, sealed in rows:
        record = unseal(sealed)
        if record is not None:
            yield record

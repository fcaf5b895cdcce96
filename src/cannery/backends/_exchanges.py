"""The log of usage records: the interface that every backend offers, and notes as rows of a table.

Rows are sealed, and numbered in the order in which they become visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from cannery.backends._seals import unseal


class Note(NamedTuple):
    """A usage record of one exchange: ``record`` is a JSON object, the other fields are search keys.

    ``reply`` is the id under which a caller knows the answer, "" if there is none.
    """

    conversation: str
    time: str
    reply: str
    record: bytes


class NotePage(NamedTuple):
    """A page of the log: its records, None for a damaged one, and the cursor of the next page.

    With ``is_first`` it is the log's first page, whatever cursor was given: that cursor belongs to another log.
    """

    cursor: str
    records: Sequence[bytes | None]
    is_first: bool


class ExchangeLog(Protocol):
    """Usage records: a log beside the conversations, which also keeps the costs of deleted ones.

    An appended note is visible at once and durable soon after; a crash may lose the notes of the last moment, never
    part of one. Only the cost of reading pages grows with the number of notes.
    """

    def append(self, notes: Sequence[Note]) -> None:
        """Add notes, all of them or, with a StoreUnavailableError, none."""

    def of(self, conversations: Iterable[str]) -> list[bytes]:
        """The records of some conversations, in the order in which they were added."""

    def page(self, cursor: str | None = None) -> NotePage:
        """The records after a cursor, in the order in which they were added; none if there are no more yet.

        A record that becomes visible later is never before a cursor that was given out.
        """

    def torn(self) -> str | None:
        """An incomplete record at the end of the log, if there is one."""

    def replied(self, reply: str) -> bytes | None:
        """The last record of a reply."""


def page_of(
    cursor: str | None,
    behind: Callable[[int], Sequence[tuple[int, bytes]]],
    last: Callable[[], int],
) -> NotePage:
    """The rows after a cursor; ``last`` is the highest existing number."""
    place = int(cursor) if cursor is not None and cursor.isdecimal() else 0
    rows = behind(place)
    if not rows and place and last() < place:
        # A shorter log is another one: a backup was restored, or another server took over.
        place, rows = 0, behind(0)
    found = rows[-1][0] if rows else place
    return NotePage(str(found), [unseal(record) for _, record in rows], is_first=not place)


def sound(rows: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """The records that match their seals."""
    for _, sealed in rows:
        record = unseal(sealed)
        if record is not None:
            yield record

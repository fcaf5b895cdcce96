"""Notes of exchanges as rows of a table: sealed, and numbered in the order in which they become visible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from cannery.backends._contract import Cursor, NotePage
from cannery.backends._seals import unseal


def page_of(
    cursor: Cursor | None,
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

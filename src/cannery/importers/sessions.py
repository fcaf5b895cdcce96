"""Sessions of agents: a file of events, a line each, that together are one conversation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from cannery.importers.contract import Found, Imported
from cannery.importers.pieces import unknown_record
from cannery.importers.sources import Source


class Session(Protocol):
    """The lines of one file; ``last`` is the message that was taken last."""

    @property
    def last(self) -> str | None: ...

    def take(self, value: Any, place: str) -> str | None:
        """Take a line; the kind of record if it is not understood."""

    def imported(self, name: str) -> Imported:
        """The conversation of all lines; the name of the file is its own if it has no other."""


def read_session(source: Source, session: Session) -> Iterator[Found]:
    """The conversation of a file; a line that is not understood is kept behind the message before it."""
    for record, value in source.values():
        above = session.last
        kind = session.take(value, record.place)
        if kind is not None:
            yield unknown_record(kind, record.place, value, above)
    yield session.imported(source.name)

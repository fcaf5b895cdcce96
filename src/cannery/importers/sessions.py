"""Sessions of agents: a file of events, one per line, that together are one conversation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from cannery.importers.contract import Found, Imported
from cannery.importers.pieces import unknown_record
from cannery.importers.sources import Source


class Session(Protocol):
    """The reader of the lines of one file; ``last`` is the message that was read last."""

    @property
    def last(self) -> str | None: ...

    def take(self, value: Any, place: str) -> str | None:
        """Read a line; return the kind of the record if it is unknown."""

    def imported(self, name: str) -> Imported:
        """The conversation of all lines; ``name`` is its identifier if the lines have none."""


def read_session(source: Source, session: Session) -> Iterator[Found]:
    """Read the conversation of a file; an unknown line becomes an unknown record after the message before it."""
    for record, value in source.values():
        above = session.last
        kind = session.take(value, record.place)
        if kind is not None:
            yield unknown_record(kind, record.place, value, above)
    yield session.imported(source.name)

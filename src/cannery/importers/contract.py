"""The output of importers: conversations as trees of canisters, and records of unknown kinds.

A format is a module of ``cannery.importers.formats`` with one value, ``FORMAT``; nothing else is edited to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import Struct

from cannery.importers.values import encoding_of
from cannery.messages import AnyCanister
from cannery.storage import Metadata

if TYPE_CHECKING:
    from cannery.importers.sources import Source

# The kind of a record that belongs to its format and cannot be read: a missing message or row.
UNREADABLE = "unreadable"


class Node(NamedTuple):
    """One message of a source: its id there, the id of the message before it, and its canisters."""

    identifier: str
    parent: str | None
    canisters: tuple[AnyCanister, ...]


class Unknown(NamedTuple):
    """A record that the importer does not interpret, as its JSON text.

    ``above`` is the message after which it is found, if it belongs to the conversation that is being read.
    """

    kind: str
    place: str
    json: str
    above: str | None = None


class Imported(Struct, frozen=True):
    """One conversation of a source.

    ``nodes`` may be in any order as long as ids are unique; ``current`` is the message that was last displayed.
    ``unknown`` counts pieces by kind that are stored in place as opaque blocks. ``started_by`` of a sub-agent is the
    identifier of the conversation in the same import that started it.
    """

    identifier: str
    nodes: tuple[Node, ...]
    title: str = ""
    created: datetime | None = None
    current: str | None = None
    model: str | None = None
    unknown: dict[str, int] = {}
    tags: tuple[str, ...] = ()
    # Its metadata in another Cannery store, if it comes from one.
    kept: Metadata | None = None
    started_by: str | None = None
    # Distinguishes a row of a data set from others, if its content does not (``pieces.row_digest``).
    row: bytes = b""


Found: TypeAlias = Imported | Unknown


class Sample(NamedTuple):
    """The beginning of a source: its name, first records and bytes, its problems, and the tables of a database."""

    name: str
    records: tuple[Any, ...]
    head: bytes
    problems: tuple[str, ...] = ()
    tables: Mapping[str, tuple[str, ...]] = {}

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The records that are JSON objects."""
        return [record for record in self.records if isinstance(record, dict)]

    @property
    def text(self) -> str:
        """The first bytes as text."""
        return self.head.decode(encoding_of(self.head), "replace")

    def has_table(self, name: str, *columns: str) -> bool:
        """Whether the database has a table with these columns."""
        return set(columns) <= set(self.tables.get(name, ())) and name in self.tables


class Detection(NamedTuple):
    """A format's confidence (0 to 1) that a source is in it, and the reason."""

    confidence: float
    reason: str


class Format(NamedTuple):
    """One file format.

    ``dialect`` is the dialect of its program, if there is only one. In a data set every record is a conversation of its
    own, whatever it shares with others. ``keys`` are words by which the error for an unknown file finds similar
    formats. ``folders`` are the places of its program's files, relative to the home folder.
    """

    name: str
    title: str
    detect: Callable[[Sample], Detection | None]
    read: Callable[[Source], Iterator[Found]]
    dialect: str | None = None
    is_data_set: bool = False
    keys: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

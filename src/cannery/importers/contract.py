"""What an importer gives, whatever it reads: conversations as trees of canisters, and records of no known kind.

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

# The kind of a record that its format claims and cannot read: a message or a row that is missing.
UNREADABLE = "unreadable"


class Node(NamedTuple):
    """One message of a source: its id there, the id of the message before it, and what it says here."""

    identifier: str
    parent: str | None
    canisters: tuple[AnyCanister, ...]


class Unknown(NamedTuple):
    """A record that the importer does not understand, as the JSON text it is.

    ``above`` is the message behind which it stands, if it belongs to the conversation that is being read.
    """

    kind: str
    place: str
    json: str
    above: str | None = None


class Imported(Struct, frozen=True):
    """One conversation of a source.

    ``nodes`` stand in any order as long as ids are unique; ``current`` is the message that its owner looked at last.
    ``unknown`` counts pieces by kind that are kept in place as opaque blocks. A sub-agent says which conversation of
    the same import started it, by that one's identifier.
    """

    identifier: str
    nodes: tuple[Node, ...]
    title: str = ""
    created: datetime | None = None
    current: str | None = None
    model: str | None = None
    unknown: dict[str, int] = {}
    tags: tuple[str, ...] = ()
    # How another store of ours kept it, if it comes from one.
    kept: Metadata | None = None
    started_by: str | None = None
    # What tells a row of a data set from others, if that is more than what it says (``pieces.row_digest``).
    row: bytes = b""


Found: TypeAlias = Imported | Unknown


class Sample(NamedTuple):
    """The beginning of a source: its name, first records and bytes, what is wrong, and the tables of a database."""

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
    """How sure a format is that a source is its own (0 to 1), and why."""

    confidence: float
    reason: str


class Format(NamedTuple):
    """One format of files that people bring.

    ``dialect`` is the one that its program speaks, if it is only one. In a data set every record is a conversation
    of its own, whatever it shares with others. ``keys`` are the words by which a file that is not quite of the
    format still resembles it. ``folders`` are where its program keeps its files, below the home folder.
    """

    name: str
    title: str
    detect: Callable[[Sample], Detection | None]
    read: Callable[[Source], Iterator[Found]]
    dialect: str | None = None
    is_data_set: bool = False
    keys: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

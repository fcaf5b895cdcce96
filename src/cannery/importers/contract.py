"""What an importer gives, whatever it reads: conversations as trees of canisters, and the records that nobody knew.

A format is a module of ``cannery.importers.formats`` with one value, ``FORMAT``; nothing else is edited to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import Struct

from cannery.messages import AnyCanister
from cannery.storage import Metadata

if TYPE_CHECKING:
    from cannery.importers.sources import Source


class Node(NamedTuple):
    """One message of a source: its id there, the id of the message before it, and what it says here."""

    identifier: str
    parent: str | None
    canisters: tuple[AnyCanister, ...]


class Unknown(NamedTuple):
    """A record, or a piece of one, that the importer does not understand: kept as the JSON text it is."""

    kind: str
    place: str
    json: str


class Imported(Struct, frozen=True):
    """One conversation of a source.

    ``nodes`` stand in any order as long as ids are unique; ``current`` is the message that its owner looked at last.
    ``unknown`` counts pieces by kind that are kept in place as opaque blocks.
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


Found: TypeAlias = Imported | Unknown


class Sample(NamedTuple):
    """The beginning of a source: its name, its first records as plain values, its first bytes, and what is wrong."""

    name: str
    records: tuple[Any, ...]
    head: bytes
    problems: tuple[str, ...] = ()

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The records that are JSON objects."""
        return [record for record in self.records if isinstance(record, dict)]


class Detection(NamedTuple):
    """How sure a format is that a source is its own (0 to 1), and why."""

    confidence: float
    reason: str


class Format(NamedTuple):
    """One format of files that people bring; ``dialect`` is the one that its program speaks, if it is only one."""

    name: str
    title: str
    detect: Callable[[Sample], Detection | None]
    read: Callable[[Source], Iterator[Found]]
    dialect: str | None = None

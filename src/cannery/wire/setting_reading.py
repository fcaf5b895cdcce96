"""Settings of requests read: the rows of a table by their keys, and one object of settings on its way (``Reading``).

What no row takes stays in the object and is the residue; of two spellings of a key the usual one counts. The tables are
made in ``wire.settings``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from cannery.messages.absence import absent
from cannery.messages.requests import Tool
from cannery.wire.bodies import Object
from cannery.wire.places import Places
from cannery.wire.residues import nested, noted


class Spelled(Struct, frozen=True):
    """Instead of a patch: the setting is kept to the letter, since writing says ``written``, or nothing if absent."""

    written: Any = absent


# What a value says, and the patch of its spelling.
Said = tuple[Any, Object | Spelled | None]
NOT_READ: Said = (absent, None)


Plain = tuple[str, tuple[type, ...], "dict[str, Plain] | str | None"]


class Row(Struct):
    """One key of an object: a setting, or an object that has settings (``within``).

    ``noted`` are the names of what usually stands elsewhere, with the settings that are found there. One that
    ``is_later`` is read when those before it were, and only where they found nothing of its name.
    """

    key: str
    name: str = ""
    types: tuple[type, ...] = ()
    read: Callable[[Any, Reading], Said] | None = None
    within: Level | None = None
    names: tuple[str, ...] = ()
    noted: tuple[tuple[str, frozenset[str]], ...] = ()
    is_later: bool = False
    # For an older name: what is to be known of it where values are taken as they are.
    older: Plain | None = None
    # Whether it has one spelling and stands nowhere else.
    is_usual: bool = False


class Level(Struct):
    """The rows of one object by every spelling of their keys; ``respell`` gives the other spelling of one."""

    respell: Callable[[str], str]
    rows: dict[str, Row] = {}
    # By usual keys: the names of settings, the types of values of which nothing else is to be known, and for an object
    # that has settings the same of its fields; by older keys: the usual ones.
    plain: dict[str, Plain] = {}
    # The usual spellings of keys by the other ones.
    usual: dict[str, str] = {}

    def add(self, row: Row) -> None:
        """Add a row."""
        other = self.respell(row.key)
        self.rows[row.key] = self.rows[other] = row
        if other != row.key:
            self.usual[other] = row.key
        row.is_usual = other == row.key and not row.noted
        if row.within is not None:
            self.plain[row.key] = ("", (dict,), row.within.plain)
        elif row.types and not row.is_later:
            self.plain[row.key] = (row.name, row.types, None)
        elif row.older is not None:
            self.plain[row.key] = row.older

    def held(self, key: str) -> Level:
        """The level of an object within this one."""
        if key not in self.rows:
            self.add(Row(key, within=Level(self.respell)))
        return self.rows[key].within  # type: ignore[return-value]

    def understands(self, fields: Object) -> bool:
        """Whether there may be a setting among fields: not if all objects that could have some are empty."""
        return any(
            fields[key] or self.rows[key].within is None or self.usual.get(key) in fields
            for key in fields.keys() & self.rows.keys()
        )

    def spelled_twice(self, fields: Object) -> dict[str, str]:
        """The usual spellings of keys that fields have in both spellings, and the other ones."""
        others = self.usual.keys() & fields.keys() if self.usual else ()
        return {usual: other for other in others if (usual := self.usual[other]) in fields}

    def name(self, steps: tuple[str, ...], names: tuple[str, ...]) -> None:
        """Name an object that has settings, by its path from here, if there is one."""
        row = self.rows.get(steps[0])
        if row is not None and row.within is not None:
            if len(steps) > 1:
                row.within.name(steps[1:], names)
            else:
                row.names += names


class Reading(Struct):
    """One object of settings while it is read: the fields that are left, what was found, and how it was spelled.

    ``inner`` are the patches of fields that were taken; ``written`` is what writing says of fields that are kept to the
    letter, or are lacking.
    """

    left: Object
    found: Object
    places: Places
    form: list[str]
    tools: Sequence[Tool] = ()
    path: tuple[str, ...] = ()
    is_respelled: bool = False
    inner: Object = {}
    written: Object = {}
    renamed: dict[str, str] = {}
    notes: dict[str, str | None] = {}

    def read(self, level: Level) -> None:
        """Take what the rows of a level understand; of two spellings of a key the usual one counts."""
        left, rows = self.left, level.rows
        self.notes.update(dict.fromkeys(level.spelled_twice(left).values()))
        later: list[str] = []
        for key in [*left]:
            row = rows.get(key)
            if row is None or key in self.notes:
                continue
            if row.is_usual and type(left[key]) in row.types and not self.is_respelled:
                self.found[row.name] = left.pop(key)
            elif row.within is not None:
                self._enter(row, key, row.within)
            elif row.is_later:
                later.append(key)
            else:
                self._look(row, key)
        for key in later:
            if rows[key].name not in self.found:
                self._look(rows[key], key)

    def _look(self, row: Row, key: str) -> None:
        said, patch = self.left[key], None
        if type(said) not in row.types:
            if row.read is None:
                return
            said, patch = row.read(said, self)
            if said is absent:
                return
        self.found[row.name] = said
        if patch is None and row.is_usual and not self.is_respelled:
            del self.left[key]
            return
        self.take(row.key, key, patch)
        if row.noted or self.is_respelled or key != row.key:
            self._note(row, key)

    def _enter(self, row: Row, key: str, level: Level) -> None:
        """Read an object that has settings; where nothing is taken from it, it stays whole."""
        fields = self.left[key]
        if type(fields) is not dict:
            return
        count, path = len(fields), (*self.path, key)
        is_respelled = self.is_respelled or key != row.key
        inner = Reading(fields, self.found, self.places, self.form, self.tools, path, is_respelled)
        inner.read(level)
        if len(fields) < count or inner.written:
            self.take(row.key, key, inner.patch())
            if is_respelled:
                self._note(row, key)

    def take(self, usual: str, key: str, patch: Object | Spelled | None = None) -> None:
        """Take a field that was understood, by its usual key and by its own, unless it is kept to the letter."""
        if type(patch) is Spelled:
            if patch.written is not absent:
                self.written[usual] = patch.written
            return
        del self.left[key]
        if patch is not None:
            self.inner[usual] = patch
        if key != usual:
            self.renamed[usual] = key

    def _note(self, row: Row, key: str) -> None:
        """Note the place of what may stand elsewhere, too."""
        places, path = self.places.settings, (*self.path, key)
        if self.is_respelled or key != row.key:
            places.update(dict.fromkeys(row.names, path))
        for name, others in row.noted:
            if others.isdisjoint(self.found):
                places[name] = path

    def patch(self) -> Object | None:
        """The patch of the whole object."""
        left, written = self.left, self.written
        if not (written or self.notes or self.renamed):
            return nested(left, self.inner) if left or self.inner else None
        dropped = [key for key in written if key not in left]
        return nested(left, self.inner, dropped, self.renamed, {**self.notes, **noted(written)})

"""Reads the settings of requests: table rows by key, and an object of settings in progress (``Reading``).

Fields that no row takes stay in the object as residue; of two spellings of a key the usual one counts. The tables are
built in ``wire.settings``.
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
    """In place of a patch: the setting is kept exactly, because writing gives ``written`` (nothing if absent)."""

    written: Any = absent


# A value, and the patch of its spelling.
Said = tuple[Any, Object | Spelled | None]
NOT_READ: Said = (absent, None)


# Under an older key: the name of the setting, the types of values that are taken unchanged, and the usual key.
Older = tuple[str, tuple[type, ...], str]


class Row(Struct):
    """One key of an object: a setting, or an object that contains settings (``within``).

    ``noted`` are the names of settings that usually stand elsewhere, with the settings found there. A row that
    ``is_later`` is read after the others, and only if they did not find its name.
    """

    key: str
    name: str = ""
    types: tuple[type, ...] = ()
    read: Callable[[Any, Reading], Said] | None = None
    within: Level | None = None
    names: tuple[str, ...] = ()
    noted: tuple[tuple[str, frozenset[str]], ...] = ()
    is_later: bool = False
    older: Older | None = None
    # Whether it has one spelling and one place.
    is_usual: bool = False


class Level(Struct):
    """The rows of one object by every spelling of their keys; ``respell`` gives the other spelling of one."""

    respell: Callable[[str], str]
    rows: dict[str, Row] = {}
    # The names of settings by usual key and by the types of values that need no further check.
    names: dict[tuple[str, type], str] = {}
    # The levels of objects with settings, by usual key.
    inner: dict[str, Level] = {}
    older: dict[str, Older] = {}
    # The usual spellings of keys, by the other spelling.
    usual: dict[str, str] = {}

    def add(self, row: Row) -> None:
        """Add a row."""
        other = self.respell(row.key)
        self.rows[row.key] = self.rows[other] = row
        if other != row.key:
            self.usual[other] = row.key
        row.is_usual = other == row.key and not row.noted
        if row.within is not None:
            self.inner[row.key] = row.within
        elif row.types and not row.is_later:
            self.names.update({(row.key, kind): row.name for kind in row.types})
        elif row.older is not None:
            self.older[row.key] = row.older

    def held(self, key: str) -> Level:
        """The level of an object inside this one."""
        if key not in self.rows:
            self.add(Row(key, within=Level(self.respell)))
        return self.rows[key].within  # type: ignore[return-value]

    def understands(self, fields: Object) -> bool:
        """Whether fields may contain a setting: not if every object that could hold one is empty."""
        for key in fields.keys() & self.rows.keys():
            if fields[key] or self.rows[key].within is None or self.usual.get(key) in fields:
                return True
        return False

    def spelled_twice(self, fields: Object) -> dict[str, str]:
        """The usual spellings of keys that occur in both spellings, and the other ones."""
        if not self.usual:
            return {}
        others = self.usual.keys() & fields.keys()
        return {usual: other for other in others if (usual := self.usual[other]) in fields}

    def name(self, steps: tuple[str, ...], names: tuple[str, ...]) -> None:
        """The level of an object with settings, by its path from here, if there is one."""
        row = self.rows.get(steps[0])
        if row is not None and row.within is not None:
            if len(steps) > 1:
                row.within.name(steps[1:], names)
            else:
                row.names += names


class Reading(Struct):
    """One object of settings being read: the fields left, the settings found, and their spelling.

    ``inner`` are the patches of fields that were taken; ``written`` is what writing gives for fields that are kept
    exactly or are missing.
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
        """Take the fields that the rows of a level understand; of two spellings of a key the usual one counts."""
        left, rows = self.left, level.rows
        if level.usual:
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
        """Read an object with settings; if nothing is taken from it, it stays whole."""
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
        """Take an understood field, by its usual key and its own, unless it is kept exactly."""
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
        """Record the place of a setting that may also stand elsewhere."""
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

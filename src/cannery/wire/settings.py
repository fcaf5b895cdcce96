"""Settings of requests as tables that are read in both directions.

A row (``Setting``) gives the model's name of a setting, its path in a body, the spelling of its value (``Form``), and
how a value from another dialect is adjusted. A table (``SettingTable``) reads and writes all of its rows. A field
without a row stays in the body and becomes residue; a control without a row is reported as lost.

A dialect has functions only for exceptions. ``read(value, reading)`` gives the model's value, or ``absent``, and the
patch of its spelling. ``fit`` and ``write(value, writing)`` give the value for the body, or ``absent`` for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    DEFAULT_CONTROLS,
    Controls,
    Request,
    Tool,
    new_controls,
    new_thinking,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.controls import drop_choice, drop_control, is_possible
from cannery.wire.losses import Report
from cannery.wire.places import ControlPaths, Places
from cannery.wire.setting_reading import NOT_READ, Level, Older, Reading, Row, Said

# The facts of the thinking setting, which several settings may hold.
_PARTS = frozenset({"enabled", "effort", "budget", "summary", "adaptive"})


# The parts of a request in the order in which they are written.
_GIVEN = ("tool_choice", *Controls.__struct_fields__)


# The value in a body for a value of the model.
Write = Callable[[Any, "Writing"], Any]
Fit = Write


class Form(Struct, frozen=True):
    """The spelling of a value: values of ``types`` are taken unchanged, others are read.

    Values of ``older`` types are accepted under a key that is an older name of the setting, if the usual key is
    missing; a word of the form records this.
    """

    types: tuple[type, ...] = ()
    read: Callable[[Any, Reading], Said] | None = None
    write: Write | None = None
    older: tuple[type, ...] = ()


class Setting(Struct, frozen=True):
    """One row: the name of a control, of a fact of thinking, ``model``, ``stream`` or ``tool_choice``, and its path.

    Of several rows with one name the first is written; the others are read if the rows before them find nothing. The
    path is "" if a service has no such field. ``fit`` adjusts a value from another dialect before it is written.
    ``also`` are other names of the same field.
    """

    name: str
    path: str
    form: Form = Form()
    fit: Fit | None = None
    also: tuple[str, ...] = ()


# --- writing -----------------------------------------------------------------------------------


class Writing(Struct):
    """A body being filled with settings; ``name`` is the current control."""

    request: Request
    report: Report
    body: Object
    is_same: bool
    name: str = ""

    def drop(self, detail: str = "", name: str = "") -> None:
        """Report that a control, or its fact ``name``, is left out."""
        self.report.lose("CONTROL_DROPPED", f"@{name or self.name}", detail)

    def leave(self, detail: str) -> None:
        """Report that a control with its default value is left out."""
        self.report.lose("DEFAULT_DROPPED", f"@{self.name}", detail)

    def change(self, detail: str, name: str = "") -> None:
        """Report that a control, or its fact ``name``, is approximated."""
        self.report.lose("CONTROL_CHANGED", f"@{name or self.name}", detail)


# --- forms ---------------------------------------------------------------------------------------


def _read_texts(value: Any, _: Reading) -> Said:
    is_said = type(value) is list and value and all(type(item) is str for item in value)
    return (tuple(value), None) if is_said else NOT_READ


def _read_object(value: Any, _: Reading) -> Said:
    return (write_json(value), None) if type(value) is dict and value else NOT_READ


NUMBER, WHOLE, FLAG, TEXT = Form((int, float)), Form((int,)), Form((bool,)), Form((str,))
# A list of texts; an empty list means nothing and stays residue.
TEXTS = Form(read=_read_texts, write=lambda value, _: [*value])
# An object with any fields, which the model keeps as text.
OBJECT = Form(read=_read_object, write=lambda value, _: decode_json(value))
# The service's default, which no body states.
UNSAID = Form(write=lambda *_: absent)


def within(least: float, most: float, detail: str = "") -> Fit:
    """Limit a number to the range that a server accepts."""

    def fit(value: Any, to: Writing) -> Any:
        legal = min(max(value, least), most)
        if legal != value:
            to.change(detail or f"{to.name} is within {least:g} and {most:g}")
        return legal

    return fit


def fit_limit(least: int = 1, none: Any = absent, *, is_needed: bool = False) -> Fit:
    """Limit ``max_tokens`` to what a server accepts.

    A negative value means no limit in vLLM, llama.cpp and LM Studio. ``none`` is the target's value for no limit; if it
    is absent, the setting is left out, and a server that requires one gets a default.
    """

    def fit(value: int, to: Writing) -> Any:
        if value >= least:
            return value
        if value > 0:
            to.change(f"the limit is at least {least}")
            return least
        if not value:
            to.drop(f"the limit is at least {least}")
            return absent
        if is_needed:
            to.change("a negative value means no limit, and the target requires one")
        elif none is absent:
            to.leave("a negative value means no limit, which is the default")
        return none

    return fit


def fit_top_k(least: int = 0, most: int = 1 << 31) -> Fit:
    """Limit ``top_k`` to the range that a server accepts; a lower value switches it off and is left out."""

    def fit(value: int, to: Writing) -> Any:
        if value < least:
            to.leave("this value switches top_k off, which is the default")
            return absent
        if value > most:
            to.change(f"{to.name} is at most {most}")
        return min(value, most)

    return fit


def fit_seed(value: int, to: Writing) -> Any:
    """The seed, for a server that takes no negative one."""
    if value >= 0:
        return value
    to.drop("a seed is not negative")
    return absent


def at_most(most: int, detail: str) -> Fit:
    """Keep the first few of a list of texts."""

    def fit(value: Sequence[str], to: Writing) -> Sequence[str]:
        if len(value) > most:
            to.change(detail)
        return value[:most]

    return fit


def unless(usual: object, detail: str) -> Form:
    """Report any value but ``usual``, which is what the service does anyway."""

    def write(value: Any, to: Writing) -> Any:
        if value != usual:
            to.drop(detail)
        return absent

    return Form(write=write)


def among(sent: Callable[[Object], Iterable[str]]) -> Fit:
    """Drop a choice among tools that were not sent; ``sent`` gives the names of the tools in a body."""

    def fit(choice: Any, to: Writing) -> Any:
        if is_possible(choice, sent(to.body)):
            return choice
        drop_choice(choice, to.report)
        return absent

    return fit


# --- tables --------------------------------------------------------------------------------------


class SettingTable:
    """The settings of a dialect; ``paths`` gives the place of each, ``modelled`` all paths that are read.

    ``more`` are paths of names without a row, ``tools`` writes the tools of a request, and ``assumed`` are values
    that a body implies by omission. ``respell`` gives the other spelling of a key.
    """

    def __init__(
        self,
        dialect: str,
        rows: Sequence[Setting],
        more: Mapping[str, str] = MappingProxyType({}),
        *,
        tools: Callable[[Request, Object, Report], None] | None = None,
        assumed: Mapping[str, Any] = MappingProxyType({}),
        respell: Callable[[str], str] = str,
    ) -> None:
        self.dialect = dialect
        self._tools, self._assumed = tools, assumed
        steps = {row.path: (*row.path.split("."),) for row in rows}
        paths = _paths(rows, more)
        self._level = _compiled(rows, steps, respell)
        self.modelled = frozenset(spellings(_modelled(rows), respell))
        self.paths: ControlPaths = {
            name: each if len(each) > 1 else each[0]
            for name, path in paths.items()
            for each in [spellings((path,) if type(path) is str else path, respell)]
        }
        self._has_parts = any(row.name in _PARTS for row in rows)
        self._writers = {
            row.name: (*_split(steps[row.path]), row.fit, row.form.write) for row in reversed(rows)
        }
        # The places of settings that are written unchanged: at the top level, and in an object.
        as_is = {name: row for name, row in self._writers.items() if row[3] is None and row[1]}
        self._held = {name: row[:2] for name, row in as_is.items() if row[0] and row[2] is None}
        # Values from the same dialect need no adjustment.
        self._own_keys = {name: row[1] for name, row in as_is.items() if not row[0]}
        self._keys = {name: key for name, key in self._own_keys.items() if as_is[name][2] is None}
        self._model, self._stream = self._keys.get("model"), self._keys.get("stream")

    def read(
        self, body: Object, places: Places, tools: tuple[Tool, ...] = (), form: Sequence[str] = ()
    ) -> tuple[Any, tuple[Tool, ...], Any, Controls, Any, Residue | None]:
        """The request fields after its conversation: model, tools, choice, controls, stream and residue.

        ``body`` no longer has messages and tools; ``form`` are words for how these were spelled.
        """
        found: Object = {}
        left: Object = {}
        level = self._level
        names, inner, older = level.names, level.inner, level.older
        twice = level.spelled_twice(body) if level.usual else ()
        for key, value in body.items():
            name = names.get((key, type(value)))
            if key in twice:
                left[key] = value
            elif name is not None:
                found[name] = value
            elif key in inner and type(value) is dict and _takes_all(value, inner[key], found):
                continue
            elif key in older and _takes_older(value, older[key], body, found):
                places.settings[older[key][0]] = (key,)
                form = (*form, key)
            else:
                left[key] = value
        residue = None
        if left or form or self._assumed:
            residue = self._read_left(left, found, places, tools, form)
        model = found.pop("model", absent)
        if not found:
            return model, tools, absent, DEFAULT_CONTROLS, absent, residue
        if self._has_parts:
            _join_parts(found)
        choice, stream = found.pop("tool_choice", absent), found.pop("stream", absent)
        tools = found.pop("tools", tools)
        controls = new_controls(**found) if found else DEFAULT_CONTROLS
        return model, tools, choice, controls, stream, residue

    def _read_left(
        self,
        left: Object,
        found: Object,
        places: Places,
        tools: tuple[Tool, ...],
        form: Sequence[str],
    ) -> Residue | None:
        """Take the settings that need a closer check; the rest is the residue."""
        patch: Object | None = {"s": left} if left else None
        if self._assumed or (left and self._level.understands(left)):
            reading = Reading(left, found, places, [*form], tools)
            reading.read(self._level)
            if self._assumed:
                self._assume(reading)
            patch, form = reading.patch(), reading.form
        if patch is None and not form:
            return None
        text = None if patch is None else write_json(patch)
        return Residue(self.dialect, None, text, " ".join(filter(None, form)) or None)

    def _assume(self, reading: Reading) -> None:
        for name, value in self._assumed.items():
            if name not in reading.found:
                reading.found[name] = reading.written[self._writers[name][1]] = value

    def write(self, request: Request, report: Report, body: Object | None = None) -> Object:
        """The body of a request without its messages, in the usual form."""
        body = {} if body is None else body
        controls = request.controls
        if self._model is not None and request.model is not absent:
            body[self._model] = request.model
        if request.tools and self._tools is not None:
            self._tools(request, body, report)
        if request.tool_choice is not absent or controls is not DEFAULT_CONTROLS:
            to = Writing(request, report, body, request.source == self.dialect)
            self._write_given(to, request.tool_choice, controls)
        if self._stream is not None and request.stream is not absent:
            body[self._stream] = request.stream
        return body

    def _write_given(self, to: Writing, choice: Any, controls: Controls) -> None:
        body, is_same = to.body, to.is_same
        keys = self._own_keys if is_same else self._keys
        given = zip(_GIVEN, (choice, *astuple(controls)), strict=True)
        for name, value in given:
            if value is absent:
                continue
            if name in keys:
                body[keys[name]] = value
                continue
            if name in self._held:
                holder, key = self._held[name]
                body.setdefault(holder, {})[key] = value
                continue
            row = self._writers.get(name)
            if row is None:
                drop_control(name, value, to.report)
                continue
            holder, key, fit, write = row
            to.name = name
            if fit is not None and not is_same:
                value = fit(value, to)  # noqa: PLW2901 - the value as it fits
            if write is not None and value is not absent:
                value = write(value, to)  # noqa: PLW2901 - the value as it is written
            if value is absent:
                continue
            if holder:
                body.setdefault(holder, {})[key] = value
            else:
                body[key] = value


def _takes_all(fields: Object, level: Level, found: Object) -> bool:
    """Take an object if each of its fields is a setting that needs no further check; whether it was taken."""
    taken: Object = {}
    for key, value in fields.items():
        name = level.names.get((key, type(value)))
        if name is None:
            return False
        taken[name] = value
    found.update(taken)
    return bool(taken)


def _takes_older(value: Any, older: Older, body: Object, found: Object) -> bool:
    """Take the value of an older key that needs no further check, if the usual key is missing."""
    name, types, usual = older
    if type(value) not in types or usual in body:
        return False
    found[name] = value
    return True


def _join_parts(found: Object) -> None:
    """Join the facts of thinking to one setting."""
    if not _PARTS.isdisjoint(found):
        found["thinking"] = new_thinking(
            found.pop("enabled", absent),
            found.pop("effort", absent),
            found.pop("budget", absent),
            found.pop("summary", absent),
            found.pop("adaptive", False),
        )


def _split(steps: tuple[str, ...]) -> tuple[str, str]:
    """The object in which a setting is written ("" for the body itself), and its key there."""
    *holders, key = steps
    return ".".join(holders), key


def spellings(paths: Iterable[str], respell: Callable[[str], str]) -> tuple[str, ...]:
    """Every spelling of some paths, the usual one first."""
    return tuple(
        ".".join(steps)
        for path in paths
        for steps in product(*(dict.fromkeys((step, respell(step))) for step in path.split(".")))
    )


def _paths(rows: Sequence[Setting], more: Mapping[str, str]) -> dict[str, str | tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for name in (row.name, *row.also) if row.path else ():
            known = found.setdefault(name, {})
            # A place inside another place of the same name does not count.
            if not any(row.path.startswith(f"{path}.") for path in known):
                known[row.path] = None
    paths = {name: (*each,) if len(each) > 1 else next(iter(each)) for name, each in found.items()}
    return {**paths, **more}


def _modelled(rows: Sequence[Setting]) -> Iterator[str]:
    """The places of all settings, except objects of which only parts are settings."""
    for row in rows:
        parts = {each.name for each in rows if each.path.startswith(f"{row.path}.")}
        if row.path and (_is_read(row) or parts <= {row.name}):
            yield row.path


def _compiled(
    rows: Sequence[Setting],
    steps: Mapping[str, tuple[str, ...]],
    respell: Callable[[str], str],
) -> Level:
    """The levels of a table, by the steps of its paths."""
    top = Level(respell)
    named: dict[str, set[str]] = {}
    usual = {row.name: row.path for row in reversed(rows)}
    for setting in filter(_is_read, rows):
        *holders, key = steps[setting.path]
        level = top
        for holder in holders:
            level = level.held(holder)
        names = (setting.name, *setting.also)
        row = Row(key, setting.name, setting.form.types, setting.form.read, names=names)
        row.noted = tuple(
            (name, frozenset(named[name] - {setting.name})) for name in names if name in named
        )
        row.is_later = bool(row.noted)
        if setting.form.older:
            row.older = (setting.name, setting.form.older, usual[setting.name])
        for name in names:
            named.setdefault(name, set()).add(setting.name)
        level.add(row)
    for setting in rows:
        if setting.path and not _is_read(setting):
            top.name(steps[setting.path], (setting.name, *setting.also))
    return top


def _is_read(setting: Setting) -> bool:
    return bool(setting.form.types) or setting.form.read is not None

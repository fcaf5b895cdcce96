"""Translation on shorter ways than through canisters, for bodies that need no repair.

Each way gives None for a body that it cannot take, and then another has its turn; the tests hold all of them against
the general one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

import msgspec

from cannery.dialects import find_dialect
from cannery.errors import DialectError
from cannery.rendering import locate_in, noted, said_alike, write_request
from cannery.wire.cuts import LONG, Runs, cut, mend
from cannery.wire.lazy import loaded
from cannery.wire.losses import CODES, Loss, Notes, Rendered, Report, enforce
from cannery.wire.slices import ODD

# Longer settings seldom come twice.
_LONGEST_SETTINGS = 32_768
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def translate_slices(
    body: bytes, way: tuple[Any, Any], source: str, target: str, policy: str, model: str | None
) -> Rendered | None:
    """A well-behaved body on the shortest way; None for any other."""
    notes: Notes = []
    runs: Runs = ()
    if len(body) > LONG:
        body, runs = cut(body)
    sliced = way[0](body, notes)
    if sliced is None:
        return None
    if model is not None:
        sliced = msgspec.structs.replace(sliced, model=model)
    settings = None
    if sliced.settings is not None:
        settings = _settings(sliced.settings, source, target, model)
        if settings is None or not (sliced.is_ordered or settings.is_plain):
            return None
    try:
        written = way[1](sliced, None if settings is None else settings.fields, notes)
    except ODD:
        return None
    if written is None:
        return None
    if runs:
        written = mend(written, runs)
    if settings is None and not notes:
        return Rendered(written)
    losses = _noted_slices(notes, source, sliced.field)
    if settings is None:
        rendered = Rendered(written, losses)
    else:
        said = settings.said
        rendered = Rendered(written, said.losses + losses, said.repairs, said.aliases.copied())
    enforce(policy, source, target, rendered.losses)
    return rendered


def _noted_slices(notes: Notes, source: str, field: str) -> tuple[Loss, ...]:
    """The losses that notes of the shortest way stand for: of settings, or of messages by their number."""
    if not notes:
        return ()
    about = [note for note in notes if type(note[1]) is str]
    losses: tuple[Loss, ...] = said_alike(tuple(about), source)[0] if about else ()
    if len(about) < len(notes):
        others = [note for note in notes if type(note[1]) is int]
        others.sort(key=itemgetter(1))
        losses += tuple(dict.fromkeys([_of_message(note, field) for note in others]))
    return losses


def _of_message(note: Any, field: str) -> Loss:
    """The loss that a note on one message stands for."""
    code, number, detail, within = note
    severity, meaning = CODES[code]
    return Loss(code, severity, f"{field}[{number}]{within}", detail or meaning)


class _Settings(msgspec.Struct, frozen=True):
    """Settings as a target has them, and what it took; they are plain if the source knows them all."""

    fields: dict[str, msgspec.Raw]
    said: Rendered
    is_plain: bool


def _settings(settings: bytes, source: str, target: str, model: str | None) -> _Settings | None:
    """The settings of a request without messages as a target has them; None if they cannot be read."""
    find = _known_settings if len(settings) <= _LONGEST_SETTINGS else _known_settings.__wrapped__
    return find(settings, source, target, model)


@lru_cache(maxsize=64)
def _known_settings(
    settings: bytes, source: str, target: str, model: str | None
) -> _Settings | None:
    """The same, for settings that come with every request of a client."""
    try:
        request = find_dialect(source).read_request(settings, None)
    except DialectError:
        return None
    if model is not None:
        request = request.replace(model=model)
    locate = partial(locate_in, source, settings, "request")
    writer = find_dialect(target)
    turns: tuple[int, Any] = (0, ())
    said = write_request(request, writer, "allow", (), None, Report(), locate, turns=turns)
    fields = _read_fields(said.body)
    fields.popitem()
    residue = request.residue
    is_plain = residue is None or residue.envelope is None
    return _Settings(fields, said, is_plain)


@lru_cache(maxsize=64)
def ways(source: str, target: str) -> tuple[Any, Any] | None:
    """The shortest way between two dialects: how to read, how to write; None where there is none."""
    read, write = find_dialect(source).read_slices, find_dialect(target).write_slices
    if source == target or read is None or write is None:
        return None
    return loaded(read), loaded(write)


# The plain lane of each pair of dialects: how to read, how to write; None where there is none.
_LANES: dict[tuple[str, str], tuple[Any, Any] | None] = {}


def _lane(source: str, target: str) -> tuple[Any, Any] | None:
    read, write = find_dialect(source).read_plain, find_dialect(target).write_plain
    lane = None
    if source != target and read is not None and write is not None:
        lane = loaded(read), loaded(write)
    _LANES[source, target] = lane
    return lane


def translate_plain(body: bytes, source: str, target: str) -> Rendered | None:
    """A body of nothing but plain turns that need no repair; None for any other."""
    try:
        lane = _LANES[source, target]
    except KeyError:
        lane = _lane(source, target)
    if lane is None:
        return None
    plain = lane[0](body)
    if plain is None:
        return None
    notes: Notes = []
    written = lane[1](plain, notes)
    return None if written is None else noted(written, notes, source, body)


def translate_lines(lines: Sequence[bytes], *, source: str, target: str) -> Rendered | None:
    """Bodies of common shape as the lines of one text; None if one of them is of another.

    The losses hold for each of the bodies. Whoever gets None translates them one by one.
    """
    read, write = find_dialect(source).read_lines, find_dialect(target).write_lines
    if read is None or write is None:
        return None
    notes: Notes = []
    try:
        written = write(read(lines), notes)
    except ODD:
        return None
    return noted(written, notes, source, None)


def translate_line(body: bytes, source: str, target: str, policy: str) -> Rendered | None:
    """A record of common shape that comes alone; None for any other."""
    way = _line_way(source, target)
    if way is None:
        return None
    notes: Notes = []
    request = way[0](body, notes)
    if request is None:
        return None
    try:
        written = way[1]((request,), notes)
    except ODD:
        return None
    rendered = noted(written[:-1], notes, source, body)
    enforce(policy, source, target, rendered.losses)
    return rendered


@lru_cache(maxsize=64)
def _line_way(source: str, target: str) -> tuple[Any, Any] | None:
    """How records of one dialect are read and written in another; None where there is no such way."""
    read, write = find_dialect(source).read_line, find_dialect(target).write_lines
    return None if read is None or write is None else (loaded(read), loaded(write))

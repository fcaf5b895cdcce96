"""The line of a setting in a TOML file: ``tomllib`` gives values without lines, so the lines are searched.

Only usual layouts are searched: table headers, and keys at the start of a line. A value over several lines is found by
its key.
"""

from __future__ import annotations

import re

_HEADER = re.compile(r"\s*(\[\[|\[)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PIECE = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")

Place = tuple[str | int, ...]


def find_lines(text: str) -> dict[Place, int]:
    """The line of each table and key, by its place: names, and positions in arrays of tables."""
    lines: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    here: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            here = _table(header[2], counts, is_array=header[1] == "[[")
            lines.setdefault(here, number)
            continue
        key = _KEY.match(line)
        if key:
            lines.setdefault(here + _pieces(key[1]), number)
    return lines


def line_of(lines: dict[Place, int], place: Place) -> int | None:
    """The line of a place, or of the nearest thing around it."""
    while place:
        if place in lines:
            return lines[place]
        place = place[:-1]
    return None


def _table(name: str, counts: dict[Place, int], *, is_array: bool) -> Place:
    place: Place = ()
    pieces = _pieces(name)
    for piece in pieces[:-1]:
        place = (*place, piece)
        if place in counts:
            place = (*place, counts[place] - 1)
    place = (*place, pieces[-1])
    if is_array:
        counts[place] = counts.get(place, 0) + 1
        return (*place, counts[place] - 1)
    return place


def _pieces(name: str) -> tuple[str, ...]:
    return tuple(piece.strip("\"'") for piece in _PIECE.findall(name))

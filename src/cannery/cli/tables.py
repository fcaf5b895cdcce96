"""Tables: drawn by rich on a terminal, tab-separated lines without a header in a pipe.

Without rich, columns are padded and nothing is truncated to the width of the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cannery.cli.terminal import columns, is_coloured, is_terminal, paint, width

# If the last column would be narrower than this, each row is written as several lines.
_LEAST = 20
# The line width in a pipe, where nothing is truncated.
_WHOLE = 100_000


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: str = "") -> str:
    """Rows under a header; ``numbers`` names the columns that are aligned to the right.

    On a terminal the last column takes the rest of the line.
    """
    if not is_terminal():
        return "\n".join("\t".join(_bare(cell) for cell in row) for row in rows)
    return aligned(header, rows, numbers=numbers)


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: str = "", indent: str = ""
) -> str:
    """The same, always aligned; on a terminal that is too narrow each cell gets a line of its own."""
    shown = [[paint(cell, "bold") for cell in header]] if any(header) else []
    shown += map(list, rows)
    widths = [max(map(columns, column)) for column in zip(*shown, strict=True)]
    right = [name in numbers.split() for name in header]
    room = width() - len(indent) if is_terminal() else _WHOLE
    left = room - sum(widths[:-1]) - 2 * (len(widths) - 1)
    if left >= min(widths[-1], _LEAST):
        return _drawn(shown, [*widths[:-1], min(widths[-1], left)], right, indent)
    names = max(map(columns, header))
    sizes = [names, max(room - names - 2, 1)]
    facts = [_facts(header, row) for row in rows]
    return "\n\n".join(_drawn(each, sizes, [False, False], indent) for each in facts)


def _facts(header: Sequence[str], row: Sequence[str]) -> list[list[str]]:
    """The cells of a row that are not empty, each as a row of name and value."""
    named = zip(header, row, strict=True)
    return [[paint(name, "bold"), cell] for name, cell in named if cell not in ("", "0", "-")]


def _drawn(
    rows: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool], indent: str
) -> str:
    try:
        lines = _fitted(rows, widths, right)
    except ImportError:
        lines = [_padded(row, widths, right) for row in rows]
    return "\n".join((indent + line).rstrip() for line in lines)


def _fitted(
    rows: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]
) -> list[str]:
    """Lines drawn by rich, with each cell truncated to the width of its column."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table.grid(padding=(0, 2))
    for size, is_right in zip(widths, right, strict=True):
        drawn.add_column(justify="right" if is_right else "left", no_wrap=True, width=size)
    for row in rows:
        drawn.add_row(*(Text.from_ansi(_bare(cell), overflow="ellipsis") for cell in row))
    is_painted = is_coloured()
    colours: Any = "standard" if is_painted else None
    console = Console(width=_WHOLE, force_terminal=is_painted, color_system=colours)
    with console.capture() as capture:
        console.print(drawn)
    return capture.get().splitlines()


def _padded(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = []
    for cell, size, is_right in zip(row, widths, right, strict=True):
        padding = " " * (size - columns(cell))
        cells.append(padding + cell if is_right else cell + padding)
    return "  ".join(cells)


def _bare(cell: str) -> str:
    return " ".join(cell.split())

"""Tables: aligned on a terminal, tab-separated lines without a header in a pipe."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.cli.terminal import columns, is_terminal, one_line, paint, width

# The least of the last column that is worth its line.
_LEAST = 20


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: str = "") -> str:
    """Rows under a header; ``numbers`` names the columns that are aligned to the right.

    On a terminal the last column takes what is left of the line.
    """
    if not is_terminal():
        return "\n".join("\t".join(_bare(cell) for cell in row) for row in rows)
    return aligned(header, rows, numbers=numbers)


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: str = "", indent: str = ""
) -> str:
    """The same, always aligned."""
    right = [name in numbers.split() for name in header]
    widths = [max(map(columns, column)) for column in zip(header, *rows, strict=True)]
    left = width() - sum(widths[:-1]) - 2 * (len(widths) - 1) - len(indent)
    if widths:
        if left < min(widths[-1], _LEAST) and is_terminal():
            return "\n\n".join(_stacked(header, row, indent) for row in rows)
        widths[-1] = min(widths[-1], max(left, _LEAST))
    lines = [] if not any(header) else [_line(header, widths, right, indent)]
    lines = [paint(line, "bold") for line in lines]
    lines += [_line(row, widths, right, indent) for row in rows]
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], indent: str) -> str:
    shown = []
    for cell, size, is_right in zip(cells, widths, right, strict=True):
        fitted = cell if columns(cell) <= size else one_line(cell, size)
        padding = " " * (size - columns(fitted))
        shown.append(padding + fitted if is_right else fitted + padding)
    return (indent + "  ".join(shown)).rstrip()


def _stacked(header: Sequence[str], row: Sequence[str], indent: str) -> str:
    """A row that the terminal is too narrow for: a line for each cell that says something."""
    names = max(map(columns, header))
    left = max(width() - len(indent) - names - 2, 1)
    return "\n".join(
        f"{indent}{paint(name.ljust(names), 'bold')}  {one_line(cell, left)}"
        for name, cell in zip(header, row, strict=True)
        if cell not in ("", "0", "-")
    )


def _bare(cell: str) -> str:
    return " ".join(cell.split())


def size(number: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return (
                f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
            )
        number /= 1000
    return f"{number:.1f} TB"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"

"""Plots as small SVG files, written directly so that the same figures give the same bytes.

Bars have a logarithmic scale, because contenders often differ by a factor of ten or a hundred; a red mark is a goal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape
from typing import NamedTuple

WIDTH = 860
LABELS = 300
BAR = 18
OURS = "#2b7a4b"
OTHERS = "#9aa5b1"
INK = "#57606a"


class Bar(NamedTuple):
    """One bar: its label, its value, and whether it is Cannery's."""

    label: str
    value: float
    is_ours: bool = False
    goal: float | None = None


def bars(title: str, unit: str, groups: dict[str, list[Bar]]) -> str:
    """Groups of horizontal bars on one logarithmic scale."""
    values = [bar.value for group in groups.values() for bar in group]
    goals = [bar.goal for group in groups.values() for bar in group if bar.goal]
    if not values:
        return ""
    least, most = min(values + goals) / 1.3, max(values + goals) * 1.15
    room = WIDTH - LABELS - 80

    def place(value: float) -> float:
        return LABELS + room * math.log(value / least) / math.log(most / least)

    parts = [
        _text(4, 18, title, size=15, weight="bold"),
        _text(4, 36, f"{unit}, logarithmic; less is better"),
    ]
    top = 48
    for name, group in groups.items():
        if name:
            parts.append(_text(4, top + 14, name, weight="bold"))
            top += 22
        for bar in sorted(group, key=lambda bar: bar.value):
            right = place(bar.value)
            colour = OURS if bar.is_ours else OTHERS
            parts.append(_text(LABELS - 8, top + 13, bar.label, anchor="end"))
            parts.append(
                f'<rect x="{LABELS}" y="{top}" width="{right - LABELS:.1f}" height="{BAR - 4}" fill="{colour}"/>'
            )
            parts.append(_text(right + 5, top + 12, shown(bar.value)))
            if bar.goal:
                goal = place(bar.goal)
                parts.append(
                    f'<rect x="{goal - 1:.1f}" y="{top - 2}" width="2" height="{BAR}" fill="#c0392b"/>'
                )
            top += BAR
        top += 8
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
        ' font-family="sans-serif" font-size="12">'
    )
    ground = f'<rect width="{WIDTH}" height="{top}" fill="#ffffff"/>'
    return "\n".join([head, ground, *_grid(least, most, place, top), *parts, "</svg>"]) + "\n"


def _grid(least: float, most: float, place: Callable[[float], float], bottom: int) -> Iterator[str]:
    """A thin line at every power of ten."""
    for power in range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1):
        x = place(10.0**power)
        yield f'<rect x="{x:.1f}" y="44" width="1" height="{bottom - 48}" fill="#e4e8ec"/>'
        yield _text(x, 42, f"{10.0**power:g}", anchor="middle", size=10)


def shown(value: float) -> str:
    """A figure with three significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
        f' fill="{INK}">{escape(text)}</text>'
    )

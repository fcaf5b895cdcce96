"""Small plots: bars and a sparkline of days for the terminal, and both as SVG."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from html import escape

from cannery.cli.terminal import harmless, one_line, paint

_LEVELS = "▁▂▃▄▅▆▇█"
_WIDTH = 24
_OPENING = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
    'font-family="sans-serif" font-size="13">'
)


def bars(counts: Mapping[str, int], colours: Mapping[str, str]) -> list[str]:
    """One line per name, with bars in proportion to the counts."""
    if not counts:
        return []
    most = max(counts.values())
    label = max(len(one_line(name, 28)) for name in counts)
    lines = []
    for name, count in counts.items():
        bar = "█" * max(1, round(_WIDTH * count / most)) if count else ""
        shown = f"{one_line(name, 28):{label}}"
        lines.append(f"  {shown}  {count:>9,}  {paint(bar, colours.get(name, 'cyan'))}")
    return lines


def recent_days(by_day: Mapping[str, int], length: int) -> dict[str, int]:
    """The counts of the last ``length`` days up to the last one with a count, including empty days."""
    known = sorted(day for day in by_day if day[:1].isdigit())
    if not known:
        return {}
    last = date.fromisoformat(known[-1])
    days = [(last - timedelta(days=back)).isoformat() for back in range(length - 1, -1, -1)]
    first = max(known[0], days[0])
    return {day: by_day.get(day, 0) for day in days if day >= first}


def sparkline(values: Mapping[str, int]) -> str:
    """One character per day."""
    most = max(values.values(), default=0) or 1
    return "".join(_LEVELS[-(-count * 7 // most)] if count else " " for count in values.values())


def svg(title: str, days: Mapping[str, int], roles: Mapping[str, int]) -> str:
    """Messages per day as columns, messages per role as bars below."""
    width, height, top = 640, 120, 40
    step = width / max(len(days), 1)
    most = max(days.values(), default=0) or 1
    columns = [
        f'<rect x="{20 + index * step:.1f}" y="{top + height - height * count / most:.1f}" '
        f'width="{max(step - 1, 1):.1f}" height="{height * count / most:.1f}" fill="#1b8fb3">'
        f"<title>{escape(day)}: {count}</title></rect>"
        for index, (day, count) in enumerate(days.items())
    ]
    largest, y = max(roles.values(), default=0) or 1, top + height + 50
    rows = []
    for index, (role, count) in enumerate(roles.items()):
        line = y + index * 22
        rows.append(f'<text x="20" y="{line + 12}">{escape(harmless(role))}</text>')
        length = 400 * count / largest
        rows.append(f'<rect x="130" y="{line}" width="{length:.1f}" height="15" fill="#c98a00"/>')
        rows.append(f'<text x="{140 + length:.1f}" y="{line + 12}">{count:,}</text>')
    span = " – ".join(dict.fromkeys([*list(days)[:1], *list(days)[-1:]]))
    return "\n".join(
        [
            _OPENING.format(width=width + 40, height=y + 22 * len(roles) + 10),
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="20" y="22" font-size="16">{escape(harmless(title))}</text>',
            *columns,
            f'<text x="20" y="{top + height + 18}">{escape(span)}</text>',
            *rows,
            "</svg>\n",
        ]
    )

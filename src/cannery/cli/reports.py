"""Losses and repairs as text and as JSON values."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from cannery.cli.terminal import SEVERITY_COLOURS, columns, harmless, paint
from cannery.wire.losses import Loss, Rendered, Repair, real_losses

_MOST = 40


def as_data(rendered: Rendered) -> dict[str, Any]:
    """Losses and repairs as JSON values."""
    return {
        "losses": [loss_data(loss) for loss in rendered.losses],
        "repairs": [
            {"name": repair.name, "path": repair.path, "detail": repair.detail}
            for repair in rendered.repairs
        ],
    }


def loss_data(loss: Loss) -> dict[str, str]:
    """A loss as a JSON object."""
    return {
        "code": loss.code,
        "severity": loss.severity,
        "path": loss.path,
        "detail": loss.detail,
    }


def summary(losses: int, repairs: int) -> str:
    """The numbers of losses and repairs, as text."""
    from cannery.wording import counted

    parts = [counted(losses, "loss", "losses")] if losses else []
    parts += [counted(repairs, "repair")] if repairs else []
    return ", ".join(parts) or "nothing lost"


def describe(losses: Sequence[Loss], repairs: Sequence[Repair], *, stream: Any = None) -> str:
    """One line for each, the most severe first."""
    order = list(SEVERITY_COLOURS)
    ranked = sorted(losses, key=lambda loss: -order.index(loss.severity))
    rows = [(loss.severity, loss.code, loss.path, loss.detail) for loss in ranked]
    rows += [("repair", repair.name, repair.path, repair.detail) for repair in repairs]
    return "\n".join(_lines(rows, stream or sys.stderr))


def _lines(rows: list[tuple[str, str, str, str]], stream: Any) -> Iterable[str]:
    if not rows:
        return
    code_width = max(columns(code) for _, code, _, _ in rows)
    path_width = min(max(columns(path) for _, _, path, _ in rows), 36)
    for severity, code, path, detail in rows[:_MOST]:
        colour = SEVERITY_COLOURS.get(severity, "blue")
        name = paint(f"{severity:8}", colour, stream=stream)
        yield f"  {name}  {code:{code_width}}  {harmless(path):{path_width}}  {harmless(detail)}"
    if len(rows) > _MOST:
        yield f"  … and {len(rows) - _MOST} more (--losses FILE has all of them)"


def describe_either(everything: Sequence[tuple[str, Sequence[Loss], Sequence[Repair]]]) -> str:
    """A count of losses and repairs, then the list: complete for one conversation, counted by code for several."""
    losses = sum(len(real_losses(each[1])) for each in everything)
    repairs = sum(len(each[2]) for each in everything)
    if len(everything) > 1:
        from cannery.wording import counted

        told = describe_many(everything)
        head = f"{counted(len(everything), 'conversation')}, {summary(losses, repairs)}"
    else:
        told = describe(everything[0][1], everything[0][2]) if everything else ""
        head = summary(losses, repairs)
    return f"{head}\n{told}".rstrip()


def describe_many(
    everything: Iterable[tuple[str, Sequence[Loss], Sequence[Repair]]],
) -> str:
    """Losses and repairs of several conversations by code: how often, and the first place."""
    counts: dict[tuple[str, str], list[str]] = {}
    for name, losses, repairs in everything:
        for loss in losses:
            counts.setdefault((loss.severity, loss.code), []).append(f"{name}, {loss.path}")
        for repair in repairs:
            counts.setdefault(("repair", repair.name), []).append(f"{name}, {repair.path}")
    return "\n".join(
        f"  {severity:8}  {code}: {len(places):,}, first in {harmless(places[0])}"
        for (severity, code), places in sorted(counts.items())
    )

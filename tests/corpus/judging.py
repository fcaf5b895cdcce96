"""What every judge of the corpus shares: the known failures, and how a verdict is told.

A judge gives the problems of one item, as sentences. Our own errors are fine for what was written by hand, and
a problem for what a real server took; any other exception always is one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from cannery.dialects import dialect_names
from cannery.errors import CanneryError
from tests.corpus.items import Item
from tests.oracles.leaf_walkers import WALKERS

Judge = Callable[[Item], list[str]]

DIALECTS = tuple(name for name in dialect_names() if (name in WALKERS))
PAIRS = [(source, target) for source in DIALECTS for target in DIALECTS if source != target]

# promise -> item, or item and target -> why it fails today. An entry that no longer fails must be removed.
KNOWN: dict[str, dict[str, str]] = {
    "same dialect": {},
    "other dialects": {},
    "streams": {},
    "folded streams": {},
    "translated streams": {},
    "folded envelopes": {},
    "same dialect envelopes": {},
    "spoiled items": {},
    "archive": {},
}


def judged(item: Item, judge: Judge) -> list[str]:
    """The problems of one item, exceptions among them."""
    try:
        return judge(item)
    except CanneryError as error:
        return [f"refused: {error}"] if item.is_taken else []
    except Exception as error:  # noqa: BLE001 - which errors there are is what is judged
        return [f"{type(error).__name__}: {error}"]


def check(
    promise: str,
    items: Iterable[Item],
    judge: Judge,
    record: Callable[..., None],
    target: str = "",
) -> None:
    """Judge all items; whatever fails must be known, and what is known must fail."""
    known = KNOWN[promise]
    problems = {item.name: judged(item, judge) for item in items}
    failed = {name for name, found in problems.items() if found}
    expected = {name for name in problems if name in known or f"{name} {target}" in known}
    record("corpus", [promise, len(problems) - len(failed), len(problems)])
    new = {name: problems[name][:5] for name in failed - expected}
    assert not new, f"{promise}: {json.dumps(new, indent=1)}"
    mended = ", ".join(expected - failed)
    assert not mended, f"{promise}: no longer failing, remove from KNOWN: {mended}"


def spelled(value: Any) -> str:
    """A JSON value as text that tells true from 1 and 1 from 1.0, and ignores the order of keys."""
    return json.dumps(value, sort_keys=True)

"""Spoiled items: a recorded body with a few changes comes back to the letter or is refused; nothing else is raised."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

import cannery
from tests.corpus.items import PARTS, Corpus, Item
from tests.corpus.judging import DIALECTS, check, spelled
from tests.strategies.mutations import spoil

CELLS = [(dialect, kind) for dialect in DIALECTS for kind in ("request", "response")]
LARGEST = 30_000


def spoiled(item: Item) -> bytes:
    """The same few changes of an item in every run."""
    chance = random.Random(item.name)
    body = item.body

    def draw(strategy: Any) -> Any:
        return chance.choice(strategy.elements)

    for _ in range(chance.randint(1, 4)):
        spoil(draw, body, item.body)
    return json.dumps(body).encode()


def judge(item: Item) -> list[str]:
    raw = spoiled(item)
    try:
        if item.kind == "request":
            request = cannery.normalize_request(raw, item.dialect)
            rendered = cannery.nativize_request(request, item.dialect)
        else:
            response = cannery.normalize_response(raw, item.dialect)
            rendered = cannery.nativize_response(response, item.dialect)
    except cannery.CanneryError:
        return []
    problems = [f"loss: {loss}" for loss in rendered.losses]
    if spelled(json.loads(rendered.body)) != spelled(json.loads(raw)):
        problems.append(f"{raw[:300]!r} became {rendered.body[:300]!r}")
    for target in DIALECTS:
        try:
            cannery.translate(
                raw, source=item.dialect, target=target, kind=item.kind, policy="allow"
            )
        except cannery.CanneryError:
            continue
    return problems


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dialect, kind", CELLS)
def test_a_spoiled_body_comes_back_or_is_refused(
    dialect: str, kind: str, part: int, corpus: Corpus, record_property: Callable[..., None]
):
    items = [
        item
        for item in corpus.items(dialect, kind, part)
        if item.path.stat().st_size < LARGEST and isinstance(item.body, dict)
    ]
    check("spoiled items", items, judge, record_property)

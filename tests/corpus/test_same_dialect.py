"""Same dialect: what was read is written as the same JSON value, also after it was stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import cannery
from cannery.dialects import dialect_names
from tests.corpus.items import PARTS, Corpus, Item
from tests.corpus.judging import check, spelled

CELLS = [(dialect, kind) for dialect in dialect_names() for kind in ("request", "response")]


def written(item: Item) -> cannery.Rendered:
    if item.kind == "request":
        return cannery.nativize_request(
            cannery.normalize_request(item.data, item.dialect), item.dialect
        )
    return cannery.nativize_response(
        cannery.normalize_response(item.data, item.dialect), item.dialect
    )


def differs(item: Item, rendered: cannery.Rendered) -> list[str]:
    problems = []
    if spelled(json.loads(rendered.body)) != spelled(item.body):
        problems.append(f"another value: {rendered.body[:200]!r}")
    problems += [f"loss: {loss}" for loss in rendered.losses]
    return problems + [f"repair: {repair}" for repair in rendered.repairs]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dialect, kind", CELLS)
def test_a_body_comes_back(
    dialect: str, kind: str, part: int, corpus: Corpus, record_property: Callable[..., None]
):
    items = corpus.items(dialect, kind, part)
    check("same dialect", items, lambda item: differs(item, written(item)), record_property)


@pytest.mark.parametrize("dialect", dialect_names())
def test_a_stored_conversation_comes_back(
    dialect: str, corpus: Corpus, tmp_path: Path, record_property: Callable[..., None]
):
    with cannery.open_store(tmp_path / "store") as store:

        def judge(item: Item) -> list[str]:
            request = cannery.normalize_request(item.data, dialect)
            if not request.conversation:
                return []
            kept = store.create(canisters=request.conversation)
            loaded = request.replace(conversation=store.get(kept.identifier).hydrate())
            return differs(item, cannery.nativize_request(loaded, dialect))

        sample = [item for item in corpus.items(dialect, "request") if item.is_one_in(8)]
        check("same dialect", sample, judge, record_property)

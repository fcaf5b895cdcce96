"""An archive: what any dialect says is in the attributes of OpenTelemetry, and comes back out of them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import cannery
from cannery.dialects import dialect_names, find_dialect
from tests.corpus.items import Corpus, Item
from tests.corpus.judging import check, spelled
from tests.dialects.otel_genai.schema import problems

ARCHIVE = "otel_genai"
CELLS = [
    (dialect, kind)
    for dialect in dialect_names()
    for kind in ("request", "response")
    if find_dialect(dialect).routes
]


def judge(item: Item) -> list[str]:
    how = {"source": item.dialect, "target": ARCHIVE, "kind": item.kind, "policy": "allow"}
    try:
        rendered = cannery.translate(item.data, **how)
    except cannery.EmptyConversationError:
        return []
    kept = getattr(cannery, f"normalize_{item.kind}")(rendered.body, ARCHIVE)
    again = getattr(cannery, f"nativize_{item.kind}")(kept, item.dialect)
    found = [f"schema: {problem}" for problem in problems(json.loads(rendered.body))]
    found += [f"loss: {loss}" for loss in rendered.losses]
    if spelled(json.loads(again.body)) != spelled(item.body):
        found.append(f"another value: {again.body[:200]!r}")
    return found


@pytest.mark.parametrize("dialect, kind", CELLS)
def test_a_body_comes_back_from_the_archive(
    dialect: str, kind: str, corpus: Corpus, record_property: Callable[..., None]
):
    check("archive", corpus.items(dialect, kind), judge, record_property)

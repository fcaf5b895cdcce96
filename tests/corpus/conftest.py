"""The corpus, unpacked once in each process; without it every test here is skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.corpus.items import SHARED, VARIABLE, Corpus, find_corpus, open_corpus


@pytest.fixture(scope="session")
def corpus() -> Iterator[Corpus]:
    """The recorded bodies."""
    path = find_corpus()
    if path is None:
        pytest.skip(
            f"no corpus: {VARIABLE} is not set and {SHARED.name}/corpus.tar.xz is not there"
        )
    with open_corpus(path) as opened:
        yield opened

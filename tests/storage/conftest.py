"""Stores to test with: in memory, and in a directory."""

import pytest

from cannery.storage import open_store


@pytest.fixture(params=["directory", "memory"])
def store(request, tmp_path):
    location = "memory:" if request.param == "memory" else tmp_path / "store"
    with open_store(location) as opened:
        yield opened


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"

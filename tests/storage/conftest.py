"""Stores to test with, of every backend.

What must survive the loss of power is tested on a simulated disk; the other tests keep their files in memory, where a
sync costs nothing. ``CANNERY_TEST_FOLDER`` names another place.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from cannery.storage import open_store
from tests.locations import new_database

_MEMORY = "/dev/shm"  # noqa: S108 - a folder of our own is made in it
_ROOM = 1 << 30


def _place():
    place = os.environ.get("CANNERY_TEST_FOLDER")
    if place is None and Path(_MEMORY).is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM:
        place = _MEMORY
    return place


@pytest.fixture
def tmp_path():
    folder = tempfile.mkdtemp(prefix="cannery-", dir=_place())
    yield Path(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def module_path():
    folder = tempfile.mkdtemp(prefix="cannery-", dir=_place())
    yield Path(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["directory", "postgresql", "sqlite"])
def location(request, tmp_path):
    """Where a store may lie, of every backend that several processes can use."""
    if request.param == "postgresql":
        return new_database()
    return f"sqlite:{tmp_path}/store.sqlite" if request.param == "sqlite" else f"{tmp_path}/store"


@pytest.fixture
def store(location):
    with open_store(location) as opened:
        yield opened


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"

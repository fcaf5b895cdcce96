"""One upstream and one gateway for all tests that do not need their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .running import Running, rows
from .upstream import Upstream


@pytest.fixture(scope="session")
def upstream() -> Iterator[Upstream]:
    running = Upstream()
    yield running
    running.close()


@pytest.fixture(scope="session")
def gateway(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("gateway")
    limits = "[limits]\nbody_bytes = 5000000\n\n"
    running = Running(folder, limits + rows(upstream.url))
    yield running
    assert running.stop() == 0

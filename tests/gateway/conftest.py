"""One upstream and one gateway for all tests that do not need their own, and no HTTP client left open by a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
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


@pytest.fixture(autouse=True)
def _clients_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the HTTP clients of SDKs after the test that made them.

    A stored exception keeps its client alive, so that the garbage collector would find the open socket during some
    later test and fail that one.
    """
    made: list[Any] = []

    def recording(initialize: Any) -> Any:
        def recorded(client: Any, *positional: Any, **named: Any) -> None:
            initialize(client, *positional, **named)
            made.append(client)

        return recorded

    for library in (httpx, httpx2):
        monkeypatch.setattr(library.Client, "__init__", recording(library.Client.__init__))
    yield
    for client in made:
        client.close()

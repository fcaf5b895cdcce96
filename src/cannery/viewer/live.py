"""Answers that are being streamed, as the viewer reads them.

The server of the viewer provides the running exchanges; without an open page it stores and copies nothing. An open page
receives the text added since its last update (``live_updates``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from cannery.messages import AnyCanister
from cannery.storage import Store


class Begun(Struct, frozen=True):
    """An exchange in progress; ``identifier`` is "" until its conversation is known."""

    request: str
    identifier: str = ""
    title: str = ""
    model: str = ""
    client: str = ""
    key: str = ""


class Running(Protocol):
    """The exchanges in progress."""

    def begun(self) -> Sequence[Begun]:
        """All of them, newest first, including those without any answer yet."""

    def identifiers(self) -> Sequence[str]:
        """The conversations with an exchange in progress, newest first."""

    def asked(self, identifier: str) -> Sequence[AnyCanister] | None:
        """The messages of a request that is not yet filed; None if no exchange is in progress."""

    def said(self, identifier: str) -> Sequence[AnyCanister]:
        """The answer received so far."""


class NothingRuns:
    """A ``Running`` without exchanges."""

    def begun(self) -> Sequence[Begun]:
        """Empty."""
        return ()

    def identifiers(self) -> Sequence[str]:
        """Empty."""
        return ()

    def asked(self, identifier: str) -> Sequence[AnyCanister] | None:  # noqa: ARG002 - the protocol's signature
        """None."""
        return None

    def said(self, identifier: str) -> Sequence[AnyCanister]:  # noqa: ARG002 - the protocol's signature
        """Empty."""
        return ()


NOTHING_RUNS = NothingRuns()


def newest_of(store: Store, running: Running) -> str:
    """A value that changes when the top of the list changes."""
    latest = store.list(limit=1)
    top = f"{latest[0].cursor} {latest[0].count}" if latest else ""
    return " ".join([top, *(f"{each.request}/{each.identifier}" for each in running.begun())])

"""Answers that are being given now, as the viewer sees them.

Who serves the viewer says what runs; nothing is kept for it and nothing is copied while no page is open. A page that
looks asks again every moment and is sent what has come since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from cannery.messages import AnyCanister
from cannery.storage import Store


class Begun(Struct, frozen=True):
    """An exchange under way; ``identifier`` is "" until it is known which conversation it belongs to."""

    request: str
    identifier: str = ""
    title: str = ""
    model: str = ""
    client: str = ""
    key: str = ""


class Running(Protocol):
    """The exchanges under way."""

    def begun(self) -> Sequence[Begun]:
        """All of them, the latest first, also those of which nothing has come yet."""

    def identifiers(self) -> Sequence[str]:
        """The conversations in which something is being said, the latest first."""

    def asked(self, identifier: str) -> Sequence[AnyCanister] | None:
        """What was asked in a conversation and is not filed yet; None if nothing runs there."""

    def said(self, identifier: str) -> Sequence[AnyCanister]:
        """What has come of the answer."""


class NothingRuns:
    """No exchange is under way here."""

    def begun(self) -> Sequence[Begun]:
        """None."""
        return ()

    def identifiers(self) -> Sequence[str]:
        """None."""
        return ()

    def asked(self, identifier: str) -> Sequence[AnyCanister] | None:  # noqa: ARG002 - the same for all
        """Nothing."""
        return None

    def said(self, identifier: str) -> Sequence[AnyCanister]:  # noqa: ARG002 - the same for all
        """Nothing."""
        return ()


NOTHING_RUNS = NothingRuns()


def newest_of(store: Store, running: Running) -> str:
    """What stands at the top of the list: another text when that changes."""
    latest = store.list(limit=1)
    top = f"{latest[0].cursor} {latest[0].count}" if latest else ""
    return " ".join([top, *(f"{each.request}/{each.identifier}" for each in running.begun())])

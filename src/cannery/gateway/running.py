"""The active exchanges, for pages that show their conversations.

A streamed answer is folded for the record anyway; a page reads its current state from there. Nothing is copied, and an
exchange that no page shows costs only a table entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cannery.gateway.entries import Entry
from cannery.messages import AnyCanister, Folder
from cannery.titles import title_of
from cannery.viewer.live import Begun


class _Underway(NamedTuple):
    entry: Entry
    folder: Folder


class Running:
    """The active exchanges, by conversation."""

    def __init__(self) -> None:
        self._underway: dict[str, _Underway] = {}
        self._begun: dict[Entry, None] = {}

    def begin(self, entry: Entry) -> None:
        """Add an exchange that is sent to an upstream."""
        self._begun[entry] = None

    def end(self, entry: Entry) -> None:
        """Forget it."""
        self._begun.pop(entry, None)

    def enter(self, identifier: str, entry: Entry, folder: Folder) -> None:
        """Add an exchange whose answer begins."""
        self._underway[identifier] = _Underway(entry, folder)

    def leave(self, identifier: str, entry: Entry) -> None:
        """Forget it."""
        found = self._underway.get(identifier)
        if found is not None and found.entry is entry:
            del self._underway[identifier]

    def within(self, scope: str | None) -> RunningWithin:
        """The part that a scope may see; None for everything."""
        return RunningWithin(self._underway, self._begun, scope)


class RunningWithin:
    """The active exchanges of one scope."""

    def __init__(
        self, underway: dict[str, _Underway], begun: dict[Entry, None], scope: str | None
    ) -> None:
        self._underway = underway
        self._begun = begun
        self._scope = scope

    def begun(self) -> list[Begun]:
        """All of them, newest first, as far as their requests are parsed."""
        return [
            _described(entry)
            for entry in reversed(list(self._begun))
            if not entry.identity.is_side and self._scope in {None, entry.scope}
        ]

    def _find(self, identifier: str) -> _Underway | None:
        found = self._underway.get(identifier)
        if found is None or (self._scope is not None and found.entry.scope != self._scope):
            return None
        return found

    def identifiers(self) -> list[str]:
        """The conversations with an active answer, newest first."""
        return [name for name in reversed(list(self._underway)) if self._find(name) is not None]

    def asked(self, identifier: str) -> Sequence[AnyCanister] | None:
        """The request that is not filed yet; None if there is no active exchange."""
        found = self._find(identifier)
        if found is None or found.entry.request is None or found.entry.plan is None:
            return None
        return found.entry.request.conversation[found.entry.plan.known :]

    def said(self, identifier: str) -> Sequence[AnyCanister]:
        """The answer so far."""
        found = self._find(identifier)
        return () if found is None else found.folder.response().canisters


def _described(entry: Entry) -> Begun:
    asked = () if entry.request is None else entry.request.conversation
    plan = entry.plan
    return Begun(
        entry.request_id,
        "" if plan is None else plan.identifier,
        title_of(asked),
        entry.model() or "",
        entry.identity.client,
        entry.scope or "",
    )

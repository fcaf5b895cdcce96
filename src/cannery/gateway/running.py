"""The exchanges under way, for pages that show their conversations.

A streamed answer is folded for the record anyway; what has come of it is read from there when somebody asks. Nothing is
copied, and an exchange that no page shows costs an entry in a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cannery.gateway.entries import Entry
from cannery.messages import AnyCanister, Folder


class _Underway(NamedTuple):
    entry: Entry
    folder: Folder


class Running:
    """What is being answered now, by conversation."""

    def __init__(self) -> None:
        self._underway: dict[str, _Underway] = {}

    def enter(self, identifier: str, entry: Entry, folder: Folder) -> None:
        """Note an exchange that begins to be answered."""
        self._underway[identifier] = _Underway(entry, folder)

    def leave(self, identifier: str, entry: Entry) -> None:
        """Forget it."""
        found = self._underway.get(identifier)
        if found is not None and found.entry is entry:
            del self._underway[identifier]

    def within(self, scope: str | None) -> RunningWithin:
        """What a scope may see of it; None for everything."""
        return RunningWithin(self._underway, scope)


class RunningWithin:
    """The exchanges of one scope that are under way."""

    def __init__(self, underway: dict[str, _Underway], scope: str | None) -> None:
        self._underway = underway
        self._scope = scope

    def _find(self, identifier: str) -> _Underway | None:
        found = self._underway.get(identifier)
        if found is None or (self._scope is not None and found.entry.scope != self._scope):
            return None
        return found

    def identifiers(self) -> list[str]:
        """The conversations in which something is being said, the latest first."""
        return [name for name in reversed(list(self._underway)) if self._find(name) is not None]

    def asked(self, identifier: str) -> Sequence[AnyCanister] | None:
        """What was asked and is not filed yet; None if nothing runs there."""
        found = self._find(identifier)
        if found is None or found.entry.request is None or found.entry.plan is None:
            return None
        return found.entry.request.conversation[found.entry.plan.known :]

    def said(self, identifier: str) -> Sequence[AnyCanister]:
        """What has come of the answer."""
        found = self._find(identifier)
        return () if found is None else found.folder.response().canisters

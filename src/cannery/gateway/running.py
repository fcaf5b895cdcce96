"""The exchanges under way, for pages that show their conversations.

A streamed answer is folded for the record anyway; what has come of it is read from there when somebody asks. Nothing is
copied, and an exchange that no page shows costs an entry in a table.
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
    """What is being answered now, by conversation."""

    def __init__(self) -> None:
        self._underway: dict[str, _Underway] = {}
        self._begun: dict[Entry, None] = {}

    def begin(self, entry: Entry) -> None:
        """Note an exchange that is asked of an upstream."""
        self._begun[entry] = None

    def end(self, entry: Entry) -> None:
        """Forget it."""
        self._begun.pop(entry, None)

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
        return RunningWithin(self._underway, self._begun, scope)


class RunningWithin:
    """The exchanges of one scope that are under way."""

    def __init__(
        self, underway: dict[str, _Underway], begun: dict[Entry, None], scope: str | None
    ) -> None:
        self._underway = underway
        self._begun = begun
        self._scope = scope

    def begun(self) -> list[Begun]:
        """All of them, the latest first, as far as they are read."""
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

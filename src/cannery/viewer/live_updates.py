"""Updates of an open page: the answer that is streamed, and notices of new messages.

A follower stores the state of its page. It is polled more often while an answer is streamed, and queries the store at
most once a second; the size of an update is limited, and the page loads filed messages in the same way as any other
messages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Protocol

from cannery.errors import CanneryError, InputError
from cannery.messages import AnyCanister, InvocationCanisterClass, ReasoningContentClass
from cannery.viewer.answers import Asked
from cannery.viewer.live import newest_of
from cannery.viewer.pages.conversation import number
from cannery.viewer.visible import visible
from cannery.wording import message_text

_RUNNING_SECONDS = 0.1
_IDLE_SECONDS = 0.5
_LOOK_SECONDS = 1.0
_MOST_AT_ONCE = 64 << 10
_MOST_IN_ALL = 2 << 20

Event = tuple[str, Any]


class Watcher(Protocol):
    """A source of events for a page."""

    pause: float

    def said(self) -> Iterator[Event]:
        """New text of the running answer; called on the thread that folds answers."""

    def is_due(self) -> bool:
        """Whether to query the store again."""

    def look(self) -> list[Event]:
        """The changes in the store."""


class Follower:
    """Follows a conversation, or the list of conversations."""

    def __init__(self, asked: Asked) -> None:
        parts = [part for part in asked.path.split("/") if part]
        match parts:
            case ["events"]:
                self._identifier = ""
            case ["c", name, "events"]:
                if asked.running.asked(name) is None:
                    asked.store.metadata_of(name)
                self._identifier = name
            case _:
                raise InputError(f"there are no events at {asked.path[:100]}")
        self._store = asked.store
        self._running = asked.running
        self._length = number(asked.query, "from") or 0
        self._seen = asked.query.get("seen", "") if not self._identifier else ""
        self._sent: list[int] = []
        self._total = 0
        self._is_running = False
        self._due = 0.0
        self.pause = _IDLE_SECONDS

    def is_due(self) -> bool:
        """Whether to query the store again."""
        return time.monotonic() >= self._due

    def said(self) -> Iterator[Event]:
        """The text of a running answer since the last call."""
        asked = self._running.asked(self._identifier) if self._identifier else None
        if asked is None:
            if self._is_running:
                # It will be filed at any moment.
                self._is_running, self._sent, self._due = False, [], 0.0
            self.pause = _IDLE_SECONDS
            return
        self._is_running = True
        self.pause = _RUNNING_SECONDS
        try:
            parts = list(self._parts([*asked, *self._running.said(self._identifier)]))
        except CanneryError:
            return
        if parts:
            yield "said", {"parts": parts}

    def _parts(self, canisters: list[AnyCanister]) -> Iterator[dict[str, Any]]:
        """The new text of each message."""
        for index, canister in enumerate(canisters):
            if index == len(self._sent):
                self._sent.append(0)
            start = self._sent[index]
            text = _live_text(canister)[start : start + _MOST_AT_ONCE]
            if not text or self._total > _MOST_IN_ALL:
                continue
            self._sent[index] += len(text)
            self._total += len(text)
            kind, title = _heading(canister)
            yield {
                "index": index,
                "kind": kind,
                "title": title,
                "from": start,
                "text": visible(text),
            }

    def look(self) -> list[Event]:
        """The changes in the store."""
        self._due = time.monotonic() + _LOOK_SECONDS
        try:
            return self._look()
        except CanneryError:
            # It was deleted, or the store is unavailable; the page does not change.
            return []

    def _look(self) -> list[Event]:
        if not self._identifier:
            newest = newest_of(self._store, self._running)
            if newest == self._seen:
                return []
            self._seen = newest
            return [("changed", {})]
        length = len(self._store.handle(self._identifier))
        if length <= self._length:
            return []
        self._length, self._total = length, 0
        return [("filed", {"length": length})]


def _live_text(canister: AnyCanister) -> str:
    return (
        canister.arguments_text
        if isinstance(canister, InvocationCanisterClass)
        else message_text(canister)
    )


def _heading(canister: AnyCanister) -> tuple[str, str]:
    if isinstance(canister, InvocationCanisterClass):
        return "invocation", visible(canister.name)
    if isinstance(canister.held, ReasoningContentClass):
        return "reasoning", "Thinking"
    return canister.role.value, canister.role.value.capitalize()

"""Retention: deletes conversations that are unchanged for longer than their scope keeps them.

The time of the last change counts: a message, a title, a tag. A conversation that changes meanwhile stays, because its
deletion requires the listed state. Its title and tags are deleted with it; lines that living forks share stay until the
last of these is deleted, as after any deletion. gc then frees the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from cannery.backends import Change, Selection, Summary, check_name
from cannery.errors import ConflictError, ConversationNotFoundError, InputError

if TYPE_CHECKING:
    from cannery.storage.store import Store

_PAGE = 200
_MOST_DAYS = 365_000


class KeepDays(Struct, frozen=True):
    """How many days conversations are kept: those of some scopes, and all others; None or 0 keeps them forever."""

    others: float | None = None
    scopes: Mapping[str, float | None] = {}

    def of(self, scope: str) -> float | None:
        """The days of one scope."""
        return self.scopes.get(scope, self.others) or None

    def __bool__(self) -> bool:
        return bool(self.others) or any(self.scopes.values())


class Expired(Struct, frozen=True):
    """A conversation that was or would be deleted: its scope, its last change, and the scope's number of days."""

    identifier: str
    scope: str
    updated: datetime
    keep_days: float


def check_days(keep: KeepDays) -> KeepDays:
    """Refuse an invalid number of days."""
    for days in (keep.others, *keep.scopes.values()):
        if days is not None and not 0 <= days <= _MOST_DAYS:
            raise InputError(f"keep_days is a number of days from 0 to {_MOST_DAYS}, not {days}")
    for scope in keep.scopes:
        check_name(scope, "scope")
    return keep


def expire(
    store: Store,
    keep: KeepDays,
    *,
    now: datetime | None = None,
    dry_run: bool = False,
    told: Callable[[Expired], object] = lambda _: None,
) -> tuple[Expired, ...]:
    """Delete conversations older than their scope keeps them, or only list them; ``told`` is called for each."""
    check_days(keep)
    now = now or datetime.now(UTC)
    found: list[Expired] = []
    for expired, count in _expired(store, keep, now):
        if dry_run or _delete(store, expired, count):
            found.append(expired)
            told(expired)
    return tuple(found)


def _expired(store: Store, keep: KeepDays, now: datetime) -> Iterator[tuple[Expired, int]]:
    for scope in sorted(keep.scopes):
        days = keep.of(scope)
        if days and store.scope in {None, scope}:
            for summary in _older(store, scope, now - timedelta(days=days)):
                yield Expired(summary.identifier, scope, summary.updated, days), summary.count
    if keep.others:
        for summary in _older(store, store.scope, now - timedelta(days=keep.others)):
            if summary.scope not in keep.scopes:
                expired = Expired(summary.identifier, summary.scope, summary.updated, keep.others)
                yield expired, summary.count


def _older(store: Store, scope: str | None, until: datetime) -> Iterator[Summary]:
    """The conversations last changed before a time."""
    after = None
    selection = Selection(scope=scope, until=until)
    while page := store.backend.catalogue.list(selection, after, _PAGE):
        yield from page
        after = page[-1].cursor


def _delete(store: Store, expired: Expired, count: int) -> bool:
    """Delete a conversation, unless it has changed since it was listed."""
    try:
        raw, metadata = store.current(expired.identifier)
        changed = metadata.changed(title="", tags=(), other_titles=())
        store.commit(
            Change(
                identifier=metadata.id,
                requires={metadata.id: raw},
                metadata=msgspec.structs.replace(changed, deleted=changed.updated),
                base=metadata.position,
                expected=count,
                scope=metadata.scope,
                session=metadata.session,
            )
        )
    except (ConflictError, ConversationNotFoundError):
        return False
    return True

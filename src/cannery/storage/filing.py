"""Filing several histories at once: one look-up, one change log entry each, one sync for all.

Histories of which one may go on from another are filed one after the other. What is not simply a new conversation or
more of a known one (a fork, or a plan that others have overtaken) is filed alone; what is known is only looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, UnsetType

from cannery.backends import Change, Receipt
from cannery.errors import CanneryError, ConflictError, ConversationNotFoundError
from cannery.messages import AnyCanister, Conversation, prefix_digests
from cannery.storage.history import without_setup
from cannery.storage.metadata import new_metadata
from cannery.storage.recent import Write
from cannery.storage.recognition import Filed, Match, file_history, match_histories, rest_of

if TYPE_CHECKING:
    from cannery.storage.store import Store


_NOTHING = Conversation()


class Filing(Struct, frozen=True):
    """A history to be filed, the facts of a conversation that is made for it, and where it goes on if that is known.

    ``match`` is what ``Store.match`` would find; None if nothing of the history is stored. With ``is_exact`` it is
    filed there or not at all: a ConflictError or ConversationNotFoundError says that it does not fit.
    """

    history: Iterable[AnyCanister]
    title: str = ""
    tags: tuple[str, ...] = ()
    model: str | None = None
    identifier: str | None = None
    match: Match | UnsetType | None = UNSET
    is_exact: bool = False
    created: datetime | None = None


class _Work:
    """A filing on its way."""

    __slots__ = ("digests", "filing", "history", "looks_for", "match", "outcome", "says", "write")

    def __init__(self, filing: Filing) -> None:
        self.filing = filing
        self.match = filing.match
        self.history = _NOTHING
        self.digests: Sequence[bytes | None] = ()
        # Of one batch nobody may look for what somebody before him says.
        self.says: set[object] = set() if filing.identifier is None else {filing.identifier}
        self.looks_for = set(self.says)
        self.write: Write | None = None
        self.outcome: Filed | CanneryError | None = None
        history = filing.history
        try:
            self.history = history if type(history) is Conversation else Conversation(history)
        except CanneryError as error:
            self.outcome = error
            return
        if self.match is UNSET:
            digests = list(prefix_digests(self.history, reasoning=False))
            self.digests = without_setup(self.history, digests)
            self.says.update(digests)
            self.looks_for.update(self.digests, (UNSET,))
            self.looks_for.discard(None)
        else:
            # What it says is known only where it lies.
            self.says.add(UNSET)
            if self.match is not None:
                self.looks_for.add(self.match.identifier)
                if self.match.is_at_end:
                    self.says.add(self.match.identifier)


def file_many(
    store: Store, filings: Iterable[Filing | Iterable[AnyCanister]]
) -> tuple[Filed | CanneryError, ...]:
    """File histories in order; for each where it is, or what is wrong with it."""
    filed: list[Filed | CanneryError] = []
    batch: list[_Work] = []
    said: set[object] = set()
    for filing in filings:
        work = _Work(filing if isinstance(filing, Filing) else Filing(filing))
        if not said.isdisjoint(work.looks_for):
            filed += _file(store, batch)
            batch, said = [], set()
        batch.append(work)
        said |= work.says
    return (*filed, *_file(store, batch))


def _file(store: Store, batch: Sequence[_Work]) -> list[Filed | CanneryError]:
    """File histories that have nothing to do with each other."""
    unknown = [work for work in batch if work.match is UNSET and work.outcome is None]
    if unknown:
        matches = match_histories(store, [work.digests for work in unknown])
        for work, match in zip(unknown, matches, strict=True):
            work.match = match
    for work in batch:
        try:
            work.write = None if work.outcome else _plan(store, work)
        except CanneryError as error:
            if work.filing.is_exact or not isinstance(error, ConversationNotFoundError):
                work.outcome = error
    _commit(store, batch)
    return [work.outcome or _file_alone(store, work) for work in batch]


def _plan(store: Store, work: _Work) -> Write | None:
    """What is to be written, if it is a new conversation, more of one, or a fork that is to be just there."""
    filing, match = work.filing, work.match
    raw: bytes | None = None
    if isinstance(match, Match):
        if filing.is_exact and not match.is_at_end:
            return store.handle(match.identifier).branch_write(
                work.history,
                known=match.known,
                at=match.position,
                tags=filing.tags,
                identifier=filing.identifier,
            )
        added = rest_of(store, work.history, work.digests, match) if match.is_at_end else ()
        if not added and filing.match is UNSET and not _says_more(work, match):
            conversation, known = store.get(match.identifier), len(work.history)
            work.outcome = Filed(conversation, known, 0, is_new=False, is_fork=False)
            return None
        raw, metadata = store.latest(match.identifier)
        if not added or metadata.profile != "archive":
            return None
    else:
        added = work.history
        metadata = new_metadata(
            title=filing.title,
            tags=filing.tags,
            model=filing.model,
            identifier=filing.identifier,
            created=filing.created,
        )
    lines, contents = store.encoder.encode_all(added)
    change = Change(
        identifier=metadata.id,
        requires={metadata.id: raw},
        metadata=None if isinstance(match, Match) else metadata.encode(),
        lines=lines,
        base=metadata.position,
        expected=match.length if isinstance(match, Match) else None,
        contents=contents,
    )
    return Write(change, metadata, added)


def _says_more(work: _Work, match: Match) -> bool:
    """Whether a history goes on with something else than the conversation that begins like it."""
    return not match.is_at_end and any(work.digests[match.known :])


def _commit(store: Store, batch: Sequence[_Work]) -> None:
    planned = [(work, work.write) for work in batch if work.write is not None]
    receipts = store.commit_each([write for _, write in planned]) if planned else ()
    for (work, write), receipt in zip(planned, receipts, strict=True):
        if isinstance(receipt, Receipt):
            added = len(write.canisters)
            is_fork = isinstance(work.match, Match) and not work.match.is_at_end
            work.outcome = Filed(
                store.handle(write.metadata.id),
                len(work.history) - added,
                added,
                is_new=write.change.metadata is not None and not is_fork,
                is_fork=is_fork,
            )
        elif work.filing.is_exact or not isinstance(receipt, ConflictError):
            work.outcome = receipt


def _file_alone(store: Store, work: _Work) -> Filed | CanneryError:
    filing = work.filing
    try:
        return file_history(
            store,
            work.history,
            title=filing.title,
            tags=filing.tags,
            model=filing.model,
            identifier=filing.identifier,
            created=filing.created,
        )
    except CanneryError as error:
        return error

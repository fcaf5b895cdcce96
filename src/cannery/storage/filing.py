"""Filing histories: finding the conversation that holds one, adding what is new, forking what was edited.

Stateless clients send everything again with each turn. The digests of a history say how much of it is known, and
where. Histories that share only instructions and documents are different conversations (``history``).

Filing is one atomic step: the change that is made for a history claims the first digest that it adds, and says at
which position it goes on. Of several that file the same at once one is made; the others are told that there is a
conflict, look again and find what was made. Several histories are filed with one look-up and one sync; those of which
one may go on from another are filed one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, UnsetType

from cannery.backends import Change, Match, Receipt, check_name
from cannery.errors import CanneryError, ConflictError, ConversationNotFoundError
from cannery.messages import AnyCanister, Conversation, digest, prefix_digests
from cannery.storage.conversation import StoredConversation
from cannery.storage.history import without_setup
from cannery.storage.lineage import answered_here
from cannery.storage.metadata import new_metadata
from cannery.storage.profiles import check_profile

if TYPE_CHECKING:
    from cannery.storage.store import Store

_ATTEMPTS = 100
_NOTHING = Conversation()


class Filed(Struct, frozen=True):
    """Where a history was filed: ``known`` of its canisters were there, ``added`` were not."""

    conversation: StoredConversation
    known: int
    added: int
    is_new: bool
    is_fork: bool

    @property
    def identifier(self) -> str:
        """The conversation's id."""
        return self.conversation.identifier


class Filing(Struct, frozen=True):
    """A history to be filed, the facts of a conversation that is made for it, and where it goes on if that is known.

    It is joined with histories of the same ``session`` only; None is a session like any other. ``match`` is what
    ``Store.match`` would find; None if nothing of the history is stored. With ``is_exact`` it is filed there or not
    at all: a ConflictError or ConversationNotFoundError says that it does not fit.
    """

    history: Iterable[AnyCanister]
    title: str = ""
    tags: tuple[str, ...] = ()
    model: str | None = None
    identifier: str | None = None
    match: Match | UnsetType | None = UNSET
    is_exact: bool = False
    created: datetime | None = None
    session: str | None = None
    key: str | None = None


class _Work:
    """A filing on its way."""

    __slots__ = (
        "change",
        "digests",
        "filing",
        "history",
        "is_retry",
        "looks_for",
        "match",
        "outcome",
        "says",
        "session",
    )

    def __init__(self, filing: Filing) -> None:
        self.filing = filing
        self.match = filing.match
        self.session = filing.session or ""
        self.history = _NOTHING
        self.digests: Sequence[bytes | None] = ()
        # Of one batch none may look for what one before it says.
        self.says: set[object] = set() if filing.identifier is None else {filing.identifier}
        self.looks_for = set(self.says)
        self.change: Change | None = None
        self.is_retry = False
        self.outcome: Filed | CanneryError | None = None
        history = filing.history
        try:
            check_name(self.session, "session")
            self.history = history if type(history) is Conversation else Conversation(history)
        except CanneryError as error:
            self.outcome = error
            return
        if self.match is UNSET:
            said = self.learn()
            self.says.update(said)
            self.looks_for.update(self.digests, (UNSET,))
            self.looks_for.discard(None)
        else:
            # What it says is known only where it lies.
            self.says.add(UNSET)
            if self.match is not None:
                self.looks_for.add(self.match.identifier)
                if self.match.is_at_end:
                    self.says.add(self.match.identifier)

    def learn(self) -> list[bytes | None]:
        """Derive the digests by which the history is recognised; all that it says."""
        said = list(prefix_digests(self.history, reasoning=False))
        self.digests = without_setup(self.history, list(said))
        return said

    def claims(self, known: int) -> tuple[bytes, ...]:
        """The first digest that is new behind what is known."""
        return next(((one,) for one in self.digests[known:] if one is not None), ())

    def says_more(self, match: Match) -> bool:
        """Whether the history goes on with something else than the conversation that begins like it."""
        return not match.is_at_end and any(self.digests[match.known :])


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
    for _ in range(_ATTEMPTS):
        waiting = [work for work in batch if work.outcome is None]
        if not waiting:
            break
        _match_all(store, waiting)
        for work in waiting:
            try:
                work.change = _plan(store, work)
            except CanneryError as error:
                _refuse(store, work, error)
        _commit(store, waiting)
    crowded = ConflictError("others keep adding to the same conversation")
    return [work.outcome or crowded for work in batch]


def _match_all(store: Store, batch: Sequence[_Work]) -> None:
    by_session: dict[str, list[_Work]] = {}
    for work in batch:
        if work.match is UNSET:
            by_session.setdefault(work.session, []).append(work)
    for session, works in by_session.items():
        histories = [work.digests for work in works]
        matches = store.backend.catalogue.match(store.own_scope, session, histories)
        for work, match in zip(works, matches, strict=True):
            work.match = match


def _refuse(store: Store, work: _Work, error: CanneryError) -> None:
    """Give up on a filing, or if another was faster, look again."""
    work.change = None
    filing = work.filing
    is_overtaken = isinstance(error, ConflictError | ConversationNotFoundError)
    if is_overtaken and filing.identifier is not None and not filing.is_exact:
        is_overtaken = store.raw_metadata(filing.identifier) is None
    if filing.is_exact or not is_overtaken:
        work.outcome = error
        return
    work.match = UNSET
    work.is_retry = True
    if not work.digests:
        work.learn()


def _plan(store: Store, work: _Work) -> Change | None:
    """The change that files a history; None if all of it is there, as the outcome then says."""
    match = work.match
    if not isinstance(match, Match):
        return _addition(store, work)
    conversation = store.handle(match.identifier)
    is_given = work.filing.match is match
    if not match.is_at_end:
        if not is_given and not work.says_more(match):
            _find(store, work, match)
            return None
        return conversation.branch_change(
            work.history,
            known=match.known,
            at=match.position,
            tags=work.filing.tags if work.filing.is_exact else None,
            identifier=work.filing.identifier,
            claims=work.claims(match.known),
            key=work.filing.key,
        )
    rest = rest_of(store, work.history, work.digests, match)
    if not rest:
        _find(store, work, match)
        return None
    known = len(work.history) - len(rest)
    added = answered_here(work.history, known, match.length, conversation.load)
    look = store.current if work.is_retry else store.latest
    raw, metadata = look(match.identifier)
    if metadata.profile != "archive":
        check_profile(metadata.profile, added, conversation.calls())
    return store.change(
        metadata,
        added,
        requires={metadata.id: raw},
        expected=match.length,
        claims=work.claims(match.known),
        key=work.filing.key,
    )


def _find(store: Store, work: _Work, match: Match) -> None:
    """Say that all of a history is there."""
    conversation = store.get(match.identifier)
    work.outcome = Filed(conversation, len(work.history), 0, is_new=False, is_fork=False)


def _addition(store: Store, work: _Work) -> Change:
    filing = work.filing
    metadata = new_metadata(
        title=filing.title,
        tags=filing.tags,
        model=filing.model,
        identifier=filing.identifier,
        created=filing.created,
        scope=store.own_scope,
        session=work.session,
    )
    claims = work.claims(0)
    return store.addition(metadata, {}, work.history, claims=claims, key=filing.key)


def _commit(store: Store, batch: Sequence[_Work]) -> None:
    planned = [(work, work.change) for work in batch if work.change is not None]
    receipts = store.commit_each([change for _, change in planned]) if planned else ()
    for (work, change), receipt in zip(planned, receipts, strict=True):
        if not isinstance(receipt, Receipt):
            _refuse(store, work, receipt)
            continue
        added = len(change.lines)
        is_fork = change.metadata is not None and change.metadata.parent is not None
        work.outcome = Filed(
            store.handle(change.identifier),
            len(work.history) - added,
            added,
            is_new=change.metadata is not None and not is_fork,
            is_fork=is_fork,
        )


def known_before(
    store: Store, identifier: str, position: int, digests: Sequence[bytes | None]
) -> int:
    """How many canisters of a history lie before a position of a conversation, silent ones included."""
    found = store.backend.catalogue.said_before(identifier, position)
    if found is None:
        found = _last_read(store.get(identifier).load(0, position))
    last, spoken = found
    silent = position - spoken
    known = digests.index(last) + 1 if last is not None and last in digests else 0
    while silent and known < len(digests) and digests[known] is None:
        known += 1
        silent -= 1
    return known


def _last_read(shared: Sequence[AnyCanister]) -> tuple[bytes | None, int]:
    held = list(prefix_digests(shared, reasoning=False))
    for position in range(len(held), 0, -1):
        if held[position - 1] is not None:
            return held[position - 1], position
    return None, 0


def rest_of(
    store: Store, history: Conversation, digests: Sequence[bytes | None], match: Match
) -> Conversation:
    """What is to be added to the conversation that ends where a history is known.

    Digests do not tell whether it ends with the same thoughts and empty turns; so these are compared.
    """
    rest = history[match.known :]
    silent = 0
    for one in digests[match.known :]:
        if one is not None:
            break
        silent += 1
    if silent:
        held = store.handle(match.identifier).load(max(match.length - silent, 0), match.length)
        ends, begins = list(map(digest, held)), list(map(digest, rest[:silent]))
        for count in range(len(ends), 0, -1):
            if ends[-count:] == begins[:count]:
                return rest[count:]
    return rest

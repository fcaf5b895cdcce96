"""Files histories: finds the conversation that holds one, appends new messages, forks edited histories.

Stateless clients send everything again with each turn. ``recognition`` finds how much of a history is stored, and
where. Instructions are versions beside a conversation (``instructions``): changed ones are kept with the new messages.

Filing is one atomic step: the change for a history claims the first digest that it adds, and names the position after
which it is added. Of several callers that file the same history at once one succeeds; the others get a conflict, look
again and find its result. Several histories are filed with one look-up and one sync; histories that may continue each
other are filed one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from cannery.backends import Change, Match, Metadata, Receipt, check_name
from cannery.errors import CanneryError, ConflictError, ConversationNotFoundError
from cannery.messages import AnyCanister, Conversation, digest
from cannery.storage.conversation import ForkFacts, StoredConversation
from cannery.storage.encoding import Turn
from cannery.storage.history import SpokenChain, recognition_digests, without_doubles
from cannery.storage.instructions import begin_turn, had_instructions
from cannery.storage.lineage import answered_here
from cannery.storage.metadata import NO_LINK, Link, new_metadata
from cannery.storage.profiles import check_profile
from cannery.storage.recognition import Spoken, recognise

if TYPE_CHECKING:
    from cannery.storage.store import Store

_ATTEMPTS = 100
# Between a look-up and its commit a backend must not forget the claims of others.
_MOST_TOGETHER = 1000
_NOTHING = Conversation()


class Filed(Struct, frozen=True):
    """Where a history was filed: ``known`` of its canisters were stored before, ``added`` were not."""

    conversation: StoredConversation
    known: int
    added: int
    is_new: bool
    is_fork: bool
    why: str = ""

    @property
    def identifier(self) -> str:
        """The conversation's id."""
        return self.conversation.identifier


class Filing(Struct, frozen=True):
    """A history to be filed, the facts for a new conversation, and where it continues if that is known.

    It is joined only with histories of the same ``session``; None is a session like any other. ``match`` is the result
    of ``Store.recognise``; None if nothing of the history is stored. With ``is_exact`` it is filed there or not at all:
    a ConflictError or ConversationNotFoundError says that it does not fit. With ``is_apart`` nothing is added to the
    matched conversation; a longer history becomes a fork of it. A history declared new is refused with a ConflictError
    if another one was filed meanwhile that is the same up to its message ``claimed``. ``link`` is the relation of a new
    conversation to its parent, and ``turn`` the facts kept with the first added message. ``spoken`` is the same history
    with its digests and session, if the caller has derived them already. A history that ``is_sent`` is a client's, and
    may spell earlier messages differently than they are stored (``storage.rewriting``). ``lifted`` is a tag that no
    longer applies to a conversation, or a fork of it, once something is added.
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
    is_apart: bool = False
    claimed: int | None = None
    link: Link = NO_LINK
    turn: Turn | None = None
    spoken: Spoken | None = None
    is_sent: bool = False
    lifted: str = ""


class _Work:
    """A filing in progress."""

    __slots__ = (
        "change",
        "filing",
        "is_apart",
        "is_retry",
        "key",
        "looks_for",
        "match",
        "outcome",
        "says",
        "session",
        "spoken",
        "why",
    )

    def __init__(self, filing: Filing, key: bytes) -> None:
        self.filing = filing
        self.key = key
        self.match = filing.match
        self.session = filing.session or ""
        self.is_apart = filing.is_apart
        self.why = "" if filing.turn is None else filing.turn.why
        self.spoken = Spoken(_NOTHING, (), (), 0, self.session)
        # A filing must not look for messages that an earlier one of the same batch adds.
        self.says: set[object] = set() if filing.identifier is None else {filing.identifier}
        self.looks_for = set(self.says)
        self.change: Change | None = None
        self.is_retry = False
        self.outcome: Filed | CanneryError | None = None
        try:
            check_name(self.session, "session")
            self._take(filing)
        except CanneryError as error:
            self.outcome = error
            return
        if self.match is UNSET:
            self.learn()
            self.says.update(self.spoken.says)
            self.looks_for.update(self.spoken.digests, (UNSET,))
            self.says.discard(None)
            self.looks_for.discard(None)
        else:
            # Its text is known only in its own store.
            self.says.add(UNSET)
            if filing.claimed is not None:
                self.learn()
            if self.match is not None:
                self.looks_for.add(self.match.identifier)
                if self.match.is_at_end:
                    self.says.add(self.match.identifier)

    def _take(self, filing: Filing) -> None:
        """Take the history, with its digests if they are of this scope."""
        if filing.spoken is not None and filing.spoken.key == self.key:
            self.spoken = filing.spoken
            return
        history = filing.history
        whole = history if type(history) is Conversation else Conversation(history)
        self.spoken.history = Conversation.trusted(without_doubles(whole))

    @property
    def history(self) -> Conversation:
        """What is filed."""
        return self.spoken.history

    def learn(self) -> None:
        """Derive the digests by which the history is recognised, unless they are known."""
        if not self.spoken.digests:
            history, is_sent = self.spoken.history, self.filing.is_sent
            self.spoken = Spoken.of(history, self.session, self.key, is_sent=is_sent)

    def claims(self, known: int) -> tuple[bytes, ...]:
        """The first new digest after the known canisters."""
        return next(((one,) for one in self.spoken.digests[known:] if one is not None), ())

    def kept_tags(self, metadata: Metadata) -> tuple[str, ...]:
        """The tags that still apply when something is added."""
        return tuple(tag for tag in metadata.tags if tag != self.filing.lifted)

    def says_more(self, match: Match) -> bool:
        """Whether the history continues after its known canisters."""
        return any(self.spoken.digests[match.known :])


def file_many(
    store: Store, filings: Iterable[Filing | Iterable[AnyCanister]]
) -> tuple[Filed | CanneryError, ...]:
    """File histories in order; for each its place, or its error."""
    filed: list[Filed | CanneryError] = []
    batch: list[_Work] = []
    said: set[object] = set()
    key = store.digest_key(store.own_scope)
    for filing in filings:
        work = _Work(filing if isinstance(filing, Filing) else Filing(filing), key)
        if len(batch) >= _MOST_TOGETHER or not said.isdisjoint(work.looks_for):
            filed += _file(store, batch)
            batch, said = [], set()
        batch.append(work)
        said |= work.says
    return (*filed, *_file(store, batch))


def _file(store: Store, batch: Sequence[_Work]) -> list[Filed | CanneryError]:
    """File histories that are independent of each other."""
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
    unknown = [work for work in batch if work.match is UNSET]
    for work, found in zip(unknown, recognise(store, [one.spoken for one in unknown]), strict=True):
        work.match, work.why = found.match, found.why
        work.is_apart = found.is_apart or work.filing.is_apart


def _refuse(store: Store, work: _Work, error: CanneryError) -> None:
    """Fail a filing, or look again if another caller was faster."""
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
    work.learn()


def _plan(store: Store, work: _Work) -> Change | None:
    """The change that files a history; None if all of it is stored, which the outcome then states."""
    match = work.match
    if not isinstance(match, Match):
        return _addition(store, work)
    if work.is_apart or not match.is_at_end:
        return _branch(store, work, match)
    rest = rest_of(store, work.history, work.spoken.digests, match)
    if not rest:
        return _all_known(store, work, match)
    known = len(work.history) - len(rest)
    return _growth(store, work, match, known)


def _branch(store: Store, work: _Work, match: Match) -> Change | None:
    """The change that makes a fork, unless all of the history is there."""
    is_given = work.filing.match is match
    if not is_given and not work.says_more(match):
        return _all_known(store, work, match)
    parent = store.any_metadata(match.identifier)
    facts = ForkFacts(
        tags=work.filing.tags if work.filing.is_exact else work.kept_tags(parent),
        identifier=work.filing.identifier,
        session=work.session,
        link=None if work.filing.link is NO_LINK else work.filing.link,
    )
    turn, _ = _turn(store, work, parent, match.position)
    return store.handle(match.identifier).branch_change(
        work.history,
        known=match.known,
        at=match.position,
        facts=facts,
        claims=work.claims(match.known),
        key=work.filing.key,
        turn=turn,
    )


def _growth(store: Store, work: _Work, match: Match, known: int) -> Change:
    """The change that appends to a conversation."""
    conversation = store.handle(match.identifier)
    added = answered_here(work.history, known, match.length, conversation.load)
    look = store.current if work.is_retry else store.latest
    raw, metadata = look(match.identifier)
    check_profile(metadata.profile, added)
    turn, changed = _turn(store, work, metadata)
    if work.filing.lifted in metadata.tags:
        changed = (changed or metadata).changed(tags=work.kept_tags(metadata))
    return store.change(
        metadata,
        added,
        requires={metadata.id: raw},
        expected=match.length,
        claims=work.claims(match.known),
        key=work.filing.key,
        turn=turn,
        changed=changed,
    )


def _turn(
    store: Store, work: _Work, metadata: Metadata | None, at: int | None = None
) -> tuple[Turn | None, Metadata | None]:
    """The facts kept with the first added message, and the metadata if they change it."""
    given = work.filing.turn
    turn = Turn(why=work.why) if given is None else replace(given, why=work.why)
    turn, now = begin_turn(store, turn, metadata, work.spoken.setup(), at)
    if given is None and turn.setup is None:
        return None, None
    if metadata is None or not turn.is_version:
        return turn, None
    return turn, metadata.changed(setup=now.encode())


def _all_known(store: Store, work: _Work, match: Match) -> Change | None:
    """Report that all of a history is stored; new instructions are added to it."""
    setup = work.spoken.setup()
    raw, metadata = store.current(match.identifier)
    if setup and match.is_at_end and not had_instructions(store, metadata, setup):
        turn, changed = _turn(store, work, metadata)
        requires = {metadata.id: raw}
        expected = match.length
        return store.change(
            metadata, setup, requires=requires, expected=expected, turn=turn, changed=changed
        )
    conversation = store.handle(match.identifier)
    work.outcome = Filed(conversation, len(work.history), 0, False, False, work.why)
    return None


def _addition(store: Store, work: _Work) -> Change:
    filing = work.filing
    turn, now = begin_turn(store, filing.turn or Turn(), None, work.spoken.setup())
    metadata = new_metadata(
        title=filing.title,
        tags=filing.tags,
        model=filing.model,
        parent=filing.link.parent,
        identifier=filing.identifier,
        created=filing.created,
        scope=store.own_scope,
        session=work.session,
        link=filing.link,
        setup=now.encode(),
    )
    kept = None if filing.turn is None else replace(turn, why=work.why)
    return store.addition(
        metadata,
        {},
        work.history,
        claims=work.claims(filing.claimed or 0),
        key=filing.key,
        turn=kept,
    )


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
            why=work.why,
        )


def known_before(
    store: Store, identifier: str, position: int, digests: Sequence[bytes | None]
) -> int:
    """How many canisters of a history lie before a position of a conversation, empty ones included."""
    found = store.backend.catalogue.said_before(identifier, position)
    if found is None:
        conversation = store.get(identifier)
        key = store.digest_key(conversation.metadata.scope)
        found = _last_read(conversation.load(0, position), key)
    last, spoken = found
    silent = position - spoken
    known = digests.index(last) + 1 if last is not None and last in digests else 0
    while silent and known < len(digests) and digests[known] is None:
        known += 1
        silent -= 1
    return known


def _last_read(shared: Sequence[AnyCanister], key: bytes) -> tuple[bytes | None, int]:
    held = recognition_digests(shared, SpokenChain(key))
    for position in range(len(held), 0, -1):
        if held[position - 1] is not None:
            return held[position - 1], position
    return None, 0


def rest_of(
    store: Store, history: Conversation, digests: Sequence[bytes | None], match: Match
) -> Conversation:
    """The canisters to add to a conversation that ends where a history is known.

    Digests do not cover reasoning and empty turns at the end, so these are compared.
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

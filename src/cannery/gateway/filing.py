"""Files planned exchanges in the store, on the recorder's threads, and links them with each other.

A new conversation and its messages, or a fork and its messages, are one change. A plan that no longer fits, because
another process was faster or the store did not answer in time, is recognised again by the store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from cannery.errors import CanneryError, ConflictError, ConversationNotFoundError, StorageError
from cannery.gateway.clients import (
    COMPACTION,
    SUBAGENT,
    SUMMARY,
    TITLE,
    Identity,
    title_in,
)
from cannery.gateway.delegations import first_question
from cannery.gateway.entries import Entry, Named
from cannery.gateway.identifiers import alike, new_identifier
from cannery.gateway.ledger import Digest, Plan, Spot
from cannery.messages import (
    AnyCanister,
    AssistantCanisterClass,
    Conversation,
    InvocationCanisterClass,
    ResultCanisterClass,
    assistant,
    conversation_digest,
)
from cannery.storage import Filed, Filing, Link, Match, Recognised, Store, Summary, Turn
from cannery.storage.history import MODEL_ROLES, SpokenChain, own_of
from cannery.storage.recognition import Spoken, recognise
from cannery.storage.settings import NO_TOOLS, encode_settings, encode_tools
from cannery.titles import title_of

_LAST_CALLS = 80
_LAST_CONVERSATIONS = 20
_FIRST = 200
_SHORTEST_TASK = 8
_MOST_MOVED = 10_000
# What is filed together is encoded at once, beside all that waits.
_MOST_BYTES_TOGETHER = 4 << 20
_ATTEMPTS = 20
REPEAT = "repeat"
ABORTED = "aborted"


class _Begun(NamedTuple):
    """The call that began a sub-agent: its position, its id, and whether it has no result yet."""

    position: int
    call: str
    is_open: bool


class Filer:
    """Files exchanges in one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._within: dict[str, Filer] = {}
        # Ids promised to callers for exchanges that other gateways had already filed.
        self._moved: OrderedDict[str, str] = OrderedDict()

    def within(self, scope: str | None) -> Filer:
        """The filer for one scope of the store; None for all of it, as on a person's own machine."""
        if scope is None:
            return self
        found = self._within.get(scope)
        if found is None:
            found = self._within[scope] = Filer(self.store.within(scope))
        return found

    def file_many(self, entries: Iterable[Entry]) -> None:
        """File what fits its plan, with few syncs per scope, and set the result in each entry.

        A refused exchange is left unfiled, and so is one that may belong to a conversation that is filed here.
        """
        by_scope: dict[str | None, list[tuple[Entry, Plan]]] = {}
        for entry in entries:
            if entry.plan is not None and entry.plan.kind != "known" and not _needs_more(entry):
                by_scope.setdefault(entry.scope, []).append((entry, entry.plan))
        for scope, together in by_scope.items():
            filer = self.within(scope)
            for portion in _portions(together):
                filings = [filer.filing(entry, plan) for entry, plan in portion]
                many = filer.store.file_many(filings)
                for (entry, _), filed in zip(portion, many, strict=True):
                    if isinstance(filed, Filed):
                        entry.filed = filed.identifier

    def file(self, entry: Entry, plan: Plan) -> str:
        """File an exchange as planned, or where it belongs by now; returns the id of its conversation."""
        if plan.kind == "known":
            return plan.identifier
        filing = self.filing(entry, plan)
        filed = self.store.file_many([filing])[0]
        if isinstance(filed, ConflictError | ConversationNotFoundError):
            if self._is_made(entry, plan):
                return plan.identifier
            is_free = self.store.raw_metadata(plan.identifier) is None
            filing = msgspec.structs.replace(
                filing,
                match=msgspec.UNSET,
                is_exact=False,
                claimed=None,
                # An exchange that is now filed separately gets the id that callers know.
                identifier=plan.identifier if is_free else None,
            )
            filed = self.store.file_many([filing])[0]
        if isinstance(filed, CanneryError):
            raise filed
        if filing.identifier not in {None, filed.identifier}:
            self._keep_promise(filing, plan.identifier)
            self._move(plan.identifier, filed.identifier)
        return filed.identifier

    def _keep_promise(self, filing: Filing, promised: str) -> None:
        """Make the id in a sent reply findable: as a copy of an exchange filed elsewhere, hidden from lists."""
        history = Conversation.trusted(filing.history)
        link = msgspec.structs.replace(filing.link, kind=REPEAT)
        repeat = msgspec.structs.replace(filing, identifier=promised, is_exact=True, link=link)
        filed: Filed | CanneryError | None = None
        for _ in range(_ATTEMPTS):
            match = self.look_up(history, filing.session or "").match
            if match is None:
                return
            place = Match(len(history), match.identifier, match.position, match.position + 1)
            filed = self.store.file_many([msgspec.structs.replace(repeat, match=place)])[0]
            if not isinstance(filed, ConflictError):
                break
        if isinstance(filed, CanneryError):
            raise filed

    def _move(self, promised: str, identifier: str) -> None:
        self._moved[promised] = identifier
        if len(self._moved) > _MOST_MOVED:
            self._moved.popitem(last=False)

    def filing(self, entry: Entry, plan: Plan) -> Filing:
        """A plan in the store's form."""
        match: Match | msgspec.UnsetType | None = None
        if plan.kind == "append":
            match = Match(plan.known, plan.identifier, plan.position, plan.position)
        elif plan.kind in ("fork", "repeat"):
            # More messages follow there, however many.
            match = Match(plan.known, str(plan.parent), plan.position, plan.position + 1)
        is_guess = entry.is_guess and plan.kind == "new"
        is_guess = is_guess or (plan.kind == "append" and plan.identifier in self._moved)
        is_guess = is_guess or _may_be_held(entry, plan)
        claimed = _claimed(entry, plan)
        # A claimed history must be recognisable by its digests.
        spoken = None if claimed is None else entry.spoken()
        history = Conversation.trusted(entry.history()) if spoken is None else spoken.history
        link = self._link(entry, plan)
        why = COMPACTION if link.kind == COMPACTION else plan.why
        return Filing(
            history,
            title="" if entry.identity.is_side else self._title(link, history),
            model=entry.model(),
            identifier=None if plan.identifier in self._moved else plan.identifier,
            match=msgspec.UNSET if is_guess else match,
            is_exact=not is_guess,
            claimed=claimed,
            session=entry.identity.session,
            is_apart=entry.identity.is_side or entry.is_known(plan),
            link=link,
            turn=_turn(entry, why),
            spoken=spoken,
            is_sent=True,
            lifted="" if entry.is_aborted else ABORTED,
        )

    def _title(self, link: Link, history: Conversation) -> str:
        """The title of a new conversation; what follows a summary has that of the conversation before it."""
        if link.kind == COMPACTION and link.parent is not None:
            title = self.store.metadata_of(link.parent).title
            if title:
                return title
        return title_of(history)

    def _link(self, entry: Entry, plan: Plan) -> Link:
        """The relation of a new conversation to its parent."""
        identity = entry.identity
        link = Link(identity.kind, identity.client, identity.version)
        if plan.kind == "repeat":
            return msgspec.structs.replace(link, kind=REPEAT)
        if plan.kind == "fork" and plan.parent is not None and identity.kind == SUBAGENT:
            # It has the history of its parent, and its task behind that.
            here = Spot(plan.parent, plan.position)
            return self._begun(link, here, entry.history()[plan.known :])
        if plan.kind == "new" and entry.begun_in is not None:
            link = self._checked(link, entry.begun_in, entry.history())
            entry.identity = msgspec.structs.replace(identity, kind=link.kind)
            return link
        if plan.kind == "new" and identity.kind == SUBAGENT and not identity.parent:
            return self._delegated(link, entry.history())
        parent = self._parent(identity) if plan.kind == "new" else None
        if parent is None and plan.kind == "new":
            parent = self._summarised(entry.summaries())
            if parent is not None and not identity.is_side:
                link = msgspec.structs.replace(link, kind=COMPACTION)
        if parent is None:
            return link
        link = msgspec.structs.replace(link, parent=parent.identifier, began_at=parent.position)
        return link if identity.kind != SUBAGENT else self._begun(link, parent, entry.history())

    def _begun(self, link: Link, parent: Spot, history: Sequence[AnyCanister]) -> Link:
        """A link with the call that gave a sub-agent its task."""
        begun = self._call_of(parent, history)
        if begun is None:
            return link
        return msgspec.structs.replace(link, began_at=begun.position, call=begun.call)

    def _checked(self, link: Link, identifier: str, history: Sequence[AnyCanister]) -> Link:
        """Link a sub-agent with the call that has its task, unless that has a result or repeats a question."""
        plain = msgspec.structs.replace(link, kind="")
        try:
            here = Spot(identifier, len(self.store.get(identifier)))
        except ConversationNotFoundError:
            return plain
        begun, task = self._call_of(here, history), first_question(history)
        if begun is None or not begun.is_open:
            return plain
        said = self.store.get(identifier).load()
        if any(first_question([one]) == task for one in said):
            return plain
        return msgspec.structs.replace(
            link, parent=identifier, began_at=begun.position, call=begun.call
        )

    def _delegated(self, link: Link, history: Sequence[AnyCanister]) -> Link:
        """Link a sub-agent that names no parent with the one conversation of its program that gave it its task.

        The call that gave it is usually not answered yet. What several conversations say tells nothing.
        """
        found: dict[bool, list[Link]] = {True: [], False: []}
        for one in self.store.list(client=link.client, limit=_LAST_CONVERSATIONS):
            begun = self._call_of(Spot(one.identifier, one.count), history)
            if begun is not None:
                at, call, is_open = begun
                place = {"parent": one.identifier, "began_at": at, "call": call}
                found[is_open].append(msgspec.structs.replace(link, **place))
        places = found[True] or found[False]
        return places[0] if len(places) == 1 else link

    def _parent(self, identity: Identity) -> Spot | None:
        """The end of the session that a request names, or the place of the model text that it repeats."""
        if identity.parent:
            found = self._latest(identity.parent)
            return None if found is None else Spot(found.identifier, found.count)
        if not identity.quoted:
            return None
        own = own_of(assistant(identity.quoted), self.store.digest_key(self.store.own_scope)).digest
        held = self.store.backend.catalogue.holders(self.store.own_scope, [own] if own else [])
        # A text in several conversations is ambiguous.
        is_clear = len({one.identifier for one in held}) == 1
        return Spot(held[0].identifier, held[0].position + 1) if is_clear else None

    def _summarised(self, summaries: Sequence[str]) -> Spot | None:
        """The end of the conversation whose summary begins this history."""
        if not summaries:
            return None
        scope = self.store.own_scope
        key = self.store.digest_key(scope)
        owns = [own_of(assistant(text), key).digest for text in summaries]
        held = self.store.backend.catalogue.holders(scope, [own for own in owns if own is not None])
        for holder in held:
            metadata = self.store.metadata_of(holder.identifier)
            if metadata.kind != SUMMARY:
                continue
            try:
                while metadata.kind == SUMMARY and metadata.parent is not None:
                    metadata = self.store.metadata_of(metadata.parent)
            except ConversationNotFoundError:
                continue
            if metadata.kind != SUMMARY:
                return Spot(metadata.id, len(self.store.get(metadata.id)))
        return None

    def _latest(self, session: str, kind: str | None = None) -> Summary | None:
        """The most recently changed conversation of a session."""
        if kind is not None:
            return next(iter(self.store.list(session=session, kinds=(kind,), limit=1)), None)
        return next(iter(self.store.list(session=session, limit=1)), None)

    def _call_of(self, parent: Spot, history: Sequence[AnyCanister]) -> _Begun | None:
        """The call that gave a sub-agent its task."""
        task = first_question(history)
        start = max(parent.position - _LAST_CALLS, 0)
        said = self.store.handle(parent.identifier).read(start).canisters
        for at in range(len(said) - 1, -1, -1):
            one = said[at]
            if isinstance(one, InvocationCanisterClass) and _is_task(task, one.held):
                answered = [
                    other.invocation_id
                    for other in said[at + 1 :]
                    if isinstance(other, ResultCanisterClass)
                ]
                return _Begun(start + at, one.identifier, one.identifier not in answered)
        return None

    # --- after it was filed --------------------------------------------------------------------

    def link(self, entry: Entry, plan: Plan, identifier: str) -> None:
        """Link a conversation with earlier requests: titles are requested before and during the first turn."""
        identity = entry.identity
        if identity.kind == TITLE and identity.parent and not entry.is_aborted:
            main = self._latest(identity.parent)
            if main is not None:
                self._take_title(identifier, main.identifier)
        elif (
            identity.session and identity.kind in ("", COMPACTION) and plan.kind in ("new", "fork")
        ):
            side = self._latest(f"{identity.session}#{TITLE}", TITLE)
            if side is not None:
                self._take_title(side.identifier, identifier)

    def _take_title(self, side: str, main: str) -> None:
        """Set the title that a conversation's client requested, unless a person set another."""
        asked, metadata = self.store.metadata_of(side), self.store.metadata_of(main)
        if asked.parent is None:
            self.store.change_metadata(side, parent=main)
        said = self.store.get(side).load()
        title = title_in("".join(map(_answer, said)))
        first = title_of(self.store.get(main).load(0, _FIRST))
        if title and metadata.title in ("", first) and title != metadata.title:
            self.store.change_metadata(main, title=title, updated=metadata.updated)

    def _is_made(self, entry: Entry, plan: Plan) -> bool:
        """Whether an exchange is in its planned conversation, or can be put there as it is.

        A refused change may have been made anyway, if the store failed meanwhile.
        """
        start = plan.position if plan.kind == "append" else 0
        said = entry.history()[plan.known if plan.kind == "append" else 0 :]
        try:
            held = self.store.get(plan.identifier).load(start)
            if not held and plan.kind == "new":
                # It was created empty, to be named.
                self.store.handle(plan.identifier).append(said, revision="0")
                return True
        except (ConversationNotFoundError, ConflictError):
            return False
        return len(held) == len(said) and conversation_digest(held) == conversation_digest(said)

    def mark_aborted(self, identifier: str) -> None:
        """Tag a conversation with an unanswered question; one that already has its answer is not tagged."""
        conversation = self.store.get(identifier)
        tags = conversation.metadata.tags
        last = conversation.load(max(len(conversation) - 1, 0))
        is_answered = any(one.role in MODEL_ROLES for one in last)
        if not is_answered and ABORTED not in tags:
            self.store.change_metadata(identifier, tags=(*tags, ABORTED))

    # --- looking -------------------------------------------------------------------------------

    def look_up(self, history: Conversation, session: str, *, is_aside: bool = False) -> Recognised:
        """The place where a history continues in the store."""
        key = self.store.digest_key(self.store.own_scope)
        spoken = Spoken.of(history, session, key, is_aside=is_aside, is_sent=True)
        return recognise(self.store, [spoken])[0]

    def look_in(self, name: str, digests: Sequence[Digest | None]) -> Named:
        """The conversation that a caller names, and how much of a history it has.

        The name may be that of another scope's conversation, of a deleted one, or of one with another history: then it
        refers to the first derived name that is unused, or has this history.
        """
        for candidate in alike(name, self.store.own_scope):
            raw = self.store.raw_metadata(candidate)
            if raw is None:
                return Named(candidate)
            try:
                held = self.store.get(candidate).load()
            except ConversationNotFoundError:
                continue
            match = _match_in(candidate, held, digests)
            if match is not None or not held:
                return Named(candidate, match)
        return Named(new_identifier())

    def load(self, identifier: str, stop: int | None) -> tuple[Conversation, int, str] | None:
        """The first messages of a conversation, their total number, and its session; None if it does not exist."""
        try:
            conversation = self.store.get(identifier)
            session = conversation.metadata.session
            return conversation.load(0, stop), len(conversation), session
        except (ConversationNotFoundError, StorageError):
            return None


def _portions(entries: list[tuple[Entry, Plan]]) -> Iterator[list[tuple[Entry, Plan]]]:
    """Entries in order, as many together as may be encoded at once."""
    portion: list[tuple[Entry, Plan]] = []
    size = 0
    for entry, plan in entries:
        if portion and size + entry.size > _MOST_BYTES_TOGETHER:
            yield portion
            portion, size = [], 0
        portion.append((entry, plan))
        size += entry.size
    yield portion


def _match_in(
    identifier: str, held: Conversation, digests: Sequence[Digest | None]
) -> Match | None:
    """How much of a history is in one conversation."""
    places = {
        digest: position
        for position, digest in enumerate(SpokenChain().extend(held), 1)
        if digest is not None
    }
    for index in range(len(digests) - 1, -1, -1):
        position = places.get(digests[index] or b"")
        if position is not None:
            is_at_end = position == max(places.values())
            return Match(index + 1, identifier, len(held) if is_at_end else position, len(held))
    return None


def _claimed(entry: Entry, plan: Plan) -> int | None:
    """The number of messages of a new conversation's first exchange that another gateway may also be filing."""
    if plan.kind != "new" or entry.named is not None:
        return None
    if plan.why == COMPACTION:
        # It begins with questions of the conversation that it replaces.
        return entry.last_asked
    return 0 if plan.why == "new" and not entry.identity.is_side else None


def _may_be_held(entry: Entry, plan: Plan | None) -> bool:
    """Whether another gateway may have stored the exchange that is planned as a fork: the store decides."""
    is_fork = plan is not None and plan.kind == "fork"
    return is_fork and entry.named is None and not entry.identity.is_side


def _needs_more(entry: Entry) -> bool:
    """Whether the conversation of an exchange may be filed in the same batch, or elsewhere than planned."""
    is_linked = bool(entry.identity.parent or entry.identity.quoted)
    is_begun = entry.plan is not None and entry.plan.kind == "new"
    is_linked = is_linked or (is_begun and bool(entry.summaries()))
    is_linked = is_linked or (is_begun and entry.identity.kind == SUBAGENT)
    return is_linked or entry.is_guess or _may_be_held(entry, entry.plan)


def _turn(entry: Entry, why: str) -> Turn:
    request = entry.request
    if request is None:
        return Turn(entry.request_id, why, entry.model() or "")
    tools = encode_tools(request.tools) if request.tools else NO_TOOLS
    settings = encode_settings(request)
    return Turn(entry.request_id, why, entry.model() or "", tools=tools, settings=settings)


def _answer(canister: AnyCanister) -> str:
    held = canister.held if isinstance(canister, AssistantCanisterClass) else ""
    return held if isinstance(held, str) else ""


def _is_task(task: str, arguments: str) -> bool:
    """Whether a call contains the task that a sub-agent was given."""
    try:
        value = msgspec.json.decode(arguments.encode())
    except (msgspec.DecodeError, UnicodeError):
        return False
    texts = [
        one.strip()
        for one in (value.values() if isinstance(value, dict) else ())
        if isinstance(one, str)
    ]
    return any(len(one) >= _SHORTEST_TASK and (one in task or task in one) for one in texts if task)

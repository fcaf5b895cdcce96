"""One exchange to be recorded: the request, the answer, and the conversation that both belong to."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from cannery.errors import CanneryError
from cannery.gateway.calls import Call
from cannery.gateway.clients import COMPACTION, SUBAGENT, Identity, identify, summaries_in
from cannery.gateway.identifiers import is_name, new_identifier
from cannery.gateway.keys import public_header
from cannery.gateway.ledger import ANYWHERE, Asked, Plan, Spot, named_space, space_of
from cannery.gateway.prices import Cost
from cannery.gateway.refusals import refuse
from cannery.gateway.replies import Reply
from cannery.messages import (
    AnyCanister,
    Conversation,
    FinishReason,
    Request,
    Response,
    Tool,
    Usage,
    absent,
)
from cannery.storage import Match, Recognised
from cannery.storage.exchanges import ExchangeRecord
from cannery.storage.history import (
    MODEL_ROLES,
    SpokenChain,
    beginning,
    recognition_digests,
    without_doubles,
)
from cannery.storage.recognition import Spoken, asked_before
from cannery.wire.contract import Dialect
from cannery.wire.losses import Loss
from cannery.wire.places import Places

if TYPE_CHECKING:
    from cannery.gateway.recorder import Recorder

_LOOKUP_SECONDS = 1.0
_NOBODY = Identity()
_NOTHING = Asked(b"", (), (), 0)
_ACKNOWLEDGE_SECONDS = 30.0


class Named(NamedTuple):
    """The conversation for a caller's name, and how much of a history it has."""

    identifier: str
    match: Match | None = None


class Entry:
    """An exchange to be filed."""

    __slots__ = (
        "_asked",
        "_call",
        "_chain",
        "_claimed",
        "_found",
        "_history",
        "_is_read",
        "_ledger",
        "_lookup",
        "_recorder",
        "_replied",
        "asked_model",
        "begun_in",
        "body",
        "cost",
        "dialect",
        "failed_upstreams",
        "filed",
        "first_byte",
        "identity",
        "is_aborted",
        "is_guess",
        "losses",
        "named",
        "plan",
        "recorded",
        "reply_id",
        "request",
        "request_id",
        "response",
        "scope",
        "seconds",
        "size",
        "tools",
        "upstream",
        "usage",
    )

    def __init__(self, recorder: Recorder, call: Call) -> None:
        self._recorder = recorder
        self._call = call
        self._asked = _NOTHING
        self._replied: Asked | None = None
        self._chain = SpokenChain()
        self._history: list[AnyCanister] = []
        self._lookup: (
            Future[Recognised | None]
            | asyncio.Future[Recognised | None]
            | Future[Named | None]
            | None
        ) = None
        self._found: Recognised | None = None
        self._claimed = 0
        self._is_read = False
        self.size = len(call.body)
        self.body = b""
        self.named = _named(call)
        self.identity = _NOBODY
        self.begun_in: str | None = None
        self.is_guess = False
        self.asked_model = call.model
        self.dialect = call.dialect
        self.upstream = call.upstream
        self.request_id = call.request_id
        self.scope = call.store_scope
        self._ledger = recorder.ledgers.of(self.scope)
        self.request: Request | None = None
        self.response: Response | None = None
        self.plan: Plan | None = None
        self.filed: str | None = None
        self.recorded: asyncio.Future[bool] | None = None
        self.reply_id: str | None = None
        self.tools: tuple[Tool, ...] = ()
        self.usage: Usage | None = None
        self.cost: Cost | None = None
        self.first_byte: float | None = None
        self.seconds: float | None = None
        self.losses: tuple[Loss, ...] = ()
        self.failed_upstreams: tuple[str, ...] = ()
        self.is_aborted = False

    # --- while the upstream thinks -------------------------------------------------------------

    def read(self) -> None:
        """Read the history, once, and recognise it; a call that cannot be read is not recorded.

        This uses the event loop while the upstream works, unless the upstream answers within a turn of the loop.
        """
        if self._is_read:
            return
        self._is_read = True
        body, self.body = self.body, b""
        if self.request is None:
            try:
                self.request = self.dialect.read_request(body, Places())
            except CanneryError:
                self._recorder.count("unreadable")
                return
        self._recognise(self.request, body)

    def _recognise(self, request: Request, body: bytes) -> None:
        """Recognise the history, or query the store for it."""
        if not self._recorder.is_on:
            return
        self._history = history = without_doubles(request.conversation)
        if self.named is not None:
            # A conversation named by the caller takes precedence over recognition.
            digests = self._chain.extend(history)
            self._asked = Asked(named_space(self.named), history, digests, 0)
            if self._ledger.find(self._asked.space, digests) is None:
                self._lookup = self._recorder.look_in(self.named, digests, self.scope)
            return
        self.identity = identity = identify(public_header(self._call), request, body)
        digests = recognition_digests(history, self._chain)
        unanswered = asked_before(history, digests)
        self._asked = asked = Asked(
            space_of(identity.session),
            history,
            digests,
            unanswered,
            is_apart=identity.is_side,
            has_session=bool(identity.session),
        )
        if unanswered < len(history) and not self._ledger.is_placed(asked):
            conversation = Conversation.trusted(history)
            known = self._ledger.find(asked.space, digests)
            after = None if known is None else known[1].identifier
            self._lookup = self._recorder.look_up(conversation, identity, self.scope, after)

    async def ready(self) -> None:
        """Wait for the store's answer, with a short limit: an exchange filed without it is looked up again."""
        self.read()
        if self._lookup is None:
            return
        try:
            found = await asyncio.wait_for(asyncio.wrap_future(self._lookup), _LOOKUP_SECONDS)
        except TimeoutError:
            found = None
        self._lookup = None
        self.is_guess = self.named is None and (found is None or found.match is None)
        match = None if found is None else found.match
        is_apart = isinstance(found, Recognised) and found.is_apart
        self._found = found if isinstance(found, Recognised) and match is not None else None
        if isinstance(found, Named):
            self.named = found.identifier
        if match is not None and self._is_news(match):
            digest = self._asked.digests[match.known - 1]
            space = ANYWHERE if is_apart else self._asked.space
            if digest is not None:
                spot = Spot(match.identifier, match.position)
                self._ledger.learn(space, digest, spot, match.length)

    def _is_news(self, match: Match) -> bool:
        """Whether the store found more of a history than the ledger has."""
        known = (
            None
            if self.named is not None
            else self._ledger.find(self._asked.space, self._asked.digests)
        )
        return known is None or known[0] <= self._asked.unanswered or match.known > known[0]

    async def put_back(self, request: Request, target: Dialect, places: Places) -> Request:
        """A request with the reasoning that its target produced and its client cannot carry."""
        history = request.conversation
        if not self._recorder.is_on or not any(one.role in MODEL_ROLES for one in history):
            return request
        await self.ready()
        # Repeated results have no digest, nor do contents that are not sent.
        known = {
            id(one): digest for one, digest in zip(self._history, self._asked.digests, strict=True)
        }
        digests = [known.get(id(canister)) for canister in history]
        thoughts = self._recorder.thoughts
        whole = thoughts.put_back(self.scope, history, digests, target.name, places)
        return request if whole is history else request.replace(conversation=whole)

    # --- before the first byte -----------------------------------------------------------------

    def settle(self, call: Call, response: Response | None = None) -> None:
        """Decide where the exchange is filed, and name that conversation in the reply."""
        self.response = response
        if self.request is None or not self._recorder.is_on:
            return
        plan = self._ledger.plan(self._asked, self._said_before)
        if plan is None:
            plan = Plan("new", self._new_name())
            self._begin()
        plan = self._explained(plan)
        is_begun = self.is_all_asked(plan.known)
        if self.identity.is_compacted and plan.known <= self._asked.unanswered and not is_begun:
            # A summary replaces the earlier messages: the questions that it keeps are not a shared prefix. A summary
            # that is known up to its last question is a repeated request.
            self.identity = replace(self.identity, kind=COMPACTION, parent=self.identity.session)
            plan = Plan("new", new_identifier(), why="compaction")
        self.plan = plan
        if plan.kind != "known":
            self._claimed = self._ledger.claim(plan, self._asked, plan.known, is_held=True)
        call.conversation = plan.identifier
        self._recorder.tell(self, plan)

    def _begin(self) -> None:
        """Recognise a sub-agent that sends no id, by the call that gave it its task."""
        if self.named is None and not self.identity.kind:
            if self._asked.unanswered == len(self._history):
                self.begun_in = self._recorder.delegations.find(self.scope, self._history)
            if self.begun_in is not None:
                self.identity = replace(self.identity, kind=SUBAGENT)

    def _explained(self, plan: Plan) -> Plan:
        """A plan with the reason of its caller, or of the store if it follows what the store found."""
        if self.named is not None:
            return plan._replace(why="named")
        found = self._found
        if found is None or found.match is None or plan.known < found.match.known:
            return plan
        is_there = found.match.identifier in (plan.identifier, plan.parent)
        return plan._replace(why=found.why) if is_there else plan

    def _new_name(self) -> str:
        """The id of a new conversation for the exchange."""
        if self.named is None:
            return new_identifier()
        return self._recorder.own_name(self.named, self.scope)

    def _said_before(self) -> Plan | None:
        """A plan that files nothing, if the same request was made before and the answer is the same."""
        return None if self.response is None else self._known_reply(self.response)

    def _known_reply(self, response: Response) -> Plan | None:
        """A plan for an answer that is already stored after the request; None if it is not."""
        replied = self._continued(response)
        found = self._ledger.find(replied.space, replied.digests)
        if found is None or found[0] < replied.spoken:
            return None
        why = "question" if self._asked.unanswered == len(self._history) else "history"
        spot = found[1]
        return Plan("known", spot.identifier, len(replied.digests), spot.position, None, why)

    def _continued(self, response: Response) -> Asked:
        """The history with its answer."""
        if self._replied is None:
            digests = [*self._asked.digests, *self._chain.extend(response.canisters)]
            history = [*self._history, *response.canisters]
            self._replied = self._asked._replace(history=history, digests=digests)
        return self._replied

    # --- afterwards ----------------------------------------------------------------------------

    def complete(self) -> None:
        """File the complete exchange."""
        call, plan = self._call, self.plan
        self.size += call.answer_bytes
        self._take(call)
        if self.request is None:
            return
        response = self.response
        if response is None:
            self.abort()
            return
        position = 0
        if plan is not None and plan.kind != "known":
            position = self._take_place(plan, response)
        elif plan is not None:
            position = plan.position
        if self.reply_id is not None:
            history = self.request.conversation + response.canisters
            filed = None if plan is None else plan.identifier
            reply = Reply(filed, position, history, self.tools, self.scope)
            self._recorder.replies.put(self.reply_id, reply, self.size)
        if plan is not None:
            self._recorder.put(self)
        if self._recorder.is_on and self._replied is not None:
            start = len(self._asked.digests)
            digests = self._replied.digests[start:]
            own = self.dialect.name
            self._recorder.thoughts.remember(self.scope, response.canisters, digests, own)
            if plan is not None:
                self._recorder.delegations.remember(self.scope, plan.identifier, response.canisters)

    def _take_place(self, plan: Plan, response: Response) -> int:
        """Reserve the place of the answer; an answer already stored after the same question is not stored twice."""
        known = self._known_reply(response) if self.is_known(plan) else None
        if known is not None and known.identifier == plan.parent:
            position = known.position
            self.plan = plan._replace(kind="repeat", known=known.known, position=position)
            return position
        return self._ledger.claim(plan, self._continued(response), len(self._asked.digests))

    def _take(self, call: Call) -> None:
        """Take over the facts known at the end of a call."""
        self.usage, self.cost, self.losses = call.usage, call.cost, call.losses
        self.failed_upstreams = call.failed_upstreams
        now = perf_counter()
        self.seconds = round(now - call.started, 4)
        # A reply that waits for a durable record begins now.
        self.first_byte = round((call.first_byte or now) - call.started, 4)

    async def acknowledge(self) -> None:
        """File it and wait until it is durable, if configured; an error if it cannot be."""
        if self.plan is None or not self._recorder.acknowledges:
            self.complete()
            return
        self.recorded = asyncio.get_running_loop().create_future()
        self.complete()
        try:
            is_recorded = await asyncio.wait_for(self.recorded, _ACKNOWLEDGE_SECONDS)
        except TimeoutError:
            is_recorded = False
        if not is_recorded:
            raise refuse(503, "the exchange could not be recorded", code="not_recorded")

    def is_known(self, plan: Plan) -> bool:
        """Whether all of the request is stored, and something follows it."""
        return plan.kind == "fork" and self.is_all_asked(plan.known)

    def summaries(self) -> list[str]:
        """Possible summaries at the beginning of the history."""
        is_apart = self.named is not None or self.identity.kind == SUBAGENT
        return [] if is_apart else summaries_in(self._history)

    @property
    def last_asked(self) -> int:
        """The position of the last message with content."""
        return self._asked.spoken - 1

    def is_all_asked(self, known: int) -> bool:
        """Whether a number of messages includes all content of the history."""
        return known >= self._asked.spoken

    def history(self) -> list[AnyCanister]:
        """The request and as much of the answer as arrived."""
        said = () if self.response is None or self.is_aborted else self.response.canisters
        return [*self._history, *said]

    def spoken(self) -> Spoken | None:
        """The history with its known digests; None if there is no answer, or no question."""
        replied, owns = self._replied, self._chain.owns
        if (
            replied is None
            or self.is_aborted
            or beginning(self._history, owns) == len(self._history)
        ):
            return None
        digests = [
            None if own is None else one for one, own in zip(replied.digests, owns, strict=True)
        ]
        whole = Conversation.trusted(replied.history)
        asked = asked_before(whole, digests)
        says = frozenset(self._chain.links)
        session = self.identity.session
        return Spoken(whole, digests, owns, asked, session, says, is_sent=True)

    def model(self) -> str | None:
        """The requested model."""
        asked = self.asked_model or (None if self.request is None else self.request.model)
        return asked if isinstance(asked, str) else None

    def record(self, outcome: str, when: str, gateway: str) -> ExchangeRecord:
        """The usage record of an exchange; one that could not be filed costs the same."""
        plan, response = self.plan, None if self.is_aborted else self.response
        position = 0
        if plan is not None:
            is_there = plan.kind in ("known", "repeat")
            position = (
                plan.position if is_there else plan.position + len(self.history()) - plan.known
            )
        finish = None if response is None else response.finish
        usage = self.usage or Usage()
        return ExchangeRecord(
            time=when,
            request_id=self.request_id,
            gateway=gateway,
            conversation=self.filed or "",
            position=position,
            outcome=outcome,
            dialect=self.dialect.name,
            upstream=self.upstream,
            failed_upstreams=self.failed_upstreams,
            model=response.model
            if response is not None and isinstance(response.model, str)
            else None,
            reply=self.reply_id,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_read_tokens=0 if usage.cache_read is absent else int(usage.cache_read),
            cache_write_tokens=0 if usage.cache_write is absent else int(usage.cache_write),
            cost=None if self.cost is None else self.cost.dollars,
            key=self.scope,
            client=self.identity.client or None,
            session=self.identity.session or None,
            kind=self.identity.kind or None,
            why="new" if plan is None else plan.why,
            finish=finish.value if isinstance(finish, FinishReason) else None,
            losses=tuple(sorted({loss.code for loss in self.losses})) if self.losses else (),
            first_byte=self.first_byte,
            seconds=self.seconds,
        )

    def retract(self) -> None:
        """Remove the exchange from the ledger, because it was not filed."""
        if self.plan is not None and self.plan.kind != "known":
            self._ledger.retract(self.plan, self._replied or self._asked)

    def forget(self) -> None:
        """Let the store find the history next time, because it was filed elsewhere than planned."""
        self.retract()
        self._ledger.forget(self._replied or self._asked)

    def account(self) -> None:
        """Record the usage of a call that is not a conversation."""
        self._take(self._call)
        self._recorder.put(self)

    def cancel(self) -> None:
        """Record the usage of a call whose caller left before any answer."""
        self.is_aborted = True
        self.account()

    def abort(self) -> None:
        """File the request, and mark the answer as broken off."""
        if self.plan is None:
            return
        self.is_aborted = True
        self._take(self._call)
        self._ledger.give_up(self.plan, self._claimed)
        if self.is_known(self.plan):
            # The request is a repetition, without an answer this time.
            self.plan = self.plan._replace(kind="repeat", known=len(self._asked.digests))
        self._recorder.put(self)


def _named(call: Call) -> str | None:
    """The conversation that the caller names, if it does."""
    named = call.header("x-cannery-conversation")
    if named is None:
        return None
    if not is_name(str(named)):
        message = "X-Cannery-Conversation must be 1 to 64 of 0-9, a-z, '_' and '-', and begin with a letter or digit"
        raise refuse(400, message, code="invalid_conversation")
    return str(named)

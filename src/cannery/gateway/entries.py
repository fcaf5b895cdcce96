"""One exchange on its way into the record: what was asked, what was said, and the conversation that both belong to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from cannery.errors import CanneryError
from cannery.gateway.calls import Call
from cannery.gateway.identifiers import is_name, new_identifier
from cannery.gateway.ledger import Digest, Plan, Spot, named_key
from cannery.gateway.prices import Cost
from cannery.gateway.refusals import refuse
from cannery.gateway.replies import Reply
from cannery.messages import AnyCanister, Request, Response, Role, Usage
from cannery.messages.identity import PrefixChain
from cannery.storage.history import without_setup
from cannery.wire.losses import Loss
from cannery.wire.places import Places

if TYPE_CHECKING:
    from cannery.gateway.recorder import Recorder

_SPOKEN_BY_MODELS = frozenset({Role.Assistant, Role.Invocation, Role.Result})
_LOOKUP_SECONDS = 0.05
_ACKNOWLEDGE_SECONDS = 30.0


class Entry:
    """An exchange to be filed."""

    __slots__ = (
        "_call",
        "_chain",
        "_claimed",
        "_digests",
        "_is_read",
        "_ledger",
        "_lookup",
        "_recorder",
        "_reply",
        "body",
        "cost",
        "dialect",
        "failed_upstreams",
        "filed",
        "is_aborted",
        "is_stream",
        "losses",
        "named",
        "plan",
        "recorded",
        "reply_id",
        "request",
        "request_id",
        "response",
        "said",
        "scope",
        "size",
        "tools",
        "upstream",
        "usage",
    )

    def __init__(self, recorder: Recorder, call: Call) -> None:
        self._recorder = recorder
        self._call = call
        self._digests: list[Digest | None] = []
        self._reply: list[Digest | None] | None = None
        self._chain = PrefixChain(reasoning=False)
        self._lookup: Future[tuple[int, Spot, int] | None] | None = None
        self._claimed = 0
        self._is_read = False
        self.size = len(call.body)
        self.body = b""
        self.named = _named(call)
        self.dialect = call.dialect
        self.upstream = call.upstream
        self.request_id = call.request_id
        self.scope = call.store_scope
        self._ledger = recorder.ledger_of(self.scope)
        self.request: Request | None = None
        self.response: Response | None = None
        self.said: bytes | None = None
        self.plan: Plan | None = None
        self.filed: str | None = None
        self.recorded: asyncio.Future[bool] | None = None
        self.reply_id: str | None = None
        self.tools: Any = None
        self.usage: Usage | None = None
        self.cost: Cost | None = None
        self.losses: tuple[Loss, ...] = ()
        self.failed_upstreams: tuple[str, ...] = ()
        self.is_stream = call.stream
        self.is_aborted = False

    # --- while the upstream thinks -------------------------------------------------------------

    def read(self) -> None:
        """Read the history, once, and recognise it; a call that cannot be read is not recorded.

        It takes the loop's time while the upstream thinks, unless the upstream is faster than a turn of the loop.
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
        self._recognise()

    def _recognise(self) -> None:
        """Recognise the history, or ask the store for it."""
        if self.request is None or not self._recorder.is_on:
            return
        history = self.request.conversation
        digests = self._continue(history)
        # A caller who names a conversation means that one, whatever else begins so.
        self._digests = digests if self.named else without_setup(history, digests)
        if self._ledger.find(self._digests) is None and (
            self.named or any(canister.role in _SPOKEN_BY_MODELS for canister in history)
        ):
            self._lookup = self._recorder.look_up(self._digests, self.named, self.scope)

    def _continue(self, canisters: Iterable[AnyCanister]) -> list[Digest | None]:
        """The digests after more of the history, by which the ledger knows it; a named one is known by its name."""
        digests = self._chain.extend(canisters)
        if self.named is None:
            return digests
        return [None if digest is None else named_key(self.named, digest) for digest in digests]

    async def ready(self) -> None:
        """Wait for the store's answer, but not for long."""
        self.read()
        if self._lookup is None:
            return
        try:
            found = await asyncio.wait_for(asyncio.wrap_future(self._lookup), _LOOKUP_SECONDS)
        except TimeoutError:
            return
        if found is not None:
            known, spot, end = found
            digest = self._digests[known - 1]
            if digest is not None:
                self._ledger.learn(digest, spot, end)

    # --- before the first byte -----------------------------------------------------------------

    def settle(
        self, call: Call, *, response: Response | None = None, said: bytes | None = None
    ) -> None:
        """Decide where the exchange is filed, and name that conversation in the reply."""
        self.response, self.said = response, said
        if self.request is None or not self._recorder.is_on:
            return
        ledger = self._ledger
        plan = ledger.plan(self._digests, self._said_before)
        if plan is None:
            plan = Plan("new", self.named or new_identifier())
        self.plan = plan
        if plan.kind != "known":
            self._claimed = ledger.claim(plan, self._digests, plan.known, is_held=True)
        call.conversation = plan.identifier

    def _said_before(self) -> Plan | None:
        """A plan that files nothing, if the same was asked before and the answer is the same."""
        response = self._read_response()
        if response is None or self.request is None:
            return None
        self._reply = self._continue(response.canisters)
        digests = self._digests + self._reply
        found = self._ledger.find(digests)
        if found is None or found[0] < len(_last_spoken(digests)):
            return None
        return Plan("known", found[1].identifier, len(digests), found[1].position)

    def _read_response(self) -> Response | None:
        if self.response is None and self.said is not None and not self.is_stream:
            try:
                self.response = self.dialect.read_response(self.said, Places())
            except CanneryError:
                return None
        return self.response

    # --- afterwards ----------------------------------------------------------------------------

    def complete(self) -> None:
        """File it: everything was said."""
        call, plan = self._call, self.plan
        self.size += call.answer_bytes
        self._take(call)
        if self.request is None:
            return
        response = self._read_response()
        if response is None:
            self.abort()
            return
        position = 0
        if plan is not None and plan.kind != "known":
            if self._reply is None:
                self._reply = self._continue(response.canisters)
            start = len(self._digests)
            position = self._ledger.claim(plan, self._digests + self._reply, start)
        elif plan is not None:
            position = plan.position
        if self.reply_id is not None:
            history = self.request.conversation + response.canisters
            filed = None if plan is None else plan.identifier
            reply = Reply(filed, position, history, self.tools, self.scope)
            self._recorder.replies.put(self.reply_id, reply, self.size)
        if plan is not None:
            self._recorder.put(self)

    def _take(self, call: Call) -> None:
        """Take over what is known at the end of a call."""
        self.usage, self.cost, self.losses = call.usage, call.cost, call.losses
        self.failed_upstreams = call.failed_upstreams

    async def acknowledge(self) -> None:
        """File it and wait until it is durable, if the configuration asks for that; an error if it cannot be."""
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

    def history(self) -> list[AnyCanister]:
        """What was asked and what was said, as far as it was."""
        asked = () if self.request is None else self.request.conversation
        said = () if self.response is None or self.is_aborted else self.response.canisters
        return [*asked, *said]

    def model(self) -> str | None:
        """The model that answered, or was asked."""
        told = self.request if self.response is None or self.is_aborted else self.response
        return told.model if told is not None and isinstance(told.model, str) else None

    def retract(self) -> None:
        """Take back what the ledger was told: nothing of it was filed."""
        if self.plan is not None and self.plan.kind != "known":
            self._ledger.retract(self.plan, self._digests + (self._reply or []))

    def abort(self) -> None:
        """File what was asked, and that the answer was broken off."""
        if self.plan is None:
            return
        self.is_aborted = True
        self._take(self._call)
        self._ledger.give_up(self.plan, self._claimed)
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


def _last_spoken(digests: list[Digest | None]) -> list[Digest | None]:
    """A history without what adds nothing at its end."""
    end = len(digests)
    while end and digests[end - 1] is None:
        end -= 1
    return digests[:end]

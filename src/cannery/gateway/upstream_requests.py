"""Prepares the request to an upstream: the row, the dialect and the bytes.

A body passes through unchanged when the caller and the upstream use the same dialect and
nothing in it has to change; otherwise it goes through the model. While the upstream works, only
the bytes that were sent to it and those to be recorded are held.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from cannery.gateway.calls import Call
from cannery.gateway.clients import without_billing
from cannery.gateway.continuation import Continuation, State, take_state
from cannery.gateway.entries import Entry
from cannery.gateway.fallback import Stickiness
from cannery.gateway.forwarding import to_upstream
from cannery.gateway.ingress import RoleGate
from cannery.gateway.keys import forwarded_query, holds_secret
from cannery.gateway.metrics import Metrics
from cannery.gateway.peek import Glance, glance
from cannery.gateway.recorder import Recorder
from cannery.gateway.refusals import refuse
from cannery.gateway.upstream_client import Outgoing
from cannery.gateway.upstreams import Choice, Upstream, Upstreams
from cannery.messages import Request, absent
from cannery.translation import nativize_read_request
from cannery.wire.contract import Dialect, StreamOptions
from cannery.wire.losses import POLICIES, Aliases, Rendered
from cannery.wire.places import Places

_NO_OPTIONS = StreamOptions()
_NO_ALIASES = Aliases()
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Asked:
    """A call in the form of its upstream; ``echoed`` is the request that the gateway answers itself."""

    __slots__ = (
        "_wire",
        "aliases",
        "dialect",
        "echoed",
        "entry",
        "is_as_it_came",
        "options",
        "upstream",
    )

    def __init__(
        self,
        upstream: Upstream,
        dialect: Dialect,
        entry: Entry | None,
        wire: Outgoing | None = None,
        *,
        options: StreamOptions = _NO_OPTIONS,
        aliases: Aliases = _NO_ALIASES,
        echoed: Request | None = None,
        is_as_it_came: bool = False,
    ) -> None:
        self.upstream = upstream
        self.dialect = dialect
        self.entry = entry
        self.options = options
        self.aliases = aliases
        self.echoed = echoed
        self.is_as_it_came = is_as_it_came
        self._wire = wire

    def take_wire(self) -> Outgoing:
        """The bytes to send, which are released here: a stream may take long."""
        wire, self._wire = self._wire, None
        if wire is None:
            raise RuntimeError("the bytes to send were already taken")
        return wire


class Asking:
    """Prepares the upstream requests of calls."""

    def __init__(
        self,
        upstreams: Upstreams,
        *,
        roles: RoleGate,
        metrics: Metrics,
        recorder: Recorder,
        policy: str,
        hosted: str,
        keeps_bodies: bool,
        stickiness: Stickiness,
    ) -> None:
        self._upstreams = upstreams
        self._roles = roles
        self._metrics = metrics
        self._recorder = recorder
        self._state = State(recorder)
        self.stickiness = stickiness
        self._policy = policy
        self._hosted = hosted
        self._keeps_bodies = keeps_bodies

    async def prepare(self, call: Call) -> Asked:
        """The request and the upstream of a call; an error is raised if it cannot be sent."""
        seen = self._look(call)
        if call.model is None and seen is not None:
            call.model = seen.model
        if seen is not None and seen.stream:
            call.stream = True
        asked = None
        if seen is not None and seen.has_exact_roles and not seen.is_stateful:
            self._roles.pass_exact(seen.messages)
            choice = self.choose(call)
            if _can_pass(call, choice):
                asked = self._as_it_came(call, choice, seen)
        else:
            call.body = self._roles.normalize(call, call.dialect, call.body)
        if asked is None:
            asked = await self._translated(call, seen)
        if not self._keeps_bodies:
            call.body = b""
        return asked

    def _look(self, call: Call) -> Glance | None:
        """The routing facts of a body."""
        return glance(call.dialect, call.body)

    def choose(self, call: Call) -> Choice:
        """The upstream of a call."""
        if not call.candidates:
            call.candidates = self._upstreams.candidates(call.model)
            if len(call.candidates) > 1:
                call.candidates = self.stickiness.order(call, call.candidates)
        choice = call.candidates[call.attempt]
        call.upstream, call.upstream_model = choice.upstream.name, choice.model
        return choice

    def read(self, call: Call) -> tuple[Request, Choice]:
        """The request of a call, and its upstream."""
        request = call.dialect.read_request(call.body, Places())
        if call.model is None and isinstance(request.model, str):
            call.model = request.model
        return request, self.choose(call)

    def wire(
        self,
        call: Call,
        choice: Choice,
        target: Dialect,
        kind: str,
        body: bytes,
        wanted: Mapping[str, str] = _NO_HEADERS,
    ) -> Outgoing:
        """The upstream request, with the headers that its server requires with the body."""
        upstream = choice.upstream
        is_same = target is call.dialect
        headers = to_upstream(call, upstream, target)
        if not is_same:
            # A client of the same dialect has sent them itself.
            for name, value in wanted.items():
                headers[name] = ",".join(filter(None, (headers.get(name), value)))
        url = upstream.url(target, kind, choice.model)
        streams = target.service.streams
        if kind == "stream" and streams.query:
            url = f"{url}{'&' if '?' in url else '?'}{streams.query}"
        elif is_same:
            query = forwarded_query(call)
            url = f"{url}{'&' if '?' in url else '?'}{query}" if query else url
        if holds_secret(call, url) or holds_secret(call, call.model or ""):
            raise refuse(400, "a key of the gateway cannot name a model", code="invalid_model")
        body = upstream.body(target, kind, body, headers)
        if upstream.signer is not None:
            headers = upstream.signer.sign("POST", url, headers, body)
        if body is not call.body:
            # It is held while the upstream works, and an encoder's buffer may be ten times its size.
            body = bytes(memoryview(body))
        return Outgoing(url, headers, body)

    # --- as it came ----------------------------------------------------------------------------

    def _as_it_came(self, call: Call, choice: Choice, seen: Glance) -> Asked:
        call.is_stateful = seen.is_continuable
        self._metrics.passed.add(choice.upstream.name)
        entry = self._recorder.open(call)
        if entry is not None:
            # Parsing the history uses the event loop while the upstream works.
            entry.body = call.body
            asyncio.get_running_loop().call_soon(entry.read)
        wire = self.wire(call, choice, call.dialect, _kind(call), call.body)
        return Asked(choice.upstream, call.dialect, entry, wire, is_as_it_came=True)

    # --- through the model ---------------------------------------------------------------------

    async def _translated(self, call: Call, seen: Glance | None) -> Asked:
        wanted = Continuation(call.body) if _is_plain(call, seen) else take_state(call)
        request, choice = await self._read(call, wanted)
        if isinstance(request.stream, bool):
            call.stream = call.stream or request.stream
        policy = self.policy(call)
        upstream = choice.upstream
        entry = self._recorder.open(call)
        if entry is not None:
            entry.request = request
            entry.body = call.body
            entry.tools = wanted.tools
            entry.named = entry.named or wanted.conversation
        if upstream.is_echo:
            options = _options(call, request, _NO_ALIASES)
            return Asked(upstream, call.dialect, entry, options=options, echoed=request)
        target = upstream.dialect_for(call.dialect)
        sent = request
        if target is not call.dialect:
            sent = without_billing(sent, wanted.places)
            if entry is not None:
                sent = await entry.put_back(sent, target, wanted.places)
        rendered = self._render(call, sent, choice, target, policy, wanted.places)
        if entry is not None:
            asyncio.get_running_loop().call_soon(entry.read)
        wire = self.wire(call, choice, target, _kind(call), rendered.body, rendered.headers)
        aliases = rendered.aliases
        options = _NO_OPTIONS
        if call.stream:
            options = msgspec.structs.replace(_options(call, request, aliases), hosted=self._hosted)
        return Asked(upstream, target, entry, wire, options=options, aliases=aliases)

    async def _read(self, call: Call, wanted: Continuation) -> tuple[Request, Choice]:
        """The request of a call with its whole history, and its upstream."""
        if call.model is not None:
            choice = self.choose(call)
            is_same = call.dialect in choice.upstream.dialects and not choice.upstream.is_echo
            if not is_same:
                wanted.refuse_unserved()
            return await self._state.expand(call, wanted, is_same=is_same), choice
        wanted.refuse_unserved()
        request = await self._state.expand(call, wanted, is_same=False)
        if isinstance(request.model, str):
            call.model = request.model
        return request, self.choose(call)

    def policy(self, call: Call) -> str:
        """The caller's policy for losses."""
        asked = call.header("x-cannery-loss-policy")
        if asked is None:
            return self._policy
        policy = str(asked).strip().lower()
        if policy not in POLICIES:
            raise refuse(400, f"X-Cannery-Loss-Policy must be one of {', '.join(POLICIES)}")
        return policy

    def _render(
        self,
        call: Call,
        request: Request,
        choice: Choice,
        target: Dialect,
        policy: str,
        places: Places,
    ) -> Rendered:
        upstream = choice.upstream
        changes: dict[str, Any] = {}
        if choice.model is not None and request.model != choice.model:
            changes["model"] = choice.model
        if call.stream != request.stream and (call.stream or request.stream is not absent):
            changes["stream"] = call.stream
        if call.stream and not target.service.streams.tells_usage and target is not call.dialect:
            changes["controls"] = msgspec.structs.replace(request.controls, include_usage=True)
        if changes:
            request = request.replace(**changes)
        rendered = nativize_read_request(
            request,
            target.name,
            places,
            policy=policy,
            hosted=self._hosted,
            without=upstream.row.without_repairs,
            rules=upstream.rules(target, choice.model),
        )
        call.losses, call.repairs = rendered.losses, rendered.repairs
        return rendered


def _can_pass(call: Call, choice: Choice) -> bool:
    return (
        not choice.upstream.is_echo
        and choice.model == call.model
        and call.dialect in choice.upstream.dialects
    )


def _kind(call: Call) -> str:
    return "stream" if call.stream else "generate"


def _options(call: Call, request: Request, aliases: Aliases) -> StreamOptions:
    asked = request.controls.include_usage is True
    return StreamOptions(
        include_usage=asked, aliases=aliases, model=call.model, created=int(time.time())
    )


def _is_plain(call: Call, seen: Glance | None) -> bool:
    """Whether a body has no state fields."""
    if call.dialect.service.continuing.reply:
        return False
    return seen is not None and not seen.is_stateful

"""The application that the HTTP server calls: one method for every request, and the only general exception handler.

``configure`` replaces the whole set of components at once; active calls finish in the old ones.
"""

from __future__ import annotations

import asyncio
import os
from time import perf_counter

from cannery.errors import CanneryError, LossError
from cannery.gateway.admission import Admission
from cannery.gateway.calls import Call, Sentry
from cannery.gateway.envelopes import open_body
from cannery.gateway.exchange import Exchanges, Lasting
from cannery.gateway.fallback import Stickiness
from cannery.gateway.hosts import Hosts
from cannery.gateway.ingress import RoleGate, check_head, hear_out, read_body
from cannery.gateway.keys import Keyring
from cannery.gateway.logs import Log
from cannery.gateway.metrics import Metrics
from cannery.gateway.operations import Operations
from cannery.gateway.origins import Origins
from cannery.gateway.prices import Prices
from cannery.gateway.quotas import Quotas
from cannery.gateway.recorder import Recorder
from cannery.gateway.refusals import CallError, NoAnswerError, body_of, kind_of, refuse, to_refusal
from cannery.gateway.routing import Match, Router
from cannery.gateway.rsgi import HTTPProtocol, ProtocolClosed, Scope
from cannery.gateway.running import Running
from cannery.gateway.settings import Settings
from cannery.gateway.signing import read_claim
from cannery.gateway.spending import Spending
from cannery.gateway.telemetry import Telemetry
from cannery.gateway.upstreams import Upstreams
from cannery.messages import Usage, absent
from cannery.wire.losses import real_losses

_GENERATING = frozenset({"generate", "stream"})
_SHUTTING_DOWN = refuse(
    503, "the gateway is shutting down", code="overloaded", headers=[("retry-after", "1")]
)


class Gateway:
    """Answers HTTP requests."""

    def __init__(self, settings: Settings, log: Log, recorder: Recorder) -> None:
        self.router = Router()
        self.metrics = Metrics()
        self.log = log
        self.recorder = recorder
        recorder.metrics = self.metrics
        self.active = 0
        self.is_draining = False
        self.telemetry = Telemetry.of(log)
        self.roles = RoleGate(None, development=False)
        self.lasting = Lasting(self.metrics, Prices(), Stickiness(), Running())
        self.quotas = Quotas()
        self.spending = Spending(recorder, self.quotas, self._has_budgets, log)
        self.sentry = Sentry(settings.limits.body_seconds)
        self.admission = Admission(settings.limits, lambda: recorder.waiting_bytes)
        self.exchanges = self._apply(settings)
        self.operations = Operations(self)

    def configure(self, settings: Settings) -> None:
        """Apply new settings; active calls keep the old ones."""
        self.exchanges = self._apply(settings)

    def _apply(self, settings: Settings) -> Exchanges:
        """Change simple settings in place, and rebuild the rest; every problem is found before anything changes."""
        mappings = settings.role_mappings
        upstreams = Upstreams(settings, os.environ)
        keys = Keyring.of(settings.keys, os.environ)
        exchanges = Exchanges(
            upstreams,
            roles=self.roles,
            recorder=self.recorder,
            settings=settings,
            # A span records the fields of the request body.
            keeps_bodies=self.telemetry is not None,
            lasting=self.lasting,
            note_failure=self._note_failure,
        )
        self.keys = keys
        self.hosts = Hosts(settings.server.host, settings.server.hosts)
        self.origins = Origins(settings.server.origins, has_keys=bool(keys))
        self.settings = settings
        self.limits = self.admission.limits = settings.limits
        self.sentry.body_seconds = settings.limits.body_seconds
        self.roles.configure(mappings, development=settings.server.development)
        self.log.set_level(settings.server.log_level)
        for row in settings.upstreams:
            missing = [name for name in row.key_variables if not os.environ.get(name)]
            if missing:
                self.log.write("warning", "key_missing", upstream=row.name, variables=missing)
        return exchanges

    def _has_budgets(self) -> bool:
        return any(key.limits.has_budget for key in self.keys.keys)

    async def __rsgi__(self, scope: Scope, proto: HTTPProtocol) -> None:
        """Answer one request."""
        if scope.host not in self.hosts.known:
            refusal = self.hosts.refusal(scope.host)
            if refusal is not None:
                await self.operations.refuse(scope, proto, refusal)
                return
        match = self.router.find(scope.method, scope.path, scope.headers.get)
        if not isinstance(match, Match):
            await self.operations.answer(scope, proto, match)
            return
        call = Call(scope, proto, match, match.kind)
        call.model = match.model
        self.active += 1
        self.sentry.enter(call)
        try:
            await self._answer(call)
        except CanneryError as error:
            await hear_out(call, self.limits)
            self._refuse(call, error)
        except ProtocolClosed:
            call.status = 499
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not call.is_gone or task is None:
                raise
            task.uncancel()
            if call.is_cut and not call.status:
                self._refuse(call, _SHUTTING_DOWN)
            call.status = call.status or 499
        except Exception as error:  # noqa: BLE001 - the gateway's edge: whatever it is, the caller gets an answer
            self.log.write("error", "defect", request_id=call.request_id, problem=repr(error)[:500])
            self._refuse(
                call, refuse(500, "internal error of the gateway; see its log", code="internal")
            )
        finally:
            self.active -= 1
            self.sentry.leave(call)
            self.admission.leave(call)
            self._account(call)

    async def _answer(self, call: Call) -> None:
        if self.active > self.limits.concurrent_calls or self.is_draining:
            raise refuse(
                503, "the gateway is busy", code="overloaded", headers=[("retry-after", "1")]
            )
        origin = call.header("origin")
        if origin is not None:
            self.check_origin(call, origin)
        if self.keys:
            if read_claim(call.header("authorization")) is not None:
                # The signature covers the body too.
                call.body = await self.read_body(call)
            self.keys.admit(call)
            if call.key is not None:
                self.quotas.check(call.key)
        if call.kind in _GENERATING:
            call.body = open_body(call, await self.read_body(call))
            await self.exchanges.answer(call)
        else:
            check_head(call, self.limits)
            await self.operations.inform(call)

    async def read_body(self, call: Call) -> bytes:
        """The body of a call, which waits its turn if it is large."""
        return await read_body(call, self.limits, self.admission)

    def check_origin(self, call: Call, origin: str) -> None:
        """Refuse a page that may not call; a permitted page may also read the answer."""
        call.more_headers = self.origins.headers(origin)
        refusal = self.origins.refusal(origin)
        if refusal is not None:
            raise refusal

    def _refuse(self, call: Call, error: CanneryError) -> None:
        """Answer with an error, unless an answer has already begun."""
        if isinstance(error, NoAnswerError):
            self._note_failure(call, error)
        elif isinstance(error, LossError):
            call.losses = error.losses
        if call.status:
            call.scope.is_truncated = True
            return
        refusal = to_refusal(error)
        headers = call.headers() + refusal.headers + kind_of(refusal, call.endpoint)
        body = body_of(refusal, call.endpoint, call.upstream_id or call.request_id)
        try:
            call.reply(refusal.error.status, headers, body)
        except RuntimeError:
            # The caller has disconnected.
            call.status = 499

    def _note_failure(self, call: Call, error: NoAnswerError) -> None:
        """Count an upstream failure, and log its reason."""
        self.metrics.failures.add(error.upstream, error.code)
        self.log.write(
            "warning",
            "upstream_failed",
            request_id=call.request_id,
            upstream=error.upstream,
            code=error.code,
            problem=error.problem,
        )

    def _account(self, call: Call) -> None:
        now = perf_counter()
        metrics = self.metrics
        name, upstream, status = call.dialect.name, call.upstream, str(call.status)
        metrics.calls.add(name, upstream, call.kind, status)
        metrics.seconds.observe(now - call.started, name, upstream)
        if call.first_byte:
            metrics.first_byte.observe(call.first_byte - call.started, name, upstream)
        if call.usage is not None or call.key is not None:
            self._account_use(call)
        for loss in real_losses(call.losses):
            metrics.losses.add(loss.code)
        for repair in call.repairs:
            metrics.repairs.add(repair.name)
        if self.log.is_info:
            self._log(call, now)
        if self.telemetry is not None:
            self.telemetry.end(call, self.exchanges.upstreams.find(call.upstream))

    def _account_use(self, call: Call) -> None:
        """Count tokens, dollars and calls, in total and for the key."""
        metrics, key = self.metrics, call.key
        name = "" if key is None else key.name
        if key is not None:
            metrics.by_key.add(name, call.kind, str(call.status))
        for direction, count in _directions(call.usage):
            metrics.tokens.add(call.upstream, direction, by=count)
            if key is not None:
                metrics.key_tokens.add(name, direction, by=count)
        if call.usage is not None and call.usage.input:
            read = 0 if call.usage.cache_read is absent else call.usage.cache_read
            metrics.cached.add(call.upstream, part=read, whole=call.usage.input)
        if call.cost is not None:
            metrics.cost.add(call.upstream, call.cost.model, name, by=call.cost.dollars)
            if key is not None:
                self.quotas.spend(key, call.cost.dollars)

    def _log(self, call: Call, now: float) -> None:
        self.log.write(
            "info",
            "call",
            request_id=call.request_id,
            dialect=call.dialect.name,
            kind=call.kind,
            upstream=call.upstream,
            failed_upstreams=call.failed_upstreams,
            status=call.status,
            stream=call.stream,
            seconds=round(now - call.started, 6),
            input_tokens=call.tokens[0],
            output_tokens=call.tokens[1],
            cost=None if call.cost is None else call.cost.dollars,
            key=None if call.key is None else call.key.name,
            losses=len(real_losses(call.losses)),
            conversation=call.conversation,
        )
        if self.log.is_debug and (call.losses or call.repairs):
            self.log.write(
                "debug",
                "translation",
                request_id=call.request_id,
                losses=call.losses,
                repairs=call.repairs,
            )


def _directions(usage: Usage | None) -> list[tuple[str, int]]:
    """The non-zero counts of an answer; cache reads and writes are included in the input."""
    if usage is None:
        return []
    found = [("input", usage.input), ("output", usage.output)]
    if usage.cache_read is not absent:
        found.append(("cache_read", usage.cache_read))
    if usage.cache_write is not absent:
        found.append(("cache_write", usage.cache_write))
    return [(name, count) for name, count in found if count]


__all__ = ["CallError", "Gateway"]

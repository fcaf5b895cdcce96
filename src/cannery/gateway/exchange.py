"""One exchange: sends the request of a call to an upstream, and the answer to the caller.

The recorder gets the exchange once the caller has been served.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from cannery.errors import CanneryError, DialectError
from cannery.gateway import echo
from cannery.gateway.calls import Call
from cannery.gateway.continuation import new_reply_id
from cannery.gateway.entries import Entry
from cannery.gateway.envelopes import Unpacked
from cannery.gateway.estimates import estimate, has_budget, is_told
from cannery.gateway.fallback import Stickiness, is_transient
from cannery.gateway.first_event import BegunStream
from cannery.gateway.forwarding import to_caller
from cannery.gateway.ingress import RoleGate
from cannery.gateway.metrics import Metrics
from cannery.gateway.model_lists import ModelLists
from cannery.gateway.peek import gist
from cannery.gateway.prices import Prices
from cannery.gateway.recorder import Recorder
from cannery.gateway.refusals import (
    CallError,
    Header,
    NoAnswerError,
    UpstreamRefusalError,
    not_a_reply,
)
from cannery.gateway.relays import Relay, Translation
from cannery.gateway.reply_writer import ReplyWriter
from cannery.gateway.rsgi import ProtocolClosed, Transport
from cannery.gateway.running import Running
from cannery.gateway.settings import Settings
from cannery.gateway.upstream_client import Answer, Heard, Opened, Sender
from cannery.gateway.upstream_requests import Asked, Asking
from cannery.gateway.upstreams import Choice, Upstream, Upstreams
from cannery.messages import Failure, Folder, Request, Response, Usage, absent
from cannery.translation import (
    nativize_response,
    unaliased,
)
from cannery.wire.bodies import encode, read_value
from cannery.wire.contract import Dialect, WireError
from cannery.wire.losses import Loss
from cannery.wire.places import Places

# Higher status codes are undefined (RFC 9110, section 15).
_LAST_STATUS = 599
_STREAM_HEADERS: list[Header] = [("cache-control", "no-cache"), ("x-accel-buffering", "no")]


class Lasting(NamedTuple):
    """Objects that survive a change of the configuration."""

    metrics: Metrics
    prices: Prices
    stickiness: Stickiness
    running: Running


class Exchanges:
    """Answers calls for a reply of a model."""

    def __init__(
        self,
        upstreams: Upstreams,
        *,
        roles: RoleGate,
        recorder: Recorder,
        settings: Settings,
        keeps_bodies: bool,
        lasting: Lasting,
        note_failure: Callable[[Call, NoAnswerError], None],
    ) -> None:
        self.upstreams = upstreams
        self.senders: Mapping[str, Sender] = {
            upstream.name: Sender(upstream.row, settings.limits.reply_bytes)
            for upstream in upstreams.all
            if not upstream.is_echo
        }
        self.models = ModelLists(upstreams, self.senders)
        self.asking = Asking(
            upstreams,
            roles=roles,
            metrics=lasting.metrics,
            recorder=recorder,
            policy=settings.losses.policy,
            hosted=settings.losses.hosted,
            keeps_bodies=keeps_bodies,
            stickiness=lasting.stickiness,
        )
        self._hosted = settings.losses.hosted
        self._metrics = lasting.metrics
        self._note_failure = note_failure
        self._prices = lasting.prices
        self._running = lasting.running
        self._acknowledges = recorder.acknowledges
        self._reply_bytes = settings.limits.reply_bytes
        self._ping_seconds = settings.server.ping_seconds

    async def answer(self, call: Call) -> None:
        """Answer a call; an error is raised before any part of the answer is sent."""
        body = call.body
        idle = call.dialect.service.idle
        told = None if idle is None else idle(body)
        if told is not None:
            call.model = told["model"]
            self.asking.choose(call)
            call.reply(200, call.headers(), encode(told))
            return
        while True:
            asked = await self.asking.prepare(call)
            if len(call.candidates) < 2:
                # It is kept only if another upstream may have to be tried.
                body = b""
            entry = asked.entry
            if entry is not None:
                self._running.begin(entry)
            try:
                await self._say(call, asked)
            except CanneryError as failure:
                if call.status or call.attempt + 1 >= len(call.candidates):
                    raise
                if not is_transient(failure):
                    raise
                self._fall_back(call, body, failure)
                continue
            except asyncio.CancelledError:
                if call.usage is None and has_budget(call):
                    # The request costs money, whether or not the caller waits for the answer.
                    self._charge(call, estimate(call, 0))
                    if entry is not None:
                        entry.cancel()
                raise
            finally:
                if entry is not None:
                    self._running.end(entry)
            self.asking.stickiness.remember(call)
            return

    async def _say(self, call: Call, asked: Asked) -> None:
        if asked.echoed is not None:
            await self._echo(call, asked.echoed, asked)
        elif call.stream:
            await self._say_stream(call, asked)
        else:
            await self._say_whole(call, asked)

    def _fall_back(self, call: Call, body: bytes, failure: CanneryError) -> None:
        """Switch to the next candidate, and log it."""
        if isinstance(failure, NoAnswerError):
            self._note_failure(call, failure)
        failed = call.upstream
        call.fall_back(body)
        self._metrics.fallbacks.add(failed, call.candidates[call.attempt].upstream.name)
        call.failed_upstreams += (failed,)

    async def count(self, call: Call, choice: Choice, body: bytes) -> bytes:
        """The token count of a body by an upstream of the caller's dialect."""
        upstream, dialect = choice.upstream, call.dialect
        wire = self.asking.wire(call, choice, dialect, "count", body)
        answer = await self.senders[upstream.name].send(wire)
        self._take_headers(call, answer)
        if answer.status != 200:
            raise self._upstream_refusal(call, dialect, answer)
        if not _is_json(dialect, answer.body):
            raise not_a_reply(upstream.name, dialect, answer.body)
        return answer.body

    # --- whole -----------------------------------------------------------------------------------

    async def _say_whole(self, call: Call, asked: Asked) -> None:
        answer = await self.senders[asked.upstream.name].send(asked.take_wire())
        self._take_headers(call, answer)
        if answer.status != 200:
            raise self._upstream_refusal(call, asked.dialect, answer)
        if asked.is_as_it_came:
            await self._hand_on(call, asked, answer.body)
            return
        response = self._read_response(asked.dialect, asked.upstream, answer.body)
        await self._reply_whole(call, unaliased(response, asked.aliases), asked.entry)

    async def _hand_on(self, call: Call, asked: Asked, body: bytes) -> None:
        """Forward a reply unchanged, read once: whole if it is recorded or charged to a budget."""
        entry = asked.entry
        is_limited = has_budget(call)
        response = _heard(call.dialect, body) if entry is not None or is_limited else None
        identifier: str | None = None
        if response is not None:
            self._take_usage(call, response)
            identifier = response.identifier if isinstance(response.identifier, str) else None
        else:
            told = gist(call.dialect, body)
            if told is None:
                raise not_a_reply(asked.upstream.name, call.dialect, body)
            is_known = not is_limited or is_told(told.usage)
            self._charge(call, told.usage if is_known else estimate(call, len(body)))
            call.answered = body
            identifier = told.identifier
        if entry is not None:
            await entry.ready()
            entry.reply_id = identifier if call.is_stateful else None
            entry.settle(call, response)
        await self._end_whole(call, body, entry)

    async def _reply_whole(self, call: Call, response: Response, entry: Entry | None) -> None:
        self._take_usage(call, response)
        response = _named(response, call)
        written = nativize_response(response, call.dialect.name, hosted=self._hosted)
        call.losses += tuple(map(_in_reply, written.losses))
        if entry is not None:
            await entry.ready()
            entry.reply_id = str(response.identifier) if call.is_stateful else None
            entry.settle(call, response)
        await self._end_whole(call, written.body, entry)

    async def _end_whole(self, call: Call, body: bytes, entry: Entry | None) -> None:
        """Send the reply, and file the exchange: before the reply if it must be durable by then."""
        if entry is not None and self._acknowledges:
            call.answer_bytes = len(body)
            await entry.acknowledge()
        call.reply(200, call.headers(), body)
        if entry is not None and not self._acknowledges:
            entry.complete()

    # --- streamed --------------------------------------------------------------------------------

    async def _say_stream(self, call: Call, asked: Asked) -> None:
        upstream, entry = asked.upstream, asked.entry
        sender = self.senders[upstream.name]
        async with contextlib.AsyncExitStack() as exits:
            opened = await sender.open(asked.take_wire())
            exits.push_async_callback(opened.aclose)
            self._take_headers(call, opened)
            await self._check_opened(call, asked.dialect, opened)
            if not _is_stream(opened):
                response = self._read_response(asked.dialect, upstream, await opened.rest())
                if entry is not None:
                    await entry.ready()
                    entry.settle(call)
                await self._say_whole_as_stream(call, response, asked)
                return
            heard = await self._begun(call, asked, opened, exits)
            if entry is not None:
                await entry.ready()
                entry.settle(call)
            await self._forward(call, heard, _voice(call, asked), entry)

    async def _begun(
        self, call: Call, asked: Asked, opened: Opened, exits: contextlib.AsyncExitStack
    ) -> Heard:
        """The stream of an upstream; while another one may be tried, only a stream with content."""
        variant = asked.upstream.variant(asked.dialect)
        packing = None if variant is None else variant.packing
        heard = opened if packing is None else Unpacked(opened, asked.dialect, packing)
        if call.attempt + 1 >= len(call.candidates):
            return heard
        begun = BegunStream(heard)
        exits.callback(begun.close)
        await begun.wait_for_event(asked.upstream.name, asked.dialect, self._ping_seconds)
        return begun

    async def _finish_stream(self, call: Call, folder: Folder, entry: Entry | None) -> None:
        """Record the stream; an incomplete one is an answer broken off."""
        response = folder.response()
        self._take_usage(call, response, is_whole=folder.is_complete)
        if entry is None:
            return
        if not folder.is_complete:
            entry.abort()
            return
        entry.response = response
        if call.is_stateful and isinstance(response.identifier, str):
            entry.reply_id = response.identifier
        await entry.acknowledge()

    # --- echo ----------------------------------------------------------------------------------

    async def _echo(self, call: Call, request: Request, asked: Asked) -> None:
        if request.model is absent and call.model is not None:
            request = request.replace(model=call.model)
        response = echo.answer(request)
        entry = asked.entry
        if entry is not None:
            entry.read()
        if not call.stream:
            await self._reply_whole(call, response, entry)
            return
        if entry is not None:
            await entry.ready()
            entry.settle(call, response)
        await self._say_whole_as_stream(call, response, asked)

    async def _say_whole_as_stream(self, call: Call, response: Response, asked: Asked) -> None:
        self._take_usage(call, response)
        response = _named(response, call)
        writer = call.dialect.stream_writer(asked.options)
        entry = asked.entry
        transport = call.begin(200, [*call.headers(call.stream_type), *_STREAM_HEADERS])
        events = list(echo.events(response))
        for event in events[:-1]:
            chunk = writer.write(event)
            if chunk:
                await transport.send_bytes(chunk)
        last = b"".join(map(writer.write, events[-1:])) + writer.close()
        if entry is not None:
            entry.response = response
            entry.reply_id = str(response.identifier) if call.is_stateful else None
            try:
                await entry.acknowledge()
            except CallError as failure:
                last = writer.write(Failure(str(failure), "not_recorded")) + writer.close()
        await transport.send_bytes(last)
        await call.end(transport)

    # --- what both ways share ------------------------------------------------------------------

    async def _forward(
        self,
        call: Call,
        opened: Heard,
        voice: Relay | Translation,
        entry: Entry | None,
    ) -> None:
        """Forward an upstream's stream as it arrives; a caller that disconnects leaves an answer broken off."""
        transport = call.begin(200, [*call.headers(call.stream_type), *_STREAM_HEADERS])
        name = call.conversation
        if entry is not None and name is not None:
            self._running.enter(name, entry, voice.folder)
        try:
            last = await self._speak(call, opened, voice, transport)
            if last and not self._acknowledges:
                await transport.send_bytes(last)
            try:
                await self._finish_stream(call, voice.folder, entry)
            except CallError as failure:
                last = voice.fail(str(failure), "not_recorded")
            if last and self._acknowledges:
                await transport.send_bytes(last)
            await call.end(transport)
        except (asyncio.CancelledError, ProtocolClosed):
            if call.is_cut:
                await transport.send_bytes(voice.fail("the gateway is shutting down", "overloaded"))
            call.status = 499
            self._take_usage(call, voice.folder.response(), is_whole=False)
            if entry is not None:
                entry.abort()
            raise
        finally:
            if entry is not None and name is not None:
                self._running.leave(name, entry)

    async def _speak(
        self, call: Call, opened: Heard, voice: Relay | Translation, transport: Transport
    ) -> bytes:
        ping = call.dialect.service.streams.silence
        reply_writer = ReplyWriter(
            voice,
            transport,
            self._reply_bytes,
            ping=ping,
            ping_seconds=self._ping_seconds if ping else 0.0,
            holds_end=self._acknowledges,
        )
        try:
            if not await reply_writer.say(opened):
                return voice.fail("the reply is larger than the gateway allows", "too_large")
        except NoAnswerError as failure:
            self._note_failure(call, failure)
            return voice.fail(str(failure), failure.code)
        finally:
            call.answer_bytes = reply_writer.heard_bytes
        return reply_writer.held + voice.close()

    async def _check_opened(self, call: Call, dialect: Dialect, opened: Opened) -> None:
        if opened.status != 200:
            body = await opened.rest()
            raise self._upstream_refusal(
                call, dialect, Answer(opened.status, opened.headers, body, opened.attempts)
            )

    def _read_response(self, dialect: Dialect, upstream: Upstream, body: bytes) -> Response:
        try:
            return dialect.read_response(body, Places())
        except DialectError:
            raise not_a_reply(upstream.name, dialect, body) from None

    def _take_headers(self, call: Call, answer: Answer | Opened) -> None:
        headers = answer.headers
        call.upstream_id = headers.get("x-request-id") or headers.get("request-id")
        call.returned_headers = to_caller(headers, answer.attempts)

    def _take_usage(self, call: Call, response: Response, *, is_whole: bool = True) -> None:
        call.answered = response
        usage = response.usage if isinstance(response.usage, Usage) else None
        if has_budget(call) and not (is_whole and is_told(usage)):
            said = sum(len(encode(canister)) for canister in response.canisters)
            usage = estimate(call, said, usage)
        if usage is not None:
            self._charge(call, usage)

    def _charge(self, call: Call, usage: Usage) -> None:
        """Record the tokens of an answer, and their cost."""
        call.usage = usage
        upstream = self.upstreams.find(call.upstream)
        if upstream is not None and not upstream.is_echo:
            call.cost = self._prices.cost(call.upstream_model, upstream.row.url, usage)

    def _upstream_refusal(self, call: Call, dialect: Dialect, answer: Answer) -> CanneryError:
        """An upstream's error in the caller's dialect, with its status, request id and retry advice."""
        status, body = answer.status, answer.body
        if not 400 <= status <= _LAST_STATUS:
            return NoAnswerError(
                call.upstream, f"answered with status {status}", "upstream_invalid"
            )
        upstream = self.upstreams.find(call.upstream)
        endpoint = dialect if upstream is None else upstream.endpoint(dialect)
        error = endpoint.read_error(status, body)
        told = endpoint.service.headers.error_kind
        kind = None if told is None else answer.headers.get(told)
        if kind and error.kind is None:
            error = msgspec.structs.replace(error, kind=kind.partition(":")[0])
        error = msgspec.structs.replace(error, request_id=call.upstream_id or error.request_id)
        is_read = dialect is call.dialect and endpoint.write_error is call.endpoint.write_error
        if is_read and _is_json(dialect, body):
            return VerbatimError(error, body)
        return UpstreamRefusalError(error)


class VerbatimError(UpstreamRefusalError):
    """An upstream's error that the caller can read unchanged."""

    def __init__(self, error: WireError, body: bytes) -> None:
        super().__init__(error)
        self._body = body

    def decorate(self, body: bytes) -> bytes:  # noqa: ARG002 - nothing is written anew
        """The body as the upstream wrote it."""
        return self._body


def _voice(call: Call, asked: Asked) -> Relay | Translation:
    """The relay that writes the upstream's stream for the caller."""
    if asked.is_as_it_came:
        # The usage of a key is counted, whether or not it is recorded.
        is_heard = asked.entry is not None or call.key is not None
        return Relay(call.dialect, is_heard=is_heard)
    identifier = new_reply_id(call.dialect)
    return Translation(asked.dialect, call.dialect, asked.options, identifier)


def _heard(dialect: Dialect, body: bytes) -> Response | None:
    """The parsed reply that is forwarded unchanged; None if it cannot be parsed."""
    try:
        return dialect.read_response(body, Places())
    except CanneryError:
        return None


def _named(response: Response, call: Call) -> Response:
    """An answer with an id in the caller's style, and a time if its provider gives none."""
    created = int(time.time()) if response.created is absent else response.created
    identifier = new_reply_id(call.dialect)
    return msgspec.structs.replace(response, identifier=identifier, created=created)


def _in_reply(loss: Loss) -> Loss:
    """A loss in an answer, marked to differ from those of the request."""
    return msgspec.structs.replace(loss, path=f"reply.{loss.path}")


def _is_stream(opened: Opened) -> bool:
    kind = opened.headers.get("content-type") or ""
    # An HTML page comes from an intermediary, and is not a stream whatever was requested.
    return not kind.lower().startswith(("application/json", "text/html"))


def _is_json(dialect: Dialect, body: bytes) -> bool:
    try:
        return isinstance(read_value(dialect.name, body), dict)
    except DialectError:
        return False

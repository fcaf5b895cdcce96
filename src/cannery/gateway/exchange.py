"""One exchange: choose an upstream, say the call to it, and say its answer to the caller.

A call passes through as it came when the caller and the upstream speak the same dialect and
nothing in it has to change; otherwise it goes through the model. Either way the recorder gets what
was said once the caller has been served.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from cannery.errors import CanneryError, DialectError
from cannery.gateway import echo
from cannery.gateway.calls import EVENT_STREAM, Call
from cannery.gateway.entries import Entry
from cannery.gateway.hearing import Relay, Translation
from cannery.gateway.ingress import RoleGate, caller_key
from cannery.gateway.metrics import Metrics
from cannery.gateway.model_lists import ModelLists
from cannery.gateway.peek import Glance, gist, glance, read_plain
from cannery.gateway.recorder import Recorder
from cannery.gateway.refusals import CallError, Header, NoAnswerError, refuse
from cannery.gateway.rsgi import ProtocolClosed, Transport
from cannery.gateway.sending import Opened, Sender
from cannery.gateway.speaking import Speaker
from cannery.gateway.state import RESPONSES, Continuation, State, new_reply_id, take_state
from cannery.gateway.upstreams import Choice, Upstream, Upstreams
from cannery.messages import Folder, Request, Response, Usage, absent
from cannery.translation import (
    nativize_plain,
    nativize_read_request,
    nativize_response,
    unaliased,
)
from cannery.wire.bodies import read_value
from cannery.wire.contract import Dialect, StreamOptions, WireError
from cannery.wire.losses import POLICIES, Aliases, Loss, Rendered
from cannery.wire.plain import PlainRequest, plain_request

_STREAM_HEADERS: list[Header] = [("cache-control", "no-cache"), ("x-accel-buffering", "no")]
_FORWARDED = {
    "anthropic": ("anthropic-version", "anthropic-beta"),
    "openai": ("openai-beta", "openai-organization", "openai-project"),
}
_RETURNED = ("retry-after", "retry-after-ms", "x-should-retry")


class Exchanges:
    """Answers calls for a reply of a model."""

    def __init__(
        self,
        upstreams: Upstreams,
        *,
        roles: RoleGate,
        metrics: Metrics,
        recorder: Recorder,
        policy: str,
        reply_bytes: int,
    ) -> None:
        self.upstreams = upstreams
        self.senders: Mapping[str, Sender] = {
            upstream.name: Sender(upstream.row, reply_bytes)
            for upstream in upstreams.all
            if not upstream.is_echo
        }
        self.models = ModelLists(upstreams, self.senders)
        # The dialects that all upstreams speak.
        spoken = [{one.name for one in upstream.dialects} for upstream in upstreams.all]
        self._passing = frozenset(set.intersection(*spoken) if spoken else ())
        self._roles = roles
        self._metrics = metrics
        self._recorder = recorder
        self._state = State(recorder)
        self._policy = policy
        self._reply_bytes = reply_bytes

    def close(self) -> None:
        """Let go of all connections."""
        for sender in self.senders.values():
            sender.close()

    # --- the way in ----------------------------------------------------------------------------

    async def answer(self, call: Call) -> None:
        """Answer a call; the error of one that cannot be answered is raised before anything is said."""
        seen = self._look(call)
        if call.model is None and seen is not None:
            call.model = seen.model
        if seen is not None and seen.stream:
            call.stream = True
        if seen is not None and seen.has_exact_roles and not seen.is_stateful:
            self._roles.pass_exact(seen.messages)
            choice = self._choose(call)
            if self._can_pass(call, choice):
                call.is_stateful = seen.is_continuable
                await self._pass_through(call, choice, seen)
                return
        else:
            call.body = self._roles.normalize(call, call.dialect.name, call.body)
        await self._translate(call, seen)

    def _look(self, call: Call) -> Glance | None:
        """What a body says about where it goes; plain messages are read at once if anybody will want them."""
        if self._recorder.is_on or call.dialect.name not in self._passing:
            seen = read_plain(call.dialect, call.body)
            if seen is not None:
                return seen
        return glance(call.dialect.name, call.body)

    def _can_pass(self, call: Call, choice: Choice) -> bool:
        return (
            not choice.upstream.is_echo
            and choice.model == call.model
            and call.dialect in choice.upstream.dialects
        )

    def read(self, call: Call) -> tuple[Request, Choice]:
        """The request that a call makes, and who is to answer it."""
        request = call.dialect.read_request(call.body, None)
        if call.model is None and isinstance(request.model, str):
            call.model = request.model
        return request, self._choose(call)

    def policy(self, call: Call) -> str:
        """What the caller wants done about losses."""
        asked = call.header("x-cannery-loss-policy")
        if asked is None:
            return self._policy
        policy = str(asked).strip().lower()
        if policy not in POLICIES:
            raise refuse(400, f"X-Cannery-Loss-Policy must be one of {', '.join(POLICIES)}")
        return policy

    async def count(self, call: Call, choice: Choice, body: bytes) -> bytes:
        """What an upstream of the caller's dialect says of the tokens in a body."""
        upstream, dialect = choice.upstream, call.dialect
        headers = self._headers(call, upstream, dialect, is_same=True)
        url = upstream.url(dialect, "count", choice.model)
        if "beta=" in call.query:
            url = f"{url}?{call.query}"
        answer = await self.senders[upstream.name].send(url, headers, body)
        self._take_headers(call, answer.headers)
        if answer.status != 200:
            raise self._upstream_refusal(call, dialect, answer)
        if not _is_json(dialect, answer.body):
            raise _invalid(upstream)
        return answer.body

    # --- as it came ----------------------------------------------------------------------------

    async def _pass_through(self, call: Call, choice: Choice, seen: Glance) -> None:
        upstream = choice.upstream
        self._metrics.passed.add(upstream.name)
        entry = self._recorder.open(call)
        if entry is not None:
            # Reading the history takes the loop's time while the upstream thinks.
            entry.request = _read_plain(call, seen)
            asyncio.get_running_loop().call_soon(entry.read_body)
        headers = self._headers(call, upstream, call.dialect, is_same=True)
        url = self._url(call, choice, call.dialect)
        if call.stream:
            await self._relay(call, choice, entry, url, headers)
            return
        answer = await self.senders[upstream.name].send(url, headers, call.body)
        self._take_headers(call, answer.headers)
        if answer.status != 200:
            raise self._upstream_refusal(call, call.dialect, answer)
        told = gist(call.dialect.name, answer.body)
        if told is None:
            raise _invalid(upstream)
        call.tokens = (told.input_tokens, told.output_tokens)
        call.answered = answer.body
        if entry is not None:
            await entry.ready()
            entry.reply_id = told.identifier if call.is_stateful else None
            entry.settle(call, said=answer.body)
        call.reply(200, call.headers(), answer.body)
        if entry is not None:
            entry.complete()

    async def _relay(
        self,
        call: Call,
        choice: Choice,
        entry: Entry | None,
        url: str,
        headers: dict[str, str],
    ) -> None:
        upstream = choice.upstream
        async with self.senders[upstream.name].open(url, headers, call.body) as opened:
            self._take_headers(call, opened.headers)
            await self._check_opened(call, call.dialect, opened)
            if entry is not None:
                await entry.ready()
                entry.settle(call)
            if not _is_stream(opened):
                response = self._read_response(call.dialect, upstream, await opened.rest())
                await self._say_whole_as_stream(call, response, entry, StreamOptions())
                return
            relay = Relay(call.dialect, is_heard=entry is not None)
            await self._forward(call, opened, upstream, relay, entry)
        self._finish_stream(call, relay.folder, entry)

    # --- through the model ---------------------------------------------------------------------

    async def _translate(self, call: Call, seen: Glance | None) -> None:
        wanted = Continuation(call.body) if _is_plain(call, seen) else take_state(call)
        plain = None if seen is None else seen.plain
        request = _read_plain(call, seen)
        if request is None:
            request, choice = await self._read(call, wanted)
        else:
            choice = self._choose(call)
        if isinstance(request.stream, bool):
            call.stream = call.stream or request.stream
        policy = self.policy(call)
        upstream = choice.upstream
        entry = self._recorder.open(call)
        if entry is not None:
            entry.request = request
            entry.tools = wanted.tools
            entry.named = entry.named or wanted.conversation
        if upstream.is_echo:
            await self._echo(call, request, entry)
            return
        target = upstream.dialect_for(call.dialect)
        rendered = None
        if plain is not None and not call.stream and target is not call.dialect:
            rendered = self._render_plain(call, plain, choice, target)
        if rendered is None:
            rendered = self._render(call, request, choice, target, policy, wanted.restored)
        if entry is not None:
            asyncio.get_running_loop().call_soon(entry.read_request)
        headers = self._headers(call, upstream, target, is_same=target is call.dialect)
        url = self._url(call, choice, target)
        if call.stream:
            await self._interpret(call, request, choice, entry, rendered, url, headers)
            return
        answer = await self.senders[upstream.name].send(url, headers, rendered.body)
        self._take_headers(call, answer.headers)
        if answer.status != 200:
            raise self._upstream_refusal(call, target, answer)
        response = self._read_response(target, upstream, answer.body)
        await self._reply_whole(call, unaliased(response, rendered.aliases), entry)

    async def _read(self, call: Call, wanted: Continuation) -> tuple[Request, Choice]:
        """The request that a call makes with its whole history, and who is to answer it."""
        if call.model is not None:
            choice = self._choose(call)
            is_same = call.dialect in choice.upstream.dialects and not choice.upstream.is_echo
            return await self._state.expand(call, wanted, is_same=is_same), choice
        request = await self._state.expand(call, wanted, is_same=False)
        if isinstance(request.model, str):
            call.model = request.model
        return request, self._choose(call)

    def _choose(self, call: Call) -> Choice:
        choice = self.upstreams.choose(call.model)
        call.upstream = choice.upstream.name
        return choice

    def _render(
        self,
        call: Call,
        request: Request,
        choice: Choice,
        target: Dialect,
        policy: str,
        restored: tuple[int, int],
    ) -> Rendered:
        upstream = choice.upstream
        changes: dict[str, Any] = {}
        if choice.model is not None and request.model != choice.model:
            changes["model"] = choice.model
        if call.stream != request.stream and (call.stream or request.stream is not absent):
            changes["stream"] = call.stream
        if call.stream and target.name == "openai_chat" and target is not call.dialect:
            changes["controls"] = msgspec.structs.replace(request.controls, include_usage=True)
        if changes:
            request = request.replace(**changes)
        rendered = nativize_read_request(
            request,
            target.name,
            call.body,
            restored=restored,
            policy=policy,
            without=upstream.row.without_repairs,
            rules=upstream.rules(target, choice.model),
        )
        call.losses, call.repairs = rendered.losses, rendered.repairs
        return rendered

    def _render_plain(
        self, call: Call, plain: PlainRequest, choice: Choice, target: Dialect
    ) -> Rendered | None:
        row = choice.upstream.row
        if row.quirks or row.without_repairs:
            return None
        if choice.model is not None and choice.model != plain.model:
            plain = msgspec.structs.replace(plain, model=choice.model)
        rendered = nativize_plain(plain, call.dialect.name, target.name, call.body)
        if rendered is not None:
            call.losses, call.repairs = rendered.losses, rendered.repairs
        return rendered

    async def _reply_whole(self, call: Call, response: Response, entry: Entry | None) -> None:
        self._take_usage(call, response)
        response = _named(response, call)
        written = nativize_response(response, call.dialect.name)
        call.losses += tuple(map(_in_reply, written.losses))
        if entry is not None:
            await entry.ready()
            entry.reply_id = str(response.identifier) if call.is_stateful else None
            entry.settle(call, response=response)
        call.reply(200, call.headers(), written.body)
        if entry is not None:
            entry.complete()

    async def _interpret(
        self,
        call: Call,
        request: Request,
        choice: Choice,
        entry: Entry | None,
        rendered: Rendered,
        url: str,
        headers: dict[str, str],
    ) -> None:
        upstream = choice.upstream
        target = upstream.dialect_for(call.dialect)
        options = self._options(call, request, rendered.aliases)
        async with self.senders[upstream.name].open(url, headers, rendered.body) as opened:
            self._take_headers(call, opened.headers)
            await self._check_opened(call, target, opened)
            if entry is not None:
                await entry.ready()
                entry.settle(call)
            if not _is_stream(opened):
                response = self._read_response(target, upstream, await opened.rest())
                await self._say_whole_as_stream(call, response, entry, options)
                return
            identifier = new_reply_id(call.dialect)
            translation = Translation(target, call.dialect, options, identifier)
            await self._forward(call, opened, upstream, translation, entry)
        self._finish_stream(call, translation.folder, entry)

    def _finish_stream(self, call: Call, folder: Folder, entry: Entry | None) -> None:
        """Take down what was said; a stream that was not heard to its end is an answer broken off."""
        response = folder.response()
        self._take_usage(call, response)
        if entry is None:
            return
        if not folder.is_complete:
            entry.abort()
            return
        entry.response = response
        if call.is_stateful and isinstance(response.identifier, str):
            entry.reply_id = response.identifier
        entry.complete()

    def _options(self, call: Call, request: Request, aliases: Aliases) -> StreamOptions:
        asked = request.controls.include_usage is True
        return StreamOptions(
            include_usage=asked, aliases=aliases, model=call.model, created=int(time.time())
        )

    # --- echo ----------------------------------------------------------------------------------

    async def _echo(self, call: Call, request: Request, entry: Entry | None) -> None:
        if request.model is absent and call.model is not None:
            request = request.replace(model=call.model)
        response = echo.answer(request)
        if entry is not None:
            entry.read_request()
        if not call.stream:
            await self._reply_whole(call, response, entry)
            return
        if entry is not None:
            await entry.ready()
            entry.settle(call, response=response)
        options = self._options(call, request, Aliases())
        await self._say_whole_as_stream(call, response, entry, options)

    async def _say_whole_as_stream(
        self, call: Call, response: Response, entry: Entry | None, options: StreamOptions
    ) -> None:
        self._take_usage(call, response)
        response = _named(response, call)
        writer = call.dialect.stream_writer(options)
        transport = call.begin(200, [*call.headers(call.stream_type), *_STREAM_HEADERS])
        for event in echo.events(response):
            chunk = writer.write(event)
            if chunk:
                await transport.send_bytes(chunk)
        chunk = writer.close()
        if chunk:
            await transport.send_bytes(chunk)
        await call.end(transport)
        if entry is not None:
            entry.response = response
            entry.reply_id = str(response.identifier) if call.is_stateful else None
            entry.complete()

    # --- what both ways share ------------------------------------------------------------------

    async def _forward(
        self,
        call: Call,
        opened: Opened,
        upstream: Upstream,
        voice: Relay | Translation,
        entry: Entry | None,
    ) -> None:
        """Say what an upstream says, as it says it; a caller that hangs up leaves an answer broken off."""
        transport = call.begin(200, [*call.headers(call.stream_type), *_STREAM_HEADERS])
        try:
            last = await self._speak(opened, upstream, voice, transport)
            if last:
                await transport.send_bytes(last)
            await call.end(transport)
        except (asyncio.CancelledError, ProtocolClosed):
            if call.is_cut:
                await transport.send_bytes(voice.fail("the gateway is shutting down", "overloaded"))
            call.status = 499
            if entry is not None:
                entry.abort()
            raise

    async def _speak(
        self, opened: Opened, upstream: Upstream, voice: Relay | Translation, transport: Transport
    ) -> bytes:
        speaker = Speaker(voice, transport, self._reply_bytes)
        try:
            if not await speaker.say(opened):
                return voice.fail("the reply is larger than the gateway allows", "too_large")
        except NoAnswerError as failure:
            self._metrics.failures.add(upstream.name, failure.code)
            return voice.fail(str(failure), failure.code)
        return voice.close()

    async def _check_opened(self, call: Call, dialect: Dialect, opened: Opened) -> None:
        if opened.status != 200:
            body = await opened.rest()
            raise self._upstream_refusal(
                call, dialect, (opened.status, opened.headers, body, opened.attempts)
            )

    def _read_response(self, dialect: Dialect, upstream: Upstream, body: bytes) -> Response:
        try:
            return dialect.read_response(body, None)
        except DialectError:
            raise _invalid(upstream) from None

    def _headers(
        self, call: Call, upstream: Upstream, target: Dialect, *, is_same: bool
    ) -> dict[str, str]:
        key = caller_key(call) if upstream.row.forward_key else None
        headers = upstream.headers(target, key)
        if is_same:
            for name in _FORWARDED.get(target.name.partition("_")[0], ()):
                value = call.header(name)
                if value is not None:
                    headers[name] = value
        return headers

    def _url(self, call: Call, choice: Choice, target: Dialect) -> str:
        kind = "stream" if call.stream else "generate"
        url = choice.upstream.url(target, kind, choice.model)
        if call.stream and target.name.startswith("gemini"):
            return f"{url}?alt=sse"
        if target is call.dialect and "beta=" in call.query:
            return f"{url}?{call.query}"
        return url

    def _take_headers(self, call: Call, headers: Mapping[str, str]) -> None:
        call.upstream_id = headers.get("x-request-id") or headers.get("request-id")

    def _take_usage(self, call: Call, response: Response) -> None:
        call.answered = response
        if isinstance(response.usage, Usage):
            call.tokens = (response.usage.input, response.usage.output)

    def _upstream_refusal(
        self, call: Call, dialect: Dialect, answer: tuple[int, Mapping[str, str], bytes, int]
    ) -> CanneryError:
        """An upstream's error, in the caller's dialect, with its status, request id and advice on trying again."""
        status, headers, body, attempts = answer
        if status < 400:
            return NoAnswerError(
                call.upstream, f"answered with status {status}", "upstream_invalid"
            )
        returned: list[Header] = []
        for name in _RETURNED:
            value = headers.get(name)
            if value is not None:
                returned.append((name, value))
        if attempts > 1:
            returned = [header for header in returned if header[0] != "x-should-retry"]
            returned.append(("x-should-retry", "false"))
        error = dialect.read_error(status, body)
        error = msgspec.structs.replace(error, request_id=call.upstream_id or error.request_id)
        if dialect is call.dialect and _is_json(dialect, body):
            return VerbatimError(error, returned, body)
        return CallError(error, returned)


class VerbatimError(CallError):
    """An upstream's error that the caller can read as it came."""

    def __init__(self, error: WireError, headers: list[Header], body: bytes) -> None:
        super().__init__(error, headers)
        self._body = body

    def decorate(self, body: bytes) -> bytes:  # noqa: ARG002 - nothing is written anew
        """The body as the upstream wrote it."""
        return self._body


def _is_plain(call: Call, seen: Glance | None) -> bool:
    """Whether a body says nothing about state."""
    if call.dialect.name == RESPONSES:
        return False
    return seen is not None and not seen.is_stateful


def _named(response: Response, call: Call) -> Response:
    """An answer with an id in the caller's style, and the time if its provider tells none."""
    created = int(time.time()) if response.created is absent else response.created
    identifier = new_reply_id(call.dialect)
    return msgspec.structs.replace(response, identifier=identifier, created=created)


def _read_plain(call: Call, seen: Glance | None) -> Request | None:
    """The request of a call that was read at first sight."""
    if seen is None or seen.plain is None:
        return None
    return plain_request(seen.plain, call.dialect.name)


def _in_reply(loss: Loss) -> Loss:
    """A loss of an answer, told apart from those of the request."""
    return msgspec.structs.replace(loss, path=f"reply.{loss.path}")


def _is_stream(opened: Opened) -> bool:
    kind = opened.headers.get("content-type") or EVENT_STREAM
    return not kind.lower().startswith("application/json")


def _is_json(dialect: Dialect, body: bytes) -> bool:
    try:
        return isinstance(read_value(dialect.name, body), dict)
    except DialectError:
        return False


def _invalid(upstream: Upstream) -> NoAnswerError:
    problem = "answered with something that is not a reply"
    return NoAnswerError(upstream.name, problem, "upstream_invalid")

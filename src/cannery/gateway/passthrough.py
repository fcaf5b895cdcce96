"""Passes requests that are not conversations (embeddings, images, audio, files, batches) to their upstream unread.

The model in the body selects a row, as for conversations; without one the first row with a dialect of the vendor
is used. Keys, limits, metrics and, if the answer reports tokens, cost apply as elsewhere. The upstream gets the same
headers of the caller as for conversations, and the query without keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

import msgspec

from cannery.errors import DialectError
from cannery.gateway.calls import Call
from cannery.gateway.estimates import EventMeter
from cannery.gateway.forwarding import to_caller, to_upstream
from cannery.gateway.keys import holds_secret
from cannery.gateway.peek import usage_of
from cannery.gateway.refusals import JSON, CallError, NoAnswerError, refuse
from cannery.gateway.routing import vendor_of
from cannery.gateway.upstream_client import Opened, Outgoing
from cannery.gateway.upstreams import Choice, join_url
from cannery.messages import (
    Conversation,
    FinishReason,
    Response,
    Role,
    Usage,
    absent,
    unfold,
)
from cannery.translation import nativize_response, nativize_stream
from cannery.wire.bodies import encode, read_object

if TYPE_CHECKING:
    from cannery.gateway.gateway import Gateway

_FORM_MODEL = re.compile(rb'name="model"\r\n(?:[^\r\n]+\r\n)*\r\n([^\r\n]{1,200})\r\n')
_PATH_MODEL = re.compile(r"/models/([^:]+):")
_SPOKEN = (Role.Assistant, Role.Invocation)
# Parameters of a kept reply that are not served, each with the reason.
_WHOLE = "a kept reply is streamed from its beginning"
_UNSERVED = {
    "starting_after": _WHOLE,
    "last_event_id": _WHOLE,
    "include_input": "only the reply is given; read its input in the conversation",
}
_TOLD = ("content-disposition", "location", "openai-processing-ms")


class Passage:
    """Forwards calls."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def answer(self, call: Call) -> None:
        """Answer one call; a reply that the gateway knows itself is answered from the store."""
        if call.scope.method in ("POST", "PUT", "PATCH"):
            call.body = await self._gateway.read_body(call)
        if call.kind == "response" and await self._tell_reply(call):
            return
        choice = self._choose(call)
        call.upstream, call.upstream_model = choice.upstream.name, choice.model
        sender = self._gateway.exchanges.senders[choice.upstream.name]
        async with contextlib.aclosing(await sender.open(self._outgoing(call, choice))) as opened:
            headers = opened.headers
            call.upstream_id = headers.get("x-request-id") or headers.get("request-id")
            call.returned_headers = to_caller(headers, opened.attempts)
            call.returned_headers += [
                (name, value) for name in _TOLD if (value := headers.get(name)) is not None
            ]
            await self._relay(call, choice, opened)

    async def _relay(self, call: Call, choice: Choice, opened: Opened) -> None:
        kind = opened.headers.get("content-type") or "application/octet-stream"
        if kind.startswith(JSON):
            body = await opened.rest()
            with contextlib.suppress(msgspec.MsgspecError, UnicodeError):
                self._charge(call, choice, usage_of(body))
            call.reply(opened.status, call.headers(kind), body)
            self._account(call)
            return
        meter = EventMeter() if kind.startswith("text/event-stream") else None
        left = most = self._gateway.limits.reply_bytes
        transport = call.begin(opened.status, call.headers(kind))
        try:
            while (chunk := await opened.read()) is not None:
                left -= len(chunk)
                if meter is not None:
                    meter.feed(chunk)
                if left < 0:
                    problem = f"answered with more than {most} bytes"
                    raise NoAnswerError(choice.upstream.name, problem, "upstream_too_large")
                await transport.send_bytes(chunk)
        except asyncio.CancelledError:
            call.scope.is_truncated = True
            raise
        finally:
            if meter is not None:
                self._charge(call, choice, meter.usage(call))
                self._account(call)

    def _charge(self, call: Call, choice: Choice, usage: Usage | None) -> None:
        """Set the tokens of a call, and their price."""
        call.usage = usage
        prices = self._gateway.lasting.prices
        call.cost = prices.cost(choice.model, choice.upstream.row.url, usage)

    def _account(self, call: Call) -> None:
        """Record what a call has cost."""
        entry = None if call.cost is None else self._gateway.recorder.open(call)
        if entry is not None:
            entry.account()

    # --- where to ------------------------------------------------------------------------------

    def _choose(self, call: Call) -> Choice:
        """The row for the model, or the first with the dialects of the path."""
        upstreams, vendor = self._gateway.exchanges.upstreams, vendor_of(call.dialect)
        call.model = call.model or _model_of(call)
        if holds_secret(call, call.model or ""):
            raise _not_there(call)
        if call.model is not None:
            choice = upstreams.choose(call.model)
            if choice.upstream.is_echo:
                raise refuse(
                    404,
                    "echo answers only conversations; name another upstream's model",
                    code="not_offered",
                )
            return choice
        for upstream in upstreams.all:
            is_spoken = any(vendor_of(dialect) == vendor for dialect in upstream.dialects)
            if is_spoken and not upstream.is_echo:
                return Choice(upstream, None)
        message = f"no upstream has the dialects of {vendor}; add one to the configuration"
        raise refuse(404, message, code="not_offered")

    def _outgoing(self, call: Call, choice: Choice) -> Outgoing:
        path = _safe_path(call)
        upstream, dialect = choice.upstream, call.dialect
        body = call.body
        if choice.model is not None and choice.model != call.model:
            body = _renamed(body, choice.model)
        headers = to_upstream(call, upstream, upstream.dialect_for(dialect))
        del headers["content-type"]
        kind = call.header("content-type")
        if kind is not None and body and not holds_secret(call, kind):
            headers["content-type"] = kind
        url = join_url(upstream.row.url, path, dialect)
        query = _safe_query(call)
        url = f"{url}?{query}" if query else url
        if upstream.signer is not None:
            headers = upstream.signer.sign(call.scope.method, url, headers, body)
        return Outgoing(url, headers, body, call.scope.method)

    # --- replies -------------------------------------------------------------------------------

    async def _tell_reply(self, call: Call) -> bool:
        """Answer ``GET /v1/responses/{id}`` and similar requests for a reply that the gateway knows."""
        folder, _, identifier = call.scope.path.rstrip("/").rpartition("/")
        is_reply = folder.endswith(call.dialect.service.continuing.endpoint)
        if not is_reply or call.scope.method not in ("GET", "HEAD"):
            return False
        found = await self._gateway.recorder.recall(identifier, call.store_scope)
        if found is None:
            if any(
                dialect is call.dialect and not upstream.is_echo
                for upstream in self._gateway.exchanges.upstreams.all
                for dialect in upstream.dialects
            ):
                return False
            noun = call.dialect.service.continuing.noun
            message = f"{noun.capitalize()} with id '{identifier[:100]}' not found."
            raise refuse(404, message, code=f"{noun}_not_found")
        history = list(found[0])
        start = len(history)
        while start and history[start - 1].role in _SPOKEN:
            start -= 1
        said = Conversation.trusted(history[start:])
        created = int(said[0].timestamp.timestamp()) if said else absent
        calls = any(canister.role is Role.Invocation for canister in said)
        finish = FinishReason.Tool if calls else FinishReason.Stop
        response = Response(said, finish, identifier=identifier, created=created)
        _tell(call, response)
        return True


def _tell(call: Call, response: Response) -> None:
    """Answer with a kept reply: whole, or as a stream from its beginning."""
    name, asked = call.dialect.name, dict(parse_qsl(call.query))
    for key, reason in _UNSERVED.items():
        if asked.get(key, "false").lower() != "false":
            raise refuse(400, f"{key!r} is not served: {reason}", code="invalid_request")
    if asked.get("stream", "").lower() != "true":
        call.reply(200, call.headers(), nativize_response(response, name).body)
        return
    framing = call.dialect.service.streams.framing
    stream = b"".join(nativize_stream(unfold(response), name))
    call.reply(200, call.headers(framing.media_type), stream)


def _model_of(call: Call) -> str | None:
    """The model in a path, a JSON body or a form."""
    named = _PATH_MODEL.search(call.scope.path)
    if named is not None:
        return named[1]
    kind = str(call.header("content-type") or "")
    if kind.startswith("multipart/"):
        found = _FORM_MODEL.search(call.body)
        return None if found is None else found[1].decode("utf-8", "replace")
    if not call.body or not kind.startswith(JSON):
        return None
    try:
        model: Any = read_object(call.dialect.name, call.body).get("model")
    except DialectError:
        return None
    return model if isinstance(model, str) else None


def _renamed(body: bytes, model: str) -> bytes:
    """A JSON body with the upstream's own name for its model."""
    try:
        value = read_object("body", body)
    except DialectError:
        message = "an alias works only in a JSON body; use the upstream's own name of the model"
        raise refuse(400, message, code="invalid_model") from None
    return encode({**value, "model": model})


def _safe_path(call: Call) -> str:
    """The path of the endpoint without our prefix, checked so that it cannot lead elsewhere."""
    path = call.scope.path
    prefix = f"/{vendor_of(call.dialect)}/"
    if path.startswith(prefix):
        path = path[len(prefix) - 1 :]
    if not {".", ".."}.isdisjoint(path.split("/")) or holds_secret(call, path):
        raise _not_there(call)
    return quote(path, safe="/:@")


def _safe_query(call: Call) -> str:
    """A query without keys."""
    return "&".join(
        pair
        for pair in call.query.split("&")
        if pair and not pair.startswith("key=") and not holds_secret(call, pair)
    )


def _not_there(call: Call) -> CallError:
    message = f"there is nothing at {call.scope.method} {call.scope.path}; see /docs"
    return refuse(404, message, code="unknown_path")

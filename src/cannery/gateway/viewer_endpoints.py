"""The viewer over HTTP: access, pages sent in pieces, and live answers as server-sent events.

Pages are rendered on threads of their own, so that neither calls nor the recorder wait for them. Access control is the
gateway's: its host names (``hosts``), its rule for pages of other origins, its keys and their scopes. A browser sends a
key once and gets a cookie for it; a program sends it with each request.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.cookies import CookieError, SimpleCookie
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl

import msgspec

from cannery.dialects import find_dialect
from cannery.errors import CanneryError
from cannery.gateway.calls import Call
from cannery.gateway.keys import Key, Keyring
from cannery.gateway.origins import Origins
from cannery.gateway.refusals import CallError
from cannery.gateway.routing import DEFAULT_DIALECT, NoMatch
from cannery.gateway.rsgi import HTTPProtocol, ProtocolClosed, Scope
from cannery.gateway.running import RunningWithin
from cannery.storage import Store
from cannery.viewer.answers import Answer, Asked, Endpoint
from cannery.viewer.live_updates import Follower, Watcher
from cannery.viewer.safety import is_session, new_session, safe_headers, session_name
from cannery.viewer.site import Site, ask_for_key, asset_answer, refusal

T = TypeVar("T")

ROOT = "/ui"
_COOKIE = "cannery_viewer"
_SESSION_SECONDS = 7 * 24 * 3600
_THREADS = 4
_MOST_FOLLOWERS = 200
_LARGEST_FORM = 64 << 10
_STREAM = "text/event-stream"


class Source(Protocol):
    """The viewer's data, and its access rules."""

    @property
    def keys(self) -> Keyring:
        """The keys that give access."""

    @property
    def origins(self) -> Origins:
        """The rule for pages of other sites."""

    @property
    def is_read_only(self) -> bool:
        """Whether changes are disabled."""

    @property
    def is_draining(self) -> bool:
        """Whether the server is stopping."""

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """The URL of each dialect."""

    @property
    def silent_seconds(self) -> float:
        """The longest silence of a connection."""

    def store(self, scope: str | None) -> Store:
        """The store as a scope sees it; StoreUnavailableError if it is not available."""

    def running(self, scope: str | None) -> RunningWithin:
        """The active exchanges that a scope may see."""


class Viewing:
    """Answers requests below ``/ui``."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._site = Site()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="cannery-viewer")
        self._followers = 0

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def answer(self, scope: Scope, proto: HTTPProtocol) -> None:
        """Answer one request."""
        try:
            await self._answer(scope, proto)
        except ProtocolClosed:
            # The caller has disconnected.
            return

    async def _answer(self, scope: Scope, proto: HTTPProtocol) -> None:
        path = scope.path.removeprefix(ROOT)
        if path.startswith("/assets/"):
            await self._send(proto, scope, self._asset(path))
            return
        foreign = _foreign(scope, self._source.origins)
        asked = Asked(None, path, _query(scope), scope.method)  # type: ignore[arg-type]  # no store before the key
        if foreign:
            await self._send(proto, scope, refusal(asked, 403, foreign))
            return
        if scope.method not in ("GET", "HEAD", "POST"):
            await self._send(proto, scope, refusal(asked, 405, f"{scope.method} is not for pages"))
            return
        if scope.method == "POST":
            asked.form = await _form(scope, proto)
            if path in ("/login", "/logout"):
                await self._send(proto, scope, self._session(asked))
                return
        key = self._key(scope, proto)
        if isinstance(key, Answer):
            await self._send(proto, scope, key)
            return
        await self._show(scope, proto, asked, key)

    async def _show(self, scope: Scope, proto: HTTPProtocol, asked: Asked, key: Key | None) -> None:
        source = self._source
        sees_all = key is None or key.is_operator
        within = None if key is None or key.is_operator else key.name
        try:
            asked.store = source.store(within)
        except CanneryError as error:
            await self._send(proto, scope, refusal(asked, 503, str(error)))
            return
        asked.sees_all = sees_all
        asked.caller = "" if key is None else key.name
        asked.is_read_only = source.is_read_only
        asked.endpoints = source.endpoints
        asked.running = source.running(within)
        asked.headers = {
            name: str(scope.headers.get(name) or "") for name in ("range", "if-none-match")
        }
        asked.base = f"http://{scope.host}" if scope.host else ""
        if asked.path.endswith("/events") and asked.method == "GET":
            await self._follow(proto, asked)
            return
        answer = await self._run(self._site.answer, asked)
        await self._send(proto, scope, answer)

    async def _run(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def _asset(self, path: str) -> Answer:
        try:
            return asset_answer(path.removeprefix("/assets/"))
        except CanneryError as error:
            return Answer(
                404, [*safe_headers(), ("content-type", "text/plain")], str(error).encode()
            )

    async def _send(self, proto: HTTPProtocol, scope: Scope, answer: Answer) -> None:
        """Send an answer; a page in pieces is rendered as fast as the client reads it."""
        body = answer.body
        if scope.method == "HEAD":
            proto.response_bytes(answer.status, answer.headers, b"")
            return
        if isinstance(body, bytes):
            proto.response_bytes(answer.status, answer.headers, body)
            return
        transport = proto.response_stream(answer.status, answer.headers)
        while (piece := await self._run(_next, body)) is not None:
            if piece:
                await transport.send_bytes(piece)

    # --- keys ----------------------------------------------------------------------------------

    def _key(self, scope: Scope, proto: HTTPProtocol) -> Key | Answer | None:
        """The key of a caller, None if none is required, otherwise the login page."""
        keys = self._source.keys
        if not keys:
            return None
        cookie = _cookie(scope)
        if cookie:
            for key in keys.keys:
                if key.name == session_name(cookie) and is_session(cookie, key.name, key.secret):
                    return key
        call = Call(scope, proto, NoMatch(find_dialect(DEFAULT_DIALECT)), "ui")
        try:
            keys.admit(call)
        except CallError as error:
            asked = Asked(None, scope.path.removeprefix(ROOT))  # type: ignore[arg-type]  # it is refused
            if asked.is_json or scope.method != "GET":
                return refusal(asked, 401, str(error))
            return ask_for_key("", _onward(scope.path, scope.query_string))
        return call.key

    def _session(self, asked: Asked) -> Answer:
        """Accept a key and set a cookie for it, or delete the cookie."""
        if asked.path == "/logout":
            return Answer(
                303, [*safe_headers(), ("location", ROOT), ("set-cookie", _set_cookie("", 0))], b""
            )
        shown = asked.form.get("secret", "").strip().encode()
        found = None
        for key in self._source.keys.keys:
            if hmac.compare_digest(shown, key.secret):
                found = found or key
        onward = asked.form.get("onward", "")
        onward = onward if onward == ROOT or onward.startswith((f"{ROOT}/", f"{ROOT}?")) else ROOT
        if found is None:
            return ask_for_key("That is not a key of this gateway.", onward)
        cookie = _set_cookie(new_session(found.name, found.secret), _SESSION_SECONDS)
        return Answer(303, [*safe_headers(), ("location", onward), ("set-cookie", cookie)], b"")

    # --- live ----------------------------------------------------------------------------------

    async def _follow(self, proto: HTTPProtocol, asked: Asked) -> None:
        """Send live events to a page, until it or the gateway disconnects."""
        if self._followers >= _MOST_FOLLOWERS:
            answer = refusal(asked, 503, "too many pages with live updates are open; close some")
            proto.response_bytes(answer.status, answer.headers, b"")
            return
        try:
            watcher: Watcher = await self._run(Follower, asked)
        except CanneryError as error:
            answer = refusal(asked, 404, str(error))
            proto.response_bytes(answer.status, answer.headers, b"")
            return
        self._followers += 1
        gone = asyncio.ensure_future(proto.client_disconnect())
        try:
            await self._tell(proto, watcher, gone)
        finally:
            self._followers -= 1
            gone.cancel()

    async def _tell(
        self, proto: HTTPProtocol, watcher: Watcher, gone: asyncio.Future[None]
    ) -> None:
        headers = [
            *safe_headers(),
            ("content-type", _STREAM),
            ("cache-control", "no-store"),
            ("x-accel-buffering", "no"),
        ]
        transport = proto.response_stream(200, headers)
        await transport.send_bytes(b"retry: 1500\n\n")
        silence, longest = 0.0, min(5.0, self._source.silent_seconds / 3)
        while not gone.done() and not self._source.is_draining:
            told = list(watcher.said())
            if watcher.is_due():
                told += await self._run(watcher.look)
            if told:
                await transport.send_bytes(b"".join(map(_event, told)))
                silence = 0.0
            elif silence >= longest:
                await transport.send_bytes(b": still here\n\n")
                silence = 0.0
            wait = watcher.pause
            silence += wait
            await asyncio.wait({gone}, timeout=wait)


def _event(told: tuple[str, Any]) -> bytes:
    name, value = told
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"


def _next(pieces: Iterator[bytes]) -> bytes | None:
    """The next piece of a page, None at its end; an error in the middle is shown at its place."""
    try:
        return next(pieces, None)
    except CanneryError as error:
        words = str(error).replace("&", "&amp;").replace("<", "&lt;")
        return f'<p class="notice bad">The rest of this page is missing: {words}</p>'.encode()


def _query(scope: Scope) -> dict[str, str]:
    return dict(parse_qsl(scope.query_string, max_num_fields=40)) if scope.query_string else {}


async def _form(scope: Scope, proto: HTTPProtocol) -> dict[str, str]:
    """The fields of a form, if they are few and small."""
    length = str(scope.headers.get("content-length") or "")
    if not length.isdecimal() or int(length) > _LARGEST_FORM:
        return {}
    body = await proto()
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=20))
    except (UnicodeDecodeError, ValueError):
        return {}


def _foreign(scope: Scope, origins: Origins) -> str:
    """Why a request of another site's page is refused; "" if it is allowed.

    Links from any site are allowed, but only pages of this site may load parts of it or change anything.
    """
    origin = scope.headers.get("origin")
    if origin is not None:
        refused = origins.refusal(str(origin))
        if refused is not None:
            return str(refused)
        if str(origin).partition("://")[2].lower() != str(scope.host or "").lower():
            return f"pages of {str(origin)[:200]} may not use the viewer"
    site, mode = scope.headers.get("sec-fetch-site"), scope.headers.get("sec-fetch-mode")
    if site in ("cross-site", "same-site") and (mode != "navigate" or scope.method == "POST"):
        return "another site may link to the viewer, but not load it"
    return ""


def _cookie(scope: Scope) -> str:
    try:
        found = SimpleCookie(str(scope.headers.get("cookie") or "")).get(_COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _set_cookie(value: str, seconds: int) -> str:
    return f"{_COOKIE}={value}; Path={ROOT}; Max-Age={seconds}; HttpOnly; SameSite=Lax"


def _onward(path: str, query: str) -> str:
    """The redirect target after a login, without a key in the query."""
    kept = "&".join(pair for pair in query.split("&") if pair and not pair.startswith("key="))
    return f"{path}?{kept}" if kept else path

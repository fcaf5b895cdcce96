"""Sends requests to upstreams over HTTP, with the time-outs and retries of the row; every failure has its reason.

The client is wreq (see the decision on the HTTP client): it supports TLS with certificates of a row, the proxies of the
environment, HTTP/2 and compressed answers, and closes the connection when a call is cancelled. There are no retries
after the first byte of an answer. Redirects are not followed: requests go to the URL of the row only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import ssl
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, Protocol

import wreq
from wreq import dns, redirect
from wreq import exceptions as failures

from cannery.errors import ConfigurationError
from cannery.gateway.proxies import proxy_for
from cannery.gateway.refusals import NoAnswerError, is_transient_status
from cannery.gateway.settings import Row

# Only a proxy answers so (RFC 9110, section 15.5.8).
_PROXY_DENIES = 407
_LONGEST_WAIT = 10.0
_BASE_WAIT = 0.25
_IDLE_SECONDS = 50.0
_MOST_IDLE = 512
_SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
_FAILURES = (
    failures.BodyError,
    failures.ConnectionError,
    failures.ConnectionResetError,
    failures.DecodingError,
    failures.ProxyConnectionError,
    failures.RequestError,
    failures.TimeoutError,
    failures.TlsError,
)
# The client's error messages contain addresses and headers, so only the reason is taken.
_REASONS = (
    ("CERTIFICATE_VERIFY_FAILED", "its certificate cannot be verified"),
    ("HOSTNAME_MISMATCH", "its certificate is for another name"),
    ("CERTIFICATE_REQUIRED", "it asks for a client certificate"),
    ("dns error", "its name cannot be resolved"),
    ("DnsResolveFailure", "the name of the upstream cannot be resolved"),
    ("ProxyAuthRequired", "it asks for a user name and a password"),
    ("TunnelUnsuccessful", "it refuses to connect to the upstream"),
    ("ProxyConnect, source: Some(Parse(", "it is not an HTTP proxy"),
    ("ConnectionRefused", "it refused the connection"),
    ("SSL routines", "no TLS connection could be made"),
    ("BrokenPipe", "it closed the connection"),
    ("ConnectionReset", "it closed the connection"),
)
_SYSTEM_REASON = re.compile(r'Os \{[^}]*message: "([^"]*)"')
_TLS_REASON = re.compile(r'library: "SSL routines"[^}]*reason: "([A-Z0-9_]+)"')
_BUILDING_REASON = re.compile(r'reason: "([A-Z0-9_]+)"')
_BROKEN = ("IncompleteMessage", "ConnectionReset", "BrokenPipe", "ChannelClosed")
# Not part of ``kind: ConnectionReset``: such a connection was made, and the request may have been processed.
_CONNECTING = re.compile(r"kind: Connect\b")


class Outgoing(NamedTuple):
    """A request to an upstream."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"


class Answer(NamedTuple):
    """A whole response of an upstream."""

    status: int
    headers: Headers
    body: bytes
    attempts: int


class Headers:
    """The headers of a response; of several with one name, the first."""

    __slots__ = ("_found",)

    def __init__(self, found: Any) -> None:
        self._found = found

    def get(self, name: str) -> str | None:
        """The value of a header."""
        found = self._found.get(name)
        return None if found is None else str(found, "latin-1")

    def items(self) -> list[tuple[str, str]]:
        """All of them, with names in lower case."""
        return [(str(name, "latin-1"), str(value, "latin-1")) for name, value in self._found]


class Heard(Protocol):
    """A response body as it arrives."""

    async def read(self) -> bytes | None:
        """The next bytes, or None at the end."""


class Opened:
    """An open response; it must be closed."""

    def __init__(self, sender: Sender, response: Any, attempts: int) -> None:
        self.status: int = response.status.as_int()
        self.headers = Headers(response.headers)
        self.attempts = attempts
        self._sender = sender
        self._response = response
        self._stream: Any = None
        self._is_over = False

    async def read(self) -> bytes | None:
        """The next bytes, or None at the end."""
        if self._stream is None:
            self._stream = self._response.stream()
        try:
            chunk = await anext(self._stream)
            while not isinstance(chunk, memoryview):
                # Trailer fields are ignored.
                chunk = await anext(self._stream)
        except StopAsyncIteration:
            self._is_over = True
            return None
        except _FAILURES as failure:
            raise self._sender.describe(failure, has_begun=True) from None
        return bytes(chunk)

    async def rest(self) -> bytes:
        """The rest of the body."""
        limit = self._sender.limit
        length = self._response.content_length
        if self._stream is None and length is not None and length <= limit:
            # Each piece costs a turn of the event loop, so a small body is read at once.
            try:
                body = bytes(await self._response.bytes())
            except _FAILURES as failure:
                raise self._sender.describe(failure, has_begun=True) from None
            self._is_over = True
            return body
        pieces: list[bytes] = []
        size = 0
        while (chunk := await self.read()) is not None:
            pieces.append(chunk)
            size += len(chunk)
            if size > limit:
                problem = f"answered with more than {limit} bytes"
                raise NoAnswerError(self._sender.name, problem, "upstream_too_large")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def aclose(self) -> None:
        """Release the connection; another call may use it, if everything was read."""
        try:
            if not self._is_over:
                open_part = self._response if self._stream is None else self._stream
                await open_part.__aexit__(None, None, None)
        finally:
            self._sender.release()


class Sender:
    """Sends requests to one upstream."""

    def __init__(self, row: Row, reply_bytes: int) -> None:
        self.name = row.name
        self.limit = reply_bytes
        self._row = row
        self._client = _client(row)
        self._places = asyncio.Semaphore(row.connections) if row.connections else None
        self._answered = 0.0

    async def send(self, outgoing: Outgoing) -> Answer:
        """Send a request and read the whole response."""
        opened = await self.open(outgoing)
        try:
            body = await opened.rest()
        finally:
            await opened.aclose()
        return Answer(opened.status, opened.headers, body, opened.attempts)

    async def fetch(self, url: str, headers: Mapping[str, str]) -> Answer:
        """Fetch a URL, in one attempt."""
        opened = Opened(self, await self._ask(Outgoing(url, headers, b"", "GET")), 1)
        try:
            return Answer(opened.status, opened.headers, await opened.rest(), 1)
        finally:
            await opened.aclose()

    async def open(self, outgoing: Outgoing) -> Opened:
        """Send a request and open the response; it must be closed."""
        attempt = 1
        while True:
            try:
                response = await self._ask(outgoing)
            except NoAnswerError as failure:
                if attempt > self._row.retries or failure.code != "upstream_unreachable":
                    raise
                wait = _wait(None, attempt)
            else:
                opened = Opened(self, response, attempt)
                if opened.status == _PROXY_DENIES:
                    await opened.aclose()
                    raise self._unreachable(" through the proxy", "ProxyAuthRequired")
                if attempt > self._row.retries or not is_transient_status(opened.status):
                    return opened
                await opened.aclose()
                wait = _wait(opened.headers.get("retry-after"), attempt)
            await asyncio.sleep(wait)
            attempt += 1

    def release(self) -> None:
        """A response is finished."""
        self._answered = monotonic()
        if self._places is not None:
            self._places.release()

    async def _ask(self, outgoing: Outgoing) -> Any:
        """Send a request and wait for the head of its response."""
        if self._places is not None:
            await self._take_place(self._places)
        try:
            return await self._request(outgoing)
        except BaseException:
            if self._places is not None:
                self._places.release()
            raise

    async def _request(self, outgoing: Outgoing) -> Any:
        # An upstream closes idle connections, sometimes at the moment when one is used again: then it has not seen the
        # request.
        may_be_stale = monotonic() - self._answered < _IDLE_SECONDS
        url, headers, body, name = outgoing
        method = _METHODS[name]
        content = body or None if method is not wreq.Method.POST else body
        while True:
            try:
                return await self._client.request(method, url, headers=headers, body=content)
            except _FAILURES as failure:
                if may_be_stale and any(word in str(failure) for word in _BROKEN):
                    may_be_stale = False
                    continue
                raise self.describe(failure, has_begun=False) from None

    async def _take_place(self, places: asyncio.Semaphore) -> None:
        seconds = self._row.timeouts.connect
        try:
            await asyncio.wait_for(places.acquire(), seconds)
        except TimeoutError:
            problem = f"has had no free connection (of {self._row.connections}) for {seconds:g} s"
            raise NoAnswerError(self.name, problem, "upstream_busy", 503) from None

    def describe(self, failure: Exception, *, has_begun: bool) -> NoAnswerError:
        """The reason for a failure, without addresses and headers of a proxy."""
        text = str(failure)
        is_connecting = _CONNECTING.search(text) is not None
        # The client reports a time-out in a body as an error of the body.
        is_late = has_begun and "TimedOut" in text
        if is_late or isinstance(failure, failures.TimeoutError):
            return NoAnswerError(self.name, "did not answer in time", "upstream_timeout", 504)
        if is_connecting and "TimedOut" in text:
            seconds = self._row.timeouts.connect
            problem = f"did not accept a connection within {seconds:g} s"
            return NoAnswerError(self.name, problem, "upstream_timeout", 504)
        if is_connecting or isinstance(failure, (failures.ProxyConnectionError, failures.TlsError)):
            by_proxy = isinstance(failure, failures.ProxyConnectionError)
            return self._unreachable(" through the proxy" if by_proxy else "", text)
        if "Parse(" in text:
            problem = "answered with something that is not HTTP"
            return NoAnswerError(self.name, problem, "upstream_invalid")
        if has_begun and "netty::Error" not in text:
            problem = "answered with a body that cannot be decompressed"
            return NoAnswerError(self.name, problem, "upstream_invalid")
        return NoAnswerError(self.name, "broke off its answer", "upstream_broken")

    def _unreachable(self, through: str, text: str) -> NoAnswerError:
        problem = f"cannot be reached{through}: {_reason(text)}"
        return NoAnswerError(self.name, problem, "upstream_unreachable")


def _reason(text: str) -> str:
    for word, reason in _REASONS:
        if word in text:
            detail = _TLS_REASON.search(text)
            return f"{reason} ({detail[1]})" if detail else reason
    said = _SYSTEM_REASON.search(text)
    return said[1] if said else "no connection could be made"


_METHODS = {
    "DELETE": wreq.Method.DELETE,
    "GET": wreq.Method.GET,
    "HEAD": wreq.Method.GET,
    "PATCH": wreq.Method.PATCH,
    "POST": wreq.Method.POST,
    "PUT": wreq.Method.PUT,
}


# --- the client of a row --------------------------------------------------------------------------


@cache
def _runtime() -> wreq.Runtime:
    """One thread for the connections to all upstreams."""
    return wreq.Runtime(workers=1, work_steal=False, thread_name="cannery-upstreams")


def _client(row: Row) -> wreq.Client:
    settings: dict[str, Any] = {
        "runtime": _runtime(),
        "user_agent": "cannery",
        "redirect": redirect.Policy.none(),
        "connect_timeout": timedelta(seconds=row.timeouts.connect),
        "read_timeout": timedelta(seconds=row.timeouts.read),
        "pool_idle_timeout": timedelta(seconds=_IDLE_SECONDS),
        "pool_max_idle_per_host": _MOST_IDLE,
        # The names of this machine and its network, as other programs resolve them.
        "dns_options": dns.DnsOptions(system_dns=True),
        "http1_only": not row.http2,
    }
    proxy = proxy_for(row.url, os.environ)
    settings |= {"no_proxy": True} if proxy is None else {"proxies": [wreq.Proxy.all(proxy)]}
    if row.timeouts.total:
        settings["timeout"] = timedelta(seconds=row.timeouts.total)
    if row.url.startswith("https"):
        settings["tls_verify"] = _roots(_bundle(row))
        if row.certificate is not None:
            settings["tls_identity"] = _identity(row)
    try:
        return wreq.Client(**settings)
    except _BUILDING as error:
        raise ConfigurationError(f"upstream {row.name!r}", _unbuilt(str(error))) from None


def _unbuilt(text: str) -> str:
    """Why the client of a row cannot be made."""
    if "KEY_VALUES_MISMATCH" in text:
        return (
            "certificate and certificate_key cannot be used: the key is that of another certificate"
        )
    reason = _BUILDING_REASON.search(text)
    return f"no client can be made: {reason[1] if reason else 'its settings cannot be used'}"


def _bundle(row: Row) -> str | None:
    """The file of certificate authorities for a row: its own, the environment's, or the system's."""
    named = row.ca or os.environ.get("SSL_CERT_FILE")
    if named:
        return str(Path(named).expanduser())
    usual = (ssl.get_default_verify_paths().cafile, *_SYSTEM_BUNDLES)
    return next((path for path in usual if path and Path(path).is_file()), None)


@cache
def _roots(path: str | None) -> wreq.CertStore | bool:
    """The authorities of a file; those bundled with the client if the system has none."""
    if path is None:
        return True
    try:
        content = Path(path).read_bytes()
        if not _CERTIFICATE.search(content):
            raise ConfigurationError(path, "cannot be used as a CA bundle: no certificate in it")
        return wreq.CertStore.from_pem_stack(content)
    except (OSError, *_BUILDING) as error:
        raise ConfigurationError(path, f"cannot be used as a CA bundle: {error}") from None


def _identity(row: Row) -> wreq.Identity:
    """The client certificate of a row with its key, which may be in the same file."""
    where = f"upstream {row.name!r}, certificate"
    certificate = Path(str(row.certificate)).expanduser()
    key = Path(row.certificate_key or str(row.certificate)).expanduser()
    try:
        chain = b"\n".join(_CERTIFICATE.findall(certificate.read_bytes()))
        keys = b"\n".join(_PRIVATE_KEY.findall(key.read_bytes()))
        return wreq.Identity.from_pkcs8_pem(chain, keys)
    except OSError as error:
        raise ConfigurationError(where, f"cannot be used: {error}") from None
    except _BUILDING:
        problem = (
            "cannot be used: expected a certificate in PEM and its key in PKCS 8 (BEGIN PRIVATE KEY); "
            "openssl pkcs8 -topk8 -nodes converts other keys"
        )
        raise ConfigurationError(where, problem) from None


_BUILDING = (failures.BuilderError, failures.TlsError)
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(rb"-----BEGIN PRIVATE KEY-----.+?-----END PRIVATE KEY-----", re.DOTALL)


def _wait(asked: str | None, attempt: int) -> float:
    """The wait before the next attempt: the upstream's own advice, within limits."""
    wait = _BASE_WAIT * 2.0 ** (attempt - 1)
    if asked is not None:
        with contextlib.suppress(ValueError):
            wait = float(asked)
    return min(wait, _LONGEST_WAIT)

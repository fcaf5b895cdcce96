"""CORS: which web pages may call the gateway, and which may read the answer.

A browser lets any page send a request to a gateway on the same machine, with the page's origin in ``Origin``. Pages of
this machine and of the configuration are permitted and get CORS headers, as do callers that are not web pages (an
editor's panel, a desktop program). Any other page is refused unless the gateway requires keys, which a page cannot
guess: without keys it could spend the owner's money. The same holds for browser extensions, each of which may call from
any page; one that has a key may read as well.

https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from cannery.gateway.refusals import CallError, Header, refuse
from cannery.gateway.settings import is_loopback

_EXPOSED = (
    "x-cannery-conversation, x-cannery-losses, x-cannery-upstream, x-cannery-request-id, x-cannery-estimated, "
    "x-request-id, request-id, retry-after, retry-after-ms, x-should-retry"
)
_PREFLIGHT_SECONDS = "600"


class Origins:
    """Decides which pages are permitted."""

    def __init__(self, welcome: Iterable[str], *, has_keys: bool) -> None:
        self._welcome = {origin.rstrip("/").lower() for origin in welcome}
        self._has_keys = has_keys

    def is_welcome(self, origin: str) -> bool:
        """Whether a page may read the gateway's answers."""
        if "*" in self._welcome or origin.lower() in self._welcome:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https"):
            # "null" is the origin of a sandboxed page of any site.
            is_extension = parts.scheme.endswith("-extension")
            return origin != "null" and (self._has_keys or not is_extension)
        return is_loopback(parts.hostname or "")

    def refusal(self, origin: str) -> CallError | None:
        """The error for a page that may not call."""
        if self._has_keys or self.is_welcome(origin):
            return None
        message = f"pages of {origin[:200]} may not call this gateway; server.origins lists those that may"
        return refuse(403, message, code="origin_not_allowed")

    def headers(self, origin: str) -> list[Header]:
        """The headers by which a browser lets a page read an answer."""
        if not self.is_welcome(origin):
            return []
        return [
            ("access-control-allow-origin", origin),
            ("access-control-expose-headers", _EXPOSED),
            ("vary", "origin"),
        ]

    def preflight(self, origin: str, methods: str, asked: str | None) -> list[Header]:
        """The headers by which a browser lets a page send a request."""
        if not self.is_welcome(origin):
            return []
        return [
            ("access-control-allow-origin", origin),
            ("access-control-allow-methods", methods),
            ("access-control-allow-headers", asked or "*"),
            ("access-control-allow-private-network", "true"),
            ("access-control-max-age", _PREFLIGHT_SECONDS),
            ("vary", "origin, access-control-request-headers"),
        ]

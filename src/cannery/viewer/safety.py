"""Security headers of every answer, and tokens for the few requests that change something."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

from cannery.viewer.answers import Header

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Media are viewed alone or in a page, and never run code.
MEDIA_POLICY = (
    "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; sandbox"
)
_EVERYWHERE: list[Header] = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
]


def safe_headers(policy: str = POLICY) -> list[Header]:
    """The headers of every answer."""
    return [("content-security-policy", policy), *_EVERYWHERE]


class Tokens:
    """CSRF tokens: a page contains one, so that no other site can make a browser request a change."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def make(self, purpose: str) -> str:
        """The token for one purpose."""
        return hmac.new(self._secret, purpose.encode(), hashlib.sha256).hexdigest()

    def is_valid(self, purpose: str, token: str) -> bool:
        """Whether a token is valid for a purpose."""
        return hmac.compare_digest(self.make(purpose).encode(), token.encode())


_SESSION_SECONDS = 7 * 24 * 3600


def new_session(name: str, secret: bytes) -> str:
    """A cookie for a key that does not contain it: the key's name and an expiry time, signed with the key."""
    ends = str(int(time.time()) + _SESSION_SECONDS)
    return f"{ends}.{_signature(name, secret, ends)}.{name}"


def session_name(cookie: str) -> str:
    """The name of the key in a cookie, unverified."""
    return cookie.split(".", 2)[2] if cookie.count(".") >= 2 else ""


def is_session(cookie: str, name: str, secret: bytes) -> bool:
    """Whether a cookie is valid for a key."""
    ends, _, rest = cookie.partition(".")
    signature, _, named = rest.partition(".")
    if named != name or not ends.isdecimal() or len(ends) > 12 or int(ends) < time.time():
        return False
    return hmac.compare_digest(signature.encode(), _signature(name, secret, ends).encode())


def _signature(name: str, secret: bytes, ends: str) -> str:
    said = f"cannery viewer\0{name}\0{ends}".encode()
    return hmac.new(secret, said, hashlib.sha256).hexdigest()

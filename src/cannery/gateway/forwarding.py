"""Headers that pass through: what of a caller's goes to an upstream, and what of an upstream's comes back.

Both ways only what is listed: a caller's headers may hold keys and cookies, and an upstream's may be about its own
connection.
"""

from __future__ import annotations

from cannery.gateway.calls import Call
from cannery.gateway.keys import holds_secret, own_credential
from cannery.gateway.refusals import Header
from cannery.gateway.sending import Headers
from cannery.gateway.upstreams import Upstream
from cannery.wire.contract import Dialect

_TO_UPSTREAM = {
    "anthropic": ("anthropic-version", "anthropic-beta"),
    "openai": ("openai-beta", "openai-organization", "openai-project"),
}
_RETRY = frozenset({"retry-after", "retry-after-ms", "x-should-retry"})
_TO_CALLER = _RETRY | {
    "anthropic-organization-id",
    "openai-model",
    "openai-organization",
    "openai-processing-ms",
    "openai-version",
}
_PREFIXES = ("anthropic-ratelimit-", "x-ratelimit-", "ratelimit")


def to_upstream(call: Call, upstream: Upstream, target: Dialect) -> dict[str, str]:
    """The headers that ask an upstream for something, authentication included."""
    row, is_same = upstream.row, target is call.dialect
    credential = own_credential(call) if row.forward_key else None
    headers = upstream.headers(target, credential, is_same=is_same)
    usual = _TO_UPSTREAM.get(target.name.partition("_")[0], ()) if is_same else ()
    for name in (*usual, *map(str.lower, row.forward_headers)):
        value = call.header(name)
        if value is not None and not holds_secret(call, value):
            headers[name] = value
    return headers


def to_caller(headers: Headers, attempts: int) -> list[Header]:
    """What a caller is told of an upstream's headers: its limits, and its advice on trying again."""
    found = [
        pair for pair in headers.items() if pair[0] in _TO_CALLER or pair[0].startswith(_PREFIXES)
    ]
    if attempts > 1:
        # The gateway has tried again already.
        found = [pair for pair in found if pair[0] != "x-should-retry"]
        found.append(("x-should-retry", "false"))
    return found

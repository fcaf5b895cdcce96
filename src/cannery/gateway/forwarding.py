"""Selects the headers that are forwarded: from a caller to an upstream, and from an upstream to a caller.

Both directions forward only listed headers: a caller's headers may hold keys and cookies, and an upstream's may concern
its own connection.
"""

from __future__ import annotations

from functools import lru_cache

from cannery.dialects import all_dialects
from cannery.gateway.calls import Call
from cannery.gateway.keys import holds_secret, own_credential
from cannery.gateway.refusals import Header
from cannery.gateway.upstream_client import Headers
from cannery.gateway.upstreams import Upstream
from cannery.wire.contract import Dialect

# Rate limit and retry headers of servers of every dialect.
_RETURNED = (
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "x-ratelimit-*",
    "ratelimit*",
)


@lru_cache(maxsize=1)
def _returned() -> tuple[frozenset[str], tuple[str, ...]]:
    """The response headers that are forwarded, whole names and prefixes.

    Those of all dialects, because a server of one may forward the headers of another.
    """
    names = [*_RETURNED]
    for dialect in all_dialects():
        names += dialect.service.headers.returned
    beginnings = tuple(name.removesuffix("*") for name in names if name.endswith("*"))
    return frozenset(name for name in names if not name.endswith("*")), beginnings


def to_upstream(call: Call, upstream: Upstream, target: Dialect) -> dict[str, str]:
    """The request headers for an upstream, authentication included."""
    row, is_same = upstream.row, target is call.dialect
    credential = own_credential(call) if row.forward_key else None
    headers = upstream.headers(target, credential, is_same=is_same)
    usual = upstream.endpoint(target).service.headers.forwarded if is_same else ()
    for name in (*usual, *map(str.lower, row.forward_headers)):
        value = call.header(name)
        if value is not None and not holds_secret(call, value):
            headers[name] = value
    return headers


def to_caller(headers: Headers, attempts: int) -> list[Header]:
    """The response headers for a caller: rate limits and retry advice."""
    names, beginnings = _returned()
    found = [pair for pair in headers.items() if pair[0] in names or pair[0].startswith(beginnings)]
    if attempts > 1:
        # The gateway has retried already.
        found = [pair for pair in found if pair[0] != "x-should-retry"]
        found.append(("x-should-retry", "false"))
    return found

"""AWS signatures (version 4): of requests to upstreams, and of callers.

Requests to upstreams are signed by botocore, which also finds the credentials; it is the extra ``bedrock``. A caller's
signature is computed again with the key whose name is its access key id, and compared: the key itself is never sent.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

from cannery.errors import ConfigurationError
from cannery.gateway.settings import Row

if TYPE_CHECKING:
    from cannery.gateway.calls import Call

SIGV4 = "sigv4"
_SERVICE = "bedrock"
_REGION = re.compile(r"\.([a-z]{2}(?:-[a-z]+)+-\d+)\.")
_CLAIM = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<name>[^/,\s]+)/(?P<day>\d{8})/(?P<region>[^/,\s]+)/"
    r"(?P<service>[^/,\s]+)/aws4_request,\s*SignedHeaders=(?P<signed>[a-z0-9:;_-]+),\s*"
    r"Signature=(?P<signature>[0-9a-f]{64})"
)
_LONGEST_AGE = 900
_UNRESERVED = "-_.~"
_HOSTS = frozenset({"host", ":authority"})


class Signer:
    """Signs requests to one upstream."""

    def __init__(self, credentials: Any, region: str) -> None:
        self._credentials = credentials
        self._region = region

    @classmethod
    def of(cls, row: Row) -> Signer:
        """The signer of a row; ConfigurationError without credentials or a region."""
        where = f"upstreams: {row.name}"
        try:
            import botocore.session
        except ImportError:
            problem = "auth = sigv4 needs botocore: pip install 'cannery[bedrock]'"
            raise ConfigurationError(where, problem) from None
        region = region_of(row)
        if region is None:
            raise ConfigurationError(where, "auth = sigv4 needs a region: set region")
        credentials = botocore.session.get_session().get_credentials()
        if credentials is None:
            problem = "auth = sigv4 finds no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            raise ConfigurationError(where, problem)
        return cls(credentials, region)

    def sign(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> dict[str, str]:
        """The headers of a request with its signature."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest(method, url, headers=dict(headers), data=body)
        frozen = self._credentials.get_frozen_credentials()
        SigV4Auth(frozen, _SERVICE, self._region).add_auth(request)
        return {name.lower(): str(value) for name, value in request.headers.items()}


def region_of(row: Row) -> str | None:
    """The region of an upstream: from its row, its host name, or the environment."""
    if row.region is not None:
        return row.region
    found = _REGION.search(urlsplit(row.url).hostname or "")
    if found is not None:
        return found[1]
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


class Claim(NamedTuple):
    """The fields of a caller's signature."""

    name: str
    day: str
    region: str
    service: str
    signed: tuple[str, ...]
    signature: str


def read_claim(authorization: str | None) -> Claim | None:
    """The signature fields in a header; None if there are none."""
    found = None if authorization is None else _CLAIM.fullmatch(authorization.strip())
    if found is None:
        return None
    signed = tuple(found["signed"].split(";"))
    return Claim(
        found["name"], found["day"], found["region"], found["service"], signed, found["signature"]
    )


def is_true(call: Call, claim: Claim, secret: bytes) -> bool:
    """Whether a caller has recently signed its request, body included, with a key."""
    date = call.header("x-amz-date")
    if date is None or not _is_recent(date, claim.day) or _HOSTS.isdisjoint(claim.signed):
        return False
    given = call.header("x-amz-content-sha256")
    if given is not None and given != hashlib.sha256(call.body).hexdigest():
        return False
    # The SDK of Anthropic leaves some characters of a model's name unquoted.
    return any(
        hmac.compare_digest(_signature(call, claim, secret, date, kept), claim.signature)
        for kept in ("", ":;")
    )


def _is_recent(date: str, day: str) -> bool:
    try:
        when = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return False
    return date.startswith(day) and abs((datetime.now(UTC) - when).total_seconds()) <= _LONGEST_AGE


def _signature(call: Call, claim: Claim, secret: bytes, date: str, kept: str) -> str:
    """The signature of a request by the rules of version 4.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html (2026-11-18)
    """
    canonical = [
        call.scope.method,
        quote(_raw_path(call, kept), safe=f"/{_UNRESERVED}"),
        "&".join(sorted(filter(None, call.query.split("&")))),
        *(f"{name}:{_value(call, name)}" for name in claim.signed),
        "",
        ";".join(claim.signed),
        hashlib.sha256(call.body).hexdigest(),
    ]
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    scope = (claim.day, claim.region, claim.service, "aws4_request")
    key = b"AWS4" + secret
    for word in (*scope, "\n".join(("AWS4-HMAC-SHA256", date, "/".join(scope), digest))):
        key = hmac.digest(key, word.encode(), "sha256")
    return key.hex()


def _value(call: Call, name: str) -> str:
    """A header in signed form; the host has another name in HTTP/2."""
    value = call.scope.host if name in _HOSTS else call.header(name)
    return " ".join(str(value or "").split())


def _raw_path(call: Call, kept: str) -> str:
    """The path as SDKs write it: a model's name is quoted, except the characters that they keep."""
    before, model, after = call.scope.path, "", ""
    if call.model:
        before, model, after = before.rpartition(call.model)
    safe = f"/{_UNRESERVED}"
    return (
        quote(before, safe=safe) + quote(model, safe=_UNRESERVED + kept) + quote(after, safe=safe)
    )

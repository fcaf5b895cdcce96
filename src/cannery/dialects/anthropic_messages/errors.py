"""Messages errors: ``{"type": "error", "error": {type, message}, "request_id"}``."""

from __future__ import annotations

from typing import Any

from cannery.dialects.anthropic_messages.models import NAME
from cannery.errors import DialectError
from cannery.wire.bodies import encode, read_value
from cannery.wire.contract import WireError

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
KINDS = frozenset({*_KINDS.values(), "api_error"})


def read_error(status: int, body: bytes) -> WireError:
    """The error that a body tells of, whatever it is."""
    try:
        value = read_value(NAME, body)
    except DialectError:
        value = None
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, str):
        return WireError(status, error)
    if not isinstance(error, dict):
        return WireError(status, body[:500].decode("utf-8", "replace").strip() or f"HTTP {status}")
    return WireError(
        status,
        str(error.get("message") or f"HTTP {status}"),
        _text(error.get("type")),
        request_id=_text(value.get("request_id")),
    )


def write_error(error: WireError) -> bytes:
    """The body of an error."""
    return encode(error_body(error.message, error.kind, error.status, error.request_id))


def error_body(
    message: str, kind: str | None, status: int | None = None, request_id: str | None = None
) -> dict[str, Any]:
    """An error as the server says it, of a kind that it knows."""
    known = kind if kind in KINDS else _KINDS.get(status or 500, "api_error")
    body: dict[str, Any] = {"type": "error", "error": {"type": known, "message": message}}
    if request_id is not None:
        body["request_id"] = request_id
    return body


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None

"""Errors of the OpenAI dialects: ``{"error": {message, type, param, code}}``."""

from __future__ import annotations

from cannery.errors import DialectError
from cannery.wire.bodies import encode, read_value
from cannery.wire.contract import WireError

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
}


def read_openai_error(dialect: str, status: int, body: bytes) -> WireError:
    """The error that a body tells of, whatever it is."""
    try:
        value = read_value(dialect, body)
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
        *(
            str(error[key]) if error.get(key) is not None else None
            for key in ("type", "code", "param")
        ),
    )


def write_openai_error(error: WireError) -> bytes:
    """The body of an error."""
    kind = error.kind or _KINDS.get(error.status, "server_error")
    inner = {
        "message": error.message,
        "type": kind,
        "param": error.parameter,
        "code": error.code,
    }
    return encode({"error": inner})

"""Google's errors: ``{"error": {code, message, status, details?}}``."""

from __future__ import annotations

from cannery.dialects.gemini_generate.spelling import NAME, Object
from cannery.errors import DialectError
from cannery.wire.bodies import encode, read_value
from cannery.wire.contract import WireError

# https://cloud.google.com/apis/design/errors, 2026-11-15
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    422: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}
_KINDS = {
    "INVALID_ARGUMENT": "invalid_request_error",
    "FAILED_PRECONDITION": "invalid_request_error",
    "OUT_OF_RANGE": "invalid_request_error",
    "UNAUTHENTICATED": "authentication_error",
    "PERMISSION_DENIED": "permission_error",
    "NOT_FOUND": "not_found_error",
    "RESOURCE_EXHAUSTED": "rate_limit_error",
    "UNAVAILABLE": "overloaded_error",
    "DEADLINE_EXCEEDED": "timeout_error",
    "INTERNAL": "api_error",
}
_CODES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 503,
    "timeout_error": 504,
}


def read_error(status: int, body: bytes) -> WireError:
    """The error that a body tells of, whatever it is."""
    try:
        value = read_value(NAME, body)
    except DialectError:
        value = None
    if isinstance(value, list) and value:
        value = value[0]
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, str):
        return WireError(status, error)
    if not isinstance(error, dict):
        return WireError(status, body[:500].decode("utf-8", "replace").strip() or f"HTTP {status}")
    message, kind, code = facts_of(error)
    return WireError(status, message or f"HTTP {status}", kind, code)


def facts_of(error: Object) -> tuple[str, str | None, str | None]:
    """The message of an error, its kind in words that every dialect uses, and Google's own word for it."""
    word = error.get("status")
    status = str(word) if word is not None else None
    code = error.get("code")
    known = status or (_STATUSES.get(code) if type(code) is int else None)
    return str(error.get("message") or ""), _KINDS.get(known or ""), status


def write_error(error: WireError) -> bytes:
    """The body of an error."""
    return encode(error_body(error))


def error_body(error: WireError) -> Object:
    """An error as Google says it."""
    word = error.code if error.code in _KINDS else _STATUSES.get(error.status)
    fallback = "INTERNAL" if error.status >= 500 else "INVALID_ARGUMENT"
    inner = {"code": error.status, "message": error.message, "status": word or fallback}
    return {"error": inner}


def status_of(kind: str) -> int:
    """The HTTP status that goes with a kind of error."""
    return _CODES.get(kind, 500)

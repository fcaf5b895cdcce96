"""Errors of Google's dialects: ``{"error": {code, message, status}}``; in the newer one ``code`` is a word."""

from __future__ import annotations

from cannery.wire.answers import read_nested_error
from cannery.wire.bodies import Object, encode
from cannery.wire.contract import WireError

# The newer dialect's word for INVALID_ARGUMENT.
INVALID = "invalid_request"
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
_STATUS_OF_KIND = {
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


def read_google_error(dialect: str, status: int, body: bytes) -> WireError:
    """The error in a body, whatever its form."""
    return read_nested_error(dialect, status, body, _read)


def _read(status: int, error: Object, _: Object) -> WireError:
    message, kind, code = facts_of(error)
    return WireError(status, message or f"HTTP {status}", kind, code)


def facts_of(error: Object) -> tuple[str, str | None, str | None]:
    """The message of an error, its kind in common words, and Google's own word for it."""
    word, code = error.get("status"), error.get("code")
    if word is None and type(code) is str:
        word = code
    status = str(word) if word is not None else None
    known = status or (_STATUSES.get(code) if type(code) is int else None)
    kind = "invalid_request_error" if known == INVALID else _KINDS.get((known or "").upper())
    return str(error.get("message") or ""), kind, status


def write_google_error(error: WireError) -> bytes:
    """The body of an error."""
    return encode(error_body(error))


def error_body(error: WireError) -> Object:
    """An error in Google's form."""
    inner = {"code": error.status, "message": error.message, "status": status_word(error)}
    return {"error": inner}


def status_word(error: WireError) -> str:
    """Google's word for an error."""
    if error.code in _KINDS:
        return error.code
    fallback = "INTERNAL" if error.status >= 500 else "INVALID_ARGUMENT"
    return _STATUSES.get(error.status, fallback)


def status_of(kind: str) -> int:
    """The HTTP status that goes with a kind of error."""
    return _STATUS_OF_KIND.get(kind, 500)

"""Errors of the OpenAI dialects: ``{"error": {message, type, param, code}}``."""

from __future__ import annotations

from typing import Any

from cannery.messages.events import Failure
from cannery.wire.answers import read_nested_error
from cannery.wire.bodies import Object, encode
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
# Only a stream needs these: a body comes with its HTTP status.
_STREAMED_KINDS = {
    **_KINDS,
    402: "billing_error",
    408: "timeout_error",
    413: "request_too_large",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
# The words for codes and types, with their status: those of ``ResponseError`` in openai 3.49.0, those in error bodies,
# and those of servers that imitate OpenAI's.
_STATUSES = {
    **{kind: status for status, kind in reversed(_STREAMED_KINDS.items())},
    "api_error": 500,
    "bio_policy": 400,
    "content_filter": 400,
    "context_length_exceeded": 400,
    "data_residency_mismatch": 400,
    "failed_to_download_image": 400,
    "insufficient_quota": 429,
    "internal_server_error": 500,
    "invalid_api_key": 401,
    "invalid_prompt": 400,
    "invalid_request": 400,
    "misalignment_policy_violation": 400,
    "model_not_found": 404,
    "overloaded_error": 503,
    "rate_limit_exceeded": 429,
    "requests": 429,
    "server_error": 500,
    "server_overloaded": 503,
    "service_unavailable": 503,
    "slow_down": 503,
    "timeout": 504,
    "timeout_error": 504,
    "tokens": 429,
    "too_many_requests": 429,
    "unsupported_image_media_type": 400,
    "vector_store_timeout": 504,
}
_CLIENT_ERRORS = ("image_", "invalid_", "empty_image")


def read_openai_error(dialect: str, status: int, body: bytes) -> WireError:
    """The error in a body, whatever its form."""
    return read_nested_error(dialect, status, body, _read)


def _read(status: int, error: Object, _: Object) -> WireError:
    facts = (
        str(error[key]) if error.get(key) is not None else None for key in ("type", "code", "param")
    )
    return WireError(status, str(error.get("message") or f"HTTP {status}"), *facts)


def read_openai_failure(dialect: str, error: dict[str, Any] | str, raw: str) -> Failure:
    """The failure for an error in mid-stream, with the words and status that every dialect knows."""
    if isinstance(error, str):
        error = {"message": error}
    words = [str(error[key]) for key in ("code", "type") if error.get(key) not in (None, "")]
    # The event of that name is its own error.
    words = [word for word in words if word != "error"]
    status = next(filter(None, map(_status_of, words)), None)
    named = next((word for word in words if not word.isdecimal()), "api_error")
    kind = _STREAMED_KINDS.get(status or 0, named)
    return Failure(str(error.get("message") or "unknown error"), kind, status, raw, dialect)


def _status_of(word: str) -> int | None:
    if len(word) == 3 and word.isascii() and word.isdecimal() and word >= "400":
        return int(word)
    return _STATUSES.get(word) or (400 if word.startswith(_CLIENT_ERRORS) else None)


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

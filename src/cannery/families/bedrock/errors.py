"""Errors of Bedrock: a body is ``{"message"}``, and its kind is in the header ``x-amzn-errortype``.

In a stream an error is an exception, whose name begins with a small letter (botocore 1.44, 2026-11-18).
"""

from __future__ import annotations

from cannery.wire.answers import error_value, plain_error
from cannery.wire.bodies import encode
from cannery.wire.contract import WireError
from cannery.wire.service import Headers

_ERRORS = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    413: "ValidationException",
    422: "ValidationException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    502: "InternalServerException",
    503: "ServiceUnavailableException",
    504: "ModelTimeoutException",
    529: "ServiceUnavailableException",
}
_INTERNAL = "InternalServerException"
_NAMES = frozenset({*_ERRORS.values(), _INTERNAL, "ModelNotReadyException"})
_SIGNS = (
    ("throttlingException", ("429", "rate_limit", "throttl", "resource_exhausted")),
    ("serviceUnavailableException", ("503", "529", "overloaded", "unavailable")),
    ("validationException", ("400", "invalid_request")),
    ("modelStreamErrorException", ("upstream_", "incomplete")),
)


def error_name(error: WireError) -> str:
    """The exception name for an error."""
    return error.kind if error.kind in _NAMES else _ERRORS.get(error.status, _INTERNAL)


def stream_exception(status: int | None, kind: str) -> str:
    """The exception name for an error in a stream."""
    told = f"{status} {kind}".lower()
    for name, signs in _SIGNS:
        if any(sign in told for sign in signs):
            return name
    return "internalServerException"


def read_error(status: int, body: bytes) -> WireError:
    """The error in a body, whatever its form."""
    value = error_value("bedrock", body)
    told = value if type(value) is dict else {}
    message, kind = told.get("message", told.get("Message")), told.get("__type")
    if type(message) is not str or not message:
        message = plain_error(status, body).message
    return WireError(status, message, kind.rpartition("#")[2] if type(kind) is str else None)


def write_error(error: WireError) -> bytes:
    """The body of an error."""
    return encode({"message": error.message})


HEADERS = Headers(
    request_id="x-amzn-requestid",
    error_kind="x-amzn-errortype",
    name_error=error_name,
)

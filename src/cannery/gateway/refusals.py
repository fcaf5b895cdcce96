"""Errors for callers: one value, written in the caller's dialect.

The status depends on whose fault it is: for ours and the caller's it is the errors' own hint, an upstream's stays
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from cannery.errors import (
    CanneryError,
    DialectError,
    LossError,
    RoleError,
    UpstreamError,
)
from cannery.gateway.upstreams import UnknownModelError
from cannery.wire.bodies import read_value
from cannery.wire.contract import Dialect, WireError

JSON = "application/json"
# The kinds of caller errors, for a dialect without a word of its own for the status.
_CALLERS_FAULT = frozenset({405, 408, 415, 426, 431})
Header = tuple[str, str]


class CallError(CanneryError):
    """A call that is answered with an error."""

    def __init__(self, error: WireError, headers: Iterable[Header] = ()) -> None:
        super().__init__(error.message)
        self.error = error
        self.headers = list(headers)
        self.status_hint = error.status

    def decorate(self, body: bytes) -> bytes:
        """The body of the error, with further fields of this kind of error."""
        return body


class NoAnswerError(UpstreamError):
    """An upstream that did not answer, or not with a usable answer."""

    def __init__(self, upstream: str, problem: str, code: str, status: int = 502) -> None:
        super().__init__(f"upstream {upstream!r} {problem}")
        self.upstream = upstream
        self.problem = problem
        self.code = code
        self.status_hint = status

    def again(self) -> NoAnswerError:
        """A copy without the frames that the original has passed.

        A streamed reply ends when nothing refers to it any more, and a kept error would refer to it.
        """
        return NoAnswerError(self.upstream, self.problem, self.code, self.status_hint)


def is_transient_status(status: int) -> bool:
    """Whether a request may succeed later or elsewhere: too many requests, or any failure of a server.

    Intermediaries have numbers of their own (520 to 530).
    """
    return status == 429 or 500 <= status <= 599


def refuse(
    status: int, message: str, *, code: str | None = None, headers: Iterable[Header] = ()
) -> CallError:
    """An error of the gateway's own."""
    kind = "invalid_request_error" if status in _CALLERS_FAULT else None
    return CallError(WireError(status, message, kind, code), headers)


class UpstreamRefusalError(CallError):
    """An upstream's own error, in the caller's dialect."""


def not_a_reply(upstream: str, dialect: Dialect, body: bytes) -> CanneryError:
    """The error for a body with status 200 that is not an answer: an upstream's error, or garbage."""
    try:
        value = read_value(dialect.name, body)
    except DialectError:
        value = None
    error = value.get("error") if isinstance(value, dict) else None
    if not error:
        problem = "answered with something that is not a reply"
        return NoAnswerError(upstream, problem, "upstream_invalid")
    code = str(error.get("code") if isinstance(error, dict) else "")
    is_status = len(code) == 3 and code.isdecimal() and code[0] in "45"
    return UpstreamRefusalError(dialect.read_error(int(code) if is_status else 502, body))


def to_refusal(error: CanneryError) -> CallError:
    """Any of our errors as one for the caller."""
    match error:
        case CallError():
            return error
        case RoleError():
            told = WireError(400, str(error), code="invalid_role", parameter=error.path)
        case DialectError():
            told = WireError(400, f"{error.path}: {error.problem}", parameter=error.path)
        case LossError():
            told = WireError(422, str(error), code="translation_would_lose")
        case UnknownModelError():
            told = WireError(404, str(error), code="model_not_found", parameter="model")
        case NoAnswerError():
            told = WireError(error.status_hint, str(error), code=error.code)
        case _:
            told = WireError(error.status_hint, str(error))
    return CallError(told)


def kind_of(refusal: CallError, dialect: Dialect) -> list[Header]:
    """The header with the kind of an error, if a dialect has one."""
    headers = dialect.service.headers
    if headers.error_kind is None or headers.name_error is None:
        return []
    return [(headers.error_kind, headers.name_error(refusal.error))]


def body_of(refusal: CallError, dialect: Dialect, request_id: str) -> bytes:
    """The body of an error in the caller's dialect."""
    error = refusal.error
    if error.request_id is None:
        error = structs.replace(error, request_id=request_id)
    return refusal.decorate(dialect.write_error(error))

"""Reading what Google's two APIs say alike: where media lie, and refusals of what is not there or of another type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from cannery.errors import DialectError
from cannery.messages.payload import Location
from cannery.wire.bodies import kind_of
from cannery.wire.places import Path, path_text

# Where Google keeps files that only their account can read.
ACCOUNT = ("https://generativelanguage.googleapis.com/", "gs://", "files/")
MISSING: Any = object()
_KINDS: dict[type, str] = {dict: "an object", list: "a list", str: "a string"}

Fail = Callable[[Path, str], NoReturn]
Expect = Callable[[type, Any, Path], Any]


def checks(dialect: str) -> tuple[Fail, Expect]:
    """How a dialect refuses a body, and a value that is missing or not of a kind: ``dict``, ``list`` or ``str``."""

    def fail(path: Path, problem: str) -> NoReturn:
        raise DialectError(dialect, path_text(path), problem)

    def expect(kind: type, value: Any, path: Path) -> Any:
        if value is MISSING:
            fail(path, "is required")
        if type(value) is not kind:
            fail(path, f"expected {_KINDS[kind]}, got {kind_of(value)}")
        return value

    return fail, expect


def located(uri: str) -> Location:
    """The place of a medium; what only Google's account can read is a file of the provider."""
    is_web = uri.lower().startswith(("http://", "https://"))
    return Location("url" if is_web and not uri.startswith(ACCOUNT) else "file", uri)


def characters(data: bytes, count: Any) -> int:
    """How many characters so many bytes are; spans of citations count bytes."""
    return len(data[: count if type(count) is int and count > 0 else 0].decode("utf-8", "ignore"))

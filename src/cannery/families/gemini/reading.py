"""Reading shared by Google's two APIs: locations of media, and refusals of missing or wrong values."""

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
    """A dialect's functions to refuse a body, and a value that is missing or not a ``dict``, ``list`` or ``str``."""

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
    """The location of a medium; a file that only Google's account can read is a provider file."""
    is_web = uri.lower().startswith(("http://", "https://"))
    return Location("url" if is_web and not uri.startswith(ACCOUNT) else "file", uri)


def characters(data: bytes, count: Any) -> int:
    """The number of characters in a number of bytes; citation spans count bytes."""
    return len(data[: count if type(count) is int and count > 0 else 0].decode("utf-8", "ignore"))

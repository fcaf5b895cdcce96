"""Detects the dialect of a body from its shape.

Each dialect lists the signs of its bodies (``cannery.wire.signs``). They are tested in order of evidence, strongest
first; each has a reason that is shown to people.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from cannery.dialects import all_dialects, find_dialect
from cannery.errors import DialectError, InputError
from cannery.wire.bodies import read_value
from cannery.wire.contract import Dialect
from cannery.wire.framing import NDJSON, SSE
from cannery.wire.signs import Sign

_LINE = 1 << 20


class Detection(NamedTuple):
    """The dialect of a body, whether it is a request, response or stream, and the reason."""

    dialect: str
    kind: str
    reason: str


def detect_dialect(body: object) -> tuple[str, str]:
    """The dialect of a body, and the reason; InputError if it is unknown."""
    found = detect(body)
    return found.dialect, found.reason


def detect(body: object) -> Detection:
    """The dialect and the kind of a body, and the reason; InputError if it is unknown."""
    if isinstance(body, (bytes, bytearray, memoryview)):
        body = bytes(body)
        return _detect_stream(body) or _detect_value(_decode(body))
    if isinstance(body, str):
        return detect(body.encode("utf-8", "surrogatepass"))
    return _detect_value(body)


def _decode(body: bytes) -> Any:
    try:
        return read_value("unknown", body)
    except DialectError as error:
        raise InputError(error.problem) from None


def _detect_value(value: Any) -> Detection:
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        found = _first(value[0], ("response",))
        if found is not None and find_dialect(found.dialect).service.streams.query:
            return found._replace(kind="stream", reason="it is an array of answers")
    if not isinstance(value, Mapping):
        raise InputError("no dialect: a body is a JSON object")
    found = _first(value, ("request", "response"))
    if found is None:
        keys = ", ".join(map(str, list(value)[:6])) or "nothing"
        raise InputError(f"no known dialect has a body of this shape (it has {keys})")
    return found


@lru_cache(maxsize=1)
def _all_signs() -> tuple[tuple[Dialect, Sign], ...]:
    """The signs of all dialects, strongest first; equally strong ones by dialect name."""
    found = [(dialect, sign) for dialect in all_dialects() for sign in dialect.signs]
    return tuple(sorted(found, key=lambda pair: pair[1].evidence))


def _first(
    value: Mapping[str, Any], kinds: tuple[str, ...], framing: str | None = None
) -> Detection | None:
    for dialect, sign in _all_signs():
        if sign.kind not in kinds or framing not in (None, dialect.service.streams.framing.name):
            continue
        if sign.holds(value):
            return Detection(dialect.name, sign.kind, sign.reason)
    return None


def _detect_stream(body: bytes) -> Detection | None:
    """The dialect of server-sent events, or of one JSON object per line."""
    start = body[:_LINE].lstrip(b"\xef\xbb\xbf \r\n\t")
    if start.startswith((b"data:", b"event:", b"id:", b"retry:", b":")):
        lines = (line[5:] for line in start.splitlines() if line.startswith(b"data:"))
        for data in _objects(lines):
            found = _first(data, ("stream",), SSE.name)
            if found is not None:
                return found
        raise InputError("server-sent events of no known dialect")
    first, _, rest = start.partition(b"\n")
    if rest.strip():
        for data in _objects([first]):
            return _first(data, ("stream",), NDJSON.name)
    return None


def _objects(lines: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        try:
            data = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        if isinstance(data, Mapping):
            yield data

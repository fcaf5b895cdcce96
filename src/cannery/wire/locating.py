"""Where in its source something was lost: places of a report become paths of the body.

The body is read again for that, only now that it matters, and only as far as it matters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from cannery.wire.bodies import read_object
from cannery.wire.contract import Dialect
from cannery.wire.places import chosen, fitted

# The path of a place, and a path as the body spells it.
Locate = tuple[Callable[[int | str], str], Callable[[str], str]]
_TOOL = re.compile(r"tools\[(\d+)\]")


def locator(
    dialect: Dialect | None, body: bytes | None, kind: str, restored: tuple[int, int] = (0, 0)
) -> Locate:
    """How a place becomes a path in the body that a dialect read, and how a path is fitted to that body.

    ``restored`` says which messages are not in the body, because they were put in afterwards: from where, and how many.
    """
    if dialect is None:
        return _named_place, str
    if body is None:
        return partial(_settings_place, dialect, dict), str
    given = cache(partial(read_object, dialect.name, body))
    known: set[str] = set()

    @cache
    def paths() -> list[str]:
        found = dialect.read_paths(body) if kind == "request" and dialect.read_paths else None
        if found is None:
            found = []
            read = dialect.read_request if kind == "request" else dialect.read_response
            read(body, found)
        else:
            known.update(found)
        start, count = restored
        found[start:start] = [f"history[{number}]" for number in range(count)]
        return found

    def locate(place: int | str) -> str:
        if isinstance(place, int):
            return paths()[place] if place < len(paths()) else f"conversation[{place}]"
        return _settings_place(dialect, given, place)

    @cache
    def fit(path: str) -> str:
        return path if path in known else fitted(given(), path)

    return locate, fit


def _named_place(place: int | str) -> str:
    """A place of a request that was not read from a body."""
    return f"conversation[{place}]" if isinstance(place, int) else place.removeprefix("@")


def _settings_place(dialect: Dialect, given: Callable[[], dict[str, Any]], place: int | str) -> str:
    """The path of a setting or tool."""
    if isinstance(place, int):
        return f"conversation[{place}]"
    if place.startswith("@"):
        found = dialect.control_paths.get(place[1:], place[1:])
        return found if isinstance(found, str) else chosen(found, given())
    tool = _TOOL.fullmatch(place) if dialect.tool_paths is not None else None
    if tool is None:
        return place
    tools = dialect.tool_paths(given())  # type: ignore[misc]
    return place if int(tool[1]) >= len(tools) else tools[int(tool[1])]

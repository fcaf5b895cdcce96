"""Where in its source something was lost: places of a report become paths of the body.

The body is read again for that, only now that it matters, and only as far as it matters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from cannery.wire.bodies import read_object
from cannery.wire.contract import Dialect
from cannery.wire.places import chosen, fitted

# The path of a place, and a path as the body spells it, where there is a body.
Locate = tuple[Callable[[int | str], str], Callable[[str], str] | None]
# The parts of a setting that a request has as one.
_PARTS = {
    "@effort": "thinking.effort",
    "@budget": "thinking.budget",
    "@summary": "thinking.summary",
}
_TOOL = re.compile(r"tools\[(\d+)\]")


def locator(
    dialect: Dialect | None, body: bytes | None, kind: str, restored: tuple[int, int] = (0, 0)
) -> Locate:
    """How a place becomes a path in the body that a dialect read, and how a path is fitted to that body.

    ``restored`` says which messages are not in the body, because they were put in afterwards: from where, and how many.
    """
    if dialect is None:
        return _named_place, None
    if body is None:
        return partial(_settings_place, dialect, dict, list), None
    places = _Places(dialect, body, kind, restored)
    return places.locate, places.fit


class _Places:
    """The places in one body, which is read when one of them is asked for."""

    __slots__ = ("_body", "_dialect", "_given", "_kind", "_known", "_paths", "_restored", "_tools")

    def __init__(self, dialect: Dialect, body: bytes, kind: str, restored: tuple[int, int]) -> None:
        self._dialect = dialect
        self._body = body
        self._kind = kind
        self._restored = restored
        self._given: dict[str, Any] | None = None
        self._paths: list[str] | None = None
        self._tools: list[str] | None = None
        # Paths as the body spells them.
        self._known: dict[str, str] = {}

    def locate(self, place: int | str) -> str:
        """The path of a place."""
        if not isinstance(place, int):
            return _settings_place(self._dialect, self._read, self._tool_paths, place)
        paths = self._read_paths()
        return paths[place] if place < len(paths) else f"conversation[{place}]"

    def fit(self, path: str) -> str:
        """A path as the body spells it; that of a setting in one small word is spelled in one way."""
        if path.isidentifier() and path.islower():
            return path
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = fitted(self._read(), path)
        return found

    def _read(self) -> dict[str, Any]:
        if self._given is None:
            self._given = read_object(self._dialect.name, self._body)
        return self._given

    def _tool_paths(self) -> list[str]:
        if self._tools is None:
            self._tools = self._dialect.tool_paths(self._read())  # type: ignore[misc]
        return self._tools

    def _read_paths(self) -> list[str]:
        if self._paths is not None:
            return self._paths
        dialect = self._dialect
        found: list[str] = []
        read = dialect.read_request if self._kind == "request" else dialect.read_response
        read(self._body, found)
        start, count = self._restored
        found[start:start] = [f"history[{number}]" for number in range(count)]
        self._paths = found
        return found


def _named_place(place: int | str) -> str:
    """A place of a request that was not read from a body."""
    if isinstance(place, int):
        return f"conversation[{place}]"
    return _PARTS.get(place, place.removeprefix("@"))


def _settings_place(
    dialect: Dialect,
    given: Callable[[], dict[str, Any]],
    tool_paths: Callable[[], list[str]],
    place: int | str,
) -> str:
    """The path of a setting or tool."""
    if isinstance(place, int):
        return f"conversation[{place}]"
    if place.startswith("@"):
        found = dialect.control_paths.get(place[1:], place[1:])
        return found if isinstance(found, str) else chosen(found, given())
    tool = _TOOL.fullmatch(place) if dialect.tool_paths is not None else None
    if tool is None:
        return place
    tools = tool_paths()
    return place if int(tool[1]) >= len(tools) else tools[int(tool[1])]

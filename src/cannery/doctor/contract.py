"""The contract of a check: a provider's rule with its source and date, how to find violations, and how to fix one.

A check examines a request body as JSON values and uses no files, stores or networks. It never changes the body; its
``fix`` does, at one path that the check found, and describes the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from cannery.wire.places import Path, path_text

Object: TypeAlias = dict[str, Any]
Broken: TypeAlias = tuple[Path, str]

# A provider refuses a problem; whether it refuses a warning depends on facts that are not in the body.
PROBLEM = "problem"
WARNING = "warning"

_LISTS = ("messages", "contents", "input")

# The subject of a rule. A conversation that is not a request has no settings, no tools and no ending.
MESSAGES = "messages"
SETTINGS = "settings"


class Judged:
    """A request body, its model, its size, and the model that made each of its messages, if known."""

    __slots__ = ("_makers", "body", "model", "size")

    def __init__(
        self,
        body: Object,
        model: str | None = None,
        size: int = 0,
        makers: Mapping[int, str] | None = None,
    ) -> None:
        self.body = body
        named = body.get("model")
        self.model = model or (named if isinstance(named, str) and named else None)
        self.size = size
        # Keyed by the identity of the message, which is stable while messages are added and removed.
        self._makers: dict[int, str] = {}
        for index, made_by in (makers or {}).items():
            self._makers[id(self.messages[index])] = made_by

    @property
    def messages(self) -> list[Any]:
        """The messages, under the key of the dialect."""
        for key in _LISTS:
            held = self.body.get(key)
            if isinstance(held, list):
                return held
        return []

    def maker(self, message: Any) -> str | None:
        """The model that made a message, if known."""
        return self._makers.get(id(message))


class Finding(Struct, frozen=True):
    """One violation: its code, path and message, a description, and the source of the rule with its date."""

    code: str
    severity: str
    path: str
    message: int | None
    text: str
    source: str
    date: str
    is_fixable: bool


class Check(NamedTuple):
    """One rule; ``find`` yields the paths that violate it, ``fix`` fixes one of them and describes the change."""

    code: str
    find: Callable[[Judged], Iterable[Broken]]
    source: str
    date: str
    about: str = MESSAGES
    severity: str = PROBLEM
    fix: Callable[[Judged, Path], str | None] | None = None

    def findings(
        self, judged: Judged, place: Callable[[Path], str] = path_text
    ) -> Iterator[Finding]:
        """Yield every violation of the rule; ``place`` formats a path."""
        for path, text in self.find(judged):
            yield Finding(
                self.code,
                self.severity,
                place(path),
                message_of(path),
                text,
                self.source,
                self.date,
                self.fix is not None,
            )


def message_of(path: Path) -> int | None:
    """The position of the message that contains a path; None for settings and tools."""
    match path:
        case (str(name), int(index), *_) if name in _LISTS:
            return index
    return None

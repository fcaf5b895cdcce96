"""What a check is: a provider's rule with its source and date, the places that break it, and what mends one.

A check looks at a request body as JSON values and knows no files, stores or networks. It never changes the body; its
``fix`` does, at one place that the check itself found, and says what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from cannery.wire.places import Path, path_text

Object: TypeAlias = dict[str, Any]
Broken: TypeAlias = tuple[Path, str]

# A problem is refused by the provider; a warning depends on what a body does not tell.
PROBLEM = "problem"
WARNING = "warning"

_LISTS = ("messages", "contents", "input")

# What a rule is about. A conversation that is not a request has no settings, no tools and no ending yet.
MESSAGES = "messages"
SETTINGS = "settings"


class Judged:
    """A request body, the model that it is for, its size, and which model made each of its messages, where known."""

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
        # By the identity of the message, which stays the same while others come and go.
        self._makers: dict[int, str] = {}
        for index, made_by in (makers or {}).items():
            self._makers[id(self.messages[index])] = made_by

    @property
    def messages(self) -> list[Any]:
        """The messages, under whatever name the dialect has for them."""
        for key in _LISTS:
            held = self.body.get(key)
            if isinstance(held, list):
                return held
        return []

    def maker(self, message: Any) -> str | None:
        """The model that made a message, where that is known."""
        return self._makers.get(id(message))


class Finding(Struct, frozen=True):
    """One broken rule: its code, where, in which message, what is wrong, who says so and when that was read."""

    code: str
    severity: str
    path: str
    message: int | None
    text: str
    source: str
    date: str
    is_fixable: bool


class Check(NamedTuple):
    """One rule; ``find`` gives the places that break it, ``fix`` mends one of them and says how."""

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
        """Everything that breaks the rule; ``place`` names a path."""
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
    """The position of the message that a path leads into; None for settings and tools."""
    match path:
        case (str(name), int(index), *_) if name in _LISTS:
            return index
    return None

"""Where a reader found what it read, and how a place becomes the path of a loss.

A reader records the path of each canister while it walks a body, so that nothing is read again to name a place. A
path is a tuple of keys and positions; its text is made only when there is something to report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

Path = tuple[str | int, ...]
ControlPaths = Mapping[str, str | tuple[str, ...]]
# The parts of a setting that a request holds as one.
_PARTS = {
    "@effort": "thinking.effort",
    "@budget": "thinking.budget",
    "@summary": "thinking.summary",
}
# The paths at which responses keep their messages, below a list of several.
_ANSWERS: dict[str | int, str] = {"choices": "message", "candidates": "content"}
_BELOW = re.compile(r"#(\d+)(.*)")
_TOOL = re.compile(r"tools\[(\d+)\]")
# Keys that look like the whole body, and characters that a key has only in brackets and quotes.
_WHOLE = ("", "$")
_ODD = re.compile(r"[.\[\]\"\\\x00-\x20\x7f\ud800-\udfff]").search
_QUOTED = re.compile(r'\[("(?:[^"\\]|\\.)*")').match
# How long a step is that is kept, and how many are.
_SHORT, _MOST = 40, 4096
_spell, _read = msgspec.json.encode, msgspec.json.decode


class Places(Struct):
    """The paths of the canisters and tools of a body, in order, and of settings by the name of the control.

    ``tools`` may stay empty if each tool is at its position in ``tools``. ``settings`` may omit settings that are at
    the path in the dialect's table.
    """

    canisters: list[Path] = []
    tools: list[Path] = []
    settings: dict[str, Path] = {}

    def clear(self) -> None:
        """Forget everything, before a body is read from its start."""
        self.canisters.clear()
        self.tools.clear()
        self.settings.clear()

    def insert_history(self, start: int, count: int) -> None:
        """Make room for canisters that were inserted from elsewhere and are not in the body."""
        self.canisters[start:start] = [("history", number) for number in range(count)]


class _Steps(dict[str | int, str]):
    """The text of each step of a path; a short one is spelled once."""

    def __missing__(self, step: str | int) -> str:
        if type(step) is int:
            text = f"[{step}]"
        else:
            key = str(step)
            text = f"[{_quoted(key)}]" if key in _WHOLE or _ODD(key) else f".{key}"
        # What callers send does not fill the memory.
        if len(text) <= _SHORT and len(self) < _MOST:
            self[step] = text
        return text


# A key as a step of a path: ``.content``, or ``["a.b"]``, spelled as JSON, where a point would not tell.
key_text: Callable[[str | int], str] = _Steps().__getitem__


def _quoted(key: str) -> str:
    try:
        return _spell(key).decode()
    except UnicodeEncodeError:
        import json

        # Half of a surrogate pair, which only its escape spells.
        return json.dumps(key)


def first_key(path: str) -> str:
    """The key with which a path begins."""
    quoted = _QUOTED(path)
    if quoted is not None:
        return str(_read(quoted[1]))
    return path.partition(".")[0].partition("[")[0]


def last_key(path: str) -> str:
    """The key in which a path ends."""
    if not path.endswith('"]'):
        return path.rpartition(".")[2]
    start = path.rfind('["', 0, -2)
    return str(_read(path[start + 1 : -1]))


def path_text(path: Path) -> str:
    """A path as text: ``messages[0].content``."""
    return "".join(map(key_text, path)).removeprefix(".")


def _message_of(path: Path) -> Path:
    """The path of the wire message that holds a path."""
    end = 2 if len(path) > 1 and type(path[1]) is int else 1
    if path[0] in _ANSWERS and len(path) > end and _ANSWERS[path[0]] == path[end]:
        end += 1
    return path[:end]


class Locator(Struct):
    """Turns places into paths of the body that was read; without a body, places name parts of the request.

    ``control_paths`` are the paths of settings in the body's dialect; None if there is no such dialect.
    """

    places: Places | None
    control_paths: ControlPaths | None

    def path(self, place: int | str, is_message: bool = False) -> str:  # noqa: FBT001, FBT002 - see Locate
        """The path of a place, or of the wire message that holds it."""
        places = self.places
        if type(place) is not int:
            return self._named(str(place), places)
        if places is None or place >= len(places.canisters):
            return f"conversation[{place}]"
        noted = places.canisters[place]
        return path_text(_message_of(noted) if is_message else noted)

    def _named(self, place: str, places: Places | None) -> str:
        if place[:1] == "@":
            return _setting(place, places, self.control_paths)
        if place[:1] == "#":
            # Below a canister: its position, and the path from there.
            found = _BELOW.match(place)
            return self.path(int(found[1])) + found[2] if found else place
        if places is None or not places.tools:
            return place
        tool = _TOOL.fullmatch(place)
        if tool is None or int(tool[1]) >= len(places.tools):
            return place
        return path_text(places.tools[int(tool[1])])


def _setting(place: str, places: Places | None, paths: ControlPaths | None) -> str:
    name = place[1:]
    if paths is None:
        return _PARTS.get(place, name)
    if places is not None and name in places.settings:
        return path_text(places.settings[name])
    found = paths.get(name, name)
    return found if isinstance(found, str) else found[0]

"""Recognises the effect of a tool call from the shape of its arguments: an edit of a file, a command, a new file.

Agents name their tools and arguments differently, so that shapes are matched and not names of tools: a pair of an old
and a new text, a patch, a command, a path with content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

_PAIRS = (
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("oldString", "newString"),
    ("oldText", "newText"),
    ("old_text", "new_text"),
    ("search", "replace"),
    ("before", "after"),
)
_PATHS = ("file_path", "path", "filePath", "filename", "file", "target_file", "notebook_path")
_CONTENTS = ("content", "contents", "file_text", "new_source", "text")
_COMMANDS = ("command", "cmd", "script")
_PATCHES = ("patch", "diff", "input", "patchText")
_SUBJECTS = (
    "description",
    "query",
    "pattern",
    "url",
    "prompt",
    "title",
    "name",
    "subject",
    "question",
)
_PATCH = re.compile(r"^(?:\*\*\* Begin Patch|diff --git |--- [^\n]*\n\+\+\+ |@@ )", re.MULTILINE)
_SEARCH = re.compile(
    r"^[<-]{5,9} ?SEARCH>?\n(?P<old>.*?)^=======\n(?P<new>.*?)^[>+]{5,9} ?REPLACE>?$",
    re.MULTILINE | re.DOTALL,
)


class Change(Struct, frozen=True):
    """One text that replaces another."""

    old: str
    new: str


class Deed(Struct, frozen=True):
    """The effect of a call, as far as its arguments show.

    ``subject`` is a short text for a heading; ``rest`` are the arguments that no other field shows.
    """

    subject: str = ""
    path: str = ""
    changes: tuple[Change, ...] = ()
    patch: str = ""
    written: str | None = None
    command: str = ""
    rest: Mapping[str, Any] = {}


def deed_of(arguments: Mapping[str, Any]) -> Deed:
    """The effect of a call with these arguments."""
    left = dict(arguments)
    path = _take_text(left, _PATHS)
    changes = tuple(_changes(left))
    patch = "" if changes else _take_patch(left)
    command = "" if changes or patch else _take_command(left)
    written = None
    if path and not (changes or patch or command):
        written = _take_text(left, _CONTENTS, is_long=True) or None
    subject = path or _first_line(command)
    if not subject:
        subject = next(
            (_first_line(left[name]) for name in _SUBJECTS if isinstance(left.get(name), str)), ""
        )
    return Deed(subject, path, changes, patch, written, command, left)


def _changes(left: dict[str, Any]) -> Iterator[Change]:
    pair = _take_pair(left)
    if pair is not None:
        yield pair
        return
    edits = left.get("edits")
    if (
        isinstance(edits, (list, tuple))
        and edits
        and all(isinstance(edit, Mapping) for edit in edits)
    ):
        found = [_take_pair(dict(edit)) for edit in edits]
        if all(change is not None for change in found):
            del left["edits"]
            yield from (change for change in found if change is not None)
        return
    for name in _PATCHES:
        text = left.get(name)
        if isinstance(text, str) and (blocks := list(_SEARCH.finditer(text))):
            del left[name]
            yield from (
                Change(block["old"].removesuffix("\n"), block["new"].removesuffix("\n"))
                for block in blocks
            )
            return


def _take_pair(left: dict[str, Any]) -> Change | None:
    for old, new in _PAIRS:
        if isinstance(left.get(old), str) and isinstance(left.get(new), str):
            return Change(left.pop(old), left.pop(new))
    return None


def _take_patch(left: dict[str, Any]) -> str:
    for name in _PATCHES:
        text = left.get(name)
        if isinstance(text, str) and is_patch(text):
            return str(left.pop(name))
    return ""


def is_patch(text: str) -> bool:
    """Whether a text is a patch."""
    return _PATCH.match(text.lstrip()[:4000]) is not None


def _take_command(left: dict[str, Any]) -> str:
    for name in _COMMANDS:
        value = left.get(name)
        if isinstance(value, str) and value:
            return str(left.pop(name))
        if (
            isinstance(value, (list, tuple))
            and value
            and all(isinstance(word, str) for word in value)
        ):
            words = list(left.pop(name))
            # ["bash", "-lc", "…"]: the command is the last word.
            is_shell = len(words) == 3 and words[1].startswith("-") and words[1].endswith("c")
            return words[2] if is_shell else " ".join(words)
    return ""


def _take_text(left: dict[str, Any], names: tuple[str, ...], *, is_long: bool = False) -> str:
    for name in names:
        value = left.get(name)
        if isinstance(value, str) and value and (is_long or "\n" not in value):
            return str(left.pop(name))
    return ""


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")

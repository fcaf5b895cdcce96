"""Taking what is understood out of decoded objects: checks with their paths, values left as text, and patches.

A reader owns the objects of a body. It takes the keys that it understands, and what is left becomes a patch
(``wire.patches``) from what writing would say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from msgspec import Raw
from msgspec.json import format as compact

from cannery.dialects.gemini_generate.spelling import MISSING, NAME, Object, plain
from cannery.errors import DialectError
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.wire.bodies import kind_of
from cannery.wire.places import path_text

Steps = tuple[str | int, ...]
_BLANK = frozenset(" \t\r\n")


def fail(path: Steps, problem: str) -> NoReturn:
    """Refuse the body."""
    raise DialectError(NAME, path_text(path), problem)


def _expect(value: Any, kind: type, expected: str, path: Steps) -> Any:
    if value is MISSING:
        fail(path, "is required")
    if type(value) is not kind:
        fail(path, f"expected {expected}, got {kind_of(value)}")
    return value


def object_at(value: Any, path: Steps) -> Object:
    """A value that must be a JSON object."""
    return _expect(value, dict, "an object", path)  # type: ignore[no-any-return]


def list_at(value: Any, path: Steps) -> list[Any]:
    """A value that must be a JSON list."""
    return _expect(value, list, "a list", path)  # type: ignore[no-any-return]


def text_at(value: Any, path: Steps) -> str:
    """A value that must be a JSON string."""
    return _expect(value, str, "a string", path)  # type: ignore[no-any-return]


def json_text(value: Any) -> str:
    """The compact JSON text of a value; numbers as the body spells them, where a decoder left it as text.

    Escaped characters are spelled out: clients that write ASCII only would else make models read escapes.
    """
    if type(value) is not Raw:
        return write_json(value)
    text = str(value, "utf-8")
    if "\\u" in text:
        return write_json(plain(value))
    # Serializers write spaces everywhere or nowhere, so the first key tells.
    if text[0] == "{" and text[1] not in _BLANK and text[text.find('":') + 2] not in _BLANK:
        return text
    return compact(text, indent=-1)


def whole_value(value: Any) -> Any:
    """A value of which nothing is left as text, at any level."""
    return decode_json(write_json(value))


def make_patch(
    left: Object,
    dropped: list[str] | None = None,
    renamed: dict[str, str] | None = None,
    inner: Object | None = None,
) -> Object | None:
    """The patch (``wire.patches``) of an object that was read; None if it is as it would be written.

    ``left`` was not taken, ``dropped`` must not be written, ``renamed`` was spelled otherwise, and ``inner`` are the
    patches of inner objects by their usual keys.
    """
    patch: Object = {}
    if renamed:
        patch["r"] = renamed
    if inner:
        patch["d"] = inner
    if left:
        patch["s"] = left
    if dropped:
        patch["x"] = dropped
    return patch or None


def nested_patch(key: str, usual: str, inner: Object | None, left: Object) -> Object | None:
    """The patch of an object with one inner object under a key and its patch, and nothing else but what is left."""
    renamed = None if key == usual else {usual: key}
    return make_patch(left, None, renamed, None if inner is None else {usual: inner})


class Section:
    """An object that is read by its usual keys (``usual`` has them by either spelling), and the patch of what is left.

    ``held`` is the object itself, from which keys are taken; ``keys`` are its spellings by the usual ones.
    """

    def __init__(self, held: Object, usual: Mapping[str, str]) -> None:
        self.held = held
        self.keys = {usual.get(key, key): key for key in held}
        if len(self.keys) < len(held):
            # Some key is there in both spellings, of which the usual one counts.
            self.keys.update((key, key) for key in held)
        self.renamed: dict[str, str] = {}
        self.inner: Object = {}
        self.dropped: list[str] = []

    def get(self, usual: str) -> Any:
        """The value of a key; None where there is none."""
        key = self.keys.get(usual)
        return None if key is None else plain(self.held[key])

    def take(self, usual: str, written: Any = MISSING) -> str:
        """Take a key that was understood, and of which ``written`` will be said; gives its spelling."""
        key = self.keys[usual]
        if written is not MISSING:
            value = plain(self.held[key])
            if type(value) is str and type(written) is int and value == str(written):
                self.inner[usual] = {"q": True}
            elif type(value) is not type(written) or value != written:
                if key != usual:
                    self.dropped.append(usual)
                return key
        del self.held[key]
        if key != usual:
            self.renamed[usual] = key
        return key

    def write(self, usual: str, written: Any) -> None:
        """The same for a key that will be written, whether it is there or not."""
        if usual in self.keys:
            self.take(usual, written)
        else:
            self.dropped.append(usual)

    def nest(self, usual: str, patch: Object | None) -> None:
        """Take an inner object of which this is the patch."""
        self.take(usual)
        if patch is not None:
            self.inner[usual] = patch

    def patch(self) -> Object | None:
        """The patch of the whole object."""
        return make_patch(self.held, self.dropped, self.renamed, self.inner)


def whole(value: Any) -> Any:
    """An integer, also spelled as digits or as a float (protobuf's JSON takes all three), or absent."""
    if type(value) is int:
        return value
    if type(value) is str and value.isascii() and value.removeprefix("-").isdecimal():
        return int(value) if len(value) < 19 else absent
    if type(value) is float and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return absent

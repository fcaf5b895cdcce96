"""Redacts text, JSON and base64: matches are replaced by labels that are valid in any context.

A label has no quote and no backslash, so that JSON inside text stays valid. Text that is JSON is decoded and its values
are redacted separately, also by their names; base64 that contains text is decoded, redacted and encoded again.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from cannery.errors import InputError
from cannery.redaction.patterns import (
    CUSTOM,
    EMAIL,
    EMAILS,
    HOME,
    HOMES,
    SECRET,
    SECRET_NAME,
    SECRETS,
    is_person,
    random_tokens,
)

KINDS = (SECRET, EMAIL, HOME, CUSTOM)
_LABEL = re.compile(r"\[redacted:[a-z]+-\d+\]")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,}={0,2}(?![A-Za-z0-9+/_=-])")
_DEEPEST = 4
_SHOWN = 6


class Sighting(NamedTuple):
    """One redacted value: its kind, its label, its first characters, and the number of occurrences."""

    kind: str
    label: str
    begins: str
    times: int


class Redactor:
    """Replaces secrets in texts; ``patterns`` are regular expressions of further secrets."""

    def __init__(self, patterns: Iterable[str] = (), kinds: Iterable[str] = KINDS) -> None:
        self._kinds = frozenset(kinds)
        self._custom = [_compiled(pattern) for pattern in patterns]
        self._labels: dict[tuple[str, str], str] = {}
        self._seen: Counter[tuple[str, str]] = Counter()
        self._numbers: Counter[str] = Counter()

    @property
    def counts(self) -> dict[str, int]:
        """The number of replacements of each kind."""
        found: Counter[str] = Counter()
        for (kind, _), count in self._seen.items():
            found[kind] += count
        return {kind: found[kind] for kind in KINDS if found[kind]}

    def sightings(self) -> list[Sighting]:
        """The redacted values, shortened to their first characters."""
        return [
            Sighting(kind, self._labels[kind, value], _begins(value), count)
            for (kind, value), count in self._seen.items()
        ]

    def text(self, text: str) -> str:
        """Redact a text."""
        return self._text(text, 0)

    def value(self, value: Any) -> Any:
        """Redact a JSON value, both keys and values."""
        return self._value(value, 0)

    def _text(self, text: str, depth: int) -> str:
        if depth < _DEEPEST:
            as_json = self._json(text, depth)
            if as_json is not None:
                return as_json
            text = _BASE64.sub(lambda found: self._encoded(found[0], depth), text)
        spans = sorted(self._spans(text))
        pieces, end = [], 0
        for start, stop, kind in spans:
            if start < end:
                continue
            pieces += [text[end:start], self._label(kind, text[start:stop])]
            end = stop
        return "".join([*pieces, text[end:]])

    def _spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        for pattern in self._custom:
            yield from ((*each.span(), CUSTOM) for each in pattern.finditer(text) if each[0])
        if SECRET in self._kinds:
            for pattern in SECRETS:
                for found in pattern.finditer(text):
                    start, end = found.span(1 if pattern.groups else 0)
                    if not _LABEL.match(text, start) and not _LABEL.search(text, start, end):
                        yield start, end, SECRET
            yield from ((*span, SECRET) for span in random_tokens(text))
        if EMAIL in self._kinds:
            yield from ((*found.span(), EMAIL) for found in EMAILS.finditer(text))
        if HOME in self._kinds:
            for pattern in HOMES:
                for found in pattern.finditer(text):
                    if is_person(found[1]):
                        yield (*found.span(1), HOME)

    def _json(self, text: str, depth: int) -> str | None:
        """Redact the text of a JSON object or list; None for any other text."""
        bare = text.strip()
        if bare[:1] not in ("{", "[") or bare[-1:] not in ("}", "]"):
            return None
        try:
            value = json.loads(bare)
        except (ValueError, RecursionError):
            return None
        redacted = self._value(value, depth + 1)
        if redacted == value:
            return text
        indent = 2 if "\n" in bare else None
        separators = None if ": " in bare or indent else (",", ":")
        return json.dumps(redacted, ensure_ascii=False, indent=indent, separators=separators)

    def _value(self, value: Any, depth: int, name: str = "") -> Any:
        if isinstance(value, dict):
            return {
                self._text(key, _DEEPEST): self._value(each, depth, key)
                for key, each in value.items()
            }
        if isinstance(value, list):
            return [self._value(each, depth, name) for each in value]
        is_named = SECRET in self._kinds and _is_secret_name(name)
        if is_named and isinstance(value, (str, int)) and not isinstance(value, bool) and value:
            text = str(value)
            return text if _LABEL.fullmatch(text) else self._label(SECRET, text)
        return self._text(value, depth) if isinstance(value, str) else value

    def _encoded(self, token: str, depth: int) -> str:
        """Redact base64 of text; any other token is returned unchanged."""
        urlsafe = "-" in token or "_" in token
        bare = token.rstrip("=").translate(str.maketrans("-_", "+/"))
        if len(bare) % 4 == 1:
            return token
        try:
            data = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
            text = data.decode()
        except (binascii.Error, ValueError, UnicodeDecodeError):
            return token
        if not text.isprintable() and not any(mark in text for mark in "\n\t"):
            return token
        redacted = self._text(text, depth + 1)
        if redacted == text:
            return token
        again = base64.b64encode(redacted.encode()).decode()
        again = again.translate(str.maketrans("+/", "-_")) if urlsafe else again
        return again if token.endswith("=") or len(token) % 4 == 0 else again.rstrip("=")

    def _label(self, kind: str, value: str) -> str:
        key = kind, value
        if key not in self._labels:
            self._numbers[kind] += 1
            self._labels[key] = f"[redacted:{kind}-{self._numbers[kind]}]"
        self._seen[key] += 1
        return self._labels[key]


def _is_secret_name(name: str) -> bool:
    return bool(SECRET_NAME.fullmatch(re.sub(r"[^a-z]", "", name.lower())))


def _begins(value: str) -> str:
    """The first characters of a value, few enough to reveal nothing."""
    return f"{value[: min(_SHOWN, len(value) // 4)]}…"


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InputError(f"{pattern!r} is not a regular expression: {error}") from None

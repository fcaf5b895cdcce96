"""The search index: words without case and accents, as a ``tsvector`` of our own making.

PostgreSQL's parser treats addresses, numbers and compounds as one word, depending on the locale; here a word is a run
of letters and digits, as in the other backends. A vector holds at most 255 positions of a word and 16,383 in all, and a
megabyte. Beyond that the words are kept as text beside it, and scanned for phrases; without a vector at all they are
found by their trigrams.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from cannery.backends._contract import Term

_WORD = re.compile(r"[^\W_]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_LONGEST_WORD = 500
_MOST_PLACES = 255
_LAST_PLACE = 16_383
_LARGEST = 900_000
_FIRST_PLACES = tuple(f":{place}" for place in range(1, _LAST_PLACE + 1))
_NEXT_PLACES = tuple(f",{place}" for place in range(1, _LAST_PLACE + 1))


class Searchable(NamedTuple):
    """The searchable form of a message: a vector, or the words as text, or both."""

    vector: str | None
    words: str | None


def split(text: str) -> list[str]:
    """The words of a text."""
    folded = text.lower()
    if not folded.isascii():
        decomposed = _ACCENTS.sub("", unicodedata.normalize("NFD", folded))
        folded = unicodedata.normalize("NFC", decomposed)
    return _WORD.findall(folded)


def searchable(text: str) -> Searchable | None:
    """The searchable form of a text; None if it has no word."""
    words = split(text)
    if not words:
        return None
    # A word has at most as many positions as there are words, and a character at most four bytes.
    is_whole = (
        len(words) <= _LAST_PLACE
        and 4 * len(text) + 6 * len(words) <= _LARGEST
        and max(map(len, words)) <= _LONGEST_WORD
        and (len(words) <= _MOST_PLACES or max(Counter(words).values()) <= _MOST_PLACES)
    )
    return Searchable(_vector(words), None) if is_whole else _cut(words)


def _vector(words: Sequence[str]) -> str:
    """The words with their positions, all within the limits."""
    found: dict[str, str] = {}
    for word, first, next_one in zip(words, _FIRST_PLACES, _NEXT_PLACES, strict=False):
        if word in found:
            found[word] += next_one
        else:
            found[word] = word + first
    return " ".join(found.values())


def _cut(words: Sequence[str]) -> Searchable:
    """As many words and positions as a vector can hold, with the words as text."""
    text = f" {' '.join(words)} "
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words, 1):
        places.setdefault(word[:_LONGEST_WORD], []).append(place)
    kept = {word: _kept(found) for word, found in places.items()}
    size = sum(len(word.encode()) + 2 * len(found) + 4 for word, found in kept.items())
    if size > _LARGEST:
        return Searchable(None, text)
    vector = " ".join([f"{word}:{','.join(map(str, at))}" for word, at in kept.items()])
    return Searchable(vector, text)


def _kept(places: Sequence[int]) -> list[int]:
    return [place for place in places[:_MOST_PLACES] if place <= _LAST_PLACE] or [_LAST_PLACE]


class Query(NamedTuple):
    """A search: words that must all occur; phrases in a vector; patterns in text.

    ``needs_text`` is True if a word is longer than a vector can hold.
    """

    words: str
    phrases: str
    patterns: list[str]
    needs_text: bool


def query_of(terms: Sequence[Term]) -> Query | None:
    """The search for some terms; None if one of them has no word."""
    words: list[str] = []
    phrases: list[str] = []
    patterns: list[str] = []
    needs_text = False
    for term in terms:
        # UnicodeEncodeError for half of a surrogate pair, which is not a word and must not be treated as a missing one.
        term.text.encode()
        found = split(term.text)
        if not found:
            return None
        needs_text = needs_text or max(map(len, found)) > _LONGEST_WORD
        marks = [""] * len(found)
        if term.is_start:
            marks[-1] = ":*"
        quoted = [
            f"'{word[:_LONGEST_WORD]}'{mark}" for word, mark in zip(found, marks, strict=True)
        ]
        words += quoted
        phrases.append(f"({' <-> '.join(quoted)})")
        patterns.append(f"% {' '.join(found)}" + ("%" if term.is_start else " %"))
    return Query(" & ".join(words), " & ".join(phrases), patterns, needs_text)

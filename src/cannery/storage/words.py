"""The words of a canister: the text that search finds, and the snippet that it shows."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from cannery.backends import Term
from cannery.messages import (
    AnyCanister,
    FileContentClass,
    InvocationCanisterClass,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    TextualContentClass,
    absent,
)

_AROUND = 60
_TOKEN = re.compile(r"\w+")


def words_of(canister: AnyCanister) -> str:
    """All searchable text of a canister."""
    if isinstance(canister, InvocationCanisterClass):
        return f"{canister.name} {canister.arguments_text}"
    title = getattr(canister, "title", absent)
    said = _words(canister.held)
    return said if title is absent else f"{title}\n{said}"


def _words(held: Any) -> str:
    if held is absent:
        return ""
    if isinstance(held, str):
        return held
    if isinstance(held, TextualContentClass | ReasoningContentClass | RefusalContentClass):
        return held.text
    if isinstance(held, PartsContentClass):
        return "\n".join(filter(None, map(_words, held.parts)))
    if isinstance(held, FileContentClass):
        inside = (held.name, held.context, *map(_words, held.chunks))
        return "\n".join(filter(None, inside))
    return str(getattr(held, "json", ""))


def terms_of(text: str) -> list[Term]:
    """A query as terms that must all occur, in any order; a phrase in quotes stays one term.

    ``word*`` matches words with that prefix.
    """
    terms = []
    for phrase, word in re.findall(r'"([^"]+)"|(\S+)', text):
        is_start = not phrase and word.endswith("*")
        found = _TOKEN.findall(phrase or word)
        if found:
            terms.append(Term(" ".join(found), is_start))
    return terms


def snippet(text: str, query: str) -> str:
    """The part of a text around the first word of a query."""
    at = -1
    folded = _fold(text)
    for word in _TOKEN.findall(query):
        at = folded.find(_fold(word))
        if at >= 0:
            break
    start = max(at - _AROUND, 0)
    piece = " ".join(text[start : max(at, 0) + 2 * _AROUND].split())
    return ("…" if start else "") + piece + ("…" if at + 2 * _AROUND < len(text) else "")


def _fold(text: str) -> str:
    """Lower case without accents, one character for each, so that positions stay the same."""
    return "".join(
        unicodedata.normalize("NFD", character)[0].lower()[:1] or character for character in text
    )

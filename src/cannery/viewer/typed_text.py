"""Separates the text that a user typed from the blocks that a program added.

Agents wrap reminders, environments and instructions in tags (``<system-reminder>``, ``<environment_context>``). These
are folded on a page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_TAG = re.compile(
    r"^[ \t]*<(?P<tag>[A-Za-z]\w*(?:[-_]\w+)+|INSTRUCTIONS|[A-Z]{4,})(?:\s[^<>\n]*)?>", re.MULTILINE
)
# Tags in which a program wraps the text that a user typed.
_TYPED = frozenset(
    {"user_query", "user_input", "user_message", "user_request", "user-prompt", "user_prompt"}
)
_SEARCHED = 400_000


class Passage(Struct, frozen=True):
    """A part of a text; ``tag`` is the tag of a block that a program added, otherwise ""."""

    text: str
    tag: str = ""


def passages(text: str) -> Iterator[Passage]:
    """Split a text into passages."""
    at = 0
    while len(text) <= _SEARCHED and (found := _TAG.search(text, at)):
        closing = f"</{found['tag']}>"
        end = text.find(closing, found.end())
        if end < 0 or found["tag"].lower() in _TYPED:
            break
        if before := text[at : found.start()].strip("\n"):
            yield Passage(before)
        yield Passage(text[found.end() : end].strip("\n"), found["tag"])
        at = end + len(closing)
    if (rest := text[at:].strip("\n")) or at == 0:
        yield Passage(rest)


def is_setup(text: str) -> bool:
    """Whether a text contains only blocks of a program."""
    return text.lstrip()[:1] == "<" and all(passage.tag for passage in passages(text))

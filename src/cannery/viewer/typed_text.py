"""The text that a person typed, separated from the blocks that a program added.

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
# Tags in which a program wraps what a person typed.
_TYPED = frozenset(
    {"user_query", "user_input", "user_message", "user_request", "user-prompt", "user_prompt"}
)
_SEARCHED = 400_000


class Passage(Struct, frozen=True):
    """Some of a text; ``tag`` is that of the block that a program wrote, "" for everything else."""

    text: str
    tag: str = ""


def passages(text: str) -> Iterator[Passage]:
    """The passages of a text, in order."""
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
    """Whether a text has nothing but blocks of a program."""
    return text.lstrip()[:1] == "<" and all(passage.tag for passage in passages(text))

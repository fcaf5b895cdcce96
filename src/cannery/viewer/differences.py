"""Differences between two texts as HTML: by line, and by word within a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from htpy import Element, Node, code, del_, ins, pre, span
from markupsafe import Markup

from cannery.viewer.visible import visible

_MOST_LINES = 2_000
_MOST_WORDS = 4_000
_AROUND = 3
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_HUNK = re.compile(r"^@@ .*@@|^@@")


def line_changes(before: str, after: str) -> Element:
    """A unified view of two versions of a text, with removed and added lines."""
    old, new = visible(before).split("\n"), visible(after).split("\n")
    if before == "":
        old = []
    if after == "":
        new = []
    if len(old) + len(new) > _MOST_LINES:
        return _block(
            [_line("del", "-", line) for line in old] + [_line("ins", "+", line) for line in new]
        )
    return _block(_compared(old, new))


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[Node]:
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from _context(old[i1:i2], is_first=i1 == 0, is_last=i2 == len(old))
            continue
        yield from (_line("del", "-", line) for line in old[i1:i2])
        yield from (_line("ins", "+", line) for line in new[j1:j2])


def _context(lines: Sequence[str], *, is_first: bool, is_last: bool) -> Iterator[Node]:
    """Unchanged lines; only those near a change are shown."""
    head = 0 if is_first else _AROUND
    tail = 0 if is_last else _AROUND
    if len(lines) <= head + tail + 1:
        yield from (_line("same", " ", line) for line in lines)
        return
    yield from (_line("same", " ", line) for line in lines[:head])
    yield span(".line.gap")[f"… {len(lines) - head - tail} lines the same\n"]
    yield from (_line("same", " ", line) for line in lines[len(lines) - tail :])


def patch(text: str) -> Element:
    """A patch verbatim, with its lines coloured."""
    return _block(_patch_line(line) for line in visible(text).split("\n"))


def _patch_line(line: str) -> Node:
    if line.startswith(("+++", "---", "***", "diff ", "index ")) or _HUNK.match(line):
        return span(".line.head")[f"{line}\n"]
    if line.startswith("+"):
        return _line("ins", "+", line[1:])
    if line.startswith("-"):
        return _line("del", "-", line[1:])
    return _line("same", " ", line.removeprefix(" "))


def _line(kind: str, sign: str, text: str) -> Element:
    element = {"ins": ins, "del": del_}.get(kind, span)
    return element(f".line.{kind}")[f"{sign}{text}\n"]


def _block(lines: Iterable[Node]) -> Element:
    return pre(".diff", tabindex="0")[code[lines]]


def word_changes(before: str, after: str) -> tuple[Markup, Markup]:
    """Two texts, each with the words marked that the other does not contain."""
    old, new = _WORDS.findall(visible(before)), _WORDS.findall(visible(after))
    if len(old) + len(new) > _MOST_WORDS:
        return _joined([del_[visible(before)]]), _joined([ins[visible(after)]])
    left: list[Node] = []
    right: list[Node] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone, come = "".join(old[i1:i2]), "".join(new[j1:j2])
        if tag == "equal":
            left.append(gone)
            right.append(come)
            continue
        left += [del_[gone]] if gone else []
        right += [ins[come]] if come else []
    return _joined(left), _joined(right)


def _joined(nodes: Sequence[Node]) -> Markup:
    from htpy import fragment

    return Markup(str(fragment[nodes]))  # noqa: S704 - htpy escapes

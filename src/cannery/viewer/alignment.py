"""Aligns two histories by the digests of their messages, so that the shared parts are shown once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from cannery.messages import AnyCanister, digest
from cannery.viewer.arrangement import Placed, placed

_MOST = 4_000


class Same(Struct, frozen=True):
    """Messages that both histories contain, with their positions in each."""

    left: tuple[Placed, ...]
    right: tuple[Placed, ...]


class Different(Struct, frozen=True):
    """Messages that only one history contains, in rows; either side of a row may be empty."""

    rows: tuple[tuple[Placed | None, Placed | None], ...]


def align(left: Sequence[AnyCanister], right: Sequence[AnyCanister]) -> Iterator[Same | Different]:
    """Split two histories into runs of equal and of different messages."""
    ours, theirs = placed(left), placed(right)
    mine, yours = [digest(each) for each in left], [digest(each) for each in right]
    start = _shared(mine, yours)
    if start:
        yield Same(tuple(ours[:start]), tuple(theirs[:start]))
    if max(len(mine), len(yours)) - start > _MOST:
        yield Different(_rows(ours[start:], theirs[start:]))
        return
    matcher = SequenceMatcher(None, mine[start:], yours[start:], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        here, there = ours[start + i1 : start + i2], theirs[start + j1 : start + j2]
        yield Same(tuple(here), tuple(there)) if tag == "equal" else Different(_rows(here, there))


def _shared(left: Sequence[bytes], right: Sequence[bytes]) -> int:
    count = 0
    for mine, yours in zip(left, right, strict=False):
        if mine != yours:
            break
        count += 1
    return count


def _rows(
    left: list[Placed], right: list[Placed]
) -> tuple[tuple[Placed | None, Placed | None], ...]:
    """Pair different messages by role."""
    rows: list[tuple[Placed | None, Placed | None]] = []
    mine, yours = [[each.canister.role.value for each in side] for side in (left, right)]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, mine, yours, autojunk=False).get_opcodes():
        if tag == "equal":
            rows += zip(left[i1:i2], right[j1:j2], strict=True)
        else:
            rows += [(each, None) for each in left[i1:i2]]
            rows += [(None, each) for each in right[j1:j2]]
    return tuple(rows)

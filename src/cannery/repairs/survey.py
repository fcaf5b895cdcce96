"""One walk over a conversation that finds which repairs it may need.

Most conversations need none, and this walk costs less than one for each pass. In doubt a pass runs: it decides itself
what it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter, is_
from typing import Any

from cannery.messages.absence import absent
from cannery.messages.canisters import (
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
)
from cannery.messages.content import TextualContentClass
from cannery.repairs.pairing import is_paired
from cannery.wire.contract import Piece
from cannery.wire.turns import MODEL, SIDES, SUPERVISOR, USER

# Several supervisors stand before anybody speaks.
LEADING = "leading"
# A supervisor message follows a message of another role.
LATE = "late"
# Calls and results, and those that are not answered right behind their turn, in call order.
CALLS, UNPAIRED = "calls", "unpaired"
# A text without a visible character, or a turn that says nothing.
BLANK = "blank"
# The user does not speak first; the model speaks last.
OPENER, TRAILING = "opener", "trailing"
# Two of one side follow each other in messages of their own.
NEIGHBOURS = "neighbours"
# Cache marks.
MARKS = "marks"
# Something is said that is more than a bare text.
OBJECTS = "objects"

_PLAIN = frozenset({str, type(absent)})
_canister = attrgetter("canister")
_held = attrgetter("held")
_residue = attrgetter("residue")
_side = SIDES.__getitem__


def facts_of(pieces: list[Piece]) -> frozenset[str]:
    """What there is in a conversation that some provider may not take as it is."""
    return frozenset(_facts([*map(_canister, pieces)], pieces))


def _facts(canisters: list[Any], pieces: list[Piece]) -> Iterator[str]:
    classes = [*map(type, canisters)]
    sides = [*map(_side, classes)]
    yield from _order(sides, classes, canisters)
    if InvocationCanisterClass in classes or ResultCanisterClass in classes:
        yield CALLS
        if not is_paired(pieces):
            yield UNPAIRED
    held = [*map(_held, canisters)]
    kinds = {*map(type, held)}
    if kinds - _PLAIN:
        yield OBJECTS
    texts = held if kinds == {str} else [*filter(_is_text, held)]
    is_open = TextualContentClass in kinds or (type(absent) in kinds and _is_silent(held, classes))
    if is_open or not all(texts) or any(map(str.isspace, texts)):
        yield BLANK
    residues = [residue for residue in map(_residue, canisters) if residue is not None]
    if any(residue.cache for residue in residues):
        yield MARKS


def _order(sides: list[str], classes: list[type], canisters: list[Any]) -> Iterator[str]:
    """Facts about who speaks when."""
    leading = 0
    while leading < len(sides) and sides[leading] is SUPERVISOR:
        leading += 1
    if leading > 1:
        yield LEADING
    if leading == len(sides) or sides[leading] is not USER:
        yield OPENER
    if sides and sides[-1] is MODEL:
        yield TRAILING
    if SupervisorCanisterClass in classes[leading:]:
        yield LATE
    if any(map(is_, sides, sides[1:])) and not _are_joined(sides, canisters):
        yield NEIGHBOURS


def _are_joined(sides: list[str], canisters: list[Any]) -> bool:
    """Whether all neighbours of one side are parts of one message."""
    return all(
        canister.joined
        for canister, whose, before in zip(canisters[1:], sides[1:], sides, strict=False)
        if whose is before
    )


def _is_silent(held: list[Any], classes: list[type]) -> bool:
    """Whether some turn of the model says nothing and calls for nothing."""
    behind = [*classes[1:], None]
    return any(
        said is absent and follower is not InvocationCanisterClass
        for said, follower in zip(held, behind, strict=True)
    )


def _is_text(held: Any) -> bool:
    return type(held) is str

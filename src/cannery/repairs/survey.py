"""One look at a conversation that says which repairs it may need.

Most conversations need none, and a pass that walks all pieces to find that out costs more than the look. Every fact
here errs on the side of running a pass: a pass decides for itself what it changes.
"""

from __future__ import annotations

from operator import is_, is_not
from typing import Any

from cannery.messages.absence import absent
from cannery.messages.canisters import (
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
)
from cannery.repairs.pairing import is_paired
from cannery.wire.contract import Piece
from cannery.wire.turns import SIDES, SUPERVISOR


class Survey:
    """Facts about the pieces of a conversation."""

    __slots__ = (
        "has_blank",
        "has_calls",
        "has_late_supervisors",
        "has_neighbours",
        "has_objects",
        "is_paired",
        "last",
        "leading",
        "marks",
        "opener",
    )

    def __init__(self, pieces: list[Piece]) -> None:
        canisters: list[Any] = [piece.canister for piece in pieces]
        classes = [*map(type, canisters)]
        sides = [SIDES[kind] for kind in classes]
        held = [canister.held for canister in canisters]
        self.has_calls = InvocationCanisterClass in classes or ResultCanisterClass in classes
        self.is_paired = not self.has_calls or is_paired(pieces)
        # How many supervisors stand before anybody speaks, and whose turn it is then.
        self.leading = _leading(sides)
        self.opener = sides[self.leading] if self.leading < len(sides) else ""
        self.last = sides[-1] if sides else ""
        self.has_late_supervisors = SupervisorCanisterClass in classes[self.leading :]
        # Two of one side follow each other; they may be parts of one message.
        self.has_neighbours = any(map(is_, sides, sides[1:]))
        # Something is held that is more than a bare text, or absent.
        kinds = {*map(type, held)}
        self.has_objects = bool(kinds - _PLAIN)
        self.has_blank = self.has_objects or absent in held or _has_blank(held)
        residues = [canister.residue for canister in canisters]
        self.marks = 0
        if any(map(is_not, residues, _NOTHING * len(residues))):
            self.marks = sum(bool(each.cache) for each in residues if each is not None)


_PLAIN = frozenset({str, type(absent)})
_NOTHING = [None]


def _leading(sides: list[str]) -> int:
    for count, whose in enumerate(sides):
        if whose is not SUPERVISOR:
            return count
    return len(sides)


def _has_blank(held: list[Any]) -> bool:
    texts = [text for text in held if type(text) is str]
    return not all(texts) or any(map(str.isspace, texts))

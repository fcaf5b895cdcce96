"""How a dialect writes a conversation that needs no repair: the contract of its plan.

A plan leads (what stands before the turns), opens (the fields around them), walks (the turns themselves) and closes
(what follows when the model has the last word). Each gives None where the general way is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from cannery.messages.requests import Request
from cannery.messages.role import Role
from cannery.wire.losses import Notes

SPOKEN_BY_MODEL = frozenset({Role.Assistant, Role.Invocation})


class Known(Struct, frozen=True, gc=False):
    """What a walk has to know of the turns before it: ids of calls, how many cache marks, and whether there are any.

    Where there are any, the last one is not the model's, and the model goes on.
    """

    ids: frozenset[str] = frozenset()
    marks: int = 0
    goes_on: bool = False

    def after(self, canisters: tuple[Any, ...]) -> Known:
        """The same behind some more canisters."""
        ids: list[str] = []
        marks = self.marks
        for each in canisters:
            if each.role is Role.Invocation:
                ids.append(each.identifier)
            if each.residue is not None and each.residue.cache is not None:
                marks += 1
        return Known(self.ids.union(ids) if ids else self.ids, marks, goes_on=True)


NOTHING_KNOWN = Known()


class Walked(Struct, frozen=True, gc=False):
    """What a walk over a conversation wrote: turns, where the last assistant turn starts, and how many come before."""

    turns: list[Any]
    last: int
    before: int


class Walk(Protocol):
    """Writes the turns from a position on; what they had to say is noted by position.

    No call id may be among those known or come twice.
    """

    def __call__(
        self, canisters: tuple[Any, ...], index: int, notes: Notes, known: Known
    ) -> Walked | None:
        """The turns."""


class TurnPlan(Struct, frozen=True, gc=False):
    """How one dialect writes one kind of request.

    ``key`` names the form of its turns, which is the same whatever stands around them, and ``field`` is where they go:
    the last field of the body.
    """

    key: str
    field: str
    # How many leading canisters are not among the turns. It looks at the first that follows them, and at two at most
    # where none leads.
    lead: Callable[[tuple[Any, ...]], int | None]
    # The fields before the turns, with so many leading canisters among them.
    open: Callable[[Request, int, Notes], dict[str, Any] | None]
    walk: Walk
    # The text behind the turns of a conversation that ends with the model's words, which stand at a position.
    close: Callable[[Request, int, Notes], bytes | None]

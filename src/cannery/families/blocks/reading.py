"""Reads messages of blocks: the part that Messages and Converse share.

A message becomes one canister per block, joined. The reader takes the keys that it understands from each object; the
rest is residue.
"""

from __future__ import annotations

from typing import Any

from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    new_assistant,
    new_supervisor,
    new_user,
)
from cannery.messages.checked import now
from cannery.messages.content import Origin
from cannery.messages.residue import Residue
from cannery.roles.vocabularies import ANTHROPIC
from cannery.wire.bodies import Object, Reader
from cannery.wire.places import Path, Places
from cannery.wire.residues import set_again
from cannery.wire.wire_roles import read_role

ROLES = frozenset(ANTHROPIC.readings)


class BlockReader(Reader):
    """Reads the messages of one body, in order, and records the place of each canister."""

    def __init__(self, dialect: str, places: Places, model: Any = None) -> None:
        self.dialect = dialect
        self.model = model
        self.when = now()
        self.canisters: list[AnyCanister] = []
        self.paths = places.canisters
        # Positions of calls with generated ids.
        self.made: list[int] = []

    @property
    def origin(self) -> Origin:
        """The origin of the model's thoughts."""
        return Origin(self.dialect, text_or_none(self.model))

    def role(self, role: Any, path: Path) -> str:
        """The role of a message whose role is missing or has an unusual spelling."""
        if role is absent:
            self.fail(path + ("role",), "is required")
        return read_role(self.dialect, role, ANTHROPIC, ".".join(map(str, (*path, "role"))))

    def add(
        self,
        role: str,
        held: Any,
        path: Path,
        joined: bool,  # noqa: FBT001 - by position, as constructors take it
        residue: Residue | None,
    ) -> None:
        """Add a canister that was found at a path."""
        if role == "user":
            canister = new_user(held, self.when, joined, residue)
        elif role == "assistant":
            canister = new_assistant(held, self.when, joined, residue)
        else:
            canister = new_supervisor(held, self.when, joined, residue, None, role)
        self.canisters.append(canister)
        self.paths.append(path)


def take_citable(block: Object) -> tuple[bool | None, Object | None]:
    """Whether the model may cite a document, and the patch for the rest of that setting."""
    citations = block.get("citations")
    if type(citations) is not dict or type(citations.get("enabled")) is not bool:
        return None, None
    del block["citations"]
    return citations.pop("enabled"), set_again(citations)


def text_or_none(value: Any) -> str | None:
    """The value if it is text."""
    return value if type(value) is str else None

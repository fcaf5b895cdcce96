"""What readers of messages share: the canisters so far, each with its place in the body."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from cannery.messages.canisters import AnyCanister, new_assistant, new_supervisor, new_user
from cannery.messages.checked import now
from cannery.wire.bodies import Reader


class CanisterReader(Reader):
    """Reads one body into canisters, in order."""

    def __init__(self, dialect: str) -> None:
        super().__init__(dialect)
        self.when: datetime = now()
        self.canisters: list[AnyCanister] = []
        self.paths: list[str] = []

    def add(self, canister: AnyCanister, path: str) -> AnyCanister:
        """Take the next canister, with its place in the body."""
        self.canisters.append(canister)
        self.paths.append(path)
        return canister

    def said_by(self, role: str, held: Any, *, joined: bool = False) -> AnyCanister:
        """The canister of what a role says: user, assistant, system or developer."""
        if role == "user":
            return new_user(held, self.when, joined)  # type: ignore[no-any-return]
        if role == "assistant":
            return new_assistant(held, self.when, joined)  # type: ignore[no-any-return]
        return new_supervisor(held, self.when, joined, None, None, role)  # type: ignore[no-any-return]


def join(canister: AnyCanister) -> None:
    """Mark a canister that nobody has seen yet as part of the message before it."""
    msgspec.structs.force_setattr(canister, "joined", True)

"""The six roles, one for each kind of canister."""

from __future__ import annotations

import enum


class Role(enum.Enum):
    """Platform-neutral message role; each names exactly one kind of canister."""

    User = "user"
    Assistant = "assistant"
    Supervisor = "supervisor"
    Document = "document"
    Invocation = "invocation"
    Result = "result"

    # Members are singletons, and a hash in Python would slow down every table that is keyed by role.
    __hash__ = object.__hash__

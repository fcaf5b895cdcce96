"""Formats a canister for a terminal: one line in a list, or the heading of its full text."""

from __future__ import annotations

from cannery.cli.terminal import ROLE_COLOURS, harmless, one_line, paint, width
from cannery.messages import (
    AnyCanister,
    InvocationCanisterClass,
    ResultCanisterClass,
    absent,
)
from cannery.wording import message_text


def headline(index: int, canister: AnyCanister) -> str:
    """A canister on one line: position, role, text."""
    role = canister.role.value
    said = one_line(message_text(canister), max(width() - 20, 30))
    mark = "·" if canister.joined else " "
    return f"{index:4} {mark}{paint(f'{role:11}', ROLE_COLOURS[role])} {said}"


def heading(canister: AnyCanister) -> str:
    """The role of a canister, with its tool name, error mark, title or rank."""
    role = canister.role.value
    extra = ""
    if isinstance(canister, InvocationCanisterClass):
        extra = canister.name
    elif isinstance(canister, ResultCanisterClass) and canister.error is not absent:
        extra = "failed"
    elif getattr(canister, "title", absent) is not absent:
        extra = str(getattr(canister, "title", ""))
    elif getattr(canister, "rank", absent) == "developer":
        extra = "developer"
    return f"{role} {harmless(extra)}".rstrip()

"""Plain messages: ``{"role": …, "content": "text"}``, which several wires share.

A decoder makes these straight into canisters. Their type alone says that the content is text, that nothing is joined
and that there is no residue, so a writer can check a whole conversation without looking into one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct, field

from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AssistantCanisterClass,
    SupervisorCanisterClass,
    UserCanisterClass,
    new_supervisor,
)
from cannery.messages.conversation import Conversation
from cannery.messages.hidden import Hidden, hidden
from cannery.messages.requests import Request, new_controls, new_request
from cannery.messages.residue import Residue
from cannery.wire.received import RECEIVED

SPOKEN_NAMES = {"held": "content", **hidden("timestamp")}
SUPERVISOR_NAMES = {**SPOKEN_NAMES, **hidden("rank")}


class PlainUser(
    UserCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="user",
    rename=SPOKEN_NAMES,
):
    """A user message of text."""

    held: str
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)


class PlainAssistant(
    AssistantCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="assistant",
    rename=SPOKEN_NAMES,
):
    """An assistant message of text."""

    held: str
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)


class PlainSystem(
    SupervisorCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="system",
    rename=SUPERVISOR_NAMES,
):
    """A system message of text."""

    held: str
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)
    rank: Hidden[Any] = "system"


class PlainDeveloper(
    SupervisorCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="developer",
    rename=SUPERVISOR_NAMES,
):
    """A developer message of text."""

    held: str
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)
    rank: Hidden[Any] = "developer"


class PlainRequest(Struct, frozen=True, gc=False, kw_only=True):
    """A request of nothing but plain messages and the commonest settings; absent unless given."""

    messages: list[PlainUser | PlainAssistant | PlainSystem | PlainDeveloper]
    model: str = absent  # type: ignore[assignment]
    limit: int = absent  # type: ignore[assignment]
    # The same under an older name, where a dialect has one.
    old_limit: int = absent  # type: ignore[assignment]
    temperature: int | float = absent  # type: ignore[assignment]
    top_p: int | float = absent  # type: ignore[assignment]
    stream: bool = absent  # type: ignore[assignment]
    # The instructions, where a dialect keeps them apart from the messages.
    system: str = absent  # type: ignore[assignment]


def plain_request(plain: PlainRequest, dialect: str) -> Request | None:
    """The request of a plain one; None if it gives its limit twice."""
    given: Any = plain
    limit, residue = given.limit, None
    if given.old_limit is not absent:
        if limit is not absent:
            return None
        limit, residue = given.old_limit, Residue(dialect, form="max_tokens")
    canisters: list[Any] = given.messages
    if given.system is not absent:
        system = new_supervisor(given.system, RECEIVED.get(), False, None, None, "system")
        canisters = [system, *canisters]
    return new_request(  # type: ignore[no-any-return]
        Conversation.trusted(canisters),
        given.model,
        (),
        absent,
        new_controls(limit, given.temperature, given.top_p),
        given.stream,
        residue,
        dialect,
    )


def split_system(request: PlainRequest) -> tuple[Any, list[Any]] | None:
    """The system text (absent if there is none) and the turns; None if the system text is blank."""
    messages: list[Any] = request.messages
    system: Any = request.system
    if messages and type(messages[0]) is PlainSystem:
        if system is not absent:
            return None
        system, messages = messages[0].held, messages[1:]
    return None if system is not absent and not system.strip() else (system, messages)


def spoken_turns(messages: list[Any]) -> list[Any] | None:
    """Plain messages that alternate, begin and end with the user and say something, as the wire has them; else None."""
    written: list[Any] = []
    take = written.append
    expected: Any = PlainUser
    for canister in messages:
        held = canister.held
        if type(canister) is not expected or not held or held.isspace():
            return None
        if expected is PlainUser:
            take({"role": "user", "content": held})
            expected = PlainAssistant
        else:
            take({"role": "assistant", "content": held})
            expected = PlainUser
    return written if expected is PlainAssistant else None

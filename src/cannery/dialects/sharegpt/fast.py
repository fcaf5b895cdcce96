"""Plain ShareGPT records, decoded without a detour.

msgspec refuses anything but turns of text by ``human``, ``gpt`` and ``system``; then ``reading`` takes the record from
the start. These turns go straight to a writer of plain requests and nobody keeps them, so they are less than canisters.
The tests hold both ways against each other.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import Struct

from cannery.messages.absence import absent
from cannery.messages.hidden import Hidden, hidden
from cannery.messages.role import Role
from cannery.wire.plain import PlainRequest


class Turn(
    Struct,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    tag_field="from",
    rename={"held": "value"},
):
    """What somebody says."""

    held: str


class Human(Turn, frozen=True, gc=False, tag="human"):
    """A turn of the user."""

    role: ClassVar[Role] = Role.User


class Gpt(Turn, frozen=True, gc=False, tag="gpt"):
    """A turn of the model."""

    role: ClassVar[Role] = Role.Assistant


class System(Turn, frozen=True, gc=False, tag="system"):
    """Instructions."""

    role: ClassVar[Role] = Role.Supervisor


class PlainRecord(
    PlainRequest,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    kw_only=True,
    rename={
        "messages": "conversations",
        **hidden("model", "limit", "old_limit", "temperature", "top_p", "stream"),
    },
):
    """A record of plain turns; its id means nothing elsewhere."""

    messages: list[Human | Gpt | System]  # type: ignore[assignment]
    model: Hidden[str] = absent  # type: ignore[assignment]
    limit: Hidden[int] = absent  # type: ignore[assignment]
    old_limit: Hidden[int] = absent  # type: ignore[assignment]
    temperature: Hidden[int | float] = absent  # type: ignore[assignment]
    top_p: Hidden[int | float] = absent  # type: ignore[assignment]
    stream: Hidden[bool] = absent  # type: ignore[assignment]
    id: str | int = absent  # type: ignore[assignment]


_decode = msgspec.json.Decoder(PlainRecord).decode
_ODD = (msgspec.MsgspecError, UnicodeError, RecursionError)


def read_plain(body: bytes) -> PlainRequest | None:
    """The plain request of a record; None for any other."""
    try:
        record = _decode(body)
    except _ODD:
        return None
    return None if record.system == "" else record

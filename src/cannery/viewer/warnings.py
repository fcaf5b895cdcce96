"""The doctor's marks in the conversation page: at each message that a provider refuses or does not receive.

They are part of the page, so that no script is needed. For a conversation that is long, or has large images and files,
only the doctor's page shows them.
"""

from __future__ import annotations

from collections.abc import Mapping

from htpy import Node, a
from msgspec import Struct

from cannery.dialects import find_dialect
from cannery.messages import Conversation, Location
from cannery.viewer.addresses import below
from cannery.viewer.marks import Asking, Noted, served_dialects, write_request
from cannery.viewer.visible import visible
from cannery.wording import payload_size

MOST = 1_000
_MOST_BYTES = 4 << 20
_TOLD = ("broken", "loss")


class _Warned(Struct):
    """The findings for a message: the codes by dialect, of breaks and of losses."""

    broken: dict[str, list[str]]
    lost: dict[str, list[str]]

    def add(self, dialect: str, note: Noted) -> None:
        """Add a note of one provider."""
        table = self.broken if note.mark.kind == "broken" else self.lost
        codes = table.setdefault(dialect, [])
        if note.mark.label not in codes:
            codes.append(note.mark.label)


def is_light(history: Conversation) -> bool:
    """Whether a conversation is small enough to be written for every provider while its page loads."""
    if len(history) > MOST:
        return False
    size = 0
    for canister in history:
        payload = getattr(canister.held, "payload", None)
        if payload is not None and not isinstance(payload, Location):
            size += payload_size(payload)
    return size <= _MOST_BYTES


def warnings_html(identifier: str, asking: Asking) -> Mapping[int, Node]:
    """A mark for each message that some provider refuses or does not receive."""
    found: dict[int, _Warned] = {}
    # A dialect that takes one question only would mark every message; the doctor's page reports it once.
    chats = [name for name in served_dialects() if find_dialect(name).takes_turns]
    for spoken in (write_request(asking, name) for name in chats):
        for note in spoken.notes:
            if note.position is not None and note.mark.kind in _TOLD:
                warned = found.setdefault(note.position, _Warned({}, {}))
                warned.add(spoken.dialect, note)
    return {position: _mark(identifier, position, warned) for position, warned in found.items()}


def _mark(identifier: str, position: int, warned: _Warned) -> Node:
    kind, verb = ("broken", "breaks") if warned.broken else ("loss", "not carried to")
    codes = warned.broken or warned.lost
    only = next(iter(codes)) if len(codes) == 1 else ""
    address = below(identifier, "doctor")
    if only:
        address = f"{below(identifier, 'as', query={'to': only})}#c{position}"
    title = "\n".join(f"{dialect}: {', '.join(each)}" for dialect, each in codes.items())
    told = f"{verb} {only or f'{len(codes)} providers'}"
    return a(f".doctor-note.{kind}", href=address, title=visible(title))[told]

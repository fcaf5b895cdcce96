"""Text kept beside a conversation: writing it again with more at its end encodes only what is new.

The turns up to some canister are kept in that canister's memo as JSON text, together with the canisters before it; they
are used again for a conversation that begins with the same canisters and goes on with what the model says. So is what
stands before the turns, for requests with the same settings. No collector looks into canisters, so what is kept must
not lead back to the canister that keeps it: one that stands in a conversation twice keeps nothing.

A conversation written once leaves only a mark at its end. When it is written again with more, it is kept up to there,
for all that go on from it. Of each branch the first and the longest beginning are kept; they share their text.
"""

from __future__ import annotations

from itertools import chain, repeat
from operator import is_
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from cannery.messages.conversation import Conversation, begins_with
from cannery.messages.requests import Controls, Request
from cannery.wire.bodies import encode
from cannery.wire.losses import Aliases, Loss, Repair
from cannery.wire.walks import NOTHING_KNOWN, SPOKEN_BY_MODEL, Known

# How far from its end a conversation is searched for what was kept.
_REACH = 64
# From how many pieces on the text of turns is joined.
_MANY = 32
# What is taken out of a conversation need not be one.
item: Any = tuple.__getitem__


class Said(Struct, frozen=True, gc=False):
    """What a part of a body took."""

    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()


NOTHING_SAID = Said()


class Opening(Struct, frozen=True, gc=False):
    """The text of a body before its turns, how many canisters are in it, and what it took."""

    text: bytes
    start: int
    said: Said
    aliases: Aliases
    controls: Controls
    settings: tuple[Any, ...]

    def opens(self, request: Request) -> bool:
        """Whether a request has the settings that this was written for.

        Equal controls need not be the same: 1 and 1.0 are written in two ways.
        """
        return self.controls is request.controls and self.settings == settings_of(request)


def settings_of(request: Request) -> tuple[Any, ...]:
    """All of a request but its conversation."""
    return astuple(request)[1:]


class Kept(Struct, frozen=True, gc=False):
    """The turns of so many canisters as JSON text, each piece but the first with a comma before it.

    ``earlier`` are the canisters before the one that keeps the first beginning of this branch, and ``more`` those from
    there up to the one that keeps this.
    """

    length: int = 0
    earlier: tuple[Any, ...] = ()
    more: tuple[Any, ...] = ()
    pieces: tuple[bytes, ...] = ()
    known: Known = NOTHING_KNOWN
    said: Said = NOTHING_SAID
    opening: Opening | None = None


NOTHING_KEPT = Kept()
# Stands where something was kept that is not needed any more.
_GONE = False


def mark(conversation: Conversation, key: str) -> None:
    """Leave a mark that a conversation was written."""
    item(conversation, -1).memo().setdefault(key)


def find(conversation: Conversation, key: str) -> tuple[Kept | None, int]:
    """The longest beginning whose turns are kept, and how long the longest is that was written and may be kept.

    None is kept of a conversation that was never written.
    """
    found: Kept | None = None
    written = 0
    following: Any = None
    length = len(conversation)
    for canister in reversed(item(conversation, slice(-_REACH, None))):
        memo = canister._memo  # noqa: SLF001 - looking must not make one
        if memo is not None and key in memo:
            found = NOTHING_KEPT
            if following is not None and following.role in SPOKEN_BY_MODEL:
                kept: Any = memo[key]
                if not kept:
                    if not written and canister.role not in SPOKEN_BY_MODEL:
                        written = length
                elif (
                    kept.length == length
                    and item(conversation, slice(len(kept.earlier), length - 1)) == kept.more
                    and begins_with(conversation, kept.earlier)
                ):
                    return kept, length
        following = canister
        length -= 1
    return found, written


def keep(
    kept: Kept,
    conversation: Conversation,
    length: int,
    turns: list[Any],
    said: Said,
    opening: Opening,
    key: str,
) -> Kept:
    """Keep more turns than before."""
    text = encode(turns)[1:-1]
    known = kept.known.after(item(conversation, slice(kept.length or opening.start, length)))
    earlier, pieces = kept.earlier, kept.pieces
    if kept.more:
        item(conversation, kept.length - 1).memo()[key] = _GONE
    if not pieces:
        earlier, pieces = item(conversation, slice(length - 1)), (text,)
    elif len(pieces) < _MANY:
        pieces = (*pieces, b"," + text)
    else:
        pieces = (pieces[0], b"".join((*pieces[1:], b",", text)))
        if len(pieces[1]) > len(pieces[0]):
            # What is no longer shared with the first beginning must not be kept twice.
            item(conversation, len(earlier)).memo()[key] = _GONE
            earlier, pieces = item(conversation, slice(length - 1)), (b"".join(pieces),)
    more = item(conversation, slice(len(earlier), length - 1))
    longer = Kept(length, earlier, more, pieces, known, said, opening)
    keeper = item(conversation, length - 1)
    memo = keeper.memo()
    # Only one that kept something before, or that is the first to keep anything, may stand here twice.
    if (kept.length and memo.get(key) is None) or not _holds(longer, keeper):
        memo[key] = longer
    return longer


def _holds(kept: Kept, canister: Any) -> bool:
    """Whether a canister is among those that are kept."""
    return any(map(is_, chain(kept.earlier, kept.more), repeat(canister)))

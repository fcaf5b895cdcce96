"""Turns kept beside a conversation: writing it again with more at its end encodes only what is new.

The turns up to some canister are kept in that canister's memo as JSON text, together with the canisters before it; they
are used again for a conversation that begins with the same canisters and goes on with what the model says. What is
kept never leads back to the canister that keeps it: no collector looks into canisters, so nobody would ever free them.

A conversation written once leaves only a mark. Of a branch that is written again the first and the longest beginning
are kept, so that others may branch off where this one did; they share their text.
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from cannery.messages.conversation import Conversation, begins_with
from cannery.messages.role import Role
from cannery.wire.bodies import Turns, encode
from cannery.wire.contract import Note, Notes

# How far from its end a conversation is searched for what was kept.
_REACH = 64
# From how many pieces on the text of turns is joined.
_MANY = 32
_SPOKEN_BY_MODEL = frozenset({Role.Assistant, Role.Invocation})
# What is taken out of a conversation need not be one.
_item: Any = tuple.__getitem__


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
    """Writes the turns from a position on; None if the conversation needs the general way.

    No call id may be among those known or come twice.
    """

    def __call__(
        self, canisters: tuple[Any, ...], index: int, notes: Notes, known: Known
    ) -> Walked | None:
        """The turns."""


class _Kept(Struct, frozen=True, gc=False):
    """The turns of so many canisters as JSON text, each piece but the first with a comma before it.

    ``earlier`` are the canisters before the one that keeps the first beginning of this branch, and ``more`` those from
    there up to the one that keeps this.
    """

    length: int
    earlier: tuple[Any, ...]
    more: tuple[Any, ...]
    pieces: tuple[bytes, ...]
    known: Known
    notes: Notes


_NOTHING = _Kept(0, (), (), (), NOTHING_KNOWN, [])


def write_kept(
    conversation: Conversation, start: int, notes: Notes, key: str, walk: Walk
) -> Turns | list[Any] | None:
    """The turns from a position on, all but the last taken from what was kept, and kept again."""
    was_written, kept = _find(conversation, key)
    start = kept.length or start
    tail = _item(conversation, slice(start, None))
    said: Notes = []
    walked = walk(tail, 0, said, kept.known)
    if walked is None:
        return None
    if said or kept.notes:
        said = kept.notes + [_behind(note, start) for note in said]
        notes += said
    turns, last, before = walked.turns, walked.last, walked.before
    if before and tail[last - 1].role not in _SPOKEN_BY_MODEL:
        if was_written:
            known = kept.known.after(tail[:last])
            about = said and [
                note for note in said if type(note[1]) is not int or note[1] < start + last
            ]
            kept = _longer(kept, conversation, start + last, turns[:before], known, about, key)
            turns = turns[before:]
        else:
            tail[last - 1].memo()[key] = None
    if not kept.pieces:
        return turns
    return Turns([*kept.pieces, b",", encode(turns)[1:-1]] if turns else [*kept.pieces])


def _behind(note: Note, start: int) -> Note:
    """A note about a canister that stands behind others."""
    code, place, *more = note
    return (code, place + start, *more) if type(place) is int else note  # type: ignore[return-value]


def _find(conversation: Conversation, key: str) -> tuple[bool, _Kept]:
    """Whether this was written before, and the longest beginning whose turns are kept."""
    recent = _item(conversation, slice(-_REACH, None))
    offset = len(conversation) - len(recent)
    was_written = False
    for place in range(len(recent) - 2, -1, -1):
        memo = recent[place]._memo  # noqa: SLF001 - looking must not make one
        if memo is None or key not in memo:
            continue
        was_written = True
        kept: _Kept | None = memo[key]
        if (
            kept is not None
            and kept.length == offset + place + 1
            and recent[place + 1].role in _SPOKEN_BY_MODEL
            and _item(conversation, slice(len(kept.earlier), kept.length - 1)) == kept.more
            and begins_with(conversation, kept.earlier)
        ):
            return True, kept
    return was_written, _NOTHING


def _longer(
    kept: _Kept,
    conversation: Conversation,
    length: int,
    turns: list[Any],
    known: Known,
    notes: Notes,
    key: str,
) -> _Kept:
    """Keep more turns than before."""
    text = encode(turns)[1:-1]
    earlier, pieces = kept.earlier, kept.pieces
    if kept.more:
        _item(conversation, kept.length - 1).memo()[key] = None
    if not pieces:
        earlier, pieces = _item(conversation, slice(length - 1)), (text,)
    elif len(pieces) < _MANY:
        pieces = (*pieces, b"," + text)
    else:
        pieces = (pieces[0], b"".join((*pieces[1:], b",", text)))
        if len(pieces[1]) > len(pieces[0]):
            # What is no longer shared with the first beginning must not be kept twice.
            _item(conversation, len(earlier)).memo()[key] = None
            earlier, pieces = _item(conversation, slice(length - 1)), (b"".join(pieces),)
    more = _item(conversation, slice(len(earlier), length - 1))
    longer = _Kept(length, earlier, more, pieces, known, notes)
    _item(conversation, length - 1).memo()[key] = longer
    return longer


def leading_texts(canisters: tuple[Any, ...]) -> int | None:
    """How many supervisors stand first, all of them with something to say; None if one is blank or not text."""
    for count, canister in enumerate(canisters):
        if canister.role is not Role.Supervisor:
            return count
        held = canister.held
        if type(held) is not str or not held or held.isspace():
            return None
    return len(canisters)

"""A cache of written messages, so that a conversation that grew is not encoded from the start again.

The last canister before a user's turn keeps the messages up to there as JSON text, for each target, together with the
canisters before it. When a conversation that begins with the same canisters is written again, the same writer writes
only the later canisters, and the result is appended to the text. Nothing is cached if a repair was made or a name
assigned, because those may depend on other messages. A canister never refers to itself through its cache, because the
garbage collector does not track canisters.
"""

from __future__ import annotations

from itertools import repeat
from operator import is_
from typing import Any

from msgspec import Struct

from cannery.messages.canisters import (
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    UserCanisterClass,
)
from cannery.messages.conversation import Conversation, begins_with
from cannery.wire.contract import Piece
from cannery.wire.losses import Lost, Report
from cannery.wire.turns import MODEL, SIDES

# Shorter conversations are written as fast as they are found in the cache.
_SHORTEST = 16
# How far back from its end a conversation is searched for a cache entry.
_REACH = 64
_KEY = "written"
# How many targets one canister caches.
_MOST = 4
# From this number of pieces on the text is joined.
_MANY = 32

Key = tuple[Any, ...]
_SETUP = (SupervisorCanisterClass, DocumentCanisterClass)
# A slice of a conversation need not be one itself.
_all: Any = tuple.__getitem__
# A placeholder for the cached text while a body is encoded; no JSON text contains this byte.
GAP = b"\0"


class Kept(Struct, frozen=True, gc=False):
    """The messages of the first ``length`` canisters as JSON text, without brackets, with their losses.

    A longer prefix shares the text of the shorter one; each piece but the first starts with a comma. ``skip`` is the
    number of messages made from leading supervisors and documents.
    """

    length: int = 0
    earlier: tuple[Any, ...] = ()
    pieces: tuple[bytes, ...] = ()
    notes: tuple[Lost, ...] = ()
    calls: frozenset[str] = frozenset()
    marks: int = 0
    skip: int = 0


_NOTHING = Kept()


class Written(Struct, frozen=True, gc=False):
    """The written messages of some canisters; ``skip`` as in ``Kept``."""

    text: bytes
    report: Report
    skip: int


def boundary(conversation: Conversation) -> int:
    """The start of the last user turn after a turn of the model; 0 if there is nothing worth caching."""
    if len(conversation) < _SHORTEST:
        return 0
    for index in range(len(conversation) - 1, len(conversation) - _REACH, -1):
        if index < 1:
            break
        if _divides(conversation, index):
            return index
    return 0


def _divides(conversation: Conversation, index: int) -> bool:
    canister: Any = _all(conversation, index)
    if type(canister) is not UserCanisterClass or canister.joined:
        return False
    before: Any = _all(conversation, index - 1)
    if SIDES[type(before)] is not MODEL:
        return False
    behind: Any = conversation[index + 1 : index + 2]
    return not (behind and _all(behind, 0).joined)


def find(conversation: Conversation, key: Key) -> Kept | None:
    """The longest prefix of a conversation that is cached for a target."""
    whole = _all(conversation, slice(None))
    for index in range(len(whole) - 1, max(0, len(whole) - _REACH), -1):
        memo = whole[index - 1]._memo  # noqa: SLF001 - looking must not make one
        if memo is None or _KEY not in memo:
            continue
        kept: Kept | None = memo[_KEY].get(key)
        # Elsewhere a later canister may belong to the last cached message.
        if (
            kept is not None
            and kept.length == index
            and _divides(conversation, index)
            and begins_with(whole, kept.earlier)
        ):
            return kept
    return None


def fits(kept: Kept | None, fresh: list[Piece], most_marks: int) -> bool:
    """Whether the canisters after a cached prefix change nothing in it."""
    if kept is None:
        return True
    touched = _call_ids(fresh) | _answered_ids(fresh)
    return not (kept.calls & touched) and kept.marks + _marks(fresh) <= most_marks


def keep(
    conversation: Conversation, key: Key, before: Kept | None, added: list[Piece], written: Written
) -> Kept:
    """Cache a prefix that extends a shorter one, in its place.

    The first prefix stays, for other branches that continue it.
    """
    before = before or _NOTHING
    start = before.length
    if len(before.pieces) > 1:
        shorter: Any = _all(conversation, start - 1)
        shorter.memo()[_KEY].pop(key, None)
    end = start + len(added)
    kept = Kept(
        end,
        _all(conversation, slice(end - 1)),
        _joined(before.pieces, written.text),
        (*before.notes, *written.report.between(start, end)),
        before.calls | _call_ids(added),
        before.marks + _marks(added),
        written.skip,
    )
    keeper: Any = _all(conversation, end - 1)
    if not any(map(is_, kept.earlier, repeat(keeper))):
        memo = keeper.memo().setdefault(_KEY, {})
        if len(memo) >= _MOST:
            memo.pop(next(iter(memo)))
        memo[key] = kept
    return kept


def _joined(pieces: tuple[bytes, ...], text: bytes) -> tuple[bytes, ...]:
    if not text:
        return pieces
    if not pieces:
        return (text,)
    if len(pieces) < _MANY:
        return (*pieces, b"," + text)
    return (pieces[0], b"".join((*pieces[1:], b",", text)))


def leading(conversation: Conversation) -> int:
    """The number of supervisors and documents before any other canister; some dialects have fields for them."""
    for index, canister in enumerate(conversation):
        if type(canister) not in _SETUP:
            return index
    return len(conversation)


def _call_ids(pieces: list[Piece]) -> frozenset[str]:
    return frozenset(
        piece.canister.identifier
        for piece in pieces
        if type(piece.canister) is InvocationCanisterClass
    )


def _answered_ids(pieces: list[Piece]) -> frozenset[str]:
    return frozenset(
        piece.canister.invocation_id
        for piece in pieces
        if type(piece.canister) is ResultCanisterClass
    )


def _marks(pieces: list[Piece]) -> int:
    residues = [piece.canister.residue for piece in pieces]
    return sum(bool(residue.cache) for residue in residues if residue is not None)

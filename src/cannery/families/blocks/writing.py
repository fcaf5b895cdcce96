"""Writes messages of blocks: a turn becomes a message, a piece a block.

Residue restores the original. For another dialect an empty turn is not sent, and its neighbours become one message.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Container
from typing import Any

from cannery.families.blocks.contents import BlockWriter
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AssistantCanisterClass,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
    UserCanisterClass,
)
from cannery.messages.content import (
    PLAIN,
    FileContentClass,
    TextualContentClass,
    new_file,
)
from cannery.wire.bodies import Object
from cannery.wire.contract import Piece
from cannery.wire.foreign import says_only_text
from cannery.wire.markers import ERROR_PREFIX
from cannery.wire.turns import MODEL, SIDES, SUPERVISOR, omission, turns

_ROLES = {MODEL: "assistant", SUPERVISOR: "system"}
# The side of a canister, by its class.
_SPEAKERS = {kind: _ROLES.get(side, "user") for kind, side in SIDES.items()}
# Classes that may be a message of one text.
_SPOKEN = frozenset({UserCanisterClass, AssistantCanisterClass})


class TurnWriter(BlockWriter):
    """Writes messages; a dialect defines what surrounds the blocks of one, and how residue restores a block."""

    # Whether a turn was left out since the last message.
    _is_gap = False
    # The piece of the last block that is not the user's.
    _last_place: int | None = None

    @abstractmethod
    def message(self, turn: list[Piece], role: str) -> Object | None:
        """The message of a turn; None if it is empty."""

    @abstractmethod
    def piece_blocks(self, piece: Piece) -> list[Any]:
        """The blocks of one piece, with this dialect's residue."""

    @abstractmethod
    def _result(self, canister: ResultCanisterClass, piece: Piece) -> Object:
        """The block of a result."""

    @abstractmethod
    def _is_medium(self, block: Object) -> bool:
        """Whether a block is one that only users may show."""

    @abstractmethod
    def _call(self, canister: InvocationCanisterClass, piece: Piece) -> Object:
        """The block of a call."""

    # --- messages ------------------------------------------------------------------------------

    def messages(self, pieces: list[Piece]) -> list[Object]:
        """The messages of all pieces; skip empty turns, which do not separate their neighbours."""
        written: list[Object] = []
        merges = not self.is_same and "alternation" not in self.report.off
        for turn in turns(pieces):
            message = self.message(turn, _SPEAKERS[type(turn[0].canister)])
            if message is None:
                self._is_gap = self._is_gap or merges
            elif self._is_gap:
                self._close_gap(written, message, turn[0].place)
            else:
                written.append(message)
        return written

    def _close_gap(self, written: list[Object], message: Object, place: int | None) -> None:
        """Add a message after a turn that was left out; system messages before that follow what they precede."""
        self._is_gap = False
        behind: list[Object] = []
        if message["role"] == "user":
            while written and written[-1]["role"] == "system":
                behind.append(written.pop())
        if written and written[-1]["role"] == message["role"]:
            self.report.repair("alternation", place)
            last = written[-1]
            last["content"] = [*self._listed(last["content"]), *self._listed(message["content"])]
        else:
            written.append(message)
        written += reversed(behind)

    def _listed(self, content: Any) -> list[Any]:
        """The blocks of a message, whose content may be a string."""
        return [self.text_block(content)] if type(content) is str else content

    def _alone(self, turn: list[Piece], kinds: Container[type] = _SPOKEN) -> str | None:
        """The text of a turn that says nothing else; None for any other turn, and for a blank text."""
        head = turn[0].canister
        held = head.held
        if type(held) is not str or type(head) not in kinds or not held or held.isspace():
            return None
        return held if says_only_text(turn, self.dialect, self.report) else None

    def blocks(self, turn: list[Piece], role: str) -> list[Any]:
        """The blocks of a turn that its role may show."""
        blocks: list[Any] = []
        is_free = self.is_same or role == "user"
        for piece in turn:
            found = self.piece_blocks(piece)
            if found and not is_free:
                if type(piece.canister.held) is not str:
                    found = self._shown(found, piece, role)
                if found:
                    self._last_place = piece.place
            blocks += found
        if blocks or self.is_same or self.for_answer or role == "system":
            return blocks
        return self._omitted(turn)

    def _shown(self, blocks: list[Any], piece: Piece, role: str) -> list[Any]:
        """The blocks without those that only users may show."""
        kept = [block for block in blocks if not self._is_medium(block)]
        if len(kept) < len(blocks):
            detail = f"{self.takes} no media from the {role}"
            self.report.lose("MEDIA_DROPPED", piece.place, detail)
        return kept

    def _omitted(self, turn: list[Piece]) -> list[Object]:
        """A placeholder for lost content, so that the turn stays valid."""
        text = omission(turn)
        return [self.text_block(text)] if text else []

    # --- pieces --------------------------------------------------------------------------------

    def _written(self, piece: Piece) -> list[Any]:
        """The blocks of one piece in their usual form."""
        canister: Any = piece.canister
        kind = type(canister)
        if kind is InvocationCanisterClass:
            return [self._call(canister, piece)]
        if kind is ResultCanisterClass:
            return [self._result(canister, piece)]
        if kind is DocumentCanisterClass:
            return self.content(as_file(canister), piece.place)
        if kind is SupervisorCanisterClass and canister.rank == "developer":
            self.report.lose("RANK_LOWERED", piece.place)
        held = canister.held
        if type(held) is str:
            return self.said(held, piece.place)
        return [] if held is absent else self.content(held, piece.place)

    def _explained(self, blocks: list[Any], canister: ResultCanisterClass) -> list[Any]:
        """The blocks of a failed result: the server requires text, and a reason must not get lost."""
        reason = str(canister.error)
        said = "".join(str(block.get("text", "")) for block in blocks)
        if canister._error is True:  # noqa: SLF001 - tells a mere flag from a reason
            return blocks or [self.text_block(ERROR_PREFIX.strip())]
        return blocks if reason in said else [self.text_block(reason), *blocks]


def as_file(canister: DocumentCanisterClass) -> Any:
    """The content of a document canister as a file with the canister's title."""
    content = canister.content
    title = canister.title if isinstance(canister.title, str) else None
    if isinstance(content, TextualContentClass):
        return new_file(content.text.encode(), PLAIN, title)
    if isinstance(content, FileContentClass) and content.name is None and title is not None:
        facts = (content.context, content.citable, content.chunks)
        return new_file(content.payload, content.mime_type, title, *facts)
    return content

"""Writing Messages bodies.

Every function gives the usual form of a value and then lets this dialect's own residue restore what was really said.
Leading supervisors are the top-level ``system``, unless they were messages of their own at home.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.anthropic_messages.blocks import BlockWriter, Object, is_bare_text
from cannery.dialects.anthropic_messages.models import NAME
from cannery.dialects.anthropic_messages.reading import INLINE
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    AssistantCanisterClass,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
)
from cannery.messages.content import (
    PLAIN,
    FileContentClass,
    TextualContentClass,
    new_file,
)
from cannery.messages.residue import PREAMBLE, Residue
from cannery.messages.role import Role
from cannery.wire.arguments import FREEFORM_INPUT, object_input, wrapped_input
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue
from cannery.wire.markers import ERROR_PREFIX
from cannery.wire.residues import own_residue, recall
from cannery.wire.turns import MODEL, SUPERVISOR, side, turns

_UNMARKED = frozenset({"thinking", "redacted_thinking"})
_MEDIA = frozenset({"image", "document", "search_result"})


class MessageWriter(BlockWriter):
    """Writes messages and the system field."""

    # What was the system field when it was read, and now stands behind messages.
    displaced: tuple[Piece, ...] = ()
    _has_lead = False
    _has_short_mark = False
    _last_place: int | None = None

    # --- messages ------------------------------------------------------------------------------

    def split(self, pieces: list[Piece]) -> tuple[list[Piece], list[Piece]]:
        """The pieces of the system field, and all others; at home ``messages`` finds those that were displaced."""
        count = 0
        for piece in pieces:
            if side(piece) != SUPERVISOR or (self.at_home and is_inline(piece.canister)):
                break
            count += 1
        self._has_lead = count > 0
        return pieces[:count], pieces[count:]

    def system(self, pieces: list[Piece]) -> Any:
        """The system field, or absent."""
        blocks = self._system_blocks(pieces)
        if not blocks:
            return absent
        residue = own_residue(pieces[0].canister, NAME)
        return self._shape(blocks, None if residue is None else residue.form)

    def messages(self, pieces: list[Piece]) -> list[Object]:
        """The messages of all pieces; a turn of which nothing is left is left out, and parts nobody."""
        written: list[Object] = []
        is_gap = False
        for turn in turns(pieces):
            message = self._message(turn)
            if message is None:
                is_gap = not self.at_home and "alternation" not in self.report.off
            elif is_gap and written and written[-1]["role"] == message["role"]:
                self.report.repair("alternation", turn[0].place)
                last = written[-1]
                last["content"] = [*_listed(last["content"]), *_listed(message["content"])]
            else:
                written.append(message)
                is_gap = False
        if not self.at_home and written and written[-1]["role"] == "assistant":
            self._trim(written[-1])
        return written

    def _message(self, turn: list[Piece]) -> Object | None:
        head = turn[0].canister
        residue = own_residue(head, NAME)
        kind = side(turn[0])
        form = None if isinstance(head, ResultCanisterClass) or residue is None else residue.form
        shape = (form or "").removeprefix(INLINE).removeprefix(":")
        if shape in _SHAPES and len(turn) > 1:
            # Something was added to a message without content.
            turn, shape = turn[1:], "list" if shape == "empty" else ""
        if kind == SUPERVISOR:
            if self.at_home and self._is_displaced(residue):
                self.displaced = (*self.displaced, *turn)
                return None
            role, blocks = "system", self._system_blocks(turn)
        elif kind == MODEL:
            role, blocks = "assistant", self.answer(turn)
        else:
            role, blocks = "user", self._user_blocks(turn)
        message: Object = {"role": role}
        if residue is not None:
            message = recall(message, residue.envelope)
        if self.at_home and shape in _SHAPES:
            message.update(_SHAPES[shape])
            return message
        if not blocks and not self.at_home:
            return None
        message["content"] = self._shape(blocks, shape)
        return message

    def _is_displaced(self, residue: Residue | None) -> bool:
        """Whether a supervisor was the system field, and something was put before it."""
        form = None if residue is None else residue.form
        # Only the system field has this form without saying that it is a message.
        return form == PREAMBLE or (form == "list" and not self._has_lead)

    def _shape(self, blocks: list[Object], form: str | None) -> Any:
        return blocks[0]["text"] if form != "list" and is_bare_text(blocks) else blocks

    def _system_blocks(self, turn: list[Piece]) -> list[Object]:
        blocks: list[Object] = []
        for piece in turn:
            canister = piece.canister
            if isinstance(canister, SupervisorCanisterClass) and canister.rank == "developer":
                self.report.lose("RANK_LOWERED", piece.place)
            for block in self.piece_blocks(piece):
                if self.at_home or block["type"] not in _MEDIA:
                    blocks.append(block)
                else:
                    self.report.lose("MEDIA_DROPPED", piece.place, "system takes only text")
        return blocks

    def _user_blocks(self, turn: list[Piece]) -> list[Object]:
        blocks = [block for piece in turn for block in self.piece_blocks(piece)]
        return blocks if blocks or self.at_home else _omitted(turn)

    def answer(self, turn: list[Piece]) -> list[Object]:
        """The blocks of an assistant turn."""
        blocks: list[Object] = []
        for piece in turn:
            for block in self.piece_blocks(piece):
                if self.at_home or block["type"] not in _MEDIA:
                    blocks.append(block)
                    self._last_place = piece.place
                else:
                    detail = "Messages take no media from the assistant"
                    self.report.lose("MEDIA_DROPPED", piece.place, detail)
        if blocks or self.at_home or self.for_answer:
            return blocks
        return [omitted for omitted in _omitted(turn) if "reasoning" not in omitted["text"]]

    def _trim(self, message: Object) -> None:
        """Take away the white space that no prefilled turn may end in."""
        content = message["content"]
        holder, key = (message, "content") if type(content) is str else (content[-1], "text")
        said = holder.get(key)
        if type(said) is str and said != said.rstrip():
            holder[key] = said.rstrip()
            detail = "a trailing assistant message must not end in white space"
            self.report.lose("TEXT_DROPPED", self._last_place, detail)

    # --- pieces --------------------------------------------------------------------------------

    def piece_blocks(self, piece: Piece) -> list[Object]:
        """The blocks of one piece, with this dialect's residue."""
        canister = piece.canister
        self.residue = canister.residue
        if isinstance(canister, InvocationCanisterClass):
            return [self._call(canister, piece)]
        if isinstance(canister, ResultCanisterClass):
            return [self._result(canister, piece)]
        if isinstance(canister, DocumentCanisterClass):
            blocks = self.blocks(_document(canister), piece.place)
        elif isinstance(canister, AssistantCanisterClass) and canister.held is absent:
            blocks = []
        else:
            blocks = self.blocks(canister.held, piece.place)
        if len(blocks) == 1:
            return [self.sealed(blocks[0], piece)]
        if canister.residue is not None and canister.residue.dialect != NAME:
            report_residue(canister, self.report, piece.place)
        return blocks

    def sealed(self, ours: Object, piece: Piece) -> Object:
        """A block with what its residue says of it."""
        residue = piece.canister.residue
        if residue is None:
            return ours
        if residue.dialect == NAME:
            ours = recall(ours, residue.part)
            if self.at_home:
                return ours
            ours.pop("cache_control", None)
        else:
            report_residue(piece.canister, self.report, piece.place)
        if residue.cache:
            self._mark(ours, residue, piece)
        return ours

    def _mark(self, block: Object, residue: Residue, piece: Piece) -> None:
        """Mark a block for the cache; a long mark must not follow a short one."""
        if block["type"] in _UNMARKED:
            self.report.lose("CACHE_MARK_DROPPED", piece.place, "thoughts take no cache mark")
            return
        is_long = residue.cache == "long" and not self._has_short_mark
        if residue.cache == "long" and not is_long:
            detail = "a mark for one hour behind one for five minutes became as short"
            self.report.lose("CACHE_MARK_DROPPED", piece.place, detail)
        self._has_short_mark = not is_long
        mark = {"type": "ephemeral"}
        block["cache_control"] = {**mark, "ttl": "1h"} if is_long else mark

    def _call(self, canister: InvocationCanisterClass, piece: Piece) -> Object:
        ours: Object = {
            "type": "tool_use",
            "id": canister.identifier,
            "name": canister.name,
            "input": self._input(canister, piece),
        }
        return self.sealed(ours, piece)

    def _input(self, canister: InvocationCanisterClass, piece: Piece) -> Any:
        if canister.is_freeform:
            self.report.lose("FREEFORM_WRAPPED", piece.place)
            return {FREEFORM_INPUT: canister.held}
        found = object_input(canister.held)
        if found is not None:
            return found
        if not self.at_home:
            self.report.lose("ARGUMENTS_WRAPPED", piece.place)
        return wrapped_input(canister.held)

    def _result(self, canister: ResultCanisterClass, piece: Piece) -> Object:
        residue = own_residue(canister, NAME)
        ours: Object = {"type": "tool_result", "tool_use_id": canister.invocation_id}
        content = self.result_content(canister, piece, None if residue is None else residue.form)
        if content is not absent:
            ours["content"] = content
        if canister.is_error:
            ours["is_error"] = True
        return self.sealed(ours, piece)

    def result_content(self, canister: ResultCanisterClass, piece: Piece, form: str | None) -> Any:
        """The content of a result: text as a string, anything else as blocks."""
        if form in _SHAPES and not canister.is_error:
            return _SHAPES[form].get("content", absent)
        held = canister.held
        if self.at_home:
            if form in _SHAPES:
                return _SHAPES[form].get("content", absent)
            is_plain = type(held) is str and form != "list"
            return held if is_plain else self.blocks(held, piece.place)
        if type(held) is str and not canister.is_error and form != "list":
            return held
        blocks = self.blocks(held, piece.place)
        if canister.is_error:
            blocks = _explained(blocks, canister)
        return self._shape(blocks, form) if blocks else _omitted([piece]) or ""


_SHAPES: dict[str | None, Object] = {
    "absent": {},
    "null": {"content": None},
    "empty": {"content": []},
}


def is_inline(canister: AnyCanister) -> bool:
    """Whether a supervisor was a message of its own and not part of the system field."""
    residue = own_residue(canister, NAME)
    return residue is not None and (residue.form or "").startswith(INLINE)


def _listed(content: Any) -> list[Object]:
    return [{"type": "text", "text": content}] if type(content) is str else content


def _explained(blocks: list[Object], canister: ResultCanisterClass) -> list[Object]:
    """The blocks of a failed result: the server wants words, and a reason must not get lost."""
    reason = str(canister.error)
    said = "".join(block.get("text", "") for block in blocks)
    if canister._error is True:  # noqa: SLF001 - tells a mere flag from a reason
        return blocks or [{"type": "text", "text": ERROR_PREFIX.strip()}]
    return blocks if reason in said else [{"type": "text", "text": reason}, *blocks]


def _omitted(turn: list[Piece]) -> list[Object]:
    """A text in the place of what could not be said, so that the turn stays valid."""
    for piece in turn:
        canister: Any = piece.canister
        if canister.role is Role.Invocation or canister.held is absent:
            continue
        kind = canister.content.kind
        if kind != "text":
            return [{"type": "text", "text": f"[{'block' if kind == 'opaque' else kind} omitted]"}]
    return []


def _document(canister: DocumentCanisterClass) -> Any:
    """The content of a document canister as a file with the canister's title."""
    content = canister.content
    title = canister.title if isinstance(canister.title, str) else None
    if isinstance(content, TextualContentClass):
        return new_file(content.text.encode(), PLAIN, title)
    if isinstance(content, FileContentClass) and content.name is None and title is not None:
        facts = (content.context, content.citable, content.chunks)
        return new_file(content.payload, content.mime_type, title, *facts)
    return content

"""Writing Messages bodies.

The writer walks the arranged pieces once: a turn becomes a message, a piece a block. For the same dialect nothing is
judged, and residue restores what was really said; for another one a block that the server would refuse is left out
with a loss. Leading supervisors are the top-level ``system``, unless they were messages of their own.
"""

from __future__ import annotations

from typing import Any

from orjson import Fragment

from cannery.dialects.anthropic_messages.blocks import BlockWriter, is_bare_text
from cannery.dialects.anthropic_messages.models import NAME
from cannery.dialects.anthropic_messages.reading import BARE, INLINE
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
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
from cannery.messages.residue import PREAMBLE, Residue
from cannery.wire.arguments import FREEFORM_INPUT, object_input, object_text, wrapped_input
from cannery.wire.bodies import Object
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue, says_only_text
from cannery.wire.markers import ERROR_PREFIX
from cannery.wire.residues import own_residue, recall

_UNMARKED = frozenset({"thinking", "redacted_thinking"})
_MEDIA = frozenset({"image", "document", "search_result"})
_ROLES: dict[type, str] = {
    UserCanisterClass: "user",
    DocumentCanisterClass: "user",
    ResultCanisterClass: "user",
    AssistantCanisterClass: "assistant",
    InvocationCanisterClass: "assistant",
    SupervisorCanisterClass: "system",
}
# Whose bare text is a message of its own.
_SPEAKERS = frozenset({UserCanisterClass, AssistantCanisterClass})
# Messages and results without content, by the form that remembers it.
_SHAPES: dict[str | None, Object] = {
    "absent": {},
    "null": {"content": None},
    "empty": {"content": []},
}


class MessageWriter(BlockWriter):
    """Writes messages and the system field."""

    # What was the system field when it was read, and now stands behind messages.
    displaced: tuple[Piece, ...] = ()
    _has_lead = False
    # Whether a turn was left out since the last message.
    _is_gap = False
    _has_short_mark = False
    _last_place: int | None = None

    # --- messages ------------------------------------------------------------------------------

    def split(self, pieces: list[Piece]) -> tuple[list[Piece], list[Piece]]:
        """The pieces of the system field, and all others."""
        count = 0
        for piece in pieces:
            canister = piece.canister
            if type(canister) is not SupervisorCanisterClass:
                break
            if self.is_same and _is_inline(canister):
                break
            count += 1
        if not count:
            return [], pieces
        self._has_lead = True
        return pieces[:count], pieces[count:]

    def system(self, pieces: list[Piece]) -> Any:
        """The system field, or absent."""
        if not pieces:
            return absent
        blocks = self._system_blocks(pieces)
        if not blocks:
            return absent
        residue = own_residue(pieces[0].canister, NAME)
        return _content(blocks, None if residue is None else residue.form)

    def messages(self, pieces: list[Piece]) -> list[Object]:
        """The messages of all pieces; skip empty turns, which do not separate their neighbours."""
        written: list[Object] = []
        turn: list[Piece] = []
        speaker = ""
        for piece in pieces:
            canister = piece.canister
            kind = type(canister)
            role = _ROLES[kind]
            if role == speaker and (canister.joined or kind is InvocationCanisterClass):
                turn.append(piece)
                continue
            if turn:
                message = self._message(speaker, turn)
                if message is None or self._is_gap:
                    self._end(message, turn, written)
                else:
                    written.append(message)
            speaker, turn = role, [piece]
        if turn:
            self._end(self._message(speaker, turn), turn, written)
        if not self.is_same and written and written[-1]["role"] == "assistant":
            self._trim(written[-1])
        return written

    def _end(self, message: Object | None, turn: list[Piece], written: list[Object]) -> None:
        """Add the message of a turn, if anything is said in it."""
        if message is None:
            self._is_gap = self._is_gap or self._merges
        elif not self._is_gap:
            written.append(message)
        elif written and written[-1]["role"] == message["role"]:
            self.report.repair("alternation", turn[0].place)
            last = written[-1]
            last["content"] = [*_listed(last["content"]), *_listed(message["content"])]
        else:
            if message["role"] == "user":
                self._close_gap(written, message, turn[0].place)
            else:
                written.append(message)
            self._is_gap = False

    @property
    def _merges(self) -> bool:
        """Whether neighbours of one side become one message when a turn between them is left out."""
        return not self.is_same and "alternation" not in self.report.off

    def _close_gap(self, written: list[Object], message: Object, place: int | None) -> None:
        """Add a user message; system messages that stood before the turn that was left out follow it."""
        behind = []
        while written and written[-1]["role"] == "system":
            behind.append(written.pop())
        if behind and written and written[-1]["role"] == "user":
            self.report.repair("alternation", place)
            last = written[-1]
            last["content"] = [*_listed(last["content"]), *_listed(message["content"])]
        else:
            written.append(message)
        written += reversed(behind)

    def _message(self, role: str, turn: list[Piece]) -> Object | None:
        head = turn[0].canister
        residue, held = head.residue, head.held
        if (
            type(head) in _SPEAKERS
            and type(held) is str
            and held
            and not held.isspace()
            and ((residue is None and len(turn) == 1) or says_only_text(turn, NAME, self.report))
        ):
            self._last_place = turn[0].place
            return {"role": role, "content": held}
        if residue is not None and residue.dialect != NAME:
            residue = None
        shape = ""
        if residue is not None and residue.form and type(head) is not ResultCanisterClass:
            shape = residue.form.removeprefix(INLINE).removeprefix(":")
            if shape in _SHAPES and len(turn) > 1:
                # Something was added to a message without content.
                turn, shape = turn[1:], "list" if shape == "empty" else ""
        if role == "system":
            if self.is_same and self._is_displaced(residue):
                self.displaced = (*self.displaced, *turn)
                return None
            blocks = self._system_blocks(turn)
        else:
            blocks = self.answer(turn) if role == "assistant" else self._user_blocks(turn)
        message: Object = {"role": role}
        if residue is not None and residue.envelope is not None:
            message = recall(message, residue.envelope)
        if self.is_same and shape in _SHAPES:
            message.update(_SHAPES[shape])
            return message
        if not blocks and not self.is_same:
            return None
        message["content"] = _content(blocks, shape) if len(blocks) == 1 else blocks
        return message

    def _is_displaced(self, residue: Residue | None) -> bool:
        """Whether a supervisor was the system field, and something was put before it."""
        form = None if residue is None else residue.form
        # Only the system field has this form without saying that it is a message.
        return form == PREAMBLE or (form == "list" and not self._has_lead)

    def _system_blocks(self, turn: list[Piece]) -> list[Any]:
        blocks: list[Any] = []
        for piece in turn:
            canister = piece.canister
            if isinstance(canister, SupervisorCanisterClass) and canister.rank == "developer":
                self.report.lose("RANK_LOWERED", piece.place)
            for block in self.piece_blocks(piece):
                if self.is_same or block["type"] not in _MEDIA:
                    blocks.append(block)
                else:
                    self.report.lose("MEDIA_DROPPED", piece.place, "system takes only text")
        return blocks

    def _user_blocks(self, turn: list[Piece]) -> list[Any]:
        if len(turn) == 1:
            blocks = self.piece_blocks(turn[0])
        else:
            blocks = [block for piece in turn for block in self.piece_blocks(piece)]
        return blocks if blocks or self.is_same else _omitted(turn)

    def answer(self, turn: list[Piece]) -> list[Any]:
        """The blocks of an assistant turn."""
        blocks: list[Any] = []
        is_same = self.is_same
        for piece in turn:
            for block in self.piece_blocks(piece):
                if is_same or block["type"] not in _MEDIA:
                    blocks.append(block)
                    self._last_place = piece.place
                else:
                    detail = "Messages take no media from the assistant"
                    self.report.lose("MEDIA_DROPPED", piece.place, detail)
        if blocks or is_same or self.for_answer:
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

    def piece_blocks(self, piece: Piece) -> list[Any]:
        """The blocks of one piece, with this dialect's residue."""
        canister: Any = piece.canister
        self.residue = residue = canister.residue
        kind = type(canister)
        held = canister.held
        if kind is InvocationCanisterClass:
            blocks = [self._call(canister, piece)]
        elif kind is ResultCanisterClass:
            blocks = [self._result(canister, piece)]
        elif kind is DocumentCanisterClass:
            blocks = self.blocks(_document(canister), piece.place)
        else:
            blocks = [] if held is absent else self.blocks(held, piece.place)
        if residue is None:
            return blocks
        if len(blocks) == 1:
            return [self._sealed(blocks[0], residue, piece)]
        if residue.dialect != NAME:
            report_residue(canister, self.report, piece.place)
        return blocks

    def _sealed(self, ours: Any, residue: Residue, piece: Piece) -> Any:
        """A block with what its residue says of it."""
        if residue.dialect == NAME:
            ours = recall(ours, residue.part)
            if self.is_same:
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
        given = None if canister.is_freeform else object_text(canister.held)
        return {
            "type": "tool_use",
            "id": canister.identifier,
            "name": canister.name,
            "input": self._odd_input(canister, piece) if given is None else given,
        }

    def _odd_input(self, canister: InvocationCanisterClass, piece: Piece) -> Any:
        """The input of a call whose arguments do not begin as an object does."""
        held = canister.held
        if canister.is_freeform:
            self.report.lose("FREEFORM_WRAPPED", piece.place)
            return {FREEFORM_INPUT: held}
        found = object_input(held)
        if found is not None:
            return found
        if not self.is_same:
            self.report.lose("ARGUMENTS_WRAPPED", piece.place)
        elif self.residue is not None and self.residue.form == BARE:
            return Fragment(held)
        return wrapped_input(held)

    def _result(self, canister: ResultCanisterClass, piece: Piece) -> Object:
        residue, held = canister.residue, canister.held
        is_error = canister.is_error
        if type(held) is str and residue is None and not is_error:
            content: Any = held
        else:
            is_own = residue is not None and residue.dialect == NAME
            content = self._result_content(canister, piece, residue.form if is_own else None)  # type: ignore[union-attr]
        ours: Object = {"type": "tool_result", "tool_use_id": canister.invocation_id}
        if content is not absent:
            ours["content"] = content
        if is_error:
            ours["is_error"] = True
        return ours

    def _result_content(self, canister: ResultCanisterClass, piece: Piece, form: str | None) -> Any:
        """The content of a result: text as a string, anything else as blocks."""
        is_error = canister.is_error
        if form in _SHAPES and (self.is_same or not is_error):
            return _SHAPES[form].get("content", absent)
        held = canister.held
        if type(held) is str and form != "list" and (self.is_same or not is_error):
            return held
        blocks = self.blocks(held, piece.place)
        if self.is_same:
            return blocks
        if is_error:
            blocks = _explained(blocks, canister)
        return _content(blocks, form) if blocks else _omitted([piece]) or ""


def _content(blocks: list[Any], form: str | None) -> Any:
    """Blocks as the content of a message: a string for one text and nothing else, unless it was a list."""
    return blocks[0]["text"] if form != "list" and is_bare_text(blocks) else blocks


def _is_inline(canister: AnyCanister) -> bool:
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
        if type(canister) is InvocationCanisterClass or canister.held is absent:
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

"""Writing Converse requests: a turn becomes a message, a piece a block, and a cache point follows what it marks.

For the same dialect nothing is judged, and residue restores what was really said. For another one a block that the
server would refuse is left out with a loss, documents get legal and unique names, and a turn with documents has text.
"""

from __future__ import annotations

from typing import Any

from orjson import Fragment

from cannery.dialects.bedrock_converse.blocks import (
    BlockWriter,
    as_file,
    document_names,
    words_of,
)
from cannery.dialects.bedrock_converse.reading import (
    BARE,
    EMPTY,
    GUARDED,
    INLINE,
    INNER,
    SUCCESS,
    TYPED,
)
from cannery.dialects.bedrock_converse.settings import write_settings
from cannery.dialects.bedrock_converse.tools import NAME, write_mark
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
    SupervisorCanisterClass,
)
from cannery.messages.content import (
    PartsContentClass,
)
from cannery.messages.json_text import decode_json
from cannery.messages.requests import Request
from cannery.messages.residue import PREAMBLE, Residue
from cannery.wire.arguments import FREEFORM_INPUT, object_input, wrapped_input
from cannery.wire.bodies import Object
from cannery.wire.contract import Piece
from cannery.wire.foreign import report_residue
from cannery.wire.losses import Report
from cannery.wire.markers import ERROR_PREFIX
from cannery.wire.residues import own_residue, recall, recall_settings
from cannery.wire.turns import MODEL, SIDES, SUPERVISOR, turns

_ROLES = {MODEL: "assistant", SUPERVISOR: "system"}
# What the roles show beside text, and what stands in results.
_OF_USERS = frozenset({"image", "document", "video", "audio", "searchResult"})


class ConverseWriter(BlockWriter):
    """Writes messages and the system field."""

    # --- messages ------------------------------------------------------------------------------

    def split(self, pieces: list[Piece]) -> tuple[list[Piece], list[Piece]]:
        """The pieces of the system field, and all others."""
        leading: list[Piece] = []
        others: list[Piece] = []
        for piece in pieces:
            canister = piece.canister
            is_system = type(canister) is SupervisorCanisterClass and not (
                self.is_same and INLINE in words_of(own_residue(canister, NAME))
            )
            if is_system and (not others or self._was_leading(canister)):
                leading.append(piece)
            else:
                others.append(piece)
        return leading, others

    def _was_leading(self, canister: AnyCanister) -> bool:
        """Whether something was put before what was the system field."""
        residue = own_residue(canister, NAME)
        return self.is_same and residue is not None and residue.form == PREAMBLE

    def messages(self, pieces: list[Piece]) -> list[Object]:
        """The messages of all pieces; skip empty turns, which do not separate their neighbours."""
        written: list[Object] = []
        is_gap = False
        for turn in turns(pieces):
            message = self._message(turn)
            if message is None:
                is_gap = is_gap or "alternation" not in self.report.off
                continue
            if is_gap:
                self._close_gap(written, message, turn[0].place)
            else:
                written.append(message)
            is_gap = False
        return written

    def _close_gap(self, written: list[Object], message: Object, place: int | None) -> None:
        """Add a message behind a turn that was left out; system messages before that follow what they precede."""
        behind: list[Object] = []
        if message["role"] == "user":
            while written and written[-1]["role"] == "system":
                behind.append(written.pop())
        if written and written[-1]["role"] == message["role"]:
            self.report.repair("alternation", place)
            written[-1]["content"] = [*written[-1]["content"], *message["content"]]
        else:
            written.append(message)
        written += reversed(behind)

    def _message(self, turn: list[Piece]) -> Object | None:
        side = SIDES[type(turn[0].canister)]
        role = _ROLES.get(side, "user")
        residue = own_residue(turn[0].canister, NAME)
        message: Object = {"role": role}
        if residue is not None and residue.envelope is not None:
            message = recall(message, residue.envelope)
        blocks = self.blocks(turn, role)
        if not blocks and not self.is_same:
            return None
        message["content"] = blocks
        return message

    def blocks(self, turn: list[Piece], role: str) -> list[Any]:
        """The blocks of a turn, with the cache points of what is marked."""
        blocks: list[Any] = []
        for piece in turn:
            blocks += self._marked(piece, self._shown(piece, role))
        if self.is_same or self.for_answer:
            return blocks
        if not blocks:
            return _omitted(turn) if role == "user" else []
        if any("document" in block for block in blocks) and not any("text" in b for b in blocks):
            name = next(block["document"]["name"] for block in blocks if "document" in block)
            words = f"[document: {name}]"
            detail = f"a document needs text beside it; {words!r} was sent"
            self.report.lose("CONTROL_DEFAULTED", None, detail)
            results = [block for block in blocks if "toolResult" in block]
            others = [block for block in blocks if "toolResult" not in block]
            return [*results, {"text": words}, *others]
        return blocks

    def _shown(self, piece: Piece, role: str) -> list[Any]:
        """The blocks of a piece that its role may show."""
        blocks = self.piece_blocks(piece)
        if self.is_same or role == "user" or (self.for_answer and role == "assistant"):
            return blocks
        kept = [block for block in blocks if _OF_USERS.isdisjoint(block)]
        if len(kept) < len(blocks):
            detail = f"messages of the role {role} show no media"
            self.report.lose("MEDIA_DROPPED", piece.place, detail)
        return kept

    def _marked(self, piece: Piece, blocks: list[Any]) -> list[Any]:
        residue = piece.canister.residue
        if residue is None or not residue.cache:
            return blocks
        if self.for_answer and not self.is_same:
            return blocks
        if not blocks or (not self.is_same and "reasoningContent" in blocks[-1]):
            self.report.lose("CACHE_MARK_DROPPED", piece.place)
            return blocks
        return [
            *blocks,
            write_mark(residue.cache, residue.form if residue.dialect == NAME else None),
        ]

    # --- pieces --------------------------------------------------------------------------------

    def piece_blocks(self, piece: Piece) -> list[Any]:
        """The blocks of one piece, with this dialect's residue."""
        canister: Any = piece.canister
        residue = own_residue(canister, NAME)
        self.words = words = words_of(residue)
        kind = type(canister)
        if residue is None:
            report_residue(canister, self.report, piece.place)
        if kind is InvocationCanisterClass:
            blocks = [self._call(canister, piece)]
        elif kind is ResultCanisterClass:
            blocks = [self._result(canister, piece)]
        elif kind is DocumentCanisterClass:
            blocks = self.content(as_file(canister), piece.place)
        elif canister.held is absent or (self.is_same and EMPTY in words and not canister.held):
            blocks = []
        else:
            blocks = self.content(canister.held, piece.place)
        return _recalled(blocks, residue)

    def whole(self, content: Any, residue: Residue | None) -> list[Any]:
        """The blocks of a content that comes at once in a stream."""
        self.words = words_of(residue)
        return _recalled(self.content(content, None), residue)

    def _call(self, canister: InvocationCanisterClass, piece: Piece) -> Object:
        call: Object = {
            "toolUseId": canister.identifier,
            "name": canister.name,
            "input": self._input(canister, piece),
        }
        if TYPED in self.words:
            call["type"] = TYPED
        return {"toolUse": call}

    def _input(self, canister: InvocationCanisterClass, piece: Piece) -> Any:
        held = canister.held
        if canister.is_freeform:
            self.report.lose("FREEFORM_WRAPPED", piece.place)
            return {FREEFORM_INPUT: held}
        if BARE in self.words and self.is_same:
            return Fragment(held)
        found = object_input(held)
        if found is not None:
            return found
        if not self.is_same:
            self.report.lose("ARGUMENTS_WRAPPED", piece.place)
        return wrapped_input(held)

    def _result(self, canister: ResultCanisterClass, piece: Piece) -> Object:
        words = self.words
        if self.is_same and EMPTY in words and canister.held == "":
            blocks: list[Any] = []
        else:
            self.is_in_result = True
            held: Any = canister.held
            blocks = []
            for index, part in enumerate(
                held.parts if type(held) is PartsContentClass else (held,)
            ):
                self.words = [
                    word.partition(":")[2] for word in words if word.startswith(f"{index}:")
                ]
                blocks += self.content(part, piece.place)
            self.is_in_result = False
        if not self.is_same:
            if canister.is_error:
                blocks = _explained(blocks, canister)
            blocks = blocks or _omitted([piece])
        result: Object = {"toolUseId": canister.invocation_id, "content": blocks}
        if canister.is_error:
            result["status"] = "error"
        elif SUCCESS in words:
            result["status"] = SUCCESS
        return {"toolResult": result}


def write_request(request: Request, pieces: list[Piece], report: Report) -> Object:
    """The body of a request."""
    is_same = request.source == NAME
    writer = ConverseWriter(report, is_same=is_same)
    if not is_same:
        writer.names = document_names(request.conversation)
    leading, others = writer.split(pieces)
    system = writer.blocks(leading, "system")
    messages = writer.messages(others)
    body = recall_settings(write_settings(request, report, messages), own_residue(request, NAME))
    if "modelId" in body and isinstance(request.model, str):
        body["modelId"] = request.model
    if system:
        body["system"] = system
    body["messages"] = messages
    return body


def _recalled(blocks: list[Any], residue: Residue | None) -> list[Any]:
    """The block with what its residue says of it."""
    if residue is None or len(blocks) != 1:
        return blocks
    if GUARDED in words_of(residue) and residue.part is not None:
        return [_guarded(blocks[0], residue.part)]
    if INNER in words_of(residue):
        return [{kind: recall(held, residue.part) for kind, held in blocks[0].items()}]
    return [recall(blocks[0], residue.part)]


def _guarded(block: Object, part: str) -> Object:
    """A block within its guard."""
    patch = decode_json(part)
    guard = patch["d"]["guardContent"]["v"]
    kind = next(iter(block))
    inner = {"text": block["text"]} if kind == "text" else block[kind]
    guarded = {**guard, kind: {**inner, **guard.get(kind, {})}}
    return {"guardContent": guarded, **patch.get("s", {})}


def _explained(blocks: list[Object], canister: ResultCanisterClass) -> list[Object]:
    """The blocks of a failed result: a reason must not get lost."""
    reason = str(canister.error)
    said = "".join(str(block.get("text", "")) for block in blocks)
    if canister._error is True:  # noqa: SLF001 - tells a mere flag from a reason
        return blocks or [{"text": ERROR_PREFIX.strip()}]
    return blocks if reason in said else [{"text": reason}, *blocks]


def _omitted(turn: list[Piece]) -> list[Object]:
    """A text in the place of what could not be said, so that the turn stays valid."""
    for piece in turn:
        canister: Any = piece.canister
        if type(canister) is InvocationCanisterClass or canister.held is absent:
            continue
        kind = canister.content.kind
        if kind != "text":
            return [{"text": f"[{'block' if kind == 'opaque' else kind} omitted]"}]
    return []

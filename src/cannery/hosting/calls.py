"""Calls of hosted tools: translates their blocks in a history or a response to another dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from cannery.hosting.blocks import (
    hosted_uses,
    outcome_in,
    report_left,
    table_of,
    told_beside,
    told_by,
    with_outcome,
)
from cannery.hosting.offers import Offer, group_of
from cannery.hosting.unsaid import unsaid
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    AssistantCanisterClass,
    InvocationCanisterClass,
    new_assistant,
    new_invocation,
    new_result,
)
from cannery.messages.checked import now
from cannery.messages.content import OpaqueContentClass, TextualContentClass, new_opaque
from cannery.messages.conversation import Conversation
from cannery.messages.hosted import FileQuery, HostedUse, Search, Sources
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import FinishReason, Response
from cannery.wire.answers import call_stem
from cannery.wire.citations import has_citations
from cannery.wire.contract import Dialect, Piece
from cannery.wire.foreign import report_residue
from cannery.wire.hosted import (
    Beside,
    ClientCall,
    ClientResult,
    Implied,
    MoreTools,
    Outcome,
    Told,
    Written,
    readable,
)
from cannery.wire.losses import Report
from cannery.wire.separators import HOSTED_TEXT, SILENCE
from cannery.wire.turns import changed


class _Block(Struct):
    """A piece being translated: its meaning, and the pieces that express it with the rest of each."""

    piece: Piece
    told: Told | None
    left: list[tuple[Piece, Any]] = []
    is_gone: bool = False


def said(
    pieces: list[Piece],
    target: Dialect,
    report: Report,
    offer: Offer | None,
    *,
    stem: str | None = None,
    way: str = "native",
    beside: Sequence[Beside] = (),
) -> list[Piece]:
    """The pieces with the blocks of other dialects in the target's form; the rest is left for its writer.

    ``stem`` is the prefix of generated ids of a response's calls; None for a history. ``beside`` are the uses that a
    response reports beside its blocks.
    """
    blocks = [_block(piece, target) for piece in pieces]
    renames_calls = offer is not None and offer.renames_calls
    if not renames_calls and all(block.told is None for block in blocks):
        return pieces
    _pair(blocks)
    _add_sources(blocks, beside)
    saying = _Saying(target, report, offer or Offer(), stem, way)
    arranged: list[Piece] = []
    for block in blocks:
        if not block.is_gone:
            arranged += saying.pieces(block)
        elif arranged and _is_text(arranged[-1]):
            # An outcome moves to its call; the texts around its place stay separated.
            gone = block.piece.canister
            silence = new_assistant(SILENCE, gone.timestamp, gone.joined)
            arranged.append(Piece(silence, block.piece.place))
    return arranged


def said_answer(response: Response, target: Dialect, report: Report, way: str) -> Response:
    """A response with the blocks of other dialects in the target's form."""
    canisters = response.canisters
    has_blocks = any(type(canister.held) is OpaqueContentClass for canister in canisters)
    beside = told_beside(response.residue)
    if not has_blocks and not beside:
        return response
    pieces = [Piece(canister, index) for index, canister in enumerate(canisters)]
    stem = call_stem(response.identifier)
    arranged = pieces
    if has_blocks:
        arranged = said(pieces, target, report, None, stem=stem, way=way, beside=beside)
    told = [*hosted_uses(canisters)] if has_blocks else []
    saying = _Saying(target, report, Offer(), stem, way)
    is_cited = any(has_citations(each.held) for each in canisters)
    for each in beside:
        if is_cited:
            report.take(each.cited)
        if _is_told(each.use, told):
            report.take(each.said)
        elif all(use.kind != each.use.kind for use in told):
            arranged = saying.put_in(each, arranged)
    if arranged is pieces:
        return response
    heard = Conversation.trusted(piece.canister for piece in arranged)
    is_waiting = any(type(canister) is InvocationCanisterClass for canister in heard)
    report.answer_places = tuple(piece.place for piece in arranged)
    response = msgspec.structs.replace(response, canisters=heard)
    if response.finish is FinishReason.Stop and is_waiting:
        return msgspec.structs.replace(response, finish=FinishReason.Tool)
    return response


def archived(pieces: list[Piece], target: Dialect) -> list[Piece]:
    """The pieces with the blocks of other dialects as an archive holds them: by what they tell, to the letter."""
    keep, kept = target.hosted.keep_block, []
    for piece in pieces:
        told, _, _ = told_by(piece.canister.held)
        held: Any = piece.canister.held
        part = None
        if keep is not None and held is not None and isinstance(told, (HostedUse, Outcome)):
            is_call = isinstance(told, HostedUse)
            part = keep(is_call, held.dialect, held.tag, decode_json(held.json))
        if part is not None and held.dialect != target.name:
            block = new_opaque(target.name, part["type"], write_json(part))
            piece = Piece(changed(piece.canister, held=block), piece.place, piece.is_synthetic)  # noqa: PLW2901 - what is written
        kept.append(piece)
    return kept


def _block(piece: Piece, target: Dialect) -> _Block:
    held = piece.canister.held
    if type(held) is not OpaqueContentClass or held.dialect == target.name:
        return _Block(piece, None)
    told, _, left = told_by(held)
    return _Block(piece, told, [(piece, left)])


def _is_text(piece: Piece) -> bool:
    """Whether a piece is a text of the model."""
    canister = piece.canister
    is_said = type(canister.held) in (str, TextualContentClass)
    return is_said and type(canister) is AssistantCanisterClass


def _pair(blocks: list[_Block]) -> None:
    """Move the outcome of a call to the call."""
    waiting: dict[str, _Block] = {}
    for block in blocks:
        told = block.told
        if isinstance(told, HostedUse):
            waiting[told.identifier] = block
        if isinstance(told, Implied) and told.identifier in waiting:
            waiting.pop(told.identifier).told = told
        outcome = outcome_in(told)
        if outcome is not None:
            call = waiting.pop(outcome.identifier, None)
            if call is None or not isinstance(call.told, HostedUse):
                block.told = None if isinstance(told, Outcome) else told
                continue
            call.told = with_outcome(call.told, outcome)
            call.left += block.left
            block.is_gone = True


def _add_sources(blocks: list[_Block], beside: Sequence[Beside]) -> None:
    """Add sources to the last search, if only the response as a whole reports them."""
    for each in beside:
        same = [
            (block, block.told)
            for block in blocks
            if isinstance(block.told, HostedUse) and block.told.kind == each.use.kind
        ]
        if same and not any(_urls(use) for _, use in same):
            block, use = same[-1]
            block.told = msgspec.structs.replace(use, result=each.use.result)


class _Saying:
    """Writes blocks in the target's form."""

    def __init__(
        self, target: Dialect, report: Report, offer: Offer, stem: str | None, way: str
    ) -> None:
        self._target = target
        self._report = report
        self._offer = offer
        self._is_answer = stem is not None
        self._identify = Identifiers(stem or "history_").given
        self._way = way
        # The form of the last use, and what it did not express.
        self._code = "HOSTED_CHANGED"
        self._unsaid: tuple[str, ...] = ()

    def pieces(self, block: _Block) -> list[Piece]:
        """The pieces that replace one piece."""
        piece = block.piece
        if block.told is None:
            return [self._renamed(piece)]
        written = self._canisters(block.told, piece)
        if written is None:
            return [left for left, _ in block.left]
        self._note(block)
        for each, left in block.left:
            report_left(left, self._report, each.place)
            report_residue(each.canister, self._report, each.place)
            residue = each.canister.residue
            if residue is not None and residue.cache:
                self._report.lose("CACHE_MARK_DROPPED", each.place)
        return [Piece(canister, piece.place, piece.is_synthetic) for canister in written]

    def put_in(self, beside: Beside, pieces: list[Piece]) -> list[Piece]:
        """The pieces of a response with a use that it reports beside them: after all others, as in a stream."""
        last = pieces[-1].canister if pieces else new_assistant("", now())
        written = self._use(beside.use, last)
        if written is None:
            return pieces
        report = self._report
        report.lose(self._code, beside.place)
        for detail in self._unsaid:
            report.lose("HOSTED_APPROXIMATED", beside.place, detail)
        self._unsaid = ()
        report.take(beside.said)
        joined = [changed(canister, joined=True) for canister in written] if pieces else written
        return [*pieces, *(Piece(canister, None) for canister in joined)]

    def _note(self, block: _Block) -> None:
        """Report a block that is written in another shape, and what of it was lost."""
        is_use = isinstance(block.told, (HostedUse, Implied))
        code = self._code if is_use else "TOOL_TO_FUNCTION"
        if not isinstance(block.told, MoreTools):
            for each, _ in block.left:
                self._report.lose(code, each.place)
        for detail in self._unsaid:
            self._report.lose("HOSTED_APPROXIMATED", block.left[-1][0].place, detail)
        self._unsaid = ()

    def _canisters(self, told: Told, piece: Piece) -> list[AnyCanister] | None:
        """The canisters for a block; None if the target cannot express it."""
        canister = piece.canister
        match told:
            case HostedUse():
                return self._use(told, canister)
            case ClientCall():
                return [called(told, canister, self._offer)]
            case ClientResult():
                return [_result(told, canister)]
            case MoreTools() if not self._is_answer:
                self._report.lose("TOOLS_MOVED", piece.place)
                return [] if told.result is None else [_result(told.result, canister)]
            case Implied():
                return self._implied(told, canister)
            case MoreTools() | Outcome():
                return None

    def _implied(self, told: Implied, canister: AnyCanister) -> list[AnyCanister] | None:
        """The canisters for an action that a server performs by itself; a client gets none."""
        is_done = told.kind in self._offer.kinds
        if self._way == "text" and told.text and not is_done:
            self._code = "HOSTED_TO_TEXT"
            return [new_assistant(text_block(told.text), canister.timestamp, canister.joined)]
        if not is_done and not (self._is_answer and told.text):
            return None
        self._code = "HOSTED_IMPLIED"
        when = canister.timestamp
        return [new_assistant(SILENCE, when, canister.joined)] if self._is_answer else []

    def _renamed(self, piece: Piece) -> Piece:
        """A call of a function of a group, under the name that combines both."""
        canister = piece.canister
        if type(canister) is not InvocationCanisterClass:
            return piece
        source: Any = canister.residue
        table = None if source is None or not self._offer.functions else table_of(source.dialect)
        field = "" if table is None else table.group_field
        group = group_of(canister, field) if field else None
        alias = None if group is None else self._offer.functions.get((group, canister.name))
        if alias is None:
            return piece
        patch = decode_json(source.part)
        del patch["s"][field]
        residue = msgspec.structs.replace(source, part=write_json(patch))
        detail = f"{canister.name!r} of {group!r} became {alias!r}"
        self._report.lose("NAME_CHANGED", piece.place, detail)
        renamed = changed(canister, name=alias, residue=residue)
        return Piece(renamed, piece.place, piece.is_synthetic)

    def _use(self, use: HostedUse, canister: AnyCanister) -> list[AnyCanister] | None:
        written = None
        if self._is_answer or use.kind in self._offer.kinds:
            named = self._identify(use)
            written = in_words_of(self._target, named, is_answer=self._is_answer)
        if written is not None:
            name = self._target.name
            blocks = [new_opaque(name, tag, write_json(item)) for tag, item in written]
            self._code, self._unsaid = "HOSTED_CHANGED", tuple(unsaid(named, blocks))
        elif self._way == "text":
            self._code = "HOSTED_TO_TEXT"
            blocks = [hosted_text(use)]
        else:
            return None
        when = canister.timestamp
        return [
            new_assistant(block, when, bool(index) or canister.joined)
            for index, block in enumerate(blocks)
        ]


def _is_told(use: HostedUse, told: list[HostedUse]) -> bool:
    """Whether others report everything in a use; an unattributed source belongs to the last one."""
    same = [one for one in told if one.kind == use.kind]
    queries = {query for one in same for query in _queries(one)}
    urls = {url for one in same for url in _urls(one)}
    return bool(same) and queries.issuperset(_queries(use)) and (not urls or urls >= {*_urls(use)})


def _queries(use: HostedUse) -> tuple[str, ...]:
    return use.call.queries if isinstance(use.call, (Search, FileQuery)) else ()


def _urls(use: HostedUse) -> list[str | None]:
    return [one.url for one in use.result.items] if isinstance(use.result, Sources) else []


class Identifiers:
    """Gives an id to each use whose dialect gives none."""

    def __init__(self, stem: str) -> None:
        self.stem = stem
        self._count = 0

    def given(self, use: HostedUse) -> HostedUse:
        """A use with an id."""
        if use.identifier:
            return use
        self._count += 1
        return msgspec.structs.replace(use, identifier=f"{self.stem}{self._count}")


def in_words_of(target: Dialect, use: HostedUse, *, is_answer: bool) -> Written | None:
    """A use in the shapes of a dialect; None if it has none, or its server would refuse it."""
    write = target.hosted.write_use
    return None if write is None else write(use, is_answer)


def hosted_text(use: HostedUse) -> Any:
    """A use as a block that every dialect writes as text."""
    return text_block(readable(use))


def text_block(text: str) -> Any:
    """A text as a block that every dialect writes as text."""
    return new_opaque("", HOSTED_TEXT, write_json({"content": text}))


def called(told: ClientCall, canister: AnyCanister, offer: Offer) -> AnyCanister:
    """The function call for a client tool's call."""
    name = offer.functions.get((told.tag, "")) or client_name(told, canister.held.dialect)
    call = (told.identifier, name, False)
    return new_invocation(  # type: ignore[no-any-return]
        told.arguments, canister.timestamp, canister.joined, None, None, *call
    )


def client_name(told: ClientCall, dialect: str) -> str:
    """The function name of a client tool."""
    table = table_of(dialect)
    client = None if table is None else table.client(told.tag)
    return told.tag if client is None else client.name


def _result(told: ClientResult, canister: AnyCanister) -> AnyCanister:
    error = True if told.is_error else absent
    own = (told.identifier, error)
    return new_result(told.held, canister.timestamp, canister.joined, None, None, *own)  # type: ignore[no-any-return]

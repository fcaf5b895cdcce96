"""Renders values of the model as wire bodies, with the losses and repairs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from operator import attrgetter, is_
from typing import Any

import msgspec
from msgspec import Struct
from orjson import Fragment

from cannery import write_cache
from cannery.dialects import find_dialect
from cannery.errors import EmptyConversationError
from cannery.hosting import Offer, archived, offered
from cannery.hosting import said as in_words
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    AssistantCanisterClass,
    SupervisorCanisterClass,
    hold,
)
from cannery.messages.content import OpaqueContentClass, TextualContentClass, new_text
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Request, Response
from cannery.repairs import REPAIRABLE, repair
from cannery.repairs.aliases import renamed_tools
from cannery.repairs.survey import DEVELOPER, OPAQUE, PATCHED, SAID, UNPAIRED, survey
from cannery.wire.bodies import encode, escaped_paths, with_escapes
from cannery.wire.contract import UNKNOWN_MODEL, Dialect, Piece, Rules
from cannery.wire.foreign import report_settings
from cannery.wire.losses import OMISSIONS, Locate, Rendered, Report, enforce
from cannery.wire.places import Locator, Places
from cannery.wire.residues import dropped_keys
from cannery.wire.separators import COMPACTION, separated_texts
from cannery.wire.turns import MODEL, SIDES, changed

_held = attrgetter("held")
SEALED_PAST = "only its provider can read what this stands for; send the whole conversation"


def write_request(
    request: Request,
    target: Dialect,
    policy: str,
    without: Collection[str],
    rules: Rules | None,
    places: Places | None,
    hosted: str = "native",
) -> Rendered:
    """A request as a body of the target, with its repairs and losses.

    ``places`` are those that a reader recorded. A request that was not read just now may be written again with more
    messages, so its canisters cache their written form (``write_cache``).
    """
    # A data set record is written once.
    is_new = places is not None or rules is not None or not target.routes
    if rules is None:
        rules = target.rules_of(request.model)
    source, name = request.source, target.name
    is_same = source == name or target.is_archive
    writing = Writing(request, target, rules, without, is_same, Report(without), hosted)
    written = writing.body(pieces_of(request.conversation)) if is_new else writing.grown()
    if not (is_same or (writing.says and written.get(target.messages, True))):
        # A missing reference explains why nothing is left, so it is reported first.
        losses = writing.report.losses(locate_in(source, places))
        enforce("warn" if policy == "strict" else policy, source, name, losses)
        left_out = [loss for loss in losses if loss.code in OMISSIONS]
        raise EmptyConversationError(name, left_out)
    asked = target.service.headers.asked
    if asked and not asked.keys().isdisjoint(written):
        writing.report.headers = _asked(asked, written)
    encoded = writing.joined(encode(written)) if writing.kept else encode(written)
    return render(encoded, request, name, policy, writing.report, places)


def _asked(headers: Mapping[str, tuple[str, str]], body: Any) -> dict[str, str]:
    """The headers that the fields of a body require."""
    return dict(pair for field, pair in headers.items() if field in body)


class Writing(Struct):
    """One request on its way into a body of the target; ``facts`` are those of its conversation (``survey``).

    ``says`` is whether anything of it can be said in the target.
    """

    request: Request
    target: Dialect
    rules: Rules
    without: Collection[str]
    is_same: bool
    report: Report
    hosted: str = "native"
    facts: int = 0
    says: bool = False
    offer: Offer | None = None
    kept: tuple[bytes, ...] = ()

    def body(self, pieces: list[Piece]) -> Any:
        """The body of all pieces, arranged for the target."""
        if not self.is_same:
            return self._write(self._arranged(pieces), self.report)
        if self.target.is_archive:
            pieces = archived(pieces, self.target)
        return self._write(pieces, self.report)

    def _arranged(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces as another dialect receives them."""
        report, rules, request = self.report, self.rules, self.request
        report.request = request
        facts = survey(pieces, rules)
        # Repairs may insert text into an empty turn.
        self.says = facts & SAID != 0
        offer = None
        has_blocks = facts & OPAQUE
        if request.tools or has_blocks or facts & PATCHED or request.residue is not None:
            calls = bool(facts & PATCHED)
            self.offer = offer = offered(
                request, self.target, has_blocks=bool(has_blocks), has_patched_calls=calls
            )
        if has_blocks or (offer is not None and offer.renames_calls):
            pieces = in_words(pieces, self.target, report, offer, way=self.hosted)
            if has_blocks:
                pieces = separated_texts(pieces, self.target.name, report)
            facts = survey(pieces, rules)
        if facts & REPAIRABLE:
            off = {*self.without} - self.target.fixed_repairs if self.without else ()
            pieces, facts = repair(pieces, facts, rules, report, off)
        self.facts = facts
        return pieces

    def _write(self, pieces: list[Piece], report: Report) -> Any:
        request, target = self.request, self.target
        if not self.is_same:
            rules, facts, source = self.rules, self.facts, request.source
            report.takes_reasoning = rules.takes_reasoning_text
            offer = self.offer
            if offer is not None:
                offer.tell(report)
                request = msgspec.structs.replace(
                    request, tools=(*offer.tools,), tool_choice=offer.choice
                )
            if facts & DEVELOPER and not rules.knows_developer:
                pieces = _lowered(pieces, report)
            if request.tools:
                report.tool_paths = {} if source is None else find_dialect(source).tool_paths
                if "function_names" not in self.without:
                    request = renamed_tools(request, rules, report)
            if request.residue is not None:
                taken = frozenset() if offer is None else frozenset(offer.settings)
                report_lost_settings(request, report, target, taken)
            if facts & OPAQUE:
                references = {} if source is None else find_dialect(source).references
                _report_references(pieces, references, request.conversation, target, report)
                self.says = self.says and (source is None or _says(pieces, target.name))
            if target.names_model and (request.model is absent or not request.model):
                report.lose("MODEL_UNKNOWN", None)
                request = msgspec.structs.replace(request, model=UNKNOWN_MODEL)
        body = target.write_request(request, pieces, report)
        return body if self.offer is None else with_fields(body, self.offer.fields)

    def grown(self) -> Any:
        """The body of the whole conversation; cached messages of an earlier writing are not written again."""
        conversation = self.request.conversation
        # A data set record may have images beside its messages, and has no routes.
        grows = self.target.routes and self.target.takes_turns
        end = write_cache.boundary(conversation) if grows else 0
        if end:
            written = self._continued(conversation, end)
            if written is not None:
                return written
            self.report = Report(self.without)
        return self.body(pieces_of(conversation))

    def _continued(self, conversation: Conversation, end: int) -> Any:
        """The body with a gap for the text of the messages before ``end``; None if they depend on later messages."""
        request = self.request
        key = (self.target.name, request.source, request.model, self.hosted, *sorted(self.without))
        kept = write_cache.find(conversation, key)
        lead = pieces_of(conversation[: write_cache.leading(conversation)])
        start = 0 if kept is None else kept.length
        fresh = pieces_of(conversation[start:], start)
        whole = [*lead, *fresh] if start else fresh
        arranged = whole if self.is_same else self._arranged(whole)
        # The first piece after the cached messages: repairs may change only later pieces.
        first = len(whole) - len(conversation) + end
        is_settled = len(arranged) > first and all(map(is_, arranged, whole[: first + 1]))
        if not is_settled or _has_late(whole[len(lead) : first]):
            return None
        # The arranged pieces begin with the same pieces.
        facts = survey(whole[:first], self.rules) if self.is_same else self.facts
        if facts & UNPAIRED:
            return None
        if not write_cache.fits(kept, fresh, self.rules.cache_marks):
            return None
        field = self.target.messages
        written = self._write([*lead, *arranged[first:]], self.report)
        if start < end:
            if len(arranged) == first + 1:
                alone = written[field]
            else:
                alone = self._listed([*lead, whole[first]], Report(self.without))
            added = self._added(whole[: first + 1], alone, is_first=not start)
            if added is None:
                return None
            kept = write_cache.keep(conversation, key, kept, fresh[: end - start], added)
        if kept is None or self.report.names:
            return None
        self.says = True
        self.report.lost.extend(kept.notes)
        self.kept = kept.pieces
        gap = [Fragment(write_cache.GAP)] if kept.pieces else []
        written[field] = [*gap, *written[field][kept.skip :]]
        return written

    def _added(
        self, pieces: list[Piece], alone: list[Any], *, is_first: bool
    ) -> write_cache.Written | None:
        """The messages of pieces except the last one, which is written with them to check that it stays separate.

        ``alone`` are the messages of the leading pieces and the last one.
        """
        report = Report(self.without)
        listed = self._listed(pieces, report)
        # If a turn before it is left out, the last one may be joined to an earlier one.
        is_alone = bool(alone) and encode(listed[-1:]) == encode(alone[-1:])
        if not is_alone or report.repaired or report.is_bound:
            return None
        skip = len(alone) - 1
        return write_cache.Written(encode(listed[0 if is_first else skip : -1])[1:-1], report, skip)

    def joined(self, encoded: bytes) -> bytes:
        """The text of a body with the cached text in its gap."""
        before, _, behind = encoded.partition(write_cache.GAP)
        return b"".join((before, *self.kept, behind))

    def _listed(self, pieces: list[Piece], report: Report) -> list[Any]:
        listed: list[Any] = self._write(pieces, report)[self.target.messages]
        return listed


def with_fields(body: Any, fields: Mapping[str, Any]) -> Any:
    """A body with more fields; objects in both are merged."""
    for key, held in fields.items():
        known = body.get(key)
        body[key] = {**known, **held} if type(known) is dict and type(held) is dict else held
    return body


def pieces_of(canisters: Sequence[AnyCanister], start: int = 0) -> list[Piece]:
    """Canisters with their places, each with its text loaded."""
    if TextualContentClass in {*map(type, map(_held, canisters))}:
        canisters = [*map(loaded, canisters)]
    return [*map(Piece, canisters, count(start))]


def _has_late(pieces: list[Piece]) -> bool:
    """Whether a supervisor stands after the leading ones."""
    return any(type(piece.canister) is SupervisorCanisterClass for piece in pieces)


def _lowered(pieces: list[Piece], report: Report) -> list[Piece]:
    """Pieces for a server that does not distinguish developer from system."""
    lowered = [*pieces]
    for index, piece in enumerate(pieces):
        canister = piece.canister
        if type(canister) is SupervisorCanisterClass and canister.rank == "developer":
            report.lose("RANK_LOWERED", piece.place)
            system = changed(canister, rank="system")
            lowered[index] = Piece(system, piece.place, piece.is_synthetic)
    return lowered


def _report_references(
    pieces: list[Piece],
    references: Mapping[str, str],
    conversation: Conversation,
    target: Dialect,
    report: Report,
) -> None:
    """Report blocks that refer to messages which only their provider keeps, or that hold them in encrypted form."""
    for piece in pieces:
        held = piece.canister.held
        if type(held) is not OpaqueContentClass or held.dialect == target.name:
            continue
        if held.tag in references:
            report.lose(references[held.tag], piece.place)
        elif held.tag == COMPACTION and not _has_answers(conversation[: piece.place]):
            report.lose("HISTORY_MISSING", piece.place, SEALED_PAST)


def _has_answers(canisters: Sequence[AnyCanister]) -> bool:
    """Whether the model wrote or called something, so that the messages a compaction replaces are present as well."""
    return any(
        SIDES[type(canister)] is MODEL and not isinstance(canister.held, OpaqueContentClass)
        for canister in canisters
    )


def _says(pieces: list[Piece], name: str) -> bool:
    """Whether there is any content besides model blocks that only another dialect understands."""
    return any(
        piece.canister.held is not absent
        and not piece.is_synthetic
        and not (
            type(piece.canister.held) is OpaqueContentClass
            and piece.canister.held.dialect not in (name, "")
            and type(piece.canister) is AssistantCanisterClass
        )
        for piece in pieces
    )


def loaded(canister: AnyCanister) -> AnyCanister:
    """A canister with its text loaded, so that text from a content store is written like inline text."""
    held = canister.held
    if type(held) is not TextualContentClass or held.is_hydrated:
        return canister
    return changed(canister, held=hold(new_text(held.text, held.mime_type, held.citations)))


def report_lost_settings(
    value: Request | Response,
    report: Report,
    target: Dialect | None = None,
    taken: frozenset[str] = frozenset(),
) -> None:
    """Report the fields around a conversation that another dialect does not accept; ``taken`` are carried elsewhere."""
    residue = value.residue
    if residue is None or (target is not None and residue.dialect == target.name):
        return
    left = dropped_keys(residue.envelope)
    if not left:
        return
    source = find_dialect(residue.dialect)
    modelled, references = source.modelled, source.references
    if isinstance(value, Request):
        if target is not None and target.takes_over is not None:
            report.taken = target.takes_over(value, left)
    else:
        references = {}
        if source.modelled_answer is not None:
            modelled = source.modelled_answer
    if taken:
        report.take(taken)
    paths, defaults = source.control_paths, source.defaults
    report_settings(value, left, modelled, paths, report, references, defaults)


def render(
    encoded: bytes,
    value: Request | Response,
    name: str,
    policy: str,
    report: Report,
    places: Places | None,
) -> Rendered:
    """The written body with the contents of a report; the policy may forbid the losses."""
    if value.residue is not None and value.residue.escapes is not None:
        encoded = _spell_broken(encoded, value, name, report)
    if not (report.lost or report.repaired):
        return Rendered(encoded, headers=report.headers)
    locate = locate_in(value.source, places)
    losses = report.losses(locate)
    if policy != "allow":
        enforce(policy, value.source, name, losses)
    repairs = report.repairs(locate) if report.repaired else ()
    return Rendered(encoded, losses, repairs, report.aliases, report.headers)


def _spell_broken(encoded: bytes, value: Request | Response, name: str, report: Report) -> bytes:
    """A body whose source had broken Unicode: its own dialect gets it back, for others the repair is reported."""
    escapes = str(value.residue.escapes)  # type: ignore[union-attr]
    paths = escaped_paths(escapes)
    is_same = value.source == name
    for path in paths:
        if not is_same or path == "$":
            report.repair("broken_unicode", path)
    return with_escapes(encoded, escapes) if is_same and paths != ["$"] else encoded


def locate_in(source: str | None, places: Places | None) -> Locate:
    """The function that turns places into paths of a body in its source's dialect."""
    return Locator(places, None if source is None else find_dialect(source).control_paths).path

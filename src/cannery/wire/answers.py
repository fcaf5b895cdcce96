"""Response fields shared by dialects: envelope fields, generated call ids, pieces to write, and errors.

``Answers`` reads and writes the fields around the content from one table. A field with a row becomes a fact of the
response; a field without a row becomes residue. The dialect handles the content itself, and responses with another
structure are handled by their own dialect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from cannery.errors import DialectError
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister, InvocationCanisterClass, ResultCanisterClass
from cannery.messages.content import RefusalContentClass
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.requests import Response, Usage, new_response
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object, read_value
from cannery.wire.contract import Piece, WireError
from cannery.wire.counts import Counts
from cannery.wire.endings import Finishes, report_ending
from cannery.wire.losses import Place, Report
from cannery.wire.places import Places
from cannery.wire.residues import nested, own_residue, recall, take_usual
from cannery.wire.separators import separated_texts
from cannery.wire.turns import changed

# The name for a call without one: some clients and servers refuse an empty name.
NAMELESS = "unknown_function"


class Fact(Struct, frozen=True):
    """One field around the content: a fact of the response or, without a name, a constant (``usual``).

    Values of type ``kind`` are taken unchanged; others are read and written by functions. ``usual`` is also written
    when the response does not have the fact; ``absent`` writes nothing.
    """

    key: str
    name: str = ""
    usual: Any = absent
    kind: type = str
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None

    def written(self, said: Any) -> Any:
        """The value to write for a fact, or for an unknown one."""
        if said is absent:
            return self.usual
        return said if self.write is None else self.write(said)


class Answers(Struct, frozen=True):
    """The fields around the content in responses of a dialect.

    ``finish`` is the field with the finish reason, "" if the dialect keeps it elsewhere. ``usage`` is the field with
    the token counts, "" if they are top-level fields. ``reads_calls`` is true if a usual stop beside calls means that
    the model waits for results. ``always_counts`` writes zero counts when a response from another dialect has none.
    ``says`` is passed to ``report_ending``.
    """

    dialect: str
    finishes: Finishes
    counts: Counts
    facts: tuple[Fact, ...] = ()
    finish: str = ""
    usage: str = "usage"
    reads_calls: bool = False
    always_counts: bool = False
    says: Collection[str] = ()

    def read(
        self,
        body: Object,
        canisters: list[AnyCanister],
        places: Places,
        inner: Mapping[str, Object | None],
        *,
        lacking: Sequence[str] = (),
        form: str | None = None,
        **found: Any,
    ) -> Response:
        """Read the response from a body without its content; ``inner`` are the patches of the content.

        ``lacking`` are fields that writing adds and the body does not have; ``found`` are facts that the dialect has
        read.
        """
        lacking, inner = [*lacking], {**inner}
        for fact in self.facts:
            said: Any = absent
            if fact.name:
                value = body.get(fact.key, absent)
                if fact.read is not None:
                    said = fact.read(value)
                elif type(value) is fact.kind:
                    found[fact.name] = body.pop(fact.key)
                    continue
                found[fact.name] = said
            written = fact.written(said)
            if written is not absent:
                take_usual(body, fact.key, written, lacking)
        if self.finish:
            found["finish"] = self._take_finish(body, canisters, places, lacking)
        found["usage"] = self._take_usage(body, inner, lacking)
        patch = nested(body, inner, lacking)
        residue = None
        if patch is not None or form is not None:
            envelope = None if patch is None else write_json(patch)
            residue = Residue(self.dialect, None, envelope, form)
        conversation = Conversation.trusted(canisters)
        return new_response(conversation, residue=residue, source=self.dialect, **found)  # type: ignore[no-any-return]

    def _take_finish(
        self, body: Object, canisters: list[AnyCanister], places: Places, lacking: list[str]
    ) -> Any:
        if self.finish not in body:
            # A missing fact is reported at the place of the object that should hold it.
            places.settings["finish"] = ()
        has_calls = self.reads_calls and endings(canisters)["has_calls"]
        finish = self.finishes.read(body.get(self.finish), has_calls=has_calls)
        written = None if finish is absent else self.finishes.word(finish)
        take_usual(body, self.finish, written, lacking)
        return finish

    def _take_usage(self, body: Object, inner: dict[str, Object | None], lacking: list[str]) -> Any:
        if self.usage:
            usage, patch = self.counts.take(body.get(self.usage))
            if usage is not absent:
                del body[self.usage]
                inner[self.usage] = patch
            return usage
        usage = self.counts.read(body)
        if usage is not absent:
            for key, count in self.counts.write(usage).items():
                take_usual(body, key, count, lacking)
        return usage

    def write(self, response: Response, report: Report, said: Object, **shown: bool) -> Object:
        """Write a response body around the content ``said``; ``shown`` are the endings shown in the finish reason."""
        is_same = response.source == self.dialect
        body: Object = {}
        for fact in self.facts:
            written = fact.written(getattr(response, fact.name) if fact.name else absent)
            if written is not absent:
                body[fact.key] = written
        body |= said
        if not is_same:
            report_ending(response, report, self.finishes, says=self.says)
        if self.finish:
            is_unsaid = is_same and response.finish is absent
            shown = {} if is_same else shown
            body[self.finish] = None if is_unsaid else self.finishes.word(response.finish, **shown)
        body |= self._write_usage(response, is_same=is_same)
        residue = own_residue(response, self.dialect)
        return body if residue is None else recall(body, residue.envelope)

    def _write_usage(self, response: Response, *, is_same: bool) -> Object:
        usage = response.usage
        if usage is absent and self.always_counts and not is_same:
            usage = Usage()
        if not isinstance(usage, Usage):
            return {}
        counts = self.counts.write(usage)
        return {self.usage: counts} if self.usage else counts


def endings(canisters: Iterable[AnyCanister]) -> dict[str, bool]:
    """The parts of a response that determine its finish reason."""
    return {
        "has_calls": any(isinstance(each, InvocationCanisterClass) for each in canisters),
        "is_refused": any(isinstance(each.held, RefusalContentClass) for each in canisters),
    }


def call_stem(answer: Any) -> str:
    """The prefix of generated call ids, derived from the response id so that responses of one conversation differ."""
    if type(answer) is not str or not answer:
        return "call_"
    return f"call_{hashlib.sha256(answer.encode('utf-8', 'replace')).hexdigest()[:8]}_"


class CallIds:
    """The call ids of a response, made unique: clients pair results with calls by id."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def distinct(self, identifier: str) -> str:
        """The id, or a similar one if an earlier call has it."""
        found, number = identifier, 1
        while found in self._given:
            number += 1
            found = f"{identifier}_{number}"
        self._given.add(found)
        return found


def refuse_error(dialect: str, body: dict[str, Any], key: str) -> None:
    """Refuse a body that reports an error and lacks a required response field."""
    if key not in body and type(body.get("error")) is dict:
        raise DialectError(dialect, "error", "tells of an error and gives no answer")


def error_value(dialect: str, body: bytes) -> Any:
    """The JSON value of an error body; None if it is not JSON."""
    try:
        return read_value(dialect, body)
    except DialectError:
        return None


def plain_error(status: int, body: bytes) -> WireError:
    """The error for a body without a known error field."""
    return WireError(status, body[:500].decode("utf-8", "replace").strip() or f"HTTP {status}")


def read_nested_error(
    dialect: str, status: int, body: bytes, read: Callable[[int, Object, Object], WireError]
) -> WireError:
    """Read the error under ``error``: a string, or an object that is read together with its parent."""
    value = error_value(dialect, body)
    if type(value) is list and value:
        # Google's streams that fail immediately.
        value = value[0]
    error = value.get("error") if type(value) is dict else None
    if type(error) is str:
        return WireError(status, error)
    return read(status, error, value) if type(error) is dict else plain_error(status, body)


def _told_apart(
    call: InvocationCanisterClass, ids: CallIds, place: Place, report: Report
) -> AnyCanister:
    """A call with a unique id within the response, and with a name."""
    name, identifier = call.name, call.identifier
    if not name and "function_names" not in report.off:
        name = NAMELESS
        report.repair("function_names", place, f"function name '' became {name!r}")
    if identifier:
        identifier = ids.distinct(identifier)
    if identifier != call.identifier:
        detail = f"call id {call.identifier!r} became {identifier!r}: another call has it"
        report.repair("call_ids", place, detail)
    if name == call.name and identifier == call.identifier:
        return call
    return changed(call, name=name, identifier=identifier)


def answer_pieces(response: Response, dialect: str, report: Report) -> list[Piece]:
    """The pieces of a response; for another dialect, hosted tool results are dropped and call ids made unique."""
    places = report.answer_places or range(len(response.canisters))
    pieces = [*map(Piece, response.canisters, places)]
    if response.source == dialect:
        return pieces
    kept = []
    ids = CallIds()
    for piece in pieces:
        canister = piece.canister
        if isinstance(canister, ResultCanisterClass):
            report.lose("RESULT_DROPPED", piece.place, "an answer of the target holds no results")
            continue
        if type(canister) is InvocationCanisterClass:
            canister = _told_apart(canister, ids, piece.place, report)
        kept.append(piece if canister is piece.canister else Piece(canister, piece.place))
    return separated_texts(kept, dialect, report, is_answer=True)

"""The use cases of translation: normalize, nativize, translate, whole and streamed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from cannery.dialects import find_dialect
from cannery.errors import DialectError, InputError
from cannery.messages.canisters import AnyCanister, hold
from cannery.messages.content import TextualContentClass, new_text
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Request, Response, new_response
from cannery.messages.residue import Residue
from cannery.repairs import repair
from cannery.repairs.aliases import renamed_tools
from cannery.wire.aliasing import unaliased_canister
from cannery.wire.bodies import Turns, encode_body, to_bytes
from cannery.wire.contract import (
    UNKNOWN_MODEL,
    Dialect,
    FastWriter,
    Note,
    Notes,
    Piece,
    Rules,
    StreamOptions,
    TurnWriter,
)
from cannery.wire.cuts import LONG, Runs, cut, mend
from cannery.wire.foreign import report_settings
from cannery.wire.lazy import loaded
from cannery.wire.locating import Locate, locator
from cannery.wire.losses import (
    NO_ALIASES,
    POLICIES,
    REPAIRS,
    Aliases,
    Loss,
    Rendered,
    Report,
    check_policy,
    check_repairs,
    enforce,
    told,
)
from cannery.wire.plain import PlainRequest
from cannery.wire.slices import ODD
from cannery.wire.streams import check_chunks, read_stream, write_stream
from cannery.wire.turns import changed

if TYPE_CHECKING:
    from cannery.messages.events import Event

Body = Any
# Longer envelopes hold something that seldom comes twice.
_LONGEST_ENVELOPE = 2048
_LONGEST_SETTINGS = 32_768
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


# --- requests ----------------------------------------------------------------------------------


def normalize_request(body: Body, dialect: str) -> Request:
    """The request that a wire body asks for."""
    return find_dialect(dialect).read_request(to_bytes(dialect, body), None)


def nativize_request(
    request: Request,
    dialect: str,
    *,
    policy: str = "warn",
    without: Collection[str] = (),
    rules: Rules | None = None,
) -> Rendered:
    """The wire body of a request, with what was lost and what was repaired.

    Repairs run when the request goes to another dialect than the one it was read from; ``without`` switches some of
    them off by name, and ``rules`` replaces the provider's rules for an endpoint with quirks.
    """
    return _nativize_request(request, dialect, policy, without, rules, None)


def nativize_read_request(
    request: Request,
    dialect: str,
    body: bytes,
    *,
    restored: tuple[int, int] = (0, 0),
    policy: str = "warn",
    without: Collection[str] = (),
    rules: Rules | None = None,
) -> Rendered:
    """The same for a request that was read from ``body``: losses are told by their paths in it.

    ``restored`` says which messages are not in the body, because they were put in afterwards: from where, and how many.
    """
    return _nativize_request(request, dialect, policy, without, rules, body, restored)


def nativize_plain(plain: PlainRequest, source: str, target: str, body: bytes) -> Rendered | None:
    """The wire body of a plain request of another dialect, if it needs no repair and loses nothing; else None."""
    write = find_dialect(target).write_plain
    if write is None:
        return None
    notes: Notes = []
    written = write(plain, notes)
    return None if written is None else _noted(written, notes, source, body)


def _nativize_request(
    request: Request,
    name: str,
    policy: str,
    without: Collection[str],
    rules: Rules | None,
    body: bytes | None,
    restored: tuple[int, int] = (0, 0),
) -> Rendered:
    check_policy(policy)
    if not isinstance(request, Request):
        raise InputError(f"expected a Request, got {_kind(request)}")
    if without:
        check_repairs(without)
    write = _fast_writer(name) if rules is None and not without else None
    if write is not None:
        notes: Notes = []
        fast = write(request, notes, keep=body is None)
        if fast is not None:
            if not notes:
                return Rendered(fast)
            rendered = _noted(fast, notes, request.source, body, restored)
            enforce(policy, request.source, name, rendered.losses)
            return rendered
    target = find_dialect(name)
    report = Report()
    turns = None
    if rules is None and not without and target.write_turns is not None:
        turns = _write_turns(request, target.write_turns, report, keep=body is None)
    locate = partial(_locator, request.source, body, "request", restored)
    return _write_request(request, target, policy, without, rules, report, locate, turns=turns)


@lru_cache(maxsize=64)
def _fast_writer(name: str) -> FastWriter | None:
    """How a dialect writes requests of common shape; None where it has no such way."""
    write = find_dialect(name).write_fast
    return None if write is None else loaded(write)


def _write_request(
    request: Request,
    target: Dialect,
    policy: str,
    without: Collection[str],
    rules: Rules | None,
    report: Report,
    locate: Callable[[], Any],
    *,
    turns: tuple[int, Any] | None,
) -> Rendered:
    """A request in the general way; of ``turns`` that are written already it takes what stands before them."""
    name = target.name
    canisters = request.conversation if turns is None else request.conversation[: turns[0]]
    pieces = [Piece(_at_hand(canister), index) for index, canister in enumerate(canisters)]
    if request.source != name:
        model = request.model if isinstance(request.model, str) else None
        rules = rules or target.rules_of(model)
        if turns is None:
            pieces = repair(pieces, rules, report, without)
        if "function_names" not in without:
            request = renamed_tools(request, rules, report)
        _report_settings(request, report)
        if target.names_model and not request.model:
            report.lose("MODEL_UNKNOWN", "model")
            request = msgspec.structs.replace(request, model=UNKNOWN_MODEL)
    more = () if turns is None else (turns[1],)
    written = target.write_request(request, pieces, report, *more)
    return _rendered(written, request, name, policy, report, locate)


def _at_hand(canister: AnyCanister) -> AnyCanister:
    """A canister with its text at hand: what a store keeps elsewhere is written like what it never kept."""
    held = canister.held
    if type(held) is not TextualContentClass or held.is_hydrated:
        return canister
    return changed(canister, held=hold(new_text(held.text, held.mime_type, held.citations)))


def _write_turns(
    request: Request, write: TurnWriter, report: Report, *, keep: bool
) -> tuple[int, Any] | None:
    """The turns of a conversation that needs no repair, what they had to say being reported."""
    notes: Notes = []
    turns = write(request, notes, keep=keep)
    if turns is not None:
        _note(notes, report)
    return turns


def _note(notes: Notes, report: Report) -> None:
    """Report what a shortcut had to say."""
    for name, place, detail, *within in notes:
        if name in REPAIRS:
            report.repair(name, place, detail)
        else:
            report.lose(name, place, detail, *within)


def _report_settings(value: Request | Response, report: Report) -> None:
    if value.residue is not None:
        source = find_dialect(value.residue.dialect)
        report_settings(value, source.modelled, source.control_paths, report)


# --- responses ---------------------------------------------------------------------------------


def normalize_response(body: Body, dialect: str) -> Response:
    """The answer that a wire body gives."""
    return find_dialect(dialect).read_response(to_bytes(dialect, body), None)


def nativize_response(
    response: Response, dialect: str, *, policy: str = "warn", aliases: Aliases | None = None
) -> Rendered:
    """The wire body of an answer; ``aliases`` of the request's rendering map names and ids back."""
    return _nativize_response(response, dialect, policy, aliases, None)


def _nativize_response(
    response: Response, name: str, policy: str, aliases: Aliases | None, body: bytes | None
) -> Rendered:
    check_policy(policy)
    if not isinstance(response, Response):
        raise InputError(f"expected a Response, got {_kind(response)}")
    if aliases is not None:
        response = unaliased(response, aliases)
    fast = _nativize_fast(response, name, policy, body)
    if fast is not None:
        return fast
    report = Report()
    if any(type(canister.held) is TextualContentClass for canister in response.canisters):
        canisters = Conversation.trusted(map(_at_hand, response.canisters))
        response = response.replace(canisters=canisters)
    if response.source != name:
        _report_settings(response, report)
    written = find_dialect(name).write_response(response, report)
    locate = partial(_locator, response.source, body, "response")
    return _rendered(written, response, name, policy, report, locate)


def _nativize_fast(
    response: Response, name: str, policy: str, body: bytes | None
) -> Rendered | None:
    """An answer of common shape of which nothing but settings is lost; None for any other."""
    write = find_dialect(name).write_reply
    if write is None or response.source in (None, name):
        return None
    losses: tuple[Loss, ...] = ()
    residue = response.residue
    if residue is not None and residue.envelope is not None:
        if len(residue.envelope) > _LONGEST_ENVELOPE:
            return None
        losses = _lost_settings(residue.dialect, residue.envelope)
        if losses and body is not None:
            # The paths are to be those of the body.
            return None
    written = write(response)
    if written is None:
        return None
    enforce(policy, response.source, name, losses)
    return Rendered(written, losses)


@lru_cache(maxsize=1024)
def _lost_settings(dialect: str, envelope: str) -> tuple[Loss, ...]:
    """What another dialect does not say of an answer's envelope: the same for all answers that have it."""
    report = Report()
    residue = Residue(dialect, envelope=envelope)
    _report_settings(new_response(Conversation(), residue=residue), report)
    return report.losses(*_locator(dialect, None, "response"))


def unaliased(response: Response, aliases: Aliases) -> Response:
    """An answer with the names and call ids that the request used before it was repaired."""
    if aliases == NO_ALIASES:
        return response
    canisters = [unaliased_canister(canister, aliases) for canister in response.canisters]
    return response.replace(canisters=Conversation.trusted(canisters))


def _rendered(
    written: Any,
    value: Request | Response,
    name: str,
    policy: str,
    report: Report,
    find_places: Callable[[], Locate],
) -> Rendered:
    encoded = encode_body(written)
    if report.is_empty:
        return Rendered(encoded)
    locate = find_places()
    losses = report.losses(*locate)
    enforce(policy, value.source, name, losses)
    aliases = Aliases(report.names, report.ids, frozenset(report.freeform))
    return Rendered(encoded, losses, report.repairs(*locate), aliases)


def _locator(
    source: str | None, body: bytes | None, kind: str, restored: tuple[int, int] = (0, 0)
) -> Locate:
    return locator(None if source is None else find_dialect(source), body, kind, restored)


# --- translation -------------------------------------------------------------------------------


def translate(
    body: Body,
    *,
    source: str,
    target: str,
    policy: str = "warn",
    kind: str = "request",
    model: str | None = None,
    without: Collection[str] = (),
) -> Rendered:
    """A body of one dialect as a body of another, with what could not be said.

    ``model`` names the model for the target; without it the body's own stays.
    """
    if policy not in POLICIES:
        check_policy(policy)
    if model is not None and not isinstance(model, str):
        raise InputError(f"model must be text, got {_kind(model)}")
    if without:
        check_repairs(without)
    data = body if type(body) is bytes else to_bytes(source, body)
    if kind == "request":
        # With a repair switched off, the tools among the settings may have to stay as they are.
        way = None if without else _ways(source, target)
        plain = None if way is None else _translate_slices(data, way, source, target, policy, model)
        if plain is None and model is None:
            plain = _translate_line(data, source, target, policy)
            if plain is None:
                plain = _translate_plain(data, source, target)
        if plain is not None:
            return plain
        request = find_dialect(source).read_request(data, None)
        if model is not None:
            request = request.replace(model=model)
        return _nativize_request(request, target, policy, without, None, data)
    if kind == "response":
        response = find_dialect(source).read_response(data, None)
        return _nativize_response(response, target, policy, None, data)
    raise InputError(f"kind must be 'request' or 'response', got {kind!r}")


def _translate_slices(
    body: bytes, way: tuple[Any, Any], source: str, target: str, policy: str, model: str | None
) -> Rendered | None:
    """A well-behaved body on the shortest way; None for any other."""
    notes: Notes = []
    runs: Runs = ()
    if len(body) > LONG:
        body, runs = cut(body)
    sliced = way[0](body, notes)
    if sliced is None:
        return None
    if model is not None:
        sliced = msgspec.structs.replace(sliced, model=model)
    settings = None
    if sliced.settings is not None:
        settings = _settings(sliced.settings, source, target, model)
        if settings is None or not (sliced.is_ordered or settings.is_plain):
            return None
    try:
        written = way[1](sliced, None if settings is None else settings.fields, notes)
    except ODD:
        return None
    if written is None:
        return None
    if runs:
        written = mend(written, runs)
    if settings is None and not notes:
        return Rendered(written)
    losses = _noted_slices(notes, source)
    if settings is None:
        rendered = Rendered(written, losses)
    else:
        said = settings.said
        rendered = Rendered(written, said.losses + losses, said.repairs, said.aliases)
    enforce(policy, source, target, rendered.losses)
    return rendered


def _noted_slices(notes: Notes, source: str) -> tuple[Loss, ...]:
    """The losses that notes of the shortest way stand for: of settings, or of messages by their number."""
    if not notes:
        return ()
    if type(notes[0][1]) is str:
        found: tuple[Loss, ...] = _said_alike(tuple(notes), source)[0]
        return found
    return told(notes, lambda place: f"messages[{place}]")[0]


class _Settings(msgspec.Struct, frozen=True):
    """Settings as a target has them, and what it took; they are plain if the source knows them all."""

    fields: dict[str, msgspec.Raw]
    said: Rendered
    is_plain: bool


def _settings(settings: bytes, source: str, target: str, model: str | None) -> _Settings | None:
    """The settings of a request without messages as a target has them; None if they cannot be read."""
    find = _known_settings if len(settings) <= _LONGEST_SETTINGS else _known_settings.__wrapped__
    return find(settings, source, target, model)


@lru_cache(maxsize=64)
def _known_settings(
    settings: bytes, source: str, target: str, model: str | None
) -> _Settings | None:
    """The same, for settings that come with every request of a client."""
    try:
        request = find_dialect(source).read_request(settings, None)
    except DialectError:
        return None
    if model is not None:
        request = request.replace(model=model)
    locate = partial(_locator, source, settings, "request")
    writer = find_dialect(target)
    turns = (0, Turns([]))
    said = _write_request(request, writer, "allow", (), None, Report(), locate, turns=turns)
    fields = _read_fields(said.body)
    fields.popitem()
    residue = request.residue
    is_plain = residue is None or residue.envelope is None
    return _Settings(fields, said, is_plain)


@lru_cache(maxsize=64)
def _ways(source: str, target: str) -> tuple[Any, Any] | None:
    """The shortest way between two dialects: how to read, how to write; None where there is none."""
    read, write = find_dialect(source).read_slices, find_dialect(target).write_slices
    if source == target or read is None or write is None:
        return None
    return loaded(read), loaded(write)


# The plain lane of each pair of dialects: how to read, how to write; None where there is none.
_LANES: dict[tuple[str, str], tuple[Any, Any] | None] = {}


def _lane(source: str, target: str) -> tuple[Any, Any] | None:
    read, write = find_dialect(source).read_plain, find_dialect(target).write_plain
    lane = None
    if source != target and read is not None and write is not None:
        lane = loaded(read), loaded(write)
    _LANES[source, target] = lane
    return lane


def _translate_plain(body: bytes, source: str, target: str) -> Rendered | None:
    """A body of nothing but plain turns that need no repair; None for any other."""
    try:
        lane = _LANES[source, target]
    except KeyError:
        lane = _lane(source, target)
    if lane is None:
        return None
    plain = lane[0](body)
    if plain is None:
        return None
    notes: Notes = []
    written = lane[1](plain, notes)
    return None if written is None else _noted(written, notes, source, body)


def translate_lines(lines: Sequence[bytes], *, source: str, target: str) -> Rendered | None:
    """Bodies of common shape as the lines of one text; None if one of them is of another.

    The losses hold for each of the bodies. Whoever gets None translates them one by one.
    """
    read, write = find_dialect(source).read_lines, find_dialect(target).write_lines
    if read is None or write is None:
        return None
    notes: Notes = []
    try:
        written = write(read(lines), notes)
    except ODD:
        return None
    return _noted(written, notes, source, None)


def _translate_line(body: bytes, source: str, target: str, policy: str) -> Rendered | None:
    """A record of common shape that comes alone; None for any other."""
    way = _line_way(source, target)
    if way is None:
        return None
    notes: Notes = []
    request = way[0](body, notes)
    if request is None:
        return None
    try:
        written = way[1]((request,), notes)
    except ODD:
        return None
    rendered = _noted(written[:-1], notes, source, body)
    enforce(policy, source, target, rendered.losses)
    return rendered


@lru_cache(maxsize=64)
def _line_way(source: str, target: str) -> tuple[Any, Any] | None:
    """How records of one dialect are read and written in another; None where there is no such way."""
    read, write = find_dialect(source).read_line, find_dialect(target).write_lines
    return None if read is None or write is None else (loaded(read), loaded(write))


def _noted(
    written: bytes,
    notes: Notes,
    source: str | None,
    body: bytes | None,
    restored: tuple[int, int] = (0, 0),
) -> Rendered:
    """What a shortcut wrote, with what it had to say."""
    if not notes:
        return Rendered(written)
    for note in notes:
        is_named = type(note[1]) is str and note[1].isidentifier()
        # What a target insists on and nobody gave is nowhere in the body.
        if not is_named and note[0] != "CONTROL_DEFAULTED":
            return Rendered(written, *told(notes, *_locator(source, body, "request", restored)))
    return Rendered(written, *_said_alike(tuple(notes), source))


@lru_cache(maxsize=64)
def _said_alike(notes: tuple[Note, ...], source: str | None) -> Any:
    """The losses and repairs of notes that are about no message: the same for every body."""
    return told(notes, *_locator(source, None, "request"))


def _kind(value: object) -> str:
    return type(value).__name__


# --- streams -----------------------------------------------------------------------------------


def normalize_stream(chunks: Iterable[bytes], dialect: str) -> Iterator[Event]:
    """The events of a stream, whatever the split of its bytes."""
    check_chunks(chunks)
    return read_stream(chunks, find_dialect(dialect).stream_reader())


def nativize_stream(
    events: Iterable[Event], dialect: str, *, options: StreamOptions | None = None
) -> Iterator[bytes]:
    """The bytes of a stream of events."""
    return write_stream(events, find_dialect(dialect).stream_writer(options or StreamOptions()))


def translate_stream(
    chunks: Iterable[bytes],
    *,
    source: str,
    target: str,
    options: StreamOptions | None = None,
) -> Iterator[bytes]:
    """A stream of one dialect as a stream of another."""
    return nativize_stream(normalize_stream(chunks, source), target, options=options)

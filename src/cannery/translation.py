"""The use cases of translation: normalize, nativize, translate, whole and streamed."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, overload

from cannery.dialects import find_dialect
from cannery.errors import InputError
from cannery.hosting import WAYS, archived, check_way, said_answer, stream_options
from cannery.messages.content import TextualContentClass
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Request, Response
from cannery.rendering import (
    loaded,
    render,
    report_lost_settings,
    write_request,
)
from cannery.repairs.media import media_types
from cannery.wire.aliasing import unaliased_canister
from cannery.wire.bodies import encode, to_bytes
from cannery.wire.contract import Dialect, Piece, Rules, StreamOptions
from cannery.wire.losses import (
    NO_ALIASES,
    POLICIES,
    Aliases,
    Rendered,
    Report,
    check_policy,
    check_repairs,
)
from cannery.wire.places import Places
from cannery.wire.streams import read_stream, write_stream

if TYPE_CHECKING:
    from cannery.messages.events import Event

Body = Any


# --- requests ----------------------------------------------------------------------------------


def normalize_request(body: Body, dialect: str) -> Request:
    """Read the request from a wire body."""
    return find_dialect(dialect).read_request(to_bytes(dialect, body), Places())


def nativize_request(
    request: Request,
    dialect: str,
    *,
    policy: str = "warn",
    without: Collection[str] = (),
    rules: Rules | None = None,
    hosted: str = "native",
) -> Rendered:
    """Write a request as a wire body, with its losses and repairs.

    Repairs run if the target is another dialect than the request's source; ``without`` switches some of them off by
    name, and ``rules`` replaces the provider's rules for an endpoint with quirks. With ``hosted="text"``, calls of
    hosted tools that the target cannot express are written as text; otherwise they are left out with a loss.
    """
    return _nativize_request(request, dialect, policy, without, rules, None, hosted)


def nativize_read_request(
    request: Request,
    dialect: str,
    places: Places,
    *,
    policy: str = "warn",
    without: Collection[str] = (),
    rules: Rules | None = None,
    hosted: str = "native",
) -> Rendered:
    """The same for a request whose reader recorded ``places``: losses have their paths in the body."""
    return _nativize_request(request, dialect, policy, without, rules, places, hosted)


def _nativize_request(
    request: Request,
    name: str,
    policy: str,
    without: Collection[str],
    rules: Rules | None,
    places: Places | None,
    hosted: str,
) -> Rendered:
    check_policy(policy)
    check_way(hosted)
    if not isinstance(request, Request):
        raise InputError(f"expected a Request, got {_kind(request)}")
    if without:
        check_repairs(without)
    if rules is not None:
        _check("rules", rules, Rules)
    target = find_dialect(name)
    return write_request(request, target, policy, without, rules, places, hosted)


# --- responses ---------------------------------------------------------------------------------


def normalize_response(body: Body, dialect: str) -> Response:
    """Read the response from a wire body."""
    return find_dialect(dialect).read_response(to_bytes(dialect, body), Places())


def nativize_response(
    response: Response,
    dialect: str,
    *,
    policy: str = "warn",
    aliases: Aliases | None = None,
    hosted: str = "native",
) -> Rendered:
    """Write a response as a wire body; ``aliases`` of the request's rendering map names and ids back."""
    return _nativize_response(response, dialect, policy, aliases, None, hosted)


def _nativize_response(
    response: Response,
    name: str,
    policy: str,
    aliases: Aliases | None,
    places: Places | None,
    hosted: str,
) -> Rendered:
    check_policy(policy)
    check_way(hosted)
    if not isinstance(response, Response):
        raise InputError(f"expected a Response, got {_kind(response)}")
    if aliases is not None:
        _check("aliases", aliases, Aliases)
        response = unaliased(response, aliases)
    report = Report()
    if any(type(canister.held) is TextualContentClass for canister in response.canisters):
        canisters = Conversation.trusted(map(loaded, response.canisters))
        response = response.replace(canisters=canisters)
    target = find_dialect(name)
    if target.is_archive:
        pieces = archived(_pieces(response), target)
        canisters = Conversation.trusted(piece.canister for piece in pieces)
        response = response.replace(canisters=canisters)
    elif response.source != target.name:
        response = _typed(response, target, report)
        response = said_answer(response, target, report, hosted)
        report_lost_settings(response, report)
    written = target.write_response(response, report)
    if response.source is not None and "citations" in find_dialect(response.source).control_paths:
        report.place_citations("@citations")
    return render(encode(written), response, target.name, policy, report, places)


def _pieces(response: Response) -> list[Piece]:
    return [Piece(canister, index) for index, canister in enumerate(response.canisters)]


def _typed(response: Response, target: Dialect, report: Report) -> Response:
    """A response with the media types of the actual bytes."""
    pieces = _pieces(response)
    typed = media_types(pieces, target.rules, report)
    if all(one is other for one, other in zip(pieces, typed, strict=True)):
        return response
    return response.replace(canisters=Conversation.trusted(piece.canister for piece in typed))


def unaliased(response: Response, aliases: Aliases) -> Response:
    """A response with the names and call ids that the request used before repairs."""
    if aliases == NO_ALIASES:
        return response
    canisters = [unaliased_canister(canister, aliases) for canister in response.canisters]
    return response.replace(canisters=Conversation.trusted(canisters))


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
    hosted: str = "native",
) -> Rendered:
    """Translate a body of one dialect to another, and report what the target cannot express.

    ``model`` names the model for the target; without it the body's own stays. With ``hosted="text"``, calls of hosted
    tools that the target cannot express are written as text; otherwise they are left out with a loss.
    """
    if policy not in POLICIES:
        check_policy(policy)
    if hosted not in WAYS:
        check_way(hosted)
    if model is not None and not isinstance(model, str):
        raise InputError(f"model must be text, got {_kind(model)}")
    if without:
        check_repairs(without)
    if type(body) is not bytes:
        body = to_bytes(source, body)
    places = Places()
    if kind == "request":
        request = find_dialect(source).read_request(body, places)
        if model is not None:
            request = request.replace(model=model)
        return write_request(request, find_dialect(target), policy, without, None, places, hosted)
    if kind == "response":
        response = find_dialect(source).read_response(body, places)
        return _nativize_response(response, target, policy, None, places, hosted)
    raise InputError(f"kind must be 'request' or 'response', got {kind!r}")


def _check(what: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise InputError(f"{what} must be {kind.__name__}, got {_kind(value)}")


def _kind(value: object) -> str:
    return type(value).__name__


# --- streams -----------------------------------------------------------------------------------


@overload
def normalize_stream(chunks: AsyncIterable[bytes], dialect: str) -> AsyncIterator[Event]: ...
@overload
def normalize_stream(chunks: Iterable[bytes], dialect: str) -> Iterator[Event]: ...
def normalize_stream(chunks: Any, dialect: str) -> Any:
    """The events of a stream whose bytes may be split anywhere; an async iterable gives an async iterator."""
    return read_stream(chunks, find_dialect(dialect).stream_reader())


@overload
def nativize_stream(
    events: AsyncIterable[Event], dialect: str, *, options: StreamOptions | None = None
) -> AsyncIterator[bytes]: ...
@overload
def nativize_stream(
    events: Iterable[Event], dialect: str, *, options: StreamOptions | None = None
) -> Iterator[bytes]: ...
def nativize_stream(events: Any, dialect: str, *, options: StreamOptions | None = None) -> Any:
    """The bytes of a stream of events; an async iterable gives an async iterator."""
    if options is not None:
        _check("options", options, StreamOptions)
    target = find_dialect(dialect)
    given = options or StreamOptions()
    check_way(given.hosted)
    return write_stream(events, target.stream_writer(stream_options(target, given)))


@overload
def translate_stream(
    chunks: AsyncIterable[bytes], *, source: str, target: str, options: StreamOptions | None = None
) -> AsyncIterator[bytes]: ...
@overload
def translate_stream(
    chunks: Iterable[bytes], *, source: str, target: str, options: StreamOptions | None = None
) -> Iterator[bytes]: ...
def translate_stream(
    chunks: Any, *, source: str, target: str, options: StreamOptions | None = None
) -> Any:
    """Translate a stream to another dialect; an async iterable gives an async iterator."""
    return nativize_stream(normalize_stream(chunks, source), target, options=options)

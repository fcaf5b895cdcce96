"""The contract of a dialect: one frozen value of pure functions over bytes, and the rules of its provider.

A dialect reads (``normalize``) and writes (``nativize``) requests, responses and streams. Every module in
``cannery.dialects`` has one as ``DIALECT``; adding a dialect needs no other edit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from cannery.messages.canisters import AnyCanister
from cannery.messages.events import Event, Finish, PartStart
from cannery.messages.requests import Request, Response
from cannery.roles.vocabularies import OPENAI, Vocabulary
from cannery.wire.framing import Packing
from cannery.wire.hosted import NO_HOSTED, HostedTable
from cannery.wire.losses import NO_ALIASES, Aliases, Rendered, Report, TakenOver
from cannery.wire.places import ControlPaths, Places
from cannery.wire.residues import Left
from cannery.wire.service import Headers, Service
from cannery.wire.signs import Sign


class Rules(Struct, frozen=True, gc=False):
    """What a provider requires. The repairs read it, and an endpoint's quirk changes one field."""

    alternates: bool = False
    starts_with_user: bool = False
    ends_with_user: bool = False
    pairs_calls: bool = True
    # An example in a data set may end with calls, because it teaches calling.
    ends_with_calls: bool = False
    refuses_blank_text: bool = False
    # The dialect that keeps blank text beside other content, because its signatures arrive that way; "" for none.
    signs_blank_text: str = ""
    # "native": anywhere; "after_user": only between a user turn and the model's, or at the end; "behind_words": only
    # after user content or another system message, and never last; "fold": into the neighbouring user turn
    late_supervisors: str = "native"
    # "many": leading supervisors stay apart; "one": they become a single leading system message
    leading_supervisors: str = "many"
    call_id_pattern: str = r".+"
    call_id_length: int = 1_000_000
    name_pattern: str = r".+"
    name_length: int = 1_000_000
    cache_marks: int = 4
    knows_developer: bool = True
    takes_reasoning_text: bool = False


class Piece(Struct, frozen=True, gc=False, eq=False):
    """A canister to be written, with its position in the source conversation (None for a synthetic one)."""

    canister: AnyCanister
    place: int | None
    is_synthetic: bool = False


class StreamReader(Protocol):
    """Consumes bytes in any split and produces events."""

    def feed(self, chunk: bytes) -> Iterable[Event]:
        """The events completed by these bytes."""

    def close(self) -> Iterable[Event]:
        """The events completed by the end of the stream."""


class StreamWriter(Protocol):
    """Consumes events and produces bytes."""

    def write(self, event: Event) -> bytes:
        """The bytes of one event; may be empty."""

    def close(self) -> bytes:
        """The bytes that end the stream."""


class Uses(Protocol):
    """Converts the hosted tool blocks of other dialects in one stream."""

    def begin(self, identifier: Any) -> None:
        """Set the id of the response."""

    def start(self, event: PartStart) -> Sequence[Event] | None:
        """The events for a block; None if the target cannot express it."""

    @property
    def is_waiting(self) -> bool:
        """Whether a block waits for its outcome."""

    def holds(self, event: Event) -> bool:
        """Whether an event must wait for the outcome of an earlier block."""

    def unanswered(self) -> Sequence[Event]:
        """The events for blocks whose outcome never came."""

    def finish(self, event: Finish) -> Sequence[Event]:
        """The events reported beside the blocks, and those for the end of the response."""


class StreamOptions(Struct, frozen=True, gc=False):
    """What a caller asks of a stream: usage at its end, reasoning where only a vendor field can hold it.

    ``created`` is the time to write, in seconds since 1970; 0 keeps the time of the source.
    """

    include_usage: bool = False
    reasoning: bool = False
    model: str | None = None
    aliases: Aliases = NO_ALIASES
    created: int = 0
    # Handles hosted tool uses that the target cannot express; ``says`` writes the others in the target's shapes.
    hosted: str = "native"
    uses: Uses | None = None


# The model to write where the format requires one and none was given.
UNKNOWN_MODEL = "unknown"


class Route(Struct, frozen=True, gc=False):
    """One endpoint of a dialect: ``{model}`` in the path stands for the model, ``kind`` names the operation.

    ``safe`` are the characters of a model name that stay unquoted in a path.

    Kinds: ``generate``, ``stream``, ``count``, ``models``, ``model``, ``version``. Without ``{model}`` in the path,
    the body of a ``model`` request names it.
    """

    method: str
    path: str
    kind: str
    safe: str = "/:@"


class WireError(Struct, frozen=True, gc=False):
    """An error in a form that every dialect can express."""

    status: int
    message: str
    kind: str | None = None
    code: str | None = None
    parameter: str | None = None
    request_id: str | None = None


class Variant(Struct, frozen=True, gc=False):
    """Another service that uses a dialect inside its own envelope, for clients and for upstreams.

    ``routes`` replace the dialect's, below ``base``: the URL part between version and endpoint, where ``{...}`` is
    any one step. ``query`` is the query string of a URL. A body has the ``fields`` and none of the
    ``without_fields``, and no model if the path names one. ``header_fields`` are body fields that other services send
    as a header, as a list of words. ``headers`` and errors are those of the service; errors may be None to use the
    dialect's.
    """

    name: str
    routes: tuple[Route, ...]
    headers: Headers
    base: str = ""
    query: str = ""
    fields: Mapping[str, Any] = {}
    without_fields: tuple[str, ...] = ()
    header_fields: Mapping[str, str] = {}
    read_error: Callable[[int, bytes], WireError] | None = None
    write_error: Callable[[WireError], bytes] | None = None
    packing: Packing | None = None


class Dialect(Struct, frozen=True, gc=False):
    """One wire format.

    ``read_request(body, places)`` records in ``places`` where it found what it read. ``write_request(request, pieces,
    report)`` writes a body from the pieces that the repairs have arranged.
    """

    name: str
    rules: Rules
    read_request: Callable[[bytes, Places], Request]
    write_request: Callable[[Request, list[Piece], Report], Any]
    read_response: Callable[[bytes, Places], Response]
    write_response: Callable[[Response, Report], Any]
    stream_reader: Callable[[], StreamReader]
    stream_writer: Callable[[StreamOptions], StreamWriter]
    read_error: Callable[[int, bytes], WireError]
    write_error: Callable[[WireError], bytes]
    routes: tuple[Route, ...]
    # The paths of request settings, by the name of the control; the first of several paths is the usual one.
    control_paths: ControlPaths
    # Request fields and block tags that refer to data only the provider keeps, with the code of their loss.
    references: Mapping[str, str] = {}
    # Aliases that users may give instead of the name.
    short_names: tuple[str, ...] = ()
    # The request field that lists the messages ("" if they are not a list), the roles they may have, and whether each
    # message must have one.
    messages: str = "messages"
    # Whether a request may have several turns; otherwise it is a single question.
    takes_turns: bool = True
    vocabulary: Vocabulary = OPENAI
    needs_roles: bool = True
    # Other services that use it inside their own envelope.
    variants: tuple[Variant, ...] = ()
    # What the service does around bodies: headers, ids, streams, models, token counts.
    service: Service = Service()
    # Signs by which its bodies are recognised.
    signs: tuple[Sign, ...] = ()
    # Top-level request fields that reading always turns into facts of the model.
    modelled: frozenset[str] = frozenset()
    # The same for responses; None if they are the same fields.
    modelled_answer: frozenset[str] | None = None
    # Setting values, by path, that request nothing: the service's default, or a function that no other service has.
    defaults: Mapping[str, tuple[Any, ...]] = {}
    # The settings of a foreign request that it takes from the residue of the source; None if it takes none.
    takes_over: Callable[[Request, Left], TakenOver] | None = None
    # The paths of tool fields that are not at the tool's top level: below the tool, or from ``$`` below the body.
    tool_paths: Mapping[str, str] = {}
    # The spelling of hosted tools, and of tools that the provider defines and the client runs.
    hosted: HostedTable = NO_HOSTED
    # Whether a request body must name its model; otherwise the URL does.
    names_model: bool = True
    rules_for: Callable[[str | None], Rules] | None = None
    # Whether it can hold everything that any dialect expresses, so that nothing is repaired and nothing is lost.
    is_archive: bool = False
    # Repairs that cannot be switched off, because the format cannot express what they change.
    fixed_repairs: frozenset[str] = frozenset()

    def rules_of(self, model: object) -> Rules:
        """The rules for one model; a request may name none."""
        if self.rules_for is None:
            return self.rules
        return self.rules_for(model if type(model) is str else None)

    def at(self, variant: Variant | None) -> Dialect:
        """The same dialect with a variant's routes, headers and errors."""
        if variant is None:
            return self
        return replace(
            self,
            routes=variant.routes,
            service=replace(self.service, headers=variant.headers),
            read_error=variant.read_error or self.read_error,
            write_error=variant.write_error or self.write_error,
        )


__all__ = [
    "Dialect",
    "Piece",
    "Rendered",
    "Route",
    "Rules",
    "StreamOptions",
    "StreamReader",
    "StreamWriter",
    "Variant",
    "WireError",
]

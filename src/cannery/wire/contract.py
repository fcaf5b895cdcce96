"""The contract of a dialect: one frozen value of pure functions over bytes, and the rules of its provider.

A dialect reads (``normalize``) and writes (``nativize``) requests, responses and streams. Every module in
``cannery.dialects`` has one as ``DIALECT``; nothing else is edited to add one.
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
    """What a provider insists on; the repairs read it, and a quirk of an endpoint changes one field."""

    alternates: bool = False
    starts_with_user: bool = False
    ends_with_user: bool = False
    pairs_calls: bool = True
    # An example of a data set may end with calls, since calling is what it teaches.
    ends_with_calls: bool = False
    refuses_blank_text: bool = False
    # The dialect of which blank text stays if something stands beside it, since its signatures come so; "" for none.
    signs_blank_text: str = ""
    # "native": anywhere; "after_user": only between a user turn and the model's, or at the end; "behind_words": only
    # behind what a user said or another system message, and never last; "fold": into the neighbouring user turn
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
    """A canister on its way to the wire, with its position in the source conversation (None if it was made up)."""

    canister: AnyCanister
    place: int | None
    is_synthetic: bool = False


class StreamReader(Protocol):
    """Takes bytes in any split and gives events."""

    def feed(self, chunk: bytes) -> Iterable[Event]:
        """The events that these bytes complete."""

    def close(self) -> Iterable[Event]:
        """The events that the end of the stream completes."""


class StreamWriter(Protocol):
    """Takes events and gives bytes."""

    def write(self, event: Event) -> bytes:
        """The bytes of one event; may be empty."""

    def close(self) -> bytes:
        """The bytes that end the stream."""


class Uses(Protocol):
    """Takes the blocks of hosted tools of other dialects in one stream."""

    def begin(self, identifier: Any) -> None:
        """Take the id of the answer."""

    def start(self, event: PartStart) -> Sequence[Event] | None:
        """The events that a block becomes; None where nothing can be said of it."""

    @property
    def is_waiting(self) -> bool:
        """Whether a block waits for what comes of it."""

    def holds(self, event: Event) -> bool:
        """Whether an event has to wait for what comes of the block before it."""

    def unanswered(self) -> Sequence[Event]:
        """The events of what waited for an outcome that did not come."""

    def finish(self, event: Finish) -> Sequence[Event]:
        """The events of what is told beside the blocks, and the end of the answer."""


class StreamOptions(Struct, frozen=True, gc=False):
    """What a caller asked of a stream: usage at its end, reasoning where only a vendor field has room for it.

    ``created`` is the time to be said, in seconds since 1970; 0 leaves it to what the source says.
    """

    include_usage: bool = False
    reasoning: bool = False
    model: str | None = None
    aliases: Aliases = NO_ALIASES
    created: int = 0
    # What becomes of uses of hosted tools that the target cannot say, and what says the others as it does.
    hosted: str = "native"
    uses: Uses | None = None


# What a body says where it must name a model and none was given.
UNKNOWN_MODEL = "unknown"


class Route(Struct, frozen=True, gc=False):
    """One endpoint of a dialect: ``{model}`` in the path stands for the model, ``kind`` says what is asked for.

    ``safe`` are the characters of a model's name that stand in a path as they are.

    Kinds: ``generate``, ``stream``, ``count``, ``models``, ``model``, ``version``. Without ``{model}`` in the path, the
    body of a ``model`` request names it.
    """

    method: str
    path: str
    kind: str
    safe: str = "/:@"


class WireError(Struct, frozen=True, gc=False):
    """An error as any dialect can say it."""

    status: int
    message: str
    kind: str | None = None
    code: str | None = None
    parameter: str | None = None
    request_id: str | None = None


class Variant(Struct, frozen=True, gc=False):
    """Another service that speaks a dialect in an envelope of its own; clients and upstreams have the same one.

    ``routes`` stand for the dialect's, below ``base``: what a URL has between its version and the endpoint, where
    ``{...}`` is any one step. A URL asks with ``query``. A body has the ``fields`` and not the ``without_fields``, nor
    a model where the path names one. ``header_fields`` are fields of a body that say what a header says elsewhere, as
    a list of words. ``headers`` and errors are those of the service; errors may be None, for the dialect's.
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

    ``read_request(body, places)`` notes in ``places`` where it found what it read.
    ``write_request(request, pieces, report)`` gives the body of pieces that the repairs have arranged.
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
    # Where the settings of a request stand, by the name of the control; of several paths the first is the usual one.
    control_paths: ControlPaths
    # Fields of a request, and tags of blocks, that refer to what only the provider keeps, with the code of their loss.
    references: Mapping[str, str] = {}
    # Other names by which people ask for it.
    short_names: tuple[str, ...] = ()
    # The field of a request that lists its messages ("" where they are no list), the roles that they have, and whether
    # each must have one.
    messages: str = "messages"
    # Whether a request may have several turns; elsewhere it is one question.
    takes_turns: bool = True
    vocabulary: Vocabulary = OPENAI
    needs_roles: bool = True
    # Other services that speak it in an envelope of their own.
    variants: tuple[Variant, ...] = ()
    # What the service does around bodies: headers, ids, streams, models, token counts.
    service: Service = Service()
    # How its bodies are recognised.
    signs: tuple[Sign, ...] = ()
    # Top-level fields that reading turns into facts of the model, whatever their spelling.
    modelled: frozenset[str] = frozenset()
    # The same for answers; None where they are the same fields.
    modelled_answer: frozenset[str] | None = None
    # Settings that ask for nothing where they have one of these values, by their paths: what the service does anyway,
    # or what no other service does.
    defaults: Mapping[str, tuple[Any, ...]] = {}
    # Which settings of a foreign request it takes from what its reader left; None where it takes none.
    takes_over: Callable[[Request, Left], TakenOver] | None = None
    # Where fields of a tool stand, if not at its top: the path below the tool, or from ``$`` on that in the body.
    tool_paths: Mapping[str, str] = {}
    # How it spells the tools that providers run, and those that it defines and the client runs.
    hosted: HostedTable = NO_HOSTED
    # Whether a request body must name its model; elsewhere the URL does.
    names_model: bool = True
    rules_for: Callable[[str | None], Rules] | None = None
    # Whether it has room for everything that any dialect says, so that nothing is repaired and nothing is lost.
    is_archive: bool = False
    # Repairs that cannot be switched off, since the format cannot say what they change.
    fixed_repairs: frozenset[str] = frozenset()

    def rules_of(self, model: str | None) -> Rules:
        """The rules for one model."""
        return self.rules if self.rules_for is None else self.rules_for(model)

    def at(self, variant: Variant | None) -> Dialect:
        """The same dialect with what a service does around bodies: its routes, headers and errors."""
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

"""What a provider's service does around bodies, as values: its headers, replies, streams, models and token counts.

The gateway and telemetry read these from a dialect, so that they name none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from cannery.wire.framing import SSE, Framing

# The time that lists of models give for those whose age is unknown: 2026-01-01, in seconds since 1970.
MODELS_CREATED = 1_767_225_600
# What a URL of Vertex AI has before its endpoints: Gemini, partners' models and the OpenAI-like one live there.
VERTEX_BASE = "/projects/{project}/locations/{location}"


class Headers(Struct, frozen=True, gc=False):
    """The headers of a service, in lower case.

    ``key`` holds a key, or is ``bearer``; ``always`` goes with every request. ``forwarded`` are the headers of a caller
    that an upstream of the same dialect gets, ``returned`` those of an upstream that the caller gets (a name ends in
    ``*`` where only its beginning is fixed). Only clients of this service send the headers in ``tell``, and a
    ``user-agent`` that begins like one of ``agents``. ``asked`` are headers that the service wants with a body that has
    a field, by that field; each is a list of words.
    """

    key: str = "bearer"
    always: Mapping[str, str] = {}
    asked: Mapping[str, tuple[str, str]] = {}
    forwarded: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    tell: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    # A second name under which clients look for the id of a request.
    request_id: str | None = None
    # The header that names the kind of an error, and how an error is named in it.
    error_kind: str | None = None
    name_error: Callable[[Any], str] | None = None


class TokenFields(Struct, frozen=True, gc=False):
    """Where an answer counts its tokens: the field, and in it the names whose counts add up.

    A name with a dot leads into an object; without a field the counts stand in the answer itself.
    """

    field: str = "usage"
    input: tuple[str, ...] = ("prompt_tokens",)
    output: tuple[str, ...] = ("completion_tokens",)
    cache_read: tuple[str, ...] = ("prompt_tokens_details.cached_tokens",)
    cache_write: tuple[str, ...] = ()


class Replies(Struct, frozen=True, gc=False):
    """What whole answers look like: how their ids begin, the fields of which each has one, and their tokens."""

    id_prefix: str = ""
    fields: tuple[str, ...] = ()
    tokens: TokenFields = TokenFields()
    # Whether answers have fields that no request may send back.
    has_own_fields: bool = False


class Streams(Struct, frozen=True, gc=False):
    """What streams look like: their framing, and bytes of which each that came to its end has one.

    ``query`` asks for the framing in a URL; without it the service sends one JSON list. ``ping`` is for clients that do
    not pass over that of the framing. ``tells_usage`` is False where usage comes only if it is asked for.
    """

    framing: Framing = SSE
    endings: tuple[bytes, ...] = (b"",)
    query: str = ""
    ping: bytes | None = None
    tells_usage: bool = True
    # Whether a request streams that does not say.
    by_default: bool = False

    @property
    def silence(self) -> bytes:
        """What may be sent while there is nothing to say; b"" for nothing."""
        return self.framing.ping if self.ping is None else self.ping


def _describe_model(name: str, owner: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": MODELS_CREATED, "owned_by": owner}


def _list_models(listed: list[dict[str, Any]]) -> dict[str, Any]:
    return {"object": "list", "data": listed}


class Models(Struct, frozen=True, gc=False):
    """How a service tells of its models: one by name and owner, and a list of them.

    ``page`` asks for as many as it gives at once. The defaults are those of servers that copy OpenAI's.
    """

    describe: Callable[[str, str], dict[str, Any]] = _describe_model
    describe_all: Callable[[list[dict[str, Any]]], dict[str, Any]] = _list_models
    page: str = ""
    # What is told of one model that is asked for by name, where that is more than the list says.
    show: Callable[[str, str], dict[str, Any]] | None = None


class Host(Struct, frozen=True, gc=False):
    """Where a provider serves its dialects itself: the base URL, variables that hold a key, names of its models."""

    url: str
    key_variables: tuple[str, ...]
    models: tuple[str, ...]


def count_reply(tokens: int) -> dict[str, Any]:
    """A count of input tokens as most services say it."""
    return {"input_tokens": tokens}


class Continuing(Struct, frozen=True, gc=False):
    """How a request names what it goes on from, where it can.

    ``reply`` is the field with the id of the last reply, ``conversation`` the one with the name of a conversation, and
    ``thread`` that of a thread, which keeps its tools. Replies that are kept are asked for below ``endpoint``.
    ``ignored`` are fields that mean nothing to a gateway, ``unserved`` those that ask for what only the service itself
    runs, each with the sentence that refuses it.
    """

    reply: str = ""
    conversation: str = ""
    thread: str = ""
    endpoint: str = ""
    ignored: tuple[str, ...] = ()
    unserved: tuple[tuple[str, str], ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields of a request that are about this."""
        named = (self.reply, self.conversation, self.thread, *self.ignored)
        return (*filter(None, named), *(field for field, _ in self.unserved))

    @property
    def noun(self) -> str:
        """What the service calls a reply."""
        return self.reply.removeprefix("previous_").removesuffix("_id")


class Service(Struct, frozen=True, gc=False):
    """All of it, and the names that telemetry has for it."""

    # None where there is no such place, or more than one.
    host: Host | None = None
    headers: Headers = Headers()
    replies: Replies = Replies()
    streams: Streams = Streams()
    models: Models = Models()
    count: Callable[[int], dict[str, Any]] = count_reply
    # Where the request stands in a body that asks for its tokens, if it is not that body itself.
    counted: tuple[str, ...] = ()
    # The version that clients ask the service for, which say by it what they may send; None where there is none.
    version: Mapping[str, str] | None = None
    # What is answered to a request that asks nothing, such as one that only loads a model; None where there is none.
    idle: Callable[[bytes], dict[str, Any] | None] | None = None
    continuing: Continuing = Continuing()
    # The beginnings of its endpoints that are no conversation, without the version, and verbs behind a model's name.
    passed: tuple[str, ...] = ()
    passed_verbs: tuple[str, ...] = ()
    # Whether servers of this dialect live below any path, so that a base URL with a path has the version in it.
    is_anywhere: bool = False
    # The provider and the operation in OpenTelemetry's conventions; "" for the vendor in the dialect's name.
    provider: str = ""
    operation: str = "chat"

"""Values for what a provider's service does around bodies: headers, replies, streams, models and token counts.

The gateway and telemetry read these from a dialect, so that they name no dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from cannery.wire.counts import Counts
from cannery.wire.framing import SSE, Framing

# The creation time that model lists give for a model of unknown age: 2026-01-01, in seconds since 1970.
MODELS_CREATED = 1_767_225_600
# The URL part before a Vertex AI endpoint: Gemini, partner models and the OpenAI-compatible API are below it.
VERTEX_BASE = "/projects/{project}/locations/{location}"


class Headers(Struct, frozen=True, gc=False):
    """The headers of a service, in lower case.

    ``key`` is the header of the key, or ``bearer``; ``always`` is sent with every request. ``forwarded`` are the
    headers of a caller that an upstream of the same dialect gets, ``returned`` those of an upstream that the caller
    gets; a trailing ``*`` matches any end of the name. Only clients of this service send the headers in ``tell`` and
    a ``user-agent`` with a prefix in ``agents``. ``asked`` are headers that the service requires for a body with a
    certain field, by field; each is a list of words.
    """

    key: str = "bearer"
    always: Mapping[str, str] = {}
    asked: Mapping[str, tuple[str, str]] = {}
    forwarded: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    tell: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    # An additional name under which clients look for the request id.
    request_id: str | None = None
    # The header with the kind of an error, and the form of the kind in it.
    error_kind: str | None = None
    name_error: Callable[[Any], str] | None = None


class Replies(Struct, frozen=True, gc=False):
    """The shape of whole responses: id prefixes, fields of which each response has one, and token counts.

    ``usage`` is the field with the counts; without one they are at the top level of the response.
    """

    id_prefix: str = ""
    fields: tuple[str, ...] = ()
    counts: Counts | None = None
    usage: str = "usage"
    # Whether responses have fields that a request must not send back.
    has_own_fields: bool = False


class Streams(Struct, frozen=True, gc=False):
    """The shape of streams: their framing, and byte sequences of which every complete stream contains one.

    ``query`` requests the framing in a URL; without it the service sends one JSON list. ``ping`` is for clients that
    do not ignore the framing's own. ``tells_usage`` is False if usage is sent only on request.
    """

    framing: Framing = SSE
    endings: tuple[bytes, ...] = (b"",)
    query: str = ""
    ping: bytes | None = None
    tells_usage: bool = True
    # Whether a request streams by default.
    by_default: bool = False

    @property
    def silence(self) -> bytes:
        """The bytes that keep an idle stream open; b"" for none."""
        return self.framing.ping if self.ping is None else self.ping


def _describe_model(name: str, owner: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": MODELS_CREATED, "owned_by": owner}


def _list_models(listed: list[dict[str, Any]]) -> dict[str, Any]:
    return {"object": "list", "data": listed}


class Models(Struct, frozen=True, gc=False):
    """The form in which a service describes its models: one by name and owner, and a list.

    ``page`` requests the largest page. The defaults are those of servers that copy OpenAI's.
    """

    describe: Callable[[str, str], dict[str, Any]] = _describe_model
    describe_all: Callable[[list[dict[str, Any]]], dict[str, Any]] = _list_models
    page: str = ""
    # The description of a single model, if it has more fields than the list.
    show: Callable[[str, str], dict[str, Any]] | None = None


class Host(Struct, frozen=True, gc=False):
    """A provider's own service of its dialects: base URL, environment variables with a key, model names."""

    url: str
    key_variables: tuple[str, ...]
    models: tuple[str, ...]


def count_reply(tokens: int) -> dict[str, Any]:
    """A count of input tokens in the most usual form."""
    return {"input_tokens": tokens}


class Continuing(Struct, frozen=True, gc=False):
    """The fields by which a request names the conversation that it continues.

    ``reply`` is the field with the id of the last reply, ``conversation`` the one with the id of a conversation, and
    ``thread`` that of a thread, which keeps its tools. Stored replies are fetched below ``endpoint``. ``ignored`` are
    fields that mean nothing to a gateway. ``unserved`` are fields that request something only the service itself can
    run, each with its error sentence.
    """

    reply: str = ""
    conversation: str = ""
    thread: str = ""
    endpoint: str = ""
    ignored: tuple[str, ...] = ()
    unserved: tuple[tuple[str, str], ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """All request fields that concern continuation."""
        named = (self.reply, self.conversation, self.thread, *self.ignored)
        return (*filter(None, named), *(field for field, _ in self.unserved))

    @property
    def noun(self) -> str:
        """The service's word for a reply."""
        return self.reply.removeprefix("previous_").removesuffix("_id")


class Service(Struct, frozen=True, gc=False):
    """Everything above, and the service's names in telemetry."""

    # None if there is no such place, or more than one.
    host: Host | None = None
    headers: Headers = Headers()
    replies: Replies = Replies()
    streams: Streams = Streams()
    models: Models = Models()
    count: Callable[[int], dict[str, Any]] = count_reply
    # The path of the request inside the body of a token count; "" if it is that body itself.
    counted: tuple[str, ...] = ()
    # The version that clients request from the service, by which they show what they may send; None without versions.
    version: Mapping[str, str] | None = None
    # The reply to a request that asks nothing, such as one that only loads a model; None if there is no such request.
    idle: Callable[[bytes], dict[str, Any] | None] | None = None
    continuing: Continuing = Continuing()
    # Prefixes of its endpoints that are not conversations, without the version, and verbs after a model's name.
    passed: tuple[str, ...] = ()
    passed_verbs: tuple[str, ...] = ()
    # Whether servers of this dialect live below any path, so that a base URL with a path includes the version.
    is_anywhere: bool = False
    # The provider and operation in OpenTelemetry's conventions; "" for the vendor in the dialect's name.
    provider: str = ""
    operation: str = "chat"

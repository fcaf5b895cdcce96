"""The common shapes of Chat Completions, decoded straight into canisters.

msgspec refuses anything but the plain shapes (unknown keys, odd types, other roles); then ``reading`` takes the body
from the start. What is accepted here needs no residue but the form of a message's content, because writing gives the
rest back by itself. The tests hold both readers against each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from cannery.dialects.openai_chat.settings import NAME
from cannery.dialects.openai_chat.sliced import CommonSettings
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    AssistantCanisterClass,
    ResultCanisterClass,
    UserCanisterClass,
    new_assistant,
    new_invocation,
    new_user,
)
from cannery.messages.checked import maker
from cannery.messages.content import new_image
from cannery.messages.conversation import Conversation
from cannery.messages.hidden import Hidden, hidden
from cannery.messages.payload import Base64, Location
from cannery.messages.requests import (
    Controls,
    Request,
    Tool,
    new_controls,
    new_request,
    new_tool,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.messages.role import Role
from cannery.wire.bodies import encode, is_named
from cannery.wire.contract import UNKNOWN_MODEL
from cannery.wire.losses import Notes
from cannery.wire.markers import ERROR_PREFIX, read_media_label
from cannery.wire.plain import (
    SPOKEN_NAMES,
    PlainDeveloper,
    PlainRequest,
    PlainSystem,
)
from cannery.wire.received import RECEIVED

LIST = Residue(NAME, form="list")
ABSENT = Residue(NAME, form="absent")
STRING = Residue(NAME, form="string")
OLD_LIMIT = Residue(NAME, form="max_tokens")
_new_location = maker(Location)
_MODEL_UNKNOWN = ("MODEL_UNKNOWN", "model", "")
_ERROR = ERROR_PREFIX.rstrip()


class TextPart(Struct, frozen=True, gc=False, tag="text", forbid_unknown_fields=True):
    """A text part."""

    text: str


class ImageUrl(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Where an image is."""

    url: str


class ImagePart(Struct, frozen=True, gc=False, tag="image_url", forbid_unknown_fields=True):
    """An image part."""

    image_url: ImageUrl


class Function(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What a call calls."""

    name: str
    arguments: str


class Call(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A function call."""

    id: str
    type: Literal["function"]
    function: Function


class User(
    UserCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="user",
    rename=SPOKEN_NAMES,
):
    """A user message; a canister already when its content is a string."""

    held: str | list[TextPart | ImagePart]
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)


class Assistant(
    AssistantCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="assistant",
    rename=SPOKEN_NAMES,
):
    """An assistant message; a canister already when it is text without calls."""

    held: str | UnsetType | None = UNSET
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)
    tool_calls: list[Call] | UnsetType = UNSET


class ToolMessage(
    ResultCanisterClass,
    frozen=True,
    gc=False,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="role",
    tag="tool",
    rename={**SPOKEN_NAMES, "invocation_id": "tool_call_id", **hidden("_error")},
):
    """A tool message with text; a canister already."""

    held: str
    timestamp: Hidden[datetime] = field(default_factory=RECEIVED.get)
    invocation_id: str = ""
    _error: Hidden[Any] = absent


class ToolFunction(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A function that may be called."""

    name: str
    description: str | UnsetType = UNSET
    parameters: Raw | UnsetType = UNSET
    strict: bool | UnsetType = UNSET


class ToolDefinition(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A function tool."""

    type: Literal["function"]
    function: ToolFunction


class Settings(CommonSettings, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """The common fields of a request beside its messages; absent unless given."""

    tools: list[ToolDefinition] = absent  # type: ignore[assignment]
    tool_choice: Literal["auto", "none", "required"] = absent  # type: ignore[assignment]
    parallel_tool_calls: bool = absent  # type: ignore[assignment]
    seed: int = absent  # type: ignore[assignment]
    user: str = absent  # type: ignore[assignment]
    stop: Annotated[list[str], Meta(min_length=1, max_length=4)] = absent  # type: ignore[assignment]


class PlainBody(
    PlainRequest,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    kw_only=True,
    rename={"limit": "max_completion_tokens", "old_limit": "max_tokens", **hidden("system")},
):
    """A request whose messages are canisters as they are."""

    limit: int = absent  # type: ignore[assignment]
    old_limit: int = absent  # type: ignore[assignment]
    system: Hidden[str] = absent  # type: ignore[assignment]


class Body(Settings, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """A request of common shape."""

    messages: list[User | Assistant | PlainSystem | PlainDeveloper | ToolMessage]


_decode_plain = msgspec.json.Decoder(PlainBody).decode
_decode = msgspec.json.Decoder(Body).decode
ODD = (msgspec.MsgspecError, UnicodeError, RecursionError)


def read_plain(body: bytes) -> PlainRequest | None:
    """The plain request of a body; None for any other."""
    RECEIVED.set(datetime.now(UTC))
    try:
        found: Any = _decode_plain(body)
    except ODD:
        return None
    return None if found.limit is not absent and found.old_limit is not absent else found


# What Chat calls the speaker of each class of plain canister; a class is entered when it is first met.
_NAMES: dict[type, str] = {}


def _learn_names(messages: list[Any]) -> None:
    spoken = {Role.User: "user", Role.Assistant: "assistant"}
    _NAMES.update((type(canister), spoken.get(canister.role, "system")) for canister in messages)


def write_plain(plain: PlainRequest, notes: Notes) -> bytes | None:
    """The body of a plain request of another dialect; None for any other."""
    request: Any = plain
    messages = request.messages
    if not messages or type(request) is PlainBody or request.old_limit is not absent:
        return None
    names = _NAMES
    try:
        written = [{"role": names[type(said)], "content": said.held} for said in messages]
    except KeyError:
        _learn_names(messages)
        written = [{"role": names[type(said)], "content": said.held} for said in messages]
    if request.system is not absent:
        written.insert(0, {"role": "system", "content": request.system})
    model = request.model
    if not model:
        notes.append(_MODEL_UNKNOWN)
        model = UNKNOWN_MODEL
    elif written[-1]["role"] == "assistant":
        return None
    body: dict[str, Any] = {"model": model}
    limit, temperature, top_p = request.limit, request.temperature, request.top_p
    if limit is not absent:
        body["max_completion_tokens"] = limit
    if temperature is not absent:
        body["temperature"] = temperature
    if top_p is not absent:
        body["top_p"] = top_p
    if request.stream is not absent:
        body["stream"] = request.stream
    body["messages"] = written
    return encode(body)


def read_fast(body: bytes) -> Request | None:
    """The request of a body of common shape; None for any other."""
    plain: Any = read_plain(body)
    if plain is None:
        return _read_common(body)
    is_old = plain.old_limit is not absent
    limit = plain.old_limit if is_old else plain.limit
    return new_request(  # type: ignore[no-any-return]
        Conversation.trusted(plain.messages),
        plain.model,
        (),
        absent,
        new_controls(limit, plain.temperature, plain.top_p),
        plain.stream,
        OLD_LIMIT if is_old else None,
        NAME,
    )


def _read_common(body: bytes) -> Request | None:
    try:
        found = _decode(body)
    except ODD:
        return None
    canisters: list[AnyCanister] = []
    take = canisters.append
    for message in found.messages:
        kind = type(message)
        if kind is User:
            if type(message.held) is str:
                take(message)
            elif not _take_parts(message, canisters):
                return None
        elif kind is Assistant:
            if message.tool_calls is UNSET and type(message.held) is str:  # type: ignore[union-attr]
                take(message)
            elif not _take_calls(message, canisters):
                return None
        elif kind is ToolMessage:
            if message.held.startswith(_ERROR) or not message.invocation_id:  # type: ignore[union-attr]
                return None
            take(message)
        else:
            take(message)
    return make_request(found, canisters)


def _take_parts(message: Any, canisters: list[AnyCanister]) -> bool:
    parts = message.held
    when = message.timestamp
    if not parts:
        return False
    joined = False
    for part in parts:
        if type(part) is TextPart:
            if read_media_label(part.text) is not None:
                return False
            residue = LIST if len(parts) == 1 else None
            canisters.append(new_user(part.text, when, joined, residue))
        else:
            image = _image(part.image_url.url)
            if image is None:
                return False
            canisters.append(new_user(image, when, joined))
        joined = True
    return True


def _image(url: str) -> Any:
    """The image of a URL, or of a data URL in its usual spelling; None for any other."""
    if not url.startswith("data:"):
        return new_image(_new_location("url", url), "") if is_named(url) else None
    at = url.find(";base64,", 5, 64)
    mime_type = url[5:at]
    if at < 0 or not mime_type.islower() or not mime_type.replace("/", "").isalpha():
        return None
    return new_image(Base64(url[at + 8 :]), mime_type)


def _take_calls(message: Any, canisters: list[AnyCanister]) -> bool:
    calls, held, when = message.tool_calls, message.held, message.timestamp
    if not calls or calls is UNSET:
        return False
    if held is None or held is UNSET or held == "":
        residue = None if held is None else ABSENT if held is UNSET else STRING
        canisters.append(new_assistant(absent, when, False, residue))
    else:
        canisters.append(new_assistant(held, when))
    for call in calls:
        function = call.function
        if not call.id or not function.name:
            return False
        canisters.append(
            new_invocation(
                function.arguments, when, True, None, None, call.id, function.name, False
            )
        )
    return True


def make_request(found: Any, canisters: Any) -> Request | None:
    """The request of common settings around canisters; None for others."""
    limit, residue = found.max_completion_tokens, None
    if found.max_tokens is not absent:
        if limit is not absent:
            return None
        limit, residue = found.max_tokens, OLD_LIMIT
    tools: tuple[Tool, ...] = ()
    if found.tools is not absent:
        tools = tuple(_tools(found.tools))  # type: ignore[arg-type]
        if not tools or None in tools:
            return None
    choice = found.tool_choice
    return new_request(  # type: ignore[no-any-return]
        Conversation.trusted(canisters),
        found.model,
        tools,
        absent if choice is absent else new_tool_choice(choice),
        _controls(limit, found),
        found.stream,
        residue,
        NAME,
    )


def _controls(limit: Any, found: Any) -> Controls:
    parallel, seed, user, stop = found.parallel_tool_calls, found.seed, found.user, found.stop
    if parallel is seed is user is stop:
        return new_controls(limit, found.temperature, found.top_p)  # type: ignore[no-any-return]
    return new_controls(  # type: ignore[no-any-return]
        limit,
        found.temperature,
        found.top_p,
        stop=stop if stop is absent else tuple(stop),
        seed=seed,
        parallel_calls=parallel,
        user=user,
    )


def _tools(definitions: list[ToolDefinition]) -> Iterator[Tool | None]:
    for definition in definitions:
        function = definition.function
        schema = function.parameters
        # What is passed through unread may hold broken UTF-8 or halves of surrogates.
        text = absent if schema is UNSET else bytes(schema).decode("utf-8", "replace")
        if text is not absent and (text[:1] != "{" or "\ufffd" in text or "\\ud" in text.lower()):
            yield None
            return
        yield new_tool(
            function.name,
            absent if function.description is UNSET else function.description,
            text,
            absent if function.strict is UNSET else function.strict,
        )

"""The common shapes of Messages requests, decoded straight into canisters.

A block becomes a canister inside the decoder, and one walk joins those of a message. What the decoder refuses is left
to ``reading``, message by message, so that one unknown field does not make a long conversation slow. The canisters are
the same either way; the tests hold both readers against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import force_setattr
from orjson import dumps

from cannery.dialects.anthropic_messages.settings import CACHE, NAME
from cannery.dialects.anthropic_messages.shapes import (
    AnyBody,
    Assistant,
    AssistantText,
    Body,
    ImageSource,
    PartImage,
    PartText,
    RedactedThinking,
    Slices,
    Thinking,
    ToolDefinition,
    ToolResult,
    ToolUse,
    UrlSource,
    User,
    UserText,
)
from cannery.errors import MessageError
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    new_assistant,
    new_result,
    new_supervisor,
    new_user,
)
from cannery.messages.content import Origin, new_image, new_parts, new_reasoning, new_text
from cannery.messages.conversation import Conversation
from cannery.messages.json_text import write_json
from cannery.messages.payload import Base64, new_location
from cannery.messages.requests import (
    Request,
    Tool,
    new_controls,
    new_request,
    new_thinking,
    new_tool,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.wire.arguments import input_text
from cannery.wire.bodies import Object
from cannery.wire.received import RECEIVED

_LIST = Residue(NAME, form="list")
_NOT_FAILED = Residue(NAME, part='{"s":{"is_error":false}}')
_NOT_FAILED_LIST = Residue(NAME, part=_NOT_FAILED.part, form="list")
_CUSTOM = Residue(NAME, part='{"s":{"type":"custom"}}')
_UNCITED = Residue(NAME, part='{"s":{"citations":null}}')
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


class OddError(ValueError):
    """Only the general reader takes this."""


# What a body, or a message of it, is refused with when its shape is not common.
ODD = (OddError, MessageError, msgspec.MsgspecError, UnicodeError, RecursionError)
decode_any = msgspec.json.Decoder().decode
_decode = msgspec.json.Decoder(Body).decode
_decode_any_body = msgspec.json.Decoder(AnyBody).decode
_decode_message = msgspec.json.Decoder(User | Assistant).decode
_decode_slices = msgspec.json.Decoder(Slices).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode


def read_fast(body: bytes) -> Request | None:
    """The request of a body of common shape; None for any other."""
    RECEIVED.set(datetime.now(UTC))
    canisters: list[AnyCanister] = []
    try:
        found: Any = _decode(body)
        if found.system is not absent:
            _take_system(found.system, canisters)
        origin = Origin(NAME, None if found.model is absent else found.model)
        _take(found.messages, canisters, origin)
        return make_request(found, canisters)
    except ODD:
        return None


def split_body(body: bytes) -> tuple[Object, list[Raw]] | None:
    """The fields of a body and its messages, which are not decoded; None if there are none."""
    fields = _decode_fields(body)
    messages = fields.pop("messages", None)
    if messages is None:
        return None
    return {key: decode_any(literal) for key, literal in fields.items()}, _decode_list(messages)


def take_message(literal: Raw, canisters: list[AnyCanister], origin: Origin) -> None:
    """Add the canisters of a message; one of ``ODD`` for any but the common shapes."""
    message = _decode_message(literal)
    if type(message.held) is str:
        canisters.append(message)
    else:
        _take((message,), canisters, origin)


def _take(messages: Iterable[Any], canisters: list[AnyCanister], origin: Origin) -> None:
    """Add the canisters of messages; what agents do all day, one call and its result, without another Python call."""
    take = canisters.append
    for message in messages:
        held = message.held
        if type(held) is str:
            take(message)
            continue
        if len(held) == 1:
            block = held[0]
            kind = type(block)
            if kind is ToolResult:
                if (
                    type(block.held) is str
                    and block.cache_control is UNSET
                    and block._error is not False  # noqa: SLF001 - a property would cost a call
                    and block.invocation_id
                ):
                    take(block)
                    continue
            elif (
                kind is ToolUse and block.cache_control is UNSET and block.identifier and block.name
            ):
                take(new_assistant(absent, block.timestamp))
                text = str(block.held, "utf-8")
                if text[0] != "{" or text[1] <= " " or text[:3] == '{"_':
                    text = argument_text(block.held)
                force_setattr(block, "held", text)
                take(block)
                continue
        if type(message) is User:
            _take_user(held, canisters)
        else:
            _take_assistant(held, canisters, origin)


def _take_system(system: Any, canisters: list[AnyCanister]) -> None:
    if type(system) is str:
        canisters.append(new_supervisor(system, RECEIVED.get(), False, None, None, "system"))
        return
    if not system:
        raise OddError
    is_joined = False
    for block in system:
        if block.cache_control is not UNSET:
            _mark(block)
        elif len(system) == 1:
            force_setattr(block, "residue", _LIST)
        if is_joined:
            force_setattr(block, "joined", True)
        canisters.append(block)
        is_joined = True


def _take_user(blocks: list[Any], canisters: list[AnyCanister]) -> None:
    if not blocks:
        raise OddError
    is_joined = False
    for block in blocks:
        kind = type(block)
        if kind is ToolResult:
            held = block.held
            if not block.invocation_id:
                raise OddError
            failed = block._error  # noqa: SLF001 - a property would cost a call
            if type(held) is not str or block.cache_control is not UNSET or failed is False:
                canisters.append(_result(block, held, joined=is_joined))
            else:
                if is_joined:
                    force_setattr(block, "joined", True)
                canisters.append(block)
        elif kind is UserText:
            if block.cache_control is not UNSET:
                _mark(block)
            elif len(blocks) == 1:
                force_setattr(block, "residue", _LIST)
            if is_joined:
                force_setattr(block, "joined", True)
            canisters.append(block)
        else:
            residue = None if block.cache_control is UNSET else _marked(bytes(block.cache_control))
            image = _image(block.source)
            canisters.append(new_user(image, RECEIVED.get(), is_joined, residue))
        is_joined = True


def _take_assistant(blocks: list[Any], canisters: list[AnyCanister], origin: Origin) -> None:
    if not blocks:
        raise OddError
    is_joined = False
    for block in blocks:
        kind = type(block)
        if kind is ToolUse:
            if not is_joined:
                canisters.append(new_assistant(absent, block.timestamp))
            if not (block.identifier and block.name):
                raise OddError
            if block.cache_control is not UNSET:
                _mark(block)
            force_setattr(block, "held", argument_text(block.held))
            canisters.append(block)
        elif kind is AssistantText:
            if block.cache_control is not UNSET or block.citations is None:
                _mark_text(block)
            elif len(blocks) == 1:
                force_setattr(block, "residue", _LIST)
            if is_joined:
                force_setattr(block, "joined", True)
            canisters.append(block)
        else:
            thought = _thought(block, origin)
            canisters.append(new_assistant(thought, RECEIVED.get(), is_joined))
        is_joined = True


def _mark_text(block: AssistantText) -> None:
    if block.cache_control is UNSET:
        force_setattr(block, "residue", _UNCITED)
    elif block.citations is UNSET:
        _mark(block)
    else:
        raise OddError


def _thought(block: Thinking | RedactedThinking, origin: Origin) -> Any:
    if type(block) is RedactedThinking:
        if not block.data:
            raise OddError
        return new_reasoning((), (), None, block.data, origin)
    signature = block.signature  # type: ignore[union-attr]
    if signature == "":
        raise OddError
    texts = (block.thinking,) if block.thinking else ()  # type: ignore[union-attr]
    return new_reasoning(texts, (), None if signature is UNSET else signature, None, origin)


def _result(block: ToolResult, held: Any, *, joined: bool) -> Any:
    """A result that is marked, in parts, or said not to have failed."""
    form = None
    if type(held) is list:
        if not held:
            raise OddError
        if len(held) == 1:
            held, form = _part(held[0]), "list"
        else:
            parts = map(_part, held)
            held = new_parts(tuple(new_text(part) if type(part) is str else part for part in parts))
    residue = None if form is None else _LIST
    error: Any = block._error  # noqa: SLF001 - of the same shape
    if error is False:
        if block.cache_control is not UNSET:
            raise OddError
        error, residue = absent, _NOT_FAILED if form is None else _NOT_FAILED_LIST
    elif block.cache_control is not UNSET:
        residue = _marked(bytes(block.cache_control), form)
    own = (block.invocation_id, error)
    return new_result(held, block.timestamp, joined, residue, None, *own)


def _part(part: PartText | PartImage) -> Any:
    return part.text if type(part) is PartText else _image(part.source)  # type: ignore[union-attr]


def _image(source: ImageSource | UrlSource) -> Any:
    if type(source) is ImageSource:
        return new_image(Base64(source.data), source.media_type)
    place = source.url  # type: ignore[union-attr]
    if not place.strip():
        raise OddError
    return new_image(new_location("url", place), "")


def argument_text(literal: Raw) -> str:
    """The argument text of an input: as the body spells it, without the object that wraps what is none."""
    text: str = str(literal, "utf-8")
    if text[0] != "{":
        raise OddError
    if text[1] <= " " or text[:3] == '{"_':
        return _unwrapped(text)
    return text


def argument_texts(literal: Raw, index: int) -> Iterator[tuple[str, str]]:
    """The path and the argument text of each call in a message."""
    try:
        blocks = _decode_slices(literal).content
    except ODD:
        return
    for place, block in enumerate(blocks):
        if block.input is not UNSET and bytes(block.input)[:1] == b"{":
            yield f"messages[{index}].content[{place}]", argument_text(block.input)


def _unwrapped(text: str) -> str:
    value = decode_any(text)
    unwrapped = input_text(value)
    return text if unwrapped == write_json(value) else unwrapped


def _json(value: Object) -> str:
    """What ``write_json`` gives, sooner."""
    try:
        spelled = dumps(value)
    except TypeError:
        return write_json(value)
    # Great powers of ten are all that both libraries spell differently.
    if b"+" in spelled and b"e+" in spelled:
        return write_json(value)
    return spelled.decode()


def _mark(block: Any) -> None:
    """Turn the cache mark of a block into its residue; what the body held is let go."""
    force_setattr(block, "residue", _marked(bytes(block.cache_control)))
    force_setattr(block, "cache_control", UNSET)


@lru_cache(maxsize=64)
def _marked(literal: bytes, form: str | None = None) -> Residue:
    """The residue of a block with a cache mark."""
    mark = decode_any(literal)
    cache = CACHE.get(str(mark.get("ttl")), "short") if type(mark) is dict else None
    return Residue(NAME, part=write_json({"s": {"cache_control": mark}}), form=form, cache=cache)


def read_paths(body: bytes) -> list[str] | None:
    """Where each canister of a body stands; None if only the general reader knows."""
    try:
        found: Any = _decode_any_body(body)
    except ODD:
        return None
    paths: list[str] = []
    if type(found.system) is str:
        paths.append("system")
    elif found.system is not None:
        paths += [f"system[{index}]" for index in range(len(found.system))]
    for index, message in enumerate(found.messages):
        content = message.content
        if type(content) is str or not content:
            paths.append(f"messages[{index}].content")
            continue
        if message.role == "assistant" and content[0].type == "tool_use":
            paths.append(f"messages[{index}]")
        paths += [f"messages[{index}].content[{place}]" for place in range(len(content))]
    return paths


# --- settings ----------------------------------------------------------------------------------


def make_request(found: Any, canisters: Iterable[AnyCanister]) -> Request:
    """The request of common settings around canisters; one of ``ODD`` for any other."""
    choice, parallel = (absent, absent) if found.tool_choice is absent else _choice(found)
    return new_request(  # type: ignore[no-any-return]
        Conversation.trusted(canisters),
        found.model,
        () if found.tools is absent else _tools(found.tools),
        choice,
        _controls(found, parallel),
        found.stream,
        None,
        NAME,
    )


def _controls(found: Any, parallel: Any) -> Any:
    common = (found.max_tokens, found.temperature, found.top_p)
    stop, metadata = found.stop_sequences, found.metadata
    is_thinking = found.thinking is not absent or found.output_config is not absent
    if not is_thinking and stop is metadata is parallel is found.top_k:
        return new_controls(*common)
    if stop is not absent and not stop:
        raise OddError
    return new_controls(
        *common,
        top_k=found.top_k,
        stop=absent if stop is absent else tuple(stop),
        parallel_calls=parallel,
        thinking=_thinking(found) if is_thinking else absent,
        user=absent if metadata is absent else metadata.user_id,
    )


def _thinking(found: Any) -> Any:
    effort = absent if found.output_config is absent else found.output_config.effort
    thought = found.thinking
    if thought is absent:
        return new_thinking(effort=effort)
    kind, budget, display = thought.type, thought.budget_tokens, thought.display
    if (budget is not absent and kind != "enabled") or (
        display is not absent and kind == "disabled"
    ):
        raise OddError
    return new_thinking(kind != "disabled", effort, budget, display, kind == "adaptive")


def _choice(found: Any) -> tuple[Any, Any]:
    """The tool choice, and whether calls may be parallel."""
    choice = found.tool_choice
    single = choice.disable_parallel_tool_use
    parallel = absent if single is absent else not single
    if choice.type == "tool":
        if not choice.name:
            raise OddError
        return new_tool_choice("named", (choice.name,)), parallel
    if choice.name is not UNSET or (choice.type == "none" and parallel is not absent):
        raise OddError
    return new_tool_choice(_CHOICES[choice.type]), parallel


def _tools(definitions: list[ToolDefinition]) -> tuple[Tool, ...]:
    if not definitions:
        raise OddError
    return tuple(map(_tool, definitions))


def _tool(definition: ToolDefinition) -> Tool:
    residue = None
    if definition.cache_control is not UNSET:
        if definition.type is not UNSET:
            raise OddError
        residue = _marked(bytes(definition.cache_control))
    elif definition.type is not UNSET:
        residue = _CUSTOM
    schema = _json(definition.input_schema)
    name, description, strict = definition.name, definition.description, definition.strict
    return new_tool(name, description, schema, strict, residue=residue)  # type: ignore[no-any-return]

"""The common shapes of Messages answers, read and written without the general way's detours.

Text and calls are common, each block with its usual fields and whatever else as residue. Anything else is left to
``responses``. The tests hold both ways against each other.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.anthropic_messages.responses import (
    read_finish,
    read_usage,
    stop_word,
    write_envelope,
    write_usage,
)
from cannery.dialects.anthropic_messages.responses import read_response as read_any
from cannery.dialects.anthropic_messages.settings import NAME
from cannery.errors import MessageError
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister, new_assistant, new_invocation
from cannery.messages.checked import now
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Response, Usage, new_response
from cannery.messages.residue import Residue
from cannery.wire.answers import encode_patch, said_and_called
from cannery.wire.arguments import input_text
from cannery.wire.bodies import Object, encode, read_object
from cannery.wire.controls import text
from cannery.wire.delta import delta
from cannery.wire.endings import is_plain_end

_TEXT = frozenset({"type", "text"})
_CALL = frozenset({"type", "id", "name", "input"})
_NO_USAGE = write_usage(Usage())


def read_response(body: bytes, paths: list[str] | None = None) -> Response:
    """The answer that a body gives."""
    if paths is None:
        try:
            response = _read(read_object(NAME, body))
        except (MessageError, RecursionError):
            response = None
        if response is not None:
            return response
    return read_any(body, paths)


def _read(body: Object) -> Response | None:
    """The answer of a body of common shape; None for any other."""
    content, identifier, model = body.get("content"), body.get("id"), body.get("model")
    if type(content) is not list or type(identifier) is not str or type(model) is not str:
        return None
    canisters = _canisters(content)
    if canisters is None:
        return None
    facts = (
        Conversation.trusted(canisters),
        read_finish(body.get("stop_reason")),
        read_usage(body.get("usage")),
        model,
        identifier,
        text(body.get("stop_sequence")),
    )
    response: Response = new_response(*facts, None, NAME)
    rest = {key: item for key, item in body.items() if key != "content"}
    patch = delta(write_envelope(response), rest)
    if patch is None:
        return response
    return new_response(*facts, Residue(NAME, envelope=encode_patch(patch)), NAME)  # type: ignore[no-any-return]


def _canisters(content: list[Any]) -> list[AnyCanister] | None:
    """What blocks say, if all of them are text and calls."""
    when = now()
    canisters: list[AnyCanister] = []
    for block in content:
        if type(block) is not dict:
            return None
        kind, said = block.get("type"), block.get("text")
        if kind == "text" and type(said) is str:
            residue = None
            if len(block) > len(_TEXT):
                if block.get("citations") is not None or "cache_control" in block:
                    return None
                residue = _residue(block, _TEXT)
            canisters.append(new_assistant(said, when, bool(canisters), residue))
        elif kind == "tool_use":
            call = _call(block, when)
            if call is None:
                return None
            if not canisters:
                canisters.append(new_assistant(absent, when))
            canisters.append(call)
        else:
            return None
    return canisters


def _call(block: Object, when: Any) -> AnyCanister | None:
    identifier, name, value = block.get("id"), block.get("name"), block.get("input")
    if type(identifier) is not str or type(name) is not str or type(value) is not dict:
        return None
    if not identifier or "cache_control" in block:
        return None
    residue = None if len(block) == len(_CALL) else _residue(block, _CALL)
    own = (identifier, name, False)
    return new_invocation(input_text(value), when, True, residue, None, *own)  # type: ignore[no-any-return]


def _residue(block: Object, usual: frozenset[str]) -> Residue:
    """What a block says beside its usual fields."""
    rest = {key: item for key, item in block.items() if key not in usual}
    return Residue(NAME, part=encode_patch({"s": rest}))


def write_reply(response: Response) -> bytes | None:
    """The body of another dialect's answer of common shape; None for any other."""
    if not is_plain_end(response):
        return None
    found = said_and_called(response.canisters, NAME)
    if found is None:
        return None
    items, has_calls = found
    body = write_envelope(response)
    body["stop_reason"] = stop_word(body["stop_reason"], has_calls=has_calls, is_refused=False)
    if "usage" not in body:
        body["usage"] = _NO_USAGE
    body["content"] = [_block(item) for item in items]
    return encode(body)


def _block(item: Any) -> Object:
    if type(item) is str:
        return {"type": "text", "text": item}
    call, arguments = item
    return {"type": "tool_use", "id": call.identifier, "name": call.name, "input": arguments}

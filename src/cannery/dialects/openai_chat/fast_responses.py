"""The common shapes of Chat answers, read and written without the general way's detours.

Reading goes once over the keys of a body. What the model does not have becomes the same patch that comparing a written
answer with the body gives, because for these shapes it is known beforehand what would be written. One choice with
text or function calls is common; anything else is left to ``responses``. The tests hold both ways against each other.
"""

from __future__ import annotations

from typing import Any

from cannery.dialects.openai_chat.responses import (
    FINISH_WORDS,
    finish_word,
    read_finish,
    read_usage,
    write_usage,
)
from cannery.dialects.openai_chat.responses import read_response as read_any
from cannery.dialects.openai_chat.settings import NAME
from cannery.messages.absence import absent
from cannery.messages.canisters import AnyCanister, new_assistant, new_invocation
from cannery.messages.checked import now
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Response, Usage, new_response
from cannery.messages.residue import Residue
from cannery.wire.answers import encode_patch, said_and_called
from cannery.wire.bodies import Object, encode, read_object
from cannery.wire.controls import integer
from cannery.wire.delta import delta, ordered
from cannery.wire.endings import is_plain_end

_KIND = "chat.completion"
# Beyond this a string that differs is patched in place, which is the general way's business.
_SHORT = 64
_COUNTS = 3
_USUAL = frozenset({"id", "object", "created", "model", "choices", "usage"})
_LOGPROBS = frozenset({"logprobs"})
_USUAL_CHOICE = frozenset({"index", "message", "finish_reason", "logprobs"})
_NO_LOGPROBS = Residue(NAME, envelope='{"d":{"choices":{"i":{"0":{"x":["logprobs"]}}}}}')
# What an assistant message may say that is more than text and calls, if it is not null or empty.
_MORE = frozenset(
    {"reasoning_content", "reasoning", "refusal", "audio", "annotations", "function_call"}
)


def read_response(body: bytes, paths: list[str] | None = None) -> Response:
    """The answer that a body gives."""
    if paths is None:
        response = _read(read_object(NAME, body))
        if response is not None:
            return response
    return read_any(body, paths)


def _read(body: Object) -> Response | None:
    """The answer of a body of common shape; None for any other."""
    identifier, model, choices = body.get("id"), body.get("model"), body.get("choices")
    if type(choices) is not list or len(choices) != 1 or type(choices[0]) is not dict:
        return None
    if type(identifier) is not str or type(model) is not str:
        return None
    choice = choices[0]
    canisters = _canisters(choice.get("message"))
    if canisters is None:
        return None
    finish = read_finish(choice.get("finish_reason"))
    usage = read_usage(body.get("usage"))
    residue: Residue | None = None
    if not _is_usual(body, choice, finish, usage):
        patch = _patch(body, choice, finish, usage)
        if patch is None:
            return None
        residue = Residue(NAME, envelope=encode_patch(patch)) if patch else None
    elif "logprobs" not in choice:
        residue = _NO_LOGPROBS
    return new_response(  # type: ignore[no-any-return]
        Conversation.trusted(canisters),
        finish,
        usage,
        model,
        identifier,
        absent,
        residue,
        NAME,
        integer(body.get("created")),
    )


def _canisters(message: Any) -> list[AnyCanister] | None:
    """What an assistant message says, if it says it in the common way."""
    if type(message) is not dict or message.get("role") != "assistant":
        return None
    content, calls = message.get("content", absent), message.get("tool_calls")
    extra: Object = {}
    # No request has annotations: they stay with the answer.
    apart = {"role", "content", "annotations", *(("tool_calls",) if calls else ())}
    for key, item in message.items():
        if key in _MORE and item is not None and item != []:
            return None
        if key not in apart:
            extra[key] = item
    if calls is not None and type(calls) is not list:
        return None
    form: str | None = None
    held: Any = content
    if content is None or content is absent or (content == "" and calls):
        held = absent
        form = None if content is None else "absent" if content is absent else "string"
    elif type(content) is not str:
        return None
    residue = None
    if extra or form is not None:
        envelope = encode_patch({"s": extra}) if extra else None
        residue = Residue(NAME, envelope=envelope, form=form)
    when = now()
    canisters: list[AnyCanister] = [new_assistant(held, when, False, residue)]
    for call in calls or ():
        canister = _call(call, when)
        if canister is None:
            return None
        canisters.append(canister)
    return canisters


def _call(call: Any, when: Any) -> AnyCanister | None:
    """A function call that has exactly the usual fields."""
    if type(call) is not dict or len(call) != 3 or call.get("type") != "function":
        return None
    function, identifier = call.get("function"), call.get("id")
    if type(function) is not dict or len(function) != 2:
        return None
    if type(identifier) is not str or not identifier:
        return None
    name, arguments = function.get("name"), function.get("arguments")
    if type(name) is not str or type(arguments) is not str:
        return None
    return new_invocation(arguments, when, True, None, None, identifier, name, False)  # type: ignore[no-any-return]


def _is_usual(body: Object, choice: Object, finish: Any, usage: Any) -> bool:
    """Whether a body would be written as it is, but for the log probabilities that may not be there."""
    return (
        body.keys() == _USUAL
        and body["object"] == _KIND
        and type(body["created"]) is int
        and usage is not absent
        and choice.keys() | _LOGPROBS == _USUAL_CHOICE
        and choice.get("logprobs") is None
        and type(choice["index"]) is int
        and choice["index"] == 0
        and finish is not absent
        and FINISH_WORDS[finish] == choice["finish_reason"]
        and _usage_patch(body["usage"], usage) is None
        # Annotations stay with the answer, so that its residue has them.
        and "annotations" not in choice["message"]
    )


def _patch(body: Object, choice: Object, finish: Any, usage: Any) -> Object | None:
    """The patch from what would be written to the body; None if it takes more than a look at each field."""
    patch: Object = {}
    for key, item in body.items():
        if key in ("id", "model") or (key == "created" and type(item) is int):
            continue
        if key == "choices":
            inner = _choice_patch(choice, finish)
            if inner is None:
                return None
            if inner:
                patch.setdefault("d", {})[key] = {"i": {"0": inner}}
        elif key == "usage" and usage is not absent:
            counted = _usage_patch(item, usage)
            if counted is not None:
                patch.setdefault("d", {})[key] = counted
        elif key == "object" and type(item) is str:
            if len(item) > _SHORT:
                return None
            if item != _KIND:
                patch.setdefault("s", {})[key] = item
        else:
            patch.setdefault("s", {})[key] = item
    dropped = [key for key in ("object", "created") if key not in body]
    if dropped:
        patch["x"] = dropped
    return ordered(patch)


def _choice_patch(choice: Object, finish: Any) -> Object | None:
    patch: Object = {}
    for key, item in choice.items():
        if key == "message":
            if "annotations" in item:
                patch["d"] = {key: {"s": {"annotations": item["annotations"]}}}
            continue
        if key == "logprobs" and item is None:
            continue
        if key == "index" and type(item) is int and item == 0:
            continue
        if key == "finish_reason" and type(item) is str:
            if item == ("stop" if finish is absent else FINISH_WORDS[finish]):
                continue
            if len(item) > _SHORT:
                return None
        patch.setdefault("s", {})[key] = item
    dropped = [key for key in ("index", "logprobs", "finish_reason") if key not in choice]
    if dropped:
        patch["x"] = dropped
    return ordered(patch)


def _usage_patch(counted: Object, usage: Usage) -> Object | None:
    """The patch of usage; None for nothing but the three counts, the third being their sum."""
    if len(counted) == _COUNTS:
        given, total = counted.get("completion_tokens"), counted.get("total_tokens")
        if type(given) is int and type(total) is int and usage.total == total:
            return None
    return delta(write_usage(usage), counted)


def write_reply(response: Response) -> bytes | None:
    """The body of another dialect's answer of common shape; None for any other."""
    if not is_plain_end(response):
        return None
    found = said_and_called(response.canisters, NAME)
    if found is None or not found[0]:
        return None
    items, has_calls = found
    if has_calls:
        are_calls = [type(item) is tuple for item in items]
        if are_calls != sorted(are_calls):
            return None
    said = "".join([item for item in items if type(item) is str])
    message: Object = {"role": "assistant", "content": said or None}
    if has_calls:
        message["tool_calls"] = [_written_call(item[0]) for item in items if type(item) is tuple]
    message["refusal"] = None
    message["annotations"] = []
    word = finish_word(response.finish, has_calls=has_calls)
    body: Object = {
        "id": "chatcmpl-cannery" if response.identifier is absent else response.identifier,
        "object": _KIND,
        "created": 0 if response.created is absent else response.created,
        "model": "" if response.model is absent else response.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": word}],
    }
    if response.usage is not absent:
        body["usage"] = write_usage(response.usage)
    return encode(body)


def _written_call(call: Any) -> Object:
    arguments = call.held
    if not arguments.strip():
        arguments = "{}"
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.identifier, "type": "function", "function": function}

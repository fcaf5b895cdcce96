"""Contents of common shape, read without comparing what was said with what would be written.

Texts, calls and their results with nothing beside them but a signature, in the usual spelling: a decoder that knows
nothing else tells them from all others, body by body or content by content. Anything else is left to ``reading``, and
the tests hold both against each other.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cannery.dialects.gemini_generate.spelling import NAME, Object, write_form
from cannery.messages.absence import absent
from cannery.messages.canisters import (
    AnyCanister,
    new_assistant,
    new_invocation,
    new_result,
    new_user,
)
from cannery.messages.json_text import write_json
from cannery.messages.residue import Residue
from cannery.wire.arguments import RAW_ARGUMENTS
from cannery.wire.residues import patch_text
from cannery.wire.slices import UnusualError

_MADE = {"functionCall": {"id": "", "name": "", "args": {}}}
_NAMED = {"functionResponse": {"id": "", "name": "", "response": {}}}
_SETTINGS = (b'"generationConfig":', b'"tools":', b'"toolConfig":')
_EMPTY = Raw()


class Call(Struct, gc=False, forbid_unknown_fields=True):
    """A call of a function."""

    name: str
    args: dict[str, Any]
    id: str | UnsetType = UNSET


class Output(Struct, gc=False, forbid_unknown_fields=True):
    """What a function answered in words."""

    output: str


class Result(Struct, gc=False, forbid_unknown_fields=True):
    """The result of a call."""

    name: str
    response: Output
    id: str | UnsetType = UNSET


class Part(
    Struct,
    gc=False,
    forbid_unknown_fields=True,
    rename={
        "call": "functionCall",
        "result": "functionResponse",
        "signature": "thoughtSignature",
    },
):
    """A part that holds one of these; texts and calls may be signed."""

    text: str | UnsetType = UNSET
    call: Call | UnsetType = UNSET
    result: Result | UnsetType = UNSET
    signature: str | UnsetType = UNSET


class Content(Struct, gc=False, forbid_unknown_fields=True):
    """A content of such parts."""

    role: Literal["user", "model"]
    parts: list[Part]


class Words(Struct, gc=False, forbid_unknown_fields=True):
    """A part that is nothing but text."""

    text: str


class System(Struct, gc=False, forbid_unknown_fields=True):
    """A system instruction of nothing but texts."""

    parts: list[Words]


class Body(
    Struct,
    gc=False,
    forbid_unknown_fields=True,
    rename={
        "system": "systemInstruction",
        "config": "generationConfig",
        "choice": "toolConfig",
    },
):
    """A request of such contents; its settings are not read."""

    contents: list[Content]
    system: System | UnsetType = UNSET
    config: Raw = _EMPTY
    tools: Raw = _EMPTY
    choice: Raw = _EMPTY

    @property
    def settings(self) -> bytes:
        """The settings as a body of their own."""
        fields = zip(_SETTINGS, (self.config, self.tools, self.choice), strict=True)
        return b"{%b}" % b",".join([key + bytes(raw) for key, raw in fields if raw is not _EMPTY])


_decode = msgspec.json.Decoder(Body).decode


def usual_body(body: bytes) -> Body | None:
    """A body whose contents are all of common shape; None for any other."""
    try:
        return _decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def usual_system(value: Any) -> list[str] | None:
    """The texts of a system instruction that has nothing but texts; None for any other."""
    if type(value) is System:
        if not value.parts:
            raise UnusualError
        return [part.text for part in value.parts]
    try:
        return [part.text for part in msgspec.convert(value, System).parts]
    except msgspec.ValidationError:
        return None


def usual_content(content: Any, when: datetime, calls: set[str]) -> list[AnyCanister] | None:
    """The canisters of a content of common shape; None for any other.

    A call or result that has no id gets the empty one here; one that has answers one of the ``calls``.
    """
    if type(content) is Content:
        found = _canisters(content, when, calls)
        if found is None:
            raise UnusualError
        return found
    try:
        return _canisters(msgspec.convert(content, Content), when, calls)
    except msgspec.ValidationError:
        return None


def _canisters(content: Content, when: datetime, calls: set[str]) -> list[AnyCanister] | None:
    is_user = content.role == "user"
    say = new_user if is_user else new_assistant
    found: list[Any] = []
    for part in content.parts:
        words, call, result = part.text, part.call, part.result
        if call is UNSET is result and words is not UNSET:
            residue = None if part.signature is UNSET else _signed(part.signature)
            found.append(say(words, when, bool(found), residue))
            continue
        if words is not UNSET or (call is not UNSET) is (result is not UNSET):
            return None
        if is_user:
            canister = None
            if result is UNSET or part.signature is not UNSET:
                return None
            if result.id is UNSET or result.id in calls:
                canister = _result(result, when, joined=bool(found))
        else:
            canister = None if call is UNSET else _call(call, part.signature, when)
            if not found:
                found.append(new_assistant(absent, when))
        if canister is None:
            return None
        found.append(canister)
    return found or None


def usual_ids(content: Content) -> set[str]:
    """The ids of the calls and results of a content."""
    held = [inner for part in content.parts for inner in (part.call, part.result)]
    return {inner.id for inner in held if inner is not UNSET and inner.id is not UNSET}


def _call(call: Call, signature: str | UnsetType, when: datetime) -> AnyCanister | None:
    identifier = call.id
    if not call.name or identifier == "" or RAW_ARGUMENTS in call.args:
        return None
    is_made = identifier is UNSET
    own = ("" if is_made else identifier, call.name, False)
    residue = _idless_call() if is_made else None
    if signature is not UNSET:
        residue = _signed(signature, residue)
    return new_invocation(write_json(call.args), when, True, residue, None, *own)  # type: ignore[no-any-return]


def _result(result: Result, when: datetime, *, joined: bool) -> AnyCanister | None:
    identifier, words = result.id, result.response.output
    if words.lstrip()[:1] in ("{", "["):
        return None
    is_found = identifier is UNSET
    residue = _result_residue(result.name, not is_found)
    own = ("" if is_found else identifier, absent)
    return new_result(words, when, joined, residue, None, *own)  # type: ignore[no-any-return]


def _signed(signature: str, more: Residue | None = None) -> Residue:
    """What a signature leaves behind, and what else there is."""
    added = f'"s":{{"thoughtSignature":{write_json(signature)}}}}}'
    if more is None or more.part is None:
        return Residue(NAME, part="{" + added)
    return Residue(NAME, part=f"{more.part[:-1]},{added}")


@lru_cache(maxsize=1)
def _idless_call() -> Residue:
    """What a call without an id leaves behind."""
    return Residue(NAME, part=patch_text(_MADE, _without_id(_MADE)))


@lru_cache(maxsize=256)
def _result_residue(name: str, has_id: bool) -> Residue:  # noqa: FBT001 - the key of a cache
    """What a result leaves behind: the name that it came under, and that it had no id."""
    part = None if has_id else patch_text(_NAMED, _without_id(_NAMED))
    return Residue(NAME, part=part, form=write_form((), name))


def _without_id(part: Object) -> Object:
    return {
        kind: {key: value for key, value in inner.items() if key != "id"}
        for kind, inner in part.items()
    }

"""The profiles of conversations: ``archive`` accepts all six roles, ``chat`` the records of a stored chat.

The chat profile uses the record shapes of the message-roles specification: ``user``, ``assistant`` (with
``tool_calls``) and ``tool`` (with ``tool_call_id``). A record unfolds to canisters and folds back to itself; fields
that the model lacks stay with it as residue. The system prompt is refused and nothing is written. A ``tool`` record is
linked to its call by ``tool_call_id``; it is also kept where the call is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cannery.errors import DialectError, MessageError, ProfileError
from cannery.families.chat.reading import ChatReader
from cannery.families.chat.writing import ChatWriter
from cannery.messages import (
    AnyCanister,
    AssistantCanisterClass,
    Conversation,
    InvocationCanisterClass,
    Residue,
    ResultCanisterClass,
    Role,
    TextualContentClass,
    UserCanisterClass,
    absent,
)
from cannery.messages.json_text import decode_json, write_json
from cannery.roles import MessageRole, validate_message_role
from cannery.wire.contract import Piece
from cannery.wire.losses import Report

_DIALECT = "chat_storage"
# The dialect whose parts a record may have in place of text.
_WIRE = "openai_chat"
_CHAT_ROLES = frozenset({Role.User, Role.Assistant, Role.Invocation, Role.Result})
_PARTS = "parts"
_MISSING, _NULL = "missing", "null"
_FLAT, _OBJECT = "flat", "object"


def check_profile(profile: str, canisters: Iterable[AnyCanister]) -> None:
    """Refuse a canister that a profile does not accept."""
    if profile != "chat":
        return
    for canister in canisters:
        if canister.role not in _CHAT_ROLES:
            role = canister.role.value
            raise ProfileError(
                profile, f"role {role!r} is not persisted; only user, assistant, tool"
            )


def unfold_record(record: Mapping[str, Any]) -> list[AnyCanister]:
    """The canisters of a chat record."""
    if not isinstance(record, Mapping):
        raise ProfileError("chat", f"a record is a mapping, not {type(record).__name__}")
    rest = dict(record)
    role = validate_message_role(rest.pop("role", None))
    if isinstance(rest.get("content"), list):
        return _unfold_parts(role, rest)
    match role:
        case MessageRole.User:
            return _unfold_user(rest)
        case MessageRole.Assistant:
            return _unfold_assistant(rest)
        case MessageRole.Tool:
            return _unfold_tool(rest)


def _unfold_parts(role: MessageRole, rest: dict[str, Any]) -> list[AnyCanister]:
    """The canisters of a record whose content is a list of Chat Completions parts."""
    if role is not MessageRole.Tool and "tool_call_id" in rest:
        raise ProfileError("chat", "only a tool record has a tool_call_id")
    if role is not MessageRole.Assistant and "tool_calls" in rest:
        raise ProfileError("chat", f"a {role.value} record has no tool call")
    if not rest["content"] and not rest.get("tool_calls"):
        raise ProfileError("chat", f"the content of a {role.value} record has no parts")
    reader = ChatReader(_WIRE, [])
    try:
        reader.messages([decode_json(write_json({"role": role.value, **rest}, "record"))])
    except (DialectError, MessageError) as error:
        raise ProfileError("chat", str(error)) from None
    return reader.canisters


def _unfold_user(rest: dict[str, Any]) -> list[AnyCanister]:
    if "tool_calls" in rest or "tool_call_id" in rest:
        raise ProfileError("chat", "a user record has no tool call")
    content, form = _content(rest)
    if content is None:
        raise ProfileError("chat", "a user record needs content")
    return [UserCanisterClass(content, residue=_residue(rest, form))]


def _unfold_assistant(rest: dict[str, Any]) -> list[AnyCanister]:
    if "tool_call_id" in rest:
        raise ProfileError("chat", "only a tool record has a tool_call_id")
    calls = rest.pop("tool_calls", None)
    if calls is not None and not isinstance(calls, list):
        raise ProfileError("chat", "tool_calls is a list")
    content, form = _content(rest)
    if content is None and not calls:
        raise ProfileError("chat", "an assistant record needs content or tool_calls")
    if calls is not None and not calls:
        rest["tool_calls"] = []
    said = AssistantCanisterClass(
        absent if content is None else content, residue=_residue(rest, form)
    )
    return [said, *(_unfold_call(call) for call in calls or ())]


def _unfold_call(call: Any) -> AnyCanister:
    if not isinstance(call, Mapping):
        raise ProfileError("chat", "a tool call is a mapping")
    rest = dict(call)
    inner = rest.get("function")
    form = [] if isinstance(inner, Mapping) else [_FLAT]
    facts = dict(inner) if isinstance(inner, Mapping) else rest
    identifier, name = rest.pop("id", None), facts.pop("name", None)
    arguments = facts.pop("arguments", "")
    if not isinstance(arguments, str):
        form.append(_OBJECT)
        arguments = write_json(arguments, "tool_calls.arguments")
    if isinstance(inner, Mapping):
        rest["function"] = facts
    usual = {"type": "function", "function": {}} if isinstance(inner, Mapping) else {}
    part = None if rest == usual else write_json(rest)
    residue = Residue(_DIALECT, part=part, form=",".join(form) or None)
    try:
        return InvocationCanisterClass(
            identifier,
            name,
            arguments,
            joined=True,
            residue=residue if part or form else None,
        )
    except MessageError as error:
        raise ProfileError("chat", f"tool_calls: {error}") from None


def _unfold_tool(rest: dict[str, Any]) -> list[AnyCanister]:
    identifier = rest.pop("tool_call_id", None)
    if not isinstance(identifier, str) or not identifier:
        raise ProfileError("chat", "a tool record needs a tool_call_id")
    content, form = _content(rest)
    if content is None:
        raise ProfileError("chat", "a tool record needs content")
    return [ResultCanisterClass(identifier, content, residue=_residue(rest, form))]


def _content(rest: dict[str, Any]) -> tuple[TextualContentClass | None, str | None]:
    """The text of a record's content, and the form that it had."""
    if "content" not in rest:
        return None, _MISSING
    content = rest.pop("content")
    if content is None:
        return None, _NULL
    if isinstance(content, str):
        return TextualContentClass(content), None
    raise ProfileError("chat", f"content is text, not {type(content).__name__}")


def _residue(rest: dict[str, Any], form: str | None) -> Residue | None:
    if not rest and form is None:
        return None
    return Residue(_DIALECT, envelope=write_json(rest, "record") if rest else None, form=form)


def fold_records(canisters: Iterable[AnyCanister]) -> list[dict[str, Any]]:
    """The chat records of canisters."""
    records: list[dict[str, Any]] = []
    for turn in Conversation.trusted(canisters).turns():
        if any(map(_is_part, turn)):
            pieces = [*map(Piece, turn, range(len(turn)))]
            records += ChatWriter(_WIRE, Report(), is_same=True).messages(pieces)
            continue
        for canister in turn:
            if isinstance(canister, InvocationCanisterClass):
                _add_call(records, canister)
            else:
                records.append(_record(canister))
    return records


def _is_part(canister: AnyCanister) -> bool:
    """Whether a canister was read from a list of parts, or holds more than a text record can."""
    residue = canister.residue
    if residue is not None and residue.dialect == _WIRE:
        return True
    is_call = isinstance(canister, InvocationCanisterClass)
    plain = (str, TextualContentClass, type(absent))
    return not is_call and (canister.joined or not isinstance(canister.held, plain))


def _record(canister: Any) -> dict[str, Any]:
    role = "tool" if canister.role is Role.Result else canister.role.value
    record: dict[str, Any] = {"role": role}
    if canister.role is Role.Result:
        record["tool_call_id"] = canister.invocation_id
    residue = canister.residue
    form = residue.form if residue is not None and residue.dialect == _DIALECT else None
    if form == _PARTS:
        record["content"] = decode_json(residue.part)
    elif form != _MISSING:
        record["content"] = None if canister.held is absent else canister.text
    if residue is not None and residue.dialect == _DIALECT and residue.envelope:
        record.update(decode_json(residue.envelope))
    return record


def _add_call(records: list[dict[str, Any]], canister: InvocationCanisterClass) -> None:
    if not records or records[-1]["role"] != "assistant":
        records.append({"role": "assistant", "content": None})
    residue = canister.residue
    is_ours = residue is not None and residue.dialect == _DIALECT
    form = (residue.form or "").split(",") if residue is not None and is_ours else []
    rest = decode_json(residue.part) if residue is not None and is_ours and residue.part else None
    arguments: Any = canister.arguments_text
    if _OBJECT in form:
        arguments = decode_json(arguments)
    facts = {"name": canister.name, "arguments": arguments}
    if _FLAT in form:
        call = {"id": canister.identifier, **facts, **(rest or {})}
    else:
        shape: dict[str, Any] = {"type": "function", "function": {}} if rest is None else rest
        inner = {**facts, **shape.get("function", {})}
        call = {"id": canister.identifier, **shape, "function": inner}
    records[-1].setdefault("tool_calls", []).append(call)

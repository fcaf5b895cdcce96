"""Continues a conversation by the id of a reply (``previous_response_id`` and similar), a conversation or a thread.

The history comes from the recorder and is sent to the upstream as a whole, so this works with every upstream. An id
that the gateway does not know is passed to an upstream of the same dialect, which may have issued it.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from cannery.dialects import find_dialect, is_dialect
from cannery.errors import DialectError
from cannery.gateway.calls import Call
from cannery.gateway.identifiers import is_name, new_number
from cannery.gateway.recorder import Recorder
from cannery.gateway.refusals import CallError
from cannery.messages import (
    AnyCanister,
    Conversation,
    Request,
    Role,
    SupervisorCanisterClass,
    Tool,
)
from cannery.wire.bodies import encode, kind_of, read_object
from cannery.wire.contract import Dialect, WireError
from cannery.wire.places import Places
from cannery.wire.residues import own_residue


class Continuation(Struct):
    """The state fields of a call: the reply to continue from, and whether its own reply is to be kept.

    ``places`` are the paths in the body of the fields read, and the number of messages from the store.
    """

    body: bytes
    previous: str | None = None
    conversation: str | None = None
    is_thread: bool = False
    tools: tuple[Tool, ...] = ()
    places: Places = field(default_factory=Places)
    # A field that requests something only the service itself runs, and the error sentence.
    unserved: tuple[str, str] | None = None

    def refuse_unserved(self) -> None:
        """Refuse functions that only the service itself runs; called for any other upstream."""
        if self.unserved is not None:
            parameter, problem = self.unserved
            message = f"{parameter!r} is not served: {problem}"
            error = WireError(400, message, "invalid_request_error", "not_offered", parameter)
            raise CallError(error)


def take_state(call: Call) -> Continuation:
    """The state fields of a body, and the body without them."""
    name, continuing = call.dialect.name, call.dialect.service.continuing
    if not continuing.fields:
        return Continuation(call.body)
    value = read_object(name, call.body)
    found = Continuation(call.body)
    if continuing.reply:
        for ignored in continuing.ignored:
            value.pop(ignored, None)
        found.unserved = next((each for each in continuing.unserved if value.get(each[0])), None)
        found.previous = _identifier(name, continuing.reply, value)
        found.conversation = _conversation(name, continuing.conversation, value)
        if found.previous is not None and found.conversation is not None:
            message = f"give either {continuing.reply!r} or 'conversation', not both"
            raise CallError(WireError(400, message, parameter="conversation"))
        call.is_stateful = value.get("store") is not False
    else:
        thread = value.pop(continuing.thread, None)
        if thread is not None:
            found.previous = _continued_thread(name, thread)
            found.is_thread = call.is_stateful = True
    found.body = encode(value)
    return found


def _conversation(dialect: str, field: str, value: dict[str, Any]) -> str | None:
    """Take the name of a conversation out of a body, which may be the id of an object."""
    given = value.get(field)
    if isinstance(given, dict):
        value[field] = given.get("id", given)
    return _identifier(dialect, field, value) if field else None


def _identifier(dialect: str, field: str, value: dict[str, Any]) -> str | None:
    """Take an id out of a body; an invalid id is refused, because the call without it would have another meaning."""
    found = value.pop(field, None)
    if found is not None and not isinstance(found, str):
        raise DialectError(dialect, field, f"expected the id, got {kind_of(found)}")
    return found


def _continued_thread(dialect: str, thread: Any) -> str | None:
    """The reply that a thread continues from; None for a new one."""
    kind = thread.get("type") if isinstance(thread, dict) else None
    if kind == "create":
        return None
    if kind != "continue":
        raise DialectError(dialect, "thread.type", "expected 'create' or 'continue'")
    previous = thread.get("previous_message_id")
    if not isinstance(previous, str):
        raise DialectError(dialect, "thread.previous_message_id", "expected the id of a message")
    return previous


class State:
    """Finds histories by the ids that callers know."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def expand(self, call: Call, wanted: Continuation, *, is_same: bool) -> Request:
        """The request of a call with its whole history; with ``is_same`` the upstream may know ids of its own."""
        dialect = call.dialect
        if wanted.previous is None and wanted.conversation is None:
            call.body = wanted.body
            request = dialect.read_request(call.body, wanted.places)
            wanted.tools = request.tools if wanted.is_thread else ()
            return request
        history, tools = await self._find(wanted, call.store_scope)
        position = 0 if history is None else len(history)
        if history is None:
            if is_same:
                wanted.conversation = None
                return dialect.read_request(call.body, wanted.places)
            raise _unknown(dialect, wanted)
        call.body = wanted.body
        request = dialect.read_request(call.body, wanted.places)
        changes: dict[str, Any] = {}
        if dialect.service.continuing.reply:
            history = _without_instructions(history, dialect)
        else:
            wanted.tools = changes["tools"] = request.tools or tools
        history = Conversation.trusted(map(_as_asked, history))
        lead, rest = _split_lead(request.conversation, dialect)
        changes["conversation"] = lead + history + rest
        wanted.places.insert_history(len(lead), len(history))
        if wanted.conversation is not None and history:
            self._recorder.continue_at(
                wanted.conversation, call.store_scope, position, lead + history
            )
        return request.replace(**changes)

    async def _find(
        self, wanted: Continuation, scope: str | None
    ) -> tuple[Conversation | None, tuple[Tool, ...]]:
        if wanted.previous is not None:
            found = await self._recorder.recall(wanted.previous, scope)
            return (None, ()) if found is None else found
        name = str(wanted.conversation)
        return (await self._recorder.load(name, scope) if is_name(name) else None), ()


def new_reply_id(dialect: Dialect) -> str:
    """An id for a translated reply, in the caller's style."""
    return f"{dialect.service.replies.id_prefix}{new_number()}"


def _split_lead(conversation: Conversation, dialect: Dialect) -> tuple[Conversation, Conversation]:
    """The instructions of the new request, which precede the history, and the rest."""
    count = 0
    for canister in conversation:
        if not isinstance(canister, SupervisorCanisterClass) or not _is_instruction(
            canister, dialect
        ):
            break
        count += 1
    return conversation[:count], conversation[count:]


def _is_instruction(canister: SupervisorCanisterClass, dialect: Dialect) -> bool:
    residue = own_residue(canister, dialect.name)
    return residue is not None and "instructions" in (residue.form or "").split()


def _without_instructions(history: Conversation, dialect: Dialect) -> Conversation:
    """A history without the instructions of earlier requests, which are not carried over."""
    kept = [
        canister
        for canister in history
        if not (
            isinstance(canister, SupervisorCanisterClass) and _is_instruction(canister, dialect)
        )
    ]
    return Conversation.trusted(kept)


def _as_asked(canister: AnyCanister) -> AnyCanister:
    """A server's output without the fields that it sends and does not accept."""
    residue = canister.residue
    if residue is None or canister.role is not Role.Assistant:
        return canister
    if not is_dialect(residue.dialect):
        return canister
    if not find_dialect(residue.dialect).service.replies.has_own_fields:
        return canister
    return canister.replace(residue=None)  # type: ignore[no-any-return]


def _unknown(dialect: Dialect, wanted: Continuation) -> CallError:
    if wanted.is_thread:
        message = f"no thread is known by {wanted.previous!r}; send the whole history"
        error = WireError(404, message, kind="not_found_error", code="thread_not_found")
        return ThreadError(error, dialect.name)
    if wanted.previous is not None:
        continuing = dialect.service.continuing
        message = f"Previous {continuing.noun} with id '{wanted.previous}' not found."
        code, parameter = f"previous_{continuing.noun}_not_found", continuing.reply
    else:
        message = f"Conversation with id '{wanted.conversation}' not found."
        code, parameter = "conversation_not_found", "conversation"
    error = WireError(404, message, "invalid_request_error", code, parameter)
    return CallError(error)


class ThreadError(CallError):
    """An error about a thread, with its code where the SDK looks for it, so that it sends everything again."""

    def __init__(self, error: WireError, dialect: str) -> None:
        super().__init__(error)
        self._dialect = dialect

    def decorate(self, body: bytes) -> bytes:
        """The body of the error with the details that the SDK reads."""
        value = read_object(self._dialect, body)
        value["error"]["details"] = {"error_code": self.error.code}
        return encode(value)

"""Plain conversations written straight to Responses bodies; anything else is ``writing``'s."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct

from cannery.messages.absence import absent
from cannery.wire.bodies import encode
from cannery.wire.contract import Notes
from cannery.wire.plain import PlainAssistant, PlainRequest, PlainUser, split_system


class UserMessage(Struct, frozen=True, gc=False, tag_field="role", tag="user"):
    """What the user says."""

    content: str


class AssistantMessage(Struct, frozen=True, gc=False, tag_field="role", tag="assistant"):
    """What the model says."""

    content: str


class Body(Struct, frozen=True, gc=False):
    """A request."""

    model: str
    input: list[Any]
    instructions: Any = UNSET
    max_output_tokens: Any = UNSET
    temperature: Any = UNSET
    top_p: Any = UNSET
    stream: Any = UNSET


_MESSAGES: dict[type, Any] = {PlainUser: UserMessage, PlainAssistant: AssistantMessage}


def write_plain(request: PlainRequest, _notes: Notes) -> bytes | None:
    """The body of a plain request of user and assistant turns; None for any other."""
    given: Any = request
    split = split_system(request)
    if split is None or not given.model:
        return None
    system, messages = split
    try:
        written = [_MESSAGES[type(message)](message.held) for message in messages]
    except KeyError:
        return None
    # A trailing assistant turn has something to report.
    if not written or type(written[-1]) is AssistantMessage:
        return None
    limit = given.limit if given.old_limit is absent else given.old_limit
    settings = (system, limit, given.temperature, given.top_p, given.stream)
    return encode(
        Body(given.model, written, *(UNSET if value is absent else value for value in settings))
    )

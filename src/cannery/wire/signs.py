"""Signs by which a body is known to be a dialect's: each dialect lists its own, in steps of evidence.

The functions here make the tests that signs consist of; each takes a decoded body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any

from msgspec import Struct

Test = Callable[[Mapping[str, Any]], bool]

# Fields in which data sets and logs keep what was answered; no request has them.
ANSWERS = frozenset(
    {
        "answer",
        "answers",
        "chosen",
        "chosen_messages",
        "completion",
        "completions",
        "conversation_id",
        "label",
        "output",
        "outputs",
        "rejected",
        "rejected_messages",
        "response",
        "response_json",
        "responses",
        "sessionId",
        "session_id",
    }
)


class Evidence(IntEnum):
    """How sure a sign is; the surest signs of all dialects are looked at first."""

    OWN_FIELD = 1  # a field that one dialect alone has
    RECORD_FIELD = 2  # a field of data sets, which others may use as well
    ANSWER = 3  # the outer shape of an answer
    DETAIL = 4  # something that only this dialect says within a shape that many have
    SHARED_DETAIL = 5  # something that relatives of this dialect may have taken from it
    MODEL = 6  # the model that is asked for
    SHAPE = 7  # nothing but the outer shape of a request


class Sign(Struct, frozen=True, gc=False):
    """One thing to look for in a body of a kind (``request``, ``response``, ``stream``), and the reason to tell.

    A stream is known by one of its events.
    """

    kind: str
    evidence: Evidence
    reason: str
    holds: Test


def has(*names: str) -> Test:
    """One of these fields."""
    return lambda value: any(name in value for name in names)


def holds_turns(name: str) -> Test:
    """A field with what is said, not a text of the same name."""
    return lambda value: isinstance(value.get(name), (list, Mapping))


def asks(name: str) -> Test:
    """A field that asks, in a body that has no answer beside it, as a row of a data set has."""
    return lambda value: name in value and not ANSWERS & value.keys()


def listed(name: str) -> Test:
    """A field with a list."""
    return lambda value: isinstance(value.get(name), list)


def both(one: Test, other: Test) -> Test:
    """Two signs at once."""
    return lambda value: one(value) and other(value)


def blocks(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The blocks of all messages."""
    for message in _messages(value):
        content = message.get("content")
        if isinstance(content, list):
            yield from (block for block in content if isinstance(block, Mapping))


def block_ends(*tags: str) -> Test:
    """A block of one of these types, or of one that ends so (``web_search_tool_result``)."""
    return lambda value: any(str(block.get("type")).endswith(tags) for block in blocks(value))


def role_is(*roles: str) -> Test:
    """A message of one of these roles."""
    return lambda value: any(message.get("role") in roles for message in _messages(value))


def message_has(*names: str) -> Test:
    """A message with one of these fields."""
    return lambda value: any(name in message for message in _messages(value) for name in names)


def tool_has(*names: str) -> Test:
    """A tool with one of these fields."""

    def holds(value: Mapping[str, Any]) -> bool:
        tools = value.get("tools")
        found = tools if isinstance(tools, list) else []
        return any(isinstance(tool, Mapping) and name in tool for tool in found for name in names)

    return holds


def model_starts(*beginnings: str) -> Test:
    """Messages for a model whose name begins so, whatever host stands before it."""

    def holds(value: Mapping[str, Any]) -> bool:
        model = str(value.get("model", "")).lower().rpartition("/")[2]
        return "messages" in value and model.startswith(beginnings)

    return holds


def _messages(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    messages = value.get("messages")
    return [m for m in messages if isinstance(m, Mapping)] if isinstance(messages, list) else []

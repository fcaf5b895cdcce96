"""Signs by which a body is recognised as a dialect's: each dialect lists its own, graded by evidence.

The functions here build the tests of signs; each takes a decoded body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any

from msgspec import Struct

Test = Callable[[Mapping[str, Any]], bool]

# Fields in which data sets and logs keep answers; no request has them.
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
    """The strength of a sign; the strongest signs of all dialects are tested first."""

    OWN_FIELD = 1  # a field that only one dialect has
    RECORD_FIELD = 2  # a field of data sets, which others may use as well
    ANSWER = 3  # the outer shape of a response
    DETAIL = 4  # a value that only this dialect has inside a common shape
    SHARED_DETAIL = 5  # a value that dialects related to this one may have copied
    MODEL = 6  # the requested model
    SHAPE = 7  # only the outer shape of a request


class Sign(Struct, frozen=True, gc=False):
    """One test for a body of a kind (``request``, ``response``, ``stream``), and the reason to report.

    A stream is recognised by one of its events.
    """

    kind: str
    evidence: Evidence
    reason: str
    holds: Test


def has(*names: str) -> Test:
    """A body with one of these fields."""
    return lambda value: any(name in value for name in names)


def holds_turns(name: str) -> Test:
    """A field with messages, not a text of the same name."""
    return lambda value: isinstance(value.get(name), (list, Mapping))


def asks(name: str) -> Test:
    """A field with a question, in a body without an answer beside it, as in a row of a data set."""
    return lambda value: name in value and not ANSWERS & value.keys()


def listed(name: str) -> Test:
    """A field with a list."""
    return lambda value: isinstance(value.get(name), list)


def both(one: Test, other: Test) -> Test:
    """Two signs together."""
    return lambda value: one(value) and other(value)


def blocks(value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The blocks of all messages."""
    for message in _messages(value):
        content = message.get("content")
        if isinstance(content, list):
            yield from (block for block in content if isinstance(block, Mapping))


def block_ends(*tags: str) -> Test:
    """A block with one of these types, or with a type that ends in one (``web_search_tool_result``)."""
    return lambda value: any(str(block.get("type")).endswith(tags) for block in blocks(value))


def role_is(*roles: str) -> Test:
    """A message with one of these roles."""
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
    """A model whose name has one of these prefixes, after any host prefix."""

    def holds(value: Mapping[str, Any]) -> bool:
        model = str(value.get("model", "")).lower().rpartition("/")[2]
        return "messages" in value and model.startswith(beginnings)

    return holds


def _messages(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    messages = value.get("messages")
    return [m for m in messages if isinstance(m, Mapping)] if isinstance(messages, list) else []

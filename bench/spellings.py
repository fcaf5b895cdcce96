"""One chat in many spellings: the cost of a small change of the input, as a multiple of the plain spelling.

Every spelling is common among clients. Speed should not depend on the spelling that a client uses.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from captures import DIGITS, TURNS, Captured, template
from workloads import BY_HAND, short

Body = dict[str, Any]
Change = Callable[[Body], None]
PLAIN = "plain"
_SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "The file, from the root."}},
    "required": ["path"],
}
_MARK = {"type": "ephemeral"}


def plain(dialect: str) -> Body:
    """Ten short messages with one tool, in the usual spelling of each dialect."""
    body = short()
    function = {"name": "read_file", "description": "Reads a file.", "parameters": _SCHEMA}
    body["tools"] = [{"type": "function", "function": function}]
    return body if dialect == "openai_chat" else copy.deepcopy(BY_HAND[dialect](body))


def _turns(body: Body) -> list[Body]:
    found: list[Body] = next(body[key] for key in TURNS.values() if key in body)
    return found


def _capital_role(body: Body) -> None:
    for turn in _turns(body):
        turn["role"] = turn["role"].title()


def _developer(body: Body) -> None:
    _turns(body)[0]["role"] = "developer"


def _cache_mark(body: Body) -> None:
    turn = _turns(body)[-1]
    turn["content"] = [{"type": "text", "text": _said(turn), "cache_control": _MARK}]


def _said(turn: Body) -> str:
    content = turn["content"]
    text: str = content if isinstance(content, str) else content[0]["text"]
    return text


def _vendor_field(body: Body) -> None:
    for turn in _turns(body):
        if turn["role"] == "assistant":
            turn["reasoning_content"] = "The user wants to know more about it."


def _unknown_field(body: Body) -> None:
    _turns(body)[3]["x_trace"] = {"span": "b7ad6b7169203331"}


def _doubled_turn(body: Body) -> None:
    turns = _turns(body)
    turns.append(copy.deepcopy(turns[-1]))


def _snake_case(body: Body) -> None:
    for camel, snake in (
        ("systemInstruction", "system_instruction"),
        ("generationConfig", "generation_config"),
    ):
        if camel in body:
            body[snake] = body.pop(camel)


SPELLINGS: dict[str, dict[str, Change]] = {
    "openai_chat": {
        "capital role": _capital_role,
        "developer": _developer,
        "cache mark": _cache_mark,
        "vendor field": _vendor_field,
        "unknown field": _unknown_field,
        "doubled turn": _doubled_turn,
    },
    "anthropic_messages": {
        "capital role": _capital_role,
        "cache mark": _cache_mark,
        "unknown field": _unknown_field,
        "doubled turn": _doubled_turn,
    },
    "openai_responses": {
        "capital role": _capital_role,
        "unknown field": _unknown_field,
        "doubled turn": _doubled_turn,
    },
    "gemini_generate": {
        "capital role": _capital_role,
        "snake case": _snake_case,
        "unknown field": _unknown_field,
        "doubled turn": _doubled_turn,
    },
}
CHANGED_TOOLS = "changed tools"


def spelled(dialect: str) -> dict[str, Captured]:
    """The chat in every spelling of a dialect; in every call the last turn is new, or a tool is."""
    bodies = {PLAIN: plain(dialect)}
    for name, change in SPELLINGS[dialect].items():
        bodies[name] = plain(dialect)
        change(bodies[name])
    found = {name: template(dialect, name, body) for name, body in bodies.items()}
    found[CHANGED_TOOLS] = _with_changed_tools(dialect)
    return found


def _with_changed_tools(dialect: str) -> Captured:
    """The plain chat, whose tool has a new description in every call."""
    whole = template(dialect, CHANGED_TOOLS, plain(dialect))
    body = whole.head + b"1" * DIGITS + whole.tail
    head, found, tail = body.partition(b"Reads a file.")
    assert found, f"{dialect}: the tool was not written"
    return whole._replace(head=head + found + b" ", tail=tail)

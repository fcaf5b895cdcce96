"""Messages bodies as agents send them: marks, thoughts, parallel calls, results of every shape, and now and then an
unknown field in one of the messages.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import strategies as st

from .pieces import PNG, SCHEMA, Body, Dice, standard

_MARKS: tuple[Body | None, ...] = (
    {"type": "ephemeral"},
    {"type": "ephemeral", "ttl": "1h"},
    {"ttl": "5m", "type": "ephemeral"},
    None,
)
_NAMES = ("Bash", "mcp__files__read-file", "edit_file", "web.search")
_INPUTS: tuple[Body, ...] = (
    {},
    {"command": "ls -la", "timeout": 5},
    {"a": 1.5, "b": 1e22, "c": [True, None, {"d": "é\n"}]},
    {"_raw_arguments": "not json"},
    {"_raw_arguments": "{}"},
    {"_raw_arguments": "x", "b": 1},
    {"_": "{"},
)


@dataclass
class _Dice(Dice):
    """Dice for agents: a plain one sends nothing but text, calls and results."""

    is_plain: bool = False

    def odd(self, tenths: int) -> bool:
        """Whether to do what a plain agent does not."""
        return not self.is_plain and self.maybe(tenths)


@cache
def agent_bodies() -> st.SearchStrategy[bytes]:
    """Bodies as bytes, spelled compactly, with spaces, or in ASCII only."""
    return _spelled(is_plain=False)


@cache
def plain_agent_bodies() -> st.SearchStrategy[bytes]:
    """The same of nothing but text, calls and results."""
    return _spelled(is_plain=True)


@st.composite
def _spelled(draw: st.DrawFn, *, is_plain: bool) -> bytes:
    extras = not is_plain and draw(st.booleans())
    dice = _Dice(draw, extras=extras, orderly=draw(st.booleans()), is_plain=is_plain)
    body = _body(dice)
    separators = dice.pick((",", ":"), (", ", ": "), (" ,\n", " : "))
    return json.dumps(body, separators=separators, ensure_ascii=dice.maybe(3)).encode()


def _body(dice: _Dice) -> Body:
    messages: list[Body] = [{"role": "user", "content": _words(dice)}]
    for _ in range(dice.pick(1, 2, 3, 4)):
        _exchange(dice, messages)
    if dice.extras and dice.maybe():
        dice.pick(*messages)["x_trace"] = {"span": "b7ad"}
    body: Body = {"model": "claude-sonnet-4-5", "max_tokens": 1024, "messages": messages}
    return body | _settings(dice) | (_odd_settings(dice) if dice.extras else {})


def _odd_settings(dice: _Dice) -> Body:
    return dice.subset(service_tier=lambda: "auto", metadata=dict, stop_sequences=list, tools=list)


def _settings(dice: _Dice) -> Body:
    return dice.subset(
        system=lambda: _words(dice),
        tools=lambda: [_tool(dice, name) for name in _NAMES[:2]],
        tool_choice=lambda: dice.pick(
            {"type": "auto"},
            {"type": "any", "disable_parallel_tool_use": True},
            {"type": "none"},
            {"type": "tool", "name": "Bash"},
        ),
        temperature=lambda: dice.pick(1, 0.5, 0.0),
        top_p=lambda: 0.9,
        top_k=lambda: 40,
        stream=dice.maybe,
        stop_sequences=lambda: dice.pick(["END"], ["a", "b", "c", "d", "e"]),
        metadata=lambda: {"user_id": "u-1"},
        thinking=lambda: dice.pick(
            {"type": "enabled", "budget_tokens": 1000},
            {"type": "disabled"},
            {"type": "adaptive", "display": "omitted"},
        ),
        output_config=lambda: dice.pick({"effort": "high"}, {"effort": "extreme"}),
    )


def _tool(dice: _Dice, name: str) -> Body:
    tool: Body = {"name": name, "description": "Does it.", "input_schema": SCHEMA}
    mark = dice.subset(cache_control=lambda: dice.pick(*_MARKS)) if dice.odd(5) else {}
    return tool | (mark or dice.subset(type=lambda: "custom", strict=lambda: True))


def _marked(dice: _Dice, block: Body) -> Body:
    return {**block, "cache_control": dice.pick(*_MARKS)} if dice.odd(1) else block


def _text(dice: _Dice) -> Body:
    block = {"type": "text", "text": dice.text()}
    return _marked(dice, {**block, "citations": None} if dice.extras and dice.maybe(1) else block)


def _words(dice: _Dice) -> Any:
    return dice.text() if dice.maybe(5) else dice.some(lambda: _text(dice), 1, 2)


def _image() -> Body:
    source = {"type": "base64", "media_type": "image/png", "data": standard(PNG)}
    return {"type": "image", "source": source}


def _exchange(dice: _Dice, messages: list[Body]) -> None:
    """What the model says, with calls or without, and what it gets back."""
    said: list[Body] = []
    if dice.odd(3):
        said.append({"type": "thinking", "thinking": dice.text(), "signature": "EqQB"})
    if dice.odd(1):
        said.append({"type": "redacted_thinking", "data": "c2VhbGVk"})
    if dice.maybe(4):
        said.append(_text(dice))
    calls = dice.some(lambda: _call(dice), 0, 3)
    said += calls
    if dice.odd(1):
        said.append(_text(dice))
    messages.append({"role": "assistant", "content": said or dice.text()})
    answers = [_result(dice, call["id"]) for call in calls if dice.orderly or not dice.maybe(1)]
    if dice.maybe(1):
        answers.reverse()
    if dice.maybe(2):
        answers.append(_text(dice))
    if dice.odd(2):
        answers.append(_marked(dice, _image()))
    messages.append({"role": "user", "content": answers or _words(dice)})


def _call(dice: _Dice) -> Body:
    number = dice.next()
    again = [] if dice.is_plain else ["again"]
    identifier = dice.pick(f"toolu_{number}", f"chatcmpl-tool-{number}", *again)
    call: Body = {"type": "tool_use", "id": identifier, "name": dice.pick(*_NAMES)}
    return _marked(dice, {**call, "input": dice.pick(*_INPUTS)})


def _result(dice: _Dice, identifier: str) -> Body:
    result: Body = {"type": "tool_result", "tool_use_id": identifier}
    texts = lambda: [{"type": "text", "text": text} for text in dice.some(dice.text, 1, 3)]  # noqa: E731 - made when picked
    shapes: list[Any] = [dice.text, texts]
    if not dice.is_plain:
        shapes += [lambda: [*texts(), _image()], *([list] if dice.extras else [])]
    result["content"] = dice.pick(*shapes)()
    failed = {} if dice.is_plain else dice.subset(is_error=lambda: dice.pick(True, False))
    return _marked(dice, result | failed)

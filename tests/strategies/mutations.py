"""Strategies that spoil bodies of the corpus: dropped, doubled, reordered, unknown and odd values at every level.

A spoiled body may still be valid, may be valid by accident, or may break its dialect; what must hold of it is that it
comes back to the letter or is refused, and that nothing else is ever raised.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.oracles.corpus import request_cases, response_cases

Path = tuple[str | int, ...]
Draw = Callable[[st.SearchStrategy[Any]], Any]

_LARGEST = 8_000
ODD: tuple[Any, ...] = (
    *(None, [], {}, "", " ", 0, -1, 1, True, False, 1.0, -0.0, 1e308, 5e-324),
    *(2**63, 2**64, -(2**63), 2**70, "x", "\u2028", "\x00", "\ufeff", "é", "👩‍👩‍👧"),
    *("null", "[", "{}", '{"a":1}', "data:,x", "http://", [None], [[]], [{}], [1, "a"]),
    *({"type": "hologram", "v": 1}, {"type": "text", "text": "t"}, {"a": {"b": []}}),
    *("[tool error] x", "[attached to the result of tool call c1]", "text/csv", "6eDo"),
    *([{"type": "url_citation", "url": "u"}], {"type": "output_text", "text": "t"}),
)
KEYS = ("x_new", "futureField", "id", "name", "status", "index", "type", "citations", "signature")
BLOCKS: tuple[Any, ...] = (
    {"type": "hologram", "data": {"x": 1}},
    {"telepathy": {"y": 2}},
    {"role": "user", "content": "inserted"},
    {"type": "text", "text": "inserted"},
    {"type": "text", "text": ""},
    *({}, None, "s"),
)
TAGS = ("hologram", "text", "image", "function", "custom", "tool_use", "message", "", None, 5)
_TURNS = (str.upper, str.title, " {}\n".format)


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place of a body but its root."""
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for step, item in inner:
        yield (*path, step)
        yield from paths(item, (*path, step))


def at(value: Any, path: Path) -> Any:
    """What stands at a place."""
    for step in path:
        value = value[step]
    return value


def spoil(draw: Draw, body: Any, spare: Any) -> None:
    """Change one thing of a body."""
    places = list(paths(body))
    if not places:
        return
    place = draw(st.sampled_from(places))
    holder, step = at(body, place[:-1]), place[-1]
    match draw(st.sampled_from(("drop", "set", "key", "more", "turn", "graft", "tag"))):
        case "drop":
            del holder[step]
        case "set":
            holder[step] = copy.deepcopy(draw(st.sampled_from(ODD)))
        case "key":
            target = holder if isinstance(holder, dict) else body
            target[draw(st.sampled_from(KEYS))] = copy.deepcopy(draw(st.sampled_from(ODD)))
        case "more":
            block = draw(st.sampled_from((holder[step], *BLOCKS)))
            if isinstance(holder, list):
                holder.insert(int(step), copy.deepcopy(block))
        case "turn":
            _turn(draw, holder, step)
        case "graft":
            other = draw(st.sampled_from(list(paths(spare))))
            holder[step] = copy.deepcopy(at(spare, other))
        case "tag":
            if isinstance(holder, dict):
                holder["type"] = draw(st.sampled_from(TAGS))


def _turn(draw: Draw, holder: Any, step: Any) -> None:
    """Reverse a list, or spell a text in another way."""
    value = holder[step]
    if isinstance(value, list):
        value.reverse()
    elif isinstance(value, str) and step != "role":
        holder[step] = draw(st.sampled_from(_TURNS))(value)


@cache
def _bodies(dialect: str, kind: str) -> list[Any]:
    cases = request_cases(dialect) if kind == "request" else response_cases(dialect)
    return [case.body for case in cases if len(json.dumps(case.body)) < _LARGEST]


@st.composite
def spoiled(draw: Draw, dialect: str, kind: str = "request") -> dict[str, Any]:
    """A body of the corpus with a few changes."""
    bodies = _bodies(dialect, kind)
    body = copy.deepcopy(draw(st.sampled_from(bodies)))
    spare = draw(st.sampled_from(bodies))
    for _ in range(draw(st.integers(1, 4))):
        spoil(draw, body, spare)
    return body

"""Numbers that no float holds are JSON all the same: they come home as they were spelled, and break nothing abroad."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

import cannery
from cannery.storage import open_store
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES

DIALECTS = (CHAT, RESPONSES, CLAUDE, GEMINI)
VAST = ("1e400", "-1.5E+999", "9" * 5000)
SCHEMA = {"type": "object", "properties": {"a": {"type": "number", "maximum": "VAST"}}}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
ASKED = {"role": "user", "content": "q"}
CONTENTS = {"role": "user", "parts": [{"text": "q"}]}


def _called(arguments: str, result: str) -> list[Any]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    answer = {"role": "tool", "tool_call_id": "c", "content": result}
    return [ASKED, {"role": "assistant", "tool_calls": [call]}, answer]


def _used(value: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "c", "name": "f", "input": value}


CASES: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"messages": [{**ASKED, "zz": "VAST"}]}),
    (CHAT, {"messages": [ASKED], "temperature": "VAST"}),
    (CHAT, {"messages": [ASKED], "tools": [FUNCTION]}),
    (CHAT, {"messages": _called('{"x":VAST}', "r")}),
    (CHAT, {"messages": _called("{}", '{"x":VAST}')}),
    (RESPONSES, {"input": "q", "zz": ["VAST"]}),
    (RESPONSES, {"input": "q", "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}]}),
    (CLAUDE, {"messages": [{"role": "user", "content": [{"type": "new", "x": "VAST"}]}]}),
    (CLAUDE, {"messages": [ASKED, {"role": "assistant", "content": [_used({"x": "VAST"})]}]}),
    (CLAUDE, {"messages": [ASKED], "tools": [{"name": "f", "input_schema": SCHEMA}]}),
    (GEMINI, {"contents": [{"role": "user", "parts": [{"text": "q", "zz": {"y": "VAST"}}]}]}),
    (
        GEMINI,
        {
            "contents": [
                CONTENTS,
                {
                    "role": "model",
                    "parts": [{"functionCall": {"name": "f", "args": {"x": "VAST"}}}],
                },
            ]
        },
    ),
]
BOTH = pytest.mark.parametrize("dialect, shape", CASES, ids=range(len(CASES)))
NUMBERS = pytest.mark.parametrize("number", VAST, ids=("power", "minus", "digits"))


def spelled(dialect: str, shape: dict[str, Any], number: str) -> bytes:
    around = {"max_tokens": 5} if dialect == CLAUDE else {}
    text = json.dumps({**around, **shape})
    return text.replace('"VAST"', number).replace("VAST", number).encode()


def exactly(body: Any) -> Any:
    return json.loads(body, parse_float=Decimal, parse_int=str)


@NUMBERS
@BOTH
def test_a_vast_number_comes_home(dialect: str, shape: dict[str, Any], number: str):
    body = spelled(dialect, shape, number)
    request = cannery.normalize_request(body, dialect)
    assert exactly(cannery.nativize_request(request, dialect).body) == exactly(body)
    store = open_store("sqlite::memory:")
    kept = store.create()
    for canister in request.conversation:
        kept.append(canister)
    again = request.replace(conversation=kept.load())
    assert exactly(cannery.nativize_request(again, dialect).body) == exactly(body)


@NUMBERS
@BOTH
@pytest.mark.parametrize("target", DIALECTS)
def test_a_vast_number_is_said_or_told_abroad(
    dialect: str, shape: dict[str, Any], target: str, number: str
):
    body = spelled(dialect, shape, number)
    rendered = cannery.translate(body, source=dialect, target=target)
    written = rendered.body.decode()
    json.loads(written, parse_int=str, parse_constant=pytest.fail)
    lost = {loss.code for loss in rendered.losses} & {
        *("CONTROL_DROPPED", "FIELD_DROPPED", "OPAQUE_DROPPED")
    }
    assert number in written or lost
    general = cannery.nativize_request(cannery.normalize_request(body, dialect), target)
    assert exactly(general.body) == exactly(written)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_what_is_no_json_number_is_refused_and_not_made_null(dialect: str, number: float):
    body = {"model": "m", "zz": [{"y": number}], "messages": [], "input": [], "contents": []}
    with pytest.raises(cannery.DialectError, match="not a JSON number"):
        cannery.normalize_request(body, dialect)

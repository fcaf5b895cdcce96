"""At home a setting that was changed is sent as it is now, however it was spelled; all others stay as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from cannery import Controls, Request, Tool, ToolChoice
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, chat, claude, user

WORDS = {"role": "user", "parts": [{"text": "q"}]}
BODIES: dict[str, dict[str, Any]] = {
    CHAT: chat(
        user("q"),
        stream=None,
        tools=[],
        tool_choice=None,
        temperature=None,
        stop="END",
        max_tokens=7,
        max_completion_tokens=None,
        x_unknown={"a": None},
    ),
    RESPONSES: {
        "model": "m",
        "input": [user("q")],
        "stream": None,
        "tools": [],
        "tool_choice": {"type": "future"},
        "temperature": None,
        "text": {"format": None, "x_unknown": 1},
    },
    CLAUDE: claude(
        user("q"),
        stream=None,
        tools=[],
        tool_choice={"type": "future"},
        temperature=None,
        stop_sequences=None,
        metadata={"user_id": None, "x_unknown": []},
    ),
    GEMINI: {
        "contents": [WORDS],
        "tools": [],
        "tool_config": {"functionCallingConfig": {"mode": "VALIDATED", "allowedFunctionNames": []}},
        "generation_config": {"temperature": None, "stopSequences": [], "x_unknown": None},
    },
}
SEARCH = Tool("search", "Looks it up.", {"type": "object"})


def written(request: Request) -> dict[str, Any]:
    assert request.source is not None
    return json.loads(cannery.nativize_request(request, request.source).body)  # type: ignore[no-any-return]


def controlled(request: Request, **changes: Any) -> dict[str, Any]:
    return written(request.replace(controls=request.controls.replace(**changes)))


@pytest.fixture(params=BODIES)
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def read(dialect: str) -> Request:
    return cannery.normalize_request(BODIES[dialect], dialect)


def test_nothing_changed(dialect: str, read: Request):
    assert written(read) == BODIES[dialect]


def test_a_tool_where_there_was_an_empty_list(dialect: str, read: Request):
    found = written(read.replace(tools=[SEARCH]))
    assert "search" in json.dumps(found.pop("tools"))
    assert found == {key: item for key, item in BODIES[dialect].items() if key != "tools"}


def test_a_temperature_where_there_was_none(dialect: str, read: Request):
    found = controlled(read, temperature=0.5)
    body = json.loads(json.dumps(BODIES[dialect]))
    body.get("generation_config", body)["temperature"] = 0.5
    assert found == body


def test_a_choice_where_there_was_another(dialect: str, read: Request):
    found = written(read.replace(tool_choice=ToolChoice("named", "search")))
    key = "tool_config" if dialect == GEMINI else "tool_choice"
    assert "search" in json.dumps(found.pop(key))
    assert found == {name: item for name, item in BODIES[dialect].items() if name != key}


def test_a_stream_where_nothing_was_said(dialect: str, read: Request):
    if dialect != GEMINI:
        assert written(read.replace(stream=True)) == {**BODIES[dialect], "stream": True}


def test_stop_words_where_there_was_one_string():
    read = cannery.normalize_request(BODIES[CHAT], CHAT)
    assert controlled(read, stop="NOW") == {**BODIES[CHAT], "stop": ["NOW"]}
    assert controlled(read, seed=5) == {**BODIES[CHAT], "seed": 5}


def test_what_nobody_knows_beside_a_changed_setting_stays():
    read = cannery.normalize_request(BODIES[RESPONSES], RESPONSES)
    found = controlled(read, output=cannery.OutputFormat("json"))
    assert found["text"] == {"format": {"type": "json_object"}, "x_unknown": 1}
    read = cannery.normalize_request(BODIES[CLAUDE], CLAUDE)
    assert controlled(read, user="u")["metadata"] == {"user_id": "u", "x_unknown": []}


def test_the_spelling_of_a_changed_key_stays():
    config = {"top_k": 40.0, "thinking_config": {"thinking_budget": "5"}}
    body = {"contents": [WORDS], "generation_config": config}
    read = cannery.normalize_request(body, GEMINI)
    found = controlled(read, top_k=3)
    assert found == {**body, "generation_config": {**config, "top_k": 3}}


def test_a_request_that_is_made_anew_with_the_residue_of_another():
    read = cannery.normalize_request(BODIES[CHAT], CHAT)
    controls = Controls(max_tokens=7, stop="END", temperature=1)
    made = Request(
        read.conversation, read.model, controls=controls, residue=read.residue, source=CHAT
    )
    assert written(made) == {**BODIES[CHAT], "temperature": 1}


def test_a_limit_keeps_its_older_name_whatever_stands_beside_it():
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "q"}]}
    plain = cannery.normalize_request(body, "openai_chat").replace(source=None)
    more = cannery.normalize_request({**body, "x": 1}, "openai_chat").replace(source=None)

    for request in (plain, more):
        assert json.loads(cannery.nativize_request(request, "openai_chat").body)["max_tokens"] == 5

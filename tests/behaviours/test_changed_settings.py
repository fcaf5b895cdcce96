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


def test_one_stop_string_that_was_removed_does_not_come_back():
    read = cannery.normalize_request(BODIES[CHAT], CHAT)
    assert "stop" not in controlled(read, stop=cannery.absent)


def test_a_limit_beside_an_empty_newer_one():
    read = cannery.normalize_request(BODIES[CHAT], CHAT)
    assert controlled(read, max_tokens=9)["max_completion_tokens"] == 9


def test_a_choice_whose_name_stands_a_level_higher():
    body = chat(user("q"), tool_choice={"type": "function", "name": "look"})
    read = cannery.normalize_request(body, CHAT)
    assert written(read) == body
    found = written(read.replace(tool_choice=ToolChoice("named", "search")))
    assert found["tool_choice"]["function"] == {"name": "search"}


def test_allowed_tools_whose_names_stand_a_level_higher():
    tools = [{"type": "function", "name": "look"}, {"type": "function", "name": "go"}]
    choice = {"type": "allowed_tools", "allowed_tools": {"tools": tools}}
    body = chat(user("q"), tool_choice=choice)
    read = cannery.normalize_request(body, CHAT)
    assert written(read) == body
    found = written(read.replace(tool_choice=ToolChoice("allowed", ("search", "go"), True)))
    allowed = found["tool_choice"]["allowed_tools"]
    assert allowed["mode"] == "required"
    assert allowed["tools"][0]["function"] == {"name": "search"}
    assert allowed["tools"][1] == tools[1]


def test_a_format_where_only_modalities_were_given():
    body = {"contents": [WORDS], "generation_config": {"responseModalities": ["TEXT"]}}
    read = cannery.normalize_request(body, GEMINI)
    found = controlled(read, output=cannery.OutputFormat("json"))
    config = {"responseMimeType": "application/json", "responseModalities": ["TEXT"]}
    assert found == {**body, "generation_config": config}


@pytest.mark.parametrize("temperature", [None, 0.25])
def test_a_key_in_both_spellings(temperature: float | None):
    config = {"topP": 0.5, "top_p": 0.75, "temperature": temperature}
    body = {"contents": [WORDS], "generationConfig": config, "generation_config": {"topP": 1}}
    read = cannery.normalize_request(body, GEMINI)
    assert written(read) == body
    found = controlled(read, top_p=0.125, temperature=0.5)
    assert found["generationConfig"] == {"topP": 0.125, "top_p": 0.75, "temperature": 0.5}


def test_a_format_under_its_former_name():
    shape = {"type": "json_schema", "schema": {"type": "object", "title": "old"}}
    body = claude(user("q"), output_format=shape, output_config={"effort": "low"})
    read = cannery.normalize_request(body, CLAUDE)
    assert written(read) == body
    output = cannery.OutputFormat("schema", {"type": "object", "title": "new"})
    assert controlled(read, output=output)["output_config"]["format"]["schema"]["title"] == "new"
    assert controlled(read, temperature=1) == {**body, "temperature": 1}


def test_a_stream_that_is_the_default_and_was_switched_off():
    body = {"model": "m", "messages": [user("q")]}
    read = cannery.normalize_request(body, "ollama_chat")
    assert written(read) == body
    assert written(read.replace(stream=False))["stream"] is False


def test_unusual_settings_come_back_from_a_record_of_opentelemetry():
    span = cannery.translate(BODIES[CHAT], source=CHAT, target="otel_genai").body
    back = cannery.normalize_request(span, "otel_genai")
    assert json.loads(cannery.nativize_request(back, CHAT).body)["stop"] == "END"


@pytest.mark.parametrize(
    "dialect, body, envelope, expected",
    [
        (CHAT, chat(user("q"), stop="END"), {"s": {"stop": "END"}}, {"stop": ["END"]}),
        (
            GEMINI,
            {"contents": [WORDS], "generationConfig": {"top_k": 40.0}},
            {"d": {"generationConfig": {"s": {"top_k": 40.0}, "x": ["topK"]}}},
            {"generationConfig": {"top_k": 40}},
        ),
        ("ollama_chat", {"model": "m", "messages": [user("q")]}, {"x": ["stream"]}, {}),
    ],
)
def test_residue_without_notes_keeps_what_the_request_says(
    dialect: str, body: dict[str, Any], envelope: dict[str, Any], expected: dict[str, Any]
):
    read = cannery.normalize_request(body, dialect)
    older = read.replace(residue=cannery.Residue(dialect, envelope=json.dumps(envelope)))
    assert written(older) == {**body, **expected}


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

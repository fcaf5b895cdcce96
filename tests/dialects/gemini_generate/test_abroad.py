"""What others said is valid for Gemini, what Gemini said is valid for others, and nothing vanishes."""

import json
from typing import Any

import pytest

from cannery.messages.builders import result, user
from cannery.messages.canisters import SupervisorCanisterClass
from cannery.messages.content import TextualContentClass
from cannery.translation import (
    nativize_request,
    nativize_response,
    normalize_request,
    normalize_response,
    translate,
)
from tests.oracles.corpus import DIALECTS, request_cases, response_cases
from tests.oracles.leaves import is_named, missing_leaves
from tests.oracles.sdk_types import validate_request, validate_response
from tests.oracles.server_rules import check_request_rules
from tests.oracles.silence import says_nothing

NAME = "gemini_generate"
CHAT = "openai_chat"
OTHERS = [name for name in DIALECTS if name != NAME]
TO_GEMINI = [
    (name, case)
    for name in OTHERS
    for case in request_cases(name)
    if not says_nothing(name, case.body)
]
FROM_GEMINI = [(name, case) for name in OTHERS for case in request_cases(NAME)]


def chat(*messages: Any, **settings: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), **settings}


def to_gemini(body: Any, model: str | None = None, source: str = CHAT) -> tuple[Any, Any]:
    request = normalize_request(body, source)
    if model is not None:
        request = request.replace(model=model)
    rendered = nativize_request(request, NAME, policy="allow")
    return json.loads(rendered.body), rendered


def read(body: Any) -> Any:
    return normalize_request(body, NAME).conversation


def from_gemini(body: Any, target: str = CHAT) -> Any:
    return json.loads(translate(body, source=NAME, target=target).body)


def said(*contents: Any, **settings: Any) -> dict[str, Any]:
    return {"contents": list(contents), **settings}


def content(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def call(identifier: str, name: str, arguments: str = "{}") -> dict[str, Any]:
    return {
        "id": identifier,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def called(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def answer(identifier: str, words: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identifier, "content": words}


ASK = {"role": "user", "content": "q"}


@pytest.mark.parametrize("source,case", TO_GEMINI, ids=lambda value: getattr(value, "id", value))
def test_others_are_valid_for_gemini(source, case):
    for model in (None, "gemini-2.5-flash", "gemini-3-pro-preview"):
        body, _ = to_gemini(case.raw, model, source)
        assert check_request_rules(NAME, body, model=model) == []
        again = nativize_request(normalize_request(body, NAME), NAME)
        assert json.loads(again.body) == body
    assert validate_request(NAME, body) == []


@pytest.mark.parametrize("source,case", TO_GEMINI, ids=lambda value: getattr(value, "id", value))
def test_nothing_of_others_vanishes(source, case):
    rendered: Any = translate(case.raw, source=source, target=NAME, policy="allow")
    body = json.loads(rendered.body)
    paths = [entry.path for entry in (*rendered.losses, *rendered.repairs)]
    missing = missing_leaves(source, case.body, NAME, body)
    assert [leaf for leaf in missing if not is_named(leaf, paths)] == []


@pytest.mark.parametrize("source", OTHERS)
def test_answers_of_others_are_valid_for_gemini(source):
    for case in response_cases(source):
        rendered = translate(case.raw, source=source, target=NAME, kind="response")
        assert validate_response(NAME, json.loads(rendered.body)) == [], case.id


def test_gemini_is_valid_for_chat_and_nothing_vanishes():
    for case in request_cases(NAME):
        rendered: Any = translate(case.raw, source=NAME, target=CHAT)
        body = json.loads(rendered.body)
        assert validate_request(CHAT, {"model": "m", **body}) == [], case.id
        paths = [entry.path for entry in (*rendered.losses, *rendered.repairs)]
        missing = missing_leaves(NAME, case.body, CHAT, body)
        assert [leaf for leaf in missing if not is_named(leaf, paths)] == [], case.id


# --- tools -------------------------------------------------------------------------------------


def test_parallel_results_come_in_call_order_in_one_content():
    body, _ = to_gemini(
        chat(ASK, called(call("a", "f"), call("b", "g")), answer("b", "2"), answer("a", "1"))
    )
    assert [one["role"] for one in body["contents"]] == ["user", "model", "user"]
    answers = [part["functionResponse"] for part in body["contents"][2]["parts"]]
    assert answers == [
        {"id": "a", "name": "f", "response": {"output": "1"}},
        {"id": "b", "name": "g", "response": {"output": "2"}},
    ]


@pytest.mark.parametrize(
    "response,words",
    [
        ({"temp": 3}, '{"temp":3}'),
        ({"output": "11C"}, "11C"),
        ({"output": ["a", 1]}, '["a",1]'),
        ({"output": {"a": 1}}, '{"output":{"a":1}}'),
        ({"output": 5}, '{"output":5}'),
        ({}, "{}"),
        ({"output": ""}, ""),
        ({"error": "no", "code": 5}, '{"error":"no","code":5}'),
    ],
)
def test_any_object_a_tool_gave_goes_through_chat_and_back(response, words):
    body = said(
        content("user", {"text": "q"}),
        content("model", {"functionCall": {"name": "f", "args": {}}}),
        content("user", {"functionResponse": {"name": "f", "response": response}}),
    )
    abroad = from_gemini(body)
    assert abroad["messages"][-1]["content"] == words
    back, _ = to_gemini(abroad)
    assert back["contents"][2]["parts"][0]["functionResponse"]["response"] == response


@pytest.mark.parametrize(
    "words", ['{"output":"x"}', '{"error":"x"}', "[1", "{", '"x"', "5", " {} "]
)
def test_text_of_a_tool_goes_through_gemini_and_back(words):
    body, _ = to_gemini(chat(ASK, called(call("a", "f")), answer("a", words)))
    back = from_gemini(body)["messages"][-1]["content"]
    assert back == words or json.loads(back) == json.loads(words)


def test_success_never_gains_a_false_error_flag():
    body, _ = to_gemini(chat(ASK, called(call("a", "f")), answer("a", '{"error":null}')))
    found = read(body)
    assert not found[-1].is_error


def test_an_error_flag_stands_under_error():
    body, _ = to_gemini(chat(ASK, called(call("a", "f")), answer("a", "[tool error] boom")))
    assert body["contents"][2]["parts"][0]["functionResponse"]["response"] == {"error": "boom"}
    found = read(body)[-1]
    assert found.is_error
    assert found.text == "boom"


def test_a_failure_of_several_parts_is_told_once():
    parts = [{"type": "text", "text": "bo"}, {"type": "text", "text": "om"}]
    result_block = {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": parts}
    messages = [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
        },
        {"role": "user", "content": [result_block]},
    ]
    source = {"model": "m", "max_tokens": 9, "messages": messages}
    body, _ = to_gemini(source, source="anthropic_messages")
    assert body["contents"][2]["parts"][0]["functionResponse"]["response"] == {"error": "boom"}


def test_ids_are_made_once_and_never_sent_back():
    body = said(
        content("user", {"text": "q"}),
        content(
            "model",
            {"functionCall": {"name": "f", "args": {"n": 1}}},
            {"functionCall": {"name": "f", "args": {"n": 2}}},
            {"functionCall": {"id": "call_1", "name": "g", "args": {}}},
        ),
        content(
            "user",
            {"functionResponse": {"name": "g", "response": {"output": "G"}}},
            {"functionResponse": {"name": "f", "response": {"output": "1"}}},
            {"functionResponse": {"name": "f", "response": {"output": "2"}}},
        ),
    )
    messages = from_gemini(body)["messages"]
    ids = [one["id"] for one in messages[1]["tool_calls"]]
    assert ids == ["call_0", "call_1_", "call_1"]
    assert [(one["tool_call_id"], one["content"]) for one in messages[2:]] == [
        ("call_0", "1"),
        ("call_1_", "2"),
        ("call_1", "G"),
    ]
    assert from_gemini(body) == from_gemini(body)


def test_a_result_added_at_home_joins_its_step_without_a_made_id():
    body = said(
        content("user", {"text": "q"}),
        content("model", {"functionCall": {"name": "f"}}, {"functionCall": {"name": "g"}}),
    )
    request: Any = normalize_request(body, NAME)
    calls = [one.identifier for one in request.conversation if one.role.value == "invocation"]
    more = [result(identifier, "x") for identifier in calls]
    written = nativize_request(
        request.replace(conversation=request.conversation.append(*more)), NAME
    )
    assert json.loads(written.body)["contents"][2:] == [
        content(
            "user",
            {"functionResponse": {"name": "f", "response": {"output": "x"}}},
            {"functionResponse": {"name": "g", "response": {"output": "x"}}},
        )
    ]


def test_made_ids_differ_between_the_answers_of_a_conversation():
    def made(identifier: str) -> str:
        parts = [{"functionCall": {"name": "f"}}]
        body = {"candidates": [{"content": content("model", *parts)}], "responseId": identifier}
        canisters: Any = normalize_response(body, NAME).canisters
        return canisters[1].identifier

    assert made("one") == made("one") != made("two")


@pytest.mark.parametrize(
    "arguments,args,losses",
    [
        ("", {}, []),
        (" ", {}, []),
        ('{"n": 1.0}', {"n": 1.0}, []),
        ("[1]", {"_raw_arguments": "[1]"}, ["ARGUMENTS_WRAPPED"]),
        ("{oops", {"_raw_arguments": "{oops"}, ["ARGUMENTS_WRAPPED"]),
    ],
)
def test_arguments_that_are_no_object_are_wrapped_and_come_back(arguments, args, losses):
    asked = chat(ASK, called(call("a", "f", arguments)), answer("a", "1"))
    body, rendered = to_gemini(asked, "gemini-2.5-pro")
    assert body["contents"][1]["parts"][0]["functionCall"]["args"] == args
    assert [loss.code for loss in rendered.losses] == losses
    back = from_gemini(body)["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert back == (arguments if losses else json.dumps(args, separators=(",", ":")))


def test_the_spelling_of_numbers_in_arguments_survives():
    rendered = translate(
        chat(ASK, called(call("a", "f", '{"n":1.50,"m":1e3}')), answer("a", "1")),
        source=CHAT,
        target=NAME,
    )
    assert b'"args":{"n":1.50,"m":1e3}' in rendered.body


def test_media_of_a_result_stand_in_its_parts():
    body = said(
        content("user", {"text": "q"}),
        content("model", {"functionCall": {"id": "a", "name": "f", "args": {}}}),
        content(
            "user",
            {
                "functionResponse": {
                    "id": "a",
                    "name": "f",
                    "response": {"output": "see"},
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}],
                }
            },
        ),
    )
    back, _ = to_gemini(from_gemini(body))
    assert back["contents"][2]["parts"][0] == body["contents"][2]["parts"][0]


# --- reasoning ---------------------------------------------------------------------------------


STAND_IN = "context_engineering_is_the_way_to_go"


@pytest.mark.parametrize("model", ["gemini-3-pro", "models/gemini-3.7-flash"])
def test_the_first_foreign_call_of_each_step_is_signed_and_told_once(model):
    step = (called(call("a", "f"), call("b", "g")), answer("a", "1"), answer("b", "2"))
    later = (called(call("c", "f")), answer("c", "3"))
    rendered = translate(chat(ASK, *step, *later), source=CHAT, target=NAME, model=model)
    signed = json.loads(rendered.body)
    signatures = [
        part.get("thoughtSignature")
        for index in (1, 3)
        for part in signed["contents"][index]["parts"]
    ]
    assert signatures == [STAND_IN, None, STAND_IN]
    assert [(loss.code, loss.path) for loss in rendered.losses] == [
        ("SIGNATURE_STANDIN", "messages[1].tool_calls[0]")
    ]


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "gpt-5.5", None])
def test_a_model_that_wants_no_signatures_or_is_not_known_gets_none(model):
    body = chat(ASK, called(call("a", "f")), answer("a", "1"))
    assert "thoughtSignature" not in json.dumps(to_gemini(body, model)[0])


def test_a_step_more_is_signed_without_being_told_again():
    body = chat(ASK, called(call("a", "f")), answer("a", "1"))
    request = normalize_request(body, CHAT).replace(model="gemini-3-pro")
    nativize_request(request, NAME)
    made = normalize_request(chat(called(call("b", "f")), answer("b", "2")), CHAT).conversation
    for _ in range(2):
        request = request.replace(conversation=request.conversation.append(*made))
        rendered = nativize_request(request, NAME)
        made = normalize_request(chat(called(call("c", "f")), answer("c", "2")), CHAT).conversation
    assert rendered.body.count(STAND_IN.encode()) == 3
    assert [loss.code for loss in rendered.losses] == ["SIGNATURE_STANDIN"]


@pytest.mark.parametrize("source", [CHAT, "anthropic_messages"])
def test_an_answer_needs_no_stand_in(source):
    asked = {"role": "assistant", "content": None, "tool_calls": [call("a", "f")]}
    choice = {"index": 0, "message": asked, "finish_reason": "tool_calls", "logprobs": None}
    answered = {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}
    if source != CHAT:
        answered = json.loads(translate(answered, source=CHAT, target=source, kind="response").body)
    rendered = translate(answered, source=source, target=NAME, kind="response")
    assert b"functionCall" in rendered.body
    assert b"thoughtSignature" not in rendered.body


@pytest.mark.parametrize("target", [CHAT, "anthropic_messages", "openai_responses"])
@pytest.mark.parametrize("stand_in", [STAND_IN, "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="])
def test_a_stand_in_is_no_signature_that_anybody_misses(target, stand_in):
    body = said(
        content("user", {"text": "q"}),
        content(
            "model",
            {"functionCall": {"id": "a", "name": "f", "args": {}}, "thoughtSignature": stand_in},
        ),
        content("user", {"functionResponse": {"id": "a", "name": "f", "response": {"n": 1}}}),
    )
    body["generationConfig"] = {"maxOutputTokens": 64}
    rendered = translate(body, source=NAME, target=target, model="m", policy="strict")
    assert [(loss.code, loss.path) for loss in rendered.losses] == [
        ("STANDIN_DROPPED", "contents[1].parts[0].thoughtSignature")
    ]


def test_signatures_go_back_to_the_family_that_made_them_and_nowhere_else():
    answered = {
        "candidates": [
            {
                "content": content(
                    "model",
                    {"text": "hm", "thought": True, "thoughtSignature": "c2lnMQ=="},
                    {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2lnMg=="},
                )
            }
        ],
        "modelVersion": "gemini-3-pro-preview",
    }
    found = normalize_response(answered, NAME)
    request = normalize_request(said(content("user", {"text": "q"})), NAME)
    request = request.replace(conversation=request.conversation + found.canisters, source=None)

    def written(model: str) -> tuple[str, list[str]]:
        rendered = nativize_request(request.replace(model=model), NAME)
        return rendered.body.decode(), [loss.code for loss in rendered.losses]

    same, none = written("gemini-3-pro")
    assert "c2lnMQ==" in same
    assert "c2lnMg==" in same
    assert none == []
    other, lost = written("gemini-2.5-flash")
    assert "c2ln" not in other
    assert lost == ["SIGNATURE_DROPPED", "SIGNATURE_DROPPED"]
    abroad = nativize_request(request, CHAT)
    assert b"c2ln" not in abroad.body
    assert {loss.code for loss in abroad.losses} >= {"SIGNATURE_DROPPED", "REASONING_DROPPED"}


def test_thoughts_never_become_answer_text():
    thought = {"role": "assistant", "reasoning_content": "secret", "content": "open"}
    body, _ = to_gemini(chat(ASK, thought, ASK))
    assert body["contents"][1]["parts"] == [{"text": "secret", "thought": True}, {"text": "open"}]
    assert "secret" not in json.dumps(from_gemini(body))


# --- turns and content -------------------------------------------------------------------------


def test_leading_system_texts_are_the_instruction_and_a_late_one_keeps_its_place():
    body, rendered = to_gemini(
        chat(
            {"role": "system", "content": "A"},
            {"role": "developer", "content": "B"},
            ASK,
            {"role": "assistant", "content": "a"},
            {"role": "system", "content": "late"},
            ASK,
        )
    )
    assert body["systemInstruction"] == {"parts": [{"text": "A"}, {"text": "B"}]}
    assert body["contents"][2]["parts"] == [
        {"text": "<system-message>\nlate\n</system-message>"},
        {"text": "q"},
    ]
    assert "RANK_LOWERED" in [loss.code for loss in rendered.losses]


def test_a_supervisor_added_at_home_is_folded_into_its_place():
    request = normalize_request(said(content("user", {"text": "q"})), NAME)
    late = SupervisorCanisterClass(TextualContentClass("late"))
    more = request.replace(conversation=request.conversation.append(late, user("r")))
    texts = [
        one["parts"][0]["text"] for one in json.loads(nativize_request(more, NAME).body)["contents"]
    ]
    assert texts == ["q", "<system-message>\nlate\n</system-message>", "r"]


def test_two_users_in_a_row_become_parts_of_one_content():
    body, _ = to_gemini(chat(ASK, {"role": "user", "content": "r"}))
    assert body["contents"] == [content("user", {"text": "q"}, {"text": "r"})]


def test_a_leading_assistant_gets_a_placeholder_and_a_trailing_one_a_user_turn():
    body, rendered = to_gemini(chat({"role": "assistant", "content": "a"}))
    assert [one["role"] for one in body["contents"]] == ["user", "model", "user"]
    assert [repair.name for repair in rendered.repairs] == ["first_user", "prefill"]
    older, _ = to_gemini(chat({"role": "assistant", "content": "a"}), "gemini-1.5-pro")
    assert [one["role"] for one in older["contents"]] == ["user", "model"]


def test_a_turn_of_which_nothing_can_be_said_stays_valid():
    audio = {"role": "assistant", "audio": {"id": "audio_1"}}
    body, rendered = to_gemini(chat(ASK, audio, ASK))
    assert body["contents"][1] == content("model", {"text": "[audio omitted]"})
    assert [loss.code for loss in rendered.losses] == ["REFERENCE_UNRESOLVABLE"]


def test_a_wrong_media_type_is_corrected_and_a_pdf_is_no_image():
    url = "data:image/jpg;base64,iVBORw0KGgo="
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    body, rendered = to_gemini(chat(image))
    assert body["contents"][0]["parts"][0]["inlineData"]["mimeType"] == "image/png"
    assert [repair.name for repair in rendered.repairs] == ["media_types"]
    pdf = said(content("user", {"inlineData": {"mimeType": "image/png", "data": "JVBERi0xLjQK"}}))
    assert from_gemini(pdf)["messages"][0]["content"][0]["type"] == "file"


def test_files_of_an_account_are_references_and_public_urls_are_not():
    uris = {
        "https://generativelanguage.googleapis.com/v1beta/files/abc": "file",
        "gs://bucket/x.pdf": "file",
        "https://www.youtube.com/watch?v=x": "url",
        "https://example.com/x.png": "url",
    }
    parts = [{"fileData": {"fileUri": uri}} for uri in uris]
    found = read(said(content("user", *parts)))
    assert [one.content.payload.kind for one in found] == list(uris.values())
    assert [one.content.kind for one in found] == ["file", "file", "video", "image"]
    losses = translate(said(content("user", *parts)), source=NAME, target=CHAT).losses
    assert [loss.code for loss in losses].count("REFERENCE_UNRESOLVABLE") == 2


# --- settings ----------------------------------------------------------------------------------


def test_the_name_of_a_format_is_told_when_it_is_lost():
    schema = {"name": "weather_report", "schema": {"type": "object"}}
    wanted = {"type": "json_schema", "json_schema": schema}
    _, rendered = to_gemini(chat(ASK, response_format=wanted))
    assert [(loss.code, loss.severity, loss.path) for loss in rendered.losses] == [
        ("FORMAT_NAME_DROPPED", "info", "response_format")
    ]


def test_settings_both_ways():
    settings = {
        "max_completion_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["x"],
        "seed": 3,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "n": 2,
        "reasoning_effort": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": {"type": "object"}},
        },
    }
    body, rendered = to_gemini(chat(ASK, **settings))
    assert body["generationConfig"] == {
        "maxOutputTokens": 9,
        "temperature": 0.5,
        "topP": 0.9,
        "stopSequences": ["x"],
        "seed": 3,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "candidateCount": 2,
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
        "thinkingConfig": {"thinkingLevel": "LOW"},
    }
    assert rendered.losses == ()
    back = from_gemini(body)
    assert {key: back[key] for key in settings} == settings
    budget, _ = to_gemini(chat(ASK, reasoning_effort="low"), "gemini-2.5-pro")
    assert budget["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 2048}


def test_settings_that_gemini_lacks_are_named():
    body = chat(
        ASK, parallel_tool_calls=False, user="u", metadata={"a": "b"}, stream=True, seed=2**40
    )
    written, rendered = to_gemini(body)
    assert written == said(content("user", {"text": "q"}))
    assert [loss.code for loss in rendered.losses] == ["CONTROL_DROPPED"] * 4


@pytest.mark.parametrize(
    "choice,config",
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (
            {"type": "function", "function": {"name": "f"}},
            {"mode": "ANY", "allowedFunctionNames": ["f"]},
        ),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "f"}}],
                },
            },
            {"mode": "VALIDATED", "allowedFunctionNames": ["f"]},
        ),
    ],
)
def test_tool_choice_both_ways(choice, config):
    schema = {"type": "object", "properties": {}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    body, _ = to_gemini(chat(ASK, tools=tools, tool_choice=choice))
    assert body["toolConfig"] == {"functionCallingConfig": config}
    assert body["tools"] == [
        {"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}]}
    ]
    assert from_gemini(body)["tool_choice"] == choice
    assert from_gemini(body)["tools"] == tools


def test_schemas_in_capitals_are_json_schema_abroad():
    own = {
        "type": "OBJECT",
        "properties": {
            "type": {"type": "STRING", "nullable": True},
            "max_items": {"type": "ARRAY", "items": {"type": "INTEGER"}, "max_items": "5"},
        },
    }
    tools = [{"function_declarations": [{"name": "f", "parameters": own}]}, {"googleSearch": {}}]
    rendered = translate(
        said(content("user", {"text": "q"}), tools=tools), source=NAME, target=CHAT
    )
    assert json.loads(rendered.body)["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "type": {"type": ["string", "null"]},
            "max_items": {"type": "array", "items": {"type": "integer"}, "maxItems": 5},
        },
    }
    assert "TOOL_DROPPED" in [loss.code for loss in rendered.losses]


# --- answers -----------------------------------------------------------------------------------


def test_stop_with_calls_means_tools_and_thoughts_count_as_output():
    body = {
        "candidates": [
            {"content": content("model", {"functionCall": {"name": "f"}}), "finishReason": "STOP"}
        ],
        "usageMetadata": {
            "promptTokenCount": 5,
            "candidatesTokenCount": 2,
            "thoughtsTokenCount": 3,
            "cachedContentTokenCount": 4,
        },
    }
    response: Any = normalize_response(body, NAME)
    assert response.finish.value == "tool"
    assert (response.usage.input, response.usage.output) == (5, 5)
    assert (response.usage.reasoning, response.usage.cache_read) == (3, 4)
    abroad = json.loads(nativize_response(response, CHAT).body)
    assert abroad["choices"][0]["finish_reason"] == "tool_calls"


def test_a_blocked_prompt_is_a_filtered_answer():
    response: Any = normalize_response({"promptFeedback": {"blockReason": "SAFETY"}}, NAME)
    assert response.finish.value == "filter"
    assert not response.canisters

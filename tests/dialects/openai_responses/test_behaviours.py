"""What must hold when requests come to Responses or leave it, named after what breaks elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cannery.errors import DialectError, LossError, RoleError
from cannery.messages import (
    AudioContentClass,
    Conversation,
    FileContentClass,
    ImageContentClass,
    Location,
    Request,
    Residue,
    Role,
    Tool,
    assistant,
    document,
    invocation,
    result,
    supervisor,
    user,
)
from cannery.messages.requests import Controls, OutputFormat, Thinking, ToolChoice
from cannery.translation import nativize_request, normalize_request, translate

NAME = "openai_responses"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8


def from_chat(*messages, **fields):
    body = {"model": "m", "messages": list(messages), **fields}
    return translate(body, source="openai_chat", target=NAME)


def to_chat(*items, **fields):
    body = {"model": "m", "input": list(items), **fields}
    rendered = translate(body, source=NAME, target="openai_chat")
    return json.loads(rendered.body), [loss.code for loss in rendered.losses]


def nativized(*canisters: Any, **fields: Any) -> tuple[Any, list[str]]:
    rendered = nativize_request(Request(Conversation(canisters), model="m", **fields), NAME)
    return json.loads(rendered.body), [loss.code for loss in rendered.losses]


def call(identifier, **fields):
    return {
        "type": "function_call",
        "call_id": identifier,
        "name": "f",
        "arguments": "{}",
        **fields,
    }


def output(identifier, text="ok"):
    return {"type": "function_call_output", "call_id": identifier, "output": text}


# --- roles ---------------------------------------------------------------------------------------


def test_instructions_and_developer_message_are_told_apart():
    messages, _ = to_chat(
        {"role": "developer", "content": "D"}, {"role": "user", "content": "u"}, instructions="I"
    )

    assert [message["role"] for message in messages["messages"]] == ["system", "developer", "user"]


def test_the_first_system_message_becomes_the_instructions_and_others_stay_items():
    body = json.loads(
        from_chat(
            {"role": "system", "content": "S"},
            {"role": "developer", "content": "D"},
            {"role": "user", "content": "q"},
            {"role": "system", "content": "late"},
        ).body
    )

    assert body["instructions"] == "S"
    assert [item["role"] for item in body["input"]] == ["developer", "user", "system"]


def test_a_leading_developer_message_is_not_overtaken_by_a_system_message():
    body = json.loads(
        from_chat(
            {"role": "developer", "content": "D"},
            {"role": "system", "content": "S"},
            {"role": "user", "content": "q"},
        ).body
    )

    assert "instructions" not in body
    assert [item["role"] for item in body["input"]] == ["developer", "system", "user"]


def test_a_request_of_only_a_system_message_has_input():
    body = json.loads(from_chat({"role": "system", "content": "S"}).body)

    assert body["input"] == [{"role": "system", "content": "S"}]


def test_a_system_text_with_a_cache_mark_stays_an_item():
    marked = supervisor("S").replace(residue=Residue("anthropic_messages", cache="long"))

    body, _ = nativized(marked, user("q"))

    mark = {"mode": "explicit", "ttl": "12h"}
    part = {"type": "input_text", "text": "S", "prompt_cache_breakpoint": mark}
    assert body["input"][0] == {"role": "system", "content": [part]}


def test_neighbours_of_the_same_role_stay_apart():
    body, _ = nativized(user("a"), user("b"), assistant("c"), assistant("d"))

    assert [item["content"] for item in body["input"]] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("role", ["admin", "root", "tool", "", 5, None])
def test_a_role_that_is_none_is_refused_with_its_place(role):
    with pytest.raises(DialectError) as refused:
        normalize_request({"model": "m", "input": [{"role": role, "content": "x"}]}, NAME)

    assert "role" in refused.value.path
    assert role == "tool" or isinstance(refused.value, RoleError)


# --- tools ---------------------------------------------------------------------------------------


def test_a_call_without_output_gets_the_same_error_output_every_time():
    chat = {
        "role": "assistant",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}],
    }
    first, second = (from_chat({"role": "user", "content": "q"}, chat) for _ in range(2))

    items = json.loads(first.body)["input"]
    assert first.body == second.body
    assert items[1]["arguments"] == "{}"
    assert items[2]["call_id"] == "a"
    assert items[2]["output"].startswith("[tool error] [no result")
    assert [repair.name for repair in first.repairs] == ["unanswered_calls"]


def test_an_output_without_call_becomes_user_text():
    body, codes = nativized(user("q"), result("ghost", "42"))

    assert body["input"][1]["role"] == "user"
    assert "42" in body["input"][1]["content"]
    assert codes == ["RESULT_TO_TEXT"]


def test_calls_with_a_message_between_their_outputs_become_one_turn_elsewhere():
    x = {"role": "user", "content": "x"}
    messages, _ = to_chat(call("c1"), call("c2"), output("c1"), x, output("c2"))

    assert [m["role"] for m in messages["messages"]] == ["assistant", "tool", "tool", "user"]
    assert [m.get("tool_call_id") for m in messages["messages"]] == [None, "c1", "c2", None]


def test_a_call_id_that_is_too_long_is_rewritten_on_both_sides():
    body, _ = nativized(invocation("x" * 65, "f"), result("x" * 65, "ok"))

    first, second = body["input"]
    assert first["call_id"] == second["call_id"]
    assert len(first["call_id"]) <= 64


def test_a_forbidden_function_name_is_rewritten_in_calls_tools_and_choice():
    tool = Tool("a.b", schema={"type": "object"})
    choice = ToolChoice("named", ("a.b",))
    body, _ = nativized(
        invocation("c", "a.b"), result("c", "ok"), tools=(tool,), tool_choice=choice
    )

    names = {body["input"][0]["name"], body["tools"][0]["name"], body["tool_choice"]["name"]}
    assert len(names) == 1
    assert "." not in names.pop()


@pytest.mark.parametrize("arguments", ["", "{", "[1]", '{"n": 1.0}', "null"])
def test_argument_text_is_not_touched(arguments):
    body, codes = nativized(invocation("c", "f", arguments), result("c", "ok"))

    assert body["input"][0]["arguments"] == (arguments or "{}")
    assert codes == []


def test_arguments_as_an_object_are_read():
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": {"n": 1}}
    request = normalize_request({"model": "m", "input": [item]}, NAME)

    call_read: Any = request.conversation[0]
    assert call_read.arguments == {"n": 1}
    assert json.loads(nativize_request(request, NAME).body)["input"] == [item]


def test_a_custom_tool_keeps_its_text_and_its_kind():
    body, codes = nativized(
        invocation("c", "sql", "select 1", is_freeform=True),
        result("c", "1"),
        tools=(Tool("sql", is_freeform=True, grammar={"type": "text"}),),
        tool_choice=ToolChoice("named", ("sql",)),
    )

    assert [item["type"] for item in body["input"]] == [
        "custom_tool_call",
        "custom_tool_call_output",
    ]
    assert body["input"][0]["input"] == "select 1"
    assert body["tools"] == [{"type": "custom", "name": "sql", "format": {"type": "text"}}]
    assert body["tool_choice"] == {"type": "custom", "name": "sql"}
    assert codes == []


@pytest.mark.parametrize("said", ["boom", ""])
def test_an_error_flag_is_said_in_the_text_and_read_back(said):
    body, codes = nativized(invocation("c", "f"), result("c", said, error=True))

    assert codes == ["ERROR_FLAG_TO_TEXT"]
    again = normalize_request(body, NAME)
    answer: Any = again.conversation[1]
    assert answer.is_error
    assert answer.text == said
    assert json.loads(nativize_request(again, NAME).body) == body


def test_success_gains_no_error_flag():
    answer: Any = normalize_request(
        {"model": "m", "input": [call("c"), output("c")]}, NAME
    ).conversation[1]

    assert not answer.is_error


def test_media_of_a_tool_result_stay_in_it():
    url = "data:image/png;base64,iVBORw0KGgo="
    parts = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": url}]
    item = {"type": "function_call_output", "call_id": "c", "output": parts}
    request = normalize_request({"model": "m", "input": [call("c"), item]}, NAME)
    rendered = nativize_request(request.replace(source=None, residue=None), NAME)

    assert json.loads(rendered.body)["input"][1]["output"] == parts
    assert rendered.losses == ()


def test_an_empty_or_missing_output_is_kept():
    items = [call("a"), output("a", ""), call("b"), {**output("b"), "output": []}]
    request = normalize_request({"model": "m", "input": items}, NAME)

    answers: Any = request.conversation.by_role(Role.Result)
    assert [answer.text for answer in answers] == ["", ""]


def test_a_hosted_item_is_no_work_for_the_client_and_no_orphan():
    hosted = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}
    said = {"role": "assistant", "content": "found"}
    asked = {"role": "user", "content": "q"}
    messages, codes = to_chat(asked, hosted, said, asked)

    assert [m["role"] for m in messages["messages"]] == ["user", "assistant", "user"]
    assert "tool_calls" not in messages["messages"][1]
    assert codes == ["OPAQUE_DROPPED"]


@pytest.mark.parametrize(
    "choice, written",
    [
        (ToolChoice("none"), "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice("named", ("f",)), {"type": "function", "name": "f"}),
        (
            ToolChoice("allowed", ("f",), must_call=True),
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}],
            },
        ),
    ],
)
def test_tool_choice_keeps_its_meaning(choice, written):
    tool = Tool("f", schema={"type": "object"}, strict=True)
    body, codes = nativized(
        user("q"), tools=(tool,), tool_choice=choice, controls=Controls(parallel_calls=False)
    )

    assert body["tool_choice"] == written
    assert body["parallel_tool_calls"] is False
    assert body["tools"][0]["strict"] is True
    assert codes == []
    assert normalize_request(body, NAME).tool_choice == choice


def test_a_tool_that_is_not_strict_elsewhere_does_not_become_strict():
    body, _ = nativized(user("q"), tools=(Tool("f"),))

    assert body["tools"][0]["strict"] is False


# --- content -------------------------------------------------------------------------------------


def test_text_parts_of_the_model_are_joined_with_nothing_between():
    body, _ = nativized(
        user("q"), assistant("foo"), assistant("bar").replace(joined=True), user("r")
    )

    assert body["input"][1] == {"role": "assistant", "content": "foobar"}


def test_a_pdf_is_never_an_image():
    pdf = ImageContentClass(b"%PDF-1.4 x", "image/png")
    body, _ = nativized(user(pdf))

    part = body["input"][0]["content"][0]
    assert part["type"] == "input_file"
    assert part["file_data"].startswith("data:application/pdf;base64,")


def test_a_wrong_media_type_is_corrected_from_the_bytes():
    request = Request((user(ImageContentClass(PNG, "image/jpg")),), model="m")
    rendered = nativize_request(request, NAME)

    part = json.loads(rendered.body)["input"][0]["content"][0]
    assert part["image_url"].startswith("data:image/png;base64,")
    assert [repair.name for repair in rendered.repairs] == ["media_types"]


def test_a_document_keeps_its_title_and_reports_what_has_no_place():
    paper = FileContentClass(b"text", "text/plain", name="T", context="C", citable=True)
    body, codes = nativized(user(paper))

    part = body["input"][0]["content"][0]
    assert (part["type"], part["filename"]) == ("input_file", "T")
    assert codes == ["FIELD_DROPPED", "FIELD_DROPPED"]


def test_a_document_canister_is_supplemental_text():
    body, codes = nativized(document("words", title="T"), user("q"))

    assert body["input"][0]["content"] == "## Supplemental Information ##\n\nT\n\nwords"
    assert codes == ["DOCUMENT_TO_TEXT"]


def test_another_providers_file_id_is_not_sent():
    body, codes = nativized(user(FileContentClass(Location("file", "f-1"))), user("q"))

    assert body["input"][0]["content"] == "[file omitted]"
    assert codes == ["REFERENCE_UNRESOLVABLE"]


def test_a_turn_of_sound_alone_stays_a_turn():
    body, codes = nativized(user(AudioContentClass(b"RIFF....WAVE", "audio/wav")))

    assert body["input"] == [{"role": "user", "content": "[audio omitted]"}]
    assert codes == ["MEDIA_DROPPED"]


def test_a_refusal_from_elsewhere_is_said_in_words():
    rendered = from_chat(
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "user", "content": "why"},
    )

    assert json.loads(rendered.body)["input"][1] == {"role": "assistant", "content": "No."}
    assert [loss.code for loss in rendered.losses] == ["REFUSAL_TO_TEXT"]


def test_more_cache_marks_than_allowed_lose_the_earliest():
    mark = Residue("anthropic_messages", cache="short")
    body, codes = nativized(*(user(str(n)).replace(residue=mark) for n in range(6)))

    marked = ["prompt_cache_breakpoint" in str(item["content"]) for item in body["input"]]
    assert marked == [False, False, True, True, True, True]
    assert codes == ["CACHE_MARK_DROPPED"] * 2


def test_a_trailing_assistant_turn_is_reported():
    body, codes = nativized(user("q"), assistant("The answer is"))

    assert body["input"][-1] == {"role": "assistant", "content": "The answer is"}
    assert codes == ["PREFILL_DROPPED"]


def test_settings_that_are_not_there_are_named():
    controls = Controls(stop=("x",), seed=1, top_k=2, presence_penalty=0.1, candidates=2)
    rendered = nativize_request(Request((user("q"),), model="m", controls=controls), NAME)

    assert {loss.path for loss in rendered.losses} == {
        "stop",
        "seed",
        "top_k",
        "presence_penalty",
        "candidates",
    }


def test_settings_survive_in_both_directions():
    controls = Controls(
        max_tokens=64,
        temperature=0.5,
        top_p=0.9,
        output=OutputFormat("schema", '{"type":"object"}', "shape", strict=True),
        thinking=Thinking(effort="low", summary="auto"),
        metadata='{"k":"v"}',
        user="u",
    )
    body, codes = nativized(user("q"), controls=controls)

    assert codes == []
    assert body["text"]["format"]["name"] == "shape"
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert normalize_request(body, NAME).controls == controls


def test_the_strict_policy_refuses_a_loss():
    with pytest.raises(LossError):
        nativize_request(
            Request((user("q"),), model="m", controls=Controls(seed=1)), NAME, policy="strict"
        )

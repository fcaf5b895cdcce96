"""Reasoning items, their payloads, and the items that belong to them."""

from __future__ import annotations

import json

from cannery.messages import Origin, ReasoningContentClass, Request, assistant, user
from cannery.translation import nativize_request, normalize_request, normalize_response, translate

NAME = "openai_responses"
BODY = {
    "model": "gpt-5.5",
    "input": [
        {"role": "user", "content": "weather?"},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Need the tool."}],
            "encrypted_content": "gAAA",
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "function_call_output", "call_id": "c2", "output": "2"},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "final_answer",
            "content": [{"type": "output_text", "text": "Warm.", "annotations": []}],
        },
        {"role": "user", "content": "thanks"},
    ],
}


def written(request, **changes):
    rendered = nativize_request(request.replace(**changes), NAME)
    return json.loads(rendered.body)["input"], [loss.code for loss in rendered.losses]


def test_followers_lose_their_ids_with_their_reasoning_item():
    request = normalize_request(BODY, NAME)

    items, _ = written(request, conversation=request.conversation.without(1))

    calls = [item for item in items if item.get("type") == "function_call"]
    assert [call.get("id") for call in calls] == [None, None]
    assert [item for item in items if item.get("id") == "msg_1"]


def test_a_message_without_its_reasoning_item_loses_its_id_and_nothing_else():
    annotation = {
        "type": "url_citation",
        "url": "u",
        "title": "t",
        "start_index": 0,
        "end_index": 1,
    }
    said = {"type": "output_text", "text": "Warm.", "annotations": [annotation], "logprobs": []}
    refusal = {"type": "refusal", "refusal": "no"}
    message = {**BODY["input"][7], "x_new": 1, "content": [{**said, "x_new": 1}, refusal]}
    body = {**BODY, "input": [*BODY["input"][:7], message, BODY["input"][8]]}
    request = normalize_request(body, NAME)

    items, codes = written(request, conversation=request.conversation.without(6))

    assert items[6] == {key: item for key, item in message.items() if key != "id"}
    assert codes == []
    assert [item.get("id") for item in items[1:4]] == ["rs_1", "fc_1", "fc_2"]


def test_a_message_of_a_string_without_its_reasoning_item_loses_its_id_and_nothing_else():
    message = {"role": "assistant", "id": "msg_1", "phase": "commentary", "content": "Warm."}
    body = {**BODY, "input": [*BODY["input"][:7], message]}
    request = normalize_request(body, NAME)

    items, codes = written(request, conversation=request.conversation.without(6))

    assert items[6] == {"role": "assistant", "phase": "commentary", "content": "Warm."}
    assert codes == []


def test_reasoning_without_its_follower_is_not_sent():
    request = normalize_request(BODY, NAME)

    items, codes = written(request, conversation=request.conversation.without(7))

    assert "rs_2" not in [item.get("id") for item in items]
    assert "REASONING_DROPPED" in codes


def test_reasoning_that_stood_alone_stays():
    body = {"model": "m", "input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}

    items, codes = written(normalize_request(body, NAME))

    assert items == body["input"]
    assert codes == []


def test_payload_goes_back_to_the_same_family_of_models_only():
    request = normalize_request(BODY, NAME)

    kept, _ = written(request, model="gpt-5.5-2026-03-05")
    dropped, codes = written(request, model="o3-mini")

    assert kept == BODY["input"]
    assert not any(item.get("type") == "reasoning" for item in dropped)
    assert not any("id" in item for item in dropped)
    assert {"REASONING_DROPPED", "SIGNATURE_DROPPED"} <= set(codes)


def test_an_answer_goes_back_with_its_payload_in_the_next_request():
    answer = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-5.5",
        "output": BODY["input"][6:8],
    }
    said = normalize_response(answer, NAME).canisters
    request = Request((user("hi"), *said, user("more")), model="gpt-5.5")

    assert json.loads(nativize_request(request, NAME).body)["input"][1:3] == answer["output"]


def test_foreign_reasoning_is_dropped_and_no_id_is_made_up():
    thought = ReasoningContentClass("hm", signature="sig", origin=Origin("anthropic_messages"))
    request = Request((user("q"), assistant(thought), assistant("a"), user("b")), model="m")

    rendered = nativize_request(request, NAME)

    assert json.loads(rendered.body)["input"][1] == {"role": "assistant", "content": "a"}
    assert {loss.code for loss in rendered.losses} == {"REASONING_DROPPED", "SIGNATURE_DROPPED"}
    assert b"hm" not in rendered.body
    assert b"sig" not in rendered.body


def test_reasoning_and_its_follower_are_one_turn_elsewhere():
    rendered = translate(BODY, source=NAME, target="openai_chat")

    roles = [message["role"] for message in json.loads(rendered.body)["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert "REASONING_DROPPED" in {loss.code for loss in rendered.losses}

"""A stream that goes home loses nothing, and one that is folded is the history that the whole answer would be."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from cannery.messages import Failure, FinishReason, fold
from cannery.messages.events import Delta
from cannery.wire.contract import StreamOptions
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.behaviours.test_odd_streams import chat, chunk, events, gemini, named, translated
from tests.conformance.matrix import DIALECTS
from tests.oracles.sdk_streams import parse_stream
from tests.oracles.sse import frames

CITED = {
    "type": "char_location",
    "cited_text": "a",
    "document_index": 0,
    "document_title": "D",
    "start_char_index": 0,
    "end_char_index": 1,
    "file_id": "file_1",
}


def claude(*blocks: tuple[dict[str, Any], ...], stop: str = "end_turn", **ending: Any) -> bytes:
    """Each block with its deltas behind it."""
    usage = {"input_tokens": 3, "output_tokens": 1, "service_tier": "standard"}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-8"}
    told: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "usage": usage}}
    ]
    for index, (block, *deltas) in enumerate(blocks):
        told.append({"type": "content_block_start", "index": index, "content_block": block})
        told += [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        told.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": stop, "stop_sequence": None, **ending}
    counts = {"output_tokens": 9, "server_tool_use": {"web_search_requests": 1}}
    told.append({"type": "message_delta", "delta": delta, "usage": counts})
    return named(*told, {"type": "message_stop"})


def answer(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    head = {"id": "r", "object": "response", "created_at": 1, "model": "gpt-5.5"}
    settings = {"temperature": 0.5, "reasoning": {"effort": "low"}, "tools": [], "new": {"a": 1}}
    return {**head, "status": "completed", "output": list(items), **settings, **fields}


def responses(whole: dict[str, Any]) -> bytes:
    """The events of an answer; texts come in one delta."""
    told: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "output": [], "status": "in_progress"}}
    ]
    for index, item in enumerate(whole["output"]):
        parts = item.get("content", [])
        shown = {**item, "content": []} if parts else item
        told.append({"type": "response.output_item.added", "output_index": index, "item": shown})
        for position, part in enumerate(parts):
            place = {"item_id": item["id"], "output_index": index, "content_index": position}
            empty = {**part, "text": ""} if "text" in part else part
            told.append({"type": "response.content_part.added", **place, "part": empty})
            if "text" in part:
                told.append({"type": "response.output_text.delta", **place, "delta": part["text"]})
            told.append({"type": "response.content_part.done", **place, "part": part})
        told.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return named(*told, {"type": f"response.{whole['status']}", "response": whole})


def said(text: str, identifier: str = "msg_1") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": identifier, "type": "message", "status": "completed", "role": "assistant"}
    return {**message, "content": [part]}


def final(data: bytes, dialect: str) -> dict[str, Any]:
    """What the official parser makes of a stream that has been home."""
    options = StreamOptions(include_usage=True)
    written = cannery.translate_stream([data], source=dialect, target=dialect, options=options)
    return parse_stream(dialect, list(written)).final


# --- at home -------------------------------------------------------------------------------------


def test_words_of_their_own_for_the_end_come_home():
    odd = chat(chunk({"content": "x"}), chunk({}, "eos"))
    assert final(odd, CHAT)["choices"][0]["finish_reason"] == "eos"
    text = ({"type": "text", "text": "x"},)
    for word in ("refusal", "compaction", "pause_turn", "brand_new"):
        assert final(claude(text, stop=word), CLAUDE)["stop_reason"] == word
    for word in ("RECITATION", "SPII", "MALFORMED_FUNCTION_CALL", "LANGUAGE"):
        data = gemini({"text": "x"}, finish=word)
        assert final(data, GEMINI)["candidates"][0]["finishReason"] == word
    for word in ("max_output_tokens", "max_messages", "steered"):
        why = {"status": "incomplete", "incomplete_details": {"reason": word}}
        ended = final(responses(answer(said("x"), **why)), RESPONSES)
        assert (ended["status"], ended["incomplete_details"]) == ("incomplete", {"reason": word})


def test_what_is_said_beside_the_end_comes_home():
    details = {"type": "refusal", "category": "cyber", "explanation": "no"}
    told = final(claude(({"type": "text", "text": "x"},), stop_details=details), CLAUDE)
    assert told["stop_details"] == details
    assert told["usage"]["server_tool_use"] == {"web_search_requests": 1}
    assert told["usage"]["service_tier"] == "standard"


def test_settings_of_an_answer_come_home():
    whole = answer(said("x"))
    assert final(responses(whole), RESPONSES).items() >= whole.items()


def test_the_time_of_the_last_line_comes_home():
    said = {"role": "assistant", "content": "a"}
    first = {"model": "m", "created_at": "2026-01-01T10:00:00Z", "message": said, "done": False}
    ended = {"created_at": "2026-01-01T10:00:04Z", "done_reason": "stop", "done": True}
    given = "".join(json.dumps(line) + "\n" for line in (first, {**first, **ended})).encode()
    written = b"".join(cannery.translate_stream([given], source="ollama", target="ollama"))
    assert json.loads(written.splitlines()[-1])["created_at"] == "2026-01-01T10:00:04Z"


def test_words_beside_the_choices_come_home():
    tier = {"service_tier": "default", "system_fingerprint": "fp_1"}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    counts = {**usage, "prompt_tokens_details": {"audio_tokens": 4}}
    data = chat({**chunk({"content": "x"}, "stop"), **tier}, {**chunk({}), "usage": counts})
    told = final(data, CHAT)
    assert told.items() >= tier.items()
    assert told["usage"] == counts


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_of_chat_come_home_in_their_own_field(field: str):
    data = chat(chunk({field: "hm"}), chunk({field: "m"}), chunk({"content": "x"}, "stop"))
    assert final(data, CHAT)["choices"][0]["message"][field] == "hmm"


def test_thoughts_in_both_fields_come_home_in_both():
    data = chat(
        chunk({"reasoning": "hm", "reasoning_content": "hm"}), chunk({"content": "x"}, "stop")
    )
    message = final(data, CHAT)["choices"][0]["message"]
    assert (message["reasoning"], message["reasoning_content"]) == ("hm", "hm")


def test_a_legacy_call_comes_home_as_one():
    call = [{"function_call": {"name": "f", "arguments": ""}}]
    call += [{"function_call": {"arguments": words}} for words in ('{"a"', ":1}")]
    data = chat(*map(chunk, call), chunk({}, "function_call"))
    choice = final(data, CHAT)["choices"][0]
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"] == {"name": "f", "arguments": '{"a":1}'}
    assert not choice["message"].get("tool_calls")


def test_an_unknown_part_stays_in_its_message():
    whole = answer(said("a"))
    content = whole["output"][0]["content"]
    content[1:] = [{"type": "hologram", "x": 1}, {**content[0], "text": "b"}]
    assert final(responses(whole), RESPONSES)["output"] == whole["output"]


def test_an_unknown_delta_of_a_block_comes_home():
    new = {"type": "color_delta", "color": "red"}
    data = claude(({"type": "text", "text": ""}, {"type": "text_delta", "text": "x"}, new))
    values = [frame.value for frame in frames(translated(data, CLAUDE, CLAUDE))]
    assert {"type": "content_block_delta", "index": 0, "delta": new} in values


def test_a_blocked_prompt_has_no_candidate_at_home():
    told = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}}
    data = b"data: %b\n\n" % json.dumps(told).encode()
    assert "candidates" not in final(data, GEMINI)


def test_a_call_without_arguments_has_none_at_home():
    data = gemini({"functionCall": {"name": "f"}}, finish="STOP")
    assert final(data, GEMINI)["candidates"][0]["content"]["parts"][0] == {
        "functionCall": {"name": "f"}
    }


# --- as history ----------------------------------------------------------------------------------


def as_history(response: Any, target: str) -> dict[str, Any]:
    body = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "q"}]}
    request = cannery.normalize_request(body, CHAT)
    conversation = request.conversation
    for canister in response.canisters:
        conversation = conversation.append(canister)
    rendered = cannery.nativize_request(request.replace(conversation=conversation), target)
    value: dict[str, Any] = json.loads(rendered.body)
    return value


REASONED = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "e"}
SEARCHED = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
CALLED = {"id": "fc_1", "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize(
    "items",
    [
        (REASONED, said("x")),
        (SEARCHED, said("x")),
        (said("x"), SEARCHED, said("y", "msg_2")),
        (CALLED,),
    ],
    ids=["reasoning", "search", "search between", "call"],
)
def test_items_of_a_stream_are_joined_as_in_the_whole(items: tuple[Any, ...], target: str):
    whole = cannery.normalize_response(answer(*items), RESPONSES)
    streamed = fold(cannery.normalize_stream([responses(answer(*items))], RESPONSES))
    assert [one.joined for one in streamed.canisters] == [one.joined for one in whole.canisters]
    assert as_history(streamed, target) == as_history(whole, target)


@pytest.mark.parametrize(
    "message",
    [
        {"content": "x", "reasoning_content": "hm"},
        {"content": None, "refusal": "no"},
        {"content": ""},
    ],
    ids=["thoughts", "refusal", "nothing"],
)
def test_a_chat_stream_is_the_history_of_the_whole(message: dict[str, Any]):
    whole = {**chunk({}), "object": "chat.completion"}
    whole["choices"] = [{"index": 0, "message": {"role": "assistant", **message}}]
    data = chat(*(chunk({key: words}) for key, words in message.items()), chunk({}, "stop"))
    streamed = fold(cannery.normalize_stream([data], CHAT))
    assert as_history(streamed, CHAT) == as_history(cannery.normalize_response(whole, CHAT), CHAT)


def test_the_file_of_a_citation_goes_home_and_stays_out_of_requests():
    cite = {"type": "citations_delta", "citation": CITED}
    text = {"type": "text", "text": "", "citations": []}
    data = claude((text, cite, {"type": "text_delta", "text": "x"}))
    assert final(data, CLAUDE)["content"][0]["citations"] == [CITED]
    sent = as_history(fold(cannery.normalize_stream([data], CLAUDE)), CLAUDE)
    citations = sent["messages"][-1]["content"][0]["citations"]
    assert citations == [{key: item for key, item in CITED.items() if key != "file_id"}]


def test_an_unknown_end_of_chat_is_known_to_be_one():
    whole = {**chunk({}), "object": "chat.completion"}
    message = {"role": "assistant", "content": "x"}
    whole["choices"] = [{"index": 0, "message": message, "finish_reason": "eos"}]
    streamed = fold(cannery.normalize_stream([chat(chunk({"content": "x"}, "eos"))], CHAT))
    assert streamed.finish == cannery.normalize_response(whole, CHAT).finish


# --- abroad --------------------------------------------------------------------------------------


@pytest.mark.parametrize("blank", ["", " \n"])
def test_claude_is_given_no_blank_text(blank: str):
    signed = {"text": blank, "thoughtSignature": "AAAA"}
    data = gemini({"text": "x"}) + gemini(signed, finish="STOP")
    final = parse_stream(CLAUDE, [translated(data, GEMINI, CLAUDE)]).final
    assert [block["text"] for block in final["content"]] == ["x"]


def test_white_space_before_words_is_theirs():
    data = chat(*(chunk({"content": words}) for words in ("\n", " ", "x ", " ")), chunk({}, "stop"))
    final = parse_stream(CLAUDE, [translated(data, CHAT, CLAUDE)]).final
    assert [block["text"] for block in final["content"]] == ["\n x  "]


def test_blocks_that_say_nothing_abroad_do_not_part_a_message():
    searched = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    texts = [({"type": "text", "text": words},) for words in "ab"]
    data = claude(texts[0], (searched,), texts[1])
    final = parse_stream(RESPONSES, [translated(data, CLAUDE, RESPONSES)]).final
    assert [[part["text"] for part in item["content"]] for item in final["output"]] == [
        ["a", "\n\nb"]
    ]


def test_thoughts_that_cannot_be_shown_part_a_message_as_in_the_whole():
    texts = [({"type": "text", "text": words},) for words in "ab"]
    data = claude(texts[0], ({"type": "redacted_thinking", "data": "d"},), texts[1])
    final = parse_stream(RESPONSES, [translated(data, CLAUDE, RESPONSES)]).final
    assert len(final["output"]) == 2


@pytest.mark.parametrize("target", DIALECTS)
def test_content_in_parts_is_said(target: str):
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts = [{"type": "text", "text": "a"}, thought, {"type": "text", "text": "b"}]
    data = chat(chunk({"content": parts}), chunk({"content": "c"}, "stop"))
    written = translated(data, CHAT, target)
    said = fold(cannery.normalize_stream([written], target)).canisters
    assert "".join(one.held for one in said if isinstance(one.held, str)) == "abc"
    assert (b'"thinking"' in written) == (target == CHAT)


@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_the_last_event_of_an_answer_tells_its_status(status: str):
    data = named(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "output_index": 0, "item": said("x")},
        {"type": f"response.{status}", "response": {"id": "r"}},
    )
    expected = {"completed": FinishReason.Stop, "incomplete": FinishReason.Other}
    assert fold(cannery.normalize_stream([data], RESPONSES)).finish is expected[status]


def test_two_refusals_are_joined_with_nothing_between():
    refused = [{"type": "refusal", "refusal": words} for words in ("No", ", never.")]
    items = [{**said(""), "content": [part]} for part in refused]
    rendered = cannery.translate(answer(*items), source=RESPONSES, target=CHAT, kind="response")
    message = json.loads(rendered.body)["choices"][0]["message"]
    assert message["refusal"] == "No, never."


def test_an_answer_to_gemini_says_nothing_that_the_model_did_not():
    searched = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
    rendered = cannery.translate(answer(searched), source=RESPONSES, target=GEMINI, kind="response")
    assert "content" not in json.loads(rendered.body)["candidates"][0]
    assert "OPAQUE_DROPPED" in [loss.code for loss in rendered.losses]


def test_a_message_of_calls_has_no_text():
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    data = claude((call,), stop="tool_use")
    final = parse_stream(CHAT, [translated(data, CLAUDE, CHAT)]).final
    assert final["choices"][0]["message"]["content"] is None


def test_arguments_of_claude_are_told_as_they_come():
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    words = ['{"pa', 'th": "a', '"}']
    pieces = [{"type": "input_json_delta", "partial_json": one} for one in ("", *words)]
    found = events(claude((call, *pieces), stop="tool_use"), CLAUDE)
    assert [event.text for event in found if isinstance(event, Delta)] == words
    wrapped = [
        {"type": "input_json_delta", "partial_json": one} for one in '{"_raw_arguments":"x"}'
    ]
    found = events(claude((call, *wrapped), stop="tool_use"), CLAUDE)
    assert [event.text for event in found if isinstance(event, Delta)] == ["x"]


# --- cut off -------------------------------------------------------------------------------------


CUT = {
    CHAT: chat(chunk({"content": "x"}), chunk({"content": "y"}))[:-30],
    RESPONSES: responses(answer(said("x")))[:-30],
    CLAUDE: claude(({"type": "text", "text": "x"},))[:-60],
    GEMINI: gemini({"text": "x"}) + gemini({"text": "y"})[:-30],
}


@pytest.mark.parametrize("dialect", CUT)
def test_a_stream_that_breaks_off_in_a_frame_is_incomplete(dialect: str):
    found = events(CUT[dialect], dialect)
    assert isinstance(found[-1], Failure)
    assert found[-1].kind == "incomplete"
    for target in DIALECTS:
        assert b"before the answer was complete" in translated(CUT[dialect], dialect, target)


@pytest.mark.parametrize("dialect", CUT)
def test_data_may_be_empty(dialect: str):
    data = {
        CHAT: chat(chunk({"content": "x"}, "stop")),
        RESPONSES: responses(answer(said("x"))),
        CLAUDE: claude(({"type": "text", "text": "x"},)),
        GEMINI: gemini({"text": "x"}, finish="STOP"),
    }[dialect]
    assert events(b"data:\n\n" + data, dialect) == events(data, dialect)


def test_an_error_without_anything_around_it_is_one():
    error = {"object": "error", "message": "too long", "type": "BadRequestError", "code": 400}
    found = events(chat(chunk({"content": "x"}), error), CHAT)[-1]
    assert isinstance(found, Failure)
    assert (found.message, found.kind) == ("too long", "invalid_request_error")

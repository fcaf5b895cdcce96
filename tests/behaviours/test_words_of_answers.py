"""Words of an answer that a target has one place for: thoughts with their summaries, refusals, annotations."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from cannery.messages import absent
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, told

THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": word} for word in ("short", "shorter")],
    "content": [{"type": "reasoning_text", "text": word} for word in ("at ", "length")],
}
DECLINED = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "refusal", "refusal": "I can", "new_field": 1}],
}
DECLINED_ON = {**DECLINED, "id": "msg_2", "content": [{"type": "refusal", "refusal": "not."}]}


def answer(*items: dict[str, Any]) -> dict[str, Any]:
    head = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return {**head, "output": list(items)}


@pytest.mark.parametrize("target", [CLAUDE, GEMINI])
def test_a_thought_is_shown_with_its_summaries(target: str):
    found = told(answer(THOUGHT), RESPONSES, target, kind="response")
    assert found.losses == set()
    shown = json.dumps(found.body)
    assert all(word in shown for word in ("at length", "short", "shorter"))


def test_a_streamed_thought_is_shown_as_a_whole_one():
    ended = answer(THOUGHT)
    done = {"type": "response.output_item.done", "output_index": 0, "item": THOUGHT}
    frames = [
        {"type": "response.created", "response": {**ended, "status": "in_progress", "output": []}},
        {**done, "type": "response.output_item.added", "item": {**THOUGHT, "content": []}},
        done,
        {"type": "response.completed", "response": ended},
    ]
    stream = b"".join(
        b"event: %s\ndata: %s\n\n"
        % (frame["type"].encode(), json.dumps({**frame, "sequence_number": number}).encode())  # type: ignore[attr-defined]
        for number, frame in enumerate(frames)
    )
    written = cannery.translate_stream([stream], source=RESPONSES, target=CLAUDE)
    folded = cannery.fold(cannery.normalize_stream(written, CLAUDE))
    whole = told(ended, RESPONSES, CLAUDE, kind="response").body["content"]
    words = "at length\n\nshort\n\nshorter"
    assert whole == [{"type": "thinking", "thinking": words, "signature": ""}]
    assert sorted(folded.canisters[0].content.text.split("\n\n")) == sorted(words.split("\n\n"))


def test_refusals_are_joined_with_nothing_between_and_their_unknown_fields_are_named():
    found = told(answer(DECLINED, DECLINED_ON), RESPONSES, CHAT, kind="response")
    assert found.body["choices"][0]["message"]["refusal"] == "I cannot."
    assert found.paths == {("FIELD_DROPPED", "output[0].content[0].new_field")}


def test_a_lost_annotation_is_named_where_it_stands():
    cited = {"start_index": 0, "end_index": 2, "title": "T", "url": "https://e.org", "new": 1}
    annotations = [{"type": "url_citation", "url_citation": cited}]
    message = {"role": "assistant", "content": "hi", "annotations": annotations}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    path = "choices[0].message.annotations"
    for target, code in {
        CLAUDE: "CITATION_APPROXIMATED",
        RESPONSES: "CITATION_APPROXIMATED",
        GEMINI: "CITATION_APPROXIMATED",
    }.items():
        found = told({**head, "choices": [choice]}, CHAT, target, kind="response")
        assert found.paths == {(code, path)}, target


def test_thoughts_that_a_compatible_server_counts_apart_are_output_elsewhere():
    details = {"completion_tokens_details": {"reasoning_tokens": 8}}
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 20, **details}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "hi"},
        "finish_reason": "stop",
    }
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    body = {**head, "choices": [choice], "usage": usage}
    counted = told(body, CHAT, GEMINI, kind="response").body["usageMetadata"]
    assert (counted["candidatesTokenCount"], counted["thoughtsTokenCount"]) == (7, 8)
    assert counted["totalTokenCount"] == 20
    for target in (CLAUDE, GEMINI, RESPONSES):
        assert told(body, CHAT, target, kind="response").losses == set()
    assert told(body, CHAT, CLAUDE, kind="response").body["usage"]["output_tokens"] == 15
    assert told(body, CHAT, RESPONSES, kind="response").body["usage"]["total_tokens"] == 20
    assert told(body, CHAT, CHAT, kind="response").body == body


def test_tokens_of_a_cached_prompt_are_counted():
    """Ollama leaves out the count of a prompt that it has cached; Mistral tells of its cache beside the counts."""
    said = {"role": "assistant", "content": "a"}
    ollama = {"model": "m", "message": said, "done": True, "done_reason": "stop", "eval_count": 7}
    counts = {"prompt_tokens": 64, "completion_tokens": 6, "total_tokens": 70}
    choice = {"index": 0, "message": {**said, "tool_calls": None}, "finish_reason": "stop"}
    mistral = {"id": "r", "object": "chat.completion", "model": "m", "created": 1}
    mistral |= {"choices": [choice], "usage": {**counts, "num_cached_tokens": 32}}
    for dialect, body, expected in (
        ("ollama_chat", ollama, (0, 7, absent)),
        ("mistral_chat", mistral, (64, 6, 32)),
    ):
        response = cannery.normalize_response(body, dialect)
        usage = response.usage
        assert (usage.input, usage.output, usage.cache_read) == expected
        assert json.loads(cannery.nativize_response(response, dialect).body) == body

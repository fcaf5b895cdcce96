"""Texts on both sides of a block that is left out: a blank line stands between them, in every pair and streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from cannery.messages.events import fold
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES

Object = dict[str, Any]
SEARCHED: Object = {"type": "server_tool_use", "id": "s1", "name": "advisor", "input": {}}
FOUND: Object = {"type": "advisor_tool_result", "tool_use_id": "s1", "content": {}}
CODE: Object = {"toolCall": {"id": "1", "toolType": "MEDIA_PROCESSING", "args": {}}}
SEARCH: Object = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []}


def text(words: str) -> Object:
    return {"type": "text", "text": words}


def claude_answer(*content: Object) -> Object:
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": list(content),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def gemini_answer(*parts: Object) -> Object:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "modelVersion": "g"}


def responses_answer(*texts: str) -> Object:
    said = [
        {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": words, "annotations": []}],
        }
        for number, words in enumerate(texts)
    ]
    output = [said[0], SEARCH, *said[1:]]
    return {"id": "r", "object": "response", "model": "m", "status": "completed", "output": output}


ANSWERS = {
    CLAUDE: claude_answer(text("for you."), SEARCHED, FOUND, text("## Analysis")),
    GEMINI: gemini_answer({"text": "for you."}, CODE, {"text": "## Analysis"}),
    RESPONSES: responses_answer("for you.", "## Analysis"),
}
PAIRS = [
    (source, target)
    for source in ANSWERS
    for target in (CHAT, CLAUDE, GEMINI, RESPONSES)
    if source != target
]


def texts(body: bytes, dialect: str) -> str:
    value = json.loads(body)
    if dialect == CHAT:
        return str(value["choices"][0]["message"]["content"])
    if dialect == CLAUDE:
        return "".join(block["text"] for block in value["content"])
    if dialect == GEMINI:
        return "".join(part["text"] for part in value["candidates"][0]["content"]["parts"])
    said = [item for item in value["output"] if item["type"] == "message"]
    return "".join(part["text"] for item in said for part in item["content"])


@pytest.mark.parametrize("source, target", PAIRS)
def test_answers(source: str, target: str):
    rendered = cannery.translate(ANSWERS[source], source=source, target=target, kind="response")
    assert texts(rendered.body, target) == "for you.\n\n## Analysis"
    assert {"OPAQUE_DROPPED", "HOSTED_IMPLIED"} & {loss.code for loss in rendered.losses}


@pytest.mark.parametrize("target", [CHAT, GEMINI, RESPONSES])
def test_streams(target: str):
    events: list[Object] = [
        {"type": "message_start", "message": {**claude_answer(), "stop_reason": None}}
    ]
    for index, block in enumerate(ANSWERS[CLAUDE]["content"]):
        start = {**block, "text": ""} if block["type"] == "text" else block
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        for words in block.get("text", ""):
            delta = {"type": "text_delta", "text": words}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}})
    events.append({"type": "message_stop"})
    data = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    chunks = list(cannery.translate_stream([data], source=CLAUDE, target=target))
    answer = fold(cannery.normalize_stream(chunks, target))
    assert "".join(each.text for each in answer.canisters) == "for you.\n\n## Analysis"


@pytest.mark.parametrize(
    "before, after, expected",
    [
        ("a", "b", "a\n\nb"),
        ("a\n", "b", "a\n\nb"),
        ("a\n", "\nb", "a\n\nb"),
        ("a\n\n\n", "b", "a\n\n\nb"),
        ("a", "\n\nb", "a\n\nb"),
    ],
)
def test_a_blank_line_that_is_there_is_enough(before: str, after: str, expected: str):
    body = claude_answer(text(before), SEARCHED, FOUND, text(after))
    rendered = cannery.translate(body, source=CLAUDE, target=CHAT, kind="response")
    assert texts(rendered.body, CHAT) == expected


def test_texts_with_nothing_between_them_are_not_parted():
    body = claude_answer(text("foo"), text("bar"), SEARCHED, FOUND)
    rendered = cannery.translate(body, source=CLAUDE, target=CHAT, kind="response")
    assert texts(rendered.body, CHAT) == "foobar"


def test_requests():
    turn = {"role": "assistant", "content": ANSWERS[CLAUDE]["content"]}
    asked = {"role": "user", "content": "q"}
    body = {"model": "m", "max_tokens": 5, "messages": [asked, turn, asked]}
    written = json.loads(cannery.translate(body, source=CLAUDE, target=CHAT).body)
    said = [part["text"] for part in written["messages"][1]["content"]]
    assert "".join(said) == "for you.\n\n## Analysis"
    again = json.loads(cannery.translate(body, source=CLAUDE, target=CLAUDE).body)
    assert again == body


def test_spans_of_citations_move_with_their_text():
    cited = {"segment": {"partIndex": 2, "endIndex": 8}, "groundingChunkIndices": [0]}
    body = gemini_answer({"text": "for you."}, CODE, {"text": "Analysis"})
    body["candidates"][0]["groundingMetadata"] = {
        "groundingChunks": [{"web": {"uri": "https://example.com", "title": "t"}}],
        "groundingSupports": [cited],
    }
    rendered = cannery.translate(body, source=GEMINI, target=CHAT, kind="response")
    message = json.loads(rendered.body)["choices"][0]["message"]
    [span] = [annotation["url_citation"] for annotation in message["annotations"]]
    assert message["content"][span["start_index"] : span["end_index"]] == "Analysis"


# --- summaries -----------------------------------------------------------------------------------

COMPACTED: Object = {"type": "compaction", "content": "So far: we met."}


@pytest.mark.parametrize("target", [CHAT, GEMINI, RESPONSES])
def test_the_summary_of_a_compaction_is_text_for_others(target: str):
    body = claude_answer(COMPACTED, text("Go on."))
    rendered = cannery.translate(body, source=CLAUDE, target=target, kind="response")
    assert texts(rendered.body, target) == "So far: we met.\n\nGo on."
    codes = {loss.code: loss.severity for loss in rendered.losses}
    assert codes["SUMMARY_TO_TEXT"] == "info"
    assert "OPAQUE_DROPPED" not in codes


def test_the_summary_of_a_compaction_opens_a_request():
    compacted = {"role": "assistant", "content": [{**COMPACTED, "encrypted_content": "x"}]}
    asked = {"role": "user", "content": "q"}
    body = {"model": "m", "max_tokens": 5, "messages": [asked, compacted, asked]}
    rendered = cannery.translate(body, source=CLAUDE, target=CHAT)
    written = json.loads(rendered.body)["messages"]
    assert written[1] == {"role": "assistant", "content": "So far: we met."}
    lost = {loss.code: loss.path for loss in rendered.losses}
    assert lost["SUMMARY_TO_TEXT"] == "messages[1].content[0]"
    assert lost["SIGNATURE_DROPPED"] == "messages[1].content[0].encrypted_content"


def test_a_compaction_without_a_summary_is_left_out():
    body = claude_answer({"type": "compaction", "content": None}, text("Go on."))
    rendered = cannery.translate(body, source=CLAUDE, target=CHAT, kind="response")
    assert texts(rendered.body, CHAT) == "Go on."
    assert "OPAQUE_DROPPED" in {loss.code for loss in rendered.losses}


SEALED = {"type": "compaction", "encrypted_content": "x"}
QUESTION: Object = {"role": "user", "content": "And the second?"}
ANSWER: Object = {"role": "assistant", "content": "The first."}
REQUESTS = [
    (RESPONSES, {"model": "m", "input": [SEALED, QUESTION]}, "input[0]"),
    (RESPONSES, {"model": "m", "input": [QUESTION, SEALED, QUESTION]}, "input[1]"),
    (
        CLAUDE,
        {
            "model": "m",
            "max_tokens": 9,
            "messages": [
                QUESTION,
                {"role": "assistant", "content": [{**SEALED, "content": None}]},
                QUESTION,
            ],
        },
        "messages[1].content[0]",
    ),
]


@pytest.mark.parametrize("source, body, place", REQUESTS)
def test_a_sealed_compaction_without_its_past_blocks(source: str, body: Object, place: str):
    for target in {CHAT, CLAUDE, GEMINI, RESPONSES} - {source}:
        with pytest.raises(cannery.LossError) as refused:
            cannery.translate(body, source=source, target=target)
        assert [(loss.code, loss.path) for loss in refused.value.losses] == [
            ("HISTORY_MISSING", place)
        ]
    assert json.loads(cannery.translate(body, source=source, target=source).body) == body


def test_a_sealed_compaction_behind_what_it_stands_for_is_left_out():
    body = {"model": "m", "input": [QUESTION, ANSWER, SEALED, QUESTION]}
    rendered = cannery.translate(body, source=RESPONSES, target=CHAT)
    assert json.loads(rendered.body)["messages"] == [QUESTION, ANSWER, QUESTION]
    assert [loss.code for loss in rendered.losses] == ["OPAQUE_DROPPED"]


def test_a_stored_compaction_blocks_for_others_and_goes_to_its_own_dialect():
    request = cannery.normalize_request(REQUESTS[0][1], RESPONSES).replace(source=None)
    with pytest.raises(cannery.LossError):
        cannery.nativize_request(request, CHAT)
    body = json.loads(cannery.nativize_request(request, RESPONSES).body)
    assert SEALED in body["input"]


def test_a_streamed_compaction_is_text_for_others():
    events: list[Object] = [
        {"type": "message_start", "message": {**claude_answer(), "stop_reason": None}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "compaction", "content": None},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "compaction_delta", "content": "So far: we met."},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": text("")},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "text_delta", "text": "Go on."},
        },
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    ]
    data = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)
    chunks = list(cannery.translate_stream([data], source=CLAUDE, target=CHAT))
    answer = fold(cannery.normalize_stream(chunks, CHAT))
    assert "".join(each.text for each in answer.canisters) == "So far: we met.\n\nGo on."


# --- usage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prompt, cached, written, expected",
    [
        (100, 80, 100, (0, 80, 20)),
        (100, 120, 30, (0, 100, 0)),
        (100, 60, 30, (10, 60, 30)),
    ],
)
def test_tokens_of_the_cache_are_counted_once(
    prompt: int, cached: int, written: int, expected: tuple[int, int, int]
):
    details = {"cached_tokens": cached, "cache_write_tokens": written}
    usage = {"prompt_tokens": prompt, "completion_tokens": 5, "total_tokens": prompt + 5}
    message = {"role": "assistant", "content": "x"}
    body = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {**usage, "prompt_tokens_details": details},
    }
    rendered = cannery.translate(body, source=CHAT, target=CLAUDE, kind="response")
    counts = json.loads(rendered.body)["usage"]
    keys = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    assert tuple(counts[key] for key in keys) == expected

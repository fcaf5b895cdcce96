"""What a stream folds to is what the whole answer would have been, with everything around it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cannery.messages import fold, unfold
from cannery.translation import (
    nativize_response,
    nativize_stream,
    normalize_response,
    normalize_stream,
    translate_stream,
)

NAME = "gemini_generate"
COUNTS = {
    "promptTokenCount": 9,
    "candidatesTokenCount": 4,
    "totalTokenCount": 13,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}],
    "serviceTier": "standard",
}
SUPPORT = {"segment": {"endIndex": 5, "text": "Spain"}, "groundingChunkIndices": [0]}
GROUNDING = {
    "webSearchQueries": ["euro"],
    "groundingChunks": [{"web": {"uri": "https://example.com", "title": "t"}}],
    "groundingSupports": [SUPPORT],
}
AROUND = {"modelVersion": "gemini-3-pro", "responseId": "r", "createTime": "2026-11-18T04:00:00Z"}
RATINGS = [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}]


def said(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"content": {"parts": list(parts), "role": "model"}, "index": 0, **more}


def framed(*chunks: Any) -> list[bytes]:
    return [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]


CASES: dict[str, tuple[list[Any], Any]] = {
    "grounding": (
        [
            {"candidates": [said({"text": "Spain "})], **AROUND},
            {"candidates": [said({"text": "won."})], "xTrace": {"a": [1]}, **AROUND},
            {
                "candidates": [
                    said(finishReason="STOP", groundingMetadata=GROUNDING, safetyRatings=RATINGS)
                ],
                "usageMetadata": COUNTS,
                **AROUND,
            },
        ],
        {
            "candidates": [
                said(
                    {"text": "Spain won."},
                    finishReason="STOP",
                    groundingMetadata=GROUNDING,
                    safetyRatings=RATINGS,
                )
            ],
            "usageMetadata": COUNTS,
            "xTrace": {"a": [1]},
            **AROUND,
        },
    ),
    "refused prompt": (
        [{"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": RATINGS}, **AROUND}],
        {"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": RATINGS}, **AROUND},
    ),
    "two candidates": (
        [
            {"candidates": [said({"text": "He"}), {**said({"text": "Ta"}), "index": 1}]},
            {"candidates": [said({"text": "ads"}, finishReason="STOP")]},
            {"candidates": [{**said({"text": "ils"}, finishReason="STOP"), "index": 1}]},
        ],
        {
            "candidates": [
                said({"text": "Heads"}, finishReason="STOP"),
                {**said({"text": "Tails"}, finishReason="STOP"), "index": 1},
            ]
        },
    ),
    "odd ending": (
        [{"candidates": [said({"text": "a"}, finish_reason="RECITATION", finishMessage="m")]}],
        {"candidates": [said({"text": "a"}, finish_reason="RECITATION", finishMessage="m")]},
    ),
}


@pytest.mark.parametrize("chunks, whole", CASES.values(), ids=CASES)
def test_a_fold_is_the_response_of_the_whole_answer(chunks, whole):
    folded, read = fold(normalize_stream(framed(*chunks), NAME)), normalize_response(whole, NAME)
    for name in ("finish", "usage", "model", "identifier", "created", "source"):
        assert getattr(folded, name) == getattr(read, name), name
    assert [one.held for one in folded.canisters] == [one.held for one in read.canisters]
    assert json.loads(nativize_response(folded, NAME).body) == whole
    for target in ("openai_chat", "openai_responses", "anthropic_messages"):
        losses = nativize_response(folded, target).losses
        assert set(losses) == set(nativize_response(read, target).losses)


@pytest.mark.parametrize("chunks, whole", CASES.values(), ids=CASES)
def test_an_unfolded_answer_streams_everything_around_it(chunks, whole):
    again = nativize_stream(unfold(normalize_response(whole, NAME)), NAME)
    assert json.loads(nativize_response(fold(normalize_stream(again, NAME)), NAME).body) == whole


def test_unknown_fields_pass_whenever_they_come():
    chunks = [
        {"candidates": [said({"text": "a"})], "responseId": "r"},
        {"candidates": [said({"text": "b"}, xCandidate=1)], "responseId": "r", "xObject": {"q": 1}},
        {"candidates": [said({"text": "c"}, finishReason="STOP")], "responseId": "r", "xLate": 5},
    ]
    chunks[1]["candidates"][0]["content"]["xContent"] = [2]
    out = b"".join(translate_stream(framed(*chunks), source=NAME, target=NAME))
    frames = [json.loads(line[6:]) for line in out.split(b"\n") if line]
    assert [frame["xObject"] for frame in frames if "xObject" in frame] == [{"q": 1}]
    assert [frame["xLate"] for frame in frames if "xLate" in frame] == [5]
    candidates = [one for frame in frames for one in frame.get("candidates", ())]
    assert [one["xCandidate"] for one in candidates if "xCandidate" in one] == [1]
    contents = [one["content"] for one in candidates if "content" in one]
    assert [one["xContent"] for one in contents if "xContent" in one] == [[2]]


def test_what_the_start_did_not_say_is_kept_all_the_same():
    chunks = [
        {"candidates": [said({"text": "a"})]},
        {"candidates": [said(finishReason="STOP")], "modelVersion": "m", "responseId": "r"},
    ]
    body = json.loads(nativize_response(fold(normalize_stream(framed(*chunks), NAME)), NAME).body)
    assert (body["modelVersion"], body["responseId"]) == ("m", "r")

"""What stands around answers, as tables: token counts and finish reasons are read as they are written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery import FinishReason, Response, Usage, assistant, nativize_response, translate
from cannery.dialects.anthropic_messages import responses as messages
from cannery.dialects.bedrock_converse import responses as converse
from cannery.dialects.cohere_chat import responses as cohere
from cannery.dialects.gemini_generate import responses as gemini
from cannery.dialects.gemini_interactions import responses as interactions
from cannery.dialects.mistral_chat import streams as mistral
from cannery.dialects.openai_responses import responses
from cannery.families.chat.shape import COUNTS, FINISHES
from cannery.families.ollama import answers as ollama
from cannery.messages.absence import absent
from cannery.wire.counts import Counts
from cannery.wire.endings import Finishes
from cannery.wire.patches import restore

TABLES = {
    "anthropic_messages": (messages.COUNTS, messages.FINISHES),
    "bedrock_converse": (converse.COUNTS, converse.FINISHES),
    "cohere_chat": (cohere.COUNTS, cohere.FINISHES),
    "gemini_generate": (gemini.COUNTS, gemini.FINISHES),
    "gemini_interactions": (interactions.COUNTS, interactions.FINISHES),
    "mistral_chat": (mistral.SHAPE.counts, mistral.SHAPE.finishes),
    "ollama_chat": (ollama.COUNTS, ollama.FINISHES),
    "openai_chat": (COUNTS, FINISHES),
    "openai_responses": (responses.COUNTS, responses.FINISHES),
}
DETAILS = ("cache_read", "cache_write", "reasoning")
dialects = pytest.mark.parametrize("dialect", TABLES)


@st.composite
def usages(draw):
    """Token counts of which no detail is more than what it is a part of."""
    read, wrote, new, thought, said = (draw(st.integers(0, 1000)) for _ in range(5))
    details = dict(zip(DETAILS, (read, wrote, thought), strict=True))
    known = draw(st.sets(st.sampled_from(DETAILS)))
    return Usage(read + wrote + new, thought + said, **{name: details[name] for name in known})


@dialects
@given(usage=usages())
def test_counts_are_read_as_they_are_written(dialect, usage):
    counts: Counts = TABLES[dialect][0]
    told, patch = counts.take(counts.write(usage))
    assert patch is None
    assert (told.input, told.output) == (usage.input, usage.output)
    for name in DETAILS:
        known = getattr(usage, name)
        unknown = 0 if counts.says_all else absent
        expected = unknown if known is absent else known
        assert getattr(told, name) == (expected if name in counts.paths else absent)


@dialects
@given(usage=usages(), more=st.dictionaries(st.text(max_size=3), st.integers() | st.none()))
def test_what_counts_say_beyond_is_kept(dialect, usage, more):
    counts: Counts = TABLES[dialect][0]
    given_counts = {**counts.write(usage), **more}
    told, patch = counts.take(given_counts)
    assert told is not absent
    assert restore(counts.write(told), patch) == given_counts


@dialects
def test_counts_below_zero_count_nothing(dialect):
    counts: Counts = TABLES[dialect][0]
    spoiled = json.loads(json.dumps(counts.write(Usage(5, 7))).replace("5", "-5"))
    assert counts.read(spoiled) is absent


@dialects
@pytest.mark.parametrize("finish", FinishReason)
def test_a_reason_is_told_or_its_change_is(dialect, finish):
    finishes: Finishes = TABLES[dialect][1]
    response = Response([assistant("Hi")], finish=finish, source="openai_chat")
    rendered = nativize_response(response.replace(source="otel_genai"), dialect, policy="allow")
    changed = [loss for loss in rendered.losses if loss.code == "FINISH_CHANGED"]
    assert bool(changed) is finishes.changes(finish)
    told = finishes.read(finishes.word(finish))
    if told is FinishReason.Stop and not changed:
        assert finish in (FinishReason.Stop, FinishReason.StopSequence, FinishReason.Tool)


def test_a_mistral_answer_without_calls_says_stop():
    body = {
        "id": "1",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
        ],
    }
    rendered = translate(body, source="openai_chat", target="mistral_chat", kind="response")
    assert json.loads(rendered.body)["choices"][0]["finish_reason"] == "stop"


def test_a_refused_answer_with_calls_does_not_ask_for_results():
    assert FINISHES.word(FinishReason.Refusal, has_calls=True) == "content_filter"
    assert cohere.FINISHES.word(FinishReason.Refusal, has_calls=True) == "COMPLETE"
    assert FINISHES.word(absent, has_calls=True) == "tool_calls"

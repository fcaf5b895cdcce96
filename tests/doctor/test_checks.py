"""Each rule bites on a body that breaks it and on no sound one, names its place, and mends what it says it can."""

from __future__ import annotations

import copy
import json
from typing import Any

import anthropic.types.beta.message_create_params as claude_types
import openai.types.chat.completion_create_params as chat_types
import openai.types.responses.response_create_params as responses_types
import pytest
from google.genai import types as gemini_types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cannery.dialects import find_dialect
from cannery.doctor import PROBLEM, WARNING, checks_of, examine_body, mend_body
from cannery.doctor.contract import Judged
from cannery.doctor.examination import judge
from cannery.doctor.providers import _fields
from tests.doctor.broken_bodies import (
    APART,
    CASES,
    FERNET,
    LONE,
    SOUND,
    Change,
    picture,
    png,
    think,
)
from tests.doctor.more_broken_bodies import MORE_SOUND
from tests.oracles.sdk_types import validate_request
from tests.oracles.server_rules import check_request_rules, codes, confirmed
from tests.oracles.test_server_rules import BREAKS, TAKEN, TAME
from tests.strategies.bodies import tame_requests
from tests.strategies.drawing import draw
from tests.strategies.mutations import spoiled

# Where the oracle is stricter than the table: it takes null for a value, and knows no turns of older clients.
LENIENT = {"media-source", "type"}
ALL = [(dialect, code, change) for dialect, cases in CASES.items() for code, change in cases]
FIXABLE = {
    (dialect, check.code)
    for dialect in CASES
    for check in checks_of(dialect)
    if check.fix is not None and check.severity == PROBLEM
}


def broken(dialect: str, change: Change) -> dict[str, Any]:
    body = copy.deepcopy(SOUND[dialect])
    change(body)
    return copy.deepcopy(body)


@pytest.mark.parametrize("dialect", SOUND)
def test_a_sound_body_has_no_known_problem(dialect):
    assert examine_body(SOUND[dialect], dialect) == ()


@pytest.mark.parametrize("dialect, code, change", ALL)
def test_a_broken_rule_is_found_with_its_place_and_source(dialect, code, change):
    found = [each for each in examine_body(broken(dialect, change), dialect) if each.code == code]
    assert found
    assert all(each.source and each.date.startswith("202") and each.text for each in found)


@pytest.mark.parametrize("dialect", SOUND)
def test_every_rule_of_a_table_has_a_body_that_breaks_it(dialect):
    codes = {check.code for check in checks_of(dialect)}
    assert codes - APART == {code for code, _ in CASES[dialect]}


@pytest.mark.parametrize("dialect, change", TAKEN)
def test_what_servers_were_recorded_to_take_is_no_problem(dialect, change):
    body = copy.deepcopy(TAME[dialect])
    change(body)
    found = [each for each in examine_body(body, dialect) if each.severity == PROBLEM]
    # The sound body of Responses has a payload that is not OpenAI's.
    assert {each.code for each in found} <= {"signature-shape"}


@pytest.mark.parametrize("dialect, code, change", [each for each in ALL if each[:2] in FIXABLE])
def test_what_can_be_mended_is_mended(dialect, code, change):
    mended = mend_body(broken(dialect, change), dialect)
    left = {each.code for each in mended.left if each.severity == PROBLEM}
    # What cannot be mended in one body after all is still told.
    assert (code in left) != bool(mended.changes)
    assert mend_body(copy.deepcopy(mended.body), dialect).body == mended.body


@pytest.mark.parametrize("dialect", SOUND)
def test_a_sound_body_is_mended_into_itself(dialect):
    mended = mend_body(copy.deepcopy(SOUND[dialect]), dialect)
    assert (mended.body, mended.changes, mended.left) == (SOUND[dialect], (), ())


STRUCTURE = ("call-unanswered", "result-orphan", "result-duplicate", "results-first", "blank-text")


@pytest.mark.parametrize("dialect, code, change", [each for each in ALL if each[1] in STRUCTURE])
def test_a_mended_history_passes_the_independent_rules(dialect, code, change):
    mended = mend_body(broken(dialect, change), dialect).body
    told = [each for each in check_request_rules(dialect, mended) if "ends-on-model" not in each]
    assert told == []


# Rules of the oracle without a document, of which a server was recorded otherwise or never.
DOUBTFUL = {
    ("openai_chat", "media-mismatch"),  # recorded: the server takes it
    ("openai_chat", "refusal-alone"),
    ("openai_responses", "media-mismatch"),
    ("gemini_generate", "call-role"),
    ("gemini_generate", "response-role"),
    ("gemini_generate", "result-order"),  # recorded: any order is taken
    ("gemini_generate", "system-text"),
    ("gemini_generate", "ends-on-model"),  # recorded for models before 3.6
    ("gemini_generate", "vertex-only"),
    ("gemini_generate", "role"),  # the legacy role of functions was recorded
}


@pytest.mark.parametrize(
    "dialect, code, change", [each for each in BREAKS if each[:2] not in DOUBTFUL]
)
def test_what_the_oracle_refuses_has_a_finding(dialect, code, change):
    """Rules that rest on a document or a server's error are in the table too."""
    body = copy.deepcopy(TAME[dialect])
    change(body)
    assert examine_body(body, dialect)


@pytest.mark.parametrize("dialect", SOUND)
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": 3, "input": 4, "contents": {}},
        {"messages": [None, 1], "input": [None], "contents": [None, {"parts": [3]}]},
        {
            "messages": [{"role": "user", "content": [None, [], {"type": 4}]}],
            "tools": [1],
            "tool_choice": 4,
        },
        {"contents": [{"parts": {"text": "x"}}], "generationConfig": 3, "input": {"a": 1}},
    ],
)
def test_no_shape_of_json_is_too_odd_to_be_judged_and_mended(dialect, body):
    assert examine_body(copy.deepcopy(body), dialect)
    mend_body(copy.deepcopy(body), dialect)


@pytest.mark.parametrize("dialect", SOUND)
def test_bytes_with_half_a_surrogate_pair_are_read_and_mended(dialect):
    name = find_dialect(dialect).messages
    text = json.dumps(SOUND[dialect]).replace("hi", LONE.encode("unicode-escape").decode(), 1)
    (found,) = examine_body(text.encode(), dialect)
    assert found.code == "surrogate"
    assert found.path.startswith(f"{name}[0]")
    assert found.message == 0
    assert "\ufffd" in json.dumps(mend_body(text.encode(), dialect).body, ensure_ascii=False)


@pytest.mark.parametrize(
    "dialect, megabytes",
    [
        ("anthropic_messages", 32),
        ("gemini_generate", 100),
        ("openai_chat", 512),
        ("openai_responses", 512),
    ],
)
def test_a_request_that_is_too_large_is_told(dialect, megabytes):
    body = copy.deepcopy(SOUND[dialect])
    assert judge(Judged(body, None, megabytes << 20), dialect) == ()
    found = judge(Judged(body, None, (megabytes << 20) + 1), dialect)
    assert [each.code for each in found] == ["request-size"]


def test_settings_of_a_conversation_that_is_no_request_are_not_judged():
    body = {
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes "}]
    }
    assert examine_body(body, "anthropic_messages", is_request=False) == ()
    assert {each.code for each in examine_body(body, "anthropic_messages")} == {
        "model-missing",
        "max-tokens",
        "prefill-space",
    }


def test_a_thinking_block_of_another_model_is_told_and_removed():
    body = broken(
        "anthropic_messages", think({"type": "thinking", "thinking": "x", "signature": "EgA="})
    )
    same = examine_body(body, "anthropic_messages", makers={1: "claude-opus-5-5"})
    other = examine_body(body, "anthropic_messages", makers={1: "claude-fable-5"})
    assert same == ()
    assert [(each.code, each.message) for each in other] == [("signature-model", 1)]


def test_a_signature_of_another_model_is_told_where_the_provider_binds_it():
    payload = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": FERNET}
    said = [{"role": "user", "content": "hi"}, payload]
    body = {"model": "gpt-5", "input": [*said, {"role": "assistant", "content": "a"}, said[0]]}
    found = examine_body(body, "openai_responses", makers={1: "o3"})
    assert ("signature-model", 1) in [(each.code, each.message) for each in found]
    signed = {"text": "a", "thoughtSignature": "AAAA"}
    turns = [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [signed]}]
    gemini = {"contents": [*turns, turns[0]]}
    how = {"model": "gemini-3-pro", "makers": {1: "gemini-2.5-flash"}}
    found = examine_body(gemini, "gemini_generate", **how)
    assert [(each.code, each.message) for each in found] == [("signature-model", 1)]
    assert examine_body(gemini, "gemini_generate", model="gemini-3-pro") == ()


def test_twenty_images_may_be_larger_than_twenty_one():
    images = [picture("image/png", png(2001, 2001))] * 20
    body = {**SOUND["anthropic_messages"], "messages": [{"role": "user", "content": images}]}
    assert examine_body(body, "anthropic_messages") == ()
    images.append(images[0])
    assert len(examine_body(body, "anthropic_messages")) == 21


def test_makers_follow_their_messages_when_others_come_and_go():
    messages: list[Any] = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    judged = Judged({"messages": messages}, makers={1: "claude-opus-5"})
    messages.insert(0, {"role": "user", "content": "new"})
    assert judged.maker(messages[2]) == "claude-opus-5"
    assert judged.maker(messages[1]) is None


@pytest.mark.parametrize(
    "known, official",
    [
        (_fields.CHAT, chat_types.CompletionCreateParamsBase.__annotations__),
        (_fields.RESPONSES, responses_types.ResponseCreateParamsBase.__annotations__),
        (_fields.ANTHROPIC, claude_types.MessageCreateParamsBase.__annotations__),
        (
            _fields.GENERATION,
            [one.alias or name for name, one in gemini_types.GenerationConfig.model_fields.items()],
        ),
    ],
)
def test_known_fields_are_not_far_behind_the_official_types(known, official):
    """A field that is newer than the list gives a warning, so a new release of an SDK breaks nothing."""
    assert len({*official} - known - {"betas"}) < 5


def test_a_misspelled_field_is_named_with_the_right_one():
    body = {**SOUND["openai_chat"], "max_completion_token": 5}
    (found,) = examine_body(body, "openai_chat")
    assert (found.path, found.severity) == ("max_completion_token", WARNING)
    assert found.text.endswith("did you mean max_completion_tokens?")


def test_fields_of_other_servers_are_not_judged():
    body = {**SOUND["openai_chat"], "model": "qwen/qwen3-32b", "top_k": 5}
    assert not any("field-" in each.code for each in examine_body(body, "openai_chat"))


@pytest.mark.parametrize("dialect", MORE_SOUND)
def test_bodies_that_keep_every_rule_have_no_problem(dialect):
    for body in draw(tame_requests(dialect), 60):
        found = examine_body(json.dumps(body).encode(), dialect)
        assert [each for each in found if each.severity == PROBLEM] == []


@pytest.mark.parametrize("dialect", MORE_SOUND)
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_spoiled_bodies_are_judged_and_mended(dialect, data):
    body = data.draw(spoiled(dialect))
    found = examine_body(copy.deepcopy(body), dialect)
    refused = confirmed(dialect, check_request_rules(dialect, body))
    if refused and not validate_request(dialect, body) and not codes(refused) & LENIENT:
        assert found
    mend_body(copy.deepcopy(body), dialect)

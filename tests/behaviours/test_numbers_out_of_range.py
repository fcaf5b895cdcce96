"""Numbers that the target's server refuses are brought into its range or left out, and named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, chat, claude, told, user
from tests.oracles.server_rules import check_request_rules

BEDROCK, INTERACTIONS = "bedrock_converse", "gemini_interactions"
COHERE, MISTRAL, OLLAMA = "cohere_chat", "mistral_chat", "ollama_chat"
LIMITS: dict[str, tuple[str, ...]] = {
    RESPONSES: ("max_output_tokens",),
    CLAUDE: ("max_tokens",),
    GEMINI: ("generationConfig", "maxOutputTokens"),
    INTERACTIONS: ("generation_config", "max_output_tokens"),
    BEDROCK: ("inferenceConfig", "maxTokens"),
    COHERE: ("max_tokens",),
    MISTRAL: ("max_tokens",),
    OLLAMA: ("options", "num_predict"),
}


def held(body: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        body = body.get(step) if isinstance(body, dict) else None
    return body


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("target", LIMITS)
def test_no_limit_is_sent_as_a_negative_one(target: str, key: str):
    found = told(chat(user("q"), **{key: -1}), CHAT, target)
    sent = held(found.body, LIMITS[target])
    if target == OLLAMA:
        assert sent == -1
        assert found.losses == set()
    elif target == CLAUDE:
        assert sent == 4096
        assert ("CONTROL_CHANGED", key) in found.paths
    else:
        assert sent is None
        assert ("DEFAULT_DROPPED", key) in found.paths


@pytest.mark.parametrize("target", LIMITS)
def test_a_limit_of_nothing_is_sent(target: str):
    found = told(chat(user("q"), max_tokens=0), CHAT, target)
    assert held(found.body, LIMITS[target]) == (4096 if target == CLAUDE else None)
    assert ("CONTROL_DROPPED", "max_tokens") in found.paths


def test_a_probe_with_one_token_is_refused_by_responses():
    found = told(chat(user("q"), max_tokens=1), CHAT, RESPONSES)
    assert found.body["max_output_tokens"] == 16
    assert ("CONTROL_CHANGED", "max_tokens") in found.paths


NUMBERS: dict[str, tuple[float, ...]] = {
    "temperature": (-1, 1.7, 2.5, 9),
    "top_p": (-0.5, 0, 1.5),
    "presence_penalty": (-3, 3),
    "frequency_penalty": (-3, 3),
    "n": (0, -1, 200),
    "seed": (-1, 2**40),
}
# What the servers take, by target and setting.
RANGES: dict[str, dict[str, tuple[tuple[str, ...], float, float]]] = {
    CLAUDE: {"temperature": (("temperature",), 0, 1), "top_p": (("top_p",), 0, 1)},
    RESPONSES: {"temperature": (("temperature",), 0, 2), "top_p": (("top_p",), 0, 1)},
    GEMINI: {
        "temperature": (("generationConfig", "temperature"), 0, 2),
        "top_p": (("generationConfig", "topP"), 0, 1),
        "presence_penalty": (("generationConfig", "presencePenalty"), -2, 2),
        "frequency_penalty": (("generationConfig", "frequencyPenalty"), -2, 2),
        "n": (("generationConfig", "candidateCount"), 1, 8),
        "seed": (("generationConfig", "seed"), -(2**31), 2**31 - 1),
    },
    COHERE: {
        "temperature": (("temperature",), 0, 1),
        "top_p": (("p",), 0.01, 0.99),
        "presence_penalty": (("presence_penalty",), 0, 1),
        "frequency_penalty": (("frequency_penalty",), 0, 1),
        "seed": (("seed",), 0, 2**63),
    },
    MISTRAL: {
        "temperature": (("temperature",), 0, 1.5),
        "top_p": (("top_p",), 0, 1),
        "presence_penalty": (("presence_penalty",), -2, 2),
        "frequency_penalty": (("frequency_penalty",), -2, 2),
        "n": (("n",), 1, 128),
        "seed": (("random_seed",), 0, 2**63),
    },
    BEDROCK: {
        "temperature": (("inferenceConfig", "temperature"), 0, 1),
        "top_p": (("inferenceConfig", "topP"), 0, 1),
    },
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("target", RANGES)
def test_a_number_out_of_range_is_passed_on(target: str, name: str):
    path, least, most = RANGES[target].get(name, ((name,), 0, 0))
    for value in NUMBERS[name]:
        found = told(chat(user("q"), **{name: value}), CHAT, target)
        sent = held(found.body, path)
        if name in RANGES[target] and least <= value <= most:
            assert sent == value
            continue
        assert sent is None or least <= sent <= most
        assert name in {path for _, path in found.paths}
        assert not [each for each in check_request_rules(target, found.body) if "range" in each]


@pytest.mark.parametrize("name", ["temperature", "top_p"])
@pytest.mark.parametrize("value", [-1, 2.5])
def test_a_number_of_elsewhere_is_passed_on_to_chat(name: str, value: float):
    body = {"model": "m", "messages": [user("q")], "options": {name: value}}
    found = told(body, OLLAMA, CHAT)
    assert found.body[name] == (0 if value < 0 else 2 if name == "temperature" else 1)
    assert ("CONTROL_CHANGED", f"options.{name}") in found.paths


@pytest.mark.parametrize("target", [GEMINI, COHERE, MISTRAL, BEDROCK, CHAT, RESPONSES])
def test_all_tokens_to_choose_from_are_a_loss(target: str):
    found = told(claude(user("q"), top_k=-1), CLAUDE, target)
    assert found.losses == {"DEFAULT_DROPPED"}
    assert "-1" not in found.rendered.body.decode()


def test_no_token_to_choose_from_is_sent_to_gemini():
    # Its server takes 1 and more; 0 switches the choice off elsewhere.
    found = told(claude(user("q"), top_k=0), CLAUDE, GEMINI)
    assert "topK" not in found.body["generationConfig"]
    assert found.losses == {"DEFAULT_DROPPED"}


# --- metadata --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source, body, key",
    [
        (MISTRAL, chat(user("q")), "metadata"),
        (BEDROCK, {"modelId": "m", "messages": [user([{"text": "q"}])]}, "requestMetadata"),
    ],
)
@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_metadata_of_other_types_are_told_as_lost(
    source: str, body: dict[str, Any], key: str, target: str
):
    body = {**body, key: {"a": 1, "b": True, "c": "x", "d": None, "e": {"f": [1.5]}}}
    found = told(body, source, target)
    expected = {"a": "1", "b": "true", "c": "x", "e": '{"f":[1.5]}'}
    assert found.body["metadata"] == expected
    assert found.losses == {"CONTROL_RESPELLED"}
    assert told(body, source, source).body == body


@pytest.mark.parametrize("target", [CHAT, RESPONSES, BEDROCK])
def test_metadata_that_the_server_refuses_are_sent(target: str):
    labels = {"ok": "x", "long": "y" * 600, "k" * 300: "z"}
    many = {f"key{number}": "v" for number in range(20)}
    for metadata, lost in (
        (labels, {"long", "k" * 300}),
        (many, {f"key{n}" for n in range(16, 20)}),
    ):
        found = told(chat(user("q"), metadata=metadata), MISTRAL, target)
        assert {path for code, path in found.paths if code == "CONTROL_DROPPED"} == {
            f"metadata.{key}" for key in lost
        }
        key = "requestMetadata" if target == BEDROCK else "metadata"
        assert found.body[key].keys() == metadata.keys() - lost


def test_fields_that_messages_refuse_beside_the_user_are_metadata_of_chat():
    # The server of Messages takes nothing but user_id, and Chat takes metadata only of answers that it stores: what
    # stands there is a loss, and no call that works elsewhere is refused because of it.
    found = told(claude(user("q"), metadata={"user_id": "u", "team": 7}), CLAUDE, CHAT)
    assert found.body["user"] == "u"
    assert "metadata" not in found.body
    assert found.paths == {("FIELD_DROPPED", "metadata.team")}

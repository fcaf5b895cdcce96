"""Settings that Chat Completions and Responses both have: between the two they are no loss."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, user
from tests.oracles.sdk_types import validate_request

ALIKE = {
    "service_tier": "flex",
    "store": False,
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
    "safety_identifier": "s",
    "moderation": {"model": "omni-moderation-latest"},
    "stream": True,
    "stream_options": {"include_obfuscation": False},
}
LOGPROBS = "message.output_text.logprobs"
ASKED: dict[str, dict[str, Any]] = {
    CHAT: {
        "model": "m",
        "messages": [user("q")],
        **ALIKE,
        "verbosity": "low",
        "logprobs": True,
        "top_logprobs": 3,
    },
    RESPONSES: {
        "model": "m",
        "input": [user("q")],
        **ALIKE,
        "text": {"verbosity": "low"},
        "include": [LOGPROBS],
        "top_logprobs": 3,
    },
}
SIBLINGS = [(CHAT, RESPONSES), (RESPONSES, CHAT)]
FORMAT = {
    CHAT: {"response_format": {"type": "json_object"}},
    RESPONSES: {"text": {"verbosity": "low", "format": {"type": "json_object"}}},
}


def rendered(body: dict[str, Any], source: str, target: str) -> tuple[Any, list[tuple[str, str]]]:
    """What was written and lost; writing again gives the same."""
    found = cannery.translate(body, source=source, target=target)
    request = cannery.normalize_request(body, source)
    for _ in range(3):
        again = cannery.nativize_request(request, target)
        assert again.body == found.body
    written = json.loads(found.body)
    assert validate_request(target, written) == []
    return written, [(loss.code, loss.path) for loss in found.losses]


@pytest.mark.parametrize("source, target", SIBLINGS)
def test_siblings_share_their_settings(source: str, target: str):
    assert rendered(ASKED[source], source, target) == (ASKED[target], [])


@pytest.mark.parametrize("source, target", SIBLINGS)
def test_what_is_shared_stands_beside_what_is_modelled(source: str, target: str):
    body = {**ASKED[source], **FORMAT[source], "temperature": 0.5}
    written, losses = rendered(body, source, target)
    assert written == {**ASKED[target], **FORMAT[target], "temperature": 0.5}
    assert losses == []


@pytest.mark.parametrize("source, target", SIBLINGS)
def test_long_conversations_share_them_too(source: str, target: str):
    turns = [*[user("x" * 900), {"role": "assistant", "content": "y" * 900}] * 8, user("z")]
    field = "messages" if source == CHAT else "input"
    written, losses = rendered({**ASKED[source], field: turns}, source, target)
    assert losses == []
    assert {key: written[key] for key in ALIKE} == ALIKE


@pytest.mark.parametrize("source", [CHAT, RESPONSES])
@pytest.mark.parametrize("target", [CLAUDE, GEMINI])
def test_others_have_no_such_settings(source: str, target: str):
    _, losses = rendered(ASKED[source], source, target)
    lost = {path for code, path in losses if code in ("FIELD_DROPPED", "DEFAULT_DROPPED")}
    deeper = {"text": "text.verbosity"}
    if source == CHAT:
        deeper["stream_options"] = "stream_options.include_obfuscation"
    asked = {deeper.get(key, key) for key in ASKED[source]}
    assert lost == asked - {"model", "messages", "input", "stream"}


@pytest.mark.parametrize(
    "source, settings, lost",
    [
        (CHAT, {"logit_bias": {"1": 2}, "modalities": ["audio"]}, ["logit_bias", "modalities"]),
        (CHAT, {"verbosity": "of the future"}, ["verbosity"]),
        (CHAT, {"service_tier": "of the future"}, ["service_tier"]),
        (CHAT, {"top_logprobs": 3}, ["top_logprobs"]),
        (CHAT, {"logprobs": False}, []),
        (
            CHAT,
            {"stream_options": {"include_obfuscation": False}},
            ["stream_options.include_obfuscation"],
        ),
        (CHAT, {"store": "yes", "prompt_cache_key": 4}, ["store", "prompt_cache_key"]),
        (RESPONSES, {"include": ["reasoning.encrypted_content"]}, ["include"]),
        (RESPONSES, {"include": ["reasoning.encrypted_content", LOGPROBS]}, ["include"]),
        (RESPONSES, {"top_logprobs": 3}, ["top_logprobs"]),
        (RESPONSES, {"service_tier": "ultrafast"}, ["service_tier"]),
        (RESPONSES, {"prompt_cache_options": {"ttl": "12h"}}, ["prompt_cache_options"]),
        (
            RESPONSES,
            {"prompt_cache_options": {"mode": "explicit", "comparison_response_id": "r"}},
            ["prompt_cache_options.comparison_response_id"],
        ),
    ],
)
def test_what_only_one_of_them_has_is_named(source: str, settings: Any, lost: list[str]):
    field = "messages" if source == CHAT else "input"
    target = RESPONSES if source == CHAT else CHAT
    body = {"model": "m", field: [user("q")], **settings}
    assert rendered(body, source, target)[1] == [("FIELD_DROPPED", path) for path in lost]


# --- how closely an image is looked at ---------------------------------------------------------

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def shown(dialect: str, url: str, detail: str | None) -> dict[str, Any]:
    said = {} if detail is None else {"detail": detail}
    if dialect == CHAT:
        part = {"type": "image_url", "image_url": {"url": url, **said}}
        return {"model": "m", "messages": [user([{"type": "text", "text": "q"}, part])]}
    part = {"type": "input_image", **said, "image_url": url}
    return {"model": "m", "input": [user([{"type": "input_text", "text": "q"}, part])]}


@pytest.mark.parametrize("detail", ["low", "high", "original"])
@pytest.mark.parametrize("url", [PIXEL, "https://x.example/a.png"])
@pytest.mark.parametrize("source, target", SIBLINGS)
def test_the_detail_of_an_image_is_kept(source: str, target: str, url: str, detail: str):
    written, losses = rendered(shown(source, url, detail), source, target)
    assert (written, losses) == (shown(target, url, detail), [])


@pytest.mark.parametrize("detail", ["auto", None])
def test_the_usual_detail_is_no_loss(detail: str | None):
    auto = shown(RESPONSES, PIXEL, "auto")
    assert rendered(shown(CHAT, PIXEL, detail), CHAT, RESPONSES) == (auto, [])
    assert rendered(auto, RESPONSES, CHAT) == (shown(CHAT, PIXEL, None), [])


@pytest.mark.parametrize("target", [CLAUDE, GEMINI])
def test_others_know_no_detail(target: str):
    _, losses = rendered(shown(CHAT, PIXEL, "low"), CHAT, target)
    assert ("FIELD_DROPPED", "messages[0].content[1].image_url.detail") in losses


@pytest.mark.parametrize("source, target", [(CHAT, RESPONSES), (RESPONSES, CHAT)])
def test_what_nobody_knows_of_moderation_stays_at_home(source: str, target: str):
    policy = {"input": {"mode": "block", "x_new": 1}, "output": None}
    said = {"messages": [{"role": "user", "content": "q"}]} if source == CHAT else {"input": "q"}
    body = {"model": "m", **said, "moderation": {"model": "omni", "policy": policy, "x_new": 2}}
    written, losses = rendered(body, source, target)
    assert written["moderation"] == {"model": "omni", "policy": {"input": {"mode": "block"}}}
    assert set(losses) == {
        ("FIELD_DROPPED", "moderation.policy.input.x_new"),
        ("FIELD_DROPPED", "moderation.x_new"),
    }


def filed(dialect: str, identifier: str) -> dict[str, Any]:
    """A body with a file of OpenAI's Files API."""
    if dialect == CHAT:
        part = {"type": "file", "file": {"file_id": identifier, "filename": "a.pdf"}}
        return {"model": "m", "messages": [user([part, {"type": "text", "text": "q"}])]}
    part = {"type": "input_file", "file_id": identifier, "filename": "a.pdf"}
    return {"model": "m", "input": [user([part, {"type": "input_text", "text": "q"}])]}


@pytest.mark.parametrize("source, target", SIBLINGS)
def test_a_file_of_openai_is_kept_by_its_id(source: str, target: str):
    assert rendered(filed(source, "file-1"), source, target) == (filed(target, "file-1"), [])


def test_a_file_in_a_result_is_kept_by_its_id():
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = [{"type": "input_file", "file_id": "file-1"}, {"type": "input_text", "text": "done"}]
    said = {"type": "function_call_output", "call_id": "c", "output": output}
    written, losses = rendered({"model": "m", "input": [user("q"), call, said]}, RESPONSES, CHAT)
    assert losses == [("MEDIA_MOVED", "input[2]")]
    assert written["messages"][-1]["content"][-1] == {
        "type": "file",
        "file": {"file_id": "file-1"},
    }


@pytest.mark.parametrize(
    "source, target", [*SIBLINGS, (CHAT, CLAUDE), (RESPONSES, GEMINI), (CHAT, "cohere_chat")]
)
def test_a_file_that_another_provider_keeps_is_lost(source: str, target: str):
    identifier = "file_011" if target in (CHAT, RESPONSES) else "file-1"
    _, losses = rendered(filed(source, identifier), source, target)
    assert "REFERENCE_UNRESOLVABLE" in {code for code, _ in losses}


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_a_file_of_mistral_is_lost_whatever_its_id(target: str):
    parts = [{"type": "file", "file_id": "file-1"}, {"type": "text", "text": "q"}]
    body = {"model": "m", "messages": [user(parts)]}
    _, losses = rendered(body, "mistral_chat", target)
    assert ("REFERENCE_UNRESOLVABLE", "messages[0].content[0]") in losses


def test_an_image_by_file_id_has_no_place_in_chat():
    parts = [
        {"type": "input_image", "file_id": "file-1", "detail": "auto"},
        {"type": "input_text", "text": "q"},
    ]
    _, losses = rendered({"model": "m", "input": [user(parts)]}, RESPONSES, CHAT)
    assert ("REFERENCE_UNRESOLVABLE", "input[0].content[0]") in losses

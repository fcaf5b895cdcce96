"""A body that names its model beside the URL, as Google's Go client sends it: other dialects get the name."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery

NAME = "gemini_generate"
OTHERS = ["openai_chat", "openai_responses", "anthropic_messages", "gemini_interactions"]
NAMED = [
    ("models/gemini-2.5-flash", "gemini-2.5-flash"),
    ("gemini-2.5-flash", "gemini-2.5-flash"),
    ("projects/p/locations/l/publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro"),
    ("tunedModels/mine", "tunedModels/mine"),
]


def body(model: Any) -> dict[str, Any]:
    return {"model": model, "contents": [{"role": "user", "parts": [{"text": "q"}]}]}


@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("spelled, name", NAMED)
def test_the_model_of_a_body_is_kept(spelled: str, name: str, target: str):
    rendered = cannery.translate(body(spelled), source=NAME, target=target)
    assert json.loads(rendered.body)["model"] == name
    assert {loss.code for loss in rendered.losses} <= {"CONTROL_DEFAULTED"}


@pytest.mark.parametrize("model", [spelled for spelled, _ in NAMED] + ["", None, 5, "models/"])
def test_the_same_dialect_gets_the_same_spelling(model: Any):
    rendered = cannery.translate(body(model), source=NAME, target=NAME)
    assert (json.loads(rendered.body), rendered.losses) == (body(model), ())


@pytest.mark.parametrize("model", ["", None, 5, "models/"])
def test_what_names_no_model_is_still_unknown(model: Any):
    rendered = cannery.translate(body(model), source=NAME, target="openai_chat")
    assert "MODEL_UNKNOWN" in {loss.code for loss in rendered.losses}


@pytest.mark.parametrize("spelled, _", NAMED)
def test_another_model_replaces_the_one_in_the_body(spelled: str, _: str):
    request = cannery.normalize_request(body(spelled), NAME).replace(model="gemini-3-pro")
    assert json.loads(cannery.nativize_request(request, NAME).body) == body("models/gemini-3-pro")


def test_a_model_from_elsewhere_stays_in_the_url():
    chat = {"model": "gpt-5", "messages": [{"role": "user", "content": "q"}]}
    assert "model" not in json.loads(
        cannery.translate(chat, source="openai_chat", target=NAME).body
    )

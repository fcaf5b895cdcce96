"""Images that a model makes: a tool in Responses, a kind of answer in Gemini; what was made is an image everywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai import types

import cannery
from cannery.messages.content import ImageContentClass
from cannery.messages.events import fold, unfold
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES
from tests.oracles.sdk_types import validate_request, validate_response

INTERACTIONS = "gemini_interactions"
PIXEL = "iVBORw0KGgo="
Object = dict[str, Any]


def asking(**tool: Any) -> Object:
    return {"model": "m", "input": "q", "tools": [{"type": "image_generation", **tool}]}


def test_a_tool_that_makes_images_is_a_modality_of_gemini():
    body = asking(size="1536x1024", quality="high", output_format="png")
    rendered = cannery.translate(
        body, source=RESPONSES, target=GEMINI, model="gemini-3-pro-image-preview"
    )
    written = json.loads(rendered.body)
    assert written["generationConfig"] == {
        "responseModalities": ["TEXT", "IMAGE"],
        "imageConfig": {"aspectRatio": "3:2"},
    }
    # The SDK sends this field, but has it in no type of a body.
    types.ImageConfig.model_validate(written["generationConfig"].pop("imageConfig"))
    assert validate_request(GEMINI, written) == []
    assert [(loss.code, loss.path) for loss in rendered.losses] == [
        ("FIELD_DROPPED", "tools[0].quality")
    ]


def test_controls_stand_beside_the_modality():
    body = {**asking(), "temperature": 0.5}
    rendered = cannery.translate(
        body, source=RESPONSES, target=GEMINI, model="gemini-2.5-flash-image"
    )
    config = json.loads(rendered.body)["generationConfig"]
    assert config == {"temperature": 0.5, "responseModalities": ["TEXT", "IMAGE"]}


@pytest.mark.parametrize("target", [GEMINI, INTERACTIONS, CHAT, CLAUDE])
def test_other_models_make_no_images(target: str):
    rendered = cannery.translate(asking(), source=RESPONSES, target=target, model="other")
    assert ("TOOL_DROPPED", "tools[0]") in [(loss.code, loss.path) for loss in rendered.losses]
    assert b"odalities" not in rendered.body


def test_interactions_have_the_same_modality():
    rendered = cannery.translate(
        asking(size="1024x1024"), source=RESPONSES, target=INTERACTIONS, model="gemini-3-pro-image"
    )
    assert json.loads(rendered.body)["response_modalities"] == ["text", "image"]
    assert [loss.path for loss in rendered.losses] == ["tools[0].size"]
    back = cannery.translate(rendered.body, source=INTERACTIONS, target=RESPONSES, model="m")
    assert json.loads(back.body)["tools"] == [{"type": "image_generation"}]


@pytest.mark.parametrize(
    "config",
    [
        {"generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}},
        {"generation_config": {"response_modalities": ["IMAGE"]}},
    ],
)
def test_a_request_for_images_offers_the_tool(config: Object):
    body = {"contents": [{"role": "user", "parts": [{"text": "q"}]}], **config}
    rendered = cannery.translate(body, source=GEMINI, target=RESPONSES, model="gpt-5.5")
    written = json.loads(rendered.body)
    assert written["tools"] == [{"type": "image_generation"}]
    assert validate_request(RESPONSES, written) == []
    assert rendered.losses == ()
    assert json.loads(cannery.translate(body, source=GEMINI, target=GEMINI).body) == body


def test_a_request_for_speech_is_no_request_for_images():
    config = {"responseModalities": ["AUDIO"]}
    body = {
        "contents": [{"role": "user", "parts": [{"text": "q"}]}],
        "generationConfig": config,
    }
    rendered = cannery.translate(body, source=GEMINI, target=RESPONSES, model="gpt-5.5")
    assert [(loss.code, loss.path) for loss in rendered.losses] == [
        ("FIELD_DROPPED", "generationConfig.responseModalities")
    ]


MADE: dict[str, Object] = {
    GEMINI: {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}],
                },
                "finishReason": "STOP",
                "index": 0,
            }
        ],
        "modelVersion": "m",
        "responseId": "r1",
    },
    RESPONSES: {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "output": [
            {
                "type": "image_generation_call",
                "id": "ig_1",
                "status": "completed",
                "output_format": "png",
                "result": PIXEL,
            }
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    },
}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("source, target", [(GEMINI, RESPONSES), (RESPONSES, GEMINI)])
def test_what_was_made_is_an_image(source: str, target: str, is_stream: bool):
    response = cannery.normalize_response(MADE[source], source)
    if is_stream:
        written = cannery.nativize_stream(unfold(response), target)
        heard = fold(cannery.normalize_stream(list(written), target))
    else:
        rendered = cannery.nativize_response(response, target)
        assert validate_response(target, json.loads(rendered.body)) == []
        assert rendered.losses == ()
        heard = cannery.normalize_response(rendered.body, target)
    [image] = [one.held for one in heard.canisters if isinstance(one.held, ImageContentClass)]
    assert image.mime_type == "image/png"

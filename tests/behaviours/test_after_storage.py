"""What a store gives back is written as what was read: text kept elsewhere is text like any other."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import cannery

LONG = "y" * 2_000
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

CALLS = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "instructions_stay_instructions": (
        "openai_responses",
        {
            "model": "m",
            "instructions": "I",
            "input": [{"role": "developer", "content": "D"}, {"role": "user", "content": "q"}],
        },
    ),
    "a_long_result_stays_a_string": (
        "anthropic_messages",
        {
            "model": "m",
            "max_tokens": 5,
            "messages": [
                {"role": "user", "content": "q"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "t", "content": LONG}],
                },
            ],
        },
    ),
    "a_mislabelled_image_is_still_corrected": (
        "openai_chat",
        {
            "model": "m",
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image_url",
                            "image_url": {"url": f"data:image/jpeg;base64,{PNG}"},
                        }
                    ],
                }
            ],
        },
    ),
    "long_blank_text_is_still_blank": (
        "openai_chat",
        {
            "model": "m",
            "messages": [
                {"role": "user", "content": " " * 2_000},
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": "", "tool_calls": CALLS},
                {"role": "tool", "tool_call_id": "c1", "content": LONG},
            ],
        },
    ),
    "a_late_system_message_is_still_folded": (
        "openai_chat",
        {
            "model": "m",
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b"},
                {"role": "system", "content": "late"},
            ],
        },
    ),
}
DIALECTS = ("anthropic_messages", "gemini_generate", "openai_chat", "openai_responses")


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("name", BODIES)
def test_stored_and_loaded(name: str, target: str, tmp_path: Path):
    dialect, body = BODIES[name]
    request = cannery.normalize_request(body, dialect)
    stored = cannery.open_store(str(tmp_path / "store")).create()
    for canister in request.conversation:
        stored.append(canister)
    loaded = request.replace(conversation=tuple(stored.load()))
    ours, theirs = (cannery.nativize_request(given, target) for given in (loaded, request))
    assert json.loads(ours.body) == json.loads(theirs.body)
    assert (ours.losses, ours.repairs) == (theirs.losses, theirs.repairs)
    if target == dialect:
        assert json.loads(cannery.nativize_request(loaded, dialect).body) == body


def test_an_answer_with_empty_text_beside_calls_can_be_pickled_and_joined():
    dialect, body = BODIES["long_blank_text_is_still_blank"]
    request = cannery.normalize_request(body, dialect)
    for canister in request.conversation:
        assert pickle.loads(pickle.dumps(canister)) == canister  # noqa: S301 - our own bytes
        assert copy.deepcopy(canister) is canister
        assert canister.replace(joined=True).joined

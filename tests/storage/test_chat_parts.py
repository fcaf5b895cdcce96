"""Records of the chat profile whose content is a list of parts are canisters like any others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import PNG as DATA

PNG = f"data:image/png;base64,{DATA}"
SHOWN = {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RECORDS: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "Look"}, SHOWN], "name": "ann"},
    {"role": "assistant", "content": [{"type": "text", "text": "I see."}], "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "42"}]},
    {"role": "user", "content": "Plain."},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "x_new", "y": 1}]},
]


@pytest.fixture(name="chat")
def _chat(tmp_path: Path):
    with cannery.open_store(tmp_path / "store") as store:
        chat = store.create(profile="chat")
        for record in RECORDS:
            chat.save(record)
        yield store.get(chat.identifier)


def test_records_come_back_as_they_were_saved(chat):
    assert chat.records() == RECORDS


def test_images_are_in_the_conversation(chat):
    kinds = [canister.held.kind for canister in chat.load() if hasattr(canister.held, "kind")]
    assert kinds == ["image", "opaque"]


@pytest.mark.parametrize(
    "dialect", ["openai_chat", "openai_responses", "anthropic_messages", "gemini_generate"]
)
def test_they_can_be_said_in_every_dialect(chat, dialect: str):
    request = cannery.Request(chat.load(), model="m")
    body = cannery.nativize_request(request, dialect).body.decode()
    assert PNG.partition(",")[2] in body
    for words in ("Look", "I see.", "42", "Plain."):
        assert words in body


def test_a_part_that_is_no_object_is_refused(chat):
    with pytest.raises(cannery.ProfileError, match="expected an object"):
        chat.save({"role": "user", "content": ["text"]})
    assert chat.records() == RECORDS

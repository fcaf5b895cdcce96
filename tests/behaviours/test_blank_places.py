"""A URL or file id of nothing but white space names nothing: it stays as it came at home, and is told abroad."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery

DIALECTS = ("openai_chat", "openai_responses", "anthropic_messages", "gemini_generate")


def chat(*messages: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages)}


def bodies(place: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Every kind of place, in each dialect that has it."""

    def said(part: dict[str, Any]) -> dict[str, Any]:
        return {"role": "user", "content": [part]}

    def asked(part: dict[str, Any]) -> dict[str, Any]:
        return {"model": "m", "input": [said(part)]}

    def messages(part: dict[str, Any]) -> dict[str, Any]:
        return {"max_tokens": 5, **chat(said(part))}

    located = {"fileUri": place, "mimeType": "image/png"}
    audio = {"role": "assistant", "audio": {"id": place}}
    hello = {"role": "user", "content": "Hello."}
    return {
        "chat image": (
            "openai_chat",
            chat(said({"type": "image_url", "image_url": {"url": place}})),
        ),
        "chat file": ("openai_chat", chat(said({"type": "file", "file": {"file_id": place}}))),
        "chat audio": ("openai_chat", chat(hello, audio, hello)),
        "image": ("openai_responses", asked({"type": "input_image", "image_url": place})),
        "image file": ("openai_responses", asked({"type": "input_image", "file_id": place})),
        "file url": ("openai_responses", asked({"type": "input_file", "file_url": place})),
        "file": ("openai_responses", asked({"type": "input_file", "file_id": place})),
        "source": (
            "anthropic_messages",
            messages({"type": "image", "source": {"type": "url", "url": place}}),
        ),
        "source file": (
            "anthropic_messages",
            messages({"type": "document", "source": {"type": "file", "file_id": place}}),
        ),
        "file data": (
            "gemini_generate",
            {"contents": [{"role": "user", "parts": [{"fileData": located}]}]},
        ),
    }


@pytest.mark.parametrize("place", ["", " ", "\n\t", "\u00a0"])
@pytest.mark.parametrize("kind", bodies(""))
def test_blank_places(kind: str, place: str):
    dialect, body = bodies(place)[kind]
    raw = json.dumps(body).encode()
    request = cannery.normalize_request(raw, dialect)
    assert json.loads(cannery.nativize_request(request, dialect).body) == body
    for target in DIALECTS:
        if target != dialect:
            assert cannery.translate(raw, source=dialect, target=target).losses

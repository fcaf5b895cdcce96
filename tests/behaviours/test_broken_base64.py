"""Data that are not base64 come home as they were, and are not passed to another provider as if they were."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

import cannery
from cannery.storage import open_store
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, PDF, PNG, RESPONSES, told, user

DIALECTS = (CHAT, RESPONSES, CLAUDE, GEMINI)
LONG = base64.b64encode(base64.b64decode(PNG) + bytes(60_000)).decode()
BROKEN = {
    "illegal": "iVBORw0K!!!!",
    "words": "not base64, at all",
    "one_left_over": PNG[:-3],
    "padding_within": PNG[:40] + "==" + PNG[42:],
    "only_padding": "====",
    "nothing": "",
    "not_ascii": PNG[:40] + "é" + PNG[40:],
    "long_with_a_broken_end": LONG[:-1] + "!",
    "long_with_a_broken_start": "%" + LONG[1:],
}
TYPES = ("image/png", "application/pdf", "text/plain")


def _claude(content: list[Any]) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 5, "messages": [user(content)]}


def _bodies(data: str, mime_type: str) -> Iterator[tuple[str, dict[str, Any]]]:
    url = f"data:{mime_type};base64,{data}"
    words = {"type": "text", "text": "q"}
    source = {"type": "base64", "media_type": mime_type, "data": data}
    image: dict[str, Any] = {"type": "image_url", "image_url": {"url": url}}
    file: dict[str, Any] = {"type": "file", "file": {"file_data": url, "filename": "f"}}
    sound = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    for part in (image, file, sound):
        yield CHAT, {"model": "m", "messages": [user([words, part])]}
    for part in (
        {"type": "input_image", "detail": "auto", "image_url": url},
        {"type": "input_file", "filename": "f", "file_data": url},
    ):
        yield (
            RESPONSES,
            {"model": "m", "input": [user([{"type": "input_text", "text": "q"}, part])]},
        )
    for kind in ("image", "document"):
        yield CLAUDE, _claude([words, {"type": kind, "source": source}])
    blob = {"inlineData": {"mimeType": mime_type, "data": data}}
    yield GEMINI, {"contents": [{"role": "user", "parts": [{"text": "q"}, blob]}]}


def _inline(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "data" and isinstance(item, str):
                yield item
            else:
                yield from _inline(item)
    elif isinstance(value, list):
        for item in value:
            yield from _inline(item)
    elif isinstance(value, str) and value.startswith("data:"):
        yield value.partition(";base64,")[2]


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("mime_type", TYPES)
def test_broken_data_come_home_and_are_named_abroad(data: str, mime_type: str):
    for source, body in _bodies(data, mime_type):
        request = cannery.normalize_request(body, source)
        kept = open_store("sqlite::memory:").create()
        for canister in request.conversation:
            kept.append(canister)
        stored = request.replace(conversation=kept.load())
        for target in DIALECTS:
            whole = cannery.translate(json.dumps(body).encode(), source=source, target=target)
            for rendered in (
                whole,
                cannery.nativize_request(request, target),
                cannery.nativize_request(stored, target),
            ):
                written = json.loads(rendered.body)
                if source == target:
                    assert written == body
                    continue
                assert list(_inline(written)) == []
                assert {loss.code for loss in rendered.losses} & {
                    *("MEDIA_DROPPED", "OPAQUE_DROPPED")
                }


@pytest.mark.parametrize(
    "data", [PNG.rstrip("="), PNG[:20] + "\r\n" + PNG[20:], PNG[:20] + "  " + PNG[20:], f" {PNG} "]
)
def test_odd_spellings_of_base64_become_the_usual_one_abroad(data: str):
    for source, body in _bodies(data, "image/png"):
        for target in DIALECTS:
            written = told(body, source, target).body
            if source == target:
                assert written == body
            else:
                assert set(_inline(written)) <= {PNG}


def test_a_data_set_gets_its_broken_image_back():
    body = {
        "conversations": [{"from": "human", "value": "<image>q"}],
        "images": ["data:image/png;base64,!!!!"],
    }
    request = cannery.normalize_request(body, "sharegpt")
    assert json.loads(cannery.nativize_request(request, "sharegpt").body) == body


@pytest.mark.parametrize("data, kind", [(PNG, "image"), (PDF, "document")])
def test_a_file_that_is_called_text_and_is_none(data: str, kind: str):
    file = {"file_data": f"data:text/plain;base64,{data}", "filename": "f"}
    body = {"model": "m", "messages": [user([{"type": "file", "file": file}])]}
    claude = told(body, CHAT, CLAUDE)
    (block,) = claude.body["messages"][0]["content"]
    assert (block["type"], block["source"]["data"]) == (kind, data)
    assert claude.repairs == {"media_types"}
    assert ("FIELD_DROPPED" in claude.losses) == (kind == "image")


def test_bytes_that_are_no_text_are_named_when_they_are_shown_as_text():
    data = base64.b64encode("caf\xe9".encode("latin-1")).decode()
    body = {
        "contents": [
            {"role": "user", "parts": [{"inlineData": {"mimeType": "text/plain", "data": data}}]}
        ]
    }
    claude = told(body, GEMINI, CLAUDE)
    assert claude.body["messages"][0]["content"][0]["source"]["data"] == "caf\ufffd"
    assert "DOCUMENT_TO_TEXT" in claude.losses

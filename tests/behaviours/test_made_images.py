"""An image that the model made passes between Responses and Gemini, and is named where it cannot be said."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, PNG, RESPONSES, told, user
from tests.oracles.sdk_streams import parse_stream
from tests.oracles.sdk_types import validate_request, validate_response
from tests.oracles.stream_rules import check_stream_rules

WEBP = base64.b64encode(b"RIFF\x22\x00\x00\x00WEBPVP8 " + bytes(20)).decode()
HEIC = base64.b64encode(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40)).decode()
MADE = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "so", "annotations": []}],
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}


def _asked(*items: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "input": [user("q"), *items, user("r")]}


def _answered(*items: dict[str, Any]) -> dict[str, Any]:
    body = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return {**body, "output": list(items)}


def _inline(data: str = PNG, mime_type: str = "image/png") -> dict[str, Any]:
    return {"inlineData": {"mimeType": mime_type, "data": data}}


def _spoken(*parts: dict[str, Any]) -> dict[str, Any]:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}


def _turns(*parts: dict[str, Any]) -> dict[str, Any]:
    turns = [("user", [{"text": "q"}]), ("model", list(parts)), ("user", [{"text": "r"}])]
    return {"contents": [{"role": role, "parts": parts} for role, parts in turns]}


def _kinds(items: list[dict[str, Any]]) -> list[Any]:
    return [item.get("type", item.get("role")) for item in items]


# --- Responses to others -----------------------------------------------------------------------


@pytest.mark.parametrize("status", ["completed", "generating"])
def test_a_made_image_does_not_reach_gemini(status: str):
    found = told(_asked({**MADE, "status": status}, SAID), RESPONSES, GEMINI)
    assert found.body["contents"] == _turns(_inline(), {"text": "so"})["contents"]
    assert not found.losses
    answer = told(_answered({**MADE, "status": status}, SAID), RESPONSES, GEMINI, kind="response")
    assert answer.body["candidates"][0]["content"]["parts"] == [_inline(), {"text": "so"}]
    assert not answer.losses


@pytest.mark.parametrize(
    "fields, mime_type",
    [
        ({"result": WEBP, "output_format": "webp"}, "image/webp"),
        ({"result": WEBP}, "image/webp"),
        ({"result": WEBP, "output_format": None}, "image/webp"),
        ({"output_format": "png"}, "image/png"),
        ({"result": base64.b64encode(b"<svg/>").decode(), "output_format": "svg"}, "image/svg+xml"),
    ],
)
def test_the_type_of_a_made_image_is_guessed_wrong(fields: dict[str, Any], mime_type: str):
    body = _asked({**MADE, **fields})
    found = told(body, RESPONSES, GEMINI)
    [part] = found.body["contents"][1]["parts"]
    assert part["inlineData"]["mimeType"] == mime_type
    assert not found.losses
    assert told(body, RESPONSES, RESPONSES).body == body


@pytest.mark.parametrize("target", [CHAT, CLAUDE])
def test_a_made_image_is_called_opaque(target: str):
    found = told(_asked(MADE, SAID), RESPONSES, target)
    assert ("MEDIA_DROPPED", "input[1]") in found.paths
    assert "OPAQUE_DROPPED" not in found.losses
    answer = told(_answered(MADE, SAID), RESPONSES, target, kind="response")
    assert ("MEDIA_DROPPED", "output[0]") in answer.paths


def test_what_else_a_call_says_of_its_image_is_not_named():
    found = told(_asked({**MADE, "revised_prompt": "p", "size": "1x1"}, SAID), RESPONSES, GEMINI)
    assert found.paths == {
        ("FIELD_DROPPED", "input[1].revised_prompt"),
        ("FIELD_DROPPED", "input[1].size"),
    }


UNMADE = [
    {**MADE, "result": None},
    {**MADE, "status": "failed"},
    {**MADE, "result": "not base64!"},
    {**MADE, "result": f"data:image/png;base64,{PNG}"},
    {**MADE, "result": ""},
    {**MADE, "output_format": "tiff"},
    {"type": "image_generation_call", "id": "ig_1", "status": "in_progress"},
]


@pytest.mark.parametrize("item", UNMADE)
def test_a_call_that_made_nothing_becomes_an_image(item: dict[str, Any]):
    assert ("OPAQUE_DROPPED", "input[1]") in told(_asked(item, SAID), RESPONSES, GEMINI).paths
    assert told(_asked(item, SAID), RESPONSES, RESPONSES).body == _asked(item, SAID)


HOME = [
    [MADE],
    [MADE, MADE, SAID],
    [SAID, MADE],
    [THOUGHT, MADE, SAID],
    [MADE, THOUGHT, SAID],
    [{**MADE, "revised_prompt": "p", "x": {"y": [1]}, "output_format": "png"}],
    [{"result": PNG, "status": "generating", "type": "image_generation_call"}],
    [{"role": "assistant", "content": [{"type": "input_image", "detail": "auto", "image_url": url}]}
     for url in (f"data:image/png;base64,{PNG}", "https://a.example/b.png")],
    [{"role": "assistant", "content": [
        {"type": "output_text", "text": "a", "annotations": []},
        {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "output_text", "text": "b", "annotations": []},
    ]}],
]  # fmt: skip


@pytest.mark.parametrize("items", HOME)
def test_a_made_image_comes_home_changed(items: list[dict[str, Any]]):
    assert told(_asked(*items), RESPONSES, RESPONSES).body == _asked(*items)
    answer = told(_answered(*items), RESPONSES, RESPONSES, kind="response")
    assert answer.body == _answered(*items)


# --- Gemini to Responses -----------------------------------------------------------------------


def test_an_image_of_gemini_does_not_reach_responses():
    parts = [{"text": "a"}, _inline(), _inline(WEBP, "image/webp"), {"text": "b"}]
    found = told(_turns(*parts), GEMINI, RESPONSES, model="m")
    assert not found.losses
    items = found.body["input"]
    made = "image_generation_call"
    assert _kinds(items) == ["user", "assistant", made, made, "assistant", "user"]
    assert [items[2]["result"], items[3]["result"]] == [PNG, WEBP]
    assert [items[2]["output_format"], items[3]["output_format"]] == ["png", "webp"]
    assert len({items[2]["id"], items[3]["id"]}) == 2
    assert validate_request(RESPONSES, found.body) == []
    again = told(_turns(*parts), GEMINI, RESPONSES, model="m")
    assert again.rendered.body == found.rendered.body
    back = told(found.body, RESPONSES, GEMINI)
    assert back.body["contents"] == _turns(*parts)["contents"]


def test_an_image_in_an_answer_of_gemini_does_not_reach_responses():
    parts = [{"text": "a"}, _inline(), {"text": "b"}]
    found = told(_spoken(*parts), GEMINI, RESPONSES, kind="response")
    assert not found.losses
    assert _kinds(found.body["output"]) == ["message", "image_generation_call", "message"]
    assert validate_response(RESPONSES, found.body) == []
    back = told(found.body, RESPONSES, GEMINI, kind="response")
    assert back.body["candidates"][0]["content"]["parts"] == parts


@pytest.mark.parametrize(
    "part, code",
    [
        (_inline("!!!!"), "MEDIA_DROPPED"),
        (_inline(HEIC, "image/heic"), "MEDIA_TYPE_UNSUPPORTED"),
        ({"fileData": {"fileUri": "https://a.example/b.png", "mimeType": "image/png"}},
         "MEDIA_DROPPED"),
        (_inline(base64.b64encode(b"RIFF\x24\0\0\0WAVEfmt " + bytes(20)).decode(), "audio/wav"),
         "MEDIA_DROPPED"),
    ],
)  # fmt: skip
def test_what_no_call_makes_is_not_named(part: dict[str, Any], code: str):
    found = told(_turns({"text": "a"}, part), GEMINI, RESPONSES, model="m")
    assert found.paths == {(code, "contents[1].parts[1]")}
    assert _kinds(found.body["input"]) == ["user", "assistant", "user"]


# --- streams -----------------------------------------------------------------------------------


def _chunks(*parts: dict[str, Any]) -> bytes:
    bodies = [_spoken(part) for part in parts]
    for body in bodies[:-1]:
        del body["candidates"][0]["finishReason"]
    named = [{**body, "modelVersion": "g", "responseId": "r"} for body in bodies]
    return b"".join(b"data: " + json.dumps(body).encode() + b"\r\n\r\n" for body in named)


def test_an_image_in_a_stream_of_gemini_does_not_reach_responses():
    parts = [{"text": "a"}, _inline(), {"text": "b"}]
    chunks = list(cannery.translate_stream([_chunks(*parts)], source=GEMINI, target=RESPONSES))
    assert check_stream_rules(RESPONSES, b"".join(chunks)) == []
    heard = parse_stream(RESPONSES, chunks)
    assert heard.problems == []
    whole = {**_spoken(*parts), "modelVersion": "g", "responseId": "r"}
    expected = told(whole, GEMINI, RESPONSES, kind="response").body["output"]
    items = {item["type"]: item for item in heard.final["output"]}
    assert items["image_generation_call"].items() >= expected[1].items()
    assert [item["id"] for item in heard.final["output"]] == [item["id"] for item in expected]
    back = b"".join(cannery.translate_stream(chunks, source=RESPONSES, target=GEMINI))
    assert json.dumps(_inline(), separators=(",", ":")) in back.decode()


def test_an_image_in_a_stream_of_responses_loses_its_id():
    parts = [{"text": "a"}, _inline()]
    stream = list(cannery.translate_stream([_chunks(*parts)], source=GEMINI, target=RESPONSES))
    again = list(cannery.translate_stream(stream, source=RESPONSES, target=RESPONSES))
    assert check_stream_rules(RESPONSES, b"".join(again)) == []
    assert parse_stream(RESPONSES, again).final == parse_stream(RESPONSES, stream).final
    folded = cannery.fold(cannery.normalize_stream(stream, RESPONSES))
    written = json.loads(cannery.nativize_response(folded, RESPONSES).body)
    assert (
        written["output"]
        == told(
            {**_spoken(*parts), "modelVersion": "g", "responseId": "r"},
            GEMINI,
            RESPONSES,
            kind="response",
        ).body["output"]
    )

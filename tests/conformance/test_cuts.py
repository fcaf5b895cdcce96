"""Long base64 that is cut out of a body comes back as the general way writes it."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

import cannery
from cannery import translation
from cannery.wire.cuts import cut, mend
from tests.conformance.matrix import PAIRS
from tests.conformance.test_slices import general

DATA = base64.b64encode(b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(60_000)).decode()
OTHER = base64.b64encode(b"\xff\xd8\xff" + random.Random(2).randbytes(45_003)).decode()
CHAT, ANTHROPIC = "openai_chat", "anthropic_messages"
WAYS = [(source, target) for source, target in PAIRS if source in (CHAT, ANTHROPIC)]


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def image(source: str, data: str, mime_type: str = "image/png") -> dict[str, Any]:
    if source == ANTHROPIC:
        held = {"type": "base64", "media_type": mime_type, "data": data}
        return {"type": "image", "source": held}
    return {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{data}"}}


def said(source: str, *parts: Any, more: str = "") -> bytes:
    first = {"role": "user", "content": [text("Look."), *parts]}
    answer = {"role": "assistant", "content": "I see."}
    last = {"role": "user", "content": [image(source, OTHER, "image/jpeg"), text(f"And? {more}")]}
    body = {"model": "m", "max_tokens": 5, "messages": [first, answer, last]}
    return json.dumps(body, ensure_ascii=False).encode()


def outcome(body: bytes, source: str, target: str, translate: Any) -> Any:
    try:
        rendered = translate(body, source, target)
    except cannery.CanneryError as error:
        return type(error), str(error)
    return json.dumps(json.loads(rendered.body)), rendered.losses, rendered.repairs


def quick(body: bytes, source: str, target: str) -> cannery.Rendered:
    return cannery.translate(body, source=source, target=target)


def compare(body: bytes, source: str, target: str) -> None:
    assert outcome(body, source, target, quick) == outcome(body, source, target, general)


@pytest.mark.parametrize("source, target", WAYS)
@pytest.mark.parametrize(
    "data",
    [
        DATA,
        DATA[:-1],
        DATA[:-2] + "==",
        DATA[:50_000] + "-_" + DATA[50_002:],
        DATA[:50_000] + "é" + DATA[50_001:],
        DATA[:50_000] + "\x7f" + DATA[50_001:],
        DATA[:50_000] + "\n" + DATA[50_000:],
        DATA[:50_000] + '"' + DATA[50_001:],
    ],
    ids=["plain", "unpadded", "padded", "other alphabet", "not ASCII", "DEL", "newline", "quote"],
)
def test_odd_data(data: str, source: str, target: str):
    compare(said(source, image(source, data)), source, target)


@pytest.mark.parametrize("source, target", WAYS)
@pytest.mark.parametrize("broken", [b"\n", b"\x00", b"\\/", b"\\q", b"\xff", b"\\u0041"])
def test_broken_data(broken: bytes, source: str, target: str):
    body = said(source, image(source, DATA))
    place = body.index(DATA[40_000:40_020].encode())
    compare(body[:place] + broken + body[place:], source, target)
    compare(body.replace(b'"And? "', b'"And? ' + broken + b'"'), source, target)


@pytest.mark.parametrize("source, target", WAYS)
def test_marks_that_somebody_else_wrote(source: str, target: str):
    compare(said(source, image(source, DATA), more="\x7f00\x7f"), source, target)


@pytest.mark.parametrize("source, target", WAYS)
def test_other_places(source: str, target: str):
    url = f"data:image/png;base64,{DATA}"
    compare(said(source, text(url)), source, target)
    body = json.loads(said(source, image(source, DATA), image(source, DATA), image(source, OTHER)))
    compare(json.dumps({**body, "user": url, "metadata": {"data": url}}).encode(), source, target)
    compare(json.dumps(body, indent=1).encode(), source, target)
    compare(json.dumps({"data": DATA, **body}).encode(), source, target)
    compare(json.dumps(body).encode()[:-1], source, target)


@pytest.mark.parametrize("source, target", WAYS)
def test_results(source: str, target: str):
    parts = [text("Here."), image(source, DATA)]
    call: dict[str, Any]
    if source == CHAT:
        function = {"name": "f", "arguments": json.dumps({"data": DATA})}
        call = {"id": "a", "type": "function", "function": function}
        messages = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": parts},
        ]
    else:
        call = {"type": "tool_use", "id": "a", "name": "f", "input": {"data": DATA}}
        result = {"type": "tool_result", "tool_use_id": "a", "content": parts}
        messages = [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result, text("And?")]},
        ]
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Go."}]}
    body["messages"] += messages  # type: ignore[operator]
    compare(json.dumps(body).encode(), source, target)


@pytest.mark.parametrize("target", [target for source, target in WAYS if source == CHAT])
def test_the_cuts_are_used(target: str, monkeypatch: pytest.MonkeyPatch):
    read: list[int] = []
    find = translation.ways

    def ways(source: str, target: str) -> Any:
        found = find(source, target)
        assert found is not None

        def reader(body: bytes, notes: Any) -> Any:
            read.append(len(body))
            return found[0](body, notes)

        return reader, found[1]

    monkeypatch.setattr(translation, "ways", ways)
    body = said(CHAT, image(CHAT, DATA))
    rendered = cannery.translate(body, source=CHAT, target=target)
    assert DATA.encode() in rendered.body
    assert read[0] < 15_000 < len(body)


def test_more_than_a_hundred():
    body = said(CHAT, *[image(CHAT, DATA)] * 120)
    rest, runs = cut(body)
    assert len(runs) == 100
    assert mend(rest, runs) == body

"""The shortest way of Responses and Gemini gives what the general way gives, for bodies that nobody here writes too."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery.dialects import find_dialect
from tests.conformance.general import general
from tests.conformance.matrix import DIALECTS
from tests.conformance.test_slices import IDS, PIXEL, WORDS, chats, some

RESPONSES, GEMINI = "openai_responses", "gemini_generate"
Drawn = Callable[[Any], Any]

MORE_SETTINGS: dict[str, tuple[tuple[str, tuple[Any, ...]], ...]] = {
    RESPONSES: (
        ("instructions", ("Be kind.", "", " ", None, "[tool error] x", 5)),
        ("store", (False, True)),
        ("include", (["reasoning.encrypted_content"], [])),
        ("previous_response_id", ("resp_1", None)),
        ("reasoning", ({"effort": "low"}, {"effort": "low", "summary": "auto"}, None)),
        ("text", ({"format": {"type": "text"}}, {"verbosity": "low"})),
        ("truncation", ("auto",)),
        ("max_output_tokens", (5, None, "5")),
        ("model", ("gpt-5.5", "", None)),
        ("input", ("Hello.", "", [])),
        ("unknown", (1,)),
    ),
    GEMINI: (
        (
            "systemInstruction",
            (
                {"parts": [{"text": "Be kind."}]},
                {"parts": [{"text": "Be kind."}, {"text": "Be brief."}]},
                {"parts": [{"text": " "}]},
                {"parts": []},
                {"role": "user", "parts": [{"text": "Be kind."}]},
                "Be kind.",
                None,
            ),
        ),
        ("system_instruction", ({"parts": [{"text": "Be kind."}]},)),
        ("generationConfig", ({"temperature": 0.5, "maxOutputTokens": 5}, {}, {"seed": 7})),
        ("safetySettings", ([], [{"category": "a", "threshold": "b"}])),
        ("cachedContent", ("cachedContents/1",)),
        ("tools", ([{"googleSearch": {}}], [])),
        ("unknown", (1,)),
    ),
}
IMAGE = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PIXEL}"}
ITEMS = [
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "item_reference", "id": "msg_1"},
    {"type": "unheard_of", "x": 1},
    {"role": "developer", "content": "Be brief."},
    {"role": "system", "content": "Be brief."},
    {"role": "assistant", "content": "Well."},
    {"role": "user", "content": ""},
    {"type": "function_call", "call_id": "call_0_0", "name": "look", "arguments": ""},
    {"type": "function_call_output", "call_id": "call_0_0", "output": "Seen."},
]
PARTS = [
    {"text": "Hm.", "thought": True},
    {"text": "Hm.", "thoughtSignature": "c2ln"},
    {"text": "", "thoughtSignature": "c2ln"},
    {"text": "And."},
    {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
    {"inlineData": {"mimeType": "image/jpeg", "data": PIXEL}},
    {"inline_data": {"mime_type": "image/png", "data": PIXEL}},
    {"fileData": {"fileUri": "https://example.org/a.png"}},
    {"functionCall": {"name": "look", "args": {"n": 1.0}}, "thoughtSignature": "c2ln"},
    {"functionResponse": {"name": "look", "response": {"output": "Seen."}}},
    {"executableCode": {"language": "PYTHON", "code": "1"}},
    {"text": "Hm.", "unknown": 1},
]


def change_item(item: dict[str, Any], draw: Drawn) -> None:
    """Let an item say something in another way, or something else."""
    kind = item.get("type", "message")
    more: list[tuple[str, Any]] = [
        ("id", "item_1"),
        ("id", None),
        ("status", "completed"),
        ("unknown", 1),
    ]
    if kind == "message":
        said = item["content"] if isinstance(item["content"], str) else "Hm."
        name = "output_text" if item["role"] == "assistant" else "input_text"
        text = {"type": name, "text": said}
        lists = [[text], [text, text], [{**text, "annotations": []}], [text, IMAGE], [IMAGE], []]
        lists.append([{**text, "logprobs": []}])
        lists.append([{**text, "annotations": [], "prompt_cache_breakpoint": {"mode": "explicit"}}])
        lists.append([{**IMAGE, "detail": "high"}])
        more += [("content", each) for each in lists]
        more += [("type", "message"), ("phase", "commentary"), ("content", draw(WORDS))]
    elif kind == "function_call":
        more += [("arguments", draw(st.sampled_from(["", " ", "{", '{"a": 1}'])))]
        more += [("namespace", "n"), ("call_id", draw(IDS)), ("role", "user")]
    elif kind == "function_call_output":
        text = {"type": "input_text", "text": draw(WORDS)}
        more += [("output", each) for each in ([text], [text, IMAGE], [IMAGE], [], draw(WORDS))]
        more += [("name", "look"), ("call_id", draw(IDS)), ("content", "x")]
    item.update([draw(st.sampled_from(more))])


def change_part(part: dict[str, Any], draw: Drawn) -> None:
    """Let a part of Gemini's say something in another way, or something else."""
    inner = part.get("functionCall") or part.get("functionResponse")
    more: list[tuple[str, Any]] = [("thoughtSignature", "c2ln"), ("unknown", 1)]
    more.append(("thoughtSignature", "skip_thought_signature_validator"))
    if inner is None or draw(st.booleans()):
        part.update([draw(st.sampled_from(more))])
        return
    chosen: list[tuple[str, Any]] = [("id", draw(IDS)), ("name", "see"), ("name", ""), ("x", 1)]
    if "args" in inner:
        wrapped = {"_raw_arguments": "{"}
        chosen += [("args", each) for each in (None, wrapped, {"n": 1.50}, {"s": "é\n"})]
    else:
        answers: list[Any] = [{"error": "No."}, {"n": 1}, {"output": {"n": 1}}, {"output": [1]}]
        answers += [{"output": draw(WORDS)}, {"output": "Seen.", "more": 1}, {}]
        chosen += [("response", each) for each in answers]
    inner.update([draw(st.sampled_from(chosen))])


def change_list(listed: list[Any], others: list[Any], draw: Drawn) -> None:
    """Take something out, put something in, or let two change places."""
    place = draw(st.integers(0, max(len(listed) - 1, 0)))
    kind = draw(st.integers(0, 2))
    if kind == 0:
        listed.insert(place, json.loads(json.dumps(draw(st.sampled_from(others)))))
    elif kind == 1 and listed:
        listed.pop(place)
    elif listed:
        listed.append(listed.pop(place))


def change(body: dict[str, Any], source: str, draw: Drawn) -> None:
    """Change one thing that is said."""
    if source == RESPONSES:
        items = body["input"]
        if draw(st.booleans()) and items:
            change_item(draw(st.sampled_from(items)), draw)
        else:
            change_list(items, ITEMS, draw)
        return
    if not body["contents"]:
        return
    content = draw(st.sampled_from(body["contents"]))
    parts = content["parts"]
    kind = draw(st.integers(0, 5))
    if kind == 0:
        content.update([draw(st.sampled_from([("role", "user"), ("role", "model"), ("x", 1)]))])
    elif kind == 1:
        change_list(body["contents"], [{"role": "user", "parts": [{"text": "Hm."}]}], draw)
    elif kind < 4 and parts:
        change_part(draw(st.sampled_from(parts)), draw)
    else:
        change_list(parts, PARTS, draw)


def facts(translated: Callable[[], cannery.Rendered]) -> Any:
    try:
        found = translated()
    except cannery.CanneryError as error:
        return type(error), str(error)
    ordered = json.dumps(json.loads(found.body))
    return ordered, found.losses, found.repairs, found.aliases


def compare(raw: bytes, source: str, target: str, model: str | None) -> None:
    slow = facts(lambda: general(raw, source, target, model=model))
    module = importlib.import_module(f"cannery.dialects.{source}.slicing")
    for short in (0, 1_000_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "SHORT", short)
            fast = facts(lambda: cannery.translate(raw, source=source, target=target, model=model))
        assert fast == slow


WAYS = [
    (source, target)
    for source in (RESPONSES, GEMINI)
    for target in DIALECTS
    if find_dialect(source).read_slices is not None and source != target
]


@pytest.mark.parametrize("source, target", WAYS)
@settings(max_examples=150, deadline=None)
@given(chats(), st.data())
def test_bodies_that_were_changed(
    source: str, target: str, body: dict[str, Any], data: st.DataObject
):
    raw = json.dumps(body).replace("1e400", "1e40").encode()
    named = {"model": "gemini-2.5-pro"} if data.draw(st.booleans()) else {}
    abroad = json.loads(cannery.translate(raw, source="openai_chat", target=source, **named).body)
    if source == GEMINI and data.draw(st.booleans()):
        # As the API itself often has it.
        for content in abroad["contents"]:
            for part in content["parts"]:
                for key in ("functionCall", "functionResponse"):
                    part.get(key, {}).pop("id", None)
    for _ in range(data.draw(st.integers(0, 2))):
        change(abroad, source, data.draw)
    abroad.update(some(data.draw, MORE_SETTINGS[source]))
    spelled = json.dumps(abroad, ensure_ascii=data.draw(st.booleans()))
    compare(spelled.encode(), source, target, data.draw(st.sampled_from([None, "m"])))


def test_they_take_that_way(monkeypatch: pytest.MonkeyPatch):
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    body = {
        "model": "m",
        "max_tokens": 5,
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "u" * 9000},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "r"},
        ],
    }
    written = {
        source: cannery.translate(body, source="openai_chat", target=source).body
        for source in (RESPONSES, GEMINI)
    }

    def refuse(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("cannery.translation.translate_line", refuse)
    for source, target in WAYS:
        cannery.translate(written[source], source=source, target=target)


@pytest.mark.parametrize("said", ["", [{"type": "output_text", "text": ""}]])
@pytest.mark.parametrize("target", [name for name in DIALECTS if name != RESPONSES])
def test_nothing_said_before_calls_is_told_as_left_out(target: str, said: Any):
    items = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": said},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "Seen."},
        {"type": "function_call_output", "call_id": "b", "output": "Seen."},
    ]
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
    body = {"model": "m", "input": items, "tools": tools, "prompt_cache_key": "k"}
    compare(json.dumps(body).encode(), RESPONSES, target, None)

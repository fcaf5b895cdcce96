"""The shortest way gives what the general way gives, whatever the length of a body."""

from __future__ import annotations

import importlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery import translation
from cannery.translation import find_dialect
from cannery.wire.markers import MARKS
from tests.conformance.matrix import DIALECTS, PAIRS, identify
from tests.oracles.corpus import Case, request_cases

SOURCES = [name for name in DIALECTS if find_dialect(name).read_slices is not None]
WAYS = [(source, target) for source, target in PAIRS if source in SOURCES]
MATRIX = [(case, target) for source, target in WAYS for case in request_cases(source)]

WORDS = st.sampled_from(
    [
        "hello",
        "",
        " ",
        "\n\t",
        "\u00a0",
        "<b>bold</b>",
        "[1, 2]",
        '{"a": 1}',
        '{"output": "x"}',
        "{broken",
        '"quoted" \\ text',
        "狐狸 😀 é\u2028",
        "\u0000\u001f",
        *(mark + " more" for mark in MARKS),
        *MARKS,
        "<system-message>\nBe kind.\n</system-message>",
    ]
) | st.text(max_size=30)
ARGUMENTS = st.sampled_from(
    [
        "{}",
        "",
        " ",
        '{"a": 1}',
        '{"a":1e400}',
        '{"a": "\\ud83d\\ude00"}',
        "[]",
        "{",
        '"x"',
        '{"b":"狐"}',
    ]
)
IDS = st.sampled_from(["call_1", "call_2", "call-3", "9", "toolu_4", "a b", "", "x" * 60, "é"])
NAMES = st.sampled_from(["look", "look_up", "look-up", "9look", "look.up", "l" * 70, "é"])

SETTINGS: tuple[tuple[str, Any], ...] = (
    ("max_tokens", 5),
    ("max_completion_tokens", 6),
    ("temperature", 1.5),
    ("top_p", 0.5),
    ("stream", True),
    ("seed", 7),
    ("tool_choice", "auto"),
    ("parallel_tool_calls", False),
    (
        "tools",
        [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
    ),
    ("unknown", 1),
)


@st.composite
def chats(draw: st.DrawFn) -> dict[str, Any]:
    """A Chat body as agents send it, well-behaved or nearly so."""
    messages: list[dict[str, Any]] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(WORDS)})
    for turn in range(draw(st.integers(1, 4))):
        messages.append(
            {"role": "user", "content": draw(WORDS if draw(st.booleans()) else st.just("Go."))}
        )
        kind = draw(st.integers(0, 3))
        if kind == 0:
            messages.append({"role": "assistant", "content": draw(WORDS)})
        elif kind < 3:
            messages += draw(exchanges(turn))
    if draw(st.integers(0, 4)):
        messages.append({"role": "user", "content": "And now?"})
    body: dict[str, Any] = {
        "model": draw(st.sampled_from(["m", "gemini-3-pro", "claude-opus-4-6"]))
    }
    body["messages"] = messages
    given = {key: value for key, value in SETTINGS if not draw(st.integers(0, 5))}
    return {**body, **given}


@st.composite
def exchanges(draw: st.DrawFn, turn: int) -> list[dict[str, Any]]:
    """Calls and their answers, most of them in order."""
    odd = draw(st.integers(0, 9)) == 0
    count = draw(st.integers(1, 3))
    ids = [draw(IDS) if odd else f"call_{turn}_{place}" for place in range(count)]
    calls = [
        {
            "id": identifier,
            "type": "function",
            "function": {
                "name": draw(NAMES) if odd else "look",
                "arguments": draw(ARGUMENTS),
            },
        }
        for identifier in ids
    ]
    spoken = draw(st.sampled_from([None, "", "Let me see.", " ", "<b>"]))
    said: dict[str, Any] = {"role": "assistant", "content": spoken, "tool_calls": calls}
    if spoken is None and draw(st.booleans()):
        del said["content"]
    answers = [
        {"role": "tool", "tool_call_id": identifier, "content": draw(WORDS)} for identifier in ids
    ]
    if odd:
        answers = draw(st.permutations(answers))[: draw(st.integers(0, count))]
    return [said, *answers]


def general(body: bytes, source: str, target: str) -> cannery.Rendered:
    """Translation without any shortcut."""
    with pytest.MonkeyPatch.context() as patch:

        def find(name: str) -> Any:
            found = find_dialect(name)
            return msgspec.structs.replace(
                found,
                read_plain=None,
                write_plain=None,
                write_fast=None,
                write_turns=None,
                read_slices=None,
                write_slices=None,
            )

        patch.setattr(translation, "find_dialect", find)
        patch.setattr(translation, "_ways", lambda *_: None)
        patch.setattr(translation, "_LANES", {})
        patch.setattr(translation, "_lane", lambda *_: None)
        return cannery.translate(body, source=source, target=target)


def compare(body: bytes, source: str, target: str) -> None:
    """Both ways, with all texts in slices and with none."""
    slow = general(body, source, target)
    module = importlib.import_module(find_dialect(source).read_slices.__module__)
    for short in (0, 1_000_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "SHORT", short)
            fast = cannery.translate(body, source=source, target=target)
        assert json.loads(fast.body) == json.loads(slow.body)
        assert fast.losses == slow.losses
        assert fast.repairs == slow.repairs


@pytest.mark.parametrize("case, target", MATRIX, ids=identify)
def test_cases(case: Case, target: str):
    compare(case.raw, case.dialect, target)


@pytest.mark.parametrize("source, target", WAYS)
@settings(max_examples=300, deadline=None)
@given(chats())
def test_agents(source: str, target: str, body: dict[str, Any]):
    raw = json.dumps(body).encode()
    if source != "openai_chat":
        # A number that no reader takes may stand in argument text, but not in an object.
        raw = raw.replace(b"1e400", b"1e40")
        raw = cannery.translate(raw, source="openai_chat", target=source).body
    compare(raw, source, target)


@pytest.mark.parametrize("source, target", WAYS)
@settings(max_examples=50, deadline=None)
@given(chats())
def test_spelling(source: str, target: str, body: dict[str, Any]):
    raw = json.dumps(body, indent=1, ensure_ascii=False).encode()
    if source == "openai_chat":
        compare(raw, source, target)


@pytest.mark.parametrize("target", DIALECTS)
def test_broken_text(target: str):
    if target == "openai_chat":
        return
    for broken in (b"\xff\xfe", b"\\ud800", b"\xed\xa0\x80"):
        raw = (
            b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"a '
            + broken
            + b'"}]}'
        )
        compare(raw, "openai_chat", target)


def test_the_way_is_taken(monkeypatch: pytest.MonkeyPatch):
    body = json.dumps(
        {
            "model": "m",
            "max_tokens": 5,
            "messages": [
                {"role": "user", "content": "u" * 9000},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "a",
                            "type": "function",
                            "function": {"name": "f", "arguments": "{}"},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "a", "content": "r"},
            ],
        }
    ).encode()

    def refuse(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(translation, "_translate_plain", refuse)
    for target in DIALECTS:
        if target != "openai_chat":
            cannery.translate(body, source="openai_chat", target=target)

"""The shortest way gives what the general way gives, whatever the length of a body."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery import translation
from cannery.dialects import find_dialect
from cannery.wire.markers import MARKS
from tests.conformance.general import general
from tests.conformance.matrix import DIALECTS, PAIRS, identify
from tests.oracles.corpus import Case, request_cases

ANTHROPIC = "anthropic_messages"
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

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
URLS = st.sampled_from(
    [
        f"data:image/png;base64,{PIXEL}",
        f"data:image/png;base64,{PIXEL}",
        f"data:image/jpeg;base64,{PIXEL}",
        f"data:image/png;base64,{PIXEL[:-1]}",
        f"data:image/png;base64,{PIXEL[:-4]}-_=\n",
        "data:image/png;base64,",
        "https://example.org/a.png",
        "",
    ]
)
DETAILS = st.just({}) | st.sampled_from(["auto", "high", "original", "", "closer", None, 5]).map(
    lambda detail: {"detail": detail}
)
FUNCTION = {"name": "look", "parameters": {"type": "object"}}
SETTINGS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("max_tokens", (5,)),
    ("max_completion_tokens", (6,)),
    ("temperature", (1.5, 0.5, "hot", None)),
    ("top_p", (0.5,)),
    ("stream", (True,)),
    ("stream_options", ({"include_usage": True}, {"include_obfuscation": False})),
    ("seed", (7, "seven")),
    ("n", (1, 2)),
    ("stop", ("a", ["a", "b"], list("abcdef"), [], None)),
    ("presence_penalty", (0.5,)),
    ("frequency_penalty", (0.25,)),
    ("user", ("someone", "é", None)),
    ("metadata", ({"a": "b"}, {})),
    ("reasoning_effort", ("low", "xhigh")),
    (
        "response_format",
        (
            {"type": "json_object"},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        ),
    ),
    ("tool_choice", ("auto", {"type": "function", "function": {"name": "look"}})),
    ("parallel_tool_calls", (False, True)),
    (
        "tools",
        (
            [{"type": "function", "function": FUNCTION}],
            [{"type": "function", "function": FUNCTION}, {"type": "unheard_of"}],
            [{"type": "function", "function": {**FUNCTION, "name": "look.up"}}],
        ),
    ),
    ("logit_bias", ({"50256": -100},)),
    ("service_tier", ("auto",)),
    ("unknown", (1,)),
)
STRAYS = st.sampled_from(
    [
        ("x_trace", {"span": "b7"}),
        ("name", "bob"),
        ("refusal", None),
        ("refusal", "No."),
        ("annotations", []),
        ("reasoning_content", "Hm."),
        ("cache_control", {"type": "ephemeral"}),
        ("a b", 1),
        ("x", False),
        ("tool_calls", None),
    ]
)
# What Anthropic's bodies may have beside what translation writes.
ABROAD: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("top_k", (5, "many")),
    ("stop_sequences", (["a"], [])),
    ("metadata", ({"user_id": "someone"}, {"x": 1})),
    ("thinking", ({"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"})),
    ("tool_choice", ({"type": "auto"}, {"type": "any", "disable_parallel_tool_use": True})),
    ("service_tier", ("auto",)),
    ("container", ("c",)),
)


@st.composite
def contents(draw: st.DrawFn) -> Any:
    """What a message says: a text, or parts."""
    if draw(st.integers(0, 2)):
        return draw(WORDS)
    parts: list[dict[str, Any]] = []
    for kind in draw(st.lists(st.booleans(), max_size=3)):
        if kind:
            parts.append({"type": "text", "text": draw(WORDS | st.just("See."))})
        else:
            image = {"url": draw(URLS), **draw(DETAILS)}
            parts.append({"type": "image_url", "image_url": image})
    return parts


def some(draw: st.DrawFn, settings: tuple[tuple[str, tuple[Any, ...]], ...]) -> dict[str, Any]:
    """Few of many settings, in any order."""
    chosen = [
        (name, draw(st.sampled_from(values)))
        for name, values in settings
        if not draw(st.integers(0, 9))
    ]
    return dict(draw(st.permutations(chosen)))


@st.composite
def chats(draw: st.DrawFn) -> dict[str, Any]:
    """A Chat body as agents send it, well-behaved or nearly so."""
    messages: list[dict[str, Any]] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(contents())})
    for turn in range(draw(st.integers(1, 4))):
        messages.append(
            {"role": "user", "content": draw(contents() if draw(st.booleans()) else st.just("Go."))}
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
    if messages and not draw(st.integers(0, 3)):
        message = draw(st.sampled_from(messages))
        message.update(dict(draw(st.lists(STRAYS, max_size=2))))
    settings = some(draw, SETTINGS)
    is_last = draw(st.booleans())
    return (
        {**body, "messages": messages, **settings}
        if is_last
        else {**body, **settings, "messages": messages}
    )


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
        {"role": "tool", "tool_call_id": identifier, "content": draw(contents())}
        for identifier in ids
    ]
    if odd:
        answers = draw(st.permutations(answers))[: draw(st.integers(0, count))]
    return [said, *answers]


def compare(body: bytes, source: str, target: str, **options: Any) -> None:
    """Both ways, with all texts in slices and with none."""
    slow = general(body, source, target, **options)
    module = importlib.import_module(find_dialect(source).read_slices.__module__)
    for short in (0, 1_000_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "SHORT", short)
            fast = cannery.translate(body, source=source, target=target, **options)
        # Keys have their order, too.
        assert json.dumps(json.loads(fast.body)) == json.dumps(json.loads(slow.body))
        assert fast.losses == slow.losses
        assert fast.repairs == slow.repairs
        assert fast.aliases == slow.aliases


def in_anthropics_words(body: dict[str, Any]) -> dict[str, Any]:
    """A Chat body as Anthropic has it."""
    raw = json.dumps(body).replace("1e400", "1e40").encode()
    found: dict[str, Any] = json.loads(
        cannery.translate(raw, source="openai_chat", target=ANTHROPIC).body
    )
    return found


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


@pytest.mark.parametrize("target", [target for source, target in WAYS if source == ANTHROPIC])
@settings(max_examples=300, deadline=None)
@given(chats(), st.data())
def test_what_translation_never_writes(target: str, body: dict[str, Any], data: st.DataObject):
    abroad = in_anthropics_words(body)
    abroad.update(some(data.draw, ABROAD))
    strays = st.lists(STRAYS | st.just(("is_error", False)), max_size=2).map(dict)
    places = [message for message in abroad["messages"] if data.draw(st.integers(0, 3)) == 0]
    for message in places:
        listed = message["content"] if isinstance(message["content"], list) else []
        data.draw(st.sampled_from([message, *listed])).update(data.draw(strays))
    compare(json.dumps(abroad).encode(), ANTHROPIC, target)


@pytest.mark.parametrize("target", [target for source, target in WAYS if source == ANTHROPIC])
@settings(max_examples=300, deadline=None)
@given(chats(), st.data())
def test_calls_and_answers_out_of_order(target: str, body: dict[str, Any], data: st.DataObject):
    abroad = in_anthropics_words(body)
    messages = abroad["messages"]
    place = data.draw(st.integers(0, len(messages) - 1))
    taken = messages.pop(place)
    if data.draw(st.booleans()):
        messages.insert(data.draw(st.integers(0, len(messages))), taken)
    listed = taken["content"] if isinstance(taken["content"], list) else []
    for block in listed:
        if block["type"] == "tool_result" and data.draw(st.booleans()):
            block["tool_use_id"] = data.draw(IDS)
    compare(json.dumps(abroad).encode(), ANTHROPIC, target)


@pytest.mark.parametrize("is_joined", [True, False])
@pytest.mark.parametrize("target", [target for source, target in WAYS if source == ANTHROPIC])
def test_what_is_said_behind_an_image_of_a_result(target: str, is_joined: bool):
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    }
    seen = [{"type": "text", "text": "See."}, image]
    result = {"type": "tool_result", "tool_use_id": "a", "content": seen}
    said = {"type": "text", "text": "And now?"}
    heard = [[result, said]] if is_joined else [[result], [said]]
    messages = [
        {"role": "user", "content": "Go."},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
        },
        *({"role": "user", "content": blocks} for blocks in heard),
    ]
    body = {"model": "m", "max_tokens": 5, "messages": messages}
    compare(json.dumps(body).encode(), ANTHROPIC, target)


@pytest.mark.parametrize("target", [target for source, target in WAYS if source == ANTHROPIC])
def test_a_name_on_results(target: str):
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "r", "name": "f"}
    messages = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [call], "name": "bob"},
        {"role": "user", "content": [result], "name": "bob", "x": 1},
    ]
    body = {"model": "m", "max_tokens": 5, "messages": messages}
    compare(json.dumps(body).encode(), ANTHROPIC, target)


@pytest.mark.parametrize("source, target", WAYS)
@settings(max_examples=50, deadline=None)
@given(chats(), st.sampled_from(["n", "gemini-3-pro", "claude-opus-4-6", ""]), st.booleans())
def test_options(source: str, target: str, body: dict[str, Any], model: str, renames: bool):
    raw = json.dumps(body).replace("1e400", "1e40").encode()
    if source != "openai_chat":
        raw = cannery.translate(raw, source="openai_chat", target=source).body
    compare(raw, source, target, model=model, without=() if renames else ("function_names",))


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

    monkeypatch.setattr(translation, "translate_plain", refuse)
    for target in DIALECTS:
        if target != "openai_chat":
            cannery.translate(body, source="openai_chat", target=target)


@pytest.mark.parametrize("target", [target for source, target in WAYS if source == ANTHROPIC])
def test_losses_stand_in_the_order_of_the_body(target: str):
    """Also where a silent turn of the model, which is written late, has lost something."""
    call = {"type": "tool_use", "id": "call_1", "name": "look", "input": {}}
    image = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    result = {"type": "tool_result", "tool_use_id": "call_1"}
    body = {
        "model": "m",
        "max_tokens": 5,
        "top_k": 5,
        "messages": [
            {"role": "user", "content": "Go.", "x_trace": 1},
            {"role": "assistant", "content": [call], "x_trace": 2},
            {
                "role": "user",
                "content": [{**result, "content": [{"type": "image", "source": image}]}],
                "x_trace": 3,
            },
            {"role": "user", "content": "And?", "x_trace": 4},
        ],
    }
    raw = json.dumps(body).encode()
    compare(raw, ANTHROPIC, target)
    losses = cannery.translate(raw, source=ANTHROPIC, target=target).losses
    strays = [loss.path for loss in losses if loss.path.endswith("x_trace")]
    assert strays == [f"messages[{number}].x_trace" for number in range(4)]

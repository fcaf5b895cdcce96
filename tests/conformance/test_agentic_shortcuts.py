"""The shortcuts give what the general way gives for conversations with calls, media, tools and settings."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from cannery.dialects import find_dialect
from tests.conformance.matrix import DIALECTS

CHAT = "openai_chat"
ORDERED = ("gemini_generate", "openai_responses")
WORDS = st.sampled_from(
    [
        "hello",
        "two\nlines",
        '"quoted" \\ back',
        "é\u2028ü",
        "日本",
        " padded ",
        "[list?",
        "{no",
        "x" * 70,
    ]
)
ODD_WORDS = st.text(max_size=8) | st.sampled_from(["", " ", "\u00a0\n"])
ANSWERS = WORDS | st.sampled_from(['{"temperature": 22.50, "unit": "C"}', "[1, 2.0]", "{}", ""])
ODD_ANSWERS = ODD_WORDS | st.sampled_from(
    [
        '{"output": "wrapped"}',
        '{"error": "wrapped"}',
        '{"output": {"deep": 1}}',
        '{"\\u006futput": "spelled oddly"}',
        '{"half": "\\ud800"}',
        ' {"padded": true} ',
        "[1, -2e3]",
        "[not json]",
        "[tool error] it broke",
    ]
)
ARGUMENTS = st.sampled_from(['{"path": "src/a.py", "line": 1.50}', "{}", "", ' {"é": "日本\\n"} '])
ODD_ARGUMENTS = st.sampled_from([" ", "[1]", "not json", '{"a": ', '{"half": "\\ud800"}', "\u00a0"])
NAMES = st.sampled_from(["edit_file", "search-web", "read_file"])
ODD_NAMES = st.sampled_from(["ns.tool", "bad name", "9lives", "é", "n" * 65, "n" * 129])
IDS = st.integers(0, 10**9).map("call_{}".format)
# Some come again, some are forbidden somewhere, some need an escape in JSON.
ODD_IDS = st.sampled_from(
    ["call_1", "toolu-1", 'quo"te', "back\\slash", "é", "two\nlines", "i" * 50, "i" * 70]
)
ODD_FIELDS = (
    {"name": "somebody"},
    {"refusal": None},
    {"trace": "a1", "score": 0.5},
    {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}},
)
PICTURES = {
    "image/png": b"\x89PNG\r\n\x1a\n" + bytes(20),
    "image/jpeg": b"\xff\xd8\xff" + bytes(21),
    "image/gif": b"no picture at all 123456",
}


@st.composite
def pictures(draw: st.DrawFn) -> dict[str, Any]:
    """An image part: inline with its type or another, in either alphabet, or elsewhere."""
    data = base64.b64encode(draw(st.sampled_from(list(PICTURES.values())))).decode()
    kind = draw(st.sampled_from([*PICTURES, "image/jpg", "image/bmp"]))
    url = draw(
        st.sampled_from(
            [
                f"data:{kind};base64,{data}",
                f"data:{kind};base64,{data}",
                f"data:{kind};base64,{data.rstrip('=').replace('/', '_')}",
                "https://example.com/a.png",
                "ftp://example.com/a.png",
            ]
        )
    )
    return {"type": "image_url", "image_url": {"url": url}}


@st.composite
def spoken(draw: st.DrawFn, texts: Any, roles: Any) -> list[dict[str, Any]]:
    """One message without calls."""
    role = draw(roles)
    if role == "user" and draw(st.integers(0, 3)) == 0:
        text = texts.map(lambda said: {"type": "text", "text": said})
        parts = st.lists(text | pictures(), min_size=1, max_size=3)
        return [{"role": role, "content": draw(parts)}]
    return [{"role": role, "content": draw(texts)}]


@st.composite
def exchanges(draw: st.DrawFn, odd: bool) -> list[dict[str, Any]]:
    """Calls with their answers: in order, or out of it, twice, or not at all."""

    def pick(usual: Any, unusual: Any) -> Any:
        return draw(usual | unusual if odd else usual)

    ids = [pick(IDS, ODD_IDS) for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3])))]
    calls = [
        {
            "id": identifier,
            "type": "function",
            "function": {
                "name": pick(NAMES, ODD_NAMES),
                "arguments": pick(ARGUMENTS, ODD_ARGUMENTS),
            },
        }
        for identifier in ids
    ]
    message: dict[str, Any] = {"role": "assistant", "tool_calls": calls}
    content = pick(st.sampled_from([None, None, "", "absent"]) | WORDS, ODD_WORDS)
    if content != "absent":
        message["content"] = content
    answers = [
        {"role": "tool", "tool_call_id": identifier, "content": pick(ANSWERS, ODD_ANSWERS)}
        for identifier in ids
    ]
    order = draw(st.integers(0, 3)) if odd else None
    if order == 0:
        answers.reverse()
    elif order == 1:
        answers.pop()
    elif order == 2:
        answers.append(answers[0])
    return [message, *answers]


@st.composite
def tools(draw: st.DrawFn, names: Any) -> dict[str, Any]:
    """A tool of the Chat Completions shape."""
    function: dict[str, Any] = {"name": draw(names)}
    if draw(st.booleans()):
        function["description"] = draw(WORDS)
    if draw(st.booleans()):
        function["parameters"] = {"type": "object", "properties": {"é": {"minimum": 1.0}}}
    if draw(st.booleans()):
        function["strict"] = draw(st.booleans())
    return {"type": "function", "function": function}


SETTINGS = {
    "model": st.sampled_from(["gpt-5.5", "gpt-5.5", "gemini-3-pro", "gemini-1.5-pro", "claude-3"]),
    "max_tokens": st.just(9),
    "temperature": st.sampled_from([0, 0.5, 1.5]),
    "top_p": st.just(0.9),
    "stream": st.booleans(),
    "tools": st.lists(tools(NAMES), min_size=1, max_size=3),
    "tool_choice": st.sampled_from(["auto", "none", "required"]),
    "parallel_tool_calls": st.booleans(),
}
ODD_SETTINGS = {
    **SETTINGS,
    "model": SETTINGS["model"] | st.just(""),
    "max_tokens": st.sampled_from([9, 10**20]),
    "temperature": st.just(2.5),
    "tools": st.lists(tools(NAMES | ODD_NAMES), min_size=1, max_size=2),
    "tool_choice": st.just({"type": "function", "function": {"name": "edit_file"}}),
    "seed": st.just(7),
    "user": st.just("somebody"),
    "stop": st.just(["end"]),
    "response_format": st.just({"type": "json_object"}),
}


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A request that may be well-behaved and may be not."""
    is_odd = st.integers(0, 4).map(lambda number: number == 0)
    body = draw(st.fixed_dictionaries({}, optional=ODD_SETTINGS if draw(is_odd) else SETTINGS))
    roles = ["user", "user", "assistant"] + ["system", "developer"] * draw(is_odd)
    texts = WORDS | ODD_WORDS if draw(is_odd) else WORDS
    said = spoken(texts, st.sampled_from(roles))
    groups = draw(st.lists(said | exchanges(draw(is_odd)), max_size=5))
    if draw(st.integers(0, 7)):
        leading = st.lists(st.sampled_from(["system", "developer"]), max_size=2)
        instructions = [{"role": role, "content": "Be brief."} for role in draw(leading)]
        groups = [instructions, [{"role": "user", "content": "Go on."}], *groups]
    if draw(st.integers(0, 7)):
        groups.append([{"role": "user", "content": "And then?"}])
    messages = [message for group in groups for message in group]
    if draw(is_odd):
        for message in messages:
            message.update(draw(st.sampled_from([{}, {}, *ODD_FIELDS])))
    return json.dumps({**body, "messages": messages}).encode()


def same_rendering(fast: Any, slow: Any, target: str) -> None:
    """Two renderings say the same and report the same; some also promise the same order of keys."""
    read = _ordered if target in ORDERED else json.loads
    assert read(fast.body) == read(slow.body)
    assert fast.losses == slow.losses
    assert fast.repairs == slow.repairs
    assert fast.aliases == slow.aliases


def _ordered(body: bytes) -> Any:
    return json.loads(body, object_pairs_hook=tuple)


@pytest.mark.parametrize("target", DIALECTS)
def test_drawn_requests(target: str, general):
    @settings(max_examples=300)
    @given(body=bodies())
    def run(body: bytes):
        fast = cannery.translate(body, source=CHAT, target=target)
        same_rendering(fast, general(body, CHAT, target), target)

    run()


@pytest.mark.parametrize("source", [name for name in DIALECTS if name != CHAT])
def test_drawn_requests_of_other_dialects(source: str, general):
    @settings(max_examples=100)
    @given(body=bodies())
    def run(body: bytes):
        given_body = general(body, CHAT, source).body
        for target in DIALECTS:
            fast = cannery.translate(given_body, source=source, target=target)
            same_rendering(fast, general(given_body, source, target), target)

    run()


@pytest.mark.parametrize("target", DIALECTS)
def test_drawn_requests_that_grow(target: str):
    @settings(max_examples=150)
    @given(body=bodies(), more=bodies(), cut=st.integers(0, 9))
    def run(body: bytes, more: bytes, cut: int):
        first = cannery.normalize_request(body, CHAT)
        further = tuple(cannery.normalize_request(more, CHAT).conversation)
        cannery.nativize_request(first, target)
        shorter = tuple(first.conversation)[: len(first.conversation) - cut]
        for conversation in (first.conversation.append(*further), shorter, (*shorter, *further)):
            kept = first.replace(conversation=conversation)
            fresh = first.replace(
                conversation=[canister.replace(joined=canister.joined) for canister in conversation]
            )
            same_rendering(
                cannery.nativize_request(kept, target),
                cannery.nativize_request(fresh, target),
                target,
            )

    run()


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if find_dialect(name).read_paths])
def test_paths(dialect: str, general):
    found = find_dialect(dialect)

    @settings(max_examples=200)
    @given(body=bodies())
    def run(body: bytes):
        given_body = body if dialect == CHAT else general(body, CHAT, dialect).body
        listed: list[str] = []
        found.read_request(given_body, listed)
        assert found.read_paths(given_body) in (None, listed)

    run()

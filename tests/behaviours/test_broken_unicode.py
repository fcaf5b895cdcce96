"""Half a surrogate pair: its own dialect gets it back, another one a reported U+FFFD."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES

HALF = "so \ud83d far"
ASKED = {
    CHAT: {"model": "m", "messages": [{"role": "user", "content": HALF}], "x": {"\u00e9": HALF}},
    CLAUDE: {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": HALF}]},
    GEMINI: {"contents": [{"role": "user", "parts": [{"text": HALF}]}]},
    RESPONSES: {"model": "m", "input": [{"role": "user", "content": HALF}]},
}
PLACES = {
    CHAT: {"messages[0].content", "x.\u00e9"},
    CLAUDE: {"messages[0].content"},
    GEMINI: {"contents[0].parts[0].text"},
    RESPONSES: {"input[0].content"},
}


@pytest.mark.parametrize("source", [CHAT, CLAUDE, GEMINI, RESPONSES])
def test_the_same_dialect_gets_its_escape_back(source: str):
    raw = json.dumps(ASKED[source]).encode()
    rendered = cannery.translate(raw, source=source, target=source)
    assert json.loads(rendered.body) == ASKED[source]
    assert rendered.repairs == ()


_LETTERS = st.sampled_from(("a", '"', "\\", "\ud83d", "\n", "{", ",", "\u00e9"))


@given(st.lists(st.text(_LETTERS, max_size=6), min_size=1, max_size=4), st.text(_LETTERS))
def test_quotes_and_backslashes_beside_half_a_pair_stay_where_they_are(texts: list[str], key: str):
    said = [{"role": "user", "content": text} for text in texts]
    body = {"model": "m", "messages": said, "x": {key: texts}}
    raw = json.dumps(body).encode()
    assert json.loads(cannery.translate(raw, source=CHAT, target=CHAT).body) == body


@pytest.mark.parametrize("target", [CHAT, CLAUDE, GEMINI, RESPONSES])
@pytest.mark.parametrize("source", [CHAT, CLAUDE, GEMINI, RESPONSES])
def test_another_dialect_is_told(source: str, target: str):
    raw = json.dumps(ASKED[source]).encode()
    if target == source:
        return
    rendered = cannery.translate(raw, source=source, target=target)
    assert "so \ufffd far" in rendered.body.decode()
    told = {repair.path for repair in rendered.repairs if repair.name == "broken_unicode"}
    assert told == PLACES[source]


def test_bytes_that_are_not_utf8_are_told_by_every_dialect():
    raw = b'{"model":"m","messages":[{"role":"user","content":"caf\xe9"}]}'
    for target in (CHAT, CLAUDE, GEMINI, RESPONSES):
        rendered = cannery.translate(raw, source=CHAT, target=target)
        assert "caf\ufffd" in json.dumps(json.loads(rendered.body), ensure_ascii=False)
        assert ("broken_unicode", "$") in {(each.name, each.path) for each in rendered.repairs}


def test_a_changed_text_keeps_its_change():
    raw = json.dumps(ASKED[CHAT]).encode()
    request = cannery.normalize_request(raw, CHAT)
    assert request.conversation[0].text == "so \ufffd far"
    edited = request.replace(conversation=cannery.Conversation([cannery.user("new")]))
    written = json.loads(cannery.nativize_request(edited, CHAT).body)
    assert written["messages"] == [{"role": "user", "content": "new"}]

"""Every body of the corpus is recognised by its shape."""

import json

import pytest

import cannery
from cannery.detection import detect
from cannery.errors import InputError
from tests.oracles.corpus import DATA
from tests.strategies.sdk_bodies import sdk_request

CASES = [
    (path, dialect.name, kind)
    for dialect in sorted(DATA.iterdir())
    for kind in ("request", "response", "stream")
    for path in sorted((dialect / f"{kind}s").glob("*"))
    if path.name != "index.json" and path.suffix in (".json", ".sse")
]


def body_of(path):
    if path.suffix == ".sse":
        return path.read_bytes()
    value = json.loads(path.read_bytes())
    return value.get("body", value)


def test_corpus_is_recognised():
    wrong = {}
    for path, dialect, kind in CASES:
        found = detect(body_of(path))
        # A record of a fine-tuning file is a chat request that lacks a model; only a weight tells them apart.
        if dialect == "openai_finetuning" and found.dialect == "openai_chat":
            continue
        if (found.dialect, found.kind) != (dialect, kind):
            wrong[f"{dialect}/{kind}/{path.name}"] = found[:2]

    assert len(CASES) > 400
    assert wrong == {}


@pytest.mark.parametrize("dialect", ["openai_chat", "gemini_generate"])
def test_what_sdks_can_say_is_recognised(dialect):
    assert {detect(sdk_request(dialect, seed)).dialect for seed in range(60)} == {dialect}


def test_dialect_and_reason_are_public():
    assert cannery.detect_dialect(b'{"contents": []}') == ("gemini_generate", "it has contents")


@pytest.mark.parametrize(
    "body, dialect",
    [
        ({"conversations": [{"from": "human", "value": "Hi"}]}, "sharegpt"),
        ({"instruction": "Say hi", "input": "", "output": "Hi"}, "alpaca"),
        ({"messages": [{"role": "assistant", "content": "x", "weight": 0}]}, "openai_finetuning"),
        ({"model": "claude-x", "messages": []}, "anthropic_messages"),
        ({"messages": []}, "openai_chat"),
        (
            {"messages": [{"role": "user", "content": [{"type": "web_fetch_tool_result"}]}]},
            "anthropic_messages",
        ),
        ({"messages": [], "context_management": {}}, "anthropic_messages"),
        ({"previous_response_id": "resp_1"}, "openai_responses"),
        ({"usageMetadata": {}}, "gemini_generate"),
    ],
)
def test_shapes_without_a_corpus(body, dialect):
    assert detect(body).dialect == dialect


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b"{}", b'{"x":1}', b"3", b"data: {}\n\n"])
def test_anything_else_is_refused(body):
    with pytest.raises(InputError):
        detect(body)


@pytest.mark.parametrize("odd", ["1e400", '"a\\ud800b"', "9" * 5000])
def test_what_only_a_decoder_stumbles_over_is_detected(odd: str):
    body = f'{{"model":"m","messages":[{{"role":"user","content":"q","x":{odd}}}]}}'
    assert cannery.detect_dialect(body)[0] == "openai_chat"
    assert cannery.detect_dialect(body.encode())[0] == "openai_chat"


def test_what_is_no_json_is_told_with_its_place():
    with pytest.raises(InputError, match=r"^not JSON: Expecting .* at line 1 column 2$"):
        cannery.detect_dialect(b"{messages")

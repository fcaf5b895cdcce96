"""What must not leave is found wherever it stands, and nothing around it breaks."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.backends import Metadata
from cannery.errors import InputError
from cannery.messages import (
    AssistantCanisterClass,
    Base64,
    DataContentClass,
    DocumentCanisterClass,
    FileContentClass,
    ImageContentClass,
    InvocationCanisterClass,
    Location,
    OpaqueContentClass,
    Origin,
    PartsContentClass,
    ReasoningContentClass,
    Residue,
    ResultCanisterClass,
    TextualContentClass,
    UserCanisterClass,
    assistant,
    supervisor,
    user,
)
from cannery.redaction import Redactor, redact_conversation, redact_metadata
from cannery.storage.portable import portable
from tests.doctor.broken_bodies import PNG

SECRETS = [
    "sk-ant-api03-" + "aB3dE6gH9jK2mN5pQ8sT" * 2,
    "sk-proj-" + "Zx9Yw8Vu7Ts6Rq5Po4Nm3",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "xoxb-" + "123456789012-abcdefABCDEF",
    "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "hf_" + "AbCdEfGhIjKlMnOpQrStUvWx",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzk1L8zQd2A",
    "9f86d081884c7d659a2feaa0c55ad015",
]
GIVEN = [
    ("password=hunter2", "hunter2"),
    ('{"password": "hunter2"}', "hunter2"),
    ('say \\"api_key\\": \\"tiny1\\"', "tiny1"),
    ("DB_PASSWORD: s3cr3t!", "s3cr3t!"),
    ("export OPENAI_API_KEY=abcd1234", "abcd1234"),
    ("Authorization: Bearer abcdefghijklmnop1234", "abcdefghijklmnop1234"),
    ("postgres://bob:pa55word@db/x", "pa55word"),
    ("https://x.y/z?sig=Zm9vYmFyYmF6cXV4&a=1", "Zm9vYmFyYmF6cXV4"),
    ("mail ann.lee+x@mail.example.org now", "ann.lee+x@mail.example.org"),
    ("see /home/annlee/work/a.py", "annlee"),
    ("see /Users/annlee/a", "annlee"),
    (r"see C:\Users\annlee\a", "annlee"),
    (r'{"p": "C:\\Users\\annlee\\a"}', "annlee"),
    ("~/.claude/projects/-home-annlee-work/x.jsonl", "annlee"),
]
HARMLESS = [
    "The quick brown fox jumps over the lazy dog 1234567890 times.",
    "/usr/lib/python3.11/site-packages/cannery/messages/canisters.py",
    "550e8400-e29b-41d4-a716-446655440000",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "max_tokens: 4096, token_count = 12",
    "def normalize_request_body_with_options(self, SomeVeryLongClassNameFactory): ...",
    "https://docs.example.com/guides/getting-started/installation?version=3.11",
    "call_01m7pqjvgz337g0eraajekg1t3"[:16],
    "print(os.environ['HOME'])",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_found_in_text_json_and_base64(secret):
    redactor = Redactor()
    for text in (
        f"use {secret} now",
        json.dumps({"env": {"X": secret}, "list": [f"--key={secret}"]}),
        json.dumps({"inner": json.dumps({"deep": secret})}),
        base64.b64encode(json.dumps({"x": secret, "pad": "words"}).encode()).decode(),
    ):
        redacted = redactor.text(text)
        assert secret not in redacted
        assert secret not in _unfolded(redacted)
        if text[0] == "{":
            assert json.loads(redacted).keys() == json.loads(text).keys()
    assert redactor.counts["secret"] >= 4


def _unfolded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return text


@pytest.mark.parametrize("text, value", GIVEN)
def test_values_are_found_by_their_names_and_places(text, value):
    redacted = Redactor().text(text)
    assert value not in redacted
    assert "[redacted:" in redacted
    if text.startswith("{"):
        json.loads(redacted)


@pytest.mark.parametrize("text", HARMLESS)
def test_words_paths_and_ids_are_left_alone(text):
    assert Redactor().text(text) == text


def test_the_same_value_has_the_same_label_and_is_counted():
    redactor = Redactor()
    first, second = redactor.text("a@b.org and c@d.org"), redactor.text("again a@b.org")
    assert first == "[redacted:email-1] and [redacted:email-2]"
    assert second == "again [redacted:email-1]"
    assert redactor.counts == {"email": 3}
    assert "a@b.org" not in str(redactor.sightings())


def test_patterns_of_ones_own_and_only_some_kinds():
    redactor = Redactor([r"ACME-\d+"], kinds=["email"])
    assert redactor.text("ACME-17 a@b.org password=hunter2") == (
        "[redacted:custom-1] [redacted:email-1] password=hunter2"
    )
    with pytest.raises(InputError, match="regular expression"):
        Redactor(["("])


@given(st.text())
def test_redacting_again_changes_nothing(text):
    redactor = Redactor()
    once = redactor.text(text)
    assert redactor.text(once) == once


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from([each[0] for each in GIVEN]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_json_inside_of_text_stays_json(value):
    text = json.dumps([value])
    redacted = json.loads(Redactor().text(text))
    assert isinstance(redacted, list)
    assert len(redacted) == 1


# --- conversations ---------------------------------------------------------------------------------

KEY = SECRETS[0]
HIDDEN = (KEY, "annlee", "a@b.org")
EVERYTHING = [
    supervisor(f"The key is {KEY}."),
    user("I am a@b.org."),
    UserCanisterClass(ImageContentClass(Base64(PNG), "image/png")),
    UserCanisterClass(
        ImageContentClass(
            location=Location("url", f"https://x/?token={KEY}"), mime_type="image/png"
        )
    ),
    UserCanisterClass(
        FileContentClass(
            json.dumps({"k": KEY}).encode(),
            "application/json",
            name="/home/annlee/k.json",
            context="a@b.org",
        )
    ),
    DocumentCanisterClass(TextualContentClass(KEY), title="of a@b.org"),
    AssistantCanisterClass(
        ReasoningContentClass(
            (f"use {KEY}",), ("a@b.org",), "c2ln", "ZW5j", Origin("anthropic_messages", "m")
        )
    ),
    AssistantCanisterClass(
        ReasoningContentClass(encrypted="ZW5j", origin=Origin("openai_responses", "m"))
    ),
    InvocationCanisterClass(
        "call_1", "run", json.dumps({"command": f"curl -H 'x: {KEY}'", "cwd": "/home/annlee"})
    ),
    InvocationCanisterClass("call_2", "run", f"not json {KEY}"),
    ResultCanisterClass(
        "call_1",
        PartsContentClass((TextualContentClass(KEY), ImageContentClass(Base64(PNG), "image/png"))),
    ),
    ResultCanisterClass("call_2", TextualContentClass("x"), error=f"denied for {KEY}"),
    UserCanisterClass(OpaqueContentClass("openai_responses", "odd", json.dumps({"k": [KEY]}))),
    UserCanisterClass(DataContentClass({"email": "a@b.org", "password": 12345})),
    assistant("fine").replace(
        residue=Residue(
            "claude_code",
            part=json.dumps({"k": KEY}),
            model="claude-opus-5",
            facts=json.dumps({"usage": {"input": 1}, "fields": {"cwd": "/home/annlee", "k": KEY}}),
        )
    ),
]


def test_nothing_is_left_in_any_kind_of_canister():
    redactor = Redactor()
    redacted = redact_conversation(EVERYTHING, redactor)
    told = json.dumps([portable(canister) for canister in redacted])
    inside = "".join(_unfolded(str(part)) for part in _base64_of(redacted))
    assert len(redacted) == len(EVERYTHING)
    assert [hidden for hidden in HIDDEN if hidden in told + inside] == []
    assert "12345" not in told
    assert "c2ln" not in told
    assert "ZW5j" not in told
    assert PNG in told
    assert [each.role for each in redacted] == [each.role for each in EVERYTHING]


def _base64_of(canisters):
    lines = [portable(canister) for canister in canisters]
    return [line["content"]["base64"] for line in lines if "base64" in (line.get("content") or {})]


def test_links_and_facts_that_are_nobodys_stay():
    redacted = redact_conversation(EVERYTHING, Redactor())
    call, answer = redacted[8], redacted[10]
    assert call.identifier == answer.invocation_id == "call_1"
    assert json.loads(call.arguments_text).keys() == {"command", "cwd"}
    assert redacted[-1].residue == Residue(
        "claude_code", model="claude-opus-5", facts='{"usage":{"input":1}}'
    )


def test_a_conversation_without_secrets_says_the_same():
    plain = [
        user("Hello"),
        assistant("Hi, what is up?"),
        InvocationCanisterClass("c", "f", '{"a": 1.0}'),
    ]
    redacted = redact_conversation(plain, Redactor())
    assert list(map(portable, redacted)) == list(map(portable, plain))


def test_titles_tags_and_names_of_tenants_do_not_leak():
    when = datetime(2026, 1, 1, tzinfo=UTC)
    metadata = Metadata(
        "01abc",
        when,
        when,
        "Mail to a@b.org",
        ("a@b.org",),
        scope="annlee",
        session="s",
        other_titles=(KEY,),
    )
    redacted = redact_metadata(metadata, Redactor())
    assert [hidden for hidden in HIDDEN if hidden in repr(redacted)] == []
    assert redacted.id == "01abc"


@pytest.mark.parametrize(
    "text", ["a" * 400_000, "a-" * 200_000, "a_b." * 100_000, "x@" * 200_000, "token " * 60_000]
)
def test_long_texts_take_no_longer_than_their_length(text):
    started = time.process_time()
    Redactor().text(text)
    assert time.process_time() - started < 4


@pytest.mark.parametrize("text", ["to=ann%40example.org&x=1", r"\\wsl$\Ubuntu\home\annlee\x"])
def test_other_spellings_of_addresses_and_homes(text):
    assert "ann" not in Redactor().text(text).replace("[redacted", "")

"""Single rooms of the gateway: routing, rows, the ledger, the places of settings, echo, telemetry."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery import normalize_request
from cannery.dialects import find_dialect
from cannery.errors import ConfigurationError
from cannery.gateway import echo
from cannery.gateway.identifiers import new_identifier
from cannery.gateway.ledger import Asked, Ledger, Ledgers, Plan, space_of
from cannery.gateway.logs import Log
from cannery.gateway.peek import gist
from cannery.gateway.replies import Replies, Reply
from cannery.gateway.routing import Match, NoMatch, Router
from cannery.gateway.settings import parse_settings
from cannery.gateway.telemetry import Telemetry, is_configured
from cannery.gateway.upstreams import DEFAULT_ROWS, UnknownModelError, Upstreams, join_url
from cannery.messages import (
    Conversation,
    InvocationCanisterClass,
    Request,
    Tool,
    ToolChoice,
    Usage,
    assistant,
    fold,
    result,
    supervisor,
    user,
)
from cannery.wire.contract import Dialect

from .running import words as words_of


def no_headers(_: str) -> str | None:
    return None


REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "base,path,dialect,expected",
    [
        ("https://a/v1", "/v1/chat/completions", "openai_chat", "https://a/v1/chat/completions"),
        ("https://a", "/v1/chat/completions", "openai_chat", "https://a/v1/chat/completions"),
        ("https://a/api/v1/", "/v1/responses", "openai_responses", "https://a/api/v1/responses"),
        ("https://a/v1beta/openai", "/v1/models", "openai_chat", "https://a/v1beta/openai/models"),
        ("https://a", "/v1/messages", "anthropic_messages", "https://a/v1/messages"),
        (
            "https://a/anthropic",
            "/v1/messages",
            "anthropic_messages",
            "https://a/anthropic/v1/messages",
        ),
        ("https://a/v1", "/v1/messages", "anthropic_messages", "https://a/v1/messages"),
        ("https://a/v1", "/v1beta/models/m:x", "gemini_generate", "https://a/v1/models/m:x"),
    ],
)
def test_a_route_goes_behind_a_base_url(base: str, path: str, dialect: str, expected: str) -> None:
    assert join_url(base, path, find_dialect(dialect)) == expected


def test_a_model_with_slashes_is_matched_from_the_right() -> None:
    found = Router().find("POST", "/v1beta/models/org/some:model:generateContent", no_headers)
    assert isinstance(found, Match)
    assert (found.dialect.name, found.model) == ("gemini_generate", "org/some:model")


def test_each_route_of_each_dialect_is_found_under_its_prefix() -> None:
    router = Router()
    for dialect in router.dialects:
        for route in dialect.routes:
            path = f"/{dialect.name.partition('_')[0]}{route.path.replace('{model}', 'm')}"
            found = router.find(route.method, path, no_headers)
            assert isinstance(found, Match), path
            assert found.kind == route.kind


@pytest.mark.parametrize("name", ["anthropic-version", "x-api-key", "x-goog-api-key"])
def test_headers_of_another_vendor_do_not_make_a_chat_client_a_mistral_one(name: str) -> None:
    found = Router().find("POST", "/v1/chat/completions", {name: "x"}.get)
    assert isinstance(found, Match)
    assert found.dialect.name == "openai_chat"


ROUTER = Router()


@given(st.text(max_size=60))
def test_any_path_is_answered(path: str) -> None:
    assert isinstance(ROUTER.find("GET", f"/{path}", no_headers), (Match, NoMatch))


def test_keys_in_the_environment_make_upstreams() -> None:
    upstreams = Upstreams(parse_settings(""), {"ANTHROPIC_API_KEY": "k"})
    assert [upstream.name for upstream in upstreams.all] == ["anthropic", "echo"]
    assert upstreams.choose("claude-x").upstream.key == "k"
    assert upstreams.choose("echo").upstream.is_echo
    with pytest.raises(UnknownModelError):
        upstreams.choose("gpt-5")
    nothing = Upstreams(parse_settings(""), {})
    assert nothing.choose("gpt-5").upstream.is_echo
    assert len(DEFAULT_ROWS) == 5


@pytest.mark.parametrize(
    "variable, model, url",
    [
        ("MISTRAL_API_KEY", "mistral-large-latest", "https://api.mistral.ai/v1/chat/completions"),
        ("CO_API_KEY", "command-a-03-2025", "https://api.cohere.com/v2/chat"),
        ("COHERE_API_KEY", "command-r7b-12-2024", "https://api.cohere.com/v2/chat"),
    ],
)
def test_each_provider_has_the_key_variable_of_its_sdk(variable: str, model: str, url: str) -> None:
    upstream = Upstreams(parse_settings(""), {variable: "k"}).choose(model).upstream
    assert upstream.key == "k"
    dialect = upstream.dialects[0]
    assert join_url(upstream.row.url, dialect.routes[0].path, dialect) == url


def test_one_key_under_two_names_is_one_key() -> None:
    both = {"CO_API_KEY": "k", "COHERE_API_KEY": "k"}
    assert Upstreams(parse_settings(""), both).choose("command-a").upstream.others == ()


def test_the_documented_configuration_is_valid() -> None:
    text = (REPOSITORY / "docs" / "configuration.md").read_text()
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    settings = parse_settings(block, "docs/configuration.md")
    assert [row.name for row in settings.upstreams] == ["openai", "local"]


# --- the ledger -------------------------------------------------------------------------------


def chain(*words: str) -> Asked:
    """A history of a question and what followed; what stands in brackets adds nothing."""
    digests: list[bytes | None] = []
    last = b""
    for word in words:
        if not word.startswith("("):
            last = hashlib.sha256(last + word.encode()).digest()
        digests.append(None if word.startswith("(") else last)
    return Asked(space_of(""), [user(word) for word in words], digests, 1)


def test_a_second_call_for_the_same_place_gets_a_fork() -> None:
    ledger = Ledger()
    first = Plan("new", "a")
    ledger.claim(first, chain("one"), 0)
    ledger.claim(first, chain("one", "reply"), 1)
    history = chain("one", "reply", "two")
    plan = ledger.plan(history)
    assert plan is not None
    assert (plan.kind, plan.identifier, plan.known, plan.position) == ("append", "a", 2, 2)
    ledger.claim(plan, history, 2, is_held=True)
    again = ledger.plan(history)
    assert again is not None
    assert (again.kind, again.parent, again.position) == ("fork", "a", 3)


def test_an_answer_that_does_not_come_frees_its_place() -> None:
    ledger = Ledger()
    plan = Plan("new", "a")
    position = ledger.claim(plan, chain("one"), 0, is_held=True)
    held = ledger.plan(chain("one"))
    assert held is not None
    assert held.kind == "fork"
    ledger.give_up(plan, position)
    free = ledger.plan(chain("one"))
    assert free is not None
    assert (free.kind, free.identifier) == ("append", "a")


@pytest.mark.parametrize(
    "again,known,position", [("(reminder)", 2, 2), ("(other)", 1, 2), (None, 1, 2)]
)
def test_a_reminder_behind_a_question_does_not_make_a_fork_of_a_retry(
    again: str | None, known: int, position: int
) -> None:
    ledger = Ledger()
    plan = Plan("new", "a")
    asked = chain("one", "(reminder)")
    ledger.give_up(plan, ledger.claim(plan, asked, 0, is_held=True))
    found = ledger.plan(chain("one", *([again] if again else ())))
    assert found is not None
    assert (found.kind, found.known, found.position) == ("append", known, position)


def test_the_ledger_forgets_the_oldest() -> None:
    ledger = Ledgers(most=10).of(None)
    for number in range(50):
        ledger.claim(Plan("new", f"c{number}"), chain(str(number)), 0)
    assert ledger.plan(chain("0")) is None
    assert ledger.plan(chain("49")) is not None


def test_ledgers_of_many_scopes_are_bounded_together() -> None:
    ledgers = Ledgers(most=100)
    quiet = ledgers.of("quiet")
    quiet.claim(Plan("new", "q"), chain("quiet"), 0)
    for number in range(40):
        busy = ledgers.of(f"key {number}")
        for question in range(30):
            busy.claim(Plan("new", f"c{number}x{question}"), chain(str(question)), 0)
    assert ledgers.size <= 100
    # What is used last is known, and a scope that uses little loses nothing to those that use much.
    assert ledgers.of("key 39").plan(chain("29")) is not None
    assert quiet.plan(chain("quiet")) is not None


def test_identifiers_sort_by_time_and_suit_the_store() -> None:
    made = [new_identifier() for _ in range(100)]
    assert len(set(made)) == 100
    assert all(re.fullmatch(r"[0-9a-z]{26}", one) for one in made)


# --- echo -------------------------------------------------------------------------------------

TOOL = Tool("f", schema='{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}')


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic_messages"])
@pytest.mark.parametrize("content", ["Second.", [{"type": "text", "text": "Second."}]])
def test_echo_repeats_only_the_last_message(dialect: str, content: object) -> None:
    messages = [{"role": "user", "content": "First."}, {"role": "user", "content": content}]
    request = normalize_request({"model": "echo", "messages": messages}, dialect)
    assert words_of(echo.answer(request).canisters) == ["echo: Second."]


def test_echo_repeats_the_last_user_text() -> None:
    said = echo.answer(
        Request([supervisor("s"), user("a"), assistant("b"), user("c"), user("d", joined=True)])
    )
    assert words_of(said.canisters) == ["echo: c\nd"]


@pytest.mark.parametrize(
    "words,choice,is_called",
    [
        ("call f", None, True),
        ("please Call `f`.", None, True),
        ("hello", None, False),
        ("hello", ToolChoice("required"), True),
        ("hello", ToolChoice("named", ("f",)), True),
        ("call f", ToolChoice("none"), False),
        ("call g", None, False),
    ],
)
def test_echo_calls_a_tool_when_asked(
    words: str, choice: ToolChoice | None, is_called: bool
) -> None:
    request = Request([user(words)], tools=(TOOL,))
    if choice is not None:
        request = request.replace(tool_choice=choice)
    said = echo.answer(request)
    (only,) = said.canisters
    assert isinstance(only, InvocationCanisterClass) is is_called
    if isinstance(only, InvocationCanisterClass):
        assert only.arguments == {"n": 1}


def test_echo_repeats_a_result_and_does_not_call_again() -> None:
    (called,) = echo.answer(Request([user("call f")], tools=(TOOL,))).canisters
    assert isinstance(called, InvocationCanisterClass)
    answered = result(called.identifier, "42")
    said = echo.answer(Request([user("call f"), called, answered], tools=(TOOL,)))
    assert words_of(said.canisters) == ["echo: 42"]


@given(st.text(max_size=200))
def test_echo_streams_what_it_says(words: str) -> None:
    said = echo.answer(Request([user(words)]))
    assert fold(echo.events(said)).canisters == said.canisters


# --- replies ----------------------------------------------------------------------------------


def said(text: str) -> Conversation:
    return Conversation([user(text)])


def test_only_the_latest_replies_hold_their_history() -> None:
    replies = Replies()
    for number in range(1000):
        filed = "somewhere" if number % 2 else None
        replies.put(f"reply-{number}", Reply(filed, 1, said("x"), None), 1000)
    held = [
        number
        for number in range(1000)
        if getattr(replies.find(f"reply-{number}"), "history", None)
    ]
    assert held == list(range(1000 - 256, 1000))
    assert replies.find("reply-1") is not None
    assert replies.find("reply-0") is None


def test_histories_are_held_up_to_a_size() -> None:
    replies = Replies()
    for number in range(10):
        replies.put(f"reply-{number}", Reply("somewhere", 1, said("x"), None), 10 << 20)
    held = [number for number in range(10) if replies.find(f"reply-{number}").history]  # type: ignore[union-attr]
    assert held == [7, 8, 9]
    replies.put("huge", Reply(None, 1, said("x"), None), 1 << 30)
    assert replies.find("huge").history is not None  # type: ignore[union-attr]


def test_the_tools_of_a_thread_are_kept_once() -> None:
    replies = Replies()
    for number in range(3):
        replies.put(f"reply-{number}", Reply("somewhere", 1, None, (Tool("f"),)))
    first, second = replies.find("reply-0"), replies.find("reply-2")
    assert first is not None
    assert second is not None
    assert first.tools is second.tools


# --- telemetry --------------------------------------------------------------------------------


def test_telemetry_is_off_unless_an_exporter_is_configured() -> None:
    assert not is_configured({})
    assert not is_configured({"OTEL_TRACES_EXPORTER": "none"})
    assert is_configured({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
    assert Telemetry.of(Log(), {}) is None


@pytest.mark.parametrize(
    "dialect, body, usage",
    [
        (
            "gemini_generate",
            {
                "candidates": [],
                "usageMetadata": {
                    "promptTokenCount": 94,
                    "toolUsePromptTokenCount": 4610,
                    "candidatesTokenCount": 7,
                    "thoughtsTokenCount": 3,
                },
            },
            Usage(4704, 10, reasoning=3),
        ),
        (
            "openai_chat",
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 50,
                    "completion_tokens": 2,
                    "prompt_tokens_details": {"cached_tokens": 40},
                    "cache_read_input_tokens": 40,
                },
            },
            Usage(50, 2, 40),
        ),
        (
            "anthropic_messages",
            {
                "content": [],
                "usage": {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 40},
            },
            Usage(45, 2, 40),
        ),
        (
            "openai_chat",
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 30,
                    "completion_tokens": 10,
                    "total_tokens": 140,
                    "completion_tokens_details": {"reasoning_tokens": 100},
                },
            },
            Usage(30, 110, reasoning=100),
        ),
        (
            "mistral_chat",
            {"choices": [], "usage": {"prompt_tokens": 9, "num_cached_tokens": 4}},
            Usage(9, 0, 4),
        ),
    ],
)
def test_tokens_are_counted_where_the_dialect_has_them(
    dialect: str, body: dict[str, Any], usage: Usage
) -> None:
    told = gist(find_dialect(dialect), json.dumps(body).encode())
    assert told is not None
    assert told.usage == usage


@pytest.mark.parametrize("dialect", Router().dialects, ids=lambda dialect: dialect.name)
def test_a_reply_without_the_fields_of_its_dialect_is_none(dialect: Dialect) -> None:
    assert gist(dialect, b'{"error": {}}') is None


@pytest.mark.parametrize(
    "text,problem",
    [
        ("[limits]\nbody_seconds = inf", "line 2: limits.body_seconds: must be at most 1000000"),
        ("[server]\nping_seconds = nan", "line 2: server.ping_seconds: must be at least 0"),
        (
            "[server]\nhosts = ['https://gw.example']",
            "line 2: server.hosts: 'https://gw.example' is",
        ),
        ("[server]\norigins = ['app.example']", "line 2: server.origins: 'app.example' is not"),
        ("url = 'http://x/v1?a=b'", "line 3: upstreams[0].url: must end with its path"),
        ("url = 'http://me:secret@x/v1'", "line 3: upstreams[0].url: holds a user name or a pass"),
        ("url = 'http://x'\ntimeouts = { read = inf }", "line 4: upstreams[0].timeouts: read must"),
        (
            "url = 'http://x'\nwithout_repairs = ['prefil']",
            "line 4: upstreams[0].without_repairs: no",
        ),
    ],
)
def test_a_setting_that_cannot_work_is_refused_with_its_line(text: str, problem: str) -> None:
    if text.startswith("url"):
        text = f"[[upstreams]]\nname = 'x'\n{text}"
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(text)
    assert f"configuration, {problem}" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_names_and_origins_have_many_forms() -> None:
    parse_settings(
        "[server]\nhosts = ['*', 'gw.example', '[::1]', '::1', '10.0.0.1', 'gw.example:443']"
    )
    parse_settings("[server]\norigins = ['*', 'https://a.example:8443/', 'app://obsidian.md']")

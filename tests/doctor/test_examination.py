"""Conversations of the model are judged as a provider would hear them, and findings lead back to the canisters."""

from __future__ import annotations

import json

import pytest

from cannery import normalize_request
from cannery.doctor import examine, has_checks
from cannery.messages import (
    Base64,
    Conversation,
    ImageContentClass,
    InvocationCanisterClass,
    Request,
    UserCanisterClass,
    assistant,
    user,
)
from tests.doctor.broken_bodies import CASES, SOUND, png

WIDE = UserCanisterClass(ImageContentClass(Base64(png(9000, 10)), "image/png"), joined=True)


@pytest.mark.parametrize("dialect", SOUND)
def test_a_sound_request_that_was_read_has_no_known_problem(dialect):
    request = normalize_request(json.dumps(SOUND[dialect]).encode(), dialect)
    assert examine(request, dialect, is_request=True) == ()


@pytest.mark.parametrize(
    "dialect, position", [("anthropic_messages", 2), ("openai_chat", 3), ("gemini_generate", 2)]
)
def test_in_its_own_dialect_what_is_broken_shows_at_its_canister(dialect, position):
    body = json.loads(json.dumps(SOUND[dialect]))
    del (body.get("messages") or body["contents"])[2]
    request = normalize_request(json.dumps(body).encode(), dialect)
    found = [each for each in examine(request, dialect) if each.code == "call-unanswered"]
    assert found[0].message == position


def test_for_another_provider_only_what_no_repair_mends_is_told():
    said = [
        user("What is this?"),
        WIDE,
        assistant("Wide."),
        InvocationCanisterClass("a b", "f", "{}"),
    ]
    request = Request(Conversation(said))
    (found,) = examine(request, "anthropic_messages")
    assert (found.code, found.message) == ("image-pixels", None)
    (found,) = examine(Request(Conversation(said[:3])), "anthropic_messages")
    assert (found.code, found.message) == ("image-pixels", 1)
    assert examine(request, "openai_chat") == ()


def test_dialects_without_a_table_have_no_findings():
    assert not has_checks("sharegpt")
    assert examine(Request(Conversation([user("Hi")])), "sharegpt") == ()
    assert all(has_checks(dialect) for dialect in CASES)

"""Turns that are kept beside a conversation: used again, and gone with it."""

from __future__ import annotations

import gc
import weakref
from datetime import UTC, datetime

import pytest

import cannery
from tests.conformance.matrix import DIALECTS


class Moment(datetime):
    """A time that tells when nobody needs it any more."""


def spoken(count: int) -> tuple[cannery.Conversation, list[weakref.ref[Moment]]]:
    moments = [Moment(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in range(count)]
    makers = (cannery.user, cannery.assistant)
    canisters = [makers[at % 2](f"{at}.", moment) for at, moment in enumerate(moments)]
    return cannery.Conversation(canisters), [weakref.ref(moment) for moment in moments]


@pytest.mark.parametrize("target", DIALECTS)
def test_a_conversation_that_was_written_is_freed(target: str):
    conversation, moments = spoken(7)
    request = cannery.Request(conversation, "m", source="sharegpt")
    for count in (3, 5, 7):
        cannery.nativize_request(request.replace(conversation=conversation[:count]), target)
    del request, conversation
    gc.collect()
    assert [moment() for moment in moments] == [None] * 7


@pytest.mark.parametrize("target", DIALECTS)
def test_what_is_kept_is_used_only_behind_the_same_beginning(target: str):
    conversation, _ = spoken(5)
    request = cannery.Request(conversation, "m", source="sharegpt")
    cannery.nativize_request(request, target)
    other = cannery.Conversation([cannery.user("Another beginning."), *conversation[1:]])
    again = cannery.nativize_request(request.replace(conversation=other), target)
    assert b"Another beginning." in again.body
    assert b"0." not in again.body.replace(b"1.0", b"")

"""Whoever hands over the wrong thing is told so at once, by an error of ours that says what was expected."""

from __future__ import annotations

import copy
import datetime as dt
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import cannery
from tests.behaviours.bodies import CHAT, CLAUDE, GEMINI, RESPONSES, user

BODY: dict[str, Any] = {"model": "m", "messages": [user("q")]}
RAW = json.dumps(BODY).encode()
REQUEST = cannery.normalize_request(BODY, CHAT)
RESPONSE = cannery.fold([])


def _translated(**options: Any) -> Any:
    return cannery.translate(RAW, **{"source": CHAT, "target": CLAUDE, **options})


def _streamed(chunks: Any) -> Any:
    return list(cannery.normalize_stream(chunks, CHAT))


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "model": (lambda: _translated(model=5), "model must be text, got int"),
    "no_such_repair": (lambda: _translated(without={"bogus"}), "no repair 'bogus'; known: .*alter"),
    "a_repair_as_text": (lambda: _translated(without="prefill"), "several names of repairs"),
    "repairs_as_number": (lambda: _translated(without=5), "several names of repairs"),
    "no_such_repair_of_a_request": (
        lambda: cannery.nativize_request(REQUEST, CLAUDE, without=["x"]),
        "no repair 'x'",
    ),
    "body_for_request": (lambda: cannery.nativize_request(BODY, CHAT), "a Request, got dict"),  # type: ignore[arg-type]
    "canisters_for_request": (
        lambda: cannery.nativize_request(REQUEST.conversation, CHAT),  # type: ignore[arg-type]
        "a Request, got Conversation",
    ),
    "response_for_request": (
        lambda: cannery.nativize_request(RESPONSE, CHAT),  # type: ignore[arg-type]
        "a Request, got Response",
    ),
    "request_for_response": (
        lambda: cannery.nativize_response(REQUEST, CHAT),  # type: ignore[arg-type]
        "a Response, got Request",
    ),
    "bytes_for_chunks": (lambda: _streamed(b"data: {}\n\n"), "one after another, got bytes"),
    "text_for_chunks": (lambda: _streamed("data: {}\n\n"), "one after another, got str"),
    "nothing_for_chunks": (lambda: _streamed(None), "one after another, got NoneType"),
    "text_among_chunks": (lambda: _streamed(["data: {}\n\n"]), "chunks of bytes, got str"),
    "number_for_event": (
        lambda: list(cannery.nativize_stream([1], CHAT)),  # type: ignore[list-item]
        "expected an event, got int",
    ),
    "number_to_fold": (lambda: cannery.fold([1]), "expected an event, got int"),  # type: ignore[list-item]
    "nothing_to_fold": (lambda: cannery.fold(None), "events one after another, got NoneType"),  # type: ignore[arg-type]
    "number_for_options": (
        lambda: cannery.nativize_stream([], CHAT, options=5),  # type: ignore[arg-type]
        "options must be StreamOptions, got int",
    ),
    "number_for_rules": (
        lambda: cannery.nativize_request(REQUEST, CLAUDE, rules=5),  # type: ignore[arg-type]
        "rules must be Rules, got int",
    ),
    "mapping_for_aliases": (
        lambda: cannery.nativize_response(RESPONSE, CLAUDE, aliases={}),  # type: ignore[arg-type]
        "aliases must be Aliases, got dict",
    ),
    "no_messages_to_adapt": (
        lambda: cannery.adapt_role_for_provider(None, "gemini"),  # type: ignore[arg-type]
        "must be a list of messages",
    ),
    "no_place_of_a_store": (lambda: cannery.open_store(None), "a path or a URL"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("wrong, told", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told(wrong: Callable[[], Any], told: str):
    with pytest.raises(ValueError, match=told) as caught:
        wrong()
    assert isinstance(caught.value, cannery.CanneryError)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_of_any_kind_are_chunks(kind: Callable[[bytes], Any]):
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "q"}}]}
    chunks = [b"data: ", json.dumps(chunk).encode(), b"\n\n"]
    events = list(cannery.normalize_stream(map(kind, chunks), CHAT))
    assert events == list(cannery.normalize_stream(chunks, CHAT))


def test_an_unknown_dialect_is_told_before_the_first_chunk():
    with pytest.raises(cannery.UnknownDialectError):
        cannery.translate_stream([], source=CHAT, target="nope")
    with pytest.raises(cannery.UnknownDialectError):
        cannery.normalize_stream([], "nope")


@pytest.mark.parametrize(
    "value, kind",
    [
        (b"q", "bytes"),
        ({"q"}, "set"),
        (Decimal("1.5"), "Decimal"),
        (dt.datetime.now(tz=dt.UTC), "datetime"),
    ],
)
def test_values_that_json_does_not_have_are_refused_and_not_made_text(value: Any, kind: str):
    body = {"model": "m", "messages": [user("q"), user(value)]}
    with pytest.raises(cannery.DialectError, match=f"^{CHAT}: .*: {kind} is not a JSON value") as e:
        cannery.normalize_request(body, CHAT)
    assert e.value.path == "messages[1].content"


def test_keys_that_are_no_text_are_refused():
    with pytest.raises(cannery.DialectError, match="a key must be text, got int"):
        cannery.normalize_request({**BODY, 5: 1}, CHAT)


def test_a_byte_order_mark_is_no_part_of_a_body():
    for body in (b"\xef\xbb\xbf" + RAW, "\ufeff" + RAW.decode()):
        rendered = cannery.translate(body, source=CHAT, target=GEMINI)
        assert rendered == cannery.translate(RAW, source=CHAT, target=GEMINI)
        home = cannery.nativize_request(cannery.normalize_request(body, CHAT), CHAT)
        assert json.loads(home.body) == BODY


def test_half_a_surrogate_pair_in_a_body_that_is_text():
    body = RAW.decode().replace('"q"', '"a\ud800b"')
    assert cannery.normalize_request(body, CHAT).conversation == [cannery.user("a\ufffdb")]


ERRORS: dict[str, Callable[[], Any]] = {
    "dialect": lambda: cannery.normalize_request({"model": "m", "messages": 5}, CHAT),
    "wire_role": lambda: cannery.normalize_request(
        {"model": "m", "messages": [{"role": "root", "content": "q"}]}, CHAT
    ),
    "loss": lambda: cannery.translate(
        {**BODY, "seed": 7}, source=CHAT, target=CLAUDE, policy="strict"
    ),
    "unknown_dialect": lambda: cannery.normalize_request(BODY, "openai-chat"),
    "input": lambda: _translated(model=5),
    "message": lambda: cannery.user(5),  # type: ignore[arg-type]
    "role": lambda: cannery.normalize_role("root"),
}


def _pickled(error: Exception) -> Any:
    return pickle.loads(pickle.dumps(error))  # noqa: S301 - our own


@pytest.mark.parametrize("raises", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("again", [_pickled, copy.copy])
def test_an_error_comes_out_of_a_worker_process_as_it_was(
    raises: Callable[[], Any], again: Callable[[Any], Any]
):
    with pytest.raises(cannery.CanneryError) as caught:
        raises()
    error = again(caught.value)
    assert type(error) is type(caught.value)
    assert str(error) == str(caught.value)
    assert error.args == caught.value.args
    assert vars(error) == vars(caught.value)


@pytest.mark.parametrize(
    "name, meant",
    [
        ("open_ai", CHAT),
        ("OpenAI-Chat", CHAT),
        ("Anthropic", CLAUDE),
        ("gemini_generat", GEMINI),
        ("response", RESPONSES),
        ("nonsense", None),
    ],
)
def test_an_unknown_dialect_brings_the_one_that_may_be_meant(name: str, meant: str | None):
    with pytest.raises(cannery.UnknownDialectError) as caught:
        cannery.normalize_request(BODY, name)
    assert caught.value.suggestion == meant


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES, CLAUDE, GEMINI])
def test_an_error_body_is_told_from_a_broken_answer(dialect: str):
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}
    with pytest.raises(cannery.DialectError, match="tells of an error") as caught:
        cannery.normalize_response(body, dialect)
    assert caught.value.path == "error"

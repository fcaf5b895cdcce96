"""JSON kept as text, and bytes kept wherever they are."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery.errors import DamageError, MessageError
from cannery.messages.content import new_text
from cannery.messages.json_text import (
    decode_json,
    depth,
    is_json,
    is_json_object,
    read_json,
    read_object,
    write_json,
)
from tests.messages.strategies import JSON_OBJECTS, JSON_VALUES, spelled_base64


@given(JSON_VALUES)
def test_what_is_written_reads_back(value):
    text = write_json(value)

    assert read_json(text) == value
    assert json.loads(text) == value
    assert is_json(text)
    assert is_json_object(text) == isinstance(value, dict)


@given(JSON_OBJECTS)
def test_arguments_are_the_value_of_their_text(value):
    call = cannery.invocation("1", "f", value)

    assert call.arguments == value
    assert json.loads(call.arguments_text) == value
    assert list(call.arguments) == list(value)
    assert call.is_object


@pytest.mark.parametrize("text", ["", "{", "NaN", "01", "[1,]", "{'a':1}", "\ufeff{}", "1 2"])
def test_what_is_not_json(text):
    assert not is_json(text)
    with pytest.raises(ValueError):
        decode_json(text)


@pytest.mark.parametrize(
    "text, value",
    [
        (r'"\ud800"', "\ufffd"),
        (r'"a\udc00b"', "a\ufffdb"),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\\ud800"', r"\ud800"),
        (r'"\ud800\ud83d\ude00"', "\ufffd\U0001f600"),
        ('"\ud800"', "\ufffd"),
    ],
)
def test_lone_surrogates_are_replaced_when_reading(text, value):
    assert decode_json(text) == value


@pytest.mark.parametrize(
    "text, levels",
    [("1", 0), ("[]", 1), ('{"a":[{}]}', 3), ('["[[[", "\\"[["]', 1), ("[[],[[]]]", 3)],
)
def test_depth(text, levels):
    assert depth(text) == levels
    assert depth(text.encode()) == levels


def test_depth_is_counted_no_further_than_asked():
    assert depth("[" * 5_000_000, 10) == 11
    assert depth("[[]]" * 10, 3) == 2


@pytest.mark.parametrize("levels", [129, 900, 100_000])
def test_too_deep_text_is_no_object(levels):
    text = '{"a":' * levels + "1" + "}" * levels

    assert read_object(text) is None
    assert not cannery.invocation("1", "f", text).is_object


@given(st.binary(max_size=60), st.data())
def test_base64_in_any_spelling(data, draws):
    text = draws.draw(spelled_base64(data))
    content = cannery.Base64(text)

    assert content.text == text
    assert content.data == data
    assert content.is_readable
    assert content == cannery.Base64(base64.b64encode(data).decode())


@pytest.mark.parametrize("text", ["A", "AAAAA", "AA=A", "QQ==QQ==", "é", "####", "AA A A A"])
def test_what_is_not_base64(text):
    content = cannery.Base64(text)

    assert not content.is_readable
    assert content == cannery.Base64(text)
    with pytest.raises(MessageError, match="not base64"):
        _ = content.data


def test_base64_is_not_decoded_before_somebody_looks():
    class Counted(str):
        __slots__ = ()

        def encode(self, *_args):
            raise AssertionError("decoded")

    content = cannery.messages.content.new_image(cannery.Base64(Counted("AAAA")), "image/png")

    assert content.payload.text == "AAAA"
    assert content.is_hydrated


class Stored:
    """Content in a store, counting how often it is read."""

    def __init__(self, data):
        self.loaded = data
        self.content_id = cannery.content_id_of(data)
        self.size = len(data)
        self.reads = 0

    def load(self):
        self.reads += 1
        return self.loaded


def test_deferred_content_is_read_when_it_is_looked_at():
    stored = Stored("héllo".encode())
    said = cannery.UserCanisterClass(new_text(stored))

    assert isinstance(said, cannery.UserCanister)
    assert isinstance(said.content, cannery.TextualContent)
    assert said == cannery.UserCanisterClass(cannery.TextualContentClass("héllo"), said.timestamp)
    hash(said)
    repr(said)
    assert cannery.digest(said) == cannery.digest(cannery.user("héllo"))
    assert stored.reads == 0
    assert said.text == "héllo"
    assert stored.reads == 1


def test_stored_text_that_is_not_text_is_damage():
    content = new_text(Stored(b"\xff"))

    with pytest.raises(DamageError, match="not UTF-8"):
        _ = content.text


def test_location_is_not_fetched():
    image = cannery.ImageContentClass(location="https://example.com/a.png")

    assert image.location == cannery.Location("url", "https://example.com/a.png")
    assert image.content_id is cannery.absent
    with pytest.raises(MessageError, match="lie at url"):
        _ = image.data


def test_a_deferred_payload_must_have_the_id_that_is_given():
    stored = Stored(b"x")

    assert cannery.ImageContentClass(stored, "image/png", stored.content_id).data == b"x"
    with pytest.raises(MessageError, match="is not that of the data"):
        cannery.ImageContentClass(stored, "image/png", cannery.content_id_of(b"y"))


@pytest.mark.parametrize(
    "mime_type",
    ["text/plain", "text/markdown", "TEXT/HTML", "application/json", "application/ld+json"],
)
def test_textual_types(mime_type):
    assert cannery.TextualContentClass("x", mime_type).mime_type == mime_type


def test_long_payloads_have_short_reprs():
    data = bytes(100_000)

    assert len(repr(cannery.ImageContentClass(data, "image/png"))) < 100
    assert len(repr(cannery.Base64("A" * 100_000))) < 100

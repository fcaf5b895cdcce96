"""Load(save(x)) is x, for every canister, in the seeds' own shape on disk."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cannery.errors import ContentNotFoundError, DamageError, InputError
from cannery.messages import (
    Base64,
    ImageContentClass,
    NotHydrated,
    TextualContentClass,
    UserCanisterClass,
    assistant,
    digest,
    invocation,
    result,
    supervisor,
    user,
)
from cannery.storage import open_store
from cannery.storage.content import CacheMemory, ContentCache
from cannery.storage.decoding import Decoder
from cannery.storage.encoding import Encoder
from cannery.storage.history import SpokenChain, without_doubles
from tests.messages.strategies import CANISTERS

WHEN = datetime(2025, 11, 18, 10, 30, tzinfo=UTC)
SIZE = re.compile(rb',"size":[0-9]+')


class Table:
    """Content in a dictionary."""

    def __init__(self):
        self.held = {}

    def get(self, digest, size=None):
        return self.held[digest]

    def get_many(self, digests, sizes):
        return [(digest, self.held[digest]) for digest in digests]


@given(st.lists(CANISTERS, max_size=4), st.sampled_from([0, 10, 1024]), st.booleans())
@settings(max_examples=400)
def test_what_is_loaded_is_what_was_saved(canisters, threshold, hydrate):
    table = Table()
    cache = ContentCache(table, "", CacheMemory(1000))
    encoder = Encoder(cache, threshold)
    lines = []
    for canister in canisters:
        try:
            encoded = encoder.encode(canister)
        except (ContentNotFoundError, InputError):  # known by an id alone, or by a part of one
            return
        assert b"\n" not in encoded.line
        lines.append(encoded.line)
        known = {key: data for key, data in encoded.contents.items() if data is not None}
        table.held |= known
        if len(known) < len(encoded.contents):
            return
    loaded = Decoder(cache).decode(lines, hydrate=hydrate)
    assert loaded == canisters
    assert list(map(digest, loaded)) == list(map(digest, canisters))
    assert [one.residue for one in loaded] == [one.residue for one in canisters]
    # Written again it is the same line, but for the size of content that was known only by its id.
    again = [encoder.encode(one).line for one in loaded]
    assert [SIZE.sub(b"", line) for line in again] == [SIZE.sub(b"", line) for line in lines]


@given(st.lists(CANISTERS, max_size=8), st.integers(0, 8))
def test_a_chain_can_be_put_down_and_taken_up_anywhere(canisters, cut):
    """What a catalogue continues is what ``SpokenChain`` says of the whole history."""
    canisters = without_doubles(canisters)
    with open_store("sqlite::memory:") as store:
        conversation = store.create()
        try:
            conversation.append(canisters[:cut])
            conversation.append(canisters[cut:])
        except (ContentNotFoundError, InputError):  # known by an id alone, or by a part of one
            return
        found = SpokenChain().extend(canisters)
        said = [(one, position) for position, one in enumerate(found, 1) if one is not None]
        for position in range(len(canisters) + 1):
            last = [both for both in said if both[1] <= position]
            expected = last[-1] if last else (None, 0)
            assert (
                store.backend.catalogue.said_before(conversation.identifier, position) == expected
            )


def test_saved_through_a_store_and_another_process_of_it(path):
    canisters = [
        supervisor("Be brief.", WHEN),
        user("Grüße \x00\x1f \U0001f600", WHEN),
        UserCanisterClass(ImageContentClass(b"\x89PNG" * 100, "image/png"), WHEN, joined=True),
        assistant("word " * 1000, WHEN),
        invocation("c1", "f", '{"a":  1.50, "b": [1e3]}', WHEN),
        result("c1", {"x": 1}, True, WHEN),
    ]
    with open_store(path) as store:
        identifier = store.create().identifier
        store.get(identifier).append(canisters)
    with open_store(path) as store:
        assert list(store.get(identifier).load()) == canisters
        assert list(store.get(identifier).hydrate()) == canisters
        assert store.get(identifier).load()[4].arguments_text == '{"a":  1.50, "b": [1e3]}'


def lines_of(path, identifier):
    text = (path / "conversations" / identifier / "messages.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_a_line_is_the_seeds_own(path):
    with open_store(path) as store:
        conversation = store.create()
        conversation.append(user("Explain photosynthesis.", WHEN), assistant("x" * 1024, WHEN))
    one, two = lines_of(path, conversation.identifier)
    seal = one.pop("check")
    assert seal.startswith("0.")
    assert one == {
        "role": "user",
        "content": {"type": "text", "text": "Explain photosynthesis."},
        "timestamp": "2025-11-18T10:30:00Z",
    }
    assert list(two) == ["role", "content", "timestamp", "check"]
    assert two["content"]["content_id"].startswith("sha256:")
    assert two["content"]["size"] == 1024


@pytest.mark.parametrize(
    "text, is_inline",
    [("x" * 1023, True), ("x" * 1024, False), ("é" * 511, True), ("é" * 512, False), ("", True)],
)
def test_the_threshold_counts_utf8_bytes(path, text, is_inline):
    with open_store(path) as store:
        conversation = store.create()
        conversation.append(user(text, WHEN))
        assert conversation.load()[0].text == text
    (line,) = lines_of(path, conversation.identifier)
    assert ("text" in line["content"]) is is_inline


def test_the_threshold_can_be_another_and_reading_does_not_care(path):
    with open_store(path, threshold=5) as store:
        identifier = store.create().identifier
        store.get(identifier).append(user("four", WHEN), user("fives", WHEN))
    four, fives = lines_of(path, identifier)
    assert four["content"]["text"] == "four"
    assert "text" not in fives["content"]
    with open_store(path) as store:
        assert [one.text for one in store.get(identifier).load()] == ["four", "fives"]


def test_supervisor_text_and_binary_never_lie_inline(path):
    with open_store(path) as store:
        conversation = store.create()
        picture = ImageContentClass(b"x", "image/png")
        conversation.append(supervisor("S", WHEN), UserCanisterClass(picture, WHEN))
    for line in lines_of(path, conversation.identifier):
        assert set(line["content"]) <= {"type", "content_id", "size", "mime_type"}


def test_loading_reads_no_content_that_nobody_looks_at(path, monkeypatch):
    with open_store(path) as store:
        conversation = store.create()
        conversation.append(
            UserCanisterClass(ImageContentClass(b"x" * 5000, "image/png"), WHEN),
            assistant("y" * 5000, WHEN),
        )
        read = []
        contents = store.codec("").cache.contents
        get = contents.get
        monkeypatch.setattr(contents, "get", lambda *key: read.append(key) or get(*key))
        monkeypatch.setattr(contents, "get_many", None)
        loaded = conversation.load()
        store.list()
        assert not read
        assert not loaded[0].content.is_hydrated
        assert loaded[1].content.text == "y" * 5000
        assert len(read) == 1


def test_the_same_content_is_stored_once(store):
    conversation = store.create()
    picture = ImageContentClass(bytes(range(256)) * 20, "image/png")
    for index in range(50):
        conversation.append(invocation(f"c{index}", "look"), result(f"c{index}", picture))
    assert store.verify().contents == 1


def test_base64_keeps_its_spelling(store):
    conversation = store.create()
    spelled = Base64("-_-_\n-_8")
    conversation.append(UserCanisterClass(ImageContentClass(spelled, "image/png"), WHEN))
    assert conversation.load()[0].content.payload.text == spelled.text
    assert conversation.hydrate()[0].content.data == spelled.data


def test_content_known_only_by_id_must_be_there(store):
    conversation = store.create()
    absent = "sha256:" + "0" * 64
    with pytest.raises(ContentNotFoundError):
        conversation.append(
            UserCanisterClass(ImageContentClass(b"", "image/png", content_id=absent), WHEN)
        )
    assert len(conversation) == 0
    conversation.append(user("z" * 2000, WHEN))
    known = conversation.load()[0].content.content_id
    conversation.append(user(TextualContentClass("", content_id=known), WHEN))
    assert conversation.load()[1].text == "z" * 2000


def test_content_moves_with_a_canister_to_another_store(store):
    with open_store("sqlite::memory:") as other:
        there = other.create()
        there.append(user("far " * 1000, WHEN))
        here = store.create()
        here.append(there.load())
    assert here.load()[0].text == "far " * 1000


def test_a_stored_content_travels_as_an_id(store):
    import pickle

    conversation = store.create()
    conversation.append(user("far " * 1000, WHEN))
    copy = pickle.loads(pickle.dumps(conversation.load()[0]))  # noqa: S301 - our own bytes
    assert isinstance(copy.held._text, NotHydrated)


def test_odd_time_zones_survive(store):
    conversation = store.create()
    odd = [
        datetime(1800, 1, 1, tzinfo=timezone(timedelta(minutes=53, seconds=28))),
        datetime(2025, 1, 1, 1, 2, 3, 456789, tzinfo=timezone(timedelta(hours=-9, minutes=-30))),
    ]
    conversation.append(user("a", when) for when in odd)
    assert [one.timestamp for one in conversation.load()] == odd


def test_a_list_of_contents_is_unfolded():
    line = (
        b'{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],'
        b'"timestamp":"2025-11-18T10:30:00Z"}'
    )
    one, two = Decoder(ContentCache(Table(), "", CacheMemory())).decode([line])
    assert (one.text, one.joined) == ("a", False)
    assert (two.text, two.joined) == ("b", True)


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b'{"role":"admin","content":{"type":"text","text":""}}',
        b'{"role":"user"}',
        b'{"role":"user","content":{"type":"smell"}}',
        b'{"role":"user","content":{"type":"text"}}',
        b'{"role":"user","content":{"type":"text","content_id":"sha256:0"}}',
        b'{"role":"user","content":[]}',
        b'{"role":"user","content":{"type":"image","mime_type":"image/png"}}',
    ],
)
def test_a_line_of_another_shape_is_damage(line):
    with pytest.raises(DamageError):
        Decoder(ContentCache(Table(), "", CacheMemory())).decode([line])
    with pytest.raises(DamageError):
        Decoder(ContentCache(Table(), "", CacheMemory())).check([line])

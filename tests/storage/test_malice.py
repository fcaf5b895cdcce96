"""Stores that somebody made to do harm: bounded memory and time, and always an error of ours."""

import contextlib
import hashlib
import os
import resource
import struct
import subprocess
import sys
import zlib

import pytest

from cannery.backends import _compression
from cannery.backends._seals import seal
from cannery.backends.directory import packs
from cannery.backends.directory.lines import find_end, judge, read_range
from cannery.errors import CanneryError, DamageError
from cannery.messages import assistant, supervisor, user
from cannery.storage import open_store

LINE = b'{"role":"user","content":{"type":"text","text":"hi"},"timestamp":"2025-11-18T10:30:00Z"}'


def replace_log(path, identifier, data):
    (path / "conversations" / identifier / "messages.jsonl").write_bytes(data)


@pytest.fixture
def one(path):
    """A closed store with one conversation of two messages."""
    with open_store(path) as store:
        identifier = store.create("one", canisters=[user("hello"), assistant("hi")]).identifier
    return path, identifier


@pytest.mark.parametrize("ordinal", [2_000_000_000, 10**17, 10**18 - 1])
def test_a_line_that_claims_a_huge_position_is_damaged(one, ordinal):
    path, identifier = one
    log = path / "conversations" / identifier / "messages.jsonl"
    replace_log(path, identifier, log.read_bytes() + seal(LINE, ordinal))
    with open_store(path) as store:
        conversation = store.get(identifier)
        assert len(conversation) == 3
        reading = conversation.read()
        assert len(reading.canisters) == 2
        assert [damage.problem for damage in reading.damages] == ["damaged line"]
        with pytest.raises(DamageError):
            conversation.load()
        store.rebuild_index()
        assert store.list()[0].count == 3
        conversation.append(user("next"))
        assert conversation.load(-1)[0].text == "next"


def test_many_lines_may_be_missing():
    """A log of a million lines of which all but the last were lost."""
    data = seal(LINE, 1_000_000)
    reading = judge(data, "log", 0, 0)
    assert (len(reading.lines), reading.lines[-1]) == (1_000_001, data[:-1])
    assert find_end(lambda length, at: data[at : at + length], len(data), "log", 0) == 1_000_001


def test_a_row_of_false_seals_is_judged_in_linear_time():
    def work(count):
        data = b'{"a":1' + b',"check":"1.00000000"}' * count + b"\n"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        assert judge(data, "log", 0, 0).lines == [None]
        read_range(lambda length, at: data[at : at + length], len(data), "log", 0, 1, None)
        return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before

    work(10_000)
    assert work(200_000) < 20 * (work(20_000) + 0.02)


BOMB = 1 << 30
BOUNDED = """
import resource, sys
from cannery import CanneryError, open_store
store = open_store(sys.argv[1])
conversation = store.get(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
for act in (conversation.hydrate, lambda: conversation.load()[0].text):
    try:
        act()
    except CanneryError as error:
        print(type(error).__name__)
    else:
        print("read")
store.search("words")
print([damage.problem for damage in store.verify().damages])
"""


def frame_of_zeros(size):
    compressor = _compression.zstd.ZstdCompressor(level=3)
    piece = bytes(16 << 20)
    frame = b"".join(compressor.compress(piece) for _ in range(size // len(piece)))
    return frame + compressor.flush()


@pytest.mark.parametrize("is_honest", [False, True])
@pytest.mark.parametrize("role", [user, supervisor])
def test_content_that_inflates_to_more_than_its_line_says_is_not_read(path, is_honest, role):
    """With the hash of what the line means, and with that of what it becomes."""
    with open_store(path) as store:
        identifier = store.create(canisters=[role("words " * 30_000)]).identifier
    (pack,) = path.glob("content/*.pack")
    log = path / "conversations" / identifier / "messages.jsonl"
    digest = hashlib.sha256(b"words " * 30_000)
    if is_honest:
        digest, old = hashlib.sha256(), digest
        for _ in range(BOMB >> 20):
            digest.update(bytes(1 << 20))
        line = log.read_bytes().replace(old.hexdigest().encode(), digest.hexdigest().encode())
        log.write_bytes(seal(line[: line.rindex(b',"check"')] + b"}", 0))
    frame = frame_of_zeros(BOMB)
    head = packs.HEADER.pack(b"CNT1", 1, len(frame), BOMB, digest.digest(), zlib.crc32(frame), 0)[
        :-4
    ]
    record = head + struct.pack("<I", zlib.crc32(head)) + frame
    pack.write_bytes(packs.new_pack_header() + record)
    assert pack.stat().st_size < 200_000
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, path, identifier],
        capture_output=True,
        text=True,
        check=True,
    )
    *errors, problems = done.stdout.splitlines()
    assert errors == ["DamageError"] * 2
    assert is_honest or "do not match the id" in problems


def test_content_may_be_compressed_well(path):
    """What a line says is believed, however little is stored."""
    zeros = "0" * (80 << 20)
    with open_store(path) as store:
        identifier = store.create(canisters=[user(zeros)]).identifier
        assert store.verify().is_sound
    assert sum(pack.stat().st_size for pack in path.glob("content/*.pack")) < 80_000
    with open_store(path) as store:
        assert store.get(identifier).load()[0].text == zeros


def test_a_state_that_is_cut_while_it_is_used_kills_nobody(one):
    path, identifier = one
    with open_store(path) as store:
        conversation = store.get(identifier)
        for size in (0, 30, 100):
            os.truncate(path / "journal.state", size)
            conversation.append(user(f"{size}"))
            assert conversation.load(-1)[0].text == f"{size}"
        assert store.verify().is_sound


def record_of(path, payload):
    """A journal whose one record is valid and has a payload of our choice."""
    journal = path / "journal"
    epoch = journal.read_bytes()[16:24]
    rest = epoch + struct.pack("<QQ", 4096, len(payload))
    check = zlib.crc32(payload, zlib.crc32(rest)).to_bytes(4, "little")
    data = b"CJR1" + check + rest + payload + bytes(-len(payload) % 8)
    journal.write_bytes(journal.read_bytes()[:4096].ljust(4096, b"\0") + data)


def operation(name, offset, data, kind=1, length=None):
    head = struct.pack(
        "<BBHIQQ", kind, 0, len(name), 0, offset, len(data) if length is None else length
    )
    return head + name + data


@pytest.mark.parametrize(
    "payload",
    [
        b"x",
        operation(b"../outside", 0, b"x"),
        operation(b"conversations/../../outside", 0, b"x"),
        operation(b"cannery.json", 0, b"x", kind=2),
        operation(b"conversations/\xff/messages.jsonl", 0, b"x"),
        operation(b"conversations/a/messages.jsonl", 1 << 62, b"x"),
        operation(b"conversations/a/messages.jsonl", 0, b"x", length=1 << 40),
        operation(b"conversations/a/messages.jsonl", 0, b"x", kind=9),
    ],
)
def test_a_journal_that_nobody_has_written_is_refused(one, payload):
    path, _ = one
    record_of(path, payload)
    with pytest.raises(CanneryError, match="journal"):
        open_store(path)
    assert not (path.parent / "outside").exists()


def test_a_pack_index_that_leads_outside_its_pack_is_not_believed(path):
    with open_store(path) as store:
        identifier = store.create(canisters=[user("words " * 3000)]).identifier
    (path / "content" / "00000009.pack").touch()
    with open_store(path) as store:
        store.get(identifier).hydrate()
    (index,) = path.glob("content/*.idx")
    data = bytearray(index.read_bytes()[:-4])
    struct.pack_into("<Q", data, 32 + 40, 1 << 61)
    index.write_bytes(data + zlib.crc32(data).to_bytes(4, "little"))
    with open_store(path) as store, pytest.raises(CanneryError):
        store.get(identifier).hydrate()


@pytest.mark.parametrize("depth", [900, 5000, 100_000])
def test_content_that_is_nested_too_deeply_is_damage(one, depth):
    path, identifier = one
    parts = b'{"type":"parts","parts":[' * depth + b"1" + b"]}" * depth
    replace_log(path, identifier, seal(b'{"role":"user","content":' + parts + b"}", 0))
    with open_store(path) as store:
        for act in (store.get(identifier).load, store.get(identifier).hydrate):
            with pytest.raises(DamageError):
                act()
        assert not store.verify().is_sound
        store.rebuild_index()
        assert store.search("hello") == ()


def test_metadata_that_are_nested_too_deeply_are_damage(one):
    path, identifier = one
    nested = b"[" * 5000 + b"]" * 5000
    named = f'{{"id":"{identifier}","more":'.encode()
    (path / "conversations" / identifier / "conversation.json").write_bytes(
        seal(named + nested + b"}", 0)
    )
    with open_store(path) as store:
        with pytest.raises(DamageError):
            store.get(identifier)
        assert not store.verify().is_sound


def test_without_descriptors_every_call_gives_an_error_of_ours(one):
    path, identifier = one
    with open_store(path) as store:
        store.create(canisters=[user("words " * 3000)])
        held = []
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        try:
            for act in (
                lambda: store.get(identifier).load(),
                lambda: store.get(identifier).append(user("more")),
                lambda: store.create(canisters=[user("new " * 3000)]),
                lambda: store.backend.contents("").has([bytes(32)]),
                store.list,
                lambda: store.search("hello"),
                lambda: store.file([user("filed")]),
                store.verify,
                store.collect_garbage,
                store.rebuild_index,
                lambda: open_store(path),
                lambda: open_store(path.parent / "another"),
            ):
                # What needs no descriptor may work.
                with contextlib.suppress(CanneryError):
                    act()
        finally:
            for descriptor in held:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        store.get(identifier).append(user("after"))
        assert store.get(identifier).load(-1)[0].text == "after"
        assert store.verify().is_sound

"""Whatever happens to the files: damage is found and named, the rest stays readable, no wrong byte is given."""

import contextlib
import hashlib
import os
import random
import shutil
import sqlite3
import stat

import pytest

from cannery.backends import _compression as compression
from cannery.backends._exchanges import Note
from cannery.backends._seals import seal
from cannery.backends.directory import index_seal
from cannery.errors import CanneryError, DamageError, StorageError
from cannery.messages import (
    ImageContentClass,
    UserCanisterClass,
    assistant,
    invocation,
    supervisor,
    user,
)
from cannery.storage import open_store

FLIPS = 10_000


@pytest.fixture(scope="module")
def golden(module_path):
    """A closed store with a bit of everything, and what it holds."""
    path = module_path / "store"
    with open_store(path) as store:
        first = store.create(title="First", tags=("x",))
        first.append(user("short"), assistant("long " * 400), user("another needle"))
        first.append(UserCanisterClass(ImageContentClass(os.urandom(1500), "image/png")))
        first.append(user("compressible " * 300), user("last"))
        fork = first.fork(3)
        fork.append(assistant("in the fork " * 200))
        store.file([user("filed"), assistant("history")])
        store.search("needle")
        truth = {one.identifier: list(store.get(one.identifier).hydrate()) for one in store.list()}
        titles = {one.identifier: one.title for one in store.list()}
    return path, truth, titles


def copy_of(golden, tmp_path):
    path = tmp_path / "copy"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(golden[0], path)
    return path


def readable(store, truth):
    """Read everything; every canister that comes back must be the one that was written."""
    problems = []
    for identifier, expected in truth.items():
        try:
            reading = store.get(identifier).read()
        except CanneryError as error:
            problems.append(error)
            continue
        problems += reading.damages
        positions = iter(expected)
        for canister in reading.canisters:
            try:
                assert any(canister == known for known in positions), "a wrong message"
                held = canister.held
                if not isinstance(held, str):
                    held.text if hasattr(held, "text") else held.data  # looking verifies it
            except CanneryError as error:
                problems.append(error)
    return problems


def files_of(path):
    kinds = {".jsonl", ".json", ".pack"}
    return sorted(
        file
        for file in path.rglob("*")
        if file.is_file() and file.suffix in kinds and file.stat().st_size
    )


@pytest.mark.parametrize("part", range(4))
def test_every_flipped_bit_is_found(golden, tmp_path, part):
    _, truth, _ = golden
    path = copy_of(golden, tmp_path)
    chance = random.Random(part)
    files = files_of(path)
    weights = [file.stat().st_size for file in files]
    for _ in range(FLIPS // 4):
        (file,) = chance.choices(files, weights)
        flip(file, chance)
        try:
            try:
                store = open_store(path)
            except StorageError:
                continue
            try:
                readable(store, truth)
                # A damaged marker is written anew when a store is opened.
                assert store.recovered or not store.verify().is_sound, f"not found: {file.name}"
            finally:
                store.close()
        finally:
            restore(file)


saved = {}


def flip(file, chance):
    data = bytearray(file.read_bytes())
    saved[file] = bytes(data)
    place = chance.randrange(len(data))
    data[place] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def restore(file):
    file.write_bytes(saved.pop(file))


def test_flipped_bits_in_the_index_cost_a_rebuild(golden, tmp_path):
    _, _, titles = golden
    path = copy_of(golden, tmp_path)
    chance = random.Random(1)
    for _ in range(100):
        flip(path / "index.sqlite", chance)
        saved.clear()
        with open_store(path) as store:
            assert {one.identifier: one.title for one in store.list()} == titles
            assert len(store.search("needle")) == 1
            assert not store.file([user("filed"), assistant("history")]).added
            assert store.backend.catalogue.file.rebuilds == 1


@pytest.fixture(scope="module")
def killed(golden, module_path):
    """The same store as a process leaves it that is killed after it has used the index."""
    folder = module_path
    shutil.copytree(golden[0], folder / "used")
    with open_store(folder / "used") as store:
        store.get(next(iter(golden[1]))).rename("Renamed")
        store.create(title="Second", canisters=[user("a second needle"), assistant("answer")])
        assert len(store.search("needle")) == 2
        store.file([user("filed"), assistant("history"), user("goes on")])
        store.file([user("filed"), assistant("history"), user("another way")])
        store.file([user("filed"), assistant("history"), user("goes on"), assistant("further")])
        titles = {one.identifier: (one.title, one.count) for one in store.list()}
        # A copy of the files is what a killed process leaves.
        shutil.copytree(folder / "used", folder / "killed")
    assert store.backend.catalogue.file.rebuilds == 0
    assert (folder / "killed" / "index.sqlite-wal").stat().st_size
    return folder / "killed", titles


def found_by(store):
    history = [user("filed"), assistant("history"), user("goes on"), assistant("further")]
    return (
        {one.identifier: (one.title, one.count) for one in store.list()},
        sorted((hit.title, hit.snippet) for hit in store.search("needle")),
        [store.file(history[:length]).added for length in range(1, 5)],
        sorted(one.title for one in store.list(role="assistant")),
    )


def test_a_killed_process_leaves_an_index_that_can_be_used(killed, tmp_path):
    path = tmp_path / "copy"
    shutil.copytree(killed[0], path)
    with open_store(path) as store:
        assert found_by(store)[0] == killed[1]
        assert store.backend.catalogue.file.rebuilds == 0


@pytest.mark.parametrize("name", ["index.sqlite", "index.sqlite-wal", "index.sqlite.seal"])
def test_flipped_bits_in_the_index_of_a_killed_process(killed, tmp_path, name):
    path = tmp_path / "copy"
    shutil.copytree(killed[0], path)
    with open_store(path) as store:
        truth = found_by(store)
    chance = random.Random(2)
    rebuilds = 0
    for _ in range(100):
        shutil.rmtree(path)
        shutil.copytree(killed[0], path)
        flip(path / name, chance)
        saved.clear()
        with open_store(path) as store:
            assert found_by(store) == truth
            rebuilds += store.backend.catalogue.file.rebuilds
    # What is wrong in its log SQLite leaves out by itself, and the index catches up.
    assert rebuilds == (0 if name.endswith("-wal") else 100)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE conversations SET title = 'wrong'",
        "UPDATE conversations SET length = length + 1",
        "UPDATE prefixes SET position = position + 7",
        "UPDATE progress SET value = '[\"9-9\"] 1'",
    ],
)
def test_a_row_that_changed_while_the_index_is_used_costs_a_rebuild(killed, tmp_path, change):
    path = tmp_path / "copy"
    shutil.copytree(killed[0], path)
    with open_store(path) as store:
        truth = found_by(store)
        connection = sqlite3.connect(path / "index.sqlite", isolation_level=None)
        connection.execute(change)
        assert found_by(store) == truth
        assert store.backend.catalogue.file.rebuilds == 1
        connection.close()


def test_an_index_that_another_process_threw_away_is_not_used_on(killed, tmp_path):
    path = tmp_path / "copy"
    shutil.copytree(killed[0], path)
    with open_store(path) as one, open_store(path) as two:
        truth = found_by(one)
        assert found_by(two) == truth
        one.rebuild_index()
        assert found_by(two) == truth == found_by(one)
    assert (path / "index.sqlite.seal").exists()
    with open_store(path) as store:
        assert found_by(store) == truth
        assert store.backend.catalogue.file.rebuilds == 0


def test_a_long_log_of_the_index_is_moved_into_it_and_sealed(tmp_path, monkeypatch):
    monkeypatch.setattr(index_seal, "_DUE", 100_000)
    monkeypatch.setattr(index_seal, "_EACH", 0)
    path = tmp_path / "store"
    with open_store(path) as store, open_store(path) as other:
        assert other.list() == ()
        for number in range(30):
            store.create(canisters=[user(f"needle {number} {turn}") for turn in range(30)])
            assert len(store.search(f'"needle {number}"')) == 30
            if number == 20:
                other.close()
            log = path / "index.sqlite-wal"
            assert not log.exists() or log.stat().st_size < 2_000_000
        assert (path / "index.sqlite.seal").exists()
        shutil.copytree(path, tmp_path / "killed")
    with open_store(tmp_path / "killed") as store:
        assert len(store.search("needle", limit=1000)) == 900
        assert store.backend.catalogue.file.rebuilds == 0


def test_a_large_index_is_compared_a_few_pages_at_a_time(tmp_path, monkeypatch):
    for name, value in (("_FIRST_LOOK", 1), ("_LOOK", 1), ("_EACH", 0)):
        monkeypatch.setattr(index_seal, name, value)
    path = tmp_path / "store"
    with open_store(path) as store:
        for number in range(20):
            store.create(canisters=[user(f"needle {number} {turn}") for turn in range(30)])
        assert len(store.search("needle", limit=1000)) == 600
        identifier = store.list()[-1].identifier
    size = (path / "index.sqlite").stat().st_size
    for page in (1, size // 8192, size // 4096 - 1):
        with (path / "index.sqlite").open("r+b") as file:
            file.seek(4096 * page + 77)
            file.write(b"damage")
        with open_store(path) as store:
            for _ in range(size // 4096 + 2):
                assert [one.identifier for one in store.list()][-1] == identifier
            assert store.backend.catalogue.file.rebuilds == 1
            assert len(store.search("needle", limit=1000)) == 600
        size = (path / "index.sqlite").stat().st_size


def test_opening_and_closing_an_index_reads_no_more_of_a_larger_one(tmp_path, monkeypatch):
    monkeypatch.setattr(index_seal, "_FIRST_LOOK", 4)
    read = []
    original = os.pread

    def pread(fd, length, offset):
        read.append(length)
        return original(fd, length, offset)

    taken = []
    for count in (5, 200):
        path = tmp_path / str(count)
        with open_store(path) as store:
            for number in range(count):
                store.create(canisters=[user(f"needle {number}")])
            store.list()
        monkeypatch.setattr(index_seal.os, "pread", pread)
        read.clear()
        with open_store(path) as store:
            assert len(store.list(limit=2)) == 2
        taken.append(sum(read))
        monkeypatch.setattr(index_seal.os, "pread", original)
    assert taken[1] < taken[0] + 4096


def test_flipped_bits_in_a_pack_index_cost_a_rebuild(golden, tmp_path):
    _, truth, _ = golden
    path = copy_of(golden, tmp_path)
    (path / "content" / "00000009.pack").touch()
    with open_store(path) as store:
        assert not readable(store, truth)
    (index,) = path.glob("content/*.idx")
    chance = random.Random(1)
    for _ in range(100):
        flip(index, chance)
        saved.clear()
        with open_store(path) as store:
            assert not readable(store, truth)


def test_every_cut_of_the_last_lines(golden, tmp_path):
    """The whole lines stay, a piece of one is damage that stays in its place, and no append glues onto it."""
    _, truth, _ = golden
    path = copy_of(golden, tmp_path)
    identifier, expected = max(truth.items(), key=lambda item: len(item[1]))
    log = path / "conversations" / identifier / "messages.jsonl"
    whole = log.read_bytes()
    starts = [0] + [index + 1 for index, byte in enumerate(whole) if byte == 10]
    for size in range(starts[-4], len(whole)):
        log.write_bytes(whole[:size])
        is_line = size + 1 in starts
        is_torn = size not in starts and not is_line
        complete = whole[:size].count(b"\n") + is_line
        with open_store(path) as store:
            conversation = store.get(identifier)
            reading = conversation.read()
            assert list(reading.canisters) == expected[:complete]
            assert bool(reading.damages) is is_torn or is_line
            conversation.append(user("after the cut"))
            assert bool(store.recovered) is is_torn or is_line
            assert len(conversation) == complete + is_torn + 1
            if is_torn:
                with pytest.raises(DamageError, match=f"line {complete + 1}: damaged line"):
                    conversation.load()
                assert list(conversation.load(0, complete)) == expected[:complete]
            else:
                assert list(conversation.load())[:-1] == expected[:complete]
            assert conversation.load(-1)[0].text == "after the cut"


@pytest.mark.parametrize("byte", [b"\x0b", b"*", b"{", b"", b"\0"])
@pytest.mark.parametrize("which", [-1, -2, 1])
def test_a_damaged_newline_costs_no_line(golden, tmp_path, byte, which):
    """Not one that is read, nor one that the next append would write over."""
    _, truth, _ = golden
    path = copy_of(golden, tmp_path)
    identifier, expected = max(truth.items(), key=lambda item: len(item[1]))
    log = path / "conversations" / identifier / "messages.jsonl"
    lines = log.read_bytes().splitlines()
    ends = [b"\n"] * len(lines)
    ends[which] = byte
    log.write_bytes(b"".join(line + end for line, end in zip(lines, ends, strict=True)))
    with open_store(path) as store:
        conversation = store.get(identifier)
        assert list(conversation.load()) == expected
        assert [list(conversation.load(at)) for at in range(6)] == [
            expected[at:] for at in range(6)
        ]
        assert len(conversation) == len(expected)
        assert any("newline" in damage.problem for damage in store.verify().damages)
        conversation.append(user("after it"))
        assert [one.text for one in conversation.load()][-2:] == ["last", "after it"]
        assert len(conversation) == len(expected) + 1


PLAIN = [
    '{"role": "user", "content": {"type": "text", "text": "Explain photosynthesis."}}',
    '{"role":"assistant","content":{"type":"text","text":"1.deadbeef"},"timestamp":"2025-11-18T10:30:15"}',
    '{ "timestamp": "2025-11-18T10:30:15Z", "content": {"type": "text", "text": "Ünïcode"}, "role": "user" }\r',
]


@pytest.mark.parametrize("is_ended", [True, False])
@pytest.mark.parametrize("kept", [0, 3, 6])
def test_lines_of_another_program_are_read_and_told_as_unsealed(golden, tmp_path, kept, is_ended):
    _, truth, _ = golden
    path = copy_of(golden, tmp_path)
    identifier, expected = max(truth.items(), key=lambda item: len(item[1]))
    log = path / "conversations" / identifier / "messages.jsonl"
    ours = log.read_bytes().splitlines(keepends=True)[:kept]
    log.write_bytes(b"".join(ours) + "\n".join(PLAIN).encode() + b"\n" * is_ended)
    said = ["Explain photosynthesis.", "1.deadbeef", "Ünïcode"]
    with open_store(path) as store:
        conversation = store.get(identifier)
        assert list(conversation.load())[:kept] == expected[:kept]
        assert [one.text for one in conversation.load(kept)] == said
        assert conversation.load(-1)[0].text == "Ünïcode"
        assert conversation.load(kept)[0].timestamp.tzinfo is not None
        unsealed = [one for one in store.verify().damages if "unsealed" in one.problem]
        assert [one.position for one in unsealed] == [kept, kept + 1, kept + 2]
        conversation.append(user("sealed again"))
        assert [one.text for one in conversation.load(kept)] == [*said, "sealed again"]
        store.rebuild_index()
        assert "photosynthesis" in store.search("photosynthesis")[0].snippet
        assert max(store.list(), key=lambda one: one.count).count == kept + 4
        assert len(store.verify().damages) == 3


@pytest.mark.parametrize("name", [b"chdck", b"Check", b"checj"])
def test_a_line_whose_seal_has_a_damaged_name_is_not_taken_for_an_unsealed_one(
    golden, tmp_path, name
):
    _, truth, _ = golden
    path = copy_of(golden, tmp_path)
    identifier = max(truth, key=lambda one: len(truth[one]))
    log = path / "conversations" / identifier / "messages.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"check"', b'"' + name + b'"', 1))
    with open_store(path) as store, pytest.raises(DamageError, match="damaged line"):
        store.get(identifier).load()


@pytest.fixture(scope="module")
def small(module_path):
    """A closed store whose last three contents are small: plain text, bytes, and a compressed frame."""
    path = module_path / "small"
    with open_store(path) as store:
        conversation = store.create(canisters=[supervisor("Be brief."), supervisor("Be kind.")])
        conversation.append(UserCanisterClass(ImageContentClass(b"\x89PNG\r\n", "image/png")))
        conversation.append(user("compressible " * 400))
        truth = {conversation.identifier: list(conversation.hydrate())}
    return path, truth


def test_every_cut_of_the_last_small_contents(small, tmp_path):
    """At every byte of the last three records."""
    path = copy_of(small, tmp_path)
    (pack,) = path.glob("content/*.pack")
    whole = pack.read_bytes()
    starts = [at for at in range(len(whole)) if whole[at : at + 4] == b"CNT1"]
    assert len(starts) == 4
    for size in range(starts[1], len(whole)):
        cut_contents(path, small[1], pack, whole[:size])


def test_many_cuts_of_the_last_contents(golden, tmp_path):
    path = copy_of(golden, tmp_path)
    (pack,) = path.glob("content/*.pack")
    whole = pack.read_bytes()
    for size in range(len(whole) - 1, len(whole) - 6000, -97):
        cut_contents(path, golden[1], pack, whole[:size])


def cut_contents(path, truth, pack, rest):
    """Cut a pack: it is noticed, and what is written afterwards is found again, fragment or not."""
    pack.write_bytes(rest)
    for other in path.glob("content/*.pack"):
        if other != pack:
            other.unlink()
    with open_store(path) as store:
        assert readable(store, truth)
        assert not store.verify().is_sound
        conversation = store.create()
        conversation.append(user("new content " * 200))
        assert conversation.load()[0].text == "new content " * 200
    with open_store(path) as store:
        assert store.get(conversation.identifier).load()[0].text == "new content " * 200
    shutil.rmtree(path / "conversations" / conversation.identifier)


@pytest.fixture(scope="module")
def journaled(module_path):
    """A store whose last changes are in its journal alone, as when the power fails after they were acknowledged."""
    path = module_path / "journaled"
    with open_store(path) as store:
        identifier = store.create(canisters=[user("before")]).identifier
    shutil.copytree(path, module_path / "durable")
    with open_store(path) as store:
        for number in range(4):
            store.get(identifier).append(user(f"{number}"), supervisor(f"kept {number}"))
        journal = (path / "journal").read_bytes()
    records = []
    at = 4096
    while journal[at : at + 4] == b"CJR1":
        end = at + 32 + int.from_bytes(journal[at + 24 : at + 32], "little")
        records.append((at, end))
        at = -(-end // 8) * 8
    assert len(records) == 4
    return module_path / "durable", identifier, journal, records


def recovered(journaled, tmp_path, journal):
    """What a store has that finds a journal; afterwards it must be sound and go on."""
    path = tmp_path / "copy"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(journaled[0], path)
    (path / "journal").write_bytes(journal)
    with open_store(path) as store:
        conversation = store.get(journaled[1])
        texts = [one.text for one in conversation.hydrate()]
        conversation.append(user("after"))
        assert [one.text for one in conversation.hydrate()] == [*texts, "after"]
        assert store.verify().is_sound
        return texts, store.recovered


def said_by(count):
    return ["before", *(text for one in range(count) for text in (f"{one}", f"kept {one}"))]


def test_every_cut_of_the_last_journal_records(journaled, tmp_path):
    """With zeros behind it, as where a write did not arrive; around their ends also with nothing."""
    _, _, journal, records = journaled
    sizes = range(records[1][0], records[-1][1] + 1)
    cuts = [journal[:size] + bytes(len(journal) - size) for size in sizes]
    edges = [edge for record in records[1:] for edge in record]
    cuts += [journal[:size] for edge in edges for size in range(edge - 4, edge + 9)]
    for cut in cuts:
        whole = sum(cut[start:end] == journal[start:end] for start, end in records)
        texts, damages = recovered(journaled, tmp_path, cut)
        assert texts == said_by(whole)
        assert not damages


def test_flipped_bits_in_the_journal(journaled, tmp_path):
    """What lies before the damage is there, nothing wrong is, and what lies behind it is kept aside."""
    _, _, journal, records = journaled
    chance = random.Random(3)
    for _ in range(300):
        number = chance.randrange(4)
        start, end = records[number]
        place = chance.randrange(start, end)
        flipped = bytearray(journal)
        flipped[place] ^= 1 << chance.randrange(8)
        texts, damages = recovered(journaled, tmp_path, bytes(flipped))
        assert texts == said_by(number)
        assert bool(damages) is (number < 3)


def test_a_damaged_line_is_named_and_the_others_stay(golden, tmp_path):
    _, truth, _ = golden
    path = copy_of(golden, tmp_path)
    identifier, expected = max(truth.items(), key=lambda item: len(item[1]))
    log = path / "conversations" / identifier / "messages.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"needle", b"noodle")
    log.write_bytes(b"".join(lines))
    with open_store(path) as store:
        conversation = store.get(identifier)
        with pytest.raises(DamageError, match=f"{identifier}/messages.jsonl, line 3"):
            conversation.load()
        reading = conversation.read()
        assert list(reading.canisters) == expected[:2] + expected[3:]
        (damage,) = reading.damages
        assert (damage.line, damage.position) == (3, 2)
        assert list(conversation.load(3)) == expected[3:]
        conversation.append(user("still writable"))
        assert len(conversation) == len(expected) + 1
        (found,) = store.verify().damages
        assert found.line == 3


@pytest.mark.parametrize("how", ["removed", "repeated", "swapped", "joined", "split"])
def test_lines_that_moved_are_found(golden, tmp_path, how):
    _, truth, _ = golden
    path = copy_of(golden, tmp_path)
    identifier, expected = max(truth.items(), key=lambda item: len(item[1]))
    log = path / "conversations" / identifier / "messages.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    if how == "removed":
        del lines[1]
    elif how == "repeated":
        lines.insert(1, lines[1])
    elif how == "swapped":
        lines[1], lines[2] = lines[2], lines[1]
    elif how == "joined":
        lines[1] = lines[1].rstrip()
    else:
        lines[1] = lines[1][:20] + b"\n" + lines[1][20:]
    log.write_bytes(b"".join(lines))
    with open_store(path) as store:
        assert not store.verify().is_sound
        assert readable(store, truth)
        assert list(store.get(identifier).load(4)) == expected[4:]


@pytest.mark.parametrize("start", range(6))
def test_a_gap_is_reported_wherever_reading_begins_in_it(golden, tmp_path, start):
    _, truth, _ = golden
    path = copy_of(golden, tmp_path)
    identifier, expected = max(truth.items(), key=lambda item: len(item[1]))
    log = path / "conversations" / identifier / "messages.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:1] + lines[4:]))
    with open_store(path) as store:
        reading = store.get(identifier).read(start)
        assert list(reading.canisters) == [expected[at] for at in (0, 4, 5) if at >= start]
        assert bool(reading.damages) is (start < 4)


def test_missing_content_is_named_with_its_line(golden, tmp_path):
    path = copy_of(golden, tmp_path)
    for pack in path.glob("content/*.pack"):
        pack.unlink()
    with open_store(path) as store:
        report = store.verify()
        assert {damage.line for damage in report.damages} >= {1, 2, 4, 5}
        assert all("is missing" in damage.problem for damage in report.damages)


def test_a_store_of_a_later_version_is_refused(golden, tmp_path):
    path = copy_of(golden, tmp_path)
    (path / "cannery.json").write_bytes(seal(b'{"format":"cannery","version":3}', 0))
    with pytest.raises(StorageError, match="version 3"):
        open_store(path)


MARKERS = ["", "{}", "[]", "\xff", '{"format":"cannery","version":true}', '{"version":3}']


@pytest.mark.parametrize("marker", MARKERS)
def test_a_damaged_marker_is_mended_where_the_journal_shows_a_store(golden, tmp_path, marker):
    path = copy_of(golden, tmp_path)
    (path / "cannery.json").write_text(marker, "latin-1")
    with open_store(path) as store:
        assert [damage.where for damage in store.recovered] == ["cannery.json"]
        assert not readable(store, golden[1])
    with open_store(path) as store:
        assert not store.recovered


@pytest.mark.parametrize("marker", MARKERS)
def test_a_folder_with_another_marker_and_no_journal_is_no_store(golden, tmp_path, marker):
    path = copy_of(golden, tmp_path)
    (path / "cannery.json").write_text(marker, "latin-1")
    (path / "journal").unlink()
    with pytest.raises(DamageError, match=r"cannery\.json"):
        open_store(path)


def test_every_flipped_bit_of_the_marker_is_mended(golden, tmp_path):
    path = copy_of(golden, tmp_path)
    marker = path / "cannery.json"
    whole = marker.read_bytes()
    for place in range(8 * len(whole)):
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        marker.write_bytes(data)
        with open_store(path) as store:
            assert store.recovered
            assert len(store.list()) == len(golden[1])
        assert marker.read_bytes() == whole


def test_a_flipped_bit_in_metadata_costs_nothing(golden, tmp_path):
    """Neither the conversation, nor its forks, nor gc, but verify names it."""
    path = copy_of(golden, tmp_path)
    chance = random.Random(7)
    with open_store(path) as store:
        gone = store.create(canisters=[user("gone")])
        gone.delete()
    for file in sorted(path.glob("conversations/*/conversation.json")):
        for _ in range(40):
            flip(file, chance)
            with open_store(path) as store:
                assert not readable(store, golden[1])
                (damage,) = store.verify().damages
                assert (damage.is_lost, damage.where) == (False, str(file.relative_to(path)))
                assert store.collect_garbage(dry_run=True).conversations == (gone.identifier,)
            restore(file)
    with open_store(path) as store:
        assert store.verify().is_sound


def test_gc_says_what_it_keeps_because_metadata_is_damaged(golden, tmp_path):
    path = copy_of(golden, tmp_path)
    parent = max(golden[1], key=lambda one: len(golden[1][one]))
    (fork,) = (one.identifier for one in open_and_list(path) if one.parent)
    with open_store(path) as store:
        store.create(canisters=[user("gone")]).delete()
    for name, is_kept in ((fork, True), (parent, False)):
        file = path / "conversations" / name / "conversation.json"
        saved[file] = file.read_bytes()
        file.write_bytes(b"damaged")
        # An index that was made before the damage knows whose fork it is.
        with open_store(path) as store:
            found = store.collect_garbage(dry_run=True)
            assert found.conversations
            assert not found.damages
            store.rebuild_index()
            found = store.collect_garbage(dry_run=True)
            assert (not found.conversations) is is_kept
            assert [damage.where for damage in found.damages] == (
                [f"conversations/{name}/conversation.json"] if is_kept else []
            )
        restore(file)
        with open_store(path) as store:
            found = store.collect_garbage(dry_run=True)
            assert found.conversations
            assert not found.damages


def open_and_list(path):
    with open_store(path) as store:
        return store.list()


def test_files_are_private(golden):
    for item in [golden[0], *golden[0].rglob("*")]:
        expected = 0o700 if item.is_dir() else 0o600
        if item.suffix in {".sqlite-wal", ".sqlite-shm"}:
            continue
        assert stat.S_IMODE(item.stat().st_mode) == expected, item


def test_decompression_stops_at_the_declared_size():
    bomb = compression.compress(bytes(50_000_000))
    with pytest.raises(ValueError):
        compression.decompress(bomb, 1000)
    with pytest.raises(ValueError):
        compression.decompress(bomb + b"x", 50_000_000)
    with pytest.raises(ValueError):
        compression.decompress(b"rubbish", 7)
    assert len(compression.decompress(bomb, 50_000_000)) == 50_000_000


def test_links_in_the_place_of_files_are_not_followed(golden, tmp_path):
    path = copy_of(golden, tmp_path)
    identifier = next(iter(golden[1]))
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    log = path / "conversations" / identifier / "messages.jsonl"
    log.unlink()
    log.symlink_to(outside)
    with open_store(path) as store, pytest.raises(StorageError):
        store.get(identifier).append(user("x"))
    assert outside.read_bytes() == b"precious"


def test_content_ids_cover_bytes(golden):
    path, truth, _ = golden
    with open_store(path) as store:
        for expected in truth.values():
            for canister in expected:
                text = canister.text
                if len(text) >= 1024:
                    assert store.backend.contents("").has([hashlib.sha256(text.encode()).digest()])


def sqlite_store(folder):
    with open_store(f"sqlite:{folder}/store.db") as store:
        said = [user("needle one"), assistant("answer"), invocation("call", "f"), supervisor("Do.")]
        store.create("one", tags=("tagged",), canisters=said)
        store.within("somebody").create("two", canisters=[user("needle two")])
    return folder / "store.db"


def first_in(file):
    """The conversation that was made first; ids of one millisecond are in no order."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT id FROM stored ORDER BY number").fetchone()[0]


@pytest.mark.parametrize("index", ["by_scope", "by_tag", "by_chain", "by_own"])
def test_verify_names_a_damaged_index_of_a_file(tmp_path, index):
    """What an index does not hold any more is not found, so that no answer shows that it is damaged."""
    file = sqlite_store(tmp_path)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (page,) = connection.execute(query, (index,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(file.read_bytes())
    # The last byte of a page is of its first entry.
    data[page * size - 3] ^= 1
    file.write_bytes(data)
    with open_store(f"sqlite:{file}") as store:
        assert any(index in damage.problem for damage in store.verify().damages)
        assert len(list(store.backend.identifiers())) == 2
        store.rebuild_index()
        assert store.verify().is_sound
        assert len(store.search("needle")) == 2


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE prefixes SET calls = calls + 1 WHERE number = 1",
        "UPDATE conversations SET roles = roles + 1 WHERE number = 1",
        "UPDATE roles SET position = position + 1 WHERE number = 1 AND role = 'assistant'",
        "UPDATE roles SET role = 'result' WHERE number = 1 AND role = 'assistant'",
        "DELETE FROM roles WHERE number = 1",
        "UPDATE places SET role = 'result' WHERE number = 1",
        "UPDATE places SET said = '2027-01-01T00:00:00Z' WHERE number = 1",
        "DELETE FROM places WHERE number = 1",
        "DELETE FROM prefixes WHERE number = 1 AND position = 2",
        "DELETE FROM tags WHERE number = 1",
        "DELETE FROM calls WHERE number = 1",
        "INSERT INTO calls VALUES (1, 'none', 1, 7, 1)",
        "DELETE FROM uses WHERE number = 1",
        "DELETE FROM conversations WHERE number = 1",
    ],
)
def test_verify_names_a_damaged_row_of_a_file(tmp_path, change):
    file = sqlite_store(tmp_path)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(change)
        connection.commit()
    with open_store(f"sqlite:{file}") as store:
        identifier = first_in(file)
        where = {damage.where for damage in store.verify().damages}
        assert f"conversations/{identifier}" in where
        store.rebuild_index()
        assert store.verify().is_sound


@pytest.mark.parametrize("word", ["needle", "answer"])
def test_verify_names_a_changed_word_in_the_index_of_a_file(tmp_path, word):
    """A message is not found by it any more, and SQLite checks the structure of the index only."""
    file = sqlite_store(tmp_path)
    changed = 0
    with contextlib.closing(sqlite3.connect(file)) as connection:
        for place, block in connection.execute("SELECT id, block FROM texts_data").fetchall():
            if word.encode() in block:
                changed += 1
                new = block.replace(word.encode(), b"z" * len(word))
                connection.execute("UPDATE texts_data SET block = ? WHERE id = ?", (new, place))
        connection.commit()
    assert changed
    with open_store(f"sqlite:{file}") as store:
        assert store.search(word) == ()
        (damage,) = store.verify().damages
        assert "index of words" in damage.problem
        store.rebuild_index()
        assert store.verify().is_sound
        assert len(store.search(word)) == changed


DERIVED = ["conversations", "prefixes", "calls", "roles", "places", "tags", "texts"]
INDEXES = ["by_change", "users", "by_chain", "places_of"]
TRUTH = ["lines", "contents", "pieces", "uses", "keys", "facts"]


@pytest.mark.parametrize("name", DERIVED + INDEXES + TRUTH)
def test_verify_names_a_missing_table_of_a_file(tmp_path, name):
    file = sqlite_store(tmp_path)
    kind = "INDEX" if name in INDEXES else "TABLE"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(f"DROP {kind} {name}")
        connection.commit()
    with open_store(f"sqlite:{file}") as store:
        assert any(repr(name) in damage.problem for damage in store.verify().damages)
        if name not in TRUTH:
            store.rebuild_index()
            assert store.verify().is_sound
            assert len(store.search("needle")) == 2
            store.create(canisters=[user("more")])


def test_a_file_without_conversations_is_refused_with_the_name_of_the_table(tmp_path):
    file = sqlite_store(tmp_path)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE stored")
        connection.commit()
    with pytest.raises(DamageError, match="no such table: stored"):
        open_store(f"sqlite:{file}")


def test_trees_are_whole_after_all_tables_of_the_catalogue_were_made_again(tmp_path):
    with open_store(f"sqlite:{tmp_path}/store.db") as store:
        side, main = (store.create(canisters=[user(word)]) for word in ("side", "main"))
        fork = side.fork(1)
        store.change_metadata(side.identifier, parent=main.identifier)
        before = store.tree(side.identifier)
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("DROP TABLE roles")
    with open_store(f"sqlite:{tmp_path}/store.db") as store:
        store.rebuild_index()
        for one in (side, main, fork):
            assert store.tree(one.identifier).draw() == before.draw()
        assert store.verify().is_sound


@pytest.mark.parametrize("value", ["NULL", "'text'", "7", "1.5", "x'00ff'"])
@pytest.mark.parametrize(
    "column",
    [
        *("stored.metadata", "stored.stop", "lines.line", "contents.size", "pieces.size"),
        *("pieces.data", "pieces.seal", "pieces.is_zstd", "exchanges.record"),
    ],
)
def test_a_value_of_another_type_is_damage_and_no_foreign_error(tmp_path, column, value):
    """A few flipped bits in the head of a row change the types of its values."""
    file = sqlite_store(tmp_path)
    table, name = column.split(".")
    with open_store(f"sqlite:{file}") as store:
        known = first_in(file)
        store.get(known).append(user("x" * 5000))
        store.backend.exchanges.append([Note(known, "2026-01-01T00:00:00Z", "r", b'{"a":1}')])
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE type = 'table'"
        )
        connection.commit()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(f"UPDATE {table} SET {name} = {value}")  # noqa: S608 - names are ours
        connection.commit()
    with open_store(f"sqlite:{file}") as store:
        assert store.verify().damages
        for read in (store.get, store.exchanges, lambda one: store.get(one).hydrate()):
            with contextlib.suppress(CanneryError):
                read(known)
        store.search("needle")
        with contextlib.suppress(CanneryError):
            store.collect_garbage()
            store.rebuild_index()


@pytest.mark.parametrize("stop", [0, 1, 3, 6])
def test_a_damaged_end_of_a_conversation_hides_no_line(tmp_path, stop):
    file = sqlite_store(tmp_path)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(f"UPDATE stored SET stop = {stop} WHERE number = 1")  # noqa: S608 - a number
        connection.commit()
    with open_store(f"sqlite:{file}") as store:
        known = store.get(first_in(file))
        assert len(known.read().canisters) == 4
        assert not store.verify().is_sound
        if stop < 4:
            store.rebuild_index()
            assert store.verify().is_sound
            known.append(user("more"))
            assert len(known.load()) == 5


def test_damaged_metadata_is_no_damage_to_the_index_of_words(tmp_path):
    file = sqlite_store(tmp_path)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE stored SET metadata = x'00' WHERE number = 1")
        connection.commit()
    with open_store(f"sqlite:{file}") as store:
        damages = store.verify().damages
    assert damages
    assert all(first_in(file) in damage.where for damage in damages)

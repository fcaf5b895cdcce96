"""The log of exchanges in every backend: what is noted is found again, whatever became of the conversation."""

import json
import multiprocessing

import pytest

from cannery.backends import Note
from cannery.errors import StoreUnavailableError
from tests.backends.test_conformance import LOCATIONS, deleted, made, open_backend


@pytest.fixture(params=sorted(LOCATIONS))
def location(request, tmp_path):
    return LOCATIONS[request.param](tmp_path)


def note(number, conversation="c", reply=""):
    time = f"2026-11-{number % 28 + 1:02}T00:00:00.000Z"
    record = {"time": time, "conversation": conversation, "reply": reply, "number": number}
    return Note(conversation, time, reply, json.dumps(record).encode())


def numbers(records):
    return [json.loads(record)["number"] for record in records]


def test_notes_are_found_by_conversation_time_and_reply(location):
    backend = open_backend(location)
    log = backend.exchanges
    assert log.of(["c"]) == []
    assert list(log.since()) == []
    assert log.replied("resp_1") is None
    log.append([note(1), note(2, "d", "resp_1"), note(3)])
    log.append([note(4, "d", "resp_1"), note(5, "e")])
    assert numbers(log.of(["c"])) == [1, 3]
    assert numbers(log.of(["d", "c", "d"])) == [1, 2, 3, 4]
    assert log.of([]) == log.of(["x"]) == []
    assert numbers(log.since("2026-11-04")) == [3, 4, 5]
    assert numbers([log.replied("resp_1")]) == [4]
    assert log.replied("") is None
    backend.close()
    again = open_backend(location)
    assert numbers(again.exchanges.since()) == [1, 2, 3, 4, 5]
    assert numbers(again.exchanges.of(["e"])) == [5]
    again.close()


def test_what_a_deleted_conversation_cost_stays(location):
    backend = open_backend(location)
    made(backend, lines=[b"a"])
    backend.exchanges.append([note(1)])
    deleted(backend)
    backend.collect(grace=0)
    backend.purge()
    assert numbers(backend.exchanges.of(["c"])) == [1]
    backend.close()


def test_many_notes_are_read_in_pages(location):
    backend = open_backend(location)
    for start in range(0, 2500, 500):
        backend.exchanges.append([note(at) for at in range(start, start + 500)])
    assert numbers(backend.exchanges.since()) == list(range(2500))
    assert numbers(backend.exchanges.of(["c"])) == list(range(2500))
    backend.close()


def _append(location, start):
    backend = open_backend(location)
    for number in range(start, start + 50):
        backend.exchanges.append([note(number)])
    backend.close()


def test_processes_that_note_at_once_lose_nothing(location):
    open_backend(location).close()
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append, args=(location, at)) for at in (0, 100, 200)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    backend = open_backend(location)
    found = numbers(backend.exchanges.of(["c"]))
    assert sorted(found) == [*range(50), *range(100, 150), *range(200, 250)]
    assert [number for number in found if number < 50] == list(range(50))
    backend.close()


# --- the directory's file ----------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path):
    backend = open_backend(str(tmp_path / "store"))
    yield backend
    backend.close()


def path_of(tmp_path):
    return tmp_path / "store" / "gateway" / "exchanges.jsonl"


def test_a_torn_line_takes_no_other_with_it(directory, tmp_path):
    directory.exchanges.append([note(1), note(2)])
    path = path_of(tmp_path)
    whole = path.read_bytes()
    for cut in range(1, len(whole)):
        path.write_bytes(whole[:cut])
        kept = whole[:cut].count(b"\n")
        assert len(directory.exchanges.of(["c"])) >= kept
        directory.exchanges.append([note(3)])
        assert numbers(directory.exchanges.of(["c"]))[-1] == 3
        assert numbers(directory.exchanges.since())[-1] == 3


def test_the_index_of_another_file_is_not_used(directory, tmp_path):
    directory.exchanges.append([note(1), note(2, "d")])
    assert numbers(directory.exchanges.of(["d"])) == [2]
    path = path_of(tmp_path)
    path.unlink()
    assert directory.exchanges.of(["d"]) == []
    directory.exchanges.append([note(3, "d")])
    assert numbers(directory.exchanges.of(["d"])) == [3]


def test_files_of_earlier_versions_are_read_first(directory, tmp_path):
    directory.exchanges.append([note(3)])
    older = path_of(tmp_path).with_name("exchanges.old.jsonl")
    older.write_bytes(note(1).record + b"\n" + b"not JSON\n" + note(2).record + b"\n")
    assert numbers(directory.exchanges.of(["c"])) == [1, 2, 3]
    assert numbers(directory.exchanges.since()) == [1, 2, 3]


def test_a_full_disk_leaves_no_half_note(directory, tmp_path, monkeypatch):
    directory.exchanges.append([note(1)])
    files = directory.exchanges._files
    write = files.write

    def refuse(fd, data, offset):
        write(fd, data[:20], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write", refuse)
    with pytest.raises(StoreUnavailableError, match="No space left"):
        directory.exchanges.append([note(2)])
    monkeypatch.undo()
    assert path_of(tmp_path).read_bytes() == note(1).record + b"\n"
    directory.exchanges.append([note(3)])
    assert numbers(directory.exchanges.of(["c"])) == [1, 3]


def test_a_copy_of_the_store_has_its_costs(directory, tmp_path):
    made(directory, lines=[b"a"])
    directory.exchanges.append([note(1)])
    directory.backup(str(tmp_path / "copy"))
    copy = open_backend(str(tmp_path / "copy"))
    assert numbers(copy.exchanges.of(["c"])) == [1]
    copy.close()


def test_a_sqlite_file_of_earlier_versions_gets_its_table(tmp_path):
    import sqlite3

    location = f"sqlite:{tmp_path}/store.sqlite"
    open_backend(location).close()
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        connection.execute("DROP TABLE exchanges")
    connection.close()
    backend = open_backend(location)
    backend.exchanges.append([note(1)])
    assert numbers(backend.exchanges.of(["c"])) == [1]
    backend.close()

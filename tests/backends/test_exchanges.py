"""The log of exchanges in every backend: what is noted is found again, whatever became of the conversation."""

import json
import multiprocessing
import threading

import pytest

from cannery.backends import Note
from cannery.backends._seals import seal
from cannery.errors import StoreUnavailableError
from tests.backends.test_conformance import LOCATIONS, deleted, made, open_backend


@pytest.fixture(params=sorted(LOCATIONS))
def location(request, tmp_path):
    return LOCATIONS[request.param](tmp_path)


def note(number, conversation="c", reply=""):
    time = f"2026-11-{number % 28 + 1:02}T00:00:00.000Z"
    record = {"time": time, "conversation": conversation, "reply": reply, "number": number}
    return Note(conversation, time, reply, json.dumps(record).encode())


def all_of(log):
    """Every record, page by page."""
    found, cursor = [], None
    while (page := log.page(cursor)).records:
        assert page.is_first == (cursor is None)
        found += page.records
        cursor = page.cursor
    return found


def numbers(records):
    return [json.loads(record)["number"] for record in records]


def test_notes_are_found_by_conversation_time_and_reply(location):
    backend = open_backend(location)
    log = backend.exchanges
    assert log.of(["c"]) == []
    assert log.page().records == []
    assert log.replied("resp_1") is None
    log.append([note(1), note(2, "d", "resp_1"), note(3)])
    log.append([note(4, "d", "resp_1"), note(5, "e")])
    assert numbers(log.of(["c"])) == [1, 3]
    assert numbers(log.of(["d", "c", "d"])) == [1, 2, 3, 4]
    assert log.of([]) == log.of(["x"]) == []
    assert numbers([log.replied("resp_1")]) == [4]
    assert log.replied("") is None
    backend.close()
    again = open_backend(location)
    assert numbers(all_of(again.exchanges)) == [1, 2, 3, 4, 5]
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
    assert numbers(all_of(backend.exchanges)) == list(range(2500))
    assert numbers(backend.exchanges.of(["c"])) == list(range(2500))
    backend.close()


def test_who_follows_the_log_reads_each_note_once(location):
    one, other = open_backend(location), open_backend(location)
    cursor = one.exchanges.page().cursor
    found = []
    for number in range(20):
        (other if number % 2 else one).exchanges.append([note(number)])
        if number % 3 == 0:
            page = one.exchanges.page(cursor)
            assert not page.is_first or number == 0
            found += numbers(page.records)
            cursor = page.cursor
    assert found == list(range(19))
    assert one.exchanges.page(one.exchanges.page(cursor).cursor).records == []
    one.close()
    other.close()


def test_a_cursor_of_a_longer_log_begins_anew(location, tmp_path):
    one, other = open_backend(location), open_backend(str(tmp_path / "other"))
    one.exchanges.append([note(number) for number in range(3)])
    cursor = one.exchanges.page().cursor
    for strange in ("", "x", other.exchanges.page().cursor, "1:1:1", "99", "0:7:-1"):
        page = one.exchanges.page(strange)
        assert numbers(page.records) == [0, 1, 2], strange
    assert one.exchanges.page(cursor).records == []
    one.close()
    other.close()


def test_who_follows_beside_writers_misses_no_note(location):
    """Numbers that a server gives out may become visible in another order."""
    open_backend(location).close()

    def write(start):
        backend = open_backend(location)
        for number in range(start, start + 40):
            backend.exchanges.append([note(number)])
        backend.close()

    writers = [threading.Thread(target=write, args=(at,)) for at in (0, 100, 200)]
    reader = open_backend(location)
    found, cursor = [], None
    for writer in writers:
        writer.start()
    is_over = False
    while not is_over:
        is_over = not any(writer.is_alive() for writer in writers)
        page = reader.exchanges.page(cursor)
        found += numbers(page.records)
        cursor = page.cursor
    assert sorted(found) == [*range(40), *range(100, 140), *range(200, 240)]
    reader.close()


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
        assert numbers(filter(None, all_of(directory.exchanges)))[-1] == 3


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
    assert numbers(filter(None, all_of(directory.exchanges))) == [1, 2, 3]
    assert all_of(directory.exchanges)[1] is None


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
    assert path_of(tmp_path).read_bytes() == seal(note(1).record, 0)
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

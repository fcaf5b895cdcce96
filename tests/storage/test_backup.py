"""A backup of a store in use is a store as it was at one moment, and restoring gives it back."""

import shutil
import threading
import time

import pytest

from cannery.errors import CanneryError, ConfigurationError, InputError, StorageError
from cannery.messages import assistant, user
from cannery.storage import open_store, restore

LONG = "a long text "


@pytest.fixture(params=["directory", "sqlite"])
def places(request, tmp_path):
    """A store, where its backup goes, and where that is restored."""
    names = ("store", "backup", "restored")
    if request.param == "directory":
        return [str(tmp_path / name) for name in names]
    store, backup, restored = (tmp_path / f"{name}.db" for name in names)
    return f"sqlite:{store}", str(backup), f"sqlite:{restored}"


def everything(location):
    with open_store(location) as store:
        return {
            one.identifier: (one.title, list(store.get(one.identifier).hydrate()))
            for one in store.list()
        }


def test_a_backup_is_restored_whole(places):
    place, backup, restored = places
    with open_store(place) as store:
        first = store.create("first", canisters=[user("hi"), assistant(LONG * 300)])
        first.fork(1).append(user("otherwise"))
        store.create("scoped", canisters=[user("x")])
        store.create("gone", canisters=[user("y")]).delete()
        made = store.backup(backup)
        assert made.copied_bytes > 1000
    report = restore(backup, restored)
    assert report.is_sound
    assert report.conversations == made.conversations == 4
    assert everything(restored) == everything(place)


def test_a_backup_is_not_written_to_when_it_is_restored(tmp_path):
    with open_store(tmp_path / "store") as store:
        store.create(canisters=[user("hi")])
        store.backup(tmp_path / "backup")
    before = {item: item.stat().st_mtime_ns for item in (tmp_path / "backup").rglob("*")}
    assert restore(tmp_path / "backup", tmp_path / "restored").is_sound
    assert {item: item.stat().st_mtime_ns for item in (tmp_path / "backup").rglob("*")} == before


def test_a_place_where_something_is_is_refused(places):
    place, backup, restored = places
    with open_store(place) as store:
        store.create(canisters=[user("hi")])
        store.backup(backup)
        with pytest.raises(StorageError):
            store.backup(backup)
    restore(backup, restored)
    with pytest.raises(StorageError):
        restore(backup, restored)


def test_what_is_no_backup_is_refused(tmp_path):
    with pytest.raises(CanneryError):
        restore(tmp_path / "nothing", tmp_path / "restored")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="not a Cannery store"):
        restore(tmp_path / "folder", tmp_path / "restored")
    with open_store(tmp_path / "store") as store:
        store.backup(tmp_path / "backup")
    with pytest.raises(ConfigurationError):
        restore(tmp_path / "backup", f"sqlite:{tmp_path / 'restored'}")
    with open_store(tmp_path / "store", scope="a") as store, pytest.raises(InputError):
        store.backup(tmp_path / "other")


def test_a_backup_that_was_interrupted_is_no_store(tmp_path, monkeypatch):
    from cannery.backends.directory.backup import Copier

    def die(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Copier, "_finish", die)
    with open_store(tmp_path / "store") as store:
        store.create(canisters=[user("hi")])
        with pytest.raises(KeyboardInterrupt):
            store.backup(tmp_path / "backup")
        store.create(canisters=[user("goes on")])
    with pytest.raises(StorageError, match="not a Cannery store"):
        open_store(tmp_path / "backup")


def test_damage_to_a_backup_is_found_when_it_is_restored(tmp_path):
    with open_store(tmp_path / "store") as store:
        names = [store.create(canisters=[user("a"), user("b")]).identifier for _ in range(3)]
        store.backup(tmp_path / "backup")
    shutil.rmtree(tmp_path / "backup" / "conversations" / names[0])
    log = tmp_path / "backup" / "conversations" / names[1] / "messages.jsonl"
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    report = restore(tmp_path / "backup", tmp_path / "restored")
    assert {damage.where.split("/")[1] for damage in report.damages if damage.is_lost} == {
        names[0],
        names[1],
    }


def test_backups_under_load_are_whole(places, tmp_path):
    """Writers append pairs in one change each, deduplicate content, fork, rename and delete, and gc runs."""
    place, backup, restored = places
    said = {}
    is_over = threading.Event()

    def write(writer):
        number = 0
        with open_store(place) as store:
            while not is_over.is_set():
                number += 1
                time.sleep(0.02)
                text = f"{LONG}{number % 7} " * 200
                conversation = store.create(
                    f"{writer} {number}", canisters=[user(text), user(text)]
                )
                for turn in range(3):
                    conversation.append(user(f"{turn}"), assistant(f"{turn} {text}"))
                conversation.rename(f"{writer} {number} renamed")
                if number % 3 == 0:
                    conversation.fork(2).append(user("fork"), user("fork"))
                if number % 5 == 0:
                    conversation.delete()
                else:
                    said[conversation.identifier] = time.monotonic()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    try:
        with open_store(place) as store:
            for number in range(3):
                time.sleep(0.3)
                begun = time.monotonic()
                store.backup(f"{backup}-{number}")
                target = restored.replace("restored", f"restored-{number}")
                report = restore(f"{backup}-{number}", target)
                assert report.is_sound, report.damages[:3]
                check_whole(target, {name for name, when in list(said.items()) if when < begun})
                store.collect_garbage()
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert everything(place)


def check_whole(target, acknowledged):
    with open_store(target) as store:
        listed = store.list()
        # What was acknowledged before the backup began is in it.
        assert {one.identifier for one in listed} >= acknowledged
        for one in listed:
            # Every change has two messages.
            assert one.count % 2 == 0
            store.get(one.identifier).hydrate()

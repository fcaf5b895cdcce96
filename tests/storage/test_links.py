"""A store never leaves its folder: links in it are not followed, and what is not in its layout is left alone."""

import os
import shutil

import pytest

from cannery.errors import StorageError
from cannery.messages import assistant, user
from cannery.storage import open_store

LONG = "a long text " * 200


@pytest.fixture
def outside(tmp_path):
    """Files of the user, beside the store."""
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "letter").write_bytes(b"precious")
    (folder / "messages.jsonl").write_bytes(b"precious")
    (folder / "conversation.json").write_bytes(b"precious")
    return folder


@pytest.fixture
def filled(path):
    """A closed store with two conversations, of which one is deleted."""
    with open_store(path) as store:
        living = store.create("living", canisters=[user("kept"), assistant(LONG)])
        store.create("gone", canisters=[user("words " * 300)]).delete()
    return path, living.identifier


def is_untouched(folder):
    names = {"letter", "messages.jsonl", "conversation.json"}
    found = {item.name: item.read_bytes() for item in folder.iterdir()}
    return found == dict.fromkeys(names, b"precious")


@pytest.mark.parametrize("name", ["x", "abc-01234567"])
def test_a_link_in_the_trash_is_not_followed(filled, outside, name):
    path, _ = filled
    (path / "trash" / name).symlink_to(outside)
    with open_store(path) as store:
        store.collect_garbage()
    assert is_untouched(outside)


def test_files_of_the_user_in_the_trash_stay(filled, outside):
    path, _ = filled
    mine = path / "trash" / "abc-01234567"
    mine.mkdir()
    (mine / "letter").write_bytes(b"precious")
    (mine / "messages.jsonl").symlink_to(outside / "letter")
    (path / "trash" / "note").write_bytes(b"precious")
    with open_store(path) as store:
        store.collect_garbage()
    assert (mine / "letter").read_bytes() == b"precious"
    assert (path / "trash" / "note").read_bytes() == b"precious"
    assert is_untouched(outside)


def test_what_gc_has_taken_out_goes_when_a_store_is_opened(filled):
    path, identifier = filled
    shutil.copytree(path / "conversations" / identifier, path / "trash" / f"{identifier}-01234567")
    with open_store(path):
        assert list((path / "trash").iterdir()) == []


def test_a_conversation_that_is_a_link_is_neither_read_nor_written(filled, outside, tmp_path):
    path, identifier = filled
    elsewhere = tmp_path / "elsewhere"
    shutil.move(path / "conversations" / identifier, elsewhere)
    before = {item.name: item.read_bytes() for item in elsewhere.iterdir()}
    (path / "conversations" / identifier).symlink_to(elsewhere)
    (path / "conversations" / "letters").symlink_to(outside)
    with open_store(path) as store:
        for name in (identifier, "letters"):
            with pytest.raises(StorageError, match="link"):
                store.get(name)
            with pytest.raises(StorageError, match="link"):
                store.handle(name).append(user("more"))
            with pytest.raises(StorageError):
                store.create(identifier=name, canisters=[user("new")])
        assert store.list() == ()
        store.collect_garbage()
        wrong = [damage for damage in store.verify().damages if "link" in damage.problem]
        assert {damage.where for damage in wrong} == {
            f"conversations/{identifier}",
            "conversations/letters",
        }
        (path / "conversations" / identifier).unlink()
        shutil.move(elsewhere, path / "conversations" / identifier)
        assert [one.text for one in store.get(identifier).hydrate()] == ["kept", LONG]
    assert before.keys() == {"messages.jsonl", "conversation.json"}
    assert is_untouched(outside)


@pytest.mark.parametrize("folder", ["conversations", "content", "changes", "locks", "trash"])
def test_a_folder_of_the_store_that_is_a_link_is_refused(filled, tmp_path, folder):
    path, _ = filled
    elsewhere = tmp_path / "elsewhere"
    shutil.move(path / folder, elsewhere)
    before = {item: item.stat().st_mtime_ns for item in elsewhere.rglob("*")}
    (path / folder).symlink_to(elsewhere)
    with pytest.raises(StorageError, match=f"link.*{folder}"):
        open_store(path)
    assert {item: item.stat().st_mtime_ns for item in elsewhere.rglob("*")} == before


@pytest.mark.parametrize(
    "name", ["cannery.json", "journal", "journal.state", "locks/live", "index.sqlite"]
)
def test_a_file_of_the_store_that_is_a_link_is_refused(filled, outside, name):
    path, _ = filled
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(outside / "letter")
    mode = (outside / "letter").stat().st_mode
    with pytest.raises(StorageError, match="link"), open_store(path) as store:
        store.list()
    assert is_untouched(outside)
    assert (outside / "letter").stat().st_mode == mode


def test_a_pack_that_is_a_link_is_refused_with_an_error_of_ours(filled, outside):
    path, identifier = filled
    (pack,) = (path / "content").glob("*.pack")
    pack.unlink()
    pack.symlink_to(outside / "letter")
    with open_store(path) as store:
        for act in (
            lambda: store.get(identifier).hydrate(),
            lambda: store.create(canisters=[user(LONG)]),
            lambda: store.backend.contents("").has([bytes(32)]),
            store.verify,
            store.collect_garbage,
        ):
            with pytest.raises(StorageError, match="link"):
                act()
    assert is_untouched(outside)


def test_the_path_of_a_store_may_be_a_link(filled, tmp_path):
    path, identifier = filled
    (tmp_path / "shortcut").symlink_to(path)
    with open_store(tmp_path / "shortcut") as store:
        store.get(identifier).append(user("more"))
        assert store.verify().is_sound


def test_a_pipe_in_the_place_of_a_file_does_not_stop_the_world(filled):
    path, identifier = filled
    log = path / "conversations" / identifier / "messages.jsonl"
    log.unlink()
    os.mkfifo(log)
    with open_store(path) as store, pytest.raises(StorageError):
        store.get(identifier).load()


def test_an_index_that_another_process_closes_meanwhile_keeps_nobody_out(tmp_path, monkeypatch):
    """The log of the index was listed, and gone when it was looked at."""
    from cannery.backends.directory.files import OperatingSystem

    open_store(tmp_path / "store").close()
    listed = OperatingSystem.names
    monkeypatch.setattr(
        OperatingSystem,
        "names",
        lambda self, path: [*listed(self, path), *(() if path else ("index.sqlite-wal",))],
    )
    open_store(tmp_path / "store").close()


@pytest.mark.parametrize("name", ["index.sqlite", "index.sqlite-wal", "index.sqlite-journal"])
def test_a_pipe_in_the_place_of_the_index_is_refused(filled, name):
    path, _ = filled
    (path / name).unlink(missing_ok=True)
    os.mkfifo(path / name)
    with pytest.raises(StorageError, match=f"another kind of file.*{name}"):
        open_store(path)


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_a_pipe_where_sqlite_has_its_files_is_refused(tmp_path, suffix):
    location = f"sqlite:{tmp_path}/store.db"
    open_store(location).close()
    file = tmp_path / f"store.db{suffix}"
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    with pytest.raises(StorageError, match=f"store.db{suffix} is not a file"):
        open_store(location)


@pytest.mark.parametrize("name", ["gateway", "gateway/exchanges.jsonl"])
def test_verify_names_what_is_no_log_of_exchanges(filled, name):
    path, _ = filled
    (path / "gateway").mkdir(exist_ok=True)
    shutil.rmtree(path / "gateway")
    (path / name).parent.mkdir(exist_ok=True)
    if name == "gateway":
        os.mkfifo(path / name)
    else:
        (path / name).mkdir()
    with open_store(path) as store:
        assert [damage.where for damage in store.verify().damages] == ["exchanges"]

"""Where a store may be made: never over files of the user."""

import pytest

from cannery.errors import ConfigurationError, StorageError, StoreUnavailableError
from cannery.messages import user
from cannery.storage import open_store


def snapshot(folder):
    return {item: item.is_file() and item.read_bytes() for item in folder.rglob("*")}


@pytest.mark.parametrize("scheme", ["", "sqlite:"])
@pytest.mark.parametrize("name", ["a" * 300, "a\0b", "nothing/is/here\0"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path, scheme, name):
    with pytest.raises((ConfigurationError, StoreUnavailableError)):
        open_store(f"{scheme}{tmp_path}/{name}")


@pytest.mark.parametrize("url", ["s3://bucket/prefix", "sqlite+aiosqlite:///x.db"])
def test_a_url_of_something_else_is_no_path(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="no backend"):
        open_store(url)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        "journal",
        "journal.state",
        "notes.txt",
        "content/00000001.pack",
        "content/00000007.pack.new",
        "changes/00000001.log",
        "trash/abc-01234567/messages.jsonl",
        "conversations/abc/messages.jsonl",
        "locks/live",
        "index.sqlite",
        ".hidden",
    ],
)
def test_a_folder_with_files_of_the_user_is_refused_and_untouched(path, name):
    (path / name).parent.mkdir(parents=True)
    (path / name).write_bytes(b"precious")
    before = snapshot(path)
    found = name.partition("/")[0]
    with pytest.raises(StorageError, match=f"not a Cannery store.*not empty.*'{found}'"):
        open_store(path)
    assert snapshot(path) == before


def test_the_error_does_not_list_a_thousand_files(path):
    path.mkdir()
    for number in range(1000):
        (path / f"photo-{number:04}").touch()
    with pytest.raises(StorageError, match=r"'photo-0000'.*and 995 more"):
        open_store(path)


@pytest.mark.parametrize(
    "leftovers",
    [
        (),
        ("lost+found/",),
        ("locks/", "locks/live"),
        ("locks/live", "cannery.json.new"),
        ("conversations/", "content/", "changes/", "locks/live", "trash/"),
    ],
)
def test_an_empty_folder_and_one_that_was_begun_become_a_store(path, leftovers):
    path.mkdir()
    for name in leftovers:
        (path / name).parent.mkdir(exist_ok=True)
        if name.endswith("/"):
            (path / name).mkdir(exist_ok=True)
        else:
            (path / name).touch()
    with open_store(path) as store:
        identifier = store.create(canisters=[user("hi")]).identifier
    with open_store(path) as store:
        assert store.get(identifier).load()[0].text == "hi"


def test_a_store_without_its_marker_is_still_a_store(path):
    with open_store(path) as store:
        identifier = store.create(canisters=[user("hi")]).identifier
    (path / "cannery.json").unlink()
    with open_store(path) as store:
        assert store.get(identifier).load()[0].text == "hi"
    assert (path / "cannery.json").exists()


def test_other_files_in_the_folder_of_a_store_are_left_alone(path):
    with open_store(path) as store:
        store.create(canisters=[user("x" * 3000)]).delete()
    others = ["README", "content/README", "content/a.pack.new", "changes/a.log", "trash/a/b"]
    for name in others:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(b"precious")
    with open_store(path) as store:
        store.collect_garbage()
        assert store.verify().is_sound
    assert all((path / name).read_bytes() == b"precious" for name in others)


@pytest.mark.parametrize("name", ["file", "file/below", "file/below/store"])
def test_a_path_that_is_a_file_is_refused_with_an_error_of_ours(tmp_path, name):
    (tmp_path / "file").write_bytes(b"precious")
    with pytest.raises(StoreUnavailableError, match=r"file.*[Nn]ot a directory"):
        open_store(tmp_path / name)
    assert (tmp_path / "file").read_bytes() == b"precious"

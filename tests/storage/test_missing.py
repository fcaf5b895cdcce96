"""What is missing is found, and what is derived can be taken away without changing an answer."""

import random
import shutil

import pytest

from cannery.backends.directory import changes, registry
from cannery.messages import assistant, user
from cannery.storage import open_store

COUNT = 30


def history(number):
    return [user(f"question {number}"), assistant(f"answer {number} needle")]


@pytest.fixture
def filled(path):
    """A closed store of some conversations, with a used index."""
    with open_store(path) as store:
        for number in range(COUNT):
            store.file(history(number), title=f"t{number}")
        assert len(store.list()) == len(store.search("needle", limit=100)) == COUNT
    return path


def answers(store, numbers=range(COUNT)):
    """Listing, search and recognition of what was filed."""
    listed = {one.title: one.count for one in store.list()}
    found = {(hit.title, hit.position) for hit in store.search("needle", limit=1000)}
    known = [store.file(history(number)).added for number in numbers]
    return listed, found, known


def expected(numbers=range(COUNT)):
    return (
        {f"t{one}": 2 for one in numbers},
        {(f"t{one}", 1) for one in numbers},
        [0 for _ in numbers],
    )


def remove(path, names):
    for name in names:
        for item in path.glob(name):
            shutil.rmtree(item) if item.is_dir() else item.unlink()


@pytest.mark.parametrize(
    "names",
    [
        ["changes"],
        ["changes", "index.sqlite*"],
        ["changes/*"],
        ["index.sqlite*"],
        ["content/*.idx", "registry", "locks", "trash", "journal.state"],
        ["changes", "index.sqlite*", "content/*.idx", "registry", "locks", "trash", "journal*"],
    ],
)
def test_deleting_what_is_derived_changes_no_answer(filled, names):
    remove(filled, names)
    with open_store(filled) as store:
        assert answers(store) == expected()
        store.file(history(COUNT), title=f"t{COUNT}")
        assert answers(store, range(COUNT + 1)) == expected(range(COUNT + 1))
        assert store.verify().is_sound
    with open_store(filled) as store:
        assert answers(store, range(COUNT + 1)) == expected(range(COUNT + 1))


def test_changes_that_are_removed_while_the_store_is_used(filled):
    with open_store(filled) as store:
        for number in range(COUNT, COUNT + 20):
            shutil.rmtree(filled / "changes")
            store.file(history(number), title=f"t{number}")
            store.create(f"t{number} again", canisters=[user("other")])
            if number % 3 == 0:
                assert len(store.list()) == COUNT + 2 * (number - COUNT + 1)
        listed, found, _ = expected(range(COUNT + 20))
        again = {f"t{number} again": 1 for number in range(COUNT, COUNT + 20)}
        assert answers(store, range(COUNT + 20))[:2] == (listed | again, found)


@pytest.mark.parametrize("grown", [0, 1, 10, 200])
def test_a_restored_store_beside_a_newer_index(filled, tmp_path, grown):
    """The truth of yesterday, the index of today, and as many changes since as the index has seen, or not."""
    shutil.copytree(filled, tmp_path / "yesterday")
    with open_store(filled) as store:
        for number in range(COUNT, COUNT + 10):
            store.file(history(number), title=f"t{number}")
        first = store.list()[-1]
        store.get(first.identifier).append(user("today"))
        store.search("needle")
    with open_store(tmp_path / "yesterday") as store:
        for number in range(grown):
            store.file(history(1000 + number), title=f"t{1000 + number}")
        store.get(first.identifier).append(user("another today, needle"))
    for name in ("index.sqlite", "index.sqlite.seal"):
        shutil.copy(filled / name, tmp_path / "yesterday" / name)
    with open_store(tmp_path / "yesterday") as store:
        numbers = [*range(COUNT), *range(1000, 1000 + grown)]
        listed, found, known = expected(numbers)
        listed[first.title] += 1
        found |= {(first.title, 2)}
        assert answers(store, numbers) == (listed, found, known)
        assert store.verify().is_sound


def test_a_flipped_bit_in_the_change_log(filled, tmp_path):
    """Whatever it hits, what the index has not seen yet is found, and verify names the damage."""
    chance = random.Random(3)
    index = {name: (filled / name).read_bytes() for name in ("index.sqlite", "index.sqlite.seal")}
    with open_store(filled) as store:
        for number in range(COUNT, COUNT + 5):
            store.file(history(number), title=f"t{number}")
    (log,) = filled.glob("changes/*.log")
    whole = log.read_bytes()
    for round_number in range(60):
        path = tmp_path / f"copy-{round_number}"
        shutil.copytree(filled, path)
        # As after a crash before the index has followed.
        for name, data in index.items():
            (path / name).write_bytes(data)
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        (path / "changes" / log.name).write_bytes(flipped)
        with open_store(path) as store:
            assert not store.verify().is_sound
            assert answers(store, range(COUNT + 5)) == expected(range(COUNT + 5))
        shutil.rmtree(path)


def some(path):
    return sorted((path / "conversations").iterdir())[7]


def test_a_last_line_that_is_missing_is_found(filled):
    log = some(filled) / "messages.jsonl"
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    with open_store(filled) as store:
        damages = [damage for damage in store.verify().damages if damage.is_lost]
        assert [(one.where, one.position) for one in damages] == [
            (f"conversations/{log.parent.name}/messages.jsonl", 1)
        ]
        assert "1 line(s) missing" in damages[0].problem


def test_a_log_that_is_missing_is_found(filled):
    (some(filled) / "messages.jsonl").unlink()
    with open_store(filled) as store:
        (damage,) = [damage for damage in store.verify().damages if damage.is_lost]
        assert "2 line(s) missing" in damage.problem


@pytest.mark.parametrize("has_index", [True, False])
def test_a_conversation_that_is_missing_is_found(filled, has_index):
    name = some(filled).name
    shutil.rmtree(some(filled))
    if not has_index:
        remove(filled, ["index.sqlite*"])
    with open_store(filled) as store:
        (damage,) = [damage for damage in store.verify().damages if damage.is_lost]
        assert (damage.where, damage.problem) == (
            f"conversations/{name}",
            "the conversation is missing",
        )


def test_lines_that_were_replaced_by_older_ones_are_found(filled, tmp_path):
    """As many as before, each with its seal, and not those that were written last."""
    folder = some(filled)
    shutil.copytree(folder, tmp_path / "before")
    with open_store(filled) as store:
        store.get(folder.name).append(user("one way"))
    with open_store(filled) as store:
        assert store.verify().is_sound
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "before", folder)
    other = tmp_path / "other"
    with open_store(other) as store:
        store.create(identifier="x", canisters=[*history(7), user("another way")])
    shutil.copy(other / "conversations" / "x" / "messages.jsonl", folder / "messages.jsonl")
    with open_store(filled) as store:
        assert any("not the line" in damage.problem for damage in store.verify().damages)


def test_what_gc_frees_is_not_missing(filled):
    with open_store(filled) as store:
        names = [one.identifier for one in store.list()]
        parent = store.get(names[0])
        parent.append(user("behind the fork"))
        parent.fork(2)
        for name in names[:5]:
            store.delete(name)
        assert store.verify().is_sound
        store.collect_garbage()
        assert store.verify().is_sound
        assert len(parent._store.list()) == COUNT - 4
    with open_store(filled) as store:
        assert store.verify().is_sound
        assert len(store.list()) == COUNT - 4
    shutil.rmtree(filled / "conversations" / names[-1])
    with open_store(filled) as store:
        assert not store.verify().is_sound


def test_old_changes_are_compacted_and_still_say_what_is_missing(path, monkeypatch):
    monkeypatch.setattr(changes, "_FULL", 2000)
    with open_store(path) as store:
        kept = [store.create(canisters=[user(f"{number}")]) for number in range(20)]
        for number in range(200):
            kept[number % 20].append(user("more"))
        before = len(list(path.glob("changes/*.log")))
        assert before > 5
        store.create().delete()
        store.collect_garbage()
        assert len(list(path.glob("changes/*.log"))) <= 4
        assert store.verify().is_sound
        assert len(store.list()) == 20
    shutil.rmtree(path / "conversations" / kept[3].identifier)
    log = path / "conversations" / kept[5].identifier / "messages.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    with open_store(path) as store:
        lost = {damage.where for damage in store.verify().damages if damage.is_lost}
        assert lost == {
            f"conversations/{kept[3].identifier}",
            f"conversations/{kept[5].identifier}/messages.jsonl",
        }


def test_verify_names_an_index_that_says_something_else(filled):
    """Somebody changed files of which the change log knows nothing."""
    folder = some(filled)
    with open_store(filled) as store:
        store.list()
        log = folder / "messages.jsonl"
        plain = b'{"role":"user","content":{"type":"text","text":"from outside"}}\n'
        log.write_bytes(log.read_bytes() + plain)
        problems = [one.problem for one in store.verify().damages]
        assert len(problems) == 2
        assert any("reindex" in problem for problem in problems)
        store.rebuild_index()
        assert [one.problem for one in store.verify().damages] == [
            problem for problem in problems if "unsealed" in problem
        ]


def test_every_flipped_bit_in_the_registry_is_named(path):
    with open_store(path) as store:
        conversation = store.create(canisters=[user("first")])
        conversation.append(user("second"), key="one")
        store.file([user("filed"), assistant("history")])
        store.stage([b"staged"])
    (registry,) = (path / "registry").iterdir()
    whole = registry.read_bytes()
    with open_store(path) as store:
        for bit in range(8 * len(whole)):
            data = bytearray(whole)
            data[bit // 8] ^= 1 << bit % 8
            registry.write_bytes(data)
            assert list(store.backend._registry.damages()), bit
        damages = store.verify().damages
        assert {damage.where for damage in damages} == {f"registry/{registry.name}"}
        registry.write_bytes(whole)
        assert store.verify().is_sound


@pytest.mark.parametrize(
    "line", [b"stage zz 1", b"key x 1 2 -", b"stage %s 1" % (b"0" * 63), b"key %s %s 1 -"]
)
def test_a_registry_that_was_made_up_harms_nothing(path, line):
    with open_store(path) as store:
        store.create(identifier="one", canisters=[user("first")]).append(user("second"), key="k")
    (registry,) = (path / "registry").iterdir()
    line = line.replace(b"%s", b"1" * 5000)
    registry.write_bytes(line + b"\n" + registry.read_bytes())
    with open_store(path) as store:
        store.get("one").append(user("second"), key="k")
        assert len(store.get("one")) == 2
        assert [damage.line for damage in store.verify().damages] == [1]


def test_content_is_staged_by_a_clock_before_1970(path, monkeypatch):
    monkeypatch.setattr(registry.time, "time", lambda: -86_400.0)
    with open_store(path) as store:
        store.stage([b"staged"])
        assert store.verify().is_sound

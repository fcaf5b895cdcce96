"""Filing is one atomic step: whoever files the same at once files it once, and no scope or session is crossed."""

import threading
import time

import pytest

from cannery.backends.directory import catalogue
from cannery.errors import ConversationNotFoundError
from cannery.messages import assistant, digest, invocation, result, user
from cannery.storage import open_store
from tests.storage import workers


def in_threads(count, work):
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_what_two_processes_file_at_once_is_filed_once(location):
    open_store(location).close()
    workers.finish([workers.start(workers.file_all, location, 200) for _ in range(2)])
    with open_store(location) as store:
        assert len(store.list()) == 200
        assert {one.count for one in store.list()} == {2}
        assert store.verify().is_sound


def test_what_three_processes_file_at_once_is_filed_once(location):
    open_store(location).close()
    workers.finish([workers.start(workers.file_all, location, 100) for _ in range(3)])
    with open_store(location) as store:
        assert len(store.list()) == 100
        assert store.verify().is_sound


def test_what_eight_threads_file_at_once_is_filed_once(location):
    with open_store(location) as store:

        def work(_):
            for number in range(50):
                store.file([user(f"question {number}"), assistant("answer")])

        in_threads(8, work)
        assert len(store.list()) == 50


def test_processes_that_continue_the_same_history_both_succeed(location):
    with open_store(location) as store:
        store.file([user("begin")])
    workers.finish([workers.start(workers.file_onwards, location, name, 30) for name in "ab"])
    with open_store(location) as store:
        held = [[one.text for one in store.get(each.identifier).load()] for each in store.list()]
        for name in "ab":
            wanted = ["begin", "shared", *(f"{name} {number}" for number in range(30))]
            assert wanted in held
        assert len(held) == 2
        assert store.verify().is_sound


def test_threads_that_continue_and_edit_one_history(location):
    """Every history that was filed is held by exactly one conversation up to its end."""
    with open_store(location) as store:
        base = [user("begin"), assistant("go on")]

        def work(number):
            for turn in range(10):
                store.file([*base, user(f"turn {turn}"), assistant(f"{number % 3} {turn}")])

        in_threads(6, work)
        held = [[one.text for one in store.get(each.identifier).load()] for each in store.list()]
        ends = sorted(tuple(one[-2:]) for one in held)
        assert len(ends) == len(set(ends))
        said = {tuple(one[2:4]) for one in held}
        assert said == {
            (f"turn {turn}", f"{number} {turn}") for turn in range(10) for number in range(3)
        }


def test_histories_of_different_sessions_are_never_joined(location):
    with open_store(location) as store:
        history = [user("Hi"), assistant("Hello!")]
        made = [store.file(history, session=name) for name in (None, "one", "two")]
        assert [one.is_new for one in made] == [True] * 3
        longer = [*history, user("More")]
        again = [store.file(longer, session=name) for name in (None, "one", "two")]
        assert [one.identifier for one in again] == [one.identifier for one in made]
        assert [one.added for one in again] == [1] * 3
        edited = store.file([user("Hi"), assistant("Hey!")], session="one")
        assert edited.is_fork
        assert edited.conversation.metadata.session == "one"
        assert edited.conversation.parent == made[1].identifier
        other = store.file([user("Hi"), assistant("Hey!")])
        assert other.conversation.parent == made[0].identifier


def test_a_scope_sees_only_its_own(location):
    with open_store(location) as everything:
        one, two = everything.within("one"), everything.within("two")
        history = [user("a secret needle"), assistant("x" * 3000)]
        filed = [store.file(history) for store in (one, two, everything)]
        assert [each.is_new for each in filed] == [True] * 3
        assert [each.identifier for each in one.list()] == [filed[0].identifier]
        assert len(everything.list()) == 3
        assert [hit.identifier for hit in two.search("needle")] == [filed[1].identifier]
        assert one.begin_with("") == (filed[0].identifier,)
        for use in (two.get, two.delete, two.tree):
            with pytest.raises(ConversationNotFoundError):
                use(filed[0].identifier)
        with pytest.raises(ConversationNotFoundError):
            two.handle(filed[0].identifier).append(user("x"))
        with pytest.raises(ConversationNotFoundError):
            two.handle(filed[0].identifier).load()
        fork = everything.get(filed[0].identifier).fork(1)
        assert fork.metadata.scope == "one"
        assert everything.verify().contents == 3
        one.delete(filed[0].identifier)
        everything.collect_garbage(grace=0)
        assert two.get(filed[1].identifier).hydrate()[1].text == "x" * 3000
        assert one.get(fork.identifier).load()[0].text == "a secret needle"


def test_a_scope_is_chosen_when_a_store_is_opened(location):
    with open_store(location, scope="one") as store:
        made = store.create(canisters=[user("x")])
        assert made.metadata.scope == "one"
    with open_store(location, scope="two") as store:
        assert store.list() == ()
    with open_store(location) as store:
        assert [each.scope for each in store.list()] == ["one"]
        assert store.create().metadata.scope == ""


def test_a_retried_append_adds_nothing(location):
    with open_store(location) as store:
        conversation = store.create()
        first = conversation.append(user("a"), key="k")
        conversation.append(user("b"))
    with open_store(location) as store:
        conversation = store.get(conversation.identifier)
        assert conversation.append(user("a"), key="k") == first
        assert [one.text for one in conversation.load()] == ["a", "b"]


def test_calls_with_other_ids_are_recognised_and_answered(location):
    """A client that renames calls with every request goes on in the same conversation."""
    with open_store(location) as store:
        turns = [user("weather?"), invocation("c1", "look"), invocation("c2", "ask")]
        first = store.file(turns)
        renamed = [user("weather?"), invocation("x1", "look"), invocation("x2", "ask")]
        answers = [result("x2", "no"), result("x1", "sun")]
        filed = store.file([*renamed, *answers])
        assert (filed.identifier, filed.added) == (first.identifier, 2)
        held = filed.conversation.load()
        assert [one.invocation_id for one in held[3:]] == ["c2", "c1"]
        again = [user("weather?"), invocation("y1", "look"), invocation("y2", "ask")]
        again += [result("y2", "no"), result("y1", "sun"), assistant("Sunny.")]
        filed = store.file(again)
        assert (filed.identifier, filed.added) == (first.identifier, 1)
        fork = store.file([*renamed, result("x2", "yes"), result("x1", "rain")])
        assert fork.is_fork
        known = store.file([*again[:3], result("y2", "yes"), result("y1", "rain")])
        assert (known.identifier, known.added) == (fork.identifier, 0)


def test_a_commit_whose_outcome_is_unknown_is_made_once(location):
    """A process, or its connection, is lost at a commit; the same commit is made again, and is there once."""
    with open_store(location) as store:
        identifier = store.create().identifier
    number = 0
    for round_number in range(8):
        process, heard = workers.start(workers.append_with_keys, location, identifier, number)
        assert heard.poll(60)
        heard.recv()
        time.sleep(0.01 * round_number)
        told = workers.kill(process, heard)
        number = max(told, default=number)
        with open_store(location) as store:
            conversation = store.get(identifier)
            revision = conversation.append(user(f"{number}"), key=f"key {number}")
            assert revision == str(number + 1)
            assert [one.text for one in conversation.load()] == [
                str(one) for one in range(number + 1)
            ]
        number += 1


def test_a_process_that_is_killed_while_it_files_leaves_one_of_each(location):
    open_store(location).close()
    told = []
    for round_number in range(4):
        started = [workers.start(workers.file_for_ever, location) for _ in range(2)]
        for _, heard in started:
            assert heard.poll(60)
        time.sleep(0.1 * (round_number + 1))
        told += workers.kill(*started[0])
        time.sleep(0.1)
        told += workers.kill(*started[1])
    longest = {}
    for number, turn in (one for one in told if one != "open"):
        longest[number] = max(turn, longest.get(number, 0))
    with open_store(location) as store:
        assert store.verify().is_sound
        held = {store.get(one.identifier).load()[0].text: one.count - 1 for one in store.list()}
        assert len(store.list()) == len(held) == 5
        for number, turn in longest.items():
            assert held[f"question {number}"] >= turn


def test_a_catalogue_is_rebuilt_beside_readers_and_writers(location):
    """Others neither wait for a rebuild nor are told that something is locked; all find what is there."""
    with open_store(location, durability="os") as store, open_store(location) as other:
        count = 150 if location.startswith("postgresql:") else 600
        store.file_many([user(f"question {number} needle")] for number in range(count))
        store.search("needle", limit=1)
        is_over = threading.Event()
        added = []

        def work(number):
            if number == 0:
                for _ in range(3):
                    store.rebuild_index()
                is_over.set()
                return
            conversation = other.create()
            while not is_over.is_set():
                conversation.append(user(f"{len(added)} while it is rebuilt"))
                added.append(other.file([user(f"new {number} {len(added)}")]).identifier)
                assert other.file([user("question 7 needle")]).added == 0
                assert len(other.list(limit=5)) == 5

        in_threads(3, work)
        assert len(added) > 2
        names = {one.identifier for one in store.list()}
        assert names >= set(added)
        assert len(names) == count + 2 + len(added)
        assert len(store.search("needle", limit=1000)) == count


def test_a_lost_catalogue_changes_no_answer(tmp_path):
    path = tmp_path / "store"
    with open_store(path) as store:
        for number in range(50):
            filed = store.file([user(f"question {number}"), assistant(f"answer {number}")])
            if number % 5 == 0:
                filed.conversation.fork(1).append(assistant("otherwise"))
            if number % 7 == 0:
                filed.conversation.delete()
        before = (store.list(), store.search("answer", limit=100), store.search("question"))
    for name in path.glob("index.sqlite*"):
        name.unlink()
    with open_store(path) as store:
        found = (store.list(), store.search("answer", limit=100), store.search("question"))
        assert found[0] == before[0]
        assert set(found[1]) == set(before[1])
        assert len(found[2]) == len(before[2])
        assert store.file([user("question 3"), assistant("answer 3")]).added == 0


def test_a_rebuild_that_is_interrupted_goes_on(tmp_path, monkeypatch):
    path = tmp_path / "store"
    with open_store(path, durability="os") as store:
        store.file_many([user(f"question {number}")] for number in range(300))
    for name in path.glob("index.sqlite*"):
        name.unlink()
    monkeypatch.setattr(catalogue, "_TURN", 0.002)
    looked = []
    look = catalogue.DerivedCatalogue._look

    def counting(self, connection, identifier):
        looked.append(identifier)
        if len(looked) == 150:
            raise KeyboardInterrupt
        return look(self, connection, identifier)

    monkeypatch.setattr(catalogue.DerivedCatalogue, "_look", counting)
    with open_store(path) as store, pytest.raises(KeyboardInterrupt):
        store.list()
    with open_store(path) as store:
        assert len(store.list()) == 300
    # What was in the transaction that was interrupted is looked at again, and nothing else.
    assert len(looked) < 300 + 100


def test_the_end_of_a_history_is_found_by_what_was_said_last(store):
    """What recognition from the end builds on: the beginning may have changed altogether."""
    history = [user("old setup"), user("question"), assistant("a nearly unique answer")]
    filed = store.file(history, session="one")
    other = [user("new setup"), *history[1:], user("next")]
    (found,) = store.holders([digest(other[2])])
    assert (found.identifier, found.position, found.session) == (filed.identifier, 2, "one")
    run = store.holders(map(digest, other))
    assert sorted(one.position for one in run) == [1, 2]
    assert store.within("elsewhere").holders(map(digest, other)) == ()
    filed.conversation.delete()
    assert store.holders(map(digest, other)) == ()

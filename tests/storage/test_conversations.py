"""What people do with a store: append, fork, edit, delete, list, search, file."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

import cannery
from cannery.errors import (
    ConflictError,
    ConversationNotFoundError,
    InputError,
    ProfileError,
    RoleError,
    StorageError,
)
from cannery.messages import (
    ReasoningContentClass,
    assistant,
    document,
    invocation,
    result,
    supervisor,
    user,
)
from cannery.storage import AsyncStore, open_store

START = datetime(2026, 1, 1, tzinfo=UTC)
EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))


def says(*texts):
    return [user(text, START + timedelta(seconds=index)) for index, text in enumerate(texts)]


def texts(conversation):
    return [one.text for one in conversation.load()]


def test_metadata(store):
    conversation = store.create(title="Über", tags=("a", "b"), model="m-1")
    found = store.get(conversation.identifier)
    assert (found.title, found.tags, found.profile) == ("Über", ("a", "b"), "archive")
    found.rename("Neu")
    found.retag("c")
    assert (conversation.title, conversation.tags) == ("Neu", ("c",))
    assert conversation.metadata.updated >= conversation.created


@pytest.mark.parametrize("bad", ["../x", "", "A", "a/b", "a" * 65, "a\n", ".", "é"])
def test_an_id_that_is_none_is_refused(store, bad):
    with pytest.raises(InputError):
        store.get(bad)


def test_an_unknown_id_is_not_found(store):
    with pytest.raises(ConversationNotFoundError):
        store.get("nobody")


def test_titles_cannot_escape(path):
    with open_store(path) as store:
        store.create(title="../../../etc/passwd\n\x00")
    assert sorted(item.name for item in path.parent.iterdir()) == ["store"]


@pytest.mark.parametrize(
    "facts",
    [
        {"model": 5},
        {"model": "\ud800"},
        {"title": None},
        {"title": "x" * 1001},
        {"title": "\ud800"},
        {"tags": "word"},
        {"tags": [5]},
        {"tags": [""]},
        {"tags": ["\ud800"]},
        {"profile": "other"},
        {"identifier": "No"},
    ],
)
def test_facts_that_could_not_be_read_again_are_refused(store, facts):
    with pytest.raises(InputError):
        store.create(**facts)
    assert store.list() == ()


def test_odd_filters_find_nothing_and_break_nothing(store):
    conversation = store.create(model="m", canisters=[user("needle", START)])
    for odd in ({"model": "\ud800"}, {"tag": "\ud800"}, {"role": "\ud800"}):
        with pytest.raises(InputError):
            store.list(**odd)
        with pytest.raises(InputError):
            store.search("needle", **odd)
    for query in ('"', "*", "a AND", "col:x", "^needle NOT", "(((", "\x00", "x " * 2000):
        assert store.search(query) == ()
    for since, until, count in (
        (datetime.min.replace(tzinfo=EAST), datetime.max.replace(tzinfo=WEST), 1),
        (datetime(900, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC), 1),
        (datetime(9000, 1, 1, tzinfo=UTC), None, 0),
        (None, datetime(900, 1, 1, tzinfo=UTC), 0),
    ):
        assert len(store.list(since=since, until=until)) == count
        assert len(store.search("needle", since=since, until=until)) == count
    with pytest.raises(InputError):
        conversation.append(user("x"), durability="maybe")
    assert len(conversation) == 1


@pytest.mark.parametrize(
    "name", ["a b", "per%cent", "ha#sh", "que?ry", "co:lon", "new\nline", "'\""]
)
def test_a_store_may_lie_anywhere(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for location in (Path(name), os.fsencode(name), str(tmp_path / name)):
        with open_store(location) as store:
            store.create(canisters=[user("needle " * 300)])
            assert store.search("needle")
            assert store.verify().is_sound
    assert [item.name for item in tmp_path.iterdir()] == [name]


def test_a_closed_store_is_not_used(store):
    store.create()
    store.close()
    for use in (store.list, lambda: store.search("x"), lambda: store.file([user("x")])):
        with pytest.raises(StorageError):
            use()
    store.close()


def test_append_only_if_nothing_was_added_since(store):
    conversation = store.create()
    revision = conversation.append(*says("a"))
    assert conversation.append(says("b", "c"), revision=revision) == "3"
    with pytest.raises(ConflictError):
        conversation.append(says("d"), revision=revision)
    with pytest.raises(InputError):
        conversation.append(says("d"), revision="x")
    assert texts(conversation) == ["a", "b", "c"]


def test_load_a_part(store):
    conversation = store.create()
    conversation.append(says(*"abcdefgh"))
    assert [one.text for one in conversation.load(-3)] == ["f", "g", "h"]
    assert [one.text for one in conversation.load(2, 4)] == ["c", "d"]
    assert [one.text for one in conversation.load(6, 100)] == ["g", "h"]
    assert list(conversation.load(8)) == []


def test_what_is_no_canister_is_refused(store):
    conversation = store.create()
    for bad in ("text", {"role": "user"}, None):
        with pytest.raises(InputError):
            conversation.append(bad)


def steps_of(store, count):
    """What filing one more message costs, a new one and a search that finds nothing with it."""
    steps = 0

    def step():
        nonlocal steps
        steps += 1

    def attach(connection):
        connection.set_progress_handler(step, 10)

    store.backend.catalogue.file.read(attach)
    store.file([user("first 1"), user("second"), user(f"third {count}")])
    store.file([user(f"new in a store of {count}")])
    assert store.search("nothing") == ()
    store.backend.catalogue.file.read(lambda connection: connection.set_progress_handler(None, 0))
    return steps


class TestForks:
    def test_share_their_prefix_and_nest(self, store):
        root = store.create(title="R")
        root.append(says(*"abcde"))
        one = root.fork(at=3)
        one.append(says("x", "y"))
        two = one.fork(at=4)
        two.append(says("z"))
        low = two.fork(at=2)
        low.append(says("q"))
        assert texts(one) == [*"abcxy"]
        assert texts(two) == [*"abcxz"]
        assert texts(low) == [*"abq"]
        assert low.parent == root.identifier
        assert [one.text for one in two.load(2, 5)] == [*"cxz"]
        assert texts(root) == [*"abcde"]
        assert root.tree.draw(mark=two.identifier).count("\n") == 3
        assert next(two.tree.walk()).identifier == root.identifier

    def test_survive_their_parent(self, store):
        root = store.create()
        root.append(says("a" * 2000, "b"))
        fork = root.fork()
        root.delete()
        assert store.collect_garbage().conversations == ()
        assert texts(fork) == ["a" * 2000, "b"]
        fork.delete()
        freed = store.collect_garbage()
        assert set(freed.conversations) == {root.identifier, fork.identifier}
        assert freed.contents == 1

    def test_keep_of_a_deleted_parent_only_what_they_share(self, store):
        root = store.create(canisters=says(*(letter * 2000 for letter in "abcdef")))
        one, two = root.fork(3), root.fork(2)
        one.append(says("x" * 2000))
        deep = one.fork(4)
        assert store.file(root.load()).added == 0
        root.delete()
        one.delete()
        freed = store.collect_garbage()
        assert (freed.conversations, freed.contents) == ((), 3)
        assert freed.freed_bytes >= 6000
        assert [text[0] for text in texts(deep)] == [*"abcx"]
        assert [text[0] for text in texts(two)] == [*"ab"]
        assert store.verify().is_sound
        filed = store.file([*deep.load(), user("y")])
        assert (filed.identifier, filed.added) == (deep.identifier, 1)
        deep.delete()
        freed = store.collect_garbage()
        assert freed.conversations == tuple(sorted([one.identifier, deep.identifier]))
        assert freed.contents == 2
        assert [text[0] for text in texts(two)] == [*"ab"]
        assert store.collect_garbage().freed_bytes == 0
        two.delete()
        assert len(store.collect_garbage().conversations) == 2
        assert store.verify().contents == 0

    def test_of_the_deleted_are_refused(self, store):
        root = store.create()
        root.delete()
        with pytest.raises(ConversationNotFoundError):
            root.fork()
        with pytest.raises(ConversationNotFoundError):
            root.append(says("a"))

    @pytest.mark.parametrize(
        "at, edge", [(0, 0), (1, 1), (2, 2), (3, 2), (4, 2), (5, 2), (6, 6), (7, 7), (8, 7), (9, 9)]
    )
    def test_do_not_cut_a_tool_exchange_apart(self, store, at, edge):
        root = store.create()
        root.append(
            user("q"),
            assistant("let me see"),
            invocation("1", "f"),
            invocation("2", "f"),
            result("1", "one"),
            result("2", "two"),
            assistant("and"),
            invocation("3", "f"),
            result("3", "three"),
            assistant("done"),
        )
        if at == edge:
            assert len(root.fork(at)) == at
        else:
            with pytest.raises(InputError, match="tool exchange"):
                root.fork(at)
        assert len(root.fork(at, edge="move")) == edge

    def test_at_places_that_are_none_are_refused(self, store):
        root = store.create()
        root.append(says("a"))
        for bad in (2, -2, "1", True, 1.0):
            with pytest.raises(InputError):
                root.fork(bad)
        assert len(root.fork(-1)) == 0

    def test_editing_is_forking(self, store):
        root = store.create()
        root.append(says(*"abc"))
        edited = root.edit(1, user("B"))
        assert texts(edited) == ["a", "B"]
        assert texts(root) == [*"abc"]
        with pytest.raises(InputError):
            root.edit(3, user("D"))


class TestFiling:
    def test_an_edited_result_is_a_fork_that_holds_the_edit(self, store):
        told = [
            user("Look"),
            invocation("1", "f"),
            result("1", "a"),
            assistant("It is a."),
            user("Sure?"),
        ]
        first = store.file(told)
        edited = [
            *told[:2],
            result("1", "b"),
            assistant("It is a."),
            user("Sure?"),
            assistant("No."),
        ]
        second = store.file(edited)
        assert second.is_fork
        assert second.conversation.load() == cannery.Conversation(edited)
        assert first.conversation.load() == cannery.Conversation(told)

    def test_adds_only_what_is_new(self, store):
        history = []
        identifiers = set()
        for turn in range(20):
            history += [user(f"question {turn}"), assistant(f"answer {turn}")]
            filed = store.file(history)
            assert filed.added == 2
            identifiers.add(filed.identifier)
        assert len(identifiers) == 1
        assert len(store.list()) == 1
        assert store.file(history).added == 0

    def test_forks_what_was_edited(self, store):
        first = store.file([user("a"), assistant("b"), user("c"), assistant("d")])
        edited = store.file([user("a"), assistant("b"), user("C")])
        assert edited.is_fork
        assert (edited.known, edited.added) == (2, 1)
        assert texts(edited.conversation) == ["a", "b", "C"]
        again = store.file([user("a"), assistant("b"), user("C"), assistant("D")])
        assert again.identifier == edited.identifier
        assert texts(first.conversation) == [*"abcd"]

    def test_knows_a_part_of_what_it_has(self, store):
        first = store.file([user("a"), assistant("b"), user("c")])
        assert store.file([user("a"), assistant("b")]).identifier == first.identifier
        assert len(store.list()) == 1

    def test_reads_meaning_not_spelling(self, store):
        first = store.file(
            [
                user("x"),
                assistant(""),
                invocation("call_1", "f", '{"a": 1, "b": 2}'),
                result("call_1", "ok"),
            ]
        )
        second = store.file(
            [
                user("x"),
                invocation("toolu_9", "f", '{"b":2,"a":1}'),
                result("toolu_9", "ok"),
                assistant("done"),
            ]
        )
        assert second.identifier == first.identifier
        assert second.added == 1

    def test_knows_a_history_that_lost_its_thoughts(self, store):
        thought = assistant(ReasoningContentClass("hmm"))
        first = store.file([user("x"), thought, assistant("y")])
        second = store.file([user("x"), assistant("y"), user("z")])
        assert (second.identifier, second.added) == (first.identifier, 1)

    def test_moves_a_fork_out_of_a_tool_exchange(self, store):
        start = [user("x"), invocation("1", "f"), invocation("2", "f"), result("1", "a")]
        store.file([*start, result("2", "b"), assistant("y")])
        other = store.file([*start, result("2", "other"), assistant("z")])
        assert other.is_fork
        assert other.known == 1
        assert len(other.conversation) == 6

    def test_of_two_processes_sees_the_other(self, path):
        with open_store(path) as one, open_store(path) as two:
            first = one.file([user("a"), assistant("b")])
            second = two.file([user("a"), assistant("b"), user("c")])
            third = one.file([user("a"), assistant("b"), user("c"), assistant("d")])
            assert first.identifier == second.identifier == third.identifier
            assert third.added == 1

    def test_forgets_what_was_deleted(self, store):
        first = store.file([user("a"), assistant("b")])
        store.delete(first.identifier)
        assert store.file([user("a"), assistant("b")]).is_new

    def test_names_what_it_makes(self, store):
        first = store.file([user("a"), assistant("b"), user("c")], identifier="first")
        assert (first.identifier, first.is_new) == ("first", True)
        edited = store.file([user("a"), assistant("b"), user("C")], identifier="second")
        assert (edited.identifier, edited.is_fork) == ("second", True)
        again = store.file([user("a"), assistant("b"), user("C"), user("d")], identifier="third")
        assert (again.identifier, again.added) == ("second", 1)
        with pytest.raises(ConflictError):
            store.file([user("something else")], identifier="first")
        with pytest.raises(InputError):
            store.file([user("something else")], identifier="../x")
        assert len(store.list()) == 2

    def test_finds_a_fork_of_what_was_deleted(self, store):
        history = [user("a"), assistant("b"), user("c"), assistant("d")]
        root = store.file(history).conversation
        fork = store.file([*history[:2], user("C")]).conversation
        root.delete()
        for known in ([*history[:2], user("C")], history[:2], history[:1]):
            filed = store.file(known)
            assert (filed.identifier, filed.added) == (fork.identifier, 0)
        filed = store.file([*history[:2], user("C"), *map(user, "defghijklmnop")])
        assert (filed.identifier, filed.added) == (fork.identifier, 13)
        fork.delete()
        assert store.file(history).is_new

    def test_a_shared_system_prompt_makes_no_fork(self, store):
        setup = [supervisor("Be brief."), supervisor("Be kind."), document("The handbook.")]
        for number in range(3):
            filed = store.file([*setup, user(f"question {number}"), assistant("answer")])
            assert (filed.is_new, filed.is_fork, filed.added) == (True, False, 5)
        again = store.file([*setup, user("question 1"), assistant("another answer")])
        assert (again.is_new, again.is_fork, again.known, again.added) == (False, True, 4, 1)
        longer = store.file([*setup, user("question 2"), assistant("answer"), user("more")])
        assert (longer.is_new, longer.is_fork, longer.added) == (False, False, 1)
        other = store.file([*setup[:2], user("question 1")])
        assert other.is_new
        assert len(store.list()) == 5

    def test_a_history_of_instructions_alone_is_filed_once(self, store):
        setup = [supervisor("Be brief."), assistant(""), document("The handbook.")]
        first = store.file(setup)
        assert first.is_new
        for known in (setup, setup[:1]):
            again = store.file(known)
            assert (again.identifier, again.added) == (first.identifier, 0)
        assert store.file([*setup, user("x")]).is_new

    @pytest.mark.parametrize("count", [10, 400])
    def test_after_a_fork_reads_only_what_is_new(self, store, count, monkeypatch):
        history = []
        for turn in range(count):
            history += [user(f"q{turn}"), invocation(f"c{turn}", "f"), result(f"c{turn}", "ok")]
        root = store.file(history).conversation
        assert store.file(history).added == 0
        read = []
        whole = store.backend.read

        def counting(*place):
            reading = whole(*place)
            read.extend(reading.lines)
            return reading

        monkeypatch.setattr(store.backend, "read", counting)
        fork = root.fork(len(history) - 3)
        fork.append(user("another way"), result("c0", "late"))
        filed = store.file([*history[:-3], user("another way"), result("c0", "late"), user("x")])
        assert (filed.identifier, filed.added) == (fork.identifier, 1)
        edited = store.file([*history[:-4], user("y")])
        assert edited.is_fork
        assert len(read) < 100

    def test_costs_the_same_in_a_large_store(self, path):
        """Counted in steps of SQLite's machine and in lines that are read."""
        spent = []
        with open_store(path, durability="os") as store:
            for count in (20, 400):
                while (number := len(list(store.backend.identifiers()))) < count:
                    conversation = store.create(canisters=says(f"first {number}", "second"))
                    if number % 5 == 0:
                        conversation.fork(1)
                store.file([user("first 1"), user("second")])
                store.search("first")
                spent.append(steps_of(store, count))
        small, large = spent
        assert large < 2 * small

    def test_is_all_or_nothing(self, store):
        with pytest.raises(InputError):
            store.create(canisters=[user("a"), "no canister"], identifier="mine")
        with pytest.raises(ProfileError):
            store.create(profile="chat", canisters=[user("a"), supervisor("s")])
        assert store.list() == ()
        store.create(canisters=says("a", "b"), identifier="mine")
        with pytest.raises(ConflictError):
            store.create(identifier="mine")
        with pytest.raises(ConflictError):
            store.get("mine").fork(1, identifier="mine")
        assert store.get("mine").fork(1, identifier="other").identifier == "other"

    def test_a_branch_goes_on_from_where_it_could_be_made(self, store):
        held = [user("x"), invocation("1", "f"), result("1", "a"), assistant("y")]
        root = store.create(canisters=held, tags=["t"])
        other = [*held[:2], result("1", "b"), assistant("z")]
        branch = root.branch(other, known=2, at=2, tags=())
        assert branch.metadata.position == 1
        assert list(branch.load()) == [held[0], *other[1:]]
        assert branch.tags == ()
        beyond = root.branch([*held, user("n"), user("m")], known=5, at=5)
        assert [one.text for one in beyond.load(4)] == ["n", "m"]
        chat = store.create(profile="chat", canisters=held)
        with pytest.raises(ProfileError):
            chat.branch([held[0], document("x")], known=1, at=1)

    def test_recognises_what_was_said(self, store):
        history = [user("a"), assistant(ReasoningContentClass("hm")), assistant("b"), user("c")]
        assert store.recognise(history).match is None
        mine = store.create(canisters=history, identifier="mine")
        match = store.recognise(history[:3]).match
        assert (match.known, match.identifier, match.position, match.length) == (3, "mine", 3, 4)
        assert not match.is_at_end
        mine.append(assistant(ReasoningContentClass("silent")))
        assert store.recognise(history).match.is_at_end


class TestChat:
    RECORDS = (
        {"role": "user", "content": "q", "created_at": 5},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "f", "arguments": '{"a": 1}'},
                },
                {"id": "call_2", "name": "g", "arguments": {"b": [1]}, "index": 1},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "42"},
        {"role": "tool", "tool_call_id": "call_2", "content": "", "name": "g"},
        {"role": "assistant", "content": "done " * 500},
        {"role": "assistant", "tool_calls": [], "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "in parts"}]},
    )

    def test_records_come_back_as_they_were(self, store):
        chat = store.create(profile="chat")
        for record in self.RECORDS:
            chat.save(record)
        assert chat.records() == list(self.RECORDS)
        assert [one.role.value for one in chat.load()][:5] == [
            "user", "assistant", "invocation", "invocation", "result",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "record",
        [
            {"role": "system", "content": "x"},
            {"role": "developer", "content": "x"},
            {"role": "User", "content": "x"},
            {"role": "admin", "content": "x"},
            {"role": None, "content": "x"},
            {"content": "x"},
            {"role": "user"},
            {"role": "user", "content": None},
            {"role": "user", "content": 5},
            {"role": "user", "content": "x", "tool_calls": []},
            {"role": "assistant"},
            {"role": "assistant", "content": None, "tool_calls": "x"},
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]},
            {"role": "tool", "content": "x"},
            {"role": "tool", "tool_call_id": "c"},
            "text",
        ],
    )
    def test_anything_else_is_refused_and_nothing_written(self, store, record):
        chat = store.create(profile="chat")
        with pytest.raises(ValueError) as caught:
            chat.save(record)
        assert isinstance(caught.value, (ProfileError, RoleError))
        assert chat.records() == []
        assert store.verify().contents == 0

    def test_a_result_is_kept_without_its_call(self, store):
        record = {"role": "tool", "tool_call_id": "call_1", "content": "42"}
        chat = store.create(profile="chat")
        chat.save(record)
        assert chat.records() == [record]
        said = cannery.Request(chat.load(), model="m")
        body = json.loads(cannery.nativize_request(said, "anthropic_messages").body)
        assert "42" in json.dumps(body["messages"])

    def test_canisters_are_checked_too(self, store):
        chat = store.create(profile="chat")
        for bad in (supervisor("s"), document("d")):
            with pytest.raises(ProfileError):
                chat.append(bad)
        with pytest.raises(ProfileError):
            store.create().save({"role": "user", "content": "x"})


class TestIndex:
    def test_lists_and_filters(self, store):
        one = store.create(title="one", tags=("x",), model="m")
        two = store.create(title="two", profile="chat")
        one.append(user("later", datetime(2100, 1, 1, tzinfo=UTC)))
        assert [item.title for item in store.list()] == ["one", "two"]
        assert [item.title for item in store.list(tag="x")] == ["one"]
        assert [item.title for item in store.list(model="m")] == ["one"]
        assert [item.title for item in store.list(profile="chat")] == ["two"]
        assert [item.title for item in store.list(role="user")] == ["one"]
        assert [item.title for item in store.list(role="result")] == []
        assert [item.title for item in store.list(since=datetime(2099, 1, 1, tzinfo=UTC))] == [
            "one"
        ]
        assert [item.title for item in store.list(until=datetime(2099, 1, 1, tzinfo=UTC))] == [
            "two"
        ]
        assert len(store.list(limit=1)) == 1
        assert store.list()[0].count == 1
        two.delete()
        assert [item.title for item in store.list()] == ["one"]

    def test_searches_long_and_short_text_with_snippets(self, store):
        conversation = store.create(title="T", tags=("x",))
        filler = "nothing here " * 300
        conversation.append(
            user(filler + "the needle lies here " + filler), assistant("Über naïve needles")
        )
        (hit,) = store.search("needle")
        assert (hit.position, hit.role) == (0, "user")
        assert "needle" in hit.snippet
        assert len(hit.snippet) < 300
        assert [hit.position for hit in store.search("uber NAIVE")] == [1]
        assert len(store.search("needle*")) == 2
        assert store.search('"lies needle"') == ()
        assert store.search('" OR NEAR( ) --') == ()
        assert len(store.search("needle*", role="assistant")) == 1
        assert store.search("needle*", tag="y") == ()
        conversation.append(invocation("1", "find_needle", '{"where":"haystack"}'))
        assert len(store.search("haystack")) == 1
        conversation.delete()
        assert store.search("needle") == ()

    def test_searches_where_and_when_it_is_told_to(self, store):
        new, old = START + timedelta(days=9), START
        store.create("one", tags=["x"], model="m", canisters=[user("needle", old)])
        store.create("two", profile="chat", canisters=[user("needle", new), assistant("needle")])
        store.create("three", tags=["y"], model="n", canisters=[supervisor("a needle", new)])

        def found(**chosen):
            return sorted(hit.title for hit in store.search("needle", **chosen))

        assert found() == ["one", "three", "two", "two"]
        assert found(tag="x") == ["one"]
        assert found(model="n") == ["three"]
        assert found(profile="chat") == ["two", "two"]
        assert found(profile="archive", role="user") == ["one"]
        assert found(since=new) == ["three", "two", "two"]
        assert found(since=old, until=new) == ["one", "three", "two"]
        assert found(until=old, tag="y") == []
        assert {hit.timestamp for hit in store.search("needle", until=new)} == {old, new}

    def test_what_a_fork_shares_counts_as_its_own(self, store):
        root = store.create("root", canisters=[*says("the needle", "b"), supervisor("s")])
        short, long = root.fork(1, title="short"), root.fork(3, title="long")
        assert {one.title for one in store.list(role="supervisor")} == {"root", "long"}
        assert {one.title for one in store.list(role="user")} == {"root", "short", "long"}
        assert [hit.title for hit in store.search("needle")] == ["root"]
        root.delete()
        assert {hit.title for hit in store.search("needle")} == {"short", "long"}
        low = short.fork(1, title="low")
        short.delete()
        long.delete()
        assert [(hit.title, hit.position) for hit in store.search("needle")] == [("low", 0)]
        assert {one.title for one in store.list(role="user")} == {"low"}
        low.append(assistant("another needle"))
        assert [hit.position for hit in store.search("another")] == [1]

    @pytest.mark.parametrize("damage", ["missing", "rubbish", "flipped", "version"])
    def test_damage_costs_a_rebuild(self, path, damage):
        with open_store(path) as store:
            store.file([user("the needle"), assistant("b")])
            assert len(store.search("needle")) == 1
        file = path / "index.sqlite"
        data = bytearray(file.read_bytes())
        if damage == "missing":
            file.unlink()
        elif damage == "rubbish":
            file.write_bytes(b"rubbish" * 1000)
        elif damage == "flipped":
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        else:
            import sqlite3

            connection = sqlite3.connect(file)
            connection.execute("PRAGMA user_version=99")
            connection.close()
        with open_store(path) as store:
            assert len(store.search("needle")) == 1
            assert not store.file([user("the needle"), assistant("b"), user("c")]).is_new
            store.rebuild_index()
            assert len(store.list()) == 1


def test_asynchronous(path):
    async def work():
        async with AsyncStore(open_store(path)) as store:
            conversation = await store.create(title="A")
            await asyncio.gather(*(conversation.append(user(f"m{n}")) for n in range(50)))
            assert len(await conversation.load()) == 50
            fork = await conversation.fork(10)
            assert len(await fork.load()) == 10
            filed = await store.file([user("a")])
            assert filed.is_new
            assert len(await store.list()) == 3
            assert await store.search("m7")
            assert (await store.verify()).is_sound
            await store.delete(filed.identifier)
            assert (await store.collect_garbage()).conversations

    asyncio.run(work())


def test_conversation_is_iterated_page_by_page(store):
    conversation = store.create()
    conversation.append(cannery.user(f"message {number}") for number in range(600))

    assert [canister.text for canister in conversation] == [
        f"message {number}" for number in range(600)
    ]
    assert cannery.Conversation(conversation) == conversation.load()


def test_answer_is_appended_to_a_stored_conversation(store):
    conversation = store.create()
    answer = cannery.Response([cannery.assistant("Rome."), cannery.invocation("c", "map")])
    conversation.append(cannery.user("Capital?"))
    conversation.append(answer)

    assert list(conversation)[1:] == list(answer.canisters)


@pytest.mark.parametrize(
    "text", ["a\0b", "a\U0010ffffb", "\0\U0010fffe\U0010ffff\0", "\U0010fffea\U0010fffeb"]
)
def test_a_name_may_hold_any_character(store, text):
    other = store.create("other", tags=("other",), model="other")
    made = store.create(text, tags=(text,), model=text)
    (listed,) = store.list(tag=text)
    assert (listed.identifier, listed.title, listed.tags, listed.model) == (
        made.identifier,
        text,
        (text,),
        text,
    )
    assert [one.identifier for one in store.list(model=text)] == [made.identifier]
    assert {one.identifier for one in store.list()} == {made.identifier, other.identifier}
    assert store.get(made.identifier).title == text

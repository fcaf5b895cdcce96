"""What tasks append at the same time is made together, and each is told what became of its own."""

import asyncio
import threading

import pytest

from cannery import assistant, invocation, result, supervisor, user
from cannery.errors import ConflictError, ConversationNotFoundError, InputError, ProfileError
from cannery.storage import AsyncStore, open_store


class Rounds:
    """Counts how many changes the backend is given together, and lets them wait while the gate is shut."""

    def __init__(self, store, monkeypatch):
        self.sizes = []
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        made = store.commit_each

        def counting(changes):
            self.sizes.append(len(changes))
            self.begun.set()
            self.gate.wait(20)
            return made(changes)

        monkeypatch.setattr(store, "commit_each", counting)


def run(store, work):
    async def main():
        # The store is closed by whoever opened it.
        held = AsyncStore(store)
        await work(held)
        await held.appends.finish()

    asyncio.run(main())


def texts(conversation):
    return [canister.content.text for canister in conversation.load()]


def test_sixteen_tasks_write_in_as_many_rounds_as_each_has_messages(store, monkeypatch):
    rounds = Rounds(store, monkeypatch)
    conversations = [store.create() for _ in range(16)]

    async def work(held):
        async def write(conversation, name):
            for number in range(10):
                await conversation.append(user(f"{name} {number}"))

        handles = [await held.get(each.identifier) for each in conversations]
        await asyncio.gather(*(write(handle, name) for name, handle in enumerate(handles)))

    run(store, work)
    assert rounds.sizes == [16] * 10
    for name, conversation in enumerate(conversations):
        assert texts(conversation) == [f"{name} {number}" for number in range(10)]


def test_what_is_added_to_one_conversation_stands_in_the_order_it_was_asked_for(store):
    conversation = store.create()

    async def work(held):
        handle = await held.get(conversation.identifier)
        said = [handle.append(user(f"{number} a"), assistant(f"{number} b")) for number in range(9)]
        assert await asyncio.gather(*said) == [str(2 * number + 2) for number in range(9)]

    run(store, work)
    assert texts(conversation) == [f"{number} {part}" for number in range(9) for part in "ab"]


def test_one_that_fails_fails_alone(store):
    sound, deleted, chat = store.create(), store.create(), store.create(profile="chat")
    stale = sound.append(user("first"))
    sound.append(user("second"))

    async def work(held):
        handles = [await held.get(each.identifier) for each in (sound, deleted, chat)]
        store.delete(deleted.identifier)
        found = await asyncio.gather(
            handles[0].append(user("third")),
            handles[0].append(user("too late"), revision=stale),
            handles[1].append(user("gone")),
            handles[2].append(user("Look.")),
            handles[2].append(supervisor("No.")),
            handles[0].append(user("fourth")),
            return_exceptions=True,
        )
        kinds = [value if isinstance(value, str) else type(value) for value in found]
        assert kinds == ["3", ConflictError, ConversationNotFoundError, "1", ProfileError, "4"]

    run(store, work)
    assert texts(sound) == ["first", "second", "third", "fourth"]
    assert texts(chat) == ["Look."]


def test_a_chat_sees_what_was_added_just_before(store):
    chat = store.create(profile="chat")

    async def work(held):
        handle = await held.get(chat.identifier)
        await asyncio.gather(
            handle.append(user("Look.")),
            handle.append(invocation("c1", "look", "{}")),
            handle.append(result("c1", "seen")),
        )

    run(store, work)
    assert [canister.role.value for canister in chat.load()] == ["user", "invocation", "result"]


def test_generators_are_read_once_and_what_is_no_canister_is_refused_at_once(store):
    conversation = store.create()

    async def work(held):
        handle = await held.get(conversation.identifier)
        with pytest.raises(InputError):
            await handle.append("words")
        several = handle.append(user(word) for word in ("a", "b"))
        assert await asyncio.gather(several, handle.append(user("c"))) == ["2", "3"]
        assert await handle.append() == "3"
        assert await handle.append(user("d"), durability="os") == "4"

    run(store, work)
    assert texts(conversation) == ["a", "b", "c", "d"]


def test_a_task_that_is_cancelled_while_it_waits_adds_nothing(store, monkeypatch):
    rounds = Rounds(store, monkeypatch)
    conversation = store.create()

    async def work(held):
        handle = await held.get(conversation.identifier)
        rounds.gate.clear()
        first = [asyncio.create_task(handle.append(user(name))) for name in ("a", "b")]
        await asyncio.to_thread(rounds.begun.wait, 20)
        late = [asyncio.create_task(handle.append(user(name))) for name in ("c", "d", "e")]
        await asyncio.sleep(0)
        late[0].cancel()
        rounds.gate.set()
        await asyncio.gather(*first, *late[1:])

    run(store, work)
    assert rounds.sizes == [2, 2]
    assert texts(conversation) == ["a", "b", "d", "e"]


def test_closing_finishes_what_was_asked_for(path):
    async def work():
        store = AsyncStore(open_store(path))
        conversation = await store.create()
        said = [asyncio.create_task(conversation.append(user(str(n)))) for n in range(5)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*said)
        return conversation.identifier

    identifier = asyncio.run(work())
    with open_store(path) as store:
        assert texts(store.get(identifier)) == [str(n) for n in range(5)]


def test_a_disk_that_breaks_is_told_to_everybody(store, monkeypatch):
    conversation = store.create()

    def breaking(changes, durability):
        raise OSError(5, "it broke")

    monkeypatch.setattr(store.backend, "commit_each", breaking)

    async def work(held):
        handle = await held.get(conversation.identifier)
        said = (handle.append(user(name)) for name in ("a", "b"))
        found = await asyncio.gather(*said, return_exceptions=True)
        assert [type(each) for each in found] == [OSError, OSError]

    run(store, work)


def test_a_loop_that_is_closed_is_let_go(store):
    conversation = store.create()
    held = AsyncStore(store)

    async def work():
        handle = await held.get(conversation.identifier)
        await handle.append(user("a"))
        return len(held._appends)

    assert [asyncio.run(work()) for _ in range(3)] == [1, 1, 1]
    assert len(conversation.load()) == 3

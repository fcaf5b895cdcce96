"""What other processes do in the tests: they are forked from a server that has imported everything, and killed."""

import multiprocessing
import random
import time
from pathlib import Path

from cannery.messages import assistant, user
from cannery.storage import open_store

_context = multiprocessing.get_context("forkserver")
# The server knows what is installed, and not where the tests are.
_context.set_forkserver_preload(
    ["cannery.messages", "cannery.storage", "cannery.backends.directory"]
)


def start(work, *arguments):
    """A process that does something; it gets the sending end of a pipe, we the other."""
    heard, said = _context.Pipe(duplex=False)
    process = _context.Process(target=work, args=(said, *map(str, arguments)), daemon=True)
    process.start()
    said.close()
    return process, heard


def kill(process, heard):
    """Kill -9 it; what it had said until then."""
    process.kill()
    process.join()
    told = []
    try:
        while True:
            told.append(heard.recv())
    except (EOFError, OSError):
        heard.close()
    return told


def finish(started):
    """Wait for processes; all must have ended well."""
    for process, heard in started:
        process.join(300)
        heard.close()
        assert process.exitcode == 0


def append(said, path, identifier, writer, count, durability):
    """Append so many messages, some with content that others put, too."""
    with open_store(path, durability=durability) as store:
        conversation = store.get(identifier)
        shared = "shared content " * 100
        for number in range(int(count)):
            text = f"{writer} {number}"
            conversation.append(user(text), user(shared + text[-1]) if number % 10 == 0 else ())
    said.close()


def append_and_tell(said, path, identifier, number, key=None):
    """Append for ever, and tell what has been acknowledged."""
    conversation = open_store(path, encryption_key=key).get(identifier)
    number = int(number)
    while True:
        conversation.append(user(f"{number} " + ("long " * 300 if number % 3 == 0 else "short")))
        said.send(number)
        number += 1


def collect(said, path):
    """Collect garbage for ever."""
    store = open_store(path)
    said.send("open")
    while True:
        store.collect_garbage()


def churn(said, path, writer, seconds, stop=""):
    """Store the same few contents again and again, and delete most of them: what gc is about to free comes back.

    At most so many seconds, and only until there is a file, if one is named.
    """
    chance = random.Random(int(writer))
    until = time.monotonic() + float(seconds)
    made = 0
    with open_store(path) as store:
        kept = store.create(title=f"kept {writer}")
        expected = []
        while time.monotonic() < until and not (stop and Path(stop).exists()):
            short = store.create(title="short-lived")
            # Something that nobody else refers to, so that gc has work whenever it runs.
            short.append(user(f"short-lived {writer} {made} " * 100))
            for _ in range(3):
                text = f"content {chance.randrange(20)} " * 200
                short.append(user(text))
                if chance.random() < 0.5:
                    kept.append(user(text))
                    expected.append(text)
            short.delete()
            made += 1
            # Files in memory do not make a writer wait; a disk does, and what is written has to fit into memory.
            time.sleep(0.005)
            if made % 20 == 0:
                assert [one.text for one in kept.hydrate()] == expected, "lost while gc ran"
        assert [one.text for one in kept.hydrate()] == expected, "lost while gc ran"
    said.close()


def file_all(said, path, count):
    """File so many histories, which others file, too."""
    with open_store(path) as store:
        for number in range(int(count)):
            store.file([user(f"question {number}"), assistant("answer")])
    said.close()


def file_onwards(said, path, name, count):
    """Go on with a history that others go on with, too."""
    history = [user("begin"), assistant("shared")]
    with open_store(path) as store:
        store.file(history)
        for number in range(int(count)):
            history.append(user(f"{name} {number}"))
            store.file(history)
    said.close()


def append_with_keys(said, path, identifier, number):
    """Append for ever, each with a key of its own, and tell before each which it is."""
    conversation = open_store(path).get(identifier)
    number = int(number)
    while True:
        said.send(number)
        conversation.append(user(f"{number}"), key=f"key {number}")
        number += 1


def file_for_ever(said, path):
    """File the same histories again and again, each a little longer; tell what was filed."""
    with open_store(path) as store:
        said.send("open")
        for turn in range(1, 10_000):
            for number in range(5):
                history = [user(f"question {number}"), *(user(f"{one}") for one in range(turn))]
                store.file(history)
                said.send((number, turn))

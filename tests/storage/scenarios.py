"""What a program does with a store, and what must be true of the store whenever it dies.

A scenario keeps a plain model of everything that was acknowledged, and of the one operation that was under
way. ``check`` opens the store again and compares.
"""

import random
from datetime import UTC, datetime, timedelta

from cannery.backends._encryption.backend import EncryptedBackend
from cannery.backends._encryption.outside import describing
from cannery.backends._hashing import Hashing
from cannery.backends.directory import DirectoryBackend
from cannery.errors import CanneryError, ConversationNotFoundError, StoreUnavailableError
from cannery.messages import ImageContentClass, UserCanisterClass, supervisor, user
from cannery.storage import Filing, Match, Store
from cannery.storage.description import describe

START = datetime(2026, 1, 1, tzinfo=UTC)
PICTURE = bytes(range(256)) * 8


class Model:
    """Conversations by id as lists of canisters; ``doing`` is what was begun and not acknowledged."""

    def __init__(self):
        self.conversations = {}
        self.deleted = set()
        self.doing = None
        self.made = 0


def open_simulated(operations, key=None):
    hashing = Hashing()
    backend = DirectoryBackend(operations, describing(describe), hashing, has_index_file=False)
    return Store(backend if key is None else EncryptedBackend(backend, describe, hashing, key, "."))


class Scenario:
    """Steps on one store; each notes what it is about to do, does it, and notes that it is done."""

    def __init__(self, store, model, seed=0):
        self.store = store
        self.model = model
        self.random = random.Random(seed)

    def canister(self, size):
        self.model.made += 1
        number = self.model.made
        when = START + timedelta(seconds=number)
        if size == "picture":
            return UserCanisterClass(ImageContentClass(PICTURE, "image/png"), when)
        if size == "prompt":
            return supervisor("Always the same words.", when)
        if size == "large":
            return user(f"large {number} " + self.random.randbytes(1250).hex(), when)
        return user(f"small {number}", when)

    def living(self):
        return sorted(self.model.conversations.keys() - self.model.deleted)

    def do(self, what, work, done):
        self.model.doing = what
        value = work()
        done(value)
        self.model.doing = None
        return value

    def create(self):
        def done(conversation):
            self.model.conversations[conversation.identifier] = []

        return self.do(("create",), self.store.create, done).identifier

    def append(self, identifier, *sizes):
        canisters = [self.canister(size) for size in sizes]
        self.do(
            ("append", identifier, canisters),
            lambda: self.store.handle(identifier).append(canisters),
            lambda _: self.model.conversations[identifier].extend(canisters),
        )

    def fork(self, identifier, at):
        prefix = self.model.conversations[identifier][:at]

        def done(fork):
            self.model.conversations[fork.identifier] = prefix

        return self.do(
            ("fork", prefix), lambda: self.store.handle(identifier).fork(at), done
        ).identifier

    def file(self, identifier, *sizes):
        """More of a conversation, and a new one, with one sync."""
        known = self.model.conversations[identifier]
        added = [self.canister(size) for size in sizes]
        history = [self.canister("prompt"), self.canister("small")]
        end = len(known)
        filings = [
            Filing([*known, *added], match=Match(end, identifier, end, end)),
            Filing(history, match=None),
        ]

        def work():
            filed = self.store.file_many(filings)
            for one in filed:
                if isinstance(one, CanneryError):
                    raise one
            return filed[1]

        def done(made):
            known.extend(added)
            self.model.conversations[made.identifier] = history

        return self.do(("file", identifier, added, history), work, done).identifier

    def delete(self, identifier):
        self.do(
            ("delete", identifier),
            lambda: self.store.delete(identifier),
            lambda _: self.model.deleted.add(identifier),
        )

    def collect(self):
        self.do(("collect",), self.store.collect_garbage, lambda _: None)

    def everything(self):
        """Some of each, small enough to be killed at every operation."""
        keeper = self.create()
        for _ in range(3):
            first = self.create()
            self.append(first, "small")
            self.append(first, "large", "picture")
            self.append(first, "prompt", "small")
            fork = self.fork(first, 3)
            self.append(fork, "small")
            self.append(fork, "picture")
            self.file(fork, "small", "large")
            second = self.create()
            self.append(second, "large")
            self.append(second, "large", "small", "large")
            self.delete(second)
            self.collect()
            self.append(first, "large")
            self.append(keeper, "small", "picture")
            self.delete(first)
            self.collect()
            self.append(fork, "large")

    def anything(self, steps):
        """Random steps."""
        self.create()
        for _ in range(steps):
            living = self.living() or [self.create()]
            one = self.random.choice(living)
            what = self.random.random()
            if what < 0.6:
                kinds = ["small", "small", "large", "picture", "prompt"]
                self.append(one, *self.random.choices(kinds, k=self.random.randint(1, 3)))
            elif what < 0.65:
                self.create()
            elif what < 0.7:
                self.file(one, "small")
            elif what < 0.82:
                self.fork(one, self.random.randint(0, len(self.model.conversations[one])))
            elif what < 0.9:
                self.delete(one)
            else:
                self.collect()


def living(store):
    """The conversations that are there, as the truth has it: no index is asked."""
    made = store.backend.metadata_many(store.backend.identifiers())
    return {one for one in made if store.any_metadata(one).deleted is None}


def check(store, model):
    """Everything acknowledged is there, what was under way is there as a whole or not at all."""
    doing = model.doing or ("nothing",)
    for identifier, expected in model.conversations.items():
        try:
            found = list(store.get(identifier).hydrate())
        except ConversationNotFoundError:
            gone = identifier in model.deleted or doing == ("delete", identifier)
            assert gone, f"lost conversation {identifier}"
            continue
        assert identifier not in model.deleted, "deleted, and there again"
        if doing[:2] in (("append", identifier), ("file", identifier)):
            assert found in (expected, expected + doing[2])
        else:
            assert found == expected
    extra = living(store) - model.conversations.keys()
    assert len(extra) <= (doing[0] in {"create", "fork", "file"})
    for identifier in extra:
        assert list(store.get(identifier).load()) in ([], doing[-1])
    report = store.verify()
    assert report.is_sound, report.damages


def go_on(store, model):
    """A store that was mended can be used: append everywhere, and check again."""
    scenario = Scenario(store, model)
    if model.doing is not None:
        # The next commit settles what a dead process had under way, one way or the other.
        doing = model.doing
        scenario.create()
        for identifier in list(model.conversations):
            try:
                model.conversations[identifier] = list(store.get(identifier).load())
            except ConversationNotFoundError:
                model.deleted.add(identifier)
        if doing[0] in {"create", "fork", "file"}:
            for identifier in living(store):
                loaded = list(store.get(identifier).load())
                model.conversations.setdefault(identifier, loaded)
    for identifier in scenario.living():
        scenario.append(identifier, "small", "large")
    scenario.collect()
    check(store, model)


def try_to(work):
    """Do something that the medium may refuse."""
    try:
        work()
    except StoreUnavailableError:
        return False
    return True

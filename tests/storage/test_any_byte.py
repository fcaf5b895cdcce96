"""A flipped bit in any file of a store is harmless or told: no answer is silently wrong, no error is a foreign one."""

import random
import shutil

import pytest

from cannery.errors import CanneryError
from cannery.messages import ImageContentClass, UserCanisterClass, assistant, supervisor, user
from cannery.storage import open_store

FLIPS = 250


@pytest.fixture(scope="module", params=["directory", "sqlite"])
def made(request, tmp_path_factory):
    """A store with some of everything, and what its conversations say."""
    path = tmp_path_factory.mktemp("any") / request.param
    path.mkdir()
    with open_store(located(path)) as store:
        first = store.create(
            "First", tags=("a",), canisters=[supervisor("Be brief. " * 30), user("needle one")]
        )
        first.append(assistant("word " * 1500), key="k1")
        fork = first.fork(2)
        fork.append(UserCanisterClass(ImageContentClass(bytes(range(256)) * 8, "image/png")))
        store.within("alice").create("Alice", canisters=[user("scoped " * 300)])
        store.file([user("filed"), assistant("history")], session="s")
        gone = store.create(canisters=[user("gone " * 400)])
        gone.delete()
        store.collect_garbage(grace=0)
        store.create(canisters=[user("tombstone " * 200)]).delete()
        assert len(store.search("needle")) == 1
        assert store.verify().is_sound
        truth = said(store)
    return path, truth


def located(path):
    return f"sqlite:{path / 'store.db'}" if path.name == "sqlite" else path


def said(store):
    """All that can be read, by conversation; None for what says that it cannot be."""
    found = {}
    for name in sorted(one.identifier for one in store.list()):
        try:
            found[name] = list(store.get(name).hydrate())
        except CanneryError:
            found[name] = None
    return found


def flips(path):
    chance = random.Random(11)
    files = [item for item in sorted(path.rglob("*")) if item.is_file() and item.stat().st_size]
    for item in files:
        size = item.stat().st_size
        # The heads and tails of files have most structure.
        ends = [*range(min(size, 40)), *range(max(size - 40, 0), size)]
        most = max(FLIPS // len(files), 12)
        chosen = {*chance.sample(ends, min(len(ends), most // 2))}
        chosen |= {chance.randrange(size) for _ in range(most // 2)}
        for place in sorted(chosen):
            yield item, place, 1 << chance.randrange(8)


def test_a_flipped_bit_anywhere_is_harmless_or_told(made, tmp_path):
    path, truth = made
    copy = tmp_path / path.name
    shutil.copytree(path, copy)
    count = 0
    for item, place, bit in flips(path):
        file = copy / item.relative_to(path)
        data = bytearray(file.read_bytes())
        data[place] ^= bit
        file.write_bytes(data)
        where = f"{file.relative_to(copy)} at {place}, bit {bit}"
        try:
            with open_store(located(copy)) as store:
                found = said(store)
                told = bool(store.verify().damages or store.recovered)
                store.search("needle")
                store.collect_garbage(dry_run=True)
            assert found == truth or told, where
            for name, canisters in found.items():
                assert canisters in (None, truth.get(name)), where
        except CanneryError:
            pass
        shutil.rmtree(copy)
        shutil.copytree(path, copy)
        count += 1
    assert count >= FLIPS // 2

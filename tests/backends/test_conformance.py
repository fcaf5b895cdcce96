"""What every backend must do; a new one is added to ``LOCATIONS`` and nothing else."""

import hashlib
import threading

import pytest

from cannery.backends import Change, backend_names, open_backend, referred
from cannery.errors import (
    ConfigurationError,
    ConflictError,
    ContentNotFoundError,
    InputError,
)

LOCATIONS = {
    "directory": lambda path: str(path / "store"),
    "memory": lambda path: f"memory:{path}",
}


def test_every_backend_is_tested():
    assert set(LOCATIONS) == set(backend_names())


@pytest.fixture(params=sorted(LOCATIONS))
def location(request, tmp_path):
    return LOCATIONS[request.param](tmp_path)


@pytest.fixture
def backend(location):
    opened = open_backend(location)
    yield opened
    opened.close()


def made(backend, identifier="c", base=0):
    metadata = b'{"id":"%b"}' % identifier.encode()
    backend.commit(
        Change(identifier=identifier, requires={identifier: None}, metadata=metadata, base=base)
    )
    return metadata


def change(metadata, *lines, identifier="c", contents=(), **more):
    return Change(
        identifier=identifier,
        requires={identifier: metadata},
        lines=[b'{"n":"%b"}' % line for line in lines],
        contents={hashlib.sha256(data).digest(): data for data in contents},
        **more,
    )


def plain(reading):
    return [line.partition(b',"check"')[0].rstrip(b"}") for line in reading.lines]


def test_lines_come_back_in_order(backend):
    metadata = made(backend)
    assert backend.commit(change(metadata, b"a", b"b"))[:2] == (0, 2)
    assert backend.commit(change(metadata, b"c"))[:2] == (2, 3)
    assert plain(backend.read("c", 0, 0)) == [b'{"n":"a"', b'{"n":"b"', b'{"n":"c"']
    assert plain(backend.read("c", 0, 1, 2)) == [b'{"n":"b"']
    assert backend.read("c", 0, 1, 2).start == 1
    assert plain(backend.read("c", 0, 3)) == []
    assert plain(backend.read("c", 0, 5, 9)) == []
    assert backend.end("c", 0) == 3


def test_a_log_may_begin_at_any_position(backend):
    metadata = made(backend, base=7)
    assert backend.end("c", 7) == 7
    assert backend.commit(change(metadata, b"a", base=7))[:2] == (7, 8)
    assert backend.read("c", 7, 0).start == 7
    assert backend.end("c", 7) == 8


def test_what_was_refused_leaves_nothing_behind(backend):
    unknown = {bytes(32): None}
    refused = Change(
        identifier="c",
        requires={"c": None},
        metadata=b"{}",
        lines=[b"{}"],
        base=7,
        contents=unknown,
    )
    with pytest.raises(ContentNotFoundError):
        backend.commit(refused)
    metadata = made(backend)
    assert backend.commit(change(metadata, b"a"))[:2] == (0, 1)
    assert plain(backend.read("c", 0, 0)) == [b'{"n":"a"']


def test_requirements_are_checked_and_nothing_is_done(backend):
    metadata = made(backend)
    backend.commit(change(metadata, b"a"))
    data = b"content"
    for refused in (
        change(b'{"id":"other"}', b"x", contents=[data]),
        change(metadata, b"x", expected=0, contents=[data]),
        change(None, b"x", contents=[data]),
        Change(identifier="d", requires={"d": None, "nobody": b"{}"}, metadata=b"{}"),
    ):
        with pytest.raises(ConflictError):
            backend.commit(refused)
    assert backend.end("c", 0) == 1
    assert not backend.has(hashlib.sha256(data).digest())
    assert backend.metadata("d") is None
    assert backend.commit(change(metadata, b"b", expected=1))[:2] == (1, 2)


def test_metadata_is_replaced_only_if_it_is_what_was_read(backend):
    metadata = made(backend)
    new = b'{"id":"c","title":"t"}'
    backend.commit(Change(identifier="c", requires={"c": metadata}, metadata=new))
    assert backend.metadata("c") == new
    with pytest.raises(ConflictError):
        backend.commit(Change(identifier="c", requires={"c": metadata}, metadata=b'{"x":1}'))
    assert backend.metadata("c") == new
    assert backend.metadata("other") is None
    assert list(backend.identifiers()) == ["c"]


def test_content_is_shared_and_verified(backend):
    metadata = made(backend)
    small, large = b"s" * 10, bytes(range(256)) * 1000
    backend.commit(change(metadata, b"a", contents=[small, large]))
    backend.commit(change(metadata, b"b", contents=[small]))
    for data in (small, large):
        digest = hashlib.sha256(data).digest()
        assert backend.has(digest)
        assert backend.get(digest) == data
    digests = [hashlib.sha256(data).digest() for data in (small, large, small)]
    assert dict(backend.get_many(digests)) == {digests[0]: small, digests[1]: large}
    inspection = backend.inspect()
    assert (inspection.contents, inspection.damages) == (2, ())
    with pytest.raises(ContentNotFoundError):
        backend.get(bytes(32))
    with pytest.raises(ContentNotFoundError):
        list(backend.get_many([bytes(32)]))


def test_content_that_must_be_there(backend):
    metadata = made(backend)
    digest = hashlib.sha256(b"x").digest()
    refers = Change(
        identifier="c", requires={"c": metadata}, lines=[b"{}"], contents={digest: None}
    )
    with pytest.raises(ContentNotFoundError):
        backend.commit(refers)
    assert backend.end("c", 0) == 0
    backend.commit(change(metadata, b"a", contents=[b"x"]))
    assert backend.commit(refers)[:2] == (1, 2)


@pytest.mark.parametrize("level", ["sync", "group", "os"])
def test_several_changes_at_once_are_each_all_or_nothing(backend, level):
    metadata = made(backend)
    before = backend.changes(None).cursor
    new = b'{"id":"d"}'
    receipts = backend.commit_each(
        [
            change(metadata, b"a", contents=[b"x"]),
            Change(identifier="d", requires={"d": None}, metadata=new),
            change(metadata, b"never", expected=0),
            change(new, b"b", identifier="d"),
            change(metadata, b"never", contents=[b"y"], base=0, expected=7),
            change(metadata, b"c", contents=[b"x"], expected=1),
        ],
        level,
    )
    refused = [isinstance(one, ConflictError) for one in receipts]
    assert refused == [False, False, True, False, True, False]
    done = [one for one in receipts if not isinstance(one, ConflictError)]
    assert [one[:2] for one in done] == [(0, 1), (0, 0), (0, 1), (1, 2)]
    assert plain(backend.read("c", 0, 0)) == [b'{"n":"a"', b'{"n":"c"']
    assert plain(backend.read("d", 0, 0)) == [b'{"n":"b"']
    assert not backend.has(hashlib.sha256(b"y").digest())
    places = backend.changes(before).places
    noted = [one.place for one in done]
    assert places == {"c": [noted[0], noted[3]], "d": [noted[1], noted[2]]}
    assert backend.commit_each([], level) == []


@pytest.mark.parametrize("level", ["sync", "group", "os"])
def test_what_was_written_is_read_at_every_level(backend, level):
    metadata = made(backend)
    for number in range(20):
        backend.commit(change(metadata, b"%d" % number, contents=[b"%d" % number]), level)
        assert backend.end("c", 0) == number + 1
    assert backend.get(hashlib.sha256(b"19").digest()) == b"19"


def test_changes_are_told_once(backend):
    cursor = backend.changes(None).cursor
    metadata = made(backend)
    made(backend, "d")
    growth = backend.changes(cursor)
    assert sorted(growth.places) == ["c", "d"]
    assert list(backend.changes(growth.cursor).places) == []
    backend.commit(change(metadata, b"a"))
    assert list(backend.changes(growth.cursor).places) == ["c"]


def test_gc_frees_what_nothing_refers_to(backend):
    one = made(backend)
    two = made(backend, "d")
    kept, lost = b"k" * 3000, b"l" * 3000
    for metadata, identifier, contents in ((one, "c", [kept, lost]), (two, "d", [kept])):
        ids = b",".join(
            b'"sha256:%b"' % hashlib.sha256(data).hexdigest().encode() for data in contents
        )
        backend.commit(
            Change(
                identifier=identifier,
                requires={identifier: metadata},
                lines=[b'{"ids":[%b]}' % ids],
                contents={hashlib.sha256(data).digest(): data for data in contents},
            )
        )
    steps = []
    dry = backend.collect(
        lambda _: {"c": None}, dry_run=True, progress=lambda *step: steps.append(step)
    )
    assert dry.conversations == ("c",)
    assert (dry.contents, dry.is_dry_run) == (1, True)
    assert backend.has(hashlib.sha256(lost).digest())
    done = backend.collect(lambda metadata: dict.fromkeys(metadata.keys() & {"c"}))
    assert (done.conversations, done.contents) == (dry.conversations, dry.contents)
    assert backend.metadata("c") is None
    assert not backend.has(hashlib.sha256(lost).digest())
    assert backend.get(hashlib.sha256(kept).digest()) == kept
    assert backend.end("d", 0) == 1
    assert steps
    # What was freed can be stored again.
    backend.commit(change(two, b"x", identifier="d", contents=[lost]))
    assert backend.get(hashlib.sha256(lost).digest()) == lost


@pytest.mark.parametrize("base", [0, 7])
def test_gc_keeps_as_many_lines_of_a_deleted_conversation_as_are_needed(backend, base):
    metadata = made(backend, base=base)
    contents = [b"%d" % number * 2000 for number in range(4)]
    for data in contents:
        digest = hashlib.sha256(data).digest()
        line = b'{"id":"sha256:%b"}' % digest.hex().encode()
        backend.commit(
            Change(
                identifier="c",
                requires={"c": metadata},
                lines=[line],
                contents={digest: data},
                base=base,
            )
        )
    dry = backend.collect(lambda _: {"c": 3}, dry_run=True)
    assert (dry.conversations, dry.contents) == ((), 1)
    assert backend.end("c", base) == base + 4
    for needed, kept in ((9, 4), (4, 4), (3, 3), (3, 3), (1, 1), (0, 0)):
        done = backend.collect(lambda _, needed=needed: {"c": needed})
        assert done.conversations == ()
        assert backend.end("c", base) == base + kept
        reading = backend.read("c", base, base)
        assert (len(reading.lines), reading.damages) == (kept, ())
        there = [backend.has(hashlib.sha256(data).digest()) for data in contents]
        assert there == [True] * kept + [False] * (4 - kept)
    assert backend.metadata("c") == metadata
    assert backend.inspect().damages == ()


def test_threads_lose_nothing(backend):
    metadata = made(backend)

    def work(writer):
        for number in range(50):
            text = b"%d-%d" % (writer, number)
            backend.commit(change(metadata, text, contents=[text * 500, b"shared" * 500]), "group")

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [line[6:-1] for line in plain(backend.read("c", 0, 0))]
    assert len(found) == 400
    for writer in range(8):
        own = [one for one in found if one.startswith(b"%d-" % writer)]
        assert own == [b"%d-%d" % (writer, number) for number in range(50)]
    assert backend.inspect().contents == 401


def test_two_openings_see_the_same(location):
    one, two = open_backend(location), open_backend(location)
    metadata = made(one)
    two.commit(change(metadata, b"a", contents=[b"x" * 2000]))
    one.commit(change(metadata, b"b", contents=[b"x" * 2000]))
    assert one.end("c", 0) == two.end("c", 0) == 2
    assert two.inspect().contents == 1
    one.close()
    assert two.get(hashlib.sha256(b"x" * 2000).digest())
    two.close()
    two.close()


@pytest.mark.parametrize("bad", ["../c", "", "C", "a/b", "c\x00"])
def test_an_id_that_is_none_is_refused(backend, bad):
    with pytest.raises(InputError):
        backend.metadata(bad)
    with pytest.raises(InputError):
        backend.commit(Change(identifier=bad, requires={}, metadata=b"{}"))
    with pytest.raises(InputError):
        backend.read(bad, 0, 0)


def test_unknown_schemes_are_named():
    with pytest.raises(ConfigurationError, match="directory, memory"):
        open_backend("carrier-pigeon://x".replace("-", ""))


def test_urls(tmp_path):
    open_backend(f"file://{tmp_path}/a%20b").close()
    assert (tmp_path / "a b" / "cannery.json").exists()
    open_backend(f"directory:{tmp_path}/c").close()
    assert (tmp_path / "c" / "cannery.json").exists()


def test_references_in_lines():
    digest = hashlib.sha256(b"").hexdigest()
    line = f'{{"content_id":"sha256:{digest}","text":"sha256:{digest}0"}}'.encode()
    assert referred(line) == {bytes.fromhex(digest)}


def test_content_that_another_opening_is_about_to_store_is_stored_once(location):
    one, two = open_backend(location), open_backend(location)
    metadata = made(one)
    for number in range(5):
        data = b"%d" % number * 2000
        one.commit(change(metadata, b"a", contents=[data]), "os")
        two.commit(change(metadata, b"b", contents=[data]), "os")
    assert two.inspect().contents == 5
    one.close()
    two.close()

"""What every backend must do; a new one is added to ``LOCATIONS`` and nothing else."""

import hashlib
import itertools
import threading
import time
from datetime import UTC, datetime

import pytest

from cannery.backends import (
    Change,
    Entry,
    Metadata,
    Selection,
    Span,
    Term,
    backend_names,
    referred,
    sortable,
)
from cannery.backends import open_backend as open_described
from cannery.errors import (
    ConfigurationError,
    ConflictError,
    ContentNotFoundError,
    InputError,
)
from tests.locations import Encrypted, key_in, new_database

LOCATIONS = {
    "directory": lambda path: str(path / "store"),
    "sqlite": lambda path: f"sqlite:{path}/store.sqlite",
    "postgresql": lambda _: new_database(),
    "postgresql-s3": lambda _: new_database(with_bucket=True),
    "directory-encrypted": lambda path: Encrypted(str(path / "store"), key_in(path)),
    "sqlite-encrypted": lambda path: Encrypted(f"sqlite:{path}/store.sqlite", key_in(path)),
    "postgresql-encrypted": lambda path: Encrypted(new_database(), key_in(path)),
}
START = datetime(2026, 1, 1, tzinfo=UTC)


def entry_of(line):
    """What a line of these tests means: it says its one word."""
    word = line.partition(b':"')[2].partition(b'"')[0].decode()
    own = hashlib.sha256(word.encode()).digest()
    return Entry("user", sortable(START), own, None, None, lambda: word)


def describe(contents, lines):
    return [entry_of(line) for line in lines]


def open_backend(location):
    if isinstance(location, Encrypted):
        return open_described(location.place, describe, encryption_key=location.key)
    return open_described(location, describe)


def test_every_backend_is_tested():
    assert {name.partition("-")[0] for name in LOCATIONS} == set(backend_names())


@pytest.fixture(params=sorted(LOCATIONS))
def location(request, tmp_path):
    return LOCATIONS[request.param](tmp_path)


@pytest.fixture
def backend(location):
    opened = open_backend(location)
    yield opened
    opened.close()


def metadata_of(identifier="c", **facts):
    return Metadata(identifier, START, START, **facts)


def made(backend, identifier="c", base=0, **facts):
    parent = None
    if base:
        made(backend, f"{identifier}-parent", lines=[b"p"] * base)
        parent = f"{identifier}-parent"
    lines = [b'{"n":"%b"}' % line for line in facts.pop("lines", ())]
    metadata = metadata_of(identifier, parent=parent, position=base, **facts)
    backend.commit(
        Change(
            identifier=identifier,
            requires={identifier: None},
            metadata=metadata,
            base=base,
            lines=lines,
            entries=[entry_of(line) for line in lines],
            scope=metadata.scope,
            session=metadata.session,
        )
    )
    return metadata.encode()


def change(metadata, *lines, identifier="c", contents=(), **more):
    made_lines = [b'{"n":"%b"}' % line for line in lines]
    return Change(
        identifier=identifier,
        requires={identifier: metadata},
        lines=made_lines,
        entries=[entry_of(line) for line in made_lines],
        contents={hashlib.sha256(data).digest(): data for data in contents},
        **more,
    )


def deleted(backend, identifier="c", **facts):
    """Delete a conversation; its metadata."""
    raw = backend.metadata(identifier)
    gone = metadata_of(identifier, deleted=START, **facts)
    backend.commit(Change(identifier=identifier, requires={identifier: raw}, metadata=gone))
    return gone.encode()


def chain(*words):
    """The digests of a history of words."""
    from cannery.messages.identity import ROOT, continued

    digest, found = ROOT, []
    for word in words:
        digest = continued(digest, hashlib.sha256(word.encode()).digest())
        found.append(digest)
    return found


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
    made(backend, "parent", lines=[b"p"] * 7)
    refused = Change(
        identifier="c",
        requires={"c": None},
        metadata=metadata_of(parent="parent", position=7),
        lines=[b"{}"],
        entries=[entry_of(b"{}")],
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
        Change(identifier="d", requires={"d": None, "nobody": b"{}"}, metadata=metadata_of("d")),
    ):
        with pytest.raises(ConflictError):
            backend.commit(refused)
    assert backend.end("c", 0) == 1
    assert not backend.contents("").has([hashlib.sha256(data).digest()])
    assert backend.metadata("d") is None
    assert backend.commit(change(metadata, b"b", expected=1))[:2] == (1, 2)


def test_metadata_is_replaced_only_if_it_is_what_was_read(backend):
    metadata = made(backend)
    new = metadata_of(title="t")
    backend.commit(Change(identifier="c", requires={"c": metadata}, metadata=new))
    assert backend.metadata("c") == new.encode()
    other = metadata_of(title="x")
    with pytest.raises(ConflictError):
        backend.commit(Change(identifier="c", requires={"c": metadata}, metadata=other))
    assert backend.metadata("c") == new.encode()
    assert backend.metadata_many(["c", "other"]) == {"c": new.encode()}
    assert backend.metadata("other") is None
    assert list(backend.identifiers()) == ["c"]


def test_content_is_shared_and_verified(backend):
    metadata = made(backend)
    small, large = b"s" * 10, bytes(range(256)) * 1000
    backend.commit(change(metadata, b"a", contents=[small, large]))
    backend.commit(change(metadata, b"b", contents=[small]))
    contents = backend.contents("")
    for data in (small, large):
        digest = hashlib.sha256(data).digest()
        assert contents.has([digest, bytes(32)]) == {digest}
        assert contents.get(digest) == data
        assert b"".join(contents.stream(digest)) == data
    digests = [hashlib.sha256(data).digest() for data in (small, large, small)]
    assert dict(contents.get_many(digests)) == {digests[0]: small, digests[1]: large}
    inspection = backend.inspect()
    assert (inspection.contents, inspection.damages) == (2, ())
    with pytest.raises(ContentNotFoundError):
        contents.get(bytes(32))
    with pytest.raises(ContentNotFoundError):
        list(contents.get_many([bytes(32)]))
    with pytest.raises(ContentNotFoundError):
        list(contents.stream(bytes(32)))


def test_content_that_must_be_there(backend):
    metadata = made(backend)
    digest = hashlib.sha256(b"x").digest()
    refers = change(metadata, b"r")
    refers = Change(
        identifier="c",
        requires={"c": metadata},
        lines=refers.lines,
        entries=refers.entries,
        contents={digest: None},
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
    new = metadata_of("d")
    receipts = backend.commit_each(
        [
            change(metadata, b"a", contents=[b"x"]),
            Change(identifier="d", requires={"d": None}, metadata=new),
            change(metadata, b"never", expected=0),
            change(new.encode(), b"b", identifier="d"),
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
    assert not backend.contents("").has([hashlib.sha256(b"y").digest()])
    places = {one.identifier: one.place for one in backend.changes(before).noted}
    assert places == {"c": done[3].place, "d": done[2].place}
    assert backend.commit_each([], level) == []


def test_words_that_are_no_unicode_spoil_nothing(backend):
    metadata = made(backend)
    odd = change(metadata, b"x")
    odd = Change(
        identifier="c",
        requires={"c": metadata},
        lines=odd.lines,
        entries=[odd.entries[0]._replace(words=lambda: "needle \ud800 hay")],
    )
    outcomes = backend.commit_each([odd, change(metadata, b"good")])
    assert [one[:2] for one in outcomes] == [(0, 1), (1, 2)]
    found = backend.catalogue.search([Term("good")], Selection(), 5)
    assert [one.identifier for one in found] == ["c"]
    with pytest.raises(InputError):
        backend.catalogue.search([Term("\ud800")], Selection(), 5)


@pytest.mark.parametrize("level", ["sync", "group", "os"])
def test_what_was_written_is_read_at_every_level(backend, level):
    metadata = made(backend)
    for number in range(20):
        backend.commit(change(metadata, b"%d" % number, contents=[b"%d" % number]), level)
        assert backend.end("c", 0) == number + 1
    assert backend.contents("").get(hashlib.sha256(b"19").digest()) == b"19"


def test_changes_are_told_in_pages(backend):
    cursor = backend.changes(None).cursor
    metadata = made(backend)
    made(backend, "d")
    growth = backend.changes(cursor)
    assert [one.identifier for one in growth.noted] == ["c", "d"]
    assert not backend.changes(growth.cursor).noted
    backend.commit(change(metadata, b"a"))
    assert [one.identifier for one in backend.changes(growth.cursor).noted] == ["c"]
    for number in range(10):
        made(backend, f"e{number}")
    told, has_more = [], True
    while has_more:
        page = backend.changes(cursor, 3)
        told += [one.identifier for one in page.noted]
        cursor, has_more = page.cursor, page.has_more
    assert set(told) == {"c", "d", *(f"e{number}" for number in range(10))}
    assert backend.changes("from another store").noted is None


def test_a_feed_leaves_out_nothing_while_others_commit(location):
    """Whoever follows with cursors hears of every conversation, whatever is committed meanwhile."""
    backend = open_backend(location)
    cursor = backend.changes(None).cursor

    def work(writer):
        other = open_backend(location)
        for number in range(30):
            made(other, f"w{writer}-{number}")
        other.close()

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    told = set()
    is_over = False
    while not is_over:
        is_over = not any(thread.is_alive() for thread in threads)
        has_more = True
        while has_more:
            page = backend.changes(cursor, 7)
            told |= {one.identifier for one in page.noted}
            cursor, has_more = page.cursor, page.has_more
    assert told == {f"w{writer}-{number}" for writer in range(4) for number in range(30)}
    backend.close()


# Keys, claims, scopes


@pytest.mark.parametrize("level", ["sync", "os"])
def test_a_second_commit_with_a_key_gives_the_first_receipt(location, level):
    backend = open_backend(location)
    metadata = made(backend)
    first = backend.commit(change(metadata, b"a", key="k"), level)
    backend.commit(change(metadata, b"b"), level)
    assert backend.commit(change(metadata, b"a", key="k"), level) == first
    again, other = backend.commit_each(
        [change(metadata, b"a", key="k"), change(metadata, b"c", key="l")], level
    )
    assert (again, other[:2]) == (first, (2, 3))
    backend.close()
    backend = open_backend(location)
    assert backend.commit(change(b"whatever", b"a", key="k")) == first
    assert backend.end("c", 0) == 3
    # The keys of another scope are others.
    elsewhere = made(backend, "d", scope="s")
    assert backend.commit(change(elsewhere, b"a", identifier="d", key="k", scope="s"))[:2] == (0, 1)
    backend.close()


def test_a_refused_commit_with_a_key_can_be_made_later(backend):
    metadata = made(backend)
    with pytest.raises(ConflictError):
        backend.commit(change(metadata, b"a", key="k", expected=5))
    assert backend.commit(change(metadata, b"a", key="k", expected=0))[:2] == (0, 1)


def claiming(identifier, *words, scope="", session=""):
    lines = [b'{"n":"%b"}' % word.encode() for word in words]
    return Change(
        identifier=identifier,
        requires={identifier: None},
        metadata=metadata_of(identifier, scope=scope, session=session),
        lines=lines,
        entries=[entry_of(line) for line in lines],
        scope=scope,
        session=session,
        claims=chain(*words)[:1],
    )


def test_what_a_living_conversation_has_claimed_cannot_be_claimed_again(backend):
    backend.commit(claiming("c", "a", "b"))
    with pytest.raises(ConflictError):
        backend.commit(claiming("d", "a"))
    outcomes = backend.commit_each([claiming("e", "x"), claiming("f", "x"), claiming("g", "y")])
    assert [isinstance(one, ConflictError) for one in outcomes] == [False, True, False]
    for scope, session in (("s", ""), ("", "t"), ("s", "t")):
        backend.commit(claiming(f"c{scope}{session}", "a", scope=scope, session=session))
        with pytest.raises(ConflictError):
            backend.commit(claiming("d", "a", scope=scope, session=session))
    deleted(backend)
    backend.commit(claiming("d", "a"))
    assert backend.metadata("f") is None


def test_of_many_that_claim_the_same_one_is_made(location):
    """Openings stand for processes: they share nothing but the store."""
    made_by = []

    def work(writer):
        backend = open_backend(location)
        for number in range(20):
            (outcome,) = backend.commit_each([claiming(f"w{writer}-{number}", f"word {number}")])
            if not isinstance(outcome, ConflictError):
                made_by.append(number)
        backend.close()

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made_by) == list(range(20))


def test_scopes_share_no_content(backend):
    data = b"shared?" * 1000
    digest = hashlib.sha256(data).digest()
    one = made(backend, "c", scope="one")
    two = made(backend, "d", scope="two")
    backend.commit(referring(one, "c", [data], scope="one"))
    refers = change(two, b"b", identifier="d", scope="two")
    refers = Change(
        identifier="d",
        requires={"d": two},
        lines=refers.lines,
        entries=refers.entries,
        contents={digest: None},
        scope="two",
    )
    with pytest.raises(ContentNotFoundError):
        backend.commit(refers)
    for scope, is_there in (("one", True), ("two", False), ("", False)):
        assert bool(backend.contents(scope).has([digest])) is is_there
    with pytest.raises(ContentNotFoundError):
        backend.contents("two").get(digest)
    backend.commit(referring(two, "d", [data], scope="two"))
    assert backend.inspect().contents == 2
    assert backend.inspect().damages == ()
    deleted(backend, scope="one")
    assert backend.collect().contents == 1
    assert backend.contents("two").get(digest) == data
    assert not backend.contents("one").has([digest])


# Staging


@pytest.mark.parametrize("scope", ["", "s"])
@pytest.mark.parametrize("size", [0, 10, 3 << 20, 9 << 20])
def test_content_is_staged_in_pieces(backend, scope, size):
    pattern = bytes(range(256)) * 40
    data = (pattern * (size // len(pattern) + 1))[:size]
    pieces = [data[start : start + 300_000] for start in range(0, size, 300_000)]
    contents = backend.contents(scope)
    staged = contents.stage(iter(pieces))
    assert staged == (hashlib.sha256(data).digest(), size)
    assert contents.stage(iter(pieces)) == staged
    metadata = made(backend, scope=scope)
    line = b'{"n":"x","id":"sha256:%b"}' % staged.digest.hex().encode()
    backend.commit(
        Change(
            identifier="c",
            requires={"c": metadata},
            lines=[line],
            entries=[entry_of(line)],
            contents={staged.digest: None},
            scope=scope,
        )
    )
    assert b"".join(contents.stream(staged.digest)) == contents.get(staged.digest) == data
    assert backend.collect(grace=0).contents == 0
    assert contents.get(staged.digest) == data
    assert backend.inspect().damages == ()


def test_what_was_staged_and_not_used_is_freed_after_a_while(backend):
    contents = backend.contents("")
    kept, lost = (contents.stage([word * 5000]).digest for word in (b"kept", b"lost"))
    metadata = made(backend)
    line = b'{"n":"x","id":"sha256:%b"}' % kept.hex().encode()
    assert backend.collect(grace=1000).contents == 0
    backend.commit(
        Change(
            identifier="c",
            requires={"c": metadata},
            lines=[line],
            entries=[entry_of(line)],
            contents={kept: None},
        )
    )
    time.sleep(1)
    assert backend.collect(grace=0).contents == 1
    assert contents.has([kept, lost]) == {kept}


# gc


def referring(metadata, identifier, contents, **more):
    ids = b",".join(b'"sha256:%b"' % hashlib.sha256(data).hexdigest().encode() for data in contents)
    line = b'{"n":"x","ids":[%b]}' % ids
    return Change(
        identifier=identifier,
        requires={identifier: metadata},
        lines=[line],
        entries=[entry_of(line)],
        contents={hashlib.sha256(data).digest(): data for data in contents},
        **more,
    )


def test_gc_frees_what_nothing_refers_to(backend):
    kept, lost = b"k" * 3000, b"l" * 3000
    two = made(backend, "d")
    backend.commit(referring(made(backend), "c", [kept, lost]))
    backend.commit(referring(two, "d", [kept]))
    deleted(backend)
    steps = []
    dry = backend.collect(dry_run=True, progress=lambda *step: steps.append(step))
    assert dry.conversations == ("c",)
    assert (dry.contents, dry.is_dry_run) == (1, True)
    contents = backend.contents("")
    digest = hashlib.sha256(lost).digest()
    assert contents.has([digest])
    done = backend.collect()
    assert (done.conversations, done.contents) == (dry.conversations, dry.contents)
    assert backend.metadata("c") is None
    assert not contents.has([digest])
    assert contents.get(hashlib.sha256(kept).digest()) == kept
    assert backend.end("d", 0) == 1
    assert steps
    # What was freed can be stored again.
    backend.commit(change(two, b"x", identifier="d", contents=[lost]))
    assert contents.get(digest) == lost


@pytest.mark.parametrize("base", [0, 7])
def test_gc_keeps_as_many_lines_of_a_deleted_conversation_as_forks_need(backend, base):
    metadata = made(backend, base=base)
    contents = [b"%d" % number * 2000 for number in range(4)]
    for data in contents:
        backend.commit(referring(metadata, "c", [data], base=base))
    forks = []
    for position in (base + 3, base + 1):
        fork = metadata_of(f"fork{position}", parent="c", position=position)
        requires = {fork.id: None, "c": metadata}
        backend.commit(Change(identifier=fork.id, requires=requires, metadata=fork, base=position))
        forks.append(fork)
    parent = "c-parent" if base else None
    gone = metadata_of(parent=parent, position=base, deleted=START)
    backend.commit(Change(identifier="c", requires={"c": metadata}, metadata=gone, base=base))
    dry = backend.collect(dry_run=True)
    assert (dry.conversations, dry.contents) == ((), 1)
    assert backend.end("c", base) == base + 4
    for kept, fork in ((3, forks[0]), (1, forks[1])):
        for _ in range(2):
            backend.collect()
            assert backend.end("c", base) == base + kept
            reading = backend.read("c", base, base)
            assert (len(reading.lines), reading.damages) == (kept, ())
        digests = [hashlib.sha256(data).digest() for data in contents]
        assert backend.contents("").has(digests) == set(digests[:kept])
        assert backend.metadata("c") == gone.encode()
        assert backend.inspect().damages == ()
        ended = metadata_of(fork.id, parent="c", position=fork.position, deleted=START)
        backend.commit(
            Change(
                identifier=fork.id,
                requires={fork.id: fork.encode()},
                metadata=ended,
                base=fork.position,
            )
        )
    assert set(backend.collect().conversations) == {"c", forks[1].id}
    assert not backend.contents("").has(digests)


def test_gc_beside_writers_that_store_the_same_again(location):
    """What is about to be freed is stored again, by the digest alone where it is still there."""
    backend = open_backend(location)
    until = time.monotonic() + 1.5
    problems = []

    def work(writer):
        other = open_backend(location)
        kept = made(other, f"kept{writer}")
        held = []
        for number in itertools.count():
            if time.monotonic() > until:
                break
            name = f"w{writer}-{number}"
            data = b"%d" % (number % 5) * 3000
            other.commit(referring(made(other, name), name, [data]))
            if number % 3 == 0:
                other.commit(referring(kept, f"kept{writer}", [data]))
                held.append(data)
            deleted(other, name)
        contents = other.contents("")
        problems.extend(
            data for data in held if contents.get(hashlib.sha256(data).digest()) != data
        )
        other.close()

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        backend.collect(grace=0)
    assert problems == []
    assert backend.inspect().damages == ()
    backend.close()


# The catalogue


def test_histories_are_recognised_within_scope_and_session(backend):
    made(backend, "c", lines=[b"a", b"b", b"c"])
    made(backend, "d", lines=[b"a", b"x"], session="t")
    made(backend, "e", lines=[b"a"], scope="s")
    catalogue = backend.catalogue
    digests = chain("a", "b", "z")
    (found,) = catalogue.match("", "", [digests])
    assert (found.known, found.identifier, found.position, found.length) == (2, "c", 2, 3)
    assert not found.is_at_end
    matches = catalogue.match("", "", [chain("a", "b", "c"), chain("q"), [None, *chain("a")]])
    assert [one and (one.identifier, one.known) for one in matches] == [("c", 3), None, ("c", 2)]
    (found,) = catalogue.match("", "t", [digests])
    assert (found.identifier, found.known) == ("d", 1)
    (found,) = catalogue.match("s", "", [digests])
    assert (found.identifier, found.known, found.is_at_end) == ("e", 1, True)
    assert catalogue.match("s", "t", [digests]) == [None]
    assert catalogue.said_before("c", 2) == (digests[1], 2)
    assert catalogue.said_before("c", 0) == (None, 0)


def test_any_run_of_digests_is_found_in_one_call(backend):
    made(backend, "c", lines=[b"a", b"b", b"c"])
    made(backend, "d", lines=[b"x", b"b"], session="t")
    made(backend, "e", lines=[b"b"], scope="s")
    owns = {word: hashlib.sha256(word.encode()).digest() for word in "abcq"}
    found = backend.catalogue.holders("", owns.values())
    assert sorted((one.identifier, one.position, one.session) for one in found) == [
        ("c", 0, ""),
        ("c", 1, ""),
        ("c", 2, ""),
        ("d", 1, "t"),
    ]
    assert [one.identifier for one in backend.catalogue.holders("s", owns.values())] == ["e"]
    deleted(backend)
    found = backend.catalogue.holders("", owns.values())
    assert [one.identifier for one in found] == ["d"]


def test_a_fork_goes_on_with_its_parents_history(backend):
    made(backend, "c", lines=[b"a", b"b", b"c"])
    fork = metadata_of("f", parent="c", position=2)
    lines = [b'{"n":"y"}']
    backend.commit(
        Change(
            identifier="f",
            requires={"f": None},
            metadata=fork,
            base=2,
            lines=lines,
            entries=list(map(entry_of, lines)),
        )
    )
    (found,) = backend.catalogue.match("", "", [chain("a", "b", "y", "z")])
    assert (found.identifier, found.known, found.is_at_end) == ("f", 3, True)
    deleted(backend)
    (found,) = backend.catalogue.match("", "", [chain("a", "b", "c")])
    assert (found.identifier, found.known, found.is_at_end) == ("f", 2, False)
    tree = {one.identifier: one for one in backend.catalogue.tree("f")}
    assert (tree["f"].parent, tree["f"].position, tree["c"].is_deleted) == ("c", 2, True)
    found = backend.catalogue.search([Term("b")], Selection(), 10)
    assert [(one.identifier, one.position) for one in found] == [("f", 1)]


def test_a_child_that_shares_nothing_with_a_fork_begins_anew(backend):
    made(backend, "c", lines=[b"a", b"b"])
    made_in = {"parent": "c", "position": 1}
    for identifier, facts in (("f", made_in), ("g", {"parent": "f", "kind": "title"})):
        metadata = metadata_of(identifier, **facts)
        lines = [b'{"n":"y"}']
        backend.commit(
            Change(
                identifier=identifier,
                requires={identifier: None},
                metadata=metadata,
                base=metadata.position,
                lines=lines,
                entries=list(map(entry_of, lines)),
            )
        )
    for _ in range(2):
        (found,) = backend.catalogue.match("", "", [chain("y")])
        assert (found.identifier, found.known, found.is_at_end) == ("g", 1, True)
        assert {one.identifier for one in backend.catalogue.tree("g")} == {"c", "f", "g"}
        backend.catalogue.rebuild()


def test_a_child_may_be_older_than_its_parent(backend):
    raw = made(backend, "c", lines=[b"a"])
    made(backend, "p", lines=[b"b"])
    moved = metadata_of("c", parent="p", kind="title")
    backend.commit(Change(identifier="c", requires={"c": raw}, metadata=moved))
    for _ in range(2):
        for identifier in ("c", "p"):
            tree = {one.identifier: one.parent for one in backend.catalogue.tree(identifier)}
            assert tree == {"c": "p", "p": None}
        backend.catalogue.rebuild()


def test_lists_go_on_behind_a_cursor(backend):
    for number in range(12):
        scope = "s" if number % 2 else ""
        tags = ("even",) if number % 4 == 0 else ()
        made(backend, f"c{number:02}", scope=scope, tags=tags, model=f"m{number % 3}")
    listed = backend.catalogue.list
    everything = [one.identifier for one in listed(Selection())]
    assert everything == [f"c{number:02}" for number in range(11, -1, -1)]
    paged, after = [], None
    while page := listed(Selection(), after, 5):
        paged += [one.identifier for one in page]
        after = page[-1].cursor
    assert paged == everything
    scoped = listed(Selection(scope="s"), None, 3)
    assert [one.identifier for one in scoped] == ["c11", "c09", "c07"]
    tagged = listed(Selection(tag="even"), None, 2)
    assert [one.identifier for one in tagged] == ["c08", "c04"]
    assert [one.identifier for one in listed(Selection(tag="even"), tagged[-1].cursor)] == ["c00"]
    assert listed(Selection(scope="s", tag="even")) == []
    assert [one.identifier for one in listed(Selection(scope="", model="m0"))] == ["c06", "c00"]
    assert backend.catalogue.begin_with("s", "c0", 2) == ["c01", "c03"]
    deleted(backend, "c11", scope="s")
    assert [one.identifier for one in listed(Selection(), None, 1)] == ["c10"]
    with pytest.raises(InputError):
        listed(Selection(), "no cursor", 5)


def test_words_are_found_within_a_scope(backend):
    made(backend, "c", lines=[b"needle", b"hay"])
    made(backend, "d", lines=[b"needle stack"], scope="s", tags=("t",))
    search = backend.catalogue.search
    for scope, names in ((None, {"c", "d"}), ("", {"c"}), ("s", {"d"}), ("q", set())):
        found = search([Term("needle")], Selection(scope=scope), 10)
        assert {one.identifier for one in found} == names
    assert [one.identifier for one in search([Term("needle stack")], Selection(), 9)] == ["d"]
    assert len(search([Term("need", is_start=True)], Selection(), 9)) == 2
    assert [one.identifier for one in search([Term("needle")], Selection(tag="t"), 9)] == ["d"]
    deleted(backend)
    assert [one.identifier for one in search([Term("needle")], Selection(), 9)] == ["d"]
    backend.collect()
    assert [one.identifier for one in search([Term("needle")], Selection(), 9)] == ["d"]


def test_a_rebuilt_catalogue_says_the_same(backend):
    made(backend, "c", lines=[b"a", b"b"], tags=("t",))
    made(backend, "d", lines=[b"a", b"c"], scope="s")
    fork = metadata_of("f", parent="c", position=1)
    backend.commit(Change(identifier="f", requires={"f": None}, metadata=fork, base=1))
    backend.commit(change(fork.encode(), b"y", identifier="f", base=1))

    def answers():
        catalogue = backend.catalogue
        return (
            catalogue.list(Selection()),
            catalogue.match("", "", [chain("a", "y"), chain("a", "b")]),
            catalogue.search([Term("a")], Selection(), 10),
            sorted(catalogue.tree("c")),
        )

    before = answers()
    steps = []
    backend.catalogue.rebuild(lambda *step: steps.append(step))
    assert answers() == before
    assert steps[-1][0] == steps[-1][1] > 0


def test_several_spans_are_read_at_once(backend):
    made(backend, "c", lines=[b"a", b"b", b"c"])
    made(backend, "d", lines=[b"x"])
    spans = [Span("c", 0, 1, 3), Span("d", 0, 0), Span("nobody", 0, 0)]
    found = [plain(reading) for reading in backend.read_many(spans)]
    assert found == [[b'{"n":"b"', b'{"n":"c"'], [b'{"n":"x"'], []]
    assert list(backend.identifiers("c")) == ["d"]


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
    assert two.contents("").get(hashlib.sha256(b"x" * 2000).digest())
    two.close()
    two.close()


@pytest.mark.parametrize("bad", ["../c", "", "C", "a/b", "c\x00"])
def test_an_id_that_is_none_is_refused(backend, bad):
    with pytest.raises(InputError):
        backend.metadata(bad)
    with pytest.raises(InputError):
        backend.commit(Change(identifier=bad, requires={}, metadata=metadata_of()))
    with pytest.raises(InputError):
        backend.read(bad, 0, 0)


def test_unknown_schemes_are_named():
    with pytest.raises(ConfigurationError, match="directory, postgresql, sqlite"):
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


@pytest.mark.parametrize("bad", ["new\nline", "x" * 501, 7])
def test_a_scope_or_key_that_is_no_name_is_refused(backend, bad):
    metadata = made(backend)
    for name in ("scope", "session", "key"):
        with pytest.raises(InputError, match=name):
            backend.commit(change(metadata, b"a", **{name: bad}))
    assert backend.end("c", 0) == 0

"""What only a server can do to a store: lose connections, be killed, and hold content in a bucket."""

import contextlib
import hashlib
import os
import re
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from cannery.backends import Selection, Term, shown
from cannery.backends import open_backend as open_described
from cannery.backends.postgresql.connections import execute
from cannery.backends.postgresql.objects import LARGE
from cannery.backends.postgresql.tables import MIGRATIONS, VERSION
from cannery.backends.postgresql.words import searchable
from cannery.errors import (
    ConfigurationError,
    ConversationNotFoundError,
    DamageError,
    InputError,
    StorageError,
    StoreUnavailableError,
)
from cannery.messages import assistant, invocation, result, supervisor, user
from cannery.storage import open_store
from tests import servers
from tests.backends.test_conformance import change, describe, made
from tests.gateway.running import wait_for
from tests.locations import new_database


@pytest.fixture
def url():
    return new_database()


def name_of(url):
    return url.partition("@/")[2].partition("?")[0]


def ask(url, query):
    with contextlib.closing(servers.postgres().connect(name_of(url))) as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else None


class Proxy:
    """Stands between a program and the server, and cuts the connection at the next commit when it is told to.

    With ``is_made`` the commit is handed on and its answer thrown away.
    """

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="cannery-proxy-"))
        self.cuts = None
        self.was_cut = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(servers.postgres().folder / ".s.PGSQL.5432"))
            threading.Thread(target=self._hand_on, args=(client, server), daemon=True).start()
            threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _hand_on(self, client, server):
        with client, server, contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if self.cuts and b"COMMIT\0" in data:
                    how = self.cuts
                    self.cuts = None
                    self.was_cut += 1
                    if how == "made":
                        self._drop = threading.Event()
                        self.dropping = server
                        server.sendall(data)
                        self._drop.wait(10)
                    client.shutdown(socket.SHUT_RDWR)
                    server.shutdown(socket.SHUT_RDWR)
                    return
                server.sendall(data)

    dropping = None

    def _answer(self, server, client):
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if self.dropping is server:
                    if b"COMMIT\0" in data:
                        self._drop.set()
                        return
                    continue
                client.sendall(data)

    def url(self, url):
        return url.replace(str(servers.postgres().folder), str(self.folder))

    def close(self):
        self._listener.close()


@pytest.fixture
def proxy():
    opened = Proxy()
    yield opened
    opened.close()


@pytest.mark.parametrize("how", ["made", "not made"])
def test_a_commit_with_a_key_survives_a_lost_connection(url, proxy, how):
    with open_store(proxy.url(url)) as store:
        conversation = store.create()
        conversation.append(user("a"))
        proxy.cuts = how
        assert conversation.append(user("b"), key="k") == "2"
        assert proxy.was_cut == 1
        assert [one.text for one in conversation.load()] == ["a", "b"]
        assert conversation.append(user("b"), key="k") == "2"
        assert store.verify().is_sound


@pytest.mark.parametrize("how", ["made", "not made"])
def test_a_commit_without_a_key_says_that_nobody_knows(url, proxy, how):
    with open_store(proxy.url(url)) as store:
        conversation = store.create()
        proxy.cuts = how
        with pytest.raises(StoreUnavailableError, match="may have been made"):
            conversation.append(user("a"))
        assert len(conversation.load()) == (how == "made")
        conversation.append(user("b"))
        # Filing looks again: what was made is found, and what was not is made.
        proxy.cuts = how
        with contextlib.suppress(StoreUnavailableError):
            store.file([user("c")])
        store.file([user("c")])
        assert len(store.list()) == 2


def test_a_server_that_is_killed_has_lost_nothing_that_was_acknowledged():
    """The server syncs, dies with everything it has in memory, and comes back; the same store goes on."""
    try:
        server = servers.Postgres(settings=())
    except servers.UnavailableError as error:
        pytest.skip(str(error))
    try:
        with open_store(server.url()) as store:
            conversation = store.create()
            told = []
            for round_number in range(3):
                for number in range(20):
                    conversation.append(user(f"{round_number} {number}"))
                    told.append(f"{round_number} {number}")
                server.kill()
                with pytest.raises(StoreUnavailableError):
                    conversation.append(user("while it is away"))
                with pytest.raises(StoreUnavailableError):
                    store.list()
                server.start()
                assert [one.text for one in conversation.load()] == told
            conversation.append(user("end"))
            assert store.verify().is_sound
    finally:
        server.remove()


def test_connections_that_the_server_closed_are_made_again(url):
    with open_store(url) as store:
        conversation = store.create(canisters=[user("a")])
        for _ in range(3):
            query = (
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"  # noqa: S608 - our own name
                f" WHERE datname = '{name_of(url)}' AND pid <> pg_backend_pid()"
            )
            ask(url, query)
            conversation.append(user("b"))
            ask(url, query)
            assert store.list()
        assert len(conversation.load()) == 4


def test_a_cursor_sees_what_began_before_it_and_ended_after_it(url):
    """A transaction with a lower number that commits later is behind the cursor."""
    with contextlib.closing(open_described(url, describe)) as backend:
        metadata = made(backend, "early")
        made(backend, "late")
        with contextlib.closing(servers.postgres().connect(name_of(url))) as slow:
            slow.execute("BEGIN")
            slow.execute(
                "UPDATE cannery.conversations SET changed_by = pg_current_xact_id(), change = 1"
                " WHERE id = 'early'"
            )
            backend.commit(change(backend.metadata("late"), b"x", identifier="late"))
            cursor = backend.changes(None).cursor
            backend.commit(change(backend.metadata("late"), b"y", identifier="late"))
            first = backend.changes(cursor)
            assert [one.identifier for one in first.noted] == ["late"]
            slow.execute("COMMIT")
        second = backend.changes(first.cursor)
        assert [one.identifier for one in second.noted] == ["early"]
        assert backend.changes(second.cursor).noted == []
        assert metadata == backend.metadata("early")


def test_a_database_that_is_something_else_is_refused(url):
    ask(url, "CREATE SCHEMA cannery")
    ask(url, "CREATE TABLE cannery.facts_of_another (a int)")
    with pytest.raises(StorageError, match="not a Cannery store"):
        open_store(url)


def test_a_newer_store_is_refused_and_named(url):
    open_store(url).close()
    ask(url, f"UPDATE cannery.facts SET value = '{VERSION + 1}' WHERE name = 'version'")  # noqa: S608 - a number
    with pytest.raises(StorageError, match=f"version {VERSION + 1}"):
        open_store(url)


def test_a_store_of_an_older_version_is_brought_to_this_one(url):
    for statements in MIGRATIONS[:3]:
        for statement in statements:
            ask(url, statement)
    ask(url, "INSERT INTO cannery.facts VALUES ('identity', 'abc'), ('version', '3')")
    with open_store(url) as store:
        conversation = store.create(canisters=[user("a")])
        conversation.append(user("b"))
    with open_store(url) as store:
        assert [one.text for one in store.get(conversation.identifier).load()] == ["a", "b"]


def test_programs_that_open_a_new_store_at_once_make_it_once(url):
    problems = []

    def work():
        try:
            open_store(url).close()
        except Exception as error:  # noqa: BLE001 - told by the test
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_role_that_may_only_read_opens_it_for_reading(url):
    with open_store(url) as store:
        store.create(canisters=[user("needle")])
    ask(url, "DROP ROLE IF EXISTS reader")
    ask(url, "CREATE ROLE reader LOGIN")
    ask(url, "GRANT USAGE ON SCHEMA cannery TO reader")
    ask(url, "GRANT SELECT ON ALL TABLES IN SCHEMA cannery TO reader")
    with open_store(url.replace("cannery@", "reader@")) as store:
        assert store.backend.is_read_only
        assert len(store.search("needle")) == 1
        with pytest.raises(StoreUnavailableError, match="may not write"):
            store.create()
    ask(url, "DROP OWNED BY reader")


@pytest.mark.parametrize(
    "wrong",
    [
        "postgresql://cannery@/",
        "postgresql://cannery@/x?pool=0",
        "postgresql://cannery@/x?pool=many",
        "postgresql://cannery@/x?content=ftp://bucket",
        "postgresql://cannery@/x?nonsense=1",
        "postgresql://cannery@/x?pool=" + "9" * 5000,
        "postgresql://[::1/x",
        "postgresql+psycopg://cannery@/x",
    ],
)
def test_a_wrong_url_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        open_store(wrong)


def test_a_url_may_name_no_host(url):
    database, folder = re.search("/([^/?]+)[?]host=([^&]+)", url).groups()
    with open_store(f"postgresql:///{database}?host={folder}&user=cannery") as store:
        assert store.list() == ()


def test_settings_of_the_server_reach_it(url):
    with open_store(
        f"{url}&options=-c%20application_name=shop%20-c%20work_mem=5MB&pool=2"
    ) as store:
        assert store.backend._pool.rows("SHOW work_mem") == [("5MB",)]
        assert store.backend._pool.rows("SHOW application_name") == [("shop",)]


def test_no_password_is_told():
    with pytest.raises(StoreUnavailableError) as told:
        open_store("postgresql://me:very-secret@127.0.0.1:1/x")
    assert "very-secret" not in str(told.value)
    assert "127.0.0.1" in str(told.value)


def test_a_store_in_a_database_is_not_copied_by_us(url, tmp_path):
    with open_store(url) as store, pytest.raises(StorageError, match="pg_dump"):
        store.backup(tmp_path / "copy")


@pytest.mark.parametrize(
    "given, told",
    [
        ("postgresql://me:pass@host/x?pool=3", "postgresql://me@host/x?pool=3"),
        ("postgres://me@host/x?password=pass&pool=3", "postgres://me@host/x?password=&pool=3"),
        ("sqlite:/a:b@c", "sqlite:/a:b@c"),
        ("/a/b:c@d", "/a/b:c@d"),
    ],
)
def test_places_are_shown_without_passwords(given, told):
    assert shown(given) == told


# Words


def test_words_are_searched_whatever_a_vector_can_hold(url):
    """Phrases far into a long message, words of any length, and more words than a vector has room for."""
    long = "filler " * 30_000 + "the needle in the haystack"
    many = " ".join(f"word{number}" for number in range(150_000)) + " last phrase"
    blob = "x" * 5000
    with open_store(url) as store:
        names = [store.create(canisters=[user(text)]).identifier for text in (long, many, blob)]
        other = store.create(canisters=[user(blob + "y"), user("in the needle")]).identifier
        found = {
            query: {hit.identifier for hit in store.search(query)}
            for query in ('"needle in the"', '"in the needle"', "word149999 last", '"last phrase"')
        }
        assert list(found.values()) == [{names[0]}, {other}, {names[1]}, {names[1]}]
        assert {hit.identifier for hit in store.search(blob)} == {names[2]}
        assert {hit.identifier for hit in store.search("word14999*")} == {names[1]}
        assert searchable(many).vector is None
        assert store.search("phrase last")
        assert not store.search('"phrase last"')


def test_odd_characters_are_kept(url):
    with open_store(url) as store:
        made_here = store.create(
            title="nul \0 here", tags=["t\0g"], canisters=[user("a\0b Žluťoučký")]
        )
        (found,) = store.list(tag="t\0g")
        assert (found.title, found.tags) == ("nul \0 here", ("t\0g",))
        assert made_here.load()[0].text == "a\0b Žluťoučký"
        assert len(store.search("zlutoucky")) == 1
        assert len(store.search("foo_bar")) == 0


def test_searches_hold_for_words_that_sql_knows(url):
    with contextlib.closing(open_described(url, describe)) as backend:
        made(backend, "c", lines=[b"it's 100% & | ! <-> :* \\\\ done"])
        for word in ("it's", "100%", "& | done", "s 100"):
            backend.catalogue.search([Term(word)], Selection(), 5)
        assert len(backend.catalogue.search([Term("100")], Selection(), 5)) == 1


# Content in a bucket


def objects_of(store):
    import obstore

    return sorted(
        one["path"] for page in obstore.list(store.backend._objects._store) for one in page
    )


def test_large_content_goes_to_the_bucket_and_small_stays():
    url = new_database(with_bucket=True)
    small, large = "s" * (LARGE - 1), "l" * LARGE
    with open_store(url) as store:
        one = store.create(canisters=[user(small), assistant(large)])
        two = store.create(canisters=[assistant(large)])
        assert len(objects_of(store)) == 1
        assert [canister.text for canister in one.hydrate()] == [small, large]
        one.delete()
        store.collect_garbage(grace=0)
        assert two.hydrate()[0].text == large
        two.delete()
        store.collect_garbage(grace=0)
        assert objects_of(store) == []
        assert ask(url, "SELECT count(*) FROM cannery.trash") == [(0,)]


def test_without_a_bucket_everything_is_in_the_database(url):
    data = os.urandom(5 << 20)
    with open_store(url) as store:
        staged = store.stage([data])
        assert b"".join(staged.stream()) == data
        assert store.backend.contents("").get(hashlib.sha256(data).digest()) == data


def test_content_that_is_lost_from_the_bucket_is_named():
    import obstore

    url = new_database(with_bucket=True)
    with open_store(url) as store:
        conversation = store.create(canisters=[user("l" * LARGE), user("fine")])
        (path,) = objects_of(store)
        obstore.put(store.backend._objects._store, path, b"something else")
        with pytest.raises(DamageError, match="checksum"):
            conversation.hydrate()
        obstore.delete(store.backend._objects._store, path)
        (damage, *_) = store.verify().damages
        assert "the object is missing" in str(damage)
        assert conversation.load()[1].text == "fine"
    with (
        open_store(url.partition("&content=")[0]) as store,
        pytest.raises(StoreUnavailableError, match="content=s3"),
    ):
        store.get(conversation.identifier).hydrate()


def test_what_a_crash_left_in_the_bucket_is_freed():
    """A gateway died after it had put an object, and before anything referred to it."""
    url = new_database(with_bucket=True)
    with open_store(url) as store:
        contents = store.backend.contents("")
        name = store.backend._objects.new_name()
        contents._begin(name)
        store.backend._objects.put(name, 0, b"left behind")
        assert len(objects_of(store)) == 1
        store.collect_garbage(grace=0)
        assert len(objects_of(store)) == 1, "it may still be on its way"
        ask(url, "UPDATE cannery.contents SET staged = staged - 4000")
        store.collect_garbage()
        assert objects_of(store) == []


def test_an_upload_that_is_repeated_finds_its_own_object():
    url = new_database(with_bucket=True)
    with open_store(url) as store:
        objects = store.backend._objects
        name = objects.new_name()
        objects.put(name, 0, b"once")
        objects.put(name, 0, b"twice")
        assert objects.get(name, 0) == b"once"


def test_a_bucket_that_is_away_is_said_so(monkeypatch):
    url = new_database(with_bucket=True)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_RETRIES", "0")
    with open_store(url) as store:
        conversation = store.create(canisters=[user("small")])
        with pytest.raises(StoreUnavailableError, match="s3://cannery"):
            conversation.append(user("l" * LARGE))
        assert [one.text for one in conversation.load()] == ["small"]


def test_erased_words_are_in_no_table(url):
    with open_store(url) as store:
        gone = store.create(title="secretive", canisters=[user("hushhush words"), user("h" * 3000)])
        store.create(canisters=[user("kept")])
        store.erase(gone.identifier)
        tables = ask(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'cannery'")
        for (table,) in tables:
            rows = ask(url, f"SELECT t::text FROM cannery.{table} t")  # noqa: S608 - our own tables
            assert not [row for (row,) in rows if "hush" in row or "secretive" in row]
        query = "SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE schemaname = 'cannery'"
        wait_for(lambda: ask(url, query) == [(0,)], "freed rows are left in tables")


# What is remembered from the last commit


def reading_refused(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("it was read again")

    monkeypatch.setattr("cannery.backends.postgresql.commits.read", refuse)


def test_an_append_behind_ones_own_is_one_round_trip(url, monkeypatch):
    with open_store(url) as store:
        conversation = store.create(canisters=[user("a"), supervisor("a prompt")])
        reading_refused(monkeypatch)
        conversation.append(user("b" * 5000), supervisor("a prompt"), key="first")
        conversation.append(invocation("call-1", "find", "{}"))
        conversation.append(result("call-1", "found"))
        conversation.retag("kept")
        other = store.create(canisters=[supervisor("a prompt"), user("c")])
        store.file([user("d"), assistant("e")])
        monkeypatch.undo()
        assert len(conversation.load()) == 6
        assert len(other.hydrate()) == 2
        assert store.verify().is_sound
        # What is recognised does not depend on whether it was remembered.
        listed = [(one.identifier, one.count) for one in store.list()]
        store.rebuild_index()
        assert [(one.identifier, one.count) for one in store.list()] == listed
        assert store.file(conversation.load()).conversation == conversation


@pytest.mark.parametrize("meanwhile", ["append", "rename", "rebuild", "key", "delete", "gc"])
def test_what_another_has_changed_is_not_taken_as_remembered(url, meanwhile):
    shared = "content that is stored by its digest " * 100
    with open_store(url) as store, open_store(url) as another:
        conversation = store.create(canisters=[user("a")])
        using = store.create(canisters=[user(shared)])
        theirs = another.get(conversation.identifier)
        if meanwhile == "append":
            theirs.append(user("theirs"))
        elif meanwhile == "rename":
            theirs.rename("theirs")
        elif meanwhile == "rebuild":
            another.rebuild_index()
        elif meanwhile == "key":
            theirs.append(user("b"), key="k")
        elif meanwhile == "delete":
            theirs.delete()
            with pytest.raises(ConversationNotFoundError):
                conversation.append(user("b"))
            return
        else:
            another.get(using.identifier).delete()
            another.collect_garbage(grace=0)
        conversation.append(user("b"), key="k")
        conversation.append(user(shared))
        before = ["a", "theirs"] if meanwhile == "append" else ["a"]
        assert [one.text for one in conversation.hydrate()] == [*before, "b", shared]
        assert conversation.title == ("theirs" if meanwhile == "rename" else "")
        assert store.verify().is_sound
        assert store.file(conversation.hydrate()).conversation == conversation


def test_a_claim_is_compared_although_all_else_is_remembered(url):
    with open_store(url) as store, open_store(url) as another:
        store.create(canisters=[user("others")])
        another.create(canisters=[user("others")])
        first = another.file([user("a"), assistant("b")])
        second = store.file([user("a"), assistant("b")])
        assert first.conversation.identifier == second.conversation.identifier
        assert len(store.list()) == 3


def test_a_transaction_that_was_taken_back_leaves_statements_usable(url):
    """The library deallocates every statement of a connection when it takes a transaction back."""
    with open_store(f"{url}&pool=1") as store:
        conversation = store.create(canisters=[user("a")])
        pool = store.backend._pool

        def fail(connection):
            execute(connection, "SELECT 1")
            raise StorageError("no")

        with pytest.raises(StorageError):
            pool.again_if_raced(fail)
        conversation.append(user("b"))
        assert [one.text for one in conversation.load()] == ["a", "b"]


def test_a_name_that_no_index_can_hold_is_refused_for_good(url):
    """It is not the server that is unavailable, so that nothing is tried again and again."""
    with open_store(url) as store:
        text = "".join(chr(0x20000 + 7 * number) for number in range(900))
        with pytest.raises(InputError, match="too long"):
            store.create(tags=(text,))
        with pytest.raises(InputError, match="too long"):
            store.create(model=text)
        assert store.list() == ()

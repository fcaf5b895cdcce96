"""An encrypted store: nothing of what was said is in any file, and without the key nothing can be had."""

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
from urllib.parse import urlsplit

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cannery.backends import Note, open_backend
from cannery.backends._encryption.ciphers import ScopeKeys
from cannery.backends._encryption.contents import EndHash, open_content, seal_content
from cannery.backends._encryption.sources import parse_source, spelled
from cannery.errors import (
    ConfigurationError,
    ConversationNotFoundError,
    DamageError,
    InputError,
    KeyUnavailableError,
)
from cannery.messages import (
    FileContentClass,
    UserCanisterClass,
    assistant,
    invocation,
    result,
    supervisor,
    user,
)
from cannery.storage import Filing, Link, open_store, restore
from cannery.storage.description import describe
from cannery.storage.encoding import Turn
from tests import servers

CANARY = "kanarienvogel"
CANARIES = [CANARY, CANARY.encode().hex(), hashlib.sha256(CANARY.encode()).hexdigest()]


def keys_in(folder, *scopes):
    """A setting with a key file for each scope."""
    setting = f"file:{folder}/keys/{{scope}}.key"
    for scope in scopes:
        parse_source(setting).create(scope)
    return setting


def filled(store, session="", **facts):
    """File what has the canary in every place that a conversation has."""
    said = [
        supervisor(f"You are a {CANARY} with a long prompt. " * 40),
        user(f"Where is the {CANARY}?"),
        assistant(f"The {CANARY} sits here."),
        invocation(f"call_{CANARY}", "look", {"for": CANARY}),
        result(f"call_{CANARY}", f"a {CANARY} " * 300),
        UserCanisterClass(
            FileContentClass(CANARY.encode() * 500, "application/pdf", name=f"{CANARY}.pdf")
        ),
    ]
    link = Link(client=f"client-{CANARY}")
    turn = Turn(request=f"req-{CANARY}", model=f"model-{CANARY}")
    filing = Filing(
        said, f"Title {CANARY}", (f"tag-{CANARY}",), f"model-{CANARY}", session=session,
        key=f"key-{CANARY}", link=link, turn=turn, **facts,
    )  # fmt: skip
    (filed,) = store.file_many([filing])
    record = {"time": "2026-11-18T10:00:00Z", "conversation": filed.identifier, "key": store.scope}
    record |= {"model": CANARY, "session": CANARY, "reply": "resp_1", "client": CANARY}
    note = Note(filed.identifier, record["time"], "resp_1", msgspec.json.encode(record))
    store.backend.exchanges.append([note])
    return filed.identifier, said


def bytes_of(folder):
    """Every file below a folder."""
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def leaks(files):
    """The files that hold the canary in any spelling."""
    return {
        str(name)
        for name, data in files.items()
        for word in CANARIES
        if word.encode() in data or word.encode() in data.lower()
    }


@pytest.mark.parametrize("kind", ["directory", "sqlite"])
def test_no_file_holds_a_word(kind, tmp_path):
    (tmp_path / "store").mkdir()
    place = str(
        tmp_path / "store/d" if kind == "directory" else f"sqlite:{tmp_path}/store/s.sqlite"
    )
    setting = keys_in(tmp_path, "", "alice")
    store = open_store(place, encryption_key=setting)
    identifier, said = filled(store, f"session-{CANARY}")
    filled(store.within("alice"), f"session-{CANARY}")
    store.get(identifier).append(user(f"more of the {CANARY}"))
    fork = store.get(identifier).fork(2, title=f"fork {CANARY}")
    fork.append(user(f"another {CANARY}"))
    assert len(store.search(CANARY, limit=50)) > 8
    assert [one.title for one in store.list(tag=f"tag-{CANARY}")] == [f"Title {CANARY}"] * 2 + [
        f"fork {CANARY}"
    ] or len(store.list(tag=f"tag-{CANARY}")) == 3
    assert store.verify().is_sound
    store.rebuild_index()
    assert store.get(identifier).load(hydrate=True)[:6] == said
    # While it is open, and when it is closed: logs of databases are files too.
    assert leaks(bytes_of(tmp_path / "store")) == set()
    store.backup(tmp_path / "store" / "copy")
    store.close()
    assert leaks(bytes_of(tmp_path / "store")) == set()
    # The test can fail: in the clear the canary is there.
    with open_store(str(tmp_path / "plain")) as plain:
        filled(plain)
    assert leaks(bytes_of(tmp_path / "plain"))


def test_no_table_of_a_server_holds_a_word(tmp_path):
    try:
        server = servers.postgres()
    except servers.UnavailableError as error:
        pytest.skip(str(error))
    url = server.url()
    with open_store(url, encryption_key=keys_in(tmp_path, "")) as store:
        identifier, said = filled(store, f"session-{CANARY}")
        store.get(identifier).fork(2, title=f"fork {CANARY}")
        assert store.get(identifier).load(hydrate=True) == said
        assert len(store.search(CANARY)) == 6
    database = urlsplit(url).path.lstrip("/")
    with contextlib.closing(server.connect(database)) as connection:
        tables = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = 'cannery'"
        ).fetchall()
        rows = {
            table: b"\n".join(
                str(row).encode() + b"".join(one for one in row if isinstance(one, bytes))
                for row in connection.execute(f'SELECT * FROM cannery."{table}"').fetchall()  # noqa: S608 - names are ours
            )
            for _, table in tables
        }
    assert any(rows.values())
    assert leaks(rows) == set()


# Keys that are missing, wrong, destroyed


def test_destroying_a_key_erases_one_scope_and_no_other(tmp_path):
    place, setting = str(tmp_path / "store"), keys_in(tmp_path, "", "alice")
    with open_store(place, encryption_key=setting) as store:
        alices, said = filled(store.within("alice"))
        ours, _ = filled(store)
        store.backup(tmp_path / "copy")
    (tmp_path / "keys" / "alice.key").unlink()
    for where in (place, str(tmp_path / "copy")):
        with open_store(where, encryption_key=setting) as store:
            listed = {one.identifier: one.title for one in store.list()}
            assert listed[ours] == f"Title {CANARY}"
            assert listed[alices] == "(its key is not available; `cannery keys` says more)"
            with pytest.raises(KeyUnavailableError, match=r"alice\.key cannot be read"):
                store.get(alices).load()
            with pytest.raises(KeyUnavailableError):
                store.within("alice").file(said)
            with pytest.raises(KeyUnavailableError):
                store.within("alice").search(CANARY)
            assert {hit.identifier for hit in store.search(CANARY)} == {ours}
            damages = store.verify().damages
            assert len(damages) == 1
            assert "'alice'" in str(damages[0])
    # What cannot be read can be deleted.
    with open_store(place, encryption_key=setting) as store:
        store.erase(alices)
        assert [one.identifier for one in store.list()] == [ours]
        assert store.verify().is_sound


def test_a_key_that_is_destroyed_in_the_store_is_in_no_file(tmp_path):
    for place in (tmp_path / "d" / "store", tmp_path / "s" / "store.sqlite"):
        place.parent.mkdir()
        where = f"sqlite:{place}" if place.suffix else str(place)
        setting = keys_in(tmp_path / place.parent.name, "")
        with open_store(where, encryption_key=setting) as store:
            identifier, _ = filled(store)
            wrapped = store.backend.inner.metadata(
                "cannery-key-" + hashlib.sha256(b"").hexdigest()[:40]
            )
            wrapped = wrapped.partition(b'wrapped\\":\\"')[2].partition(b"\\")[0]
            assert len(wrapped) > 60
            assert any(wrapped in data for data in bytes_of(place.parent).values())
            store.encryption.destroy("")
            with pytest.raises(KeyUnavailableError, match="was destroyed"):
                store.get(identifier).load()
            with pytest.raises(KeyUnavailableError, match="was destroyed"):
                store.create()
        assert not any(wrapped in data for data in bytes_of(place.parent).values())
        with open_store(where, encryption_key=setting) as store:
            assert "was destroyed" in store.list()[0].title
            assert "was destroyed" in store.encryption.states()[0].problem


def test_a_wrong_key_is_told_from_a_missing_one(tmp_path):
    setting = keys_in(tmp_path, "")
    with open_store(str(tmp_path / "store"), encryption_key=setting) as store:
        identifier, _ = filled(store)
    path = tmp_path / "keys" / "@default.key"
    right = path.read_text("ascii")
    for text, problem in (("ab" * 32, "gives key"), ("nonsense", "64 hex digits"), ("", "64 hex")):
        path.write_text(text, "ascii")
        with open_store(str(tmp_path / "store"), encryption_key=setting) as store:
            with pytest.raises(KeyUnavailableError, match=problem):
                store.get(identifier).load()
            with pytest.raises(KeyUnavailableError, match=problem):
                store.create()
    path.write_text(right, "ascii")
    with open_store(str(tmp_path / "store"), encryption_key=setting) as store:
        assert len(store.get(identifier).load()) == 6


@pytest.mark.parametrize("kind", ["directory", "sqlite"])
def test_a_store_is_encrypted_or_it_is_not(kind, tmp_path):
    at = {
        name: str(tmp_path / name) if kind == "directory" else f"sqlite:{tmp_path}/{name}"
        for name in ("plain", "secret")
    }
    setting = keys_in(tmp_path, "")
    with open_store(at["plain"]) as store:
        store.create(title="x")
    with pytest.raises(ConfigurationError, match="not encrypted, and a key was given"):
        open_store(at["plain"], encryption_key=setting)
    with open_store(at["plain"]) as store:
        assert [one.title for one in store.list()] == ["x"]
    with open_store(at["secret"], encryption_key=setting) as store:
        store.create(title="y")
    with pytest.raises(ConfigurationError, match="CANNERY_ENCRYPTION_KEY"):
        open_store(at["secret"])
    with open_store(at["secret"], encryption_key=setting) as store:
        assert [one.title for one in store.list()] == ["y"]


@pytest.mark.parametrize(
    "setting, problem",
    [
        ("ab" * 32, "never stands in a setting"),
        ("keys/x", "no source of a key"),
        ("file:", "no source of a key"),
        ("command: ", "no source of a key"),
        ("command:'", "cannot be read"),
        ("vault:x", "no source of a key"),
    ],
)
def test_settings_that_are_none_are_refused(setting, problem, tmp_path):
    with pytest.raises(ConfigurationError, match=problem):
        open_store(str(tmp_path / "store"), encryption_key=setting)


def test_a_command_gives_the_key_of_each_scope(tmp_path):
    program = tmp_path / "give key.py"
    program.write_text(
        "import hashlib, sys\n"
        "if sys.argv[1] == 'locked': sys.exit('the vault is sealed')\n"
        "print(hashlib.sha256(sys.argv[1].encode()).hexdigest())\n",
        "utf-8",
    )
    setting = f"command:'{sys.executable}' '{program}' {{scope}}"
    with open_store(str(tmp_path / "store"), encryption_key=setting) as store:
        for scope in ("", "a b; touch x", "../up", "ü"):
            identifier, said = filled(store.within(scope))
            assert store.get(identifier).load(hydrate=True) == said
        with pytest.raises(KeyUnavailableError, match="ended with 1: the vault is sealed"):
            store.within("locked").create()
        assert {one.key for one in store.encryption.states()} == {
            one.key for one in store.encryption.states() if not one.problem
        }
        assert len(store.encryption.states()) == 4
    with pytest.raises(ConfigurationError, match="their keeper"):
        parse_source(setting).create("x")


@pytest.mark.parametrize("scope", ["..", ".", "/etc/passwd", "a/../b", "%", "@default", "a\0b"])
def test_a_scope_never_leads_out_of_the_folder_of_keys(scope):
    assert "/" not in spelled(scope)
    assert spelled(scope).strip(".")
    assert spelled(scope) != spelled("")


def test_a_key_is_rotated_without_writing_anything_else(tmp_path):
    old, new = keys_in(tmp_path, "", "alice"), keys_in(tmp_path / "new", "", "alice")
    place = str(tmp_path / "store")
    with open_store(place, encryption_key=old) as store:
        identifier, said = filled(store)
        alices, _ = filled(store.within("alice"))
    before = (tmp_path / "store/conversations" / identifier / "messages.jsonl").read_bytes()
    with open_store(place, encryption_key=old) as store:
        for scope in ("", "alice"):
            store.encryption.rotate(scope, new)
        with pytest.raises(KeyUnavailableError, match="no key yet"):
            store.encryption.rotate("nobody", new)
    after = (tmp_path / "store/conversations" / identifier / "messages.jsonl").read_bytes()
    assert after == before
    with open_store(place, encryption_key=new) as store:
        assert store.get(identifier).load(hydrate=True) == said
        assert len(store.get(alices).load()) == 6
    with open_store(place, encryption_key=old) as store, pytest.raises(KeyUnavailableError):
        store.get(identifier).load()


def test_a_backup_is_restored_with_the_keys(tmp_path):
    setting = keys_in(tmp_path, "")
    with open_store(str(tmp_path / "store"), encryption_key=setting) as store:
        identifier, said = filled(store)
        assert store.backup(tmp_path / "copy").conversations == 1
    with pytest.raises(ConfigurationError, match="encrypted"):
        restore(tmp_path / "copy", tmp_path / "again")
    report = restore(tmp_path / "copy", tmp_path / "again", encryption_key=setting)
    assert (report.is_sound, report.conversations) == (True, 1)
    with open_store(str(tmp_path / "again"), encryption_key=setting) as store:
        assert store.get(identifier).load(hydrate=True) == said


# What an attacker may do who can write to the files


@pytest.fixture
def secret(tmp_path):
    with open_store(str(tmp_path / "store"), encryption_key=keys_in(tmp_path, "", "a")) as store:
        yield store


def stored_lines(store, identifier):
    return [
        line.rpartition(b',"check"')[0] + b"}"
        for line in store.backend.inner.read(identifier, 0, 0).lines
    ]


def forged(store, identifier, lines, scope=""):
    """A conversation with lines that somebody copied from elsewhere, as the backend below would take them."""
    from cannery.backends import Change
    from cannery.backends._encryption.outside import read_clear

    raw = store.backend.inner.metadata(identifier)
    change = Change(
        identifier=identifier,
        requires={identifier: raw},
        lines=lines,
        entries=list(map(read_clear, lines)),
        scope=scope,
    )
    store.backend.inner.commit(change)


def test_lines_cannot_be_moved(secret):
    one, two = secret.create(), secret.create()
    other = secret.within("a").create()
    one.append(user("first"), user("second"))
    first, second = stored_lines(secret, one.identifier)
    for target, lines, scope in (
        (two, [first], ""),
        (one, [first], ""),
        (other, [first, second], "a"),
    ):
        before = len(target.load())
        forged(secret, target.identifier, lines, scope)
        with pytest.raises(DamageError, match="cannot be decrypted"):
            target.load()
        assert len(target.read().canisters) == before
    swapped = secret.create()
    forged(secret, swapped.identifier, [second, first])
    with pytest.raises(DamageError, match="line 1"):
        swapped.load()
    assert len(secret.verify().damages) >= 6


def test_what_stands_in_the_clear_cannot_be_changed(secret):
    conversation = secret.create()
    conversation.append(user("a question"))
    (line,) = stored_lines(secret, conversation.identifier)
    for old, new in (
        (b'"user"', b'"assistant"'),
        (b'"said":"2', b'"said":"1'),
        (b'1,"role"', b'1 ,"role"'),
    ):
        assert old in line
        other = secret.create()
        forged(secret, other.identifier, [line.replace(old, new)])
        with pytest.raises(DamageError):
            other.load()
    plain = secret.create()
    raw = secret.backend.inner.metadata(plain.identifier)
    from cannery.backends import Change, Metadata

    metadata = msgspec.json.decode(raw, type=Metadata)
    for changes in (
        {"position": 7},
        {"kind": "title"},
        {"tags": ("x",)},
        {"title": metadata.title[:-4] + "AAA="},
    ):
        forged_metadata = msgspec.structs.replace(metadata, **changes)
        current = secret.backend.inner.metadata(plain.identifier)
        secret.backend.inner.commit(
            Change(
                identifier=plain.identifier,
                requires={plain.identifier: current},
                metadata=forged_metadata,
            )
        )
        with pytest.raises(DamageError):
            secret.get(plain.identifier)


def test_a_line_of_another_program_is_told(secret):
    from cannery.backends import Change
    from cannery.storage.description import Entries

    conversation = secret.create()
    raw = secret.backend.inner.metadata(conversation.identifier)
    line = (
        b'{"role":"user","content":{"type":"text","text":"x"},"timestamp":"2026-01-01T00:00:00Z"}'
    )
    secret.backend.inner.commit(
        Change(
            identifier=conversation.identifier,
            requires={conversation.identifier: raw},
            lines=[line],
            entries=Entries([user("x")]),
        )
    )
    with pytest.raises(DamageError, match="not encrypted"):
        conversation.load()


KEYS = ScopeKeys(b"k" * 32, b"s" * 16)
OTHERS = ScopeKeys(b"o" * 32, b"s" * 16)


@given(st.binary(max_size=300), st.integers(0, 3), st.data())
@settings(max_examples=60, deadline=None)
def test_content_comes_back_and_any_changed_bit_is_found(data, pieces, draw):
    data = data * (1 + pieces * 40)
    digest = hashlib.sha256(data).digest()
    stored = seal_content(KEYS, digest, data)
    assert open_content(KEYS, digest, stored, len(data)) == data
    assert EndHash(stored).digest() == KEYS.content_id(digest)
    split = draw.draw(st.integers(0, len(stored)))
    hashed = EndHash()
    hashed.update(stored[:split])
    hashed.update(stored[split:])
    assert hashed.digest() == KEYS.content_id(digest)
    # Found once within a scope, by another id in another, and by nobody without the key.
    assert KEYS.content_id(digest) != OTHERS.content_id(digest)
    assert digest not in stored
    at = draw.draw(st.integers(0, len(stored) - 1))
    bit = 1 << draw.draw(st.integers(0, 7))
    broken = bytearray(stored)
    broken[at] ^= bit
    assert EndHash(bytes(broken)).digest() != KEYS.content_id(digest)
    if at < len(stored) - 32:
        # Even if the checksum that needs no key is made to fit.
        with pytest.raises((ValueError, DamageError)):
            open_content(KEYS, digest, bytes(broken), len(data))
    with pytest.raises((ValueError, DamageError)):
        open_content(OTHERS, digest, stored, len(data))
    with pytest.raises((ValueError, DamageError)):
        open_content(KEYS, digest, stored[: -1 - at % 100], len(data))


@given(
    st.lists(st.sampled_from(["a", "b" * 2000, "c" * 5000, "d"]), min_size=1, max_size=6),
    st.sampled_from(["", "s"]),
)
@settings(max_examples=20, deadline=None)
def test_content_is_stored_once_within_a_scope_and_not_shared(texts, scope):
    with open_store("sqlite::memory:", encryption_key=_one_key()) as store:
        for each in (store.within(scope), store.within("other")):
            conversation = each.create()
            conversation.append([user(text) for text in texts])
            each.create().append([user(text) for text in texts])
            assert [one.text for one in conversation.load(hydrate=True)] == texts
        assert store.backend.inspect().contents == 2 * len({one for one in texts if len(one) > 1})


def _one_key():
    return f"command:{sys.executable} -c 'print(\"5a\" * 32)'"


def test_large_content_is_never_whole_in_memory(secret):
    import tracemalloc

    piece = os.urandom(1 << 20)
    tracemalloc.start()
    staged = secret.stage(piece for _ in range(40))
    size = sum(len(one) for one in staged.stream())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 40 << 20
    assert peak < 24 << 20


def test_reserved_ids_are_refused(secret):
    for identifier in ("cannery-encryption", "cannery-key-x"):
        with pytest.raises(InputError, match="reserved"):
            secret.create(identifier=identifier)
        with pytest.raises(ConversationNotFoundError):
            secret.get(identifier)
    assert secret.begin_with("cannery") == ()


def test_a_plain_store_cannot_be_made_to_look_encrypted(tmp_path):
    """A shared export with such an id would lock a person out of the own store."""
    with open_store(str(tmp_path / "plain")) as store:
        for identifier in ("cannery-encryption", "cannery-key-x"):
            with pytest.raises(InputError, match="reserved"):
                store.create(identifier=identifier)
            with pytest.raises(InputError, match="reserved"):
                store.file([user("Hi")], identifier=identifier)


def test_names_are_looked_up_in_every_scope(secret):
    for scope in ("", "a"):
        for number in range(7):
            tags = ("even",) if number % 2 == 0 else ()
            secret.within(scope).create(title=f"{scope}{number}", tags=tags, model="m")
    everything = [one.title for one in secret.list(tag="even")]
    assert len(everything) == 8
    paged, after = [], None
    while page := secret.list(tag="even", limit=3, after=after):
        paged += [one.title for one in page]
        after = page[-1].cursor
    assert paged == everything
    assert len(secret.list(model="m")) == 14
    assert secret.within("a").list(tag="odd") == ()


_FILER = """
import sys
from cannery.errors import ConversationNotFoundError
from cannery.messages import user
from cannery.storage import open_store
store = open_store(sys.argv[1], encryption_key=sys.argv[2])
try:
    conversation = store.get("c")
except ConversationNotFoundError:
    conversation = store.create(identifier="c")
for number in range(10_000):
    conversation.append(user(f"{number} " + "x" * 1500))
    print(len(conversation), flush=True)
"""


@pytest.mark.parametrize("kind", ["directory", "sqlite"])
def test_what_was_acknowledged_survives_a_kill(kind, tmp_path):
    place = str(tmp_path / "store") if kind == "directory" else f"sqlite:{tmp_path}/store.sqlite"
    setting = keys_in(tmp_path, "")
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", _FILER, place, setting], stdout=subprocess.PIPE
        ) as writer:
            acknowledged = [int(writer.stdout.readline()) for _ in range(12)][-1]
            writer.send_signal(signal.SIGKILL)
            writer.wait()
        with open_store(place, encryption_key=setting) as store:
            assert len(store.get("c").load(hydrate=True)) >= acknowledged
            assert store.verify().is_sound


def test_processes_that_append_to_one_conversation_all_succeed(tmp_path):
    place, setting = str(tmp_path / "store"), keys_in(tmp_path, "")
    with open_store(place, encryption_key=setting) as store:
        store.create(identifier="c")
    program = _FILER.replace("10_000", "15")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program, place, setting],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    assert [writer.communicate(timeout=120)[1] for writer in writers] == ["", "", ""]
    with open_store(place, encryption_key=setting) as store:
        assert len(store.get("c").load(hydrate=True)) == 45


def test_the_backend_below_needs_no_key(tmp_path):
    """gc, backup and a rebuilt catalogue, of a store whose key is gone."""
    place, setting = str(tmp_path / "store"), keys_in(tmp_path, "")
    with open_store(place, encryption_key=setting) as store:
        kept, said = filled(store)
        lost = store.create(canisters=[user("gone " * 1000)])
        lost.delete()
        matched = store.recognise(said).match
    path = tmp_path / "keys" / "@default.key"
    key = path.read_text("ascii")
    path.unlink()
    with contextlib.closing(open_backend(place, describe, encryption_key=setting)) as backend:
        backend.catalogue.rebuild()
        assert backend.collect(grace=0).conversations == (lost.identifier,)
        backend.backup(str(tmp_path / "copy"))
    path.write_text(key, "ascii")
    for where in (place, str(tmp_path / "copy")):
        with open_store(where, encryption_key=setting) as store:
            assert store.get(kept).load(hydrate=True) == said
            assert store.recognise(said).match == matched
            assert store.verify().is_sound


def test_a_lost_record_of_a_key_is_told_and_not_replaced(secret):
    """A new data key would make what is there unreadable without a word."""
    from cannery.backends import Change, Metadata

    identifier, _ = filled(secret)
    inner = secret.backend.inner
    name = "cannery-key-" + hashlib.sha256(b"").hexdigest()[:40]
    raw = inner.metadata(name)
    gone = msgspec.structs.replace(
        msgspec.json.decode(raw, type=Metadata),
        deleted=msgspec.json.decode(raw, type=Metadata).created,
    )
    inner.commit(Change(identifier=name, requires={name: raw}, metadata=gone))
    inner.collect(grace=0)
    secret.backend._ring._known.clear()
    with pytest.raises(DamageError, match="restore it from a backup"):
        secret.create()
    with pytest.raises(DamageError):
        secret.get(identifier)


def test_a_running_process_notices_that_a_key_was_destroyed(secret, tmp_path, monkeypatch):
    """What it would write otherwise could never be read."""
    from cannery.backends._encryption import keyring

    monkeypatch.setattr(keyring, "_LEASE", 0.0)
    conversation = secret.create()
    conversation.append(user("before"))
    with open_store(
        str(tmp_path / "store"), encryption_key=f"file:{tmp_path}/keys/{{scope}}.key"
    ) as other:
        other.encryption.destroy("")
    with pytest.raises(KeyUnavailableError, match="was destroyed"):
        conversation.append(user("after"))


def test_a_command_that_fails_is_not_asked_for_every_title(tmp_path):
    counter = tmp_path / "asked"
    program = tmp_path / "key.py"
    program.write_text(
        f"open({str(counter)!r}, 'a').write('x')\nprint('5a' * 32) if not {str(tmp_path / 'sealed')!r} or "
        f"not __import__('os').path.exists({str(tmp_path / 'sealed')!r}) else exit(3)\n",
        "utf-8",
    )
    setting = f"command:{sys.executable} {program}"
    with open_store(str(tmp_path / "store"), encryption_key=setting) as store:
        for number in range(30):
            store.create(title=f"t{number}")
    assert counter.read_text() == "x"
    (tmp_path / "sealed").touch()
    with open_store(str(tmp_path / "store"), encryption_key=setting) as store:
        assert all("not available" in one.title for one in store.list())
        assert "ended with 3" in store.encryption.states()[0].problem
    assert counter.read_text() == "xx"


# The format, read by nothing but what the page says


def test_the_format_is_what_the_page_says(tmp_path):
    import base64
    import hmac

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    place, setting = tmp_path / "store", keys_in(tmp_path, "alice")
    with open_store(str(place), scope="alice", encryption_key=setting) as store:
        conversation = store.create(title="Birds", tags=("rare",), model="m")
        conversation.append(user("short"), user("long " * 1000))
        identifier = conversation.identifier

    def mac(key, data):
        return hmac.digest(key, data, "sha256")

    def gcm(key, sealed, place):
        return AESGCM(key).decrypt(sealed[:12], sealed[12:], place)

    def kept(name):
        line = (place / "conversations" / name / "conversation.json").read_bytes().split(b"\n")[0]
        return msgspec.json.decode(line)

    outside = bytes.fromhex((tmp_path / "keys" / "alice.key").read_text())
    identity = bytes.fromhex(msgspec.json.decode(kept("cannery-encryption")["title"])["store"])
    record = kept("cannery-key-" + hashlib.sha256(b"alice").hexdigest()[:40])
    assert (record["scope"], record["kind"], record["tags"]) == (
        "alice",
        "encryption",
        ["cannery-key"],
    )
    wrapped = msgspec.json.decode(record["title"])
    assert wrapped["key"] == mac(outside, b"cannery key name").hex()[:8]
    data_key = gcm(
        outside, base64.b64decode(wrapped["wrapped"]), b"cannery key\0" + identity + b"alice"
    )

    def derived(purpose):
        return HKDF(SHA256(), 32, identity, f"cannery {purpose}".encode()).derive(data_key)

    metadata = kept(identifier)
    sealed = base64.b64decode(metadata["title"])
    raw = gcm(derived("metadata"), sealed, identifier.encode())
    assert msgspec.json.decode(raw)["title"] == "Birds"
    assert sealed[:12] == mac(derived("metadata nonce"), identifier.encode() + b"\0" + raw)[:12]
    assert metadata["tags"] == [mac(derived("names"), b"tag\0rare").hex()[:32]]
    log = (place / "conversations" / identifier / "messages.jsonl").read_bytes().splitlines()
    for position, line in enumerate(log):
        clear = line.partition(b',"sealed"')[0]
        key = mac(derived("lines"), identifier.encode())
        sealed = base64.b64decode(msgspec.json.decode(line)["sealed"])
        opened = gcm(key, sealed, b"%d\0" % position + clear)
        assert msgspec.json.decode(opened)["role"] == "user"
    text = ("long " * 1000).encode()
    name = mac(derived("content ids"), hashlib.sha256(text).digest())
    assert msgspec.json.decode(log[1])["contents"] == [f"sha256:{name.hex()}"]
    pack = (place / "content" / "00000001.pack").read_bytes()
    start = pack.index(b"CNE1")
    end = pack.index(name, start) + 64
    stored = pack[start:end]
    assert stored[-32:] == hashlib.sha256(stored[:-32]).digest()
    size = stored[-72:-64]
    assert int.from_bytes(size, "little") == len(text)
    key = mac(derived("contents"), stored[8:24])
    frame = AESGCM(key).decrypt(bytes(11) + b"\1", stored[24:-72], stored[:24] + size)
    assert stored[4] == 1
    from cannery.backends._compression import decompress

    assert decompress(frame, len(text)) == text

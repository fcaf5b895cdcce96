"""Files that are damaged or meant to harm: something is told about each, nothing raises, and memory is bounded."""

from __future__ import annotations

import copy
import gzip
import io
import json
import random
import sqlite3
import tarfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

import cannery
from cannery.importers import ImportSummary, import_into
from cannery.storage import open_store
from tests.importers.samples import DATA, FORMATS, values

CHAT = {"title": "T", "messages": [{"role": "user", "content": "Hi"}]}


def taken(path: Path) -> ImportSummary | None:
    """What came of a file; None if it was refused with an error of ours."""
    with open_store("sqlite::memory:") as store:
        try:
            return import_into(store, path)
        except cannery.CanneryError:
            return None


JSON_SAMPLES = [name for name in FORMATS if name.endswith((".json", ".jsonl", ".har"))]


@pytest.mark.parametrize("name", JSON_SAMPLES)
def test_a_file_that_is_cut_off_says_so(name: str, tmp_path: Path):
    whole = (DATA / name).read_bytes().rstrip()
    chance = random.Random(7)
    path = tmp_path / "cut.json"
    for _ in range(4):
        # Not between two lines, where a file may well end.
        cut = chance.randrange(1, len(whole))
        while (
            whole[cut - 1 : cut + 1].strip() in (b"", b"}", b"{", b"]")
            or whole[cut : cut + 1] == b"\n"
        ):
            cut = chance.randrange(1, len(whole))
        path.write_bytes(whole[:cut])
        summary = taken(path)
        assert summary is None or summary.problems, cut


@pytest.mark.parametrize("name", JSON_SAMPLES)
def test_a_file_twice_in_one_is_read_twice(name: str, tmp_path: Path):
    path = tmp_path / "twice.json"
    path.write_bytes((DATA / name).read_bytes() * 2)
    once = import_into(None, DATA / name, dry_run=True)
    twice = import_into(None, path, dry_run=True)
    assert twice.problems == []
    assert once.messages <= twice.messages <= 2 * once.messages


@pytest.mark.parametrize("name", JSON_SAMPLES)
def test_zeros_in_a_file_are_told(name: str, tmp_path: Path):
    path = tmp_path / "zeros.json"
    path.write_bytes((DATA / name).read_bytes().rstrip() + b"\n" + bytes(64))
    summary = taken(path)
    assert summary is not None
    assert any("64 bytes left out" in problem for problem in summary.problems)


@pytest.mark.parametrize("name", JSON_SAMPLES)
def test_utf16_and_a_wrong_ending_change_nothing(name: str, tmp_path: Path):
    path = tmp_path / "chat.txt"
    path.write_bytes((DATA / name).read_text("utf-8").encode("utf-16"))
    once = import_into(None, DATA / name, dry_run=True)
    other = import_into(None, path, dry_run=True)
    assert (other.messages, other.problems) == (once.messages, once.problems)


def test_a_large_file_is_streamed(tmp_path: Path):
    """A tenth of a gigabyte in bounded memory; nothing of the way depends on the size."""
    path = tmp_path / "big.jsonl"
    row = json.dumps({"instruction": "x" * 4000, "input": "", "output": "y" * 4000}) + "\n"
    with path.open("w") as file:
        for number in range(12_000):
            file.write(row.replace("x", str(number % 10), 1))
    tracemalloc.start()
    summary = import_into(None, path, dry_run=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert summary.messages == 24_000
    assert peak < 20 << 20 < path.stat().st_size // 4


def test_a_bomb_is_refused(tmp_path: Path):
    path = tmp_path / "bomb.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("conversations.json", "w", force_zip64=True) as file,
    ):
        for _ in range(400):
            file.write(b" " * (1 << 20))
    assert taken(path) is None
    packed = tmp_path / "bomb.gz"
    with gzip.open(packed, "wb") as stream:
        stream.write(json.dumps(CHAT).encode() + b"\n")
        for _ in range(400):
            stream.write(b" " * (1 << 20))
    summary = taken(packed)
    assert summary is not None
    assert any("200 times its size" in problem for problem in summary.problems)


def test_a_tarball_is_read_and_what_points_outside_is_left(tmp_path: Path):
    path = tmp_path / "chats.tgz"
    data = json.dumps(CHAT).encode()
    with tarfile.open(path, "w:gz") as archive:
        for name in ("a/chat.json", "../../outside.json"):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        link = tarfile.TarInfo("a/link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    summary = taken(path)
    assert summary is not None
    assert list(summary.formats) == ["a/chat.json", "../../outside.json"]
    assert not (tmp_path.parent / "outside.json").exists()
    cut = tmp_path / "cut.tgz"
    cut.write_bytes(path.read_bytes()[:-60])
    assert taken(cut) is None or taken(cut).problems  # type: ignore[union-attr]


def test_members_that_cannot_be_opened_are_told(tmp_path: Path):
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.json", json.dumps(CHAT))
        archive.writestr("b.json", json.dumps(CHAT))
    data = bytearray(path.read_bytes())
    # The mark of encryption, in the header of the second member and in the table of contents.
    second = data.index(b"PK\x03\x04", 4)
    listed = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4)
    data[second + 6] |= 1
    data[listed + 8] |= 1
    path.write_bytes(data)
    summary = taken(path)
    assert summary is not None
    assert list(summary.formats) == ["a.json"]
    assert any("b.json" in problem and "encrypted" in problem for problem in summary.problems)


def test_a_database_in_an_archive_is_read(tmp_path: Path):
    path = tmp_path / "backup.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(DATA / "openwebui/webui.db", "data/webui.db")
    summary = taken(path)
    assert summary is not None
    once = import_into(None, DATA / "openwebui/webui.db", dry_run=True)
    assert (summary.messages, summary.problems) == (once.messages, [])


def test_an_archive_in_an_archive_is_named_and_left(tmp_path: Path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("a.json", json.dumps(CHAT))
    path = tmp_path / "outer.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("chat.json", json.dumps(CHAT))
        archive.writestr("inner.zip", inner.getvalue())
    summary = taken(path)
    assert summary is not None
    assert summary.left_alone == ["inner.zip"]


def test_two_members_of_one_name_are_both_read(tmp_path: Path):
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.json", json.dumps(CHAT))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.json", json.dumps({**CHAT, "messages": CHAT["messages"] * 2}))
    summary = taken(path)
    assert summary is not None
    assert summary.messages == 3


def test_what_is_committed_but_still_in_the_log_of_a_database_is_read(tmp_path: Path):
    path = tmp_path / "webui.db"
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("CREATE TABLE chat (id, title, chat, created_at)")
    chat = json.dumps({"messages": [{"role": "user", "content": "Hi"}]})
    writer.execute("INSERT INTO chat VALUES ('a', 'T', ?, 1700000000)", (chat,))
    writer.commit()
    before = sorted(each.name for each in tmp_path.iterdir())
    summary = taken(path)
    assert summary is not None
    assert (summary.messages, summary.problems) == (1, [])
    assert sorted(each.name for each in tmp_path.iterdir()) == before
    writer.close()


@pytest.mark.parametrize("cut", [16, 100, 4096, 9000])
def test_a_damaged_database_is_told(cut: int, tmp_path: Path):
    path = tmp_path / "webui.db"
    path.write_bytes((DATA / "openwebui/webui.db").read_bytes()[:cut])
    summary = taken(path)
    assert summary is None or summary.problems


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"messages": [' + b"1" * 5000 + b"]}",
        b'{"mapping": 1, "title": 2}',
        b'"just a string"',
        b"{}",
        b"[]",
        b"\x00" * 10_000,
        b"PK\x03\x04 not a zip",
        b"\x1f\x8b not packed",
        b"\x28\xb5\x2f\xfd not packed either",
        b"SQLite format 3\x00 not a database",
    ],
)
def test_nothing_that_is_no_chat_is_a_success(data: bytes, tmp_path: Path):
    path = tmp_path / "odd"
    path.write_bytes(data)
    summary = taken(path)
    assert summary is None or summary.problems


def test_records_in_and_no_message_out_is_never_a_success(tmp_path: Path):
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"title": "T", "messages": []}] * 3))
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, path, format="message_lists")
    assert summary.messages == 0
    assert summary.problems == ["chat.json: no message in it, read as message_lists"]


JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    1e300,
    "",
    "x",
    "data:image/png;base64,@@",
    "\ud800",
    [],
    ["x"],
    [[]],
    {},
    {"type": "x"},
    {"role": "user", "content": 5},
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a value: what holds it, and under which key."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys: Any = holder.keys() if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], (dict, list)):
                waiting.append(holder[key])
    return found


@pytest.mark.parametrize("name", [each for each in JSON_SAMPLES if each != "har/calls.har"])
def test_no_value_in_any_place_raises(name: str, tmp_path: Path):
    """Whatever stands where something else should, in a file of any format, is read, kept or told."""
    chance = random.Random(name)
    path = tmp_path / Path(name).name
    small = sorted(values(name), key=lambda each: len(json.dumps(each)))[:12]
    records = [each for each in values(name) if each in small]
    for _ in range(12):
        mutated = copy.deepcopy(records)
        for _ in range(chance.choice((1, 1, 3))):
            holder, key = chance.choice(places(mutated))
            holder[key] = copy.deepcopy(chance.choice(JUNK))
        path.write_text("\n".join(map(json.dumps, mutated)))
        summary = import_into(None, path, format=FORMATS[name], dry_run=True)
        assert summary.messages or summary.problems or summary.empty


def test_numbers_that_are_too_large_are_kept_as_they_are_spelled(tmp_path: Path):
    line = b'{"messages":[{"role":"user","content":"y","n":1e999}]}'
    (tmp_path / "vast.jsonl").write_bytes(line)
    with open_store(tmp_path / "store") as store:
        summary = import_into(store, tmp_path / "vast.jsonl")
        assert summary.problems == []
        assert import_into(store, tmp_path / "vast.jsonl").created == 0
        (kept,) = store.list()
        request = cannery.Request(store.get(kept.identifier).hydrate())
    assert b'"n":1e999' in cannery.nativize_request(request, "openai_finetuning").body


def test_a_file_of_one_record_with_nan_names_it(tmp_path: Path):
    (tmp_path / "nan.json").write_bytes(b'{"messages":[{"role":"user","content":"x","n":NaN}]}')
    with (
        open_store(tmp_path / "store") as store,
        pytest.raises(cannery.CanneryError, match="NaN is not a JSON number"),
    ):
        import_into(store, tmp_path / "nan.json")

"""Files as streams of records: any shape, any cut, bounded memory."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery.importers import import_into, open_sources
from cannery.importers.sources import Source
from cannery.storage import open_store
from tests.importers.samples import DATA

RECORDS = st.lists(
    st.dictionaries(
        st.text(max_size=4), st.text(max_size=8) | st.integers() | st.none(), max_size=3
    ),
    max_size=6,
)


def source_of(data: bytes) -> Source:
    return Source("x", lambda: io.BytesIO(data), len(data))


def records(data: bytes) -> tuple[list[object], list[str]]:
    source = source_of(data)
    return [value for _, value in source.values()], source.problems


@given(RECORDS, st.sampled_from([None, 1]), st.booleans())
def test_arrays_and_lines_give_their_records(values, indent, has_mark):
    mark = b"\xef\xbb\xbf" if has_mark else b""
    array = mark + json.dumps(values, indent=indent).encode()
    assert records(array) == (values, [])
    lines = mark + b"".join(json.dumps(value).encode() + b"\r\n\n" for value in values)
    assert records(lines) == (values, [])


@given(RECORDS.filter(len), st.data())
def test_a_cut_array_gives_what_is_whole(values, data):
    array = json.dumps(values).encode()
    cut = data.draw(st.integers(1, len(array) - 1))
    found, problems = records(array[:cut])
    assert found == values[: len(found)]
    assert problems


def test_one_object_over_many_lines():
    assert records(b'{\n "a":\n 1}\n') == ([{"a": 1}], [])


def test_a_bad_line_is_reported_and_the_rest_read():
    found, problems = records(b'{"a":1}\n{"a":\n{"a":3}\n')
    assert found == [{"a": 1}, {"a": 3}]
    assert problems[0].startswith("line 2, byte 8: ")


def test_an_empty_file_has_no_records():
    assert records(b" \n") == ([], [])


def test_a_large_array_is_not_held_whole(tmp_path: Path):
    path = tmp_path / "big.json"
    record = json.dumps({"conversations": [{"from": "human", "value": "x" * 2000}]})
    path.write_text("[" + ",\n".join([record] * 20_000) + "]", "utf-8")
    (source,) = open_sources(path)
    tracemalloc.start()
    count = sum(1 for _ in source.records())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 8_000_000 < path.stat().st_size


def export(folder: Path, *, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    path = folder / "export.zip"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("user.json", '{"id": "user"}')
        archive.write(DATA / "chatgpt/chatgpt-export.json", "conversations.json")
        archive.writestr("image.png", b"\x89PNG")
    return path


def test_a_zip_is_imported_and_what_is_no_chat_is_named(tmp_path: Path):
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, export(tmp_path))
        assert len(store.list()) == 2
    assert list(summary.formats) == ["conversations.json"]
    assert summary.problems == []
    assert sorted(summary.left_alone) == ["image.png", "user.json"]


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_a_cut_zip_gives_what_can_be_read(tmp_path: Path, compression: int):
    path = export(tmp_path, compression=compression)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b"PK\x01\x02")])  # without its table of contents
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, path)
        assert summary.conversations == 2
    assert any("cut off" in problem for problem in summary.problems)
    path.write_bytes(whole[: whole.index(b"PK\x01\x02") - 800])
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, path)
        assert summary.conversations == 1
        assert len(store.list()) == 1
    assert any(
        "1 records were read" in problem or "after 1 records" in problem
        for problem in summary.problems
    )


def test_a_folder_is_imported_whole():
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, DATA / "librechat")
        assert set(summary.formats) == {path.name for path in (DATA / "librechat").iterdir()}
        assert summary.conversations == 6


def test_what_is_not_there_and_what_is_unknown_is_refused(tmp_path: Path):
    with open_store("sqlite::memory:") as store:
        with pytest.raises(cannery.InputError, match="no file"):
            import_into(store, tmp_path / "nothing.json")
        path = tmp_path / "odd.json"
        path.write_text('{"a": 1}', "utf-8")
        with pytest.raises(cannery.InputError, match="not a known conversation format"):
            import_into(store, path)
        with pytest.raises(cannery.NotFoundError, match="Did you mean 'chatgpt'"):
            import_into(store, path, format="chatgtp")

"""Every byte of a file is a record, or a problem with its line and offset."""

from __future__ import annotations

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannery.importers.values import Problems, Record, ValueReader

OBJECTS = st.lists(
    st.dictionaries(st.text(max_size=4), st.text(max_size=8) | st.integers(), max_size=3),
    min_size=1,
    max_size=6,
)


def records(data: bytes) -> tuple[list[Record], list[str]]:
    problems = Problems()
    found = list(ValueReader(io.BytesIO(data).read, problems).records())
    return found, problems.told()


def values(data: bytes) -> tuple[list[object], list[str]]:
    found, problems = records(data)
    return [record.value for record in found], problems


@given(OBJECTS, st.sampled_from([None, 2]), st.sampled_from(["", " ", "\n", ",\n", "\x1e"]))
def test_values_one_after_another_are_read_as_jq_writes_them(found, indent, between):
    text = between.join(json.dumps(each, indent=indent) for each in found)
    assert values(text.encode()) == (found, [])


@given(OBJECTS, OBJECTS, st.sampled_from([None, 1]))
def test_two_arrays_in_a_file_are_both_read(one, other, indent):
    text = json.dumps(one, indent=indent) + "\n" + json.dumps(other, indent=indent)
    assert values(text.encode()) == ([*one, *other], [])


def test_places_tell_values_apart():
    found, problems = records(b'{"a":1}{"a":2}\n{"a":3}\n[{"a":4},{"a":5}]\n')
    assert problems == []
    places = [(each.place, each.group, each.is_item) for each in found]
    assert places == [
        ("line 1", 0, False),
        ("line 1:8", 1, False),
        ("line 2", 2, False),
        ("line 3[0]", 3, True),
        ("line 3[1]", 3, True),
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_read(encoding: str):
    found = [{"a": "é😀"}, {"a": "b"}]
    text = "\n".join(json.dumps(each, ensure_ascii=False) for each in found)
    assert values(text.encode(encoding)) == (found, [])


@pytest.mark.parametrize(
    "data, kept, line, offset, left",
    [
        (b'{"a":1}\n{"a":\n{"a":3}\n', [1, 3], 2, 8, 6),
        (b'{"a":1}\n\0\0\0\0\0\n{"a":2}\n', [1, 2], 2, 8, 6),
        (b'{"a":1}\nnot json\n\n{"a":2}', [1, 2], 2, 8, 10),
        (b'{"a":1} tail\n{"a":2}', [1, 2], 1, 8, 5),
        (b'[{"a":1},{"a":2},{"a"', [1, 2], 1, 17, 4),
        (b'[\n  {"a": 1},\n  {"a" 2},\n  {"a": 3}\n]\n', [1, 3], 3, 16, 11),
        (b'[{"a":1},{"a":\n[{"a":3}]\n', [1, 3], 1, 9, 6),
        (b'{"a":"torn\n{"a":2}', [2], 1, 0, 11),
        (b'{"a":1}]\n{"a":2}', [1, 2], 1, 7, 2),
    ],
)
def test_what_cannot_be_read_is_told_with_line_and_offset(data, kept, line, offset, left):
    found, problems = values(data)
    assert [each["a"] for each in found] == kept
    (problem,) = problems
    assert problem.startswith(f"line {line}, byte {offset}: ")
    assert f"; {left} bytes left out" in problem


def test_an_array_without_an_end_is_told():
    assert values(b'[{"a":1}\n') == (
        [{"a": 1}],
        ["line 2, byte 9: the file is cut off after 1 records"],
    )


def test_bytes_that_are_not_utf8_are_told():
    found, problems = values(b'{"a":1}\n{"a":"\xff\xfe"}')
    assert found == [{"a": 1}, {"a": "\ufffd"}]
    assert problems == ["line 2, byte 14: bytes that are not UTF-8, read as U+FFFD"]


def test_half_of_a_surrogate_pair_is_told():
    found, problems = values(rb'{"a":1}' + b"\n" + rb'{"a":"\\ud800 \ud83d\ude00 \ud800"}')
    assert found == [{"a": 1}, {"a": "\\ud800 \U0001f600 \ufffd"}]
    assert problems == ["line 2, byte 35: half of a surrogate pair, read as U+FFFD"]


def essence(data: bytes) -> str:
    """A text without what stands between values: blanks, commas, separators, the brackets of arrays."""
    text = data.decode("utf-8", "surrogateescape")
    return re.sub(r"[\s,\x1e\ufeff\[\]]", "", text)


@given(OBJECTS, st.binary(min_size=1, max_size=12), st.data())
def test_no_byte_is_lost_in_silence(found, noise, data):
    """Whatever is put into a file is in a record, or something is told."""
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in found)
    at = data.draw(st.integers(0, len(lines)))
    noisy = lines[:at] + noise + lines[at:]
    read, problems = records(noisy)
    if not problems:
        assert essence(b"".join(each.raw for each in read)) == essence(noisy)


def test_thousands_of_problems_are_counted():
    _, problems = records(b"{oops}\n" * 5000)
    assert len(problems) == 201
    assert problems[-1] == "4,800 more problems"


def test_numbers_and_words_at_the_edge_of_what_was_read():
    for size in (1 << 18, (1 << 18) - 1, (1 << 18) - 3):
        text = b" " * (size - 2) + b"12345 true"
        assert values(text) == ([12345, True], [])

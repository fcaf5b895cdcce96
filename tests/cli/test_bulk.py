"""Bulk translation with several processes says what one process says, whatever the file looks like."""

import gzip
import io
import json
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cannery.cli.bulk import Lines, blocks
from cannery.cli.complaints import Complaint
from cannery.cli.workers import Workers

WORDS = ("translate", "--from", "sharegpt", "--to", "openai_chat")
MARK = b"\xef\xbb\xbf"


def record(number: int, size: int = 600) -> bytes:
    turns = [
        {"from": "human", "value": f"question {number}"},
        {"from": "gpt", "value": "é" * size},
    ]
    return json.dumps({"conversations": turns}, ensure_ascii=False).encode()


def many(end: bytes = b"\n") -> bytes:
    """More than two pieces, with bad lines, odd ones, blank ones and one that is longer than a piece."""
    lines = [b"", b"", *(record(number) for number in range(2000))]
    lines[3] = b'{"conversations": '
    lines[700] = b""
    lines[1200] = record(1200, 1_100_000)
    lines[1500] = b'{"conversations": [{"from": "admin", "value": "x"}]}'
    lines[1600] = b'{"conversations": [{"from": "human", "value": "x"}], "source": "web"}'
    lines[1999] = b"no JSON"
    return end.join(lines)


@pytest.mark.parametrize(
    "data, name",
    [
        (many(), "plain.jsonl"),
        (MARK + many(), "marked.jsonl"),
        (many(b"\r\n"), "windows.jsonl"),
        (many() + b"\n", "ended.jsonl"),
        (gzip.compress(many(), 1), "packed.jsonl.gz"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_any_number_of_processes_says_the_same(run, tmp_path, data, name):
    (tmp_path / name).write_bytes(data)
    told = ("--losses", "losses.json")
    alone = run(*WORDS, tmp_path / name, "-o", "one.jsonl", *told)
    losses = (run.home / "losses.json").read_bytes()
    beside = run(*WORDS, tmp_path / name, "-o", "some.jsonl", *told, "--jobs", "3")
    assert (run.home / "one.jsonl").read_bytes() == (run.home / "some.jsonl").read_bytes()
    assert (alone.code, alone.err) == (beside.code, beside.err)
    assert (run.home / "losses.json").read_bytes() == losses
    assert [line.split(":")[0] for line in alone.err.splitlines()[:3]] == [
        "line 4",
        "line 1501",
        "line 2000",
    ]
    written = (run.home / "one.jsonl").read_bytes().splitlines()
    asked = [json.loads(line)["messages"][0]["content"] for line in written]
    assert asked[:3] == ["question 0", "question 2", "question 3"]
    assert len(asked) == 1996


def test_a_pipe_is_shared_out_too(run):
    data = many()
    assert run(*WORDS, given=data) == run(*WORDS, "--jobs", "2", given=data)


def test_strict_stops_at_the_first_bad_line_of_all(run, tmp_path):
    (tmp_path / "many.jsonl").write_bytes(many())
    ran = run(*WORDS, tmp_path / "many.jsonl", "--strict", "--jobs", "2", "-o", "out.jsonl")
    assert ran.code == 1
    assert "line 4:" in ran.err
    assert not (run.home / "out.jsonl").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is full")
def test_a_full_disk_is_said_by_whoever_writes(run, tmp_path):
    (tmp_path / "many.jsonl").write_bytes(many())
    words = (*WORDS, tmp_path / "many.jsonl", "-q", "-o", "/dev/full", "--jobs")
    alone, beside = run(*words, "1"), run(*words, "2")
    assert (alone.code, alone.err) == (beside.code, beside.err)
    assert "No space left" in beside.err


def test_a_reader_who_has_enough_ends_all_processes_silently(run, tmp_path):
    (tmp_path / "many.jsonl").write_bytes(many() * 8)
    process = run.start(*WORDS, "-q", "--jobs", "2", tmp_path / "many.jsonl")
    with process.stdin, process.stdout as output, process.stderr as said:
        output.read(1)
        output.close()
        process.wait(timeout=30)
        assert said.read() == b""


def test_a_process_that_is_killed_is_said(run, tmp_path):
    (tmp_path / "many.jsonl").write_bytes(many() * 8)
    process = run.start(*WORDS, "-q", "--jobs", "2", tmp_path / "many.jsonl")
    process.stdout.read(1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        pytest.skip("only Linux lists the processes of a process")
    for child in children.read_text().split():
        os.kill(int(child), signal.SIGKILL)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert b"has died" in said
    assert b"Traceback" not in said


@settings(max_examples=200, deadline=None)
@given(
    data=st.lists(st.sampled_from([b"", b"a", b"bb", b"c" * 9]), max_size=30).map(b"\n".join),
    first=st.integers(0, 3),
    size=st.integers(1, 12),
)
def test_ranges_have_every_line_once(tmp_path_factory, data, first, size):
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(b"#" * first + data)
    with path.open("rb") as file:
        end = first + len(data)
        ranges = [(at, min(at + size, end)) for at in range(first, end, size)]
        found = [
            io.BufferedReader(Lines(file.fileno(), first, *between), 8).read() for between in ranges
        ]
    assert b"".join(found) == data
    assert all(piece.endswith(b"\n") for piece in found[:-1] if piece and piece is not _last(found))


def _last(found):
    return [piece for piece in found if piece][-1]


@settings(max_examples=100)
@given(
    data=st.lists(st.sampled_from([b"", b"a", b"bb", b"c" * 9]), max_size=30).map(b"\n".join),
    first=st.integers(0, 12),
    size=st.integers(1, 12),
)
def test_blocks_are_whole_lines(data, first, size):
    found = list(blocks(io.BytesIO(data[first:]), data[:first], size))
    assert [line for lines in found for line in lines] == io.BytesIO(data).readlines()
    assert all(found)


def test_a_process_that_fails_says_why_and_ends_the_others(tmp_path, capfd):
    def work(piece):
        return None, [b"%d\n" % (12 // piece[0])]

    with (
        (tmp_path / "out").open("wb") as file,
        pytest.raises(Complaint, match="has died"),
        Workers(2, work, file.fileno()) as workers,
    ):
        list(workers.run([(3,), (4,), (2,), (0,), (1,)]))
    assert b"4\n3\n6\n".startswith((tmp_path / "out").read_bytes())
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_what_is_large_or_small_is_written_in_order(tmp_path):
    def work(piece):
        return len(piece), [piece[:1], piece[1:]]

    pieces = [bytes([65 + at]) * size for at, size in enumerate([1, 9 << 20, 0, 70_000, 3])]
    with (tmp_path / "out").open("wb") as file, Workers(2, work, file.fileno()) as workers:
        assert list(workers.run(pieces)) == [len(piece) for piece in pieces]
    assert (tmp_path / "out").read_bytes() == b"".join(pieces)

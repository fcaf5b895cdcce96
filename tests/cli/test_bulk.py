"""Bulk translation with several processes says what one process says, whatever the file looks like."""

import gzip
import io
import json
import os
import signal
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cannery.cli.bulk import blocks
from cannery.cli.complaints import Complaint
from cannery.cli.file_ranges import blocks_of, pieces_of, put_pieces, unnamed
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


def test_any_number_of_processes_may_be_asked_for(run):
    data = many()
    assert run(*WORDS, given=data) == run(*WORDS, "--jobs", "5000", given=data)


def test_a_file_is_read_from_where_it_stands(run, tmp_path):
    (tmp_path / "many.jsonl").write_bytes(many())
    outputs = []
    for jobs in (1, 2):
        with (tmp_path / "many.jsonl").open("rb", 0) as file:
            file.seek(many().index(b"\n", 200_000) + 1)
            process = run.start(*WORDS, "-q", "--jobs", jobs, stdin=file)
            outputs.append(process.communicate(timeout=30)[0])
    assert outputs[0] == outputs[1]
    assert 1000 < outputs[0].count(b"\n") < 1996


def test_an_array_is_shared_out_too(run):
    data = b"[%b]" % b",".join(record(number) for number in range(2000))
    alone = run(*WORDS, given=data)
    assert alone == run(*WORDS, "--jobs", "2", given=data)
    assert alone.out.count("\n") == 2000


def test_strict_stops_at_the_first_bad_line_of_all(run, tmp_path):
    (tmp_path / "many.jsonl").write_bytes(many())
    ran = run(*WORDS, tmp_path / "many.jsonl", "--strict", "--jobs", "2", "-o", "out.jsonl")
    assert ran.code == 1
    assert "line 4:" in ran.err
    assert not (run.home / "out.jsonl").exists()


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_strict_writes_nothing_behind_a_bad_line(run, tmp_path, jobs):
    lines = [record(number) for number in range(5000)]
    lines[2500] = b"no JSON"
    (tmp_path / "many.jsonl").write_bytes(b"\n".join(lines))
    ran = run(*WORDS, tmp_path / "many.jsonl", "--strict", "--jobs", jobs)
    assert ran.code == 1
    assert "line 2501:" in ran.err
    written = [json.loads(line)["messages"][0]["content"] for line in ran.out.splitlines()]
    assert written == [f"question {number}" for number in range(len(written))]
    assert 0 < len(written) <= 2500


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
        assert process.wait(timeout=30) == 141
        assert said.read() == b""


def children_of(process):
    """The processes of a process."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        process.kill()
        pytest.skip("only Linux lists the processes of a process")
    return [int(child) for child in children.read_text().split()]


@pytest.mark.parametrize("killed", [slice(1), slice(1, 2), slice(2)], ids=["one", "other", "both"])
def test_a_process_that_is_killed_is_said(run, tmp_path, killed):
    (tmp_path / "many.jsonl").write_bytes(many() * 8)
    process = run.start(*WORDS, "-q", "--jobs", "2", tmp_path / "many.jsonl")
    process.stdout.read(1)
    for child in children_of(process)[killed]:
        os.kill(child, signal.SIGKILL)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert b"has died" in said
    assert b"Traceback" not in said


def test_processes_end_when_their_parent_is_killed(run, tmp_path):
    (tmp_path / "many.jsonl").write_bytes(many() * 8)
    with run.start(*WORDS, "-q", "--jobs", "3", tmp_path / "many.jsonl") as process:
        process.stdout.read(1)
        children = children_of(process)
        process.kill()
        process.wait()
        assert len(children) == 3
        process.stdout.read()  # ends only when nobody can write any more


def test_an_interrupt_ends_all_processes(run, tmp_path):
    (tmp_path / "many.jsonl").write_bytes(many() * 8)
    process = run.start(*WORDS, "-q", "--jobs", "2", tmp_path / "many.jsonl")
    process.stdout.read(1)
    children = children_of(process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


@pytest.mark.parametrize("jobs", [1, 2])
def test_memory_is_bounded_while_nobody_reads(run, tmp_path, jobs):
    def peaks(lines):
        """How much memory each process took in the end, in KB, if all have time to go ahead of a reader."""
        (tmp_path / "data.jsonl").write_bytes((record(1, 5000) + b"\n") * lines)
        with run.start(*WORDS, "-q", "--jobs", jobs, tmp_path / "data.jsonl") as process:
            process.stdout.read(1)
            processes = [process.pid, *children_of(process)]
            time.sleep(0.7)
            taken = [peak_of(each) for each in processes]
            process.stdout.read()
        assert process.returncode == 0
        return taken

    few, many_lines = peaks(1000), peaks(10_000)
    assert len(few) == len(many_lines) == (jobs + 1 if jobs > 1 else 1)
    assert max(many_lines) < max(few) + 30_000


def peak_of(process):
    said = Path(f"/proc/{process}/status").read_text()
    return int(said.partition("VmHWM:")[2].split()[0])


LINES = st.lists(st.sampled_from([b"", b"a", b"bb", b"c" * 9, b"d" * 40]), max_size=30)


@settings(max_examples=200, deadline=None)
@given(
    data=LINES.map(b"\n".join),
    first=st.integers(0, 3),
    least=st.integers(1, 12),
    jobs=st.integers(1, 9),
)
def test_pieces_have_every_line_once(tmp_path_factory, data, first, least, jobs):
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(b"#" * first + data)
    with path.open("rb") as file:
        found = list(pieces_of(file.fileno(), first, jobs, least))
        lines = [os.pread(file.fileno(), end - start, start) for start, end in found]
    assert b"".join(lines) == data
    assert all(lines)
    assert all(piece.endswith(b"\n") for piece in lines[:-1])


@settings(max_examples=200, deadline=None)
@given(
    data=LINES.map(b"\n".join),
    first=st.integers(0, 50),
    size=st.integers(1, 12),
    most=st.integers(1, 3),
)
def test_what_is_put_has_every_line_once(data, first, size, most):
    found = []
    with unnamed() as shared:
        descriptor = shared.fileno()
        given = io.BytesIO(data[first:])
        for piece in put_pieces(given, data[:first], descriptor, most, size):
            found += [line for lines in blocks_of(descriptor, piece, 7) for line in lines]
    assert found == io.BytesIO(data).readlines()


@settings(max_examples=200, deadline=None)
@given(data=LINES.map(b"\n".join), size=st.integers(1, 60))
def test_blocks_of_a_piece_are_whole_lines(data, size):
    with unnamed() as shared:
        shared.write(b"before\n" + data)
        shared.flush()
        found = list(blocks_of(shared.fileno(), (7, 7 + len(data)), size))
    assert [line for lines in found for line in lines] == io.BytesIO(data).readlines()
    assert all(found)
    assert all(len(b"".join(lines)) <= max(size, 2 * len(max(lines, key=len))) for lines in found)


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
    def work(piece, write):
        write(b"%d\n" % (12 // piece[0]))
        return None, True

    with (
        (tmp_path / "out").open("wb") as file,
        pytest.raises(Complaint, match="has died"),
        Workers(2, work, file.fileno()) as workers,
    ):
        list(workers.run([(3, 0), (4, 0), (2, 0), (0, 0), (1, 0)]))
    assert b"4\n3\n6\n".startswith((tmp_path / "out").read_bytes())
    assert "ZeroDivisionError" in capfd.readouterr().err


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([0, 1, 3, 70_000, 3 << 20]), max_size=12),
    count=st.integers(1, 5),
)
def test_what_is_large_or_small_is_written_in_order(tmp_path_factory, sizes, count):
    def work(piece, write):
        number, size = piece
        for _ in range(size % 3):
            write(b"%d\n" % number)
        write(bytes([65 + number]) * size)
        return [number] * size, True

    path = tmp_path_factory.getbasetemp() / "written"
    with path.open("wb") as file, Workers(count, work, file.fileno()) as workers:
        told = list(workers.run(enumerate(sizes)))
    assert told == [[number] * size for number, size in enumerate(sizes)]
    assert path.read_bytes() == b"".join(
        b"%d\n" % number * (size % 3) + bytes([65 + number]) * size
        for number, size in enumerate(sizes)
    )


def test_nothing_is_written_behind_what_ends_all(tmp_path):
    def work(piece, write):
        write(b"%d\n" % piece[0])
        return piece[0], piece[0] != 4

    with (
        (tmp_path / "out").open("wb") as file,
        pytest.raises(Complaint, match="enough"),
        Workers(3, work, file.fileno()) as workers,
    ):
        stop_at(4, workers.run((number, 0) for number in range(100)))
    assert (tmp_path / "out").read_bytes() == b"0\n1\n2\n3\n4\n"


def stop_at(last, told):
    for number, value in enumerate(told):
        assert value == number
        if value == last:
            raise Complaint("enough")


def test_who_is_fast_goes_ahead_of_who_is_slow_but_not_far(tmp_path):
    started = tmp_path / "started"

    def begun():
        return started.read_bytes().count(b"\n")

    def work(piece, write):
        with started.open("ab") as file:
            file.write(b"%d\n" % piece[0])
        if piece[0] == 0:
            give_up = time.monotonic() + 30
            while begun() < 3 and time.monotonic() < give_up:
                time.sleep(0.01)
            time.sleep(0.1)
        write(b"%d\n" % piece[0])
        return (begun() if piece[0] == 0 else None), True

    with (tmp_path / "out").open("wb") as file, Workers(2, work, file.fileno()) as workers:
        told = list(workers.run((number, 0) for number in range(20)))
    assert told == [3, *[None] * 19]
    assert (tmp_path / "out").read_bytes() == b"".join(b"%d\n" % number for number in range(20))

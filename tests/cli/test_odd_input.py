"""What people really hand over: byte order marks, packed, empty, huge and unreadable files; closed and full outputs."""

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import COMMAND

BODY = '{"model":"gpt-5","messages":[{"role":"user","content":"Hi"}]}'
FULL = Path("/dev/full")
LINES = f"{BODY}\r\n{BODY}\r\n"
TO = ("--to", "openai_responses", "--quiet")


def complains(ran, code=1):
    """One or two lines, the second one with what to do."""
    lines = ran.err.strip().splitlines()
    return ran.code == code and 1 <= len(lines) <= 2 and "internal error" not in ran.err


@pytest.fixture
def given(tmp_path):
    def write(data, name="body.json"):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


@pytest.mark.parametrize(
    "verb", [("translate", *TO), ("doctor",), ("roles", "normalize"), ("import",)]
)
@pytest.mark.parametrize(
    "data", ["\ufeff" + BODY, gzip.compress(BODY.encode())], ids=["mark", "gzip"]
)
def test_marked_and_packed_files_are_read(run, given, verb, data):
    verb, *options = verb
    rest = [options.pop(0)] if verb == "roles" else []
    ran = run(verb, *rest, given(data), *options)

    assert ran.code == 0
    assert ran.out


@pytest.mark.parametrize(
    "data",
    [LINES, "\ufeff" + LINES, gzip.compress(LINES.encode())],
    ids=["plain", "mark", "gzip"],
)
def test_lines_may_be_marked_packed_and_end_as_on_windows(run, given, data):
    ran = run("translate", given(data, "lines.jsonl"), *TO)

    assert ran.code == 0
    assert len(ran.out.splitlines()) == 2
    assert run("translate", *TO, given=data).out == ran.out


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \n\t\n",
        b"\x1f\x8bnot gzip",
        gzip.compress(LINES.encode())[:-9],
        "{}".encode("utf-16"),
    ],
    ids=["empty", "blank", "no gzip", "cut gzip", "utf-16"],
)
@pytest.mark.parametrize("verb", ["translate", "doctor", "import"])
def test_unreadable_files_are_named(run, given, data, verb):
    ran = run(verb, given(data, "odd.jsonl"), *(TO if verb == "translate" else ()))

    assert complains(ran)


@pytest.mark.parametrize("verb", ["translate", "doctor", "import", "roles"])
@pytest.mark.parametrize(
    "data", [os.urandom(4000), b"plain words", b"[1, 2", b'"text"', b"[]", b"{}"]
)
def test_garbage_is_refused_without_noise(run, given, verb, data):
    action = ("normalize",) if verb == "roles" else ()
    ran = run(verb, *action, given(data), *(TO if verb == "translate" else ()))

    assert complains(ran) or (verb, data, ran.code) == ("roles", b"[]", 0)


@pytest.mark.parametrize("verb", ["translate", "roles"])
def test_folder_instead_of_a_file(run, tmp_path, verb):
    action = ("normalize",) if verb == "roles" else ()
    assert complains(run(verb, *action, tmp_path, *(TO if verb == "translate" else ())))


def test_huge_line_among_short_ones(run, given, tmp_path):
    record = '{"conversations":[{"from":"human","value":"%s"}]}\n'
    data = given(record % "a" + record % ("x" * 20_000_000) + record % "b", "data.jsonl")
    ran = run("translate", data, "--to", "openai_chat", "-q", "-o", "out.jsonl")

    assert ran.code == 0
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    said = [json.loads(line)["messages"][0]["content"] for line in lines]
    assert [len(each) for each in said] == [1, 20_000_000, 1]


def test_bulk_answers_in_json_line_by_line(run, given):
    ran = run("translate", given(f"{BODY}\nbroken\n{BODY}\n", "l.jsonl"), *TO, "--json")
    told = [json.loads(line) for line in ran.out.splitlines()]

    assert ran.code == 1
    assert [sorted(each) for each in told] == [
        ["body", "losses", "repairs"],
        ["problem"],
        ["body", "losses", "repairs"],
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("translate", "--jobs", "-1", *TO),
        ("list", "-n", "many"),
        ("list", "-n", "-1"),
        ("show", "@", "--last", "-2"),
        ("stats", "--days", "x"),
        ("fork", "@", "--at", "-1"),
        ("serve", "--port", "70000"),
    ],
)
def test_numbers_are_checked(run, words):
    ran = run(*words)

    assert complains(ran, code=2)
    assert "takes a" in ran.err


@pytest.mark.parametrize(
    "verb", [("translate", "-o"), ("stats", "--svg"), ("export", "--all", "-o")]
)
def test_output_into_a_folder_that_is_not_there(run, given, store, verb):
    more = (given(BODY), *TO) if verb[0] == "translate" else ("--store", store)
    ran = run(*verb, "no/such/file", *more)

    assert complains(ran)
    assert "no/such" in ran.err
    assert "partial" not in ran.err


def test_missing_file_makes_no_store(run, tmp_path):
    assert complains(run("import", "nowhere.json", "--store", tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_closed_outputs_are_not_errors(run):
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        finished = subprocess.run(
            ["bash", "-c", f'"$@" {closed}', "bash", *COMMAND, "--version"],
            capture_output=True,
            check=False,
            env=run.surroundings(),
        )
        assert finished.returncode == 0
        assert finished.stderr == b""


@pytest.mark.skipif(not FULL.exists(), reason="no full device")
def test_full_disk_is_said(run, given):
    with FULL.open("wb") as full:
        finished = subprocess.run(
            [*COMMAND, "translate", str(given(BODY)), *TO],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            env=run.surroundings(),
        )
    assert finished.returncode == 1
    assert b"No space left" in finished.stderr
    assert b"Traceback" not in finished.stderr
    assert b"Exception ignored" not in finished.stderr


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"", "It is empty"),
        (b" \n\n", "It is empty"),
        (b'{"messages": [', "the file is cut off inside a record"),
        (b"\x7fELF\x02\x01\x01\x00", "line 1, byte 0: not JSON"),
        (b"[1, 2]", "Nothing in it looks like a message"),
        (b'{"what": "is this"}', 'First bytes: \'{"what": "is this"}\''),
        (gzip.compress(LINES.encode() * 50)[:60], "the compressed data is damaged"),
    ],
    ids=["nothing", "blank", "cut", "program", "numbers", "object", "packed"],
)
def test_import_says_why_it_knows_no_format(run, given, tmp_path, data, reason):
    ran = run("import", given(data, "what"), "--store", tmp_path / "none")
    assert complains(ran)
    assert reason in ran.err
    assert "what" in ran.err
    assert not (tmp_path / "none").exists()


def test_what_is_imported_from_a_pipe_is_called_stdin(run):
    ran = run(
        "import", "-", given='{"from": "nobody"}\n{"messages": [{"role": "user", "content": "Hi"}]}'
    )
    assert ran.err.startswith("stdin: read as")
    said = run("list").out
    assert "cannery-" not in ran.err + ran.out + said


@pytest.mark.parametrize("more", [(), ("--explain",)])
def test_a_body_that_is_said_to_be_in_another_dialect(run, given, more):
    ran = run("translate", given(BODY), "--from", "gemini_generate", "--to", "openai_chat", *more)
    assert complains(ran)
    assert "body.json: gemini_generate: contents" in ran.err
    assert "It looks like openai_chat" in ran.err

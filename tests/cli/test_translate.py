"""``cannery translate``: one body, streams, and bodies in bulk."""

import json
import signal
import time

import pytest

from tests.oracles.corpus import DATA

TARGET = ("--to", "anthropic_messages")
LINE = '{"model":"gpt-5","messages":[{"role":"user","content":"number %d"}]}\n'
RECORD = '{"conversations":[{"from":"human","value":"Hi %d"},{"from":"gpt","value":"Hello"}]}\n'


def test_dialect_is_detected_and_said(run, chat):
    ran = run("translate", chat, *TARGET)

    assert ran.code == 0
    assert json.loads(ran.out)["system"] == "Be brief."
    assert ran.out.count("\n") == 1
    assert ran.err.startswith("read as openai_chat: ")


def test_losses_are_reported_with_their_paths(run, chat):
    ran = run("translate", chat, *TARGET)

    assert "openai_chat → anthropic_messages: 2 losses" in ran.err
    assert "lost      FIELD_DROPPED" in ran.err
    assert "logit_bias" in ran.err


@pytest.mark.parametrize("more", [["--quiet"], ["--policy", "allow", "--from", "openai_chat"]])
def test_losses_can_be_left_unsaid(run, chat, more):
    ran = run("translate", chat, *TARGET, *more)

    assert (ran.code, ran.err) == (0, "")


def test_strict_policy_says_nothing_but_what_would_be_lost(run, chat):
    ran = run("translate", chat, *TARGET, "--policy", "strict")

    assert (ran.code, ran.out) == (1, "")
    assert "FIELD_DROPPED at logit_bias" in ran.err


def test_losses_as_json(run, chat, tmp_path):
    run("translate", chat, *TARGET, "--losses", "losses.json")
    told = json.loads((tmp_path / "losses.json").read_text())

    assert (told["source"], told["target"]) == ("openai_chat", "anthropic_messages")
    assert {loss["code"] for loss in told["losses"]} == {"FIELD_DROPPED", "CONTROL_DEFAULTED"}


def test_json_answer_has_everything(run, chat):
    told = run("translate", chat, *TARGET, "--json", "--explain").json

    assert told["body"]["messages"] == [{"role": "user", "content": "Hi"}]
    assert [canister["role"] for canister in told["canisters"]] == ["supervisor", "user"]
    assert told["canisters"][0]["content"] == {"type": "text", "text": "Be brief."}


def test_explain_shows_the_canisters_beside_the_answer(run, chat):
    ran = run("translate", chat, *TARGET, "--explain")

    assert "supervisor  Be brief." in ran.err
    json.loads(ran.out)


def test_reads_stdin_and_names_a_model(run, chat):
    ran = run("translate", "-", *TARGET, "--model", "claude-x", given=chat.read_bytes())

    assert json.loads(ran.out)["model"] == "claude-x"


def test_response(run):
    case = json.loads((DATA / "openai_chat/responses/plain.json").read_text())
    ran = run("translate", *TARGET, given=json.dumps(case.get("body", case)))

    assert json.loads(ran.out)["type"] == "message"


def test_stream_comes_while_it_is_read(run):
    stream = (DATA / "openai_chat/streams/plain_text.sse").read_bytes()
    events = stream.split(b"\n\n")
    process = run.start("translate", "--from", "openai_chat", *TARGET)
    process.stdin.write(b"\n\n".join(events[:3]) + b"\n\n")
    process.stdin.flush()

    assert process.stdout.readline() == b"event: message_start\n"
    process.stdin.write(b"\n\n".join(events[3:]))
    rest, error = process.communicate(timeout=30)
    assert b"message_stop" in rest
    assert (process.returncode, error) == (0, b"")


def test_stream_is_the_text_of_a_body_where_json_is_asked_for(run):
    stream = (DATA / "openai_chat/streams/plain_text.sse").read_bytes()
    told = json.loads(run("translate", *TARGET, "--json", given=stream).out)

    assert (told["kind"], told["source"]) == ("stream", "openai_chat")
    assert told["body"] == run("translate", *TARGET, given=stream).out


@pytest.mark.parametrize("asked", [("--policy", "strict"), ("--losses", "losses.json")])
def test_stream_has_no_report_that_could_be_asked_for(run, asked):
    stream = (DATA / "openai_chat/streams/plain_text.sse").read_bytes()
    ran = run("translate", *TARGET, *asked, given=stream)

    assert (ran.code, ran.out) == (2, "")
    assert "for requests and responses" in ran.err


def test_terminal_gets_indented_json(run, chat):
    ran = run.on_terminal("translate", chat, *TARGET, "--quiet")

    assert '\n  "model": "gpt-5"' in ran.out


# --- bulk ---------------------------------------------------------------------------------------


def test_bulk_keeps_the_order_and_names_bad_lines(run):
    given = LINE % 0 + "{broken\n" + "\n" + LINE % 1
    ran = run("translate", *TARGET, given=given)

    assert ran.code == 1
    said = [json.loads(line)["messages"][0]["content"] for line in ran.out.splitlines()]
    assert said == ["number 0", "number 1"]
    assert "line 2: " in ran.err
    assert "4 lines, 1 bad" in ran.err
    assert "CONTROL_DEFAULTED" in ran.err


def test_strict_bulk_stops_and_leaves_no_file(run, tmp_path):
    given = LINE % 0 + "{broken\n" + LINE % 1
    ran = run("translate", *TARGET, "--strict", "-o", "out.jsonl", given=given)

    assert ran.code == 1
    assert "line 2" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_processes_give_the_same_output_in_order(run, tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text("".join(RECORD % number for number in range(40_000)))
    words = ["translate", data, "--to", "openai_chat", "--policy", "allow"]
    run(*words, "-o", "one.jsonl")
    ran = run(*words, "-o", "two.jsonl", "--jobs", "2")

    assert ran.code == 0
    assert "read as sharegpt" in ran.err
    one, two = ((tmp_path / name).read_bytes() for name in ("one.jsonl", "two.jsonl"))
    assert one == two
    assert one.count(b"\n") == 40_000
    assert json.loads(one.splitlines()[39_999])["messages"][0]["content"] == "Hi 39999"


def test_array_of_records_is_bulk(run):
    given = json.dumps([json.loads(RECORD % number) for number in range(3)], indent=2)
    ran = run("translate", "--to", "openai_chat", given=given)

    assert ran.code == 0
    assert len(ran.out.splitlines()) == 3


def test_losses_of_bulk_name_their_lines(run, tmp_path):
    run("translate", *TARGET, "--losses", "losses.json", given=LINE % 0 + "{}\n" + LINE % 1)
    told = json.loads((tmp_path / "losses.json").read_text())

    assert [loss["line"] for loss in told["losses"]] == [1, 3]
    assert [failure["line"] for failure in told["failures"]] == [2]
    assert told["lines"] == 3


def test_closed_pipe_is_silent(run, tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_text("".join(LINE % number for number in range(20_000)))
    with run.start("translate", data, *TARGET, "--quiet") as process:
        process.stdout.readline()
        process.stdout.close()

        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 141


@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupt_leaves_nothing_behind(run, tmp_path, jobs):
    process = run.start("translate", "--lines", *TARGET, "-o", "out.jsonl", "--jobs", jobs, "-q")
    process.stdin.write((LINE % 1).encode() * 40_000)
    process.stdin.flush()
    deadline = time.monotonic() + 20
    while not list(tmp_path.glob(".out*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)

    assert process.returncode == 130
    assert error == b"\ncannery: interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_bulk_shows_progress_on_a_terminal(run, tmp_path):
    data = tmp_path / "data.jsonl"
    weighed = RECORD.replace('"}', '", "weight": 1}', 1)  # nothing that a short way takes
    data.write_text("".join(weighed % number for number in range(20_000)))
    ran = run.on_terminal("translate", data, "--to", "openai_chat", "-o", "out.jsonl")

    assert ran.code == 0
    assert "translating" in ran.out
    assert "MB/s" in ran.out
    assert "0:00" in ran.out

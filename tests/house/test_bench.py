"""The measurements' page says what the figures say, and no goal is missing from it."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys

import pytest

from tests.house.sources import ROOT

BENCH = ROOT / "bench"
PROGRAMS = {
    "translate",
    "bulk",
    "storage",
    "growth",
    "stalls",
    "encryption",
    "gateway",
    "footprint",
}
# What was promised, in the order of the page; a goal is changed here and there, or nowhere.
PROMISED = [
    ("bodies of agents, total", 2.5),
    ("bodies of agents, total beside peers", 1),
    ("captured bodies, total", 2.5),
    ("captured bodies, total beside peers", 1),
    ("captured bodies, median", 5.5),
    ("captured bodies, 90th percentile", 9),
    ("captured bodies, worst", 25),
    ("one chat in many spellings", 2),
    ("translate, short chat", 8),
    ("translate, agentic", 3),
    ("translate, images", 1.3),
    ("translate, long", 3.5),
    ("append one message to 400 and write again", 0.15),
    ("bulk ShareGPT → OpenAI, per line", 5),
    ("`import cannery`, CPU over bare Python", 60),
    ("`cannery --version`, CPU of the process", 150),
    ("`cannery translate` of a small body", 150),
    ("SDKs and web frameworks that it loads", 0),
    ("a million small messages in memory", 240),
    ("durable append, mixed sizes", 1.3),
    ("append to a long conversation", 1.1),
    ("16 writers, per message", 0.3),
    ("load 10,000, hydrated and verified", 0.5),
    ("last 50 of 100,000 without reading the rest", 1.5),
    ("fork, syncs", 3),
    ("fork, bytes", 1024),
    ("disk, corpus with duplicates", 0.30),
    ("verify, logical bytes", 300),
    ("gateway, a streamed chunk, translating and recording", 5),
    ("gateway, a request, passing", 6),
    ("gateway, a request, translating and recording", 14),
    ("gateway, resident memory after all of it", 120),
]


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(*arguments):
    return subprocess.run(
        [sys.executable, str(BENCH / "report.py"), "--check", *arguments],
        capture_output=True,
        check=False,
        text=True,
    )


def test_the_tables_and_plots_are_what_the_figures_say():
    checked = report()

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_every_program_has_left_its_figures():
    assert {path.stem for path in (BENCH / "results").glob("*.json")} == PROGRAMS


@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_a_figure_that_differs_is_noticed(program, tmp_path):
    shutil.copytree(BENCH / "results", tmp_path, dirs_exist_ok=True)
    path = tmp_path / f"{program}.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    row = next(row for row in found["rows"] if row["contender"].startswith("cannery"))
    name = "bytes_per_message" if program == "footprint" else "median"
    row[name] *= 1.5
    path.write_text(json.dumps(found), encoding="utf-8")

    checked = report("--results", str(tmp_path))

    assert checked.returncode == 1
    assert "README.md is not what the figures say" in checked.stdout


def test_every_goal_stands_in_the_page_with_a_verdict():
    text = (BENCH / "README.md").read_text(encoding="utf-8")
    found = re.findall(
        r"^\| ([^|]+) \| at (?:most|least) ([\d.]+)[^|]* \| [^|]+ \| ([^|]+) \|$",
        text,
        re.MULTILINE,
    )

    assert [(what, float(bound)) for what, bound, _ in found] == PROMISED
    assert {re.sub(r" \(.*", "", verdict).strip("*") for _, _, verdict in found} <= {
        "met",
        "missed",
    }


def test_a_goal_without_figures_says_so():
    goals = loaded("goals").GOALS

    assert {goal.verdict(goal.cells({})) for goal in goals} == {"not measured"}


def test_a_goal_is_met_only_by_all_of_its_cells():
    goal = loaded("goals").GOALS[0]

    assert goal.verdict({"a": 1.9, "b": 2.5}) == "met"
    assert goal.verdict({"a": 1.9, "b": 2.6}) == "**missed** (1 of 2 met)"


def test_what_a_translation_drops_is_named():
    completeness = loaded("completeness")
    call = {"id": "c", "function": {"name": "look", "arguments": '{"where": "under the bed"}'}}
    body = {
        "max_tokens": 5,
        "messages": [
            {"role": "user", "content": "Find it."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "Dust."},
        ],
    }
    whole = {"said": ["Find it.", {"look": "under the bed"}, "Dust."], "max_output_tokens": 5}

    assert completeness.dropped(body, whole) == []
    assert completeness.dropped(body, {"said": ["Find it.", "look"]}) == [
        "arguments",
        "results",
        "max_tokens",
    ]


@pytest.fixture
def captures(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("captures")


def test_cut_strings_have_their_real_length_again(captures):
    cut = {"content": ["begin…[3662 chars cut]…end", 1]}

    assert len(captures.refilled(cut)["content"][0]) == len("begin") + 3662 + len("end")


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "gemini_generate"])
def test_every_call_says_something_new_and_nothing_else_changes(captures, dialect):
    for body in captures.captured(dialect):
        one, other = body.fresh(), body.fresh()
        assert one != other
        assert len(one) == len(other)
        assert json.loads(one).keys() == json.loads(other).keys()


def test_recorded_requests_are_found_by_their_paths(captures, monkeypatch, tmp_path):
    chat = {"messages": [{"role": "user", "content": "Find it."}]}
    requests = [
        {"path": "/", "body": None},
        {"path": "/v1/messages/count_tokens", "body": chat},
        {"path": "/v1/chat/completions", "body": chat},
        {"path": "/v1/messages", "body": chat},
    ]
    (tmp_path / "01-agent.json").write_text(json.dumps({"requests": requests}), encoding="utf-8")
    monkeypatch.setattr(captures, "SESSIONS", tmp_path)
    recorded = captures.recorded.__wrapped__

    assert [body.name for body in recorded("openai_chat")] == ["01-agent_02"]
    assert [body.name for body in recorded("anthropic_messages")] == ["01-agent_03"]
    assert recorded("gemini_generate") == ()


def test_a_text_that_a_translation_leaves_out_is_counted(captures):
    said = [{"role": "user", "content": "Find it."}, {"role": "user", "content": "Now."}]
    body = captures.template("openai_chat", "two", {"messages": said})
    given = body.fresh()

    assert captures.missing(body, given, given) == 0
    assert captures.missing(body, given, b'["Find it."]') == 1


@pytest.mark.parametrize(
    "path", sorted((BENCH / "requirements").glob("*.in")), ids=lambda path: path.stem
)
def test_every_peer_is_pinned(path):
    pins = path.with_suffix(".txt").read_text(encoding="utf-8").splitlines()[1:]

    assert pins
    assert [
        line for line in pins if not re.fullmatch(r"[\w.-]+(\[[\w,]+\])?==[\w.+!]+", line)
    ] == []

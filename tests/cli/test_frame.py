"""What holds for every verb: help, typos, exit codes, no traceback, a light start."""

import json
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

import cannery.cli.verbs
from cannery.cli import main
from cannery.cli.catalogue import VERBS
from cannery.cli.manual import manual
from cannery.cli.stores import find_place
from cannery.gateway.settings import default_store
from tests.cli.running import COMMAND
from tests.house.sources import ROOT

FILES = sorted(Path(cannery.cli.verbs.__path__[0]).glob("[!_]*.py"))
# Options that make a verb run to its end without input.
GARBAGE = {
    "translate": ["--to", "openai_chat"],
    "doctor": ["-"],
    "roles": ["normalize", "-"],
    "import": ["-"],
}


def test_alone_it_shows_every_verb_and_examples(run):
    ran = run()

    assert ran.code == 0
    assert [verb for verb in VERBS if f"  {verb} " not in ran.out] == []
    assert "Examples" in ran.out
    assert ran.out == run("--help").out == run("help").out


def test_version(run):
    assert run("--version").out == f"cannery {metadata.version('cannery')}\n"


def test_every_file_is_a_verb_and_every_verb_a_file():
    assert {path.stem.rstrip("_") for path in FILES} == set(VERBS)


def test_verbs_are_short():
    assert [path.name for path in FILES if len(path.read_text().splitlines()) > 122] == []


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples(run, verb):
    ran = run(verb, "--help")

    assert ran.code == 0
    assert ran.out.startswith(f"Usage: cannery {verb}")
    assert f"  cannery {verb}" in ran.out.partition("Examples")[2]


def test_page_in_the_docs_is_current():
    written = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")

    assert written == manual(), "run `python -m cannery.cli.manual > docs/cli.md`"


@pytest.mark.parametrize(
    "arguments, problem, fix",
    [
        (["trnaslate"], "no verb 'trnaslate'. Did you mean `cannery translate`?", "lists them"),
        (["ls"], "Did you mean `cannery list`?", "lists them"),
        (["zzz"], "there is no verb 'zzz'", "lists them"),
        (["list", "--limt", "3"], "takes no '--limt'. Did you mean --limit?", "list --help"),
        (["translate", "--to", "anthropik"], "Did you mean 'anthropic_messages'?", "Known:"),
        (["translate", "--to", "openai_caht"], "Did you mean 'openai_chat'?", "Known:"),
        (["translate"], "missing: --to", "translate --help"),
        (["import", "x", "--format", "chatgtp"], "Did you mean 'chatgpt'?", "Known:"),
        (["list", "--role", "asistant"], "Did you mean 'assistant'?", "Known:"),
        (["export", "x", "--as", "markdwn"], "Did you mean 'markdown'?", "Known:"),
        (["completion", "bsh"], "Did you mean 'bash'?", "Known:"),
        (["roles", "explan", "x"], "Did you mean 'explain'?", "cannery roles explain"),
        (["list", "--limit", "many"], "takes a number from 0 up", "list --help"),
        (["--nonsense"], "takes no '--nonsense'", "--help"),
        (
            ["--stoer", "x", "list"],
            "takes no '--stoer' before a verb. Did you mean --store?",
            "help",
        ),
        (["translate", "--to", "antropi"], "Did you mean 'anthropic_messages'?", "Known:"),
        (["translate", "--to", "gemnii"], "Did you mean 'gemini_generate'?", "Known:"),
        (["search", "x", "--limit", "many"], "takes a number from 0 up", "search --help"),
        (["show", "@0"], "no conversation @0", "@ is the newest one"),
        (["tag", "@", "two\nlines"], "is not a tag", "one line"),
        (["list", "--since", "yesterday"], "no time: 'yesterday'", "7d"),
    ],
)
def test_misuse_is_two_lines_with_the_fix(run, store, arguments, problem, fix):
    ran = run(*arguments, CANNERY_STORE=str(store))

    assert ran.code == 2
    assert ran.out == ""
    first, second = ran.err.splitlines()
    assert first.startswith("cannery: ")
    assert problem in first
    assert fix in second


@pytest.mark.parametrize("place", ["before", "behind"])
def test_common_options_stand_anywhere(run, store, place):
    words = ["--store", store, "--json"]
    ran = run(*words, "list") if place == "before" else run("list", *words)

    assert len(ran.json) == 3


@pytest.mark.parametrize("verb", GARBAGE)
@pytest.mark.parametrize(
    "given", [b"\xff\xfe\x00garbage", b"[[[[", b"", b"[1]", b'{"messages": 3}']
)
def test_garbage_is_no_traceback(run, verb, given):
    ran = run(verb, *GARBAGE[verb], given=given)

    assert ran.code == 1
    assert "internal error" not in ran.err
    assert len(ran.err.splitlines()) <= 4


def test_deeply_nested_input_is_refused(run):
    ran = run("translate", "--to", "openai_chat", given=b"[" * 200_000)

    assert ran.code == 1
    assert "internal error" not in ran.err


def test_missing_file_is_named(run):
    ran = run("translate", "nowhere.json", "--to", "openai_chat")

    assert (ran.code, ran.out) == (1, "")
    assert (
        ran.err
        == "cannery: nowhere.json: No such file or directory\n  Give a file, or - for stdin\n"
    )


def test_where_the_store_is(monkeypatch):
    for name in ("CANNERY_STORE", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert find_place(None) == (default_store(), "default")
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    assert find_place(None) == (default_store(), "XDG_DATA_HOME")
    monkeypatch.setenv("CANNERY_STORE", "elsewhere")
    assert find_place(None) == (default_store(), "CANNERY_STORE")
    assert find_place("here") == ("here", "--store")


def test_looking_makes_no_store(run):
    assert run("list").code == 0
    ran = run("stats")

    assert ran.code == 1
    assert "there is no store at" in ran.err
    assert not (run.home / ".local").exists()


def loaded(command, environment, given):
    """The modules that a program imports."""
    finished = subprocess.run(
        command,
        input=given,
        env={**environment, "PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True,
        check=True,
    )
    lines = finished.stderr.decode().splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


# What a verb that translates one body has no use for; where it is not told what the body is, every dialect is asked.
HEAVY = (
    *("asyncio", "concurrent", "ctypes", "email", "http", "multiprocessing", "socket", "sqlite3"),
    *("ssl", "subprocess", "unittest", "urllib.request", "granian", "httptools", "rich"),
    *("cannery.backends", "cannery.gateway", "cannery.importers", "cannery.storage"),
    *("cannery.dialects.gemini_generate", "cannery.dialects.openai_responses"),
    *("cannery.dialects.alpaca", "cannery.dialects.sharegpt"),
)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        [
            *("translate", "--from", "openai_chat", "--kind", "request"),
            *("--to", "anthropic_messages"),
        ],
    ],
)
def test_starting_is_light(run, chat, arguments):
    """How light, in milliseconds, is measured by bench/footprint.py; here counts what is loaded."""
    modules = loaded([*COMMAND, *arguments], run.surroundings(), chat.read_bytes())

    assert "cannery.cli.entry" in modules
    roots = {module for module in modules for root in HEAVY if f"{module}.".startswith(f"{root}.")}
    assert roots == set()


def test_version_loads_no_dialect_and_no_model(run, chat):
    modules = loaded([*COMMAND, "--version"], run.surroundings(), b"")

    ours = {".".join(module.split(".")[:2]) for module in modules if module.startswith("cannery")}
    assert ours == {"cannery", "cannery.cli", "cannery.errors"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_verbs_and_dialects(run, shell):
    script = run("completion", shell).out

    assert [verb for verb in VERBS if verb not in script] == []
    assert "anthropic_messages" in script


def test_completion_of_bash_completes(run):
    script = run("completion", "bash").out + (
        'COMP_WORDS=(cannery translate --to anthr); COMP_CWORD=3; _cannery; echo "${COMPREPLY[@]}"\n'
        'COMP_WORDS=(cannery trans); COMP_CWORD=1; _cannery; echo "${COMPREPLY[@]}"\n'
        'COMP_WORDS=(cannery translate --lo); COMP_CWORD=2; _cannery; echo "${COMPREPLY[@]}"\n'
    )
    finished = subprocess.run(["bash"], input=script, text=True, capture_output=True, check=True)

    assert finished.stdout.split() == ["anthropic_messages", "translate", "--losses"]


def test_config_says_where_each_value_comes_from(run, tmp_path):
    file = tmp_path / "gateway.toml"
    file.write_text("[server]\nport = 9000\n")
    ran = run(
        "config", "--config", file, "--json", OPENAI_API_KEY="sk-secret-thing", CANNERY_STORE="here"
    )
    found = {row["name"]: (row["value"], row["origin"]) for row in ran.json}

    assert found["store"] == ("here", "CANNERY_STORE")
    assert found["server.port"] == (9000, f"{file}, line 2")
    assert found["server.host"] == ("127.0.0.1", "default")
    assert found["OPENAI_API_KEY"] == ("present", "environment")
    assert "sk-secret" not in ran.out


def test_json_of_every_answer_is_json(run, store, names):
    for words in (
        ["list"],
        ["show", names["bread"]],
        ["show", names["bread"], "--tree"],
        ["search", "starter"],
        ["stats"],
        ["verify"],
        ["gc", "--dry-run"],
        ["reindex"],
        ["roles"],
        ["doctor"],
        ["doctor", names["bread"]],
        ["config"],
        ["tag", names["other"], "x"],
        ["fork", names["other"]],
        ["export", names["other"]],
        ["import", "--formats"],
        ["completion", "bash"],
    ):
        ran = run(*words, "--json", CANNERY_STORE=str(store))
        json.loads(ran.out)


def test_help_before_a_verb_is_the_help_of_the_verb(run):
    assert run("--help", "list").out == run("-h", "list").out == run("list", "--help").out


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
def test_help_is_as_wide_as_the_terminal(run, columns):
    for verb in VERBS:
        told, _, _ = run(verb, "--help", COLUMNS=str(columns)).out.partition("Examples")
        body = told.splitlines()[1:]
        assert [line for line in body if len(line) > columns and " " in line.strip()] == []


def test_completion_offers_ids_with_titles(run, store, names):
    ran = run("completion", "ids", names["bread"][:20], "--store", store)

    assert f"{names['bread']}\tBread" in ran.out.splitlines()
    assert run("completion", "ids", "--store", store).out.count("\n") == 3
    assert run("completion", "ids").out == ""


def test_completion_of_bash_completes_ids(run, store, names):
    asked = (
        f"COMP_WORDS=(cannery show {names['bread'][:25]})\nCOMP_CWORD=2\n_cannery\n"
        'printf "%s\n" "${COMPREPLY[@]}"\n'
    )
    script = run("completion", "bash").out + asked
    path = f"{COMMAND[0].rpartition('/')[0]}:/usr/bin:/bin"
    finished = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=run.surroundings(CANNERY_STORE=str(store), PATH=path),
    )

    assert names["bread"] in finished.stdout.split()


def test_internal_error_leaves_a_report_without_what_was_said(tmp_path, monkeypatch, capsys):
    def fail(options):
        raise AttributeError("what a person said")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("cannery.cli.verbs.list_.run", fail)

    assert main(["list", "--tag", "a secret"]) == 1

    told = capsys.readouterr().err
    (report,) = (tmp_path / "cannery").iterdir()
    text = report.read_text()
    assert str(report) in told
    assert "AttributeError" in text
    assert "verb: list" in text
    assert "options: --tag" in text
    assert "secret" not in text
    assert "person" not in text
    assert str(Path.home()) not in text


def test_internal_error_is_told_where_no_report_can_be_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("cannery.cli.verbs.list_.run", lambda options: 1 / 0)

    assert main(["list"]) == 1
    assert "CANNERY_DEBUG=1" in capsys.readouterr().err

"""What a terminal gets: colour unless it is unwanted, Markdown, a pager, nothing harmful."""

import re

import pytest

from cannery.cli.terminal import columns, harmless, one_line

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]m")


def test_terminal_gets_colour_and_markdown(run, store, names):
    shown = run.on_terminal("show", names["bread"], "--store", store).out

    assert "\x1b[1;32muser\x1b[0m" in shown
    assert "**Mix**" not in shown
    assert "Mix" in shown


@pytest.mark.parametrize("more", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_refused(run, store, names, more):
    assert not COLOUR.search(run.on_terminal("show", names["bread"], "--store", store, **more).out)


def test_option_beats_the_environment(run, store, names):
    words = ["show", names["bread"], "--store", store]

    assert COLOUR.search(run(*words, "--color", "always", NO_COLOR="1").out)
    assert not COLOUR.search(run.on_terminal(*words, "--color", "never").out)
    assert not COLOUR.search(run(*words).out)


def test_long_answers_go_through_the_pager(run, store, names):
    words = ["show", names["bread"], "--store", store]
    pager = "sh -c 'echo PAGED; cat'"

    assert run.on_terminal(*words, PAGER=pager, LINES="5").out.startswith("PAGED")
    assert "PAGED" not in run.on_terminal(*words, "--no-pager", PAGER=pager).out
    assert "PAGED" not in run(*words, PAGER=pager).out
    assert "user" in run.on_terminal(*words, PAGER="no-such-pager").out


def test_nothing_on_stdin_of_a_terminal_is_misuse(run):
    ran = run.on_terminal("translate", "--to", "openai_chat")

    assert ran.code == 2
    assert "nothing on stdin" in ran.out


@pytest.mark.parametrize(
    "text, width", [("abc", 3), ("日本", 4), ("é", 1), ("\x1b[1mab\x1b[0m", 2), ("👩‍💻", 4)]
)
def test_columns(text, width):
    assert columns(text) == width


def test_foreign_text_is_made_harmless():
    assert harmless("a\x1b[2Jb\r\x00\u202ec\td\ne") == "a\ufffd[2Jb\ufffd\ufffd\ufffdc\td\ne"
    assert one_line("a\nb " + "x" * 50, 10) == "a b xxxxx…"


@pytest.mark.parametrize("verb", [("list",), ("import", "chats.jsonl")])
def test_narrow_terminals_get_a_line_for_each_fact(run, verb):
    body = '{"conversations": [{"from": "human", "value": "a question that is rather long"}]}'
    (run.home / "chats.jsonl").write_text(body)
    run("import", "chats.jsonl")
    shown = run.on_terminal(*verb, COLUMNS="34", NO_COLOR="1")
    assert shown.code == 0
    facts = [line for line in shown.out.splitlines() if "read as" not in line]
    assert all(len(line) <= 34 for line in facts)
    assert any(line.split() == ["messages", "1"] for line in facts)

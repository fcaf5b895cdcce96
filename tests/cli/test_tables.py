"""Tables: by rich on a terminal, where only the last column is cut; whole elsewhere, and without rich."""

import sys

import pytest

from cannery.cli import tables
from cannery.cli.terminal import columns

HEADER = ["id", "messages", "title"]
ROWS = [["a1", "7", "日本語 and more words"], ["b22", "12", "\x1b[31mred\x1b[0m"]]


@pytest.fixture
def without_rich(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)


def _as_terminal(monkeypatch, wide):
    monkeypatch.setattr(tables, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(wide))


def test_last_column_is_cut_at_the_edge(monkeypatch):
    _as_terminal(monkeypatch, 36)
    lines = tables.aligned(HEADER, [["a1", "7", "word " * 40]], numbers="messages").splitlines()
    assert lines[1].startswith("a1         7  word word")
    assert lines[1].endswith("…")
    assert max(map(columns, lines)) <= 36


def test_lines_in_a_pipe_are_whole():
    long = "word " * 400 + "end"
    assert tables.aligned(HEADER, [["a1", "7", long]]).endswith(long)


def test_plain_table_without_rich_has_the_same_columns(without_rich):
    drawn = tables.aligned(HEADER, ROWS, numbers="messages", indent="  ")
    assert drawn.splitlines() == [
        "  id   messages  title",
        "  a1          7  日本語 and more words",
        "  b22        12  \x1b[31mred\x1b[0m",
    ]


def test_rich_and_plain_tables_say_the_same(monkeypatch, without_rich):
    plain = tables.aligned(HEADER, ROWS[:1], numbers="messages")
    monkeypatch.undo()
    assert tables.aligned(HEADER, ROWS[:1], numbers="messages") == plain

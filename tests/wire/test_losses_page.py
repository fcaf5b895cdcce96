"""The page of losses says what the tables say."""

from __future__ import annotations

from pathlib import Path

from cannery.repairs import PASSES
from cannery.wire.losses import ALWAYS_ON, BLOCKED, CODES, INFO, LOST, REPAIRS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "losses.md").read_text("utf-8")


def test_every_code_is_on_the_page():
    for code, (severity, meaning) in CODES.items():
        assert f"| `{code}` | {severity} | {meaning} |" in PAGE


def test_every_repair_is_on_the_page():
    for name, meaning in REPAIRS.items():
        assert f"| `{name}` | {meaning} |" in PAGE


def test_every_pass_is_in_the_table():
    assert set(PASSES) == set(REPAIRS) - ALWAYS_ON


def test_the_page_has_no_other_codes():
    listed = {
        line.split("`")[1]
        for line in PAGE.splitlines()
        if line.startswith("| `") and line.count("|") == 4
    }
    assert listed == set(CODES)


def test_every_code_is_told_by_something():
    table = ROOT / "src" / "cannery" / "wire" / "losses.py"
    code = "".join(
        path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py") if path != table
    )
    told = [name for name, (severity, _) in CODES.items() if severity != BLOCKED]
    assert [name for name in told if f'"{name}"' not in code] == []


def test_the_page_has_the_severities_that_codes_have():
    _, _, below = PAGE.partition("| severity | meaning |\n|---|---|\n")
    rows = below.partition("\n\n")[0].splitlines()
    assert [row.split("|")[1].strip() for row in rows] == [INFO, LOST, BLOCKED]
    assert {severity for severity, _ in CODES.values()} == {INFO, LOST, BLOCKED}

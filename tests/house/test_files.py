"""Nothing in the repository depends on the machine it was written on."""

import re
from pathlib import Path

import pytest

from tests.house.sources import ROOT, label, tracked_files

# Bytes captured from real clients and providers say what they said.
CAPTURED = ("tests/data/",)

MACHINE_WORDS = re.compile(
    r"(?<![\w.])/(?:work|root|tmp|opt/pypi|opt/wheels)(?![\w-])"
    r"|pythonhosted\.org"
    r"|(?<!\w)(?:extra-)?index-url"
)
LARGEST_FILE = 1_000_000


def readable(path):
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_no_file_names_a_machine():
    own = Path(__file__)
    offenders = {
        label(path): found
        for path in tracked_files()
        if path != own
        and not label(path).startswith(CAPTURED)
        and (found := MACHINE_WORDS.findall(readable(path)))
    }

    assert offenders == {}


@pytest.mark.parametrize(
    "text, named",
    [
        ("see /tmp/somewhere", True),
        ("under /work", True),
        ("pip --extra-index-url=x", True),
        ("https://example.com/work/1", False),
        ("bench/tmp/file", False),
        ("a /workshop", False),
    ],
)
def test_machine_words_are_recognised(text, named):
    assert bool(MACHINE_WORDS.search(text)) is named


def test_files_are_small():
    assert [label(path) for path in tracked_files() if path.stat().st_size > LARGEST_FILE] == []


def test_scripts_can_be_run():
    scripts = [ROOT / ".ci" / "run", ROOT / "scripts" / "check", ROOT / "scripts" / "bench"]

    assert [label(script) for script in scripts if not script.stat().st_mode & 0o100] == []

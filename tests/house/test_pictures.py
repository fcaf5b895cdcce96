"""The pictures of the command line show what it prints now."""

import importlib.util
import re
from html import unescape

import pytest

from tests.house.sources import ROOT

IMAGES = ROOT / "docs" / "images"
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def load():
    """The script that draws them."""
    spec = importlib.util.spec_from_file_location(
        "draw_terminal", ROOT / "scripts" / "draw_terminal.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(text):
    """The text without what depends on the machine: the spaces of a drawing, and sizes on disk."""
    flat = "".join(text.replace("\xa0", " ").split())
    return re.sub(r"\d+\w*Bondisk", "…ondisk", flat)


def drawn(name):
    """The text in a picture, line by line."""
    svg = (IMAGES / f"{name}.svg").read_text(encoding="utf-8")
    lines = {}
    for place, text in re.findall(r'<text [^>]*?y="([\d.]+)"[^>]*>(.*?)</text>', svg, re.DOTALL):
        lines.setdefault(float(place), []).append(unescape(text))
    return "\n".join("".join(lines[place]) for place in sorted(lines))


@pytest.fixture(scope="module")
def screens():
    return {name: (command, shown) for name, command, shown in load().screens()}


@pytest.mark.parametrize("name", ["translate", "doctor", "list", "show", "tree", "stats"])
def test_picture_shows_what_the_command_prints(screens, name):
    command, shown = screens[name]

    assert words(drawn(name)) == words(f"$ {command}\n{_ESCAPES.sub('', shown)}"), "run `make docs`"


def test_every_picture_is_drawn_and_shown():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    shown = dict(re.findall(r"!\[([^\]]+)\]\((?:docs/)?images/(\w+)\.svg\)", text))

    assert sorted(shown.values()) == sorted(path.stem for path in IMAGES.glob("*.svg"))
    assert set(shown.values()) == set(load().SCREENS)
    assert all(len(text) > 20 for text in shown)


@pytest.mark.parametrize("name", ["translate", "doctor", "list", "show", "tree", "stats"])
def test_picture_loads_nothing_from_elsewhere(name):
    svg = (IMAGES / f"{name}.svg").read_text(encoding="utf-8")

    assert "url(http" not in svg
    assert "<script" not in svg

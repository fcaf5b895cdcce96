"""The code stays as readable as the codebases it should stand beside."""

import ast

import pytest

from tests.house.sources import PACKAGE, functions, label, modules

LONGEST_MODULE = 600
LONGEST_FUNCTION = 60
SHARE_OF_LONG_FUNCTIONS = 0.02
VAGUE_WORDS = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "handler", "base"}


@pytest.mark.parametrize("path", modules(), ids=label)
def test_module_says_what_it_is(path):
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))

    assert docstring, "the first line of a module says what it is"


@pytest.mark.parametrize("path", modules(), ids=label)
def test_module_is_short_enough_to_read(path):
    lines = path.read_text(encoding="utf-8").count("\n")

    assert lines <= LONGEST_MODULE, "split it, by direction rather than by noun"


@pytest.mark.parametrize("path", modules(), ids=label)
def test_module_name_says_something(path):
    assert not VAGUE_WORDS.intersection(path.stem.strip("_").split("_"))


def test_long_functions_are_rare():
    lengths = {
        f"{label(path)}:{name}": length for path in modules() for name, length in functions(path)
    }
    long = {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION}

    assert lengths
    assert len(long) < SHARE_OF_LONG_FUNCTIONS * len(lengths) or not long, long


def test_package_is_typed_for_its_users():
    assert (PACKAGE / "py.typed").is_file()

"""The contracts of import-linter name every part that they should watch.

import-linter refuses a contract about a module that does not exist, so each part is added to the
contracts when it lands. These tests say when that was forgotten.
"""

import tomllib

import pytest

from tests.house.sources import PACKAGE, ROOT

PURE = ("messages", "roles", "wire", "repairs", "dialects")
FAMILIES = ("dialects", "backends")


def contracts(kind):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = settings["tool"]["importlinter"]["contracts"]
    return [contract for contract in declared if contract["type"] == kind]


def parts(names):
    return [name for name in names if any((PACKAGE / name).glob("*.py"))]


def test_pure_parts_are_forbidden_to_do_input_and_output():
    (contract,) = contracts("forbidden")

    assert contract["source_modules"] == [f"cannery.{name}" for name in parts(PURE)]


@pytest.mark.parametrize("family", FAMILIES)
def test_members_of_a_family_are_independent(family):
    declared = [contract["modules"] for contract in contracts("independence")]

    assert ([f"cannery.{family}.*"] in declared) == bool(parts([family]))

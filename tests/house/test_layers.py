"""What import-linter does not see of the layers.

A contract over ``cannery.dialects.*`` also holds before the first dialect is there, but leaves out
the package's own ``__init__``; and a contract without a match is kept, hence a misspelled one too.
"""

import tomllib

import pytest

from tests.house.sources import PACKAGE, ROOT, imported

PURE = ("messages", "roles", "wire", "repairs", "families", "dialects", "doctor")
FAMILIES = ("dialects", "backends")


def contracts(kind):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = settings["tool"]["importlinter"]["contracts"]
    return [contract for contract in declared if contract["type"] == kind]


def test_pure_parts_are_watched():
    (contract,) = contracts("forbidden")

    assert contract["source_modules"] == [f"cannery.{part}.*" for part in PURE]


@pytest.mark.parametrize("part", PURE)
def test_package_file_of_a_pure_part_does_no_input_and_output(part):
    (contract,) = contracts("forbidden")
    opening = PACKAGE / part / "__init__.py"
    found = set(imported(opening)) if opening.exists() else set()

    assert found.intersection(contract["forbidden_modules"]) == set()


@pytest.mark.parametrize("family", FAMILIES)
def test_members_of_a_family_are_watched(family):
    assert [f"cannery.{family}.*"] in [
        contract["modules"] for contract in contracts("independence")
    ]


def test_every_part_has_its_layer():
    (contract,) = contracts("layers")
    layers = {layer.strip("()") for layer in contract["layers"]}
    parts = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if any_module(path)}

    assert contract["exhaustive"]
    assert parts - {"__init__"} <= layers


def any_module(path):
    return path.suffix == ".py" or any(path.glob("*.py"))

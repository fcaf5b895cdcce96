"""The page about roles says what the code does."""

import re
from pathlib import Path

import pytest

from cannery import roles
from cannery.errors import RoleError
from cannery.messages.role import Role
from cannery.roles import VOCABULARIES, normalize_roles
from cannery.roles.dangerous import DANGEROUS_NAMES, DANGEROUS_WORDS
from cannery.roles.providers import FAMILIES

PAGE = Path(__file__).parents[2] / "docs" / "roles.md"


def read_tables():
    """The rows of each table of the page, as lists of cells, header first."""
    text = PAGE.read_text(encoding="utf-8")
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [
        [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in table.splitlines()
            if not line.startswith("|---")
        ]
        for table in tables
    ]


def describe(each, role):
    spelling = each.spell(role)
    if spelling is None:
        return "—"
    return f"`{spelling}`" if each.inverse_exact(role) else f"`{spelling}` ←"


def describe_readings(readings):
    return ", ".join(f"`{spelling}` → {role.value}" for spelling, role in readings.items())


def test_table_of_spellings_is_current():
    header, *rows = read_tables()[0]

    assert header == ["role", *(f"`{name}`" for name in VOCABULARIES)]
    assert rows == [
        [role.value, *(describe(each, role) for each in VOCABULARIES.values())] for role in Role
    ]


def test_table_of_readings_is_current():
    _, *rows = read_tables()[1]

    assert rows == [
        [f"`{name}`", describe_readings(each.readings), describe_readings(each.tolerated)]
        for name, each in VOCABULARIES.items()
    ]


def test_error_text_is_current():
    with pytest.raises(RoleError) as caught:
        normalize_roles([{"role": "admin"}])

    assert f"\n{caught.value}\n" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*DANGEROUS_NAMES, *DANGEROUS_WORDS])
def test_every_dangerous_name_is_listed(name):
    assert f"`{name}`" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_with_a_provider_is_listed(family):
    cells = [cell for row in read_tables()[2] for cell in row]

    assert any(re.search(rf"`(…-)?{family}(-…)?`", cell) for cell in cells)


def test_public_names_are_sorted_and_there():
    names = roles.__all__

    assert names == sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name))
    assert [name for name in names if not hasattr(roles, name)] == []

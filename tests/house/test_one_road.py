"""There is one way for each job: one reader and one writer a direction, and nothing beside them.

A second way has always come in one of four forms, and each is refused here: another callable in the contract, a module
that is found only by its name in a string, a table by dialect outside the dialects, a file named after a way.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from cannery.dialects import all_dialects
from cannery.wire.contract import Dialect

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "cannery"

READERS_AND_WRITERS = {
    *("read_request", "write_request", "read_response", "write_response"),
    *("stream_reader", "stream_writer", "read_error", "write_error"),
}
# Callables of the contract that are rules or tell something, and read and write no body.
OTHERS = {"takes_over", "rules_for"}

# Families that are found by the names of their files, and programs.
FOUND_BY_FILE = re.compile(
    r"cannery\.(?:dialects|backends|cli\.verbs|importers\.formats|exporters\.formats)\.\w+"
    r"|cannery\.doctor\.(?:providers|sessions)\.\w+"
    r"|cannery(?:\.\w+)*\.__main__|cannery\.cli\.manual"
)

# Who may name a dialect, how often, and why.
NAMED = {
    "doctor/sessions/claude_code.py": (1, "the dialect that the agent's session is in"),
    "doctor/sessions/codex.py": (1, "the same"),
    "doctor/sessions/gemini_cli.py": (1, "the same"),
    "gateway/routing.py": (1, "the default of the gateway"),
    "gateway/telemetry.py": (1, "spans have the attributes of one dialect"),
    "importers/drafts.py": (5, "the dialect whose parts a product stores"),
    "importers/api_messages.py": (3, "shapes of messages in files that name no dialect"),
    "storage/profiles.py": (1, "the chat profile of a store is spelled as Chat is"),
}

WAYS = {
    *("fast", "sliced", "slices", "shortcuts", "planned", "plain", "usual", "lines", "frames"),
    *("cuts", "strays", "walks", "fragments"),
}


def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(tree: ast.Module) -> set[str]:
    """Every name that an import statement may mean a module by."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def test_the_contract_has_one_reader_and_one_writer_a_direction() -> None:
    callables = {
        field
        for dialect in all_dialects()
        for field in Dialect.__struct_fields__
        if callable(getattr(dialect, field))
    }
    assert callables == READERS_AND_WRITERS | OTHERS


@pytest.mark.parametrize("dialect", all_dialects(), ids=lambda dialect: dialect.name)
def test_a_dialect_has_each_reader_and_writer(dialect: Dialect) -> None:
    assert all(callable(getattr(dialect, field)) for field in READERS_AND_WRITERS)


def test_no_module_is_reached_only_by_a_string() -> None:
    trees = modules()
    reached = {name for module, tree in trees.items() for name in imported(tree) - {module}}
    # Each package above a module is imported with it.
    for name in list(trees):
        parts = name.split(".")
        reached |= {".".join(parts[:end]) for end in range(1, len(parts))}
    lonely = {name for name in trees.keys() - reached if not FOUND_BY_FILE.fullmatch(name)}
    assert lonely == set()


# Where dialects are spelled, and formats of programs that are known to store one.
FORMATS = ("dialects/", "families/", "roles/", "importers/formats/", "exporters/formats/")


def dialects_named() -> dict[str, int]:
    names = {dialect.name for dialect in all_dialects()}
    places: dict[str, int] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if place.startswith(FORMATS):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        count = sum(isinstance(n, ast.Constant) and n.value in names for n in ast.walk(tree))
        if count:
            places[place] = count
    return places


def test_no_module_outside_the_dialects_names_one() -> None:
    """An importer of a product's files knows the dialect that the product stores; nothing else needs a name."""
    assert dialects_named() == {place: count for place, (count, _) in NAMED.items()}


@pytest.mark.parametrize("part", ["wire", "dialects", "families"])
def test_no_file_is_named_after_a_second_way(part: str) -> None:
    words = {path.name: WAYS & set(path.stem.split("_")) for path in (PACKAGE / part).rglob("*.py")}
    assert {name: found for name, found in words.items() if found} == {}

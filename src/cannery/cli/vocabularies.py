"""Role names in every vocabulary, for ``cannery roles``."""

from __future__ import annotations

import argparse

from cannery.cli.complaints import DONE, WRONG, Misuse
from cannery.cli.files import note, write_json
from cannery.cli.tables import aligned
from cannery.errors import RoleError
from cannery.messages.role import Role
from cannery.roles import VOCABULARIES, normalize_role


def list_vocabularies(options: argparse.Namespace) -> int:
    """Print every vocabulary side by side."""
    spoken = {
        name: {role.value: each.spell(role) for role in Role} for name, each in VOCABULARIES.items()
    }
    if options.json:
        write_json({"roles": [role.value for role in Role], "vocabularies": spoken})
        return DONE
    rows = [[role.value, *(_spelling(name, role) for name in VOCABULARIES)] for role in Role]
    print(aligned(["role", *VOCABULARIES], rows))
    note("* reads back as another role   - has no name there", quiet=options.quiet)
    return DONE


def _spelling(name: str, role: Role) -> str:
    spelling = VOCABULARIES[name].spell(role)
    if spelling is None:
        return "-"
    return spelling if VOCABULARIES[name].inverse_exact(role) else f"{spelling}*"


def explain(options: argparse.Namespace) -> int:
    """Print what role strings become in each vocabulary."""
    if not options.names:
        raise Misuse("explain which role?", "For example: cannery roles explain Human")
    found = {name: {each: _become(name, each) for each in VOCABULARIES} for name in options.names}
    refused = [name for name, each in found.items() if not any(each.values())]
    if options.json:
        write_json([{"role": name, "becomes": each} for name, each in found.items()])
        return WRONG if refused else DONE
    rows = [
        [repr(name), *(each[v] or "refused" for v in VOCABULARIES)] for name, each in found.items()
    ]
    print(aligned(["role", *VOCABULARIES], rows))
    for name in refused:
        try:
            normalize_role(name, vocabulary=options.to)
        except RoleError as error:
            note(f"{name!r}: {error}", quiet=options.quiet)
    return WRONG if refused else DONE


def _become(role: str, vocabulary: str) -> str | None:
    try:
        return normalize_role(role, vocabulary=vocabulary)
    except RoleError:
        return None

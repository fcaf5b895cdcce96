"""The environment of Cannery: dialects, upstreams, keys (present or not), the store, installed extras."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
from importlib.metadata import version
from typing import Any

from cannery.backends import shown
from cannery.cli.complaints import DONE, WRONG
from cannery.cli.files import write_json
from cannery.cli.gateway_settings import load_gateway_settings
from cannery.cli.stores import find_key, find_place, is_there
from cannery.cli.tables import aligned
from cannery.cli.terminal import paint
from cannery.dialects import dialect_names
from cannery.errors import CanneryError
from cannery.wording import counted

_OPTIONAL = {
    "rich": "Markdown, tables and progress on a terminal: pip install 'cannery[cli]'",
    "granian": "the gateway: pip install 'cannery[gateway]'",
}


def report(options: argparse.Namespace) -> int:
    """Print the environment."""
    seen = collect(options)
    if options.json:
        write_json(seen)
    else:
        print(_text(seen))
    return WRONG if seen["store"]["problem"] or seen["configuration"]["problem"] else DONE


def collect(options: argparse.Namespace) -> dict[str, Any]:
    """Collect the facts that help when something does not work."""
    return {
        "version": version("cannery"),
        "python": platform.python_version(),
        "optional": {name: importlib.util.find_spec(name) is not None for name in _OPTIONAL},
        "dialects": dialect_names(),
        "store": _store(options),
        **_upstreams(),
    }


def _store(options: argparse.Namespace) -> dict[str, Any]:
    place, origin = find_place(options.store)
    found: dict[str, Any] = {"place": shown(place), "origin": origin, "exists": is_there(place)}
    found |= {"conversations": 0, "problem": None}
    if found["exists"]:
        from cannery.storage import open_store

        try:
            with open_store(place, encryption_key=find_key(options.encryption_key)[0]) as store:
                found["conversations"] = len(store.list(kinds=None))
        except (CanneryError, OSError) as error:
            found["problem"] = str(error)
    return found


def _upstreams() -> dict[str, Any]:
    configuration: dict[str, str | None] = {"file": None, "problem": None}
    rows: tuple[Any, ...] = ()
    try:
        found = load_gateway_settings()
    except CanneryError as error:
        configuration["problem"] = str(error)
        found = None
    if found is not None:
        configuration["file"], rows = found.path, found.rows
    return {"configuration": configuration, "upstreams": [_upstream(row) for row in rows]}


def _upstream(row: Any) -> dict[str, Any]:
    variables = row.key_variables
    return {
        "name": row.name,
        "dialects": list(row.dialects),
        "url": row.url,
        "key_variable": ", ".join(variables) or None,
        "has_key": any(map(os.environ.get, variables)) if variables else None,
    }


def _text(seen: dict[str, Any]) -> str:
    store, configuration = seen["store"], seen["configuration"]
    has = counted(store["conversations"], "conversation") if store["exists"] else "not made yet"
    facts = [
        ["version", f"cannery {seen['version']}, Python {seen['python']}"],
        ["dialects", ", ".join(seen["dialects"])],
        ["store", f"{store['place']} ({store['origin']}): {store['problem'] or has}"],
        ["configuration", configuration["problem"] or configuration["file"] or "none"],
    ]
    facts += [
        ["missing", _OPTIONAL[name]] for name, is_there in seen["optional"].items() if not is_there
    ]
    rows = [
        [row["name"], row["key_variable"] or "-", _key(row["has_key"]), row["url"]]
        for row in seen["upstreams"]
    ]
    lines = [f"{paint(f'{name:14}', 'bold')} {text}" for name, text in facts]
    lines += ["", aligned(["upstream", "key", "", "address"], rows)] if rows else []
    return "\n".join(lines)


def _key(has_key: bool | None) -> str:  # noqa: FBT001 - a fact of three values
    return {None: "not needed", True: "present", False: "absent"}[has_key]

"""``cannery config``: every effective setting and its source."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

import msgspec

from cannery.backends import shown
from cannery.cli.complaints import DONE
from cannery.cli.files import write_json
from cannery.cli.gateway_settings import GatewaySettings, load_gateway_settings
from cannery.cli.parser import Parser
from cannery.cli.stores import find_key, find_place
from cannery.cli.tables import table
from cannery.cli.terminal import harmless

DESCRIPTION = (
    "Print every effective setting and its source. The configuration contains no keys: it names the variables "
    "that contain them, which are shown as present or absent."
)
EXAMPLES = """
cannery config
cannery config --config gateway.toml --json
"""
USES_STORE = True
Setting = tuple[str, Any, str]
VARIABLES = ("NO_COLOR", "FORCE_COLOR", "PAGER")


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the configuration file (default: the one that serve reads)",
    )


def run(options: argparse.Namespace) -> int:
    """Print the settings."""
    settings = [
        (name, shown(value) if isinstance(value, str) else value, origin)
        for name, value, origin in _settings(options)
    ]
    if options.json:
        write_json([{"name": n, "value": value, "origin": origin} for n, value, origin in settings])
        return DONE
    rows = [[name, harmless(_shown(value)), harmless(origin)] for name, value, origin in settings]
    print(table(["setting", "value", "origin"], rows))
    return DONE


def _settings(options: argparse.Namespace) -> Iterator[Setting]:
    place, origin = find_place(options.store)
    yield "store", place, origin
    key, origin = find_key(options.encryption_key)
    yield "encryption_key", key, origin
    found = load_gateway_settings(options.config)
    if found is None:
        yield "gateway", None, "not installed: pip install 'cannery[gateway]'"
    else:
        yield from _gateway(found, "--config" if options.config else "the usual place")
    for variable in VARIABLES:
        yield variable, os.environ.get(variable), "environment"


def _gateway(found: GatewaySettings, chosen: str) -> Iterator[Setting]:
    yield "configuration", found.path, "none found" if found.path is None else chosen
    written = msgspec.to_builtins(found.settings)
    # As in the file: [keys.NAME].
    written["keys"] |= written["keys"].pop("named")
    for steps, value in _leaves(written, ()):
        line = found.lines.get(steps)
        yield _name(steps), value, "default" if line is None else f"{found.path}, line {line}"
    variables = {variable for row in found.rows for variable in row.key_variables}
    keys = found.settings.keys
    variables |= set(keys.variables)
    variables |= {named.variable for named in keys.named.values() if named.variable}
    for variable in sorted(variables):
        yield variable, "present" if os.environ.get(variable) else "absent", "environment"


def _leaves(value: Any, steps: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*steps, name))
    elif isinstance(value, (list, tuple)) and value and isinstance(value[0], dict):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*steps, index))
    else:
        yield steps, value


def _name(steps: tuple[Any, ...]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.lstrip(".")


def _shown(value: Any) -> str:
    return (
        "-"
        if value is None
        else value
        if isinstance(value, str)
        else msgspec.json.encode(value).decode()
    )

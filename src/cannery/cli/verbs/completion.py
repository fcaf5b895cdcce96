"""``cannery completion``: completion for bash, zsh and fish, generated from the parsers."""

from __future__ import annotations

import argparse

from cannery.cli.complaints import DONE, choose
from cannery.cli.completions import SHELLS
from cannery.cli.files import write_json
from cannery.cli.parser import Parser
from cannery.cli.stores import find_place, is_there, opened
from cannery.cli.terminal import one_line

DESCRIPTION = (
    "Print a completion script for a shell. The scripts ask for ids of conversations with `completion ids "
    "BEGINNING`."
)
EXAMPLES = """
cannery completion bash > ~/.local/share/bash-completion/completions/cannery
cannery completion zsh > "${fpath[1]}/_cannery"
cannery completion fish > ~/.config/fish/completions/cannery.fish
"""


USES_STORE = True
# The maximum number of conversations to complete.
_MOST = 50


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add("shell", metavar="SHELL", help="one of " + ", ".join(SHELLS) + "; or ids")
    add("beginning", metavar="BEGINNING", nargs="?", default="", help="of the ids")


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    if options.shell == "ids":
        return _print_ids(options)
    script = SHELLS[choose(options.shell, SHELLS, "shell")]()
    if options.json:
        write_json({"shell": options.shell, "script": script})
    else:
        print(script, end="")
    return DONE


def _print_ids(options: argparse.Namespace) -> int:
    """Print conversations with an id prefix, with their titles; without a prefix the most recently changed ones."""
    found: list[tuple[str, str]] = []
    if is_there(find_place(options.store)[0]):
        with opened(options) as store:
            if options.beginning:
                names = store.begin_with(options.beginning.lower(), _MOST)
                found = [(name, store.get(name).title) for name in names]
            else:
                found = [(each.identifier, each.title) for each in store.list(limit=_MOST)]
    if options.json:
        write_json([{"id": identifier, "title": title} for identifier, title in found])
        return DONE
    for identifier, title in found:
        print(f"{identifier}\t{one_line(title, 60)}")
    return DONE

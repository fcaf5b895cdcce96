"""``cannery completion``: completion for bash, zsh and fish, written from the parsers."""

from __future__ import annotations

import argparse

from cannery.cli.complaints import DONE, choose
from cannery.cli.completions import SHELLS
from cannery.cli.files import write_json
from cannery.cli.parser import Parser

DESCRIPTION = "Print a completion script for a shell."
EXAMPLES = """
cannery completion bash > ~/.local/share/bash-completion/completions/cannery
cannery completion zsh > "${fpath[1]}/_cannery"
cannery completion fish > ~/.config/fish/completions/cannery.fish
"""


def add_arguments(parser: Parser) -> None:
    """What the verb takes."""
    parser.add_argument("shell", metavar="SHELL", help="one of " + ", ".join(SHELLS))


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    script = SHELLS[choose(options.shell, SHELLS, "shell")]()
    if options.json:
        write_json({"shell": options.shell, "script": script})
    else:
        print(script, end="")
    return DONE

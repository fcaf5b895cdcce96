"""``cannery delete``: delete conversations; their forks stay readable."""

from __future__ import annotations

import argparse

from cannery.cli.parser import Parser
from cannery.cli.removal import add_removal_arguments, remove

DESCRIPTION = (
    "Delete conversations. Their forks stay readable; `cannery gc` frees the space. Asks for confirmation on a "
    "terminal; elsewhere --yes is required."
)
EXAMPLES = """
cannery delete 01k7
cannery delete 01k7 01k8 --yes
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add_removal_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Delete conversations."""
    return remove(options, "Delete", "deleted", lambda _, conversation: conversation.delete())

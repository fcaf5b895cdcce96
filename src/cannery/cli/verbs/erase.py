"""``cannery erase``: delete conversations and remove their text from every file."""

from __future__ import annotations

import argparse

from cannery.cli.parser import Parser
from cannery.cli.removal import add_removal_arguments, remove

DESCRIPTION = (
    "Delete conversations and remove their text from every file of the store. What their forks share with them "
    "stays, and so does content to which other conversations refer. The index is built again at the next search. "
    "Asks for confirmation on a terminal; elsewhere --yes is required."
)
EXAMPLES = """
cannery erase 01k7 --yes
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add_removal_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Erase conversations."""
    return remove(
        options,
        "Erase",
        "erased",
        lambda store, conversation: store.erase(conversation.identifier),
    )

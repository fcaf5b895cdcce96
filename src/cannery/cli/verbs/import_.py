"""``cannery import``: chats of other programs and data sets, taken in once however often they are imported."""

from __future__ import annotations

import argparse

from cannery.cli.complaints import DONE
from cannery.cli.parser import Parser

DESCRIPTION = "Take in chats from other programs and data sets."
EXAMPLES = """
cannery import conversations.json
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """What the verb takes."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="what to import; - is stdin")


def run(options: argparse.Namespace) -> int:
    """Import."""
    del options
    return DONE

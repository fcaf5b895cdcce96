"""``cannery view``: show the conversations of a store in a browser."""

from __future__ import annotations

import argparse
import sys

from cannery.cli.complaints import DONE, Complaint
from cannery.cli.parser import Parser, port
from cannery.cli.stores import find, opened

DESCRIPTION = (
    "Show the conversations of a store in a browser: search, branches side by side, and any of them as another "
    "provider would receive it. It only reads, listens on the loopback address, and ends with Ctrl-C. `cannery "
    "serve` shows the same at /ui."
)
EXAMPLES = """
cannery view
cannery view ~/backup/cannery --no-browser
cannery view --open @
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add(
        "place",
        metavar="STORE",
        nargs="?",
        help="the store (else --store, CANNERY_STORE or the default)",
    )
    add("--open", dest="first", metavar="ID", help="open this conversation first (@ is the newest)")
    add("--port", metavar="PORT", type=port, default=0, help="the port to listen on (any free one)")
    add("--no-browser", action="store_true", help="only print the address")


def run(options: argparse.Namespace) -> int:
    """Serve pages until stopped."""
    try:
        from cannery.gateway.viewer_server import view
    except ImportError as error:
        raise Complaint(
            f"the viewer is not installed ({error.name} is missing)",
            "pip install 'cannery[viewer]'",
        ) from None
    options.store = options.place or options.store
    with opened(options) as store:
        path = f"/ui/c/{find(store, options.first).identifier}" if options.first else "/ui"
        view(
            store,
            host="127.0.0.1",
            port=options.port,
            path=path,
            announce=sys.stdout,
            is_opened=not options.no_browser,
        )
    return DONE

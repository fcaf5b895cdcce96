"""``cannery serve``: run the gateway."""

from __future__ import annotations

import argparse

from cannery.cli.complaints import DONE
from cannery.cli.parser import Parser, port

DESCRIPTION = (
    "Run the gateway: every dialect to clients, every dialect to providers, every exchange recorded. "
    "Without configuration it listens on 127.0.0.1 and answers with a built-in echo."
)
EXAMPLES = """
cannery serve
cannery serve --port 9000 --config gateway.toml
"""
USES_STORE = True
LEVELS = ("debug", "info", "warning", "error")


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add("--config", metavar="FILE", help="a TOML file (see `cannery config`)")
    add("--host", help="the address to listen on (127.0.0.1)")
    add("--port", metavar="PORT", type=port, help="the port to listen on (8484; 0: any free one)")
    add("--no-record", action="store_true", help="keep nothing")
    add("--development", action="store_true", help="log role transformations")
    add("--log-level", choices=LEVELS, help="how much to log (info)")


def run(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    from cannery.gateway.serving import default_configuration, serve

    serve(
        options.config or default_configuration(),
        host=options.host,
        port=options.port,
        store=options.store,
        encryption_key=options.encryption_key,
        enabled=False if options.no_record else None,
        development=True if options.development else None,
        log_level=options.log_level or ("warning" if options.quiet else None),
        then_exit=True,
    )
    return DONE

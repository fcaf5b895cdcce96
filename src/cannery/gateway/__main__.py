"""``python -m cannery.gateway``: run the gateway."""

from __future__ import annotations

import argparse
import sys

from cannery.errors import CanneryError
from cannery.gateway.serving import default_configuration, serve


def main(arguments: list[str] | None = None) -> int:
    """Run the gateway; returns the exit code."""
    parser = argparse.ArgumentParser(prog="cannery serve", description="Run the gateway.")
    parser.add_argument("--config", metavar="FILE", help="a TOML file (docs/configuration.md)")
    parser.add_argument("--host", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="the port to listen on (8484; 0: any free one)")
    parser.add_argument(
        "--store", metavar="PLACE", help="where conversations are kept: a path or URL"
    )
    parser.add_argument("--no-record", action="store_true", help="keep nothing")
    parser.add_argument("--development", action="store_true", help="log role transformations")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    chosen = parser.parse_args(arguments)
    try:
        serve(
            chosen.config or default_configuration(),
            host=chosen.host,
            port=chosen.port,
            store=chosen.store,
            enabled=False if chosen.no_record else None,
            development=True if chosen.development else None,
            log_level=chosen.log_level,
            then_exit=True,
        )
    except CanneryError as error:
        sys.stderr.write(f"cannery: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

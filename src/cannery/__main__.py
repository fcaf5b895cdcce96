"""``python -m cannery``: the command line."""

import sys

from cannery.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""Write the tables of ``docs/losses.md`` from the code; ``make docs`` runs it, and a test compares."""

import re
from pathlib import Path

from cannery.wire.losses import CODES, REPAIRS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "losses.md"


def table(text: str, header: str, rows: list[str]) -> str:
    """Replace the rows below a header of the page."""
    pattern = re.compile(re.escape(header) + r"\n(\|[-|]+\|)\n(?:\|.*\n)+")
    return pattern.sub(lambda found: "\n".join([header, found.group(1), *rows]) + "\n", text)


def main() -> None:
    """Replace both tables."""
    codes = [
        f"| `{code}` | {severity} | {meaning} |"
        for code, (severity, meaning) in sorted(CODES.items())
    ]
    repairs = [f"| `{name}` | {meaning} |" for name, meaning in sorted(REPAIRS.items())]
    text = table(PAGE.read_text("utf-8"), "| code | severity | meaning |", codes)
    PAGE.write_text(table(text, "| repair | what it does |", repairs), "utf-8")


if __name__ == "__main__":
    main()

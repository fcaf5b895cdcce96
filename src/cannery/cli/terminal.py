"""The terminal: colours, width, safe output, the pager.

Text of conversations is untrusted: control characters that could move the cursor, change colours or reorder a line are
replaced before anything is printed on a terminal.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, TextIO

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
ROLE_COLOURS = {
    "user": "green",
    "assistant": "cyan",
    "supervisor": "magenta",
    "document": "blue",
    "invocation": "yellow",
    "result": "yellow",
}
SEVERITY_COLOURS = {"info": "dim", "lost": "red", "blocked": "red"}
COLOUR_CHOICES = ("auto", "always", "never")
# C0 without tab and newline, DEL, C1, and the marks that reorder a line. Compiled on first use: a translation between
# two pipes needs neither pattern.
_DANGEROUS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
_ESCAPES = r"\x1b\[[0-9;]*m"

_choice = "auto"


def choose_colour(choice: str) -> None:
    """Set when to colour: auto, always or never."""
    global _choice  # noqa: PLW0603 - a setting of the whole process
    _choice = choice


def is_coloured(stream: TextIO | None = None) -> bool:
    """Whether to colour the output to a stream (default: stdout)."""
    if _choice != "auto":
        return _choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or is_terminal(stream)


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a stream (default: stdout) is a terminal."""
    chosen = stream or sys.stdout
    return not chosen.closed and chosen.isatty()


def paint(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """The text with terminal colours, or unchanged if colours are off."""
    if not text or not is_coloured(stream):
        return text
    codes = ";".join(_CODES[style] for style in styles)
    return f"\x1b[{codes}m{text}\x1b[0m"


def harmless(text: str) -> str:
    """Replace control characters that a terminal would interpret."""
    return re.sub(_DANGEROUS, "\ufffd", text.replace("\r\n", "\n"))


def one_line(text: str, width: int) -> str:
    """The beginning of a text as one line of at most ``width`` columns."""
    flat = " ".join(harmless(text[: width * 4]).split())
    if columns(flat) <= width:
        return flat
    while flat and columns(flat) > width - 1:
        flat = flat[:-1]
    return f"{flat}…"


def columns(text: str) -> int:
    """The number of terminal columns that a text occupies."""
    plain = re.sub(_ESCAPES, "", text)
    if plain.isascii():
        return len(plain)
    import unicodedata

    return sum(_columns(character, unicodedata) for character in plain)


def _columns(character: str, unicodedata: Any) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def width() -> int:
    """The width of the terminal; 100 without a terminal."""
    return _measure()[0]


def _measure() -> tuple[int, int]:
    """Columns and lines of the terminal; 100 and 24 without a terminal."""
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None and not stream.closed and stream.isatty():
            columns, lines = os.get_terminal_size(stream.fileno())
            break
    else:
        columns, lines = 0, 0
    return _told("COLUMNS") or columns or 100, _told("LINES") or lines or 24


def _told(name: str) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else 0


def page(text: str, *, paged: bool = True) -> None:
    """Print a text, through a pager if it is longer than the terminal."""
    lines = text.count("\n") + 1
    if not (paged and is_terminal() and lines > _measure()[1]):
        print(text)
        return
    import shlex
    import subprocess

    command = shlex.split(os.environ.get("PAGER") or "less") or ["cat"]
    environment = {"LESS": "FRX", **os.environ}
    try:
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)  # noqa: S603 - the user's own pager
    except OSError:
        print(text)
        return
    try:
        pager.communicate(text.encode() + b"\n")
    except KeyboardInterrupt:
        pager.wait()

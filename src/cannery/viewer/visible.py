"""Makes hidden characters visible: characters that reorder, hide or control the display are written as codes.

A page must not let a message reorder the text around it (https://www.unicode.org/reports/tr9/, CVE-2021-42574). Marks
that ordinary Arabic and Hebrew text needs (U+200E, U+200F, U+061C) stay.
"""

from __future__ import annotations

import re

_REORDERING = "\u202a-\u202e\u2066-\u2069"
_INVISIBLE = "\ufff9-\ufffb\U000e0000-\U000e007f"
_CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_LONE = "\ud800-\udfff"
_HIDDEN = re.compile(f"[{_REORDERING}{_INVISIBLE}{_CONTROL}{_LONE}]")
_SPACE = re.compile(r"\s+")


def visible(text: str) -> str:
    """Replace characters that would affect the display."""
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return f"[U+{code:04X}]"


def one_line(text: str, longest: int) -> str:
    """The beginning of a text on one line."""
    words = _SPACE.sub(" ", visible(text[: longest * 4])).strip()
    return words if len(words) <= longest else words[: longest - 1].rstrip() + "…"

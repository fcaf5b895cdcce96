"""Marked texts: text forms for facts that a wire has no field for.

Each marker is deterministic. Markers that grant no authority can be read back, so that a round trip through a poorer
dialect gives the same model again. A system message in a user turn is not read back, because anyone can write the
envelope (``docs/decisions/0013-text-stays-text.md``). No marker attributes its text to the user or the model.
"""

from __future__ import annotations

import re

NO_RESULT = "[no result was recorded for this tool call]"
PLACEHOLDER = "[the conversation starts with the assistant]"
CONTINUE = "[continue]"
ERROR_PREFIX = "[tool error] "
FLAG = ERROR_PREFIX.rstrip()
SUPPLEMENT = "## Supplemental Information ##"

# The beginning of every text that is read as more than text.
MARKS = (FLAG, "[attached to the result of tool call ")

_MEDIA_LABEL = re.compile(r"\[attached to the result of tool call ([^\]\n]+)\]")


def flag_error(text: str) -> str:
    """The text of a failed result, with a mark."""
    return ERROR_PREFIX + text if text else FLAG


def read_error_flag(text: str) -> str | None:
    """The text after the mark of a failed result, or None without a mark."""
    if text.startswith(ERROR_PREFIX):
        return text[len(ERROR_PREFIX) :]
    return "" if text == FLAG else None


def system_envelope(text: str) -> str:
    """A late system message inside a user turn."""
    return f"<system-message>\n{text}\n</system-message>"


def media_label(call_id: str) -> str:
    """The line that precedes the media of a tool result."""
    return f"[attached to the result of tool call {call_id}]"


def read_media_label(text: str) -> str | None:
    """The call id in such a line, or None."""
    found = _MEDIA_LABEL.fullmatch(text)
    return found.group(1) if found else None


def orphan_text(call_id: str, text: str) -> str:
    """The text for a result without its call, as a user turn."""
    return f"[result of tool call {call_id}]\n{text}"


def supplement(text: str, title: str | None) -> str:
    """A document as text."""
    return "\n\n".join(part for part in (SUPPLEMENT, title, text) if part)

"""Metadata of a request, for servers that take a few pairs of texts.

A value of another type is written as its JSON text: nothing of it is missing, so that this is a note. Metadata only
label a request: what a server refuses is left out, each pair by its path, and the request goes on without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.wire.places import key_text
from cannery.wire.settings import Fit, Writing

# How many pairs OpenAI and Bedrock take.
_MOST_PAIRS = 16
# Whether a server takes a key, or a value.
Test = Callable[[str], Any]


def fit_metadata(takes_key: Test, takes_value: Test, detail: str) -> Fit:
    """Keep the pairs that a server takes, as texts; ``detail`` says which it takes."""

    def fit(value: str, to: Writing) -> Any:
        kept: dict[str, str] = {}
        is_respelled = False
        for key, item in decode_json(value).items():
            if item is None:
                continue
            said = item if type(item) is str else write_json(item)
            if len(kept) < _MOST_PAIRS and takes_key(key) and takes_value(said):
                kept[key] = said
                is_respelled = is_respelled or said is not item
            else:
                to.report.lose("CONTROL_DROPPED", "@metadata", detail, key_text(key))
        if is_respelled:
            to.report.lose("CONTROL_RESPELLED", "@metadata", "metadata are texts")
        return write_json(kept) if kept else absent

    return fit

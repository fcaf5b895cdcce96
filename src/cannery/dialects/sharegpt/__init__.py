"""ShareGPT: ``{"conversations": [{"from", "value"}], "system"?, "tools"?, "images"?}``, one conversation per record.

Oddities: roles vary from file to file (human, user, gpt, assistant, bing …) and are written as ``human`` and ``gpt``;
calls and results have no ids; ``tools`` is JSON in a string; ``<image>`` in a value is a placeholder for the next of
``images``. The ``function_call`` and ``observation`` turns, ``tools`` and ``images`` are those of LLaMA-Factory
(2026-11-15).
"""

from __future__ import annotations

from cannery.dialects.sharegpt.reading import read_request
from cannery.dialects.sharegpt.tools import NAME
from cannery.dialects.sharegpt.writing import write_request
from cannery.wire.contract import Rules
from cannery.wire.records import data_set
from cannery.wire.signs import Evidence, Sign, listed

DIALECT = data_set(
    NAME,
    Rules(ends_with_calls=True, cache_marks=0),
    read_request,
    write_request,
    messages="conversations",
    signs=(Sign("request", Evidence.OWN_FIELD, "it has conversations", listed("conversations")),),
)

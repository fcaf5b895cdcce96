"""Google's enumerations by number: the JSON of protobuf takes the name of a value or its number.

Clients that ask for ``$alt=json;enum-encoding=int`` (Google's Go client) send numbers and get them. The tables have the
numbers on which the Gemini API and Vertex AI agree (googleapis/googleapis, 2026-11-19); any other number stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCHEMA_TYPES = {
    1: "STRING",
    2: "NUMBER",
    3: "INTEGER",
    4: "BOOLEAN",
    5: "ARRAY",
    6: "OBJECT",
    7: "NULL",
}
CALLING_MODES = {1: "AUTO", 2: "ANY", 3: "NONE"}
FINISH_REASONS = {
    0: "FINISH_REASON_UNSPECIFIED",
    1: "STOP",
    2: "MAX_TOKENS",
    3: "SAFETY",
    4: "RECITATION",
    5: "OTHER",
}
LANGUAGES = {1: "PYTHON"}
OUTCOMES = {1: "OUTCOME_OK", 2: "OUTCOME_FAILED", 3: "OUTCOME_DEADLINE_EXCEEDED"}


def named(value: Any, names: Mapping[int, str]) -> Any:
    """The name of a value that is given by its number; any other value unchanged."""
    return names.get(value, value) if type(value) is int else value


def finish_word(value: Any) -> Any:
    """The name of a finish reason; an unknown number is an unknown word."""
    return FINISH_REASONS.get(value, str(value)) if type(value) is int else value

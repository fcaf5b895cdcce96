"""Redaction of secrets, e-mail addresses and home folders in exports; a store is never changed.

``Redactor`` finds them by patterns and entropy in text, JSON and base64. ``redact_conversation`` redacts a conversation
and ``redact_metadata`` its metadata; every export is written from the result, so no format needs redaction of its own.
The same value gets the same label everywhere, and ``Redactor.counts`` has the number of replacements by kind.
"""

from cannery.redaction.conversations import redact_conversation, redact_metadata
from cannery.redaction.redactor import KINDS, Redactor, Sighting

__all__ = ["KINDS", "Redactor", "Sighting", "redact_conversation", "redact_metadata"]

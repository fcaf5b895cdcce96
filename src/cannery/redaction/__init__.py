"""Secrets, e-mail addresses and home folders taken out of what leaves the house; a store is never changed.

``Redactor`` knows patterns and entropy and works on text, JSON and base64. ``redact_conversation`` gives a conversation
and its metadata without what it found, from which every export is then made, so that no format has its own way to leak.
The same value gets the same label everywhere, and ``Redactor.counts`` says how many of which kind were found.
"""

from cannery.redaction.conversations import redact_conversation, redact_metadata
from cannery.redaction.redactor import KINDS, Redactor, Sighting

__all__ = ["KINDS", "Redactor", "Sighting", "redact_conversation", "redact_metadata"]

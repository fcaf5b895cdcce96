"""Chat Completions errors, in the form of all OpenAI dialects."""

from __future__ import annotations

from cannery.dialects.openai_chat.settings import NAME
from cannery.families.openai.errors import read_openai_error, write_openai_error
from cannery.wire.contract import WireError


def read_error(status: int, body: bytes) -> WireError:
    """The error in a body, whatever its form."""
    return read_openai_error(NAME, status, body)


def write_error(error: WireError) -> bytes:
    """The body of an error."""
    return write_openai_error(error)

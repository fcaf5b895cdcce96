"""Reads Chat Completions requests.

The messages are those of the family (``families.chat.reading``); every other field is a setting. Understood settings
are taken, and the rest, at any level, is the residue.
"""

from __future__ import annotations

from cannery.dialects.openai_chat.settings import NAME, TABLE
from cannery.errors import DialectError
from cannery.families.chat.reading import ChatReader
from cannery.families.chat.tools import take_tools
from cannery.messages.conversation import Conversation
from cannery.messages.requests import Request, new_request
from cannery.wire.bodies import Object, listed_reader
from cannery.wire.places import Places


@listed_reader(NAME)
def read_request(body: Object, places: Places) -> Request:
    """Read the request from a body."""
    if "messages" not in body:
        raise DialectError(NAME, "messages", "is required")
    messages = body.pop("messages")
    tools = take_tools(NAME, body, places.tools) if "tools" in body or "functions" in body else ()
    settings = TABLE.read(body, places, tools)
    reader = ChatReader(NAME, places.canisters, settings[0])
    reader.messages(messages)
    return new_request(Conversation.trusted(reader.canisters), *settings, NAME)  # type: ignore[no-any-return]

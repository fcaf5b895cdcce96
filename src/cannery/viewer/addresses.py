"""The addresses of all pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from cannery.messages import absent
from cannery.viewer.contents import Links

ROOT = "/ui"


def list_address(query: Mapping[str, str] | None = None) -> str:
    """The address of the list of conversations."""
    return _with_query(ROOT, query or {})


def conversation_address(identifier: str, position: int | None = None) -> str:
    """The address of a conversation, or of one message in it."""
    address = f"{ROOT}/c/{quote(identifier, safe='')}"
    return address if position is None else f"{address}?at={position}#m{position}"


def below(identifier: str, *parts: object, query: Mapping[str, str] | None = None) -> str:
    """The address of a resource below a conversation."""
    tail = "/".join(quote(str(part), safe="") for part in parts)
    return _with_query(f"{conversation_address(identifier)}/{tail}", query or {})


def compare_address(left: str, right: str) -> str:
    """The address of the comparison of two conversations."""
    return _with_query(f"{ROOT}/compare", {"a": left, "b": right})


def links_of(identifier: str) -> Links:
    """The links for the messages of a conversation."""

    def media(content: Any) -> str:
        known = content.content_id
        return (
            ""
            if known is absent
            else below(identifier, "content", str(known).removeprefix("sha256:"))
        )

    return Links(
        media=media,
        message=lambda position: conversation_address(identifier, position),
        whole=lambda position: below(identifier, "m", position),
    )


def _with_query(address: str, query: Mapping[str, str]) -> str:
    told = urlencode({name: value for name, value in query.items() if value})
    return f"{address}?{told}" if told else address

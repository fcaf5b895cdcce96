"""Answers requests for pages: a path and a query in; a status, headers and bytes out.

A page sees only the part of the store that its caller may see. Every error becomes an answer: an HTML page, or JSON if
JSON was requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from cannery.errors import (
    CanneryError,
    InputError,
    NotFoundError,
    StorageError,
    StoreUnavailableError,
)
from cannery.viewer.addresses import ROOT
from cannery.viewer.answers import HTML, JSON, TEXT, Answer, Asked, Header
from cannery.viewer.assets import TYPES, read_asset
from cannery.viewer.copies import all_text, markdown_page, message_data, message_markdown
from cannery.viewer.media import content_answer
from cannery.viewer.pages.branches import tree_data, tree_page
from cannery.viewer.pages.comparison import compare_data, compare_page
from cannery.viewer.pages.conversation import conversation_data, conversation_page, load_shown
from cannery.viewer.pages.dialects import (
    as_data,
    as_page,
    body_of,
    curl_text,
    doctor_data,
    doctor_page,
)
from cannery.viewer.pages.listing import list_data, list_page
from cannery.viewer.pages.message import find_message, message_page
from cannery.viewer.pages.problems import key_page, problem_page
from cannery.viewer.safety import Tokens, safe_headers
from cannery.viewer.visible import one_line
from cannery.wording import message_text

_FRESH: Header = ("cache-control", "private, no-store")
_MOST_COPIED = 20_000
_PAGES: dict[str, Callable[[Asked, str], Iterator[bytes]]] = {
    "as": as_page,
    "doctor": doctor_page,
    "tree": tree_page,
}
_VALUES: dict[str, Callable[[Asked, str], dict[str, Any]]] = {
    "all.json": conversation_data,
    "as.json": as_data,
    "doctor.json": doctor_data,
    "tree.json": tree_data,
}


class Site:
    """Answers requests for paths below ``/ui``."""

    def __init__(self) -> None:
        self.tokens = Tokens()

    def answer(self, asked: Asked) -> Answer:
        """Answer a request; the body of a long page is rendered while it is sent."""
        try:
            return self._answer(asked)
        except CanneryError as error:
            return refusal(asked, status_of(error), str(error))

    def _answer(self, asked: Asked) -> Answer:
        parts = [part for part in asked.path.split("/") if part]
        if asked.method == "POST":
            return self._change(asked, parts)
        if parts[:1] == ["assets"] and len(parts) == 2:
            return asset_answer(parts[1])
        if asked.path in ("", "/"):
            return _page(list_page(asked))
        if asked.path == ".json":
            return _data(list_data(asked))
        if parts[0] in ("compare", "compare.json") and len(parts) == 1:
            return _data(compare_data(asked)) if asked.is_json else _page(compare_page(asked))
        if parts[0] == "c" and len(parts) > 1:
            return self._conversation(asked, parts[1], parts[2:])
        raise NotFoundError(f"there is no page {ROOT}{asked.path[:200]}")

    def _conversation(self, asked: Asked, name: str, below: list[str]) -> Answer:
        if not below:
            if name.endswith(".json"):
                return _data(conversation_data(asked, name.removesuffix(".json")))
            token = "" if asked.is_read_only else self.tokens.make(_deletion(asked, name))
            return _page(conversation_page(asked, name, token))
        match below:
            case ["m", place]:
                return _message(asked, name, place)
            case ["content", digest]:
                return content_answer(asked.store, name, digest, asked.headers)
            case [one] if one in _PAGES:
                return _page(_PAGES[one](asked, name))
            case [one] if one in _VALUES:
                return _data(_VALUES[one](asked, name))
            case ["all.txt" | "all.md" as form]:
                return _all(asked, name, form)
            case ["body.json"]:
                return Answer(200, _headers(JSON), body_of(asked, name).body)
            case ["curl.txt"]:
                spoken = body_of(asked, name)
                return _text(curl_text(asked, spoken, "", spoken.body))
            case _:
                raise NotFoundError(f"there is no page {ROOT}{asked.path[:200]}")

    def _change(self, asked: Asked, parts: list[str]) -> Answer:
        if asked.is_read_only:
            return refusal(asked, 405, "this viewer is read-only")
        if len(parts) != 3 or parts[0] != "c" or parts[2] != "delete":
            raise NotFoundError(f"nothing can be changed at {ROOT}{asked.path[:200]}")
        name = parts[1]
        if not self.tokens.is_valid(_deletion(asked, name), asked.form.get("token", "")):
            return refusal(asked, 403, "the page has expired: reload it and delete again")
        asked.store.delete(name)
        return Answer(303, [*safe_headers(), ("location", ROOT)], b"")


def _deletion(asked: Asked, name: str) -> str:
    return f"delete {name} {asked.caller}"


def _message(asked: Asked, name: str, place: str) -> Answer:
    number, _, ending = place.partition(".")
    if not number.isdecimal() or len(number) > 12:
        raise InputError(f"a message is named by its position, not by {place[:40]!r}")
    position = int(number)
    if not ending:
        return _page(message_page(asked, name, position))
    found = find_message(asked, name, position)
    if ending == "json":
        return _data(message_data(found))
    if ending == "md":
        return _text(message_markdown(found.canister) + "\n")
    if ending == "txt":
        return _text(message_text(found.canister))
    raise NotFoundError(f"a message comes as .txt, .md or .json, not as .{ending[:20]}")


def _all(asked: Asked, name: str, form: str) -> Answer:
    shown = load_shown(asked, name)
    if shown.window.length > _MOST_COPIED:
        raise InputError(
            f"too many messages to copy at once: `cannery export {name}` writes all of them"
        )
    canisters = shown.conversation.load()
    return _text(
        all_text(canisters) if form == "all.txt" else markdown_page(shown.metadata, canisters)
    )


# --- answers -----------------------------------------------------------------------------------


def status_of(error: CanneryError) -> int:
    """The status for an error, by whose fault it is."""
    if isinstance(error, LookupError):
        return 404
    if isinstance(error, ValueError):
        return 400
    return 503 if isinstance(error, (StoreUnavailableError, StorageError)) else 500


def refusal(asked: Asked, status: int, problem: str) -> Answer:
    """An error as a page, or as JSON if JSON was requested."""
    if asked.is_json:
        body = {"error": {"status": status, "message": one_line(problem, 1000)}}
        return Answer(status, _headers(JSON), msgspec.json.encode(body))
    return Answer(status, _headers(HTML), b"".join(problem_page(status, problem)))


def ask_for_key(problem: str, onward: str) -> Answer:
    """The page that requests a key."""
    return Answer(401, _headers(HTML), b"".join(key_page(problem, onward)))


def asset_answer(name: str) -> Answer:
    """A static file, which is the same for every caller."""
    if name not in TYPES:
        raise NotFoundError(f"there is no file {name[:80]!r}")
    told = [
        *safe_headers(),
        ("content-type", TYPES[name]),
        ("cache-control", "public, max-age=31536000, immutable"),
    ]
    return Answer(200, told, read_asset(name))


def _headers(kind: str) -> list[Header]:
    return [*safe_headers(), ("content-type", kind), _FRESH, ("vary", "cookie, authorization")]


def _page(body: Iterator[bytes]) -> Answer:
    return Answer(200, _headers(HTML), body)


def _data(value: Any) -> Answer:
    return Answer(200, _headers(JSON), msgspec.json.encode(value))


def _text(text: str) -> Answer:
    return Answer(200, _headers(TEXT), text.encode("utf-8", "replace"))

"""Recorded bodies of real clients, restored to their real size, with a new last turn in every call.

Captures contain shortened strings (``…[3662 chars cut]…``); the missing characters are filled with prose, so that a
body has its real size. The last turn is new in every call, so that no cache of whole bodies helps a contender: the
measurement is the cost of a conversation that continues.

Most captures are small examples of an SDK. The requests of agents, with their instructions, tools and histories, are in
recorded sessions beside the checkout (``SESSIONS``); without these, nothing is measured over them.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from completeness import strings
from workloads import sentence

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "dialects"
SESSIONS = ROOT.parent / "shared" / "sessions"
# The dialect of a recorded request, by the end of its path.
ROUTES = {
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
    "/messages": "anthropic_messages",
    ":generateContent": "gemini_generate",
    ":streamGenerateContent": "gemini_generate",
}
# The key of the turns in each dialect.
TURNS = {
    "openai_chat": "messages",
    "openai_responses": "input",
    "anthropic_messages": "messages",
    "gemini_generate": "contents",
}
# The last turn ends with a number of this length, which is different in every call.
DIGITS = 12
_MARK = "0" * DIGITS
_CUT = re.compile(r"…\[(\d+) chars cut\]…")
# Keys whose strings are not prose, or are bound to their provider: reasoning and signatures.
_LABELS = frozenset(
    (
        *("type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "name", "status"),
        *("detail", "thinking", "signature", "thoughtSignature", "encrypted_content"),
    )
)
_MEDIA = frozenset(("data", "url", "image_url", "media_type", "mimeType", "mime_type", "file_data"))
_counter = itertools.count(1)


class Captured(NamedTuple):
    """One body, as the bytes before and after the number that changes."""

    dialect: str
    name: str
    head: bytes
    tail: bytes

    def fresh(self) -> bytes:
        """The body with a last turn that was not used before."""
        return self.numbered(next(_counter))

    def numbered(self, number: int) -> bytes:
        """The body with this number in its last turn."""
        return b"%b%0*d%b" % (self.head, DIGITS, number, self.tail)

    def restated(self, write: Callable[[Any], bytes]) -> Captured:
        """The same conversation in the form that a contender reads."""
        written = write(json.loads(self.head + _MARK.encode() + self.tail))
        return _split(self.dialect, self.name, written)


@cache
def captured(dialect: str) -> tuple[Captured, ...]:
    """Every captured request of a dialect."""
    found = []
    for path in sorted((DATA / dialect / "requests").glob("capture_*.json")):
        body = json.loads(path.read_text("utf-8"))["body"]
        found.append(template(dialect, path.stem.removeprefix("capture_"), body))
    return tuple(found)


@cache
def recorded(dialect: str) -> tuple[Captured, ...]:
    """Every request of a dialect in the recorded sessions of agents."""
    found = []
    for path in sorted(SESSIONS.glob("*.json")):
        for number, request in enumerate(json.loads(path.read_text("utf-8"))["requests"]):
            if request["body"] and _route(request["path"]) == dialect:
                found.append(template(dialect, f"{path.stem}_{number:02}", request["body"]))
    return tuple(found)


def _route(path: str) -> str | None:
    return next((dialect for end, dialect in ROUTES.items() if path.endswith(end)), None)


# The kind of bodies in a row -> a function that loads the bodies of a dialect.
BODIES = {"captured": captured, "agents": recorded}


def template(dialect: str, name: str, body: dict[str, Any]) -> Captured:
    """A body whose last turn can be changed."""
    body = refilled(body)
    holder, key = last_text(body, TURNS[dialect])
    holder[key] += f" {_MARK}"
    return _split(
        dialect, name, json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    )


def _split(dialect: str, name: str, written: bytes) -> Captured:
    head, mark, tail = written.rpartition(_MARK.encode())
    assert mark, f"{dialect} {name}: the mark was not written"
    return Captured(dialect, name, head, tail)


def refilled(value: Any) -> Any:
    """A JSON value whose shortened strings have their real length again."""
    if isinstance(value, str):
        return _CUT.sub(lambda cut: _prose(int(cut[1])), value)
    if isinstance(value, list):
        return [refilled(item) for item in value]
    if isinstance(value, dict):
        return {key: refilled(item) for key, item in value.items()}
    return value


def _prose(length: int) -> str:
    return sentence(random.Random(length), length)[:length].ljust(length, ".")


def last_text(body: dict[str, Any], turns: str) -> tuple[Any, Any]:
    """The holder and the key of the last prose in the last turn that has any."""
    if isinstance(body[turns], str):
        return body, turns
    for turn in reversed(body[turns]):
        found = list(_texts(turn))
        if found:
            return found[-1]
    raise ValueError(f"no text in {turns}")


def _texts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every string below a turn that is prose, by its holder and key."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        if isinstance(item, str):
            # Text that is JSON, as results and arguments often are, is not changed.
            if key not in _LABELS and key not in _MEDIA and not item.startswith(("{", "[")):
                yield value, key
        elif isinstance(item, dict | list) and key not in _MEDIA:
            yield from _texts(item)


def missing(captured: Captured, given: bytes, written: bytes) -> int:
    """The number of a body's texts that are missing from its translation."""
    turns = json.loads(given)[TURNS[captured.dialect]]
    if isinstance(turns, str):
        turns = [turns]
    said = "\0".join(strings(json.loads(written)))
    texts = [holder[key].strip() for holder, key in _texts(turns)]
    return sum(text not in said for text in texts)

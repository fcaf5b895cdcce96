"""Loads the wire corpus: one small JSON file per request or response, one `.sse` file per stream.

Folders are the index: `tests/data/dialects/<dialect>/{requests,responses,streams}/<id>.*`. A case
says of itself what is odd about it: `extended` (holds fields or blocks no SDK type knows),
`breaks_rules` (a documented server rule is broken on purpose), `surface` (stable, beta, …).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "data" / "dialects"
# What an API speaks has answers.
DIALECTS = tuple(sorted(path.parent.name for path in DATA.glob("*/responses")))


@dataclass(frozen=True)
class Case:
    """One request or response body with what is known about it."""

    id: str
    dialect: str
    surface: str
    body: dict[str, Any]
    url_model: str | None = None
    origin: str = "handmade"
    betas: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    extended: bool = False
    breaks_rules: bool = False

    @property
    def raw(self) -> bytes:
        """The body as UTF-8 JSON bytes; lone surrogates can only be written as escapes."""
        try:
            return json.dumps(self.body, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return json.dumps(self.body).encode()

    @property
    def is_tame(self) -> bool:
        """Whether the body obeys both the types and the rules of its own dialect."""
        return not (self.extended or self.breaks_rules)


@dataclass(frozen=True)
class StreamCase:
    """One server-sent-event transcript, byte for byte."""

    id: str
    dialect: str
    data: bytes
    covers: tuple[str, ...] = ()
    extended: bool = False
    ends_in_error: bool = False
    whole: str | None = None

    @property
    def whole_case(self) -> Case | None:
        """The same response as one body, if the corpus has it."""
        return next((c for c in response_cases(self.dialect) if c.id == self.whole), None)


def request_cases(dialect: str) -> list[Case]:
    """Every request body of the dialect: given, captured and hand-made."""
    return _cases(dialect, "requests")


def response_cases(dialect: str) -> list[Case]:
    """Every whole response body of the dialect."""
    return _cases(dialect, "responses")


def stream_cases(dialect: str) -> list[StreamCase]:
    """Every stream transcript of the dialect, with its entry in `streams/index.json` if any."""
    folder = DATA / dialect / "streams"
    index_file = folder / "index.json"
    index = json.loads(index_file.read_text("utf-8")) if index_file.exists() else {}
    return [
        StreamCase(
            id=path.stem,
            dialect=dialect,
            data=path.read_bytes(),
            covers=tuple(index.get(path.stem, {}).get("covers", ())),
            extended=bool(index.get(path.stem, {}).get("extended")),
            ends_in_error=bool(index.get(path.stem, {}).get("ends_in_error")),
            whole=index.get(path.stem, {}).get("whole"),
        )
        for path in sorted(folder.glob("*"))
        if path != index_file
    ]


def tame_request_cases(dialect: str) -> list[Case]:
    """The request bodies that obey the types and rules of their own dialect."""
    return [case for case in request_cases(dialect) if case.is_tame]


@cache
def _texts(dialect: str, kind: str) -> tuple[tuple[str, str], ...]:
    folder = DATA / dialect / kind
    return tuple((path.stem, path.read_text("utf-8")) for path in sorted(folder.glob("*.json")))


def _cases(dialect: str, kind: str) -> list[Case]:
    return [_case(dialect, stem, json.loads(text)) for stem, text in _texts(dialect, kind)]


def _case(dialect: str, stem: str, record: dict[str, Any]) -> Case:
    if record["id"] != stem:
        raise ValueError(f"{dialect}/{stem}: the id in the file is {record['id']!r}")
    return Case(
        id=stem,
        dialect=dialect,
        surface=record["surface"],
        body=record["body"],
        url_model=record.get("url_model"),
        origin=record.get("origin", "handmade"),
        betas=tuple(record.get("betas", ())),
        covers=tuple(record.get("covers", ())),
        extended=bool(record.get("extended")),
        breaks_rules=bool(record.get("breaks_rules")),
    )

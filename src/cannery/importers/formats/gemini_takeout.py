"""Gemini in Google Takeout: ``MyActivity.json``, an array of ``{header, title, time, safeHtmlItem}``, one per prompt.

The title is "Prompted " and the prompt, the answer is HTML. Takeout does not link the prompts of a conversation, so
each is a conversation of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from cannery.importers.contract import Detection, Format, Found, Imported, Sample
from cannery.importers.drafts import Draft
from cannery.importers.pieces import moment, objects, text_of, unknown_record, with_fields
from cannery.importers.sources import Source
from cannery.importers.trees import linear

NAME = "gemini_takeout"
_PROMPTED = re.compile(r"^(Prompted|Asked|Said)\s+")
_PRODUCTS = ("Gemini Apps", "Bard", "Gemini")
_BREAKS = frozenset({"p", "br", "div", "li", "tr", "pre", "h1", "h2", "h3", "h4", "h5", "h6"})


def detect(sample: Sample) -> Detection | None:
    """Activities of Gemini with a title and a time."""
    if any(_is_prompt(record) for record in sample.objects):
        return Detection(0.9, "its activities are those of Gemini, with title and time")
    return None


def _is_prompt(record: dict[str, Any]) -> bool:
    products = record.get("products")
    known = [record.get("header"), *(products if isinstance(products, list) else ())]
    return "time" in record and "title" in record and any(each in _PRODUCTS for each in known)


def read(source: Source) -> Iterator[Found]:
    """One conversation per prompt."""
    for record, value in source.values():
        if not isinstance(value, dict) or not _is_prompt(value):
            yield unknown_record("another activity", record.place, value)
            continue
        if not _PROMPTED.match(text_of(value["title"])) and "safeHtmlItem" not in value:
            yield unknown_record("no prompt", record.place, value)
            continue
        when = moment(value.get("time"))
        unknown: Counter[str] = Counter()
        asked = Draft(NAME, "user", when, unknown)
        asked.text(_PROMPTED.sub("", text_of(value["title"])))
        answer = Draft(NAME, "assistant", when, unknown)
        for item in objects(value.get("safeHtmlItem")):
            answer.text(plain(text_of(item.get("html"))))
        turns = [
            ("prompt", with_fields(asked.done(), NAME, value, "title", "time")),
            ("answer", answer.done()),
        ]
        yield Imported(source.place_of(record), linear(turns), "", when, unknown=dict(unknown))


def plain(html: str) -> str:
    """The text of HTML, with a line for each block; the HTML itself is stored with the prompt."""
    reader = _Text()
    reader.feed(html)
    reader.close()
    return re.sub(r"\n{3,}", "\n\n", "".join(reader.found)).strip()


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag in _BREAKS:
            self.found.append("- " if tag == "li" else "\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _BREAKS:
            self.found.append("\n")

    def handle_data(self, data: str) -> None:
        self.found.append(data)


FORMAT = Format(
    NAME,
    "Gemini in Google Takeout",
    detect,
    read,
    keys=("header", "title", "time", "safeHtmlItem", "products"),
)

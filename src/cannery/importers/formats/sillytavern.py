"""SillyTavern chats: a header line with ``user_name`` and ``character_name``, then one message per line.

``is_user`` determines the role; a narrator is the system. ``swipes`` are alternative answers, of which ``swipe_id`` was
chosen: branches. As in ``src/endpoints/chats.js`` of SillyTavern (read 2026-11-15).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from cannery.importers.contract import Detection, Format, Found, Imported, Node, Sample
from cannery.importers.drafts import Draft
from cannery.importers.pieces import (
    moment,
    nodes_with_fields,
    text_of,
    unknown_record,
    with_fields,
)
from cannery.importers.sources import Source
from cannery.messages import AnyCanister

NAME = "sillytavern"
# The fields of a message that are read; the others are stored as facts.
_READ = ("is_user", "mes", "send_date", "swipes", "swipe_id")
_DATES = ("%B %d, %Y %I:%M%p", "%Y-%m-%d @%Hh %Mm %Ss", "%Y-%m-%d@%Hh%Mm%Ss")
_MILLISECONDS = re.compile(r"\s*\d+ms$")


def detect(sample: Sample) -> Detection | None:
    """Messages with ``mes`` and ``is_user``."""
    if any("mes" in record and "is_user" in record for record in sample.objects):
        return Detection(0.95, "its messages have mes and is_user")
    return None


def read(source: Source) -> Iterator[Found]:
    """One conversation per file, its swipes as branches."""
    header: dict[str, Any] = {}
    unknown: Counter[str] = Counter()
    nodes: list[Node] = []
    above: str | None = None
    model: str | None = None
    for number, (record, value) in enumerate(source.values()):
        if isinstance(value, dict) and "mes" not in value and not nodes and "user_name" in value:
            header = value
            continue
        if not isinstance(value, dict) or not isinstance(value.get("mes"), str):
            yield unknown_record("no message", record.place, value, above)
            continue
        extra = value.get("extra")
        made_by = text_of(extra.get("model")) if isinstance(extra, dict) else ""
        model = made_by or model
        chosen = f"#{number}"
        for name, words in _versions(value, chosen):
            said = _canisters(value, words, made_by, unknown)
            nodes.append(Node(name, above, with_fields(said, NAME, value, *_READ)))
        above = chosen
    times = [canister.timestamp for node in nodes for canister in node.canisters]
    yield Imported(
        source.name,
        nodes_with_fields(nodes, NAME, header, "create_date"),
        text_of(header.get("character_name")),
        _time(header.get("create_date")) or min(times, default=None),
        above,
        model,
        dict(unknown),
    )


def _versions(value: dict[str, Any], chosen: str) -> Iterator[tuple[str, str]]:
    """The chosen text, and the alternatives."""
    yield chosen, value["mes"]
    swipes = value.get("swipes")
    for number, words in enumerate(swipes if isinstance(swipes, list) else ()):
        if isinstance(words, str) and words != value["mes"]:
            yield f"{chosen}/{number}", words


def _canisters(
    value: dict[str, Any], words: str, model: str, unknown: Counter[str]
) -> tuple[AnyCanister, ...]:
    extra = value.get("extra")
    extra = extra if isinstance(extra, dict) else {}
    is_narrated = extra.get("type") == "narrator"
    role = "user" if value.get("is_user") is True else "system" if is_narrated else "assistant"
    draft = Draft(NAME, role, _time(value.get("send_date")), unknown)
    if role == "assistant":
        draft.thought(extra.get("reasoning"))
    draft.text(words)
    if extra.get("image"):
        draft.media(extra["image"], "image/png")
    return draft.done(model=model if role == "assistant" else None)


def _time(value: Any) -> datetime | None:
    found = moment(value)
    if found is not None or not isinstance(value, str):
        return found
    for pattern in _DATES:
        try:
            return datetime.strptime(f"{_MILLISECONDS.sub('', value)}+0000", f"{pattern}%z")
        except ValueError:
            continue
    return None


FORMAT = Format(
    NAME,
    "SillyTavern chat",
    detect,
    read,
    keys=("user_name", "character_name", "mes", "is_user", "swipes"),
)

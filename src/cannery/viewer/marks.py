"""A conversation as a provider receives it: the body, and each loss and repair at its message and place in the body.

The places are found by reading the body again: the reader notes the path of each message, and messages are aligned with
those of the conversation by their digests. A lost message is marked at the place where it would be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct

from cannery.dialects import dialect_names, find_dialect, is_dialect
from cannery.doctor import PROBLEM, examine_body
from cannery.errors import CanneryError
from cannery.messages import AnyCanister, Conversation, Request, absent, digest
from cannery.storage import Instructions
from cannery.storage.instructions import setup_key, setup_of
from cannery.storage.settings import decode_tools, with_settings
from cannery.translation import nativize_request
from cannery.viewer.json_lines import Line, laid_out
from cannery.viewer.messages import Mark
from cannery.wire.losses import CODES, REPAIRS, Loss, Repair
from cannery.wire.places import Path, Places, path_text
from cannery.wording import counted

_PLACE = re.compile(r"^conversation\[(\d+)\]")
# Losses and repairs of a trailing model turn, which a request must not have and a stored conversation usually has.
_UNANSWERED = frozenset({"PREFILL_DROPPED", "prefill"})
_LONGEST_TEXT = 2_000
_KINDS = {"info": "info", "lost": "loss", "blocked": "broken"}


class Noted(Struct, frozen=True):
    """A mark and its message; the position is None if it concerns the request as a whole."""

    mark: Mark
    position: int | None
    path: str


class Spoken(Struct, frozen=True):
    """A conversation written as a request in one dialect; ``refusal`` is the reason if it cannot be."""

    dialect: str
    model: str
    body: bytes = b""
    notes: tuple[Noted, ...] = ()
    # The path in the body of each message that is in it, by position.
    places: Mapping[int, Path] = {}
    refusal: str = ""

    @property
    def by_message(self) -> dict[int, list[Mark]]:
        """The marks of each message."""
        found: dict[int, list[Mark]] = {}
        for note in self.notes:
            if note.position is not None:
                found.setdefault(note.position, []).append(note.mark)
        return found

    @property
    def elsewhere(self) -> list[Noted]:
        """The notes that do not belong to a single message."""
        return [note for note in self.notes if note.position is None]

    def count(self, *kinds: str) -> int:
        """The number of notes of some kinds."""
        return sum(note.mark.kind in kinds for note in self.notes)


def served_dialects() -> list[str]:
    """The dialects of providers, without those of data sets."""
    return [name for name in dialect_names() if find_dialect(name).routes]


class Asking(Struct, frozen=True):
    """The request that continues a conversation: its instructions, tools and settings are the latest ones.

    Message ``at`` of the request is message ``at - behind`` of the conversation, from ``start`` on; before that are
    instructions that replaced the first ones.
    """

    request: Request
    start: int = 0
    behind: int = 0

    @classmethod
    def of(
        cls,
        history: Conversation,
        model: str | None,
        version: Instructions | None = None,
        source: str | None = None,
    ) -> Asking:
        """Build the request of a history; ``source`` is its dialect if no stored settings name it."""
        setup: tuple[AnyCanister, ...] = ()
        start = behind = 0
        if version is not None and version.position > 0:
            setup, first = tuple(version.canisters), setup_of(history)
            if setup_key(setup) != setup_key(first):
                start, behind = len(setup), len(setup) - len(first)
                history = Conversation.trusted((*setup, *history[len(first) :]))
        settings = None if version is None else version.settings
        request = with_settings(history, model, settings)
        if request.source is None and source and is_dialect(source):
            request = request.replace(source=source)
        if version is not None and version.tools is not None:
            request = request.replace(tools=decode_tools(version.tools))
        return cls(request, start, behind)

    def position(self, at: int | None) -> int | None:
        """The message of the conversation for a message of the request; None if there is none."""
        return None if at is None or at < self.start else at - self.behind

    @property
    def model(self) -> str:
        """The requested model, "" if it is unknown."""
        return "" if self.request.model is absent else str(self.request.model)


def write_request(asking: Asking, dialect: str) -> Spoken:
    """Write a request in a dialect; for the dialect that it was recorded in, unchanged and without repairs."""
    name, model = find_dialect(dialect).name, asking.model
    request = asking.request
    try:
        rendered = nativize_request(request, name, policy="allow", without=("prefill",))
    except CanneryError as error:
        return Spoken(name, model, refusal=str(error))
    notes = [*map(_of_loss, rendered.losses), *map(_of_repair, rendered.repairs)]
    kept = [note for note in notes if note.mark.label not in _UNANSWERED]
    places = _places(request.conversation, name, rendered.body)
    kept += _findings(rendered.body, name, model or None, places)
    moved = [
        msgspec.structs.replace(note, position=asking.position(note.position)) for note in kept
    ]
    shown = {
        position: path
        for at, path in places.items()
        if (position := asking.position(at)) is not None
    }
    return Spoken(name, model, rendered.body, tuple(moved), shown)


def _findings(
    body: bytes, dialect: str, model: str | None, places: Mapping[int, Path]
) -> Iterator[Noted]:
    """The doctor's findings for the body, at their messages."""
    found = examine_body(body, dialect, model=model, is_request=False)
    paths = {path_text(path): position for position, path in places.items()}
    for finding in found:
        kind = "broken" if finding.severity == PROBLEM else "info"
        told = f"{finding.text} ({finding.source}, {finding.date})"
        mark = Mark(kind, finding.code, told)
        yield Noted(mark, _position_of(finding.path, paths), finding.path)


def _position_of(path: str, paths: Mapping[str, int]) -> int | None:
    """The message that contains a path of the body, or the first one inside it."""
    around = [each for each in paths if path == each or path.startswith((f"{each}.", f"{each}["))]
    if around:
        return paths[max(around, key=len)]
    inside = [paths[each] for each in paths if each.startswith((f"{path}.", f"{path}["))]
    return min(inside) if inside else None


def _of_loss(loss: Loss) -> Noted:
    told = loss.detail or CODES.get(loss.code, ("", ""))[1]
    return _noted(Mark(_KINDS.get(loss.severity, "loss"), loss.code, told), loss.path)


def _of_repair(repair: Repair) -> Noted:
    told = repair.detail or REPAIRS.get(repair.name, "")
    return _noted(Mark("repair", repair.name, told), repair.path)


def _noted(mark: Mark, path: str) -> Noted:
    found = _PLACE.match(path)
    return Noted(mark, int(found[1]) if found else None, path)


def _places(history: Sequence[AnyCanister], dialect: str, body: bytes) -> dict[int, Path]:
    """The path of each message of a conversation in a body."""
    places = Places()
    try:
        again = find_dialect(dialect).read_request(body, places).conversation
    except CanneryError:
        return {}
    paths = places.canisters
    mine, yours = [digest(each) for each in history], [digest(each) for each in again]
    found: dict[int, Path] = {}
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, mine, yours, autojunk=False).get_opcodes():
        if tag == "equal" or (tag == "replace" and i2 - i1 == j2 - j1):
            found |= {
                i1 + step: paths[j1 + step] for step in range(i2 - i1) if j1 + step < len(paths)
            }
        elif tag == "replace":
            # Messages were joined or split: each is placed near the beginning of the run.
            found |= {
                at: paths[min(j1 + at - i1, j2 - 1)] for at in range(i1, i2) if j2 <= len(paths)
            }
    return found


# --- the body in lines -------------------------------------------------------------------------


class Run(Struct, frozen=True):
    """Lines of a body, with the marks at the first of them; ``positions`` are the messages that begin there."""

    lines: tuple[str, ...]
    notes: tuple[Noted, ...]
    positions: tuple[int, ...]


def body_runs(spoken: Spoken) -> list[Run]:
    """Split the lines of a body where a mark or a message begins."""
    lines = list(laid_out(_shortened(msgspec.json.decode(spoken.body))))
    starts: dict[int, tuple[list[Noted], list[int]]] = {}
    index = _index(lines)
    for position, path in spoken.places.items():
        at = _line_of(index, path)
        starts.setdefault(at, ([], []))[1].append(position)
    for note in spoken.notes:
        at = _line_of(index, _place_of(spoken, note))
        starts.setdefault(at, ([], []))[0].append(note)
    cuts = sorted({0, *starts, len(lines)})
    runs = []
    for first, last in pairwise(cuts):
        notes, positions = starts.get(first, ([], []))
        text = tuple(line.text for line in lines[first:last])
        runs.append(Run(text, tuple(notes), tuple(positions)))
    return runs


def _index(lines: Iterable[Line]) -> dict[Path, int]:
    found: dict[Path, int] = {}
    for number, line in enumerate(lines):
        if line.path is not None:
            found.setdefault(line.path, number)
    return found


def _line_of(index: Mapping[Path, int], path: Path) -> int:
    """The line on which a path begins; if it is not in the body, the line of its nearest container."""
    while path and path not in index:
        path = path[:-1]
    return index.get(path, 0)


def _place_of(spoken: Spoken, note: Noted) -> Path:
    if note.position is None:
        return ()
    if note.position in spoken.places:
        return spoken.places[note.position]
    # Lost completely: it is marked at the next message, or at the last one.
    behind = [at for at in spoken.places if at > note.position]
    before = [at for at in spoken.places if at < note.position]
    if behind:
        return spoken.places[min(behind)]
    return spoken.places[max(before)] if before else ()


def _shortened(value: Any) -> Any:
    """Truncate long texts in a value for the page; the copy of the body is complete."""
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return f"{value[:400]}… [{counted(len(value) - 400, 'character')} more]"
    return value


def place_text(spoken: Spoken, position: int) -> str:
    """The path of a message in a body, as text; "" if it is not in it."""
    path = spoken.places.get(position)
    return "" if path is None else path_text(path)


def all_spoken(asking: Asking) -> Iterator[Spoken]:
    """A request as each provider receives it."""
    return (write_request(asking, name) for name in served_dialects())

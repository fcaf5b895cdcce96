"""Residue of another dialect: each field is reported as lost, once, with its own path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from cannery.messages.absence import Absential, absent
from cannery.messages.canisters import (
    AssistantCanisterClass,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
)
from cannery.messages.requests import Controls, Request, Response, Thinking, Tool
from cannery.messages.residue import Residue
from cannery.wire.citations import has_citations
from cannery.wire.losses import ENVELOPE, Place, Report
from cannery.wire.places import ControlPaths, key_text, last_key
from cannery.wire.residues import Left, dropped_keys

_SIGNATURES = frozenset(
    {
        *("thoughtSignature", "thought_signature", "signature"),
        *("encrypted_content", "encrypted_stdout", "encrypted_index"),
    }
)
# Placeholders that clients send as the signature of a call that Gemini did not make, plain or in base64
# (https://ai.google.dev/gemini-api/docs/thought-signatures, read 2026-11-17).
STAND_INS = (
    "context_engineering_is_the_way_to_go",
    "skip_thought_signature_validator",
    "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv",
    "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=",
)
_NAMES = (".name", f"{ENVELOPE}.name", f"{ENVELOPE}.tool_name")
# Canister types of the model; servers generate the ids of its messages.
_OF_MODELS = frozenset({AssistantCanisterClass, InvocationCanisterClass})
# The code and detail of a loss, and the path below its place.
LostField = tuple[str, str, str]
# The path at which an answer of a dialect has citations beside its text.
_CITATIONS = "citations"
_APART = ("model", "tool_choice", "stream")
# Empty objects that have a meaning.
_TELLING = frozenset({".web_search_options"})
_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})
_DETAILS = (".image_url.detail", "].detail")
# Fields of a mark that every dialect can express in its own form.
_MARK_WORDS = {"type": ("ephemeral",), "mode": ("explicit",), "ttl": ("5m", "1h", "30m", "12h")}
_FURTHER = re.compile(r"(?:choices|candidates)\[[1-9]\d*\]")
# Server-generated fields without conversational meaning: ids, tags and states.
_MADE_BY_SERVERS: dict[str, type] = {
    ".id": str,
    ".status": str,
    ".type": str,
    ".index": int,
    ".object": str,
    ".role": str,
    ".strict": bool,
}
# Keys of other fields whose value may be meaningless although it is not empty.
_QUIET = frozenset({*_MARKS, "is_error", "thought", "detail", "caller"})
# Keys whose value is meaningless if it is empty.
_EMPTY = frozenset({str, list, dict})
_STATES = frozenset(
    {
        *("completed", "in_progress", "incomplete", "failed", "queued", "cancelled"),
        *("calling", "generating", "interpreting", "searching"),
    }
)
# Fields that only responses have; in a request they are the client's own.
_OF_ANSWERS = frozenset({"id", "object", "created"})


def report_residue(value: Any, report: Report, place: Place, taken: str | None = None) -> None:
    """Report what the foreign residue of a canister or tool holds, except what the target expresses or took over."""
    residue = value.residue
    if residue is None or not (residue.part or residue.envelope or residue.cache):
        return
    kind = type(value)
    if kind is Tool:
        # A tool's form names the field that its schema was read from; only the spelling is kept, so nothing is lost.
        read = residue.form.split() if residue.form else ()
        for code, detail, within in lost_residue(residue, is_result=False):
            if within.removeprefix(".") not in read:
                report.lost.append((code, place, detail, within))
        if residue.cache is not None:
            report.lose("CACHE_MARK_DROPPED", place)
        return
    is_result, is_answer = kind is ResultCanisterClass, kind in _OF_MODELS
    lost = lost_residue(residue, is_result=is_result, is_answer=is_answer)
    if kind is DocumentCanisterClass and residue.part:
        # Clients name their documents so that answers can cite them.
        lost += [
            ("FIELD_DROPPED", "the target has no ids of documents", path)
            for path, held in dropped_keys(residue.part)
            if path == ".id" and held and type(held) is str
        ]
    if lost:
        report.lost += [
            (code, place, detail, within) for code, detail, within in lost if within != taken
        ]


def says_only_text(turn: list[Any], dialect: str, report: Report) -> bool:
    """Whether pieces are one text without residue of this dialect; residue of another dialect is reported."""
    canister = turn[0].canister
    if type(canister.held) is not str or len(turn) > 1:
        return False
    residue = canister.residue
    if residue is None:
        return True
    if residue.dialect == dialect or residue.cache:
        return False
    if residue.part or residue.envelope:
        report_residue(canister, report, turn[0].place)
    return True


def lost_residue(residue: Residue, *, is_result: bool, is_answer: bool = False) -> list[LostField]:
    """The code, detail and path (below its place) of everything that foreign residue holds."""
    is_marked = residue.cache is not None
    lost: list[LostField] = []
    if residue.part and (left := dropped_keys(residue.part)):
        lost = lost_keys(left, is_marked=is_marked)
    if residue.envelope:
        left = dropped_keys(residue.envelope)
        lost += lost_keys(left, ENVELOPE, is_marked=is_marked)
        # The id that a client gave its own message; servers generate those of answers and items.
        identifier = None if is_answer else dict(left).get(".id")
        if identifier and type(identifier) is str:
            lost.append(("MESSAGE_ID_DROPPED", "", f"{ENVELOPE}.id"))
    if is_result and lost:
        # The name on a result repeats the name of its call.
        return [each for each in lost if each[2] not in _NAMES]
    return lost


def lost_keys(left: Left, holder: str = "", *, is_marked: bool) -> list[LostField]:
    """The code, detail and path, below a holder, of every lost field that a reader did not take."""
    lost: list[LostField] = []
    for path, held in left:
        said = lost_field(path, held, is_marked=is_marked)
        if said is not None:
            lost.append((said[0], said[1], holder + path))
        elif is_marked and type(held) is dict and last_key(path) in _MARKS:
            # The mark itself is carried; the other fields inside it are not.
            for key, item in held.items():
                if item not in _MARK_WORDS.get(key, ()) and lost_field(key, item) is not None:
                    detail = f"this {key!r} of a mark is known only to its own dialect"
                    lost.append(("CACHE_MARK_DROPPED", detail, holder + path + key_text(key)))
    return lost


def report_settings(
    value: Request | Response,
    left: Left,
    modelled: frozenset[str],
    paths: ControlPaths,
    report: Report,
    references: Mapping[str, str] = MappingProxyType({}),
    defaults: Mapping[str, tuple[Any, ...]] = MappingProxyType({}),
) -> None:
    """Report the fields of a foreign request or response that its reader did not take, because the model lacks them.

    Fields that the target has taken over are not lost. ``defaults`` and ``references`` have loss codes of their own.
    """
    is_request = isinstance(value, Request)
    taken, modelled_in = report.taken.places, holders(modelled)
    unread: dict[str, str] | None = None
    waiting = left[::-1]
    while waiting:
        path, held = waiting.pop()
        place = path.removeprefix(".")
        is_object = type(held) is dict
        if place in taken:
            continue
        if place in references and _says_something(held):
            report.lose(references[place], place)
        elif not is_request and _FURTHER.fullmatch(place):
            report.lose("CHOICE_DROPPED", "", "", path)
        elif is_object and taken and place in holders(taken):
            waiting += _inner(path, held)
        elif place in defaults and any(_is_same(held, usual) for usual in defaults[place]):
            report.lose("DEFAULT_DROPPED", "", "", path)
        elif place not in modelled or (is_request and place in _OF_ANSWERS):
            if is_object and place in modelled_in:
                waiting += _inner(path, held)
            else:
                _report_field(path, held, report, is_setting=is_request)
        else:
            if unread is None:
                unread = _unread(value, paths)
            if place in unread and _says_something(held):
                _report_unread(place, unread[place], report)
            elif is_object and place in modelled_in:
                waiting += _inner(path, held)


def _is_same(held: Any, usual: Any) -> bool:
    return type(held) is type(usual) and bool(held == usual)


def _inner(path: str, held: dict[str, Any]) -> Left:
    """The fields of an object in reverse order."""
    return [(path + key_text(key), held[key]) for key in reversed(held)]


@lru_cache(maxsize=64)
def holders(places: frozenset[str]) -> frozenset[str]:
    """The paths of the objects that hold some paths."""
    steps = [place.split(".") for place in places]
    return frozenset(".".join(each[:end]) for each in steps for end in range(1, len(each)))


def _report_unread(place: str, name: str, report: Report) -> None:
    if name == _CITATIONS:
        report.lose("CITATION_DROPPED", place, "the answer has no text to cite by")
    else:
        key = last_key(place)
        report.lose("CONTROL_DROPPED", place, f"only its own dialect knows this {key!r}")


def _unread(value: Request | Response, paths: ControlPaths) -> dict[str, str]:
    """The modelled fields that a value does not have, by their path in the source."""
    if isinstance(value, Response):
        return _uncited(value, paths)
    return _unread_settings(value, paths)


def _unread_settings(request: Request, paths: ControlPaths) -> dict[str, str]:
    """The settings that a request does not have, by their path in the source."""
    controls = request.controls
    names = [name for name in Controls.__struct_fields__ if getattr(controls, name) is absent]
    names += [name for name in _APART if getattr(request, name) is absent]
    names += _unread_thinking(controls.thinking)
    return {path: name for name in names for path in _alternatives(paths.get(name, name))}


def _unread_thinking(thinking: Absential[Thinking]) -> Iterator[str]:
    """The parts of a thinking setting that a request does not have."""
    if not isinstance(thinking, Thinking):
        yield from ("switch", "budget", "effort", "summary")
        return
    if thinking.enabled is absent:
        yield "switch"
        if thinking.budget is absent:
            yield "budget"
    if thinking.effort is absent:
        yield "effort"
    if thinking.summary is absent:
        yield "summary"


def _uncited(response: Response, paths: ControlPaths) -> dict[str, str]:
    """The path at which a dialect keeps citations beside the text, if none of them found a text."""
    found = paths.get(_CITATIONS)
    if found is None or any(has_citations(each.held) for each in response.canisters):
        return {}
    return dict.fromkeys(_alternatives(found), _CITATIONS)


def _alternatives(paths: str | tuple[str, ...]) -> tuple[str, ...]:
    return (paths,) if isinstance(paths, str) else paths


def _says_something(held: Any) -> bool:
    if type(held) is dict:
        return any(map(_says_something, held.values()))
    return held is not None and held not in ("", [])


def _report_field(path: str, held: Any, report: Report, *, is_setting: bool) -> None:
    """Report one body field that the target does not express, if it holds anything."""
    lost = lost_field(path, held, is_setting=is_setting)
    if lost is not None:
        report.lose(lost[0], "", lost[1], path)


def lost_field(
    path: str, held: Any, *, is_marked: bool = False, is_setting: bool = False
) -> tuple[str, str] | None:
    """The code and detail for the loss of a field; None if nothing is lost.

    The writer itself reports the fate of a mark. Server-generated fields with the values that servers give them are
    not reported; no server generates the settings of a request.
    """
    is_made = type(held) is _MADE_BY_SERVERS.get(path) and not is_setting
    if is_made and (path != ".status" or held in _STATES):
        return None
    if not held and (held is None or type(held) in _EMPTY):
        return ("FIELD_DROPPED", "what is empty says something here") if path in _TELLING else None
    key = last_key(path)
    if key in _QUIET:
        if key in _MARKS:
            return None if is_marked else ("CACHE_MARK_DROPPED", "")
        # A result that is marked as not failed is a normal result; text that is marked as not a thought is text.
        if path in (".is_error", ".thought") and held is False:
            return None
        # A call that the model itself made.
        if path == ".caller" and held == {"type": "direct"}:
            return None
        # The default detail of an image.
        if held == "auto" and (path == ".detail" or path.endswith(_DETAILS)):
            return None
    if key in _SIGNATURES:
        return "STANDIN_DROPPED" if held in STAND_INS else "SIGNATURE_DROPPED", ""
    return "FIELD_DROPPED", f"{key!r} is known only to its own dialect"

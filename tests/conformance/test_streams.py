"""Streams: any split gives the same events, events fold to the whole, and the official parsers take what we write."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cannery
from cannery.messages import Failure, Finish, PartEnd, PartStart, Start, UsageReport, absent, fold
from cannery.messages.events import Delta
from cannery.wire.contract import StreamOptions
from tests.conformance.matrix import DIALECTS, identify
from tests.oracles.corpus import StreamCase, stream_cases
from tests.oracles.sdk_streams import parse_stream
from tests.oracles.stream_rules import check_stream_rules

STREAMS = [case for name in DIALECTS for case in stream_cases(name)]
MATRIX = [(case, target) for case in STREAMS for target in DIALECTS]
SPLITS = (1, 2, 3, 7)


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def events(case: StreamCase, chunks: list[bytes] | None = None) -> list[Any]:
    return list(cannery.normalize_stream(chunks or [case.data], case.dialect))


@pytest.mark.parametrize("case", STREAMS, ids=identify)
def test_the_split_of_the_bytes_does_not_matter(case: StreamCase):
    whole = events(case)
    for size in SPLITS:
        assert events(case, pieces(case.data, size)) == whole


@pytest.mark.parametrize("case", STREAMS, ids=identify)
def test_every_part_starts_and_ends_once(case: StreamCase):
    open_parts: set[int] = set()
    seen: set[int] = set()
    found = events(case)
    for event in found:
        if isinstance(event, PartStart):
            assert event.index not in seen
            seen.add(event.index)
            open_parts.add(event.index)
        elif isinstance(event, Delta):
            assert event.index in open_parts
        elif isinstance(event, PartEnd):
            open_parts.remove(event.index)
    if case.ends_in_error:
        assert isinstance(found[-1], Failure)
    else:
        assert open_parts == set()
        assert isinstance(found[0], Start)
        assert isinstance(found[-1], Finish)


@pytest.mark.parametrize("case", [case for case in STREAMS if case.whole], ids=identify)
def test_a_stream_folds_to_its_whole_body(case: StreamCase):
    whole = case.whole_case
    assert whole is not None
    response = cannery.normalize_response(whole.raw, case.dialect)
    folded = fold(events(case))
    assert folded.canisters == response.canisters
    assert folded.finish == response.finish
    assert folded.model == response.model
    assert folded.identifier == response.identifier
    if any(isinstance(event, UsageReport) for event in events(case)):
        assert folded.usage == response.usage


@pytest.mark.parametrize("case, target", MATRIX, ids=identify)
def test_the_official_parser_takes_what_we_write(case: StreamCase, target: str):
    written = list(cannery.translate_stream([case.data], source=case.dialect, target=target))
    if case.ends_in_error:
        assert fails(target, written)
        return
    assert check_stream_rules(target, b"".join(written)) == []
    parse_stream(target, written)


@pytest.mark.parametrize("case, target", MATRIX, ids=identify)
def test_a_translated_stream_says_the_same(case: StreamCase, target: str):
    if case.ends_in_error:
        return
    options = StreamOptions(include_usage=True, reasoning=True)
    written = list(
        cannery.translate_stream([case.data], source=case.dialect, target=target, options=options)
    )
    theirs, ours = fold(events(case)), fold(cannery.normalize_stream(written, target))
    assert spoken(ours) == spoken(theirs)


def fails(target: str, written: list[bytes]) -> bool:
    """Whether a user of the official SDK learns of the error: by an exception, or by an event."""
    try:
        parsed = parse_stream(target, written)
    except Exception:  # noqa: BLE001 - each SDK has its own
        return True
    return any(event.get("type") in ("error", "response.failed") for event in parsed.events)


def spoken(response: Any) -> list[Any]:
    """Texts and calls of an answer, in order; how a wire wraps odd arguments is undone."""
    calls: list[Any] = []
    texts: list[str] = []
    for canister in response.canisters:
        held = canister.held
        if canister.role.value == "invocation":
            calls.append((canister.name, _arguments(canister)))
        elif isinstance(held, str) or (held is not absent and held.kind in ("text", "refusal")):
            texts.append(held if isinstance(held, str) else held.text)
    return ["".join(texts), calls]


def _arguments(canister: Any) -> Any:
    try:
        value = json.loads(canister.arguments_text or "{}")
    except ValueError:
        return canister.arguments_text
    if isinstance(value, dict) and len(value) == 1:
        return value.get("input", value.get("_raw_arguments", value))
    return value

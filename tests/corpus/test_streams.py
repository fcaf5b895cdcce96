"""Streams: any split gives the same events, the events fold to the whole answer, and every SDK takes what is written.

The whole answer of a recorded stream is what the official SDK accumulates of it. A stream that ends in an error, or is
cut off, must end in an error in every dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import orjson
import pytest

import cannery
from cannery.dialects import find_dialect
from cannery.messages import Failure, PartStart, fold
from tests.conformance.test_streams import fails, spoken
from tests.corpus.items import PARTS, Corpus, Item
from tests.corpus.judging import DIALECTS, check
from tests.oracles.sdk_streams import StreamRefusedError, parse_stream
from tests.oracles.stream_rules import check_stream_rules

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
# Single bytes are slow, and a long stream has no splits that a short one does not have.
LONGEST_BYTE_BY_BYTE = 20_000
OPTIONS = cannery.StreamOptions(include_usage=True, reasoning=True)


def events(item: Item, size: int) -> list[Any]:
    data = item.data
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    return [_timeless(event) for event in cannery.normalize_stream(chunks, item.dialect)]


def _timeless(event: Any) -> Any:
    """An event without the time at which it was read."""
    if isinstance(event, PartStart) and isinstance(event.content, cannery.Canister):
        content: Any = event.content
        return msgspec.structs.replace(event, content=content.replace(timestamp=WHEN))
    return event


def judge_splits(item: Item) -> list[str]:
    whole = events(item, max(1, len(item.data)))
    sizes = (7, 64) if len(item.data) > LONGEST_BYTE_BY_BYTE else (1, 7, 64)
    return [f"chunks of {size} bytes differ" for size in sizes if events(item, size) != whole]


def accumulated(item: Item) -> Any:
    """The answer that the SDK of the stream's own dialect makes of it; None where it refuses the stream."""
    try:
        final = parse_stream(item.dialect, [item.data]).final
    except StreamRefusedError:
        return None
    # ChatGPT's own endpoint tells of an empty output at the end of an answer that it streamed (recorded 2026-05).
    is_untold = final.get("output") == [] and b"response.output_item.done" in item.data
    return None if is_untold else final


def judge_fold(item: Item) -> list[str]:
    final = accumulated(item)
    if final is None:
        return []  # there is no whole answer to compare with
    if b"partialArgs" in item.data:
        return []  # the SDK does not put partial arguments together
    if check_stream_rules(item.dialect, item.data) and item.origin != "recorded":
        return []  # several answers in one file
    folded = fold(cannery.normalize_stream([item.data], item.dialect))
    whole = cannery.normalize_response(orjson.dumps(final), item.dialect)
    problems = []
    if spoken(folded) != spoken(whole):
        problems.append(f"folded to {spoken(folded)}, the whole says {spoken(whole)}")
    for name in ("finish", "model", "identifier"):
        one, other = getattr(folded, name), getattr(whole, name)
        if one != other:
            problems.append(f"{name}: folded to {one!r}, the whole says {other!r}")
    return problems


def judge_target(item: Item, target: str) -> list[str]:
    given = list(cannery.normalize_stream([item.data], item.dialect))
    written = list(
        cannery.translate_stream([item.data], source=item.dialect, target=target, options=OPTIONS)
    )
    if any(isinstance(event, Failure) for event in given):
        return [] if fails(target, written) else ["the error of the stream is not told"]
    problems = check_stream_rules(target, b"".join(written))
    # What an SDK refuses of its own server it may refuse of us.
    if target != item.dialect or accumulated(item) is not None:
        parse_stream(target, written)
    one, other = spoken(fold(cannery.normalize_stream(written, target))), expected(given, target)
    if find_dialect(target).rules.refuses_blank_text and not other[0].strip():
        # Blank text is not said to who refuses it.
        other = ["", other[1]]
    return problems if one == other else [*problems, f"says {one}, the source {other}"]


def expected(given: list[Any], target: str) -> list[Any]:
    """What another dialect says: a blank line where a block is left out between texts, and summaries as text."""
    answer = fold(given)
    said, is_gap = "", False
    for canister in answer.canisters:
        held = canister.held
        is_block = isinstance(held, cannery.OpaqueContentClass) and held.dialect != target
        words = summary(orjson.loads(held.json)) if is_block else words_of(canister)
        is_gap = is_gap or is_block
        if words and said and is_gap:
            breaks = len(said) - len(said.rstrip("\n")) + len(words) - len(words.lstrip("\n"))
            said += "\n" * max(0, 2 - breaks)
        said += words
        is_gap = is_block or (is_gap and not words)
    calls = spoken(answer)[1]
    if target != answer.source:
        calls = [*calls, *filter(None, map(client_call, answer.canisters))]
    return [said, calls]


# Calls that the client answers, by the field in which their arguments stand.
CLIENT_CALLS = {
    "shell_call": "action",
    "local_shell_call": "action",
    "apply_patch_call": "operation",
    "computer_call": "action",
    "tool_search_call": "arguments",
}


def client_call(canister: Any) -> tuple[str, Any] | None:
    """The function that stands for a call of a tool that the client runs."""
    held = canister.held
    if not isinstance(held, cannery.OpaqueContentClass) or held.tag not in CLIENT_CALLS:
        return None
    item = orjson.loads(held.json)
    environment = (item.get("environment") or {}).get("type", "local")
    if item.get("execution") == "server" or environment != "local":
        return None
    given = item[CLIENT_CALLS[held.tag]]
    known = {key: value for key, value in given.items() if value is not None}
    if held.tag == "local_shell_call":
        known.pop("type")
    return held.tag.removesuffix("_call"), known


def summary(block: Any) -> str:
    """The readable summary of a block that stands for what came before it."""
    content = block.get("content") if block.get("type") == "compaction" else None
    return content if isinstance(content, str) and content.strip() else ""


def words_of(canister: Any) -> str:
    """The words of one canister of an answer, as ``spoken`` takes them."""
    return str(spoken(cannery.Response([canister]))[0])


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_split_of_the_bytes_does_not_matter(
    dialect: str, part: int, corpus: Corpus, record_property: Callable[..., None]
):
    check("streams", corpus.items(dialect, "stream", part), judge_splits, record_property)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_folds_to_the_whole_answer(
    dialect: str, part: int, corpus: Corpus, record_property: Callable[..., None]
):
    check("folded streams", corpus.items(dialect, "stream", part), judge_fold, record_property)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_a_translated_stream_is_valid_and_says_the_same(
    source: str, target: str, part: int, corpus: Corpus, record_property: Callable[..., None]
):
    items = corpus.items(source, "stream", part)
    judge = partial(judge_target, target=target)
    check("translated streams", items, judge, record_property, target)

"""Streams over async iterables: the same bytes as over plain ones, as soon as they can be written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery

CHUNKS = (
    (
        b'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        b'[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}\n\n'
    ),
    (
        b'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        b'[{"index":0,"delta":{"content":" there"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    ),
)
WHOLE = b"".join(CHUNKS)
TARGETS = ("openai_chat", "openai_responses", "anthropic_messages", "gemini_generate")


async def arriving(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk


@given(cuts=st.sets(st.integers(0, len(WHOLE))), target=st.sampled_from(TARGETS))
def test_an_async_stream_is_translated_like_any_other(cuts: set[int], target: str):
    ends = [0, *sorted(cuts), len(WHOLE)]
    chunks = [WHOLE[start:end] for start, end in pairwise(ends)]

    async def translated() -> list[bytes]:
        stream = cannery.translate_stream(arriving(chunks), source="openai_chat", target=target)
        return [chunk async for chunk in stream]

    expected = [*cannery.translate_stream(chunks, source="openai_chat", target=target)]
    assert asyncio.run(translated()) == expected


def test_events_of_an_async_stream_come_before_its_end():
    async def first() -> object:
        async def endless() -> AsyncIterator[bytes]:
            yield CHUNKS[0]
            await asyncio.sleep(3600)

        events = cannery.normalize_stream(endless(), "openai_chat")
        return await asyncio.wait_for(anext(events), timeout=30)

    assert type(asyncio.run(first())).__name__ == "Start"


def test_what_is_no_chunk_is_refused_in_an_async_stream():
    async def read() -> None:
        async for _ in cannery.normalize_stream(arriving(["text"]), "openai_chat"):  # type: ignore[list-item]
            pass

    with pytest.raises(cannery.InputError, match="chunks of bytes, got str"):
        asyncio.run(read())

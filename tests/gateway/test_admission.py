"""Large requests under way: how many are read at once, and who waits for whom."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from cannery.gateway.admission import SMALL_BYTES, Admission
from cannery.gateway.calls import Call
from cannery.gateway.refusals import CallError
from cannery.gateway.settings import Limits

from .running import Running, rows
from .test_contract import ask, chat
from .upstream import Upstream

CHAT = "/v1/chat/completions"
MEGABYTE = 1 << 20


class Caller:
    """What admission needs of a call."""

    reading_since = 0.0


def caller() -> Call:
    return cast("Call", Caller())


class Queue:
    """Bytes that wait for a store."""

    size = 0


def admission(queue: Queue | None = None, **limits: Any) -> Admission:
    settled = Limits(**{"bytes_under_way": 10 * MEGABYTE, "wait_seconds": 5.0, **limits})
    return Admission(settled, lambda: 0 if queue is None else queue.size)


async def enters(gate: Admission, call: Call, size: int) -> bool:
    """Whether a body is let in at once; one that is not goes on waiting as a task of its own."""
    task = asyncio.create_task(gate.enter(call, size))
    WAITING[call] = task
    await asyncio.sleep(0)
    return task.done()


WAITING: dict[Call, asyncio.Task[None]] = {}


@pytest.fixture(autouse=True)
def _nobody_waits() -> Iterator[None]:
    yield
    WAITING.clear()


def test_bodies_wait_in_order_and_small_ones_not_at_all() -> None:
    async def run() -> None:
        gate = admission()
        first, second, third, fourth = caller(), caller(), caller(), caller()
        assert await enters(gate, first, 6 * MEGABYTE)
        assert not await enters(gate, second, 6 * MEGABYTE)
        # It would fit, but another came before it.
        assert not await enters(gate, third, 2 * MEGABYTE)
        assert await enters(gate, fourth, SMALL_BYTES)
        assert (gate.waiting, gate.bytes_under_way) == (2, 6 * MEGABYTE)
        gate.leave(first)
        await asyncio.gather(WAITING[second], WAITING[third])
        assert (gate.waiting, gate.bytes_under_way) == (0, 8 * MEGABYTE)
        for call in (second, third, fourth):
            gate.leave(call)
        assert gate.bytes_under_way == 0

    asyncio.run(run())


def test_a_body_larger_than_the_bound_is_let_in_alone() -> None:
    async def run() -> None:
        queue = Queue()
        queue.size = 50 * MEGABYTE
        gate = admission(queue)
        large, other = caller(), caller()
        assert await enters(gate, large, 64 * MEGABYTE)
        assert not await enters(gate, other, MEGABYTE)
        gate.leave(large)
        # A full queue stops nobody either, but lets in one after the other.
        await WAITING[other]
        assert not await enters(gate, caller(), MEGABYTE)

    asyncio.run(run())


def test_what_waits_for_the_store_takes_room_until_it_is_filed() -> None:
    async def run() -> None:
        queue = Queue()
        gate = admission(queue)
        assert await enters(gate, caller(), MEGABYTE)
        queue.size = 9 * MEGABYTE
        waiting = caller()
        assert not await enters(gate, waiting, MEGABYTE)
        queue.size = 0
        await asyncio.wait_for(WAITING[waiting], 2)

    asyncio.run(run())


def test_a_body_that_waits_too_long_or_whose_call_ends_leaves_its_place() -> None:
    async def run() -> None:
        gate = admission(wait_seconds=0.2)
        first, late, gone, last = caller(), caller(), caller(), caller()
        assert await enters(gate, first, 6 * MEGABYTE)
        assert not await enters(gate, gone, 9 * MEGABYTE)
        WAITING[gone].cancel()
        assert not await enters(gate, late, 9 * MEGABYTE)
        assert not await enters(gate, last, 2 * MEGABYTE)
        with pytest.raises(CallError, match=r"limits\.bytes_under_way") as refused:
            await WAITING[late]
        assert refused.value.error.status == 503
        await asyncio.gather(WAITING[last], WAITING[gone], return_exceptions=True)
        gate.leave(last)
        assert (gate.waiting, gate.bytes_under_way) == (0, 6 * MEGABYTE)

    asyncio.run(run())


def test_a_body_counts_with_the_size_that_it_turned_out_to_have() -> None:
    async def run() -> None:
        gate = admission()
        packed, waiting = caller(), caller()
        assert await enters(gate, packed, 9 * MEGABYTE)
        assert not await enters(gate, waiting, 8 * MEGABYTE)
        gate.correct(packed, MEGABYTE)
        await WAITING[waiting]
        assert gate.bytes_under_way == 9 * MEGABYTE
        gate.leave(packed)
        gate.leave(waiting)
        assert gate.bytes_under_way == 0

    asyncio.run(run())


# --- the gateway -------------------------------------------------------------------------------


def large(model: str, number: int, **more: Any) -> dict[str, Any]:
    return chat(model, ("user", f"{number} " + "word " * 60_000), **more)


def ask_in_chunks(running: Running, body: dict[str, Any]) -> tuple[int, bytes]:
    """Ask with a body that does not say how long it is."""
    data = json.dumps(body).encode()
    pieces = (data[start : start + 20_000] for start in range(0, len(data), 20_000))
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    connection.request("POST", CHAT, pieces, encode_chunked=True)
    answer = connection.getresponse()
    said = answer.status, answer.read()
    connection.close()
    return said


def test_a_request_that_waits_is_not_late_and_small_ones_pass_it(
    upstream: Upstream, tmp_path: Path
) -> None:
    limits = "[limits]\nbytes_under_way = 400000\nbody_seconds = 0.5\n"
    running = Running(tmp_path, limits + rows(upstream.url))
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(ask, running, CHAT, large("chat-pause", number)) for number in (1, 2)]
        unannounced = pool.submit(ask_in_chunks, running, large("chat-pause", 3))
        time.sleep(0.5)
        found = running.metrics()
        assert found["cannery_large_requests_waiting"] == 2
        assert 280_000 < found["cannery_large_request_bytes"] < 400_000
        begun = time.monotonic()
        assert ask(running, CHAT, chat("chat-model", ("user", "Hi")))[0] == 200
        assert time.monotonic() - begun < 1
        assert [call.result()[0] for call in (*calls, unannounced)] == [200, 200, 200]
    assert running.metrics()["cannery_large_request_bytes"] == 0
    assert running.stop() == 0


def test_a_request_that_waits_too_long_is_refused_in_the_dialect_of_its_caller(
    upstream: Upstream, tmp_path: Path
) -> None:
    limits = "[limits]\nbytes_under_way = 400000\nwait_seconds = 0.3\n"
    running = Running(tmp_path, limits + rows(upstream.url), record=False)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, running, CHAT, large("chat-pause", 1))
        time.sleep(0.4)
        status, headers, said = ask(running, "/v1/messages", large("chat-pause", 2, max_tokens=9))
        assert (status, headers["retry-after"]) == (503, "5")
        assert said["type"] == "error"
        assert "limits.bytes_under_way" in said["error"]["message"]
        assert first.result()[0] == 200
    assert running.stop() == 0


REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
    ],
}


class Thinker:
    """An upstream that takes large bodies, thinks and answers, whole or as a stream."""

    def __init__(self) -> None:
        self.port = 0
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    def _run(self, ready: threading.Event) -> None:
        async def serve() -> None:
            server = await asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=200)
            self._server = server
            self.port = server.sockets[0].getsockname()[1]
            ready.set()

        self._loop.run_until_complete(serve())
        self._loop.run_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        left = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        tail = b""
        while left:
            data = await reader.read(min(left, 1 << 16))
            left -= len(data)
            tail = (tail + data)[-100:]
        await asyncio.sleep(0.3)
        body, kind = json.dumps(REPLY).encode(), b"application/json"
        if b"stream" in tail:
            delta = {"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}
            chunk = {**REPLY, "object": "chat.completion.chunk", "choices": [delta]}
            body = b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(chunk).encode()
            kind = b"text/event-stream"
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % (kind, len(body)) + body)
        writer.close()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        if self._server is not None:
            self._server.close()
            self._loop.run_until_complete(self._server.wait_closed())
        self._loop.close()


@pytest.mark.parametrize(
    "path, stream, together, count",
    [(CHAT, False, 50, 50), ("/v1/messages", True, 50, 50), (CHAT, False, 10, 100)],
)
def test_large_requests_at_once_without_a_store_stay_below_200_mb(
    tmp_path: Path, path: str, stream: bool, together: int, count: int
) -> None:
    thinker = Thinker()
    config = f'[[upstreams]]\nname = "slow"\nurl = "http://127.0.0.1:{thinker.port}/v1"\n'
    running = Running(tmp_path, config)
    more: dict[str, Any] = {"max_tokens": 9, **({"stream": True} if stream else {})}

    def send(number: int) -> int:
        text = f"{number} " + f"{number:05x}word " * (4 * MEGABYTE // 10)
        return ask(running, path, chat("m", ("user", text), **more))[0]

    assert send(1000) == 200
    running.settle()
    usual, most = running.rss(), 0
    away = tmp_path / "away"
    running.store.rename(away)
    with ThreadPoolExecutor(together) as pool:
        calls = [pool.submit(send, number) for number in range(count)]
        while not all(call.done() for call in calls):
            most = max(most, running.rss())
            time.sleep(0.02)
        assert {call.result() for call in calls} == {200}
    assert most < 200 * MEGABYTE
    away.rename(running.store)
    running.settle(10)
    deadline = time.monotonic() + 10
    while running.rss() > usual + 80 * MEGABYTE:
        assert time.monotonic() < deadline, "memory does not go back"
        time.sleep(0.1)
    assert running.stop() == 0
    thinker.stop()

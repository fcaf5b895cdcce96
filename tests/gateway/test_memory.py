"""Memory: what a call holds while its upstream thinks, and what becomes of it afterwards."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from cannery.gateway.gateway import Gateway
from cannery.gateway.housekeeping import Housekeeper, find_trim
from cannery.gateway.http1 import Head
from cannery.gateway.logs import Log
from cannery.gateway.recorder import Recorder
from cannery.gateway.settings import parse_settings

BODY = 40_000
CALLS = 40
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
    ],
}


class Caller:
    """A client with one request, whose bytes nobody has but the gateway once it took them."""

    def __init__(self, path: str, text: str, *, stream: bool) -> None:
        self.head = Head("127.0.0.1:1")
        self.head.method, self.head.path, self.head.http_version = "POST", path, "1.1"
        messages = [{"role": "user", "content": text}]
        self._body: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": messages}
        if stream:
            self._body["stream"] = True
        self.head.headers["content-length"] = str(len(json.dumps(self._body)))
        self.status = 0

    async def __call__(self) -> bytes:
        body, self._body = self._body, {}
        return json.dumps(body).encode()

    async def client_disconnect(self) -> None:
        await asyncio.Event().wait()

    def response_bytes(self, status: int, *_: Any) -> None:
        self.status = status

    def response_stream(self, status: int, _: Any) -> Caller:
        self.status = status
        return self

    async def send_bytes(self, _: bytes) -> None:
        """Take what is said."""


class Thinker:
    """An upstream that says the head of a stream, or nothing, until it is told to go on."""

    def __init__(self) -> None:
        self.asked = 0
        self.goes_on = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        is_stream = json.loads(await reader.readexactly(length)).get("stream")
        if is_stream:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        self.asked += 1
        await self.goes_on.wait()
        body = json.dumps(REPLY).encode()
        if not is_stream:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()


async def held_for_each(path: str, folder: Path, *, is_recorded: bool, stream: bool) -> float:
    """How many bytes the gateway holds for a call under way, for each byte of its body."""
    thinker = Thinker()
    server = await asyncio.start_server(thinker.serve, "127.0.0.1", 0, backlog=CALLS)
    port = server.sockets[0].getsockname()[1]
    text = (
        f'[[upstreams]]\nname = "slow"\nurl = "http://127.0.0.1:{port}/v1"\n'
        f'[recording]\nenabled = {str(is_recorded).lower()}\nstore = "{folder}"\n'
    )
    log = Log("error", io.StringIO())
    settings = parse_settings(text)
    recorder = Recorder.of(settings, log)
    gateway = Gateway(settings, log, recorder)
    await recorder.start()

    async def call(number: int) -> int:
        caller = Caller(path, f"{number:04d}" + "x" * BODY, stream=stream)
        await gateway.__rsgi__(caller.head, caller)
        return caller.status

    async def under_way(calls: list[asyncio.Task[int]], count: int) -> None:
        while thinker.asked < count:
            await asyncio.sleep(0.01)
            assert not any(task.done() for task in calls)
        await asyncio.sleep(0.05)
        gc.collect()

    first = [asyncio.create_task(call(0))]
    await under_way(first, 1)
    tracemalloc.start()
    try:
        rest = [asyncio.create_task(call(number)) for number in range(1, CALLS + 1)]
        await under_way(rest, CALLS + 1)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    thinker.goes_on.set()
    assert set(await asyncio.gather(*first, *rest)) == {200}
    await recorder.close()
    server.close()
    return held / CALLS / BODY


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("is_recorded", [False, True], ids=["forgotten", "recorded"])
def test_a_call_under_way_holds_its_bytes_once_and_what_is_recorded_once(
    path: str, stream: bool, is_recorded: bool, tmp_path: Path
) -> None:
    held = asyncio.run(held_for_each(path, tmp_path, is_recorded=is_recorded, stream=stream))
    copies = (0 if stream else 1) + (1 if is_recorded else 0)
    # Connections, tasks and heads take a share that does not depend on the body.
    assert held < copies + 0.8


MEGABYTE = 1 << 20


class Process:
    """A process of some size, of which all that was added since its start can be given back."""

    def __init__(self) -> None:
        self.size = 50 * MEGABYTE
        self.in_use = self.size
        self.is_quiet = True
        self.trims = 0
        self.keeper = Housekeeper(
            lambda: self.is_quiet, resident=lambda: self.size, trim=self._give_back
        )

    def _give_back(self) -> None:
        self.trims += 1
        self.size = self.in_use

    async def start(self) -> None:
        self.keeper.start()
        self.keeper.stop()


def test_free_memory_is_given_back_when_it_is_much_and_nobody_calls() -> None:
    process = Process()
    asyncio.run(process.start())
    process.size += 15 * MEGABYTE
    process.keeper.look()
    assert process.trims == 0
    process.size += 2 * MEGABYTE
    process.is_quiet = False
    process.keeper.look()
    assert process.trims == 0
    process.is_quiet = True
    process.keeper.look()
    assert (process.trims, process.size) == (1, 50 * MEGABYTE)


def test_memory_that_is_needed_is_not_asked_for_again_and_again() -> None:
    process = Process()
    asyncio.run(process.start())
    process.size = process.in_use = 90 * MEGABYTE
    for _ in range(3):
        process.keeper.look()
    assert process.trims == 1
    process.size += 20 * MEGABYTE
    process.keeper.look()
    assert process.trims == 2


def test_pages_between_what_stays_go_back_to_the_system() -> None:
    trim = find_trim()
    if trim is None:
        pytest.skip("needs glibc")
    program = """
from cannery.gateway.housekeeping import find_trim, resident_bytes
before = resident_bytes()
pieces = [(b"x" * (60_000 + number), b"x" * (900 + number)) for number in range(1_000)]
full = resident_bytes()
pieces = [small for _, small in pieces]
find_trim()()
print(full - before, resident_bytes() - before)
"""
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    full, rest = map(int, said.split())
    assert full > 55 * MEGABYTE
    assert rest < full / 3

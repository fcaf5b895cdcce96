"""The load for measuring gateways: a fast upstream, plain or over TLS, and clients on loopback.

Each runs in a process of its own, so that its CPU time is not part of any contender's:

    python bench/load.py upstream PORT [CERTIFICATE]
    python bench/load.py drive PORT CONCURRENCY COUNT [AUTHORITY] < REQUEST
"""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

CHUNKS = 100
GAP_SECONDS = 0.004
# Replaced in a request by a unique number, so that a recorder has new text to write.
MARK = b"@@@@@@@@@@@@"

REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello there, how can I help you today?"},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21},
}


def _sse(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "c-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m"}
    data = b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


class _Upstream(asyncio.Protocol):
    """Answers immediately, or with a chunk every few milliseconds."""

    whole = json.dumps(REPLY).encode()
    answer = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
        % (len(whole), whole)
    )
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    chunks = (
        _sse({"role": "assistant", "content": ""}),
        *(_sse({"content": f"word {number} "}) for number in range(CHUNKS)),
        _sse({}, "stop"),
    )
    end = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, mark, body = self._buffer.partition(b"\r\n\r\n")
        if not mark:
            return
        lower = head.lower()
        at = lower.find(b"content-length:")
        length = int(lower[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(body) < length:
            return
        self._buffer = b""
        if b'"stream":true' in body.replace(b" ", b"")[:2000] + body[-200:].replace(b" ", b""):
            self._transport.write(self.head)
            self._tick(0)
        else:
            self._transport.write(self.answer)

    def _tick(self, number: int) -> None:
        if self._transport.is_closing():
            return
        if number == len(self.chunks):
            self._transport.write(self.end)
            return
        self._transport.write(self.chunks[number])
        asyncio.get_running_loop().call_later(GAP_SECONDS, self._tick, number + 1)


async def run_upstream(port: int, certificate: Path | None = None) -> None:
    """Serve until the process is stopped."""
    secured = None
    if certificate:
        secured = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        secured.load_cert_chain(certificate)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Upstream, "127.0.0.1", port, backlog=1024, ssl=secured)
    await server.serve_forever()


_NUMBERS = itertools.count(time.time_ns() % 10**11)


class _Client(asyncio.Protocol):
    """Sends the same request repeatedly on one connection, and measures the time of each."""

    def __init__(
        self, port: int, request: bytes, count: int, times: list[float], done: asyncio.Future[None]
    ) -> None:
        self._port, self._request, self._left, self._times = port, request, count, times
        self._done = done
        self._is_moving = False
        self._length = -1
        self._size = 0
        self._tail = b""
        self.chunks = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._started = time.perf_counter()
        self._length, self._size, self._tail, self._head = -1, 0, b"", b""
        self._transport.write(self._request.replace(MARK, b"%012d" % next(_NUMBERS)))

    def data_received(self, data: bytes) -> None:
        if self._length == -1:
            self._head += data
            head, mark, rest = self._head.partition(b"\r\n\r\n")
            if not mark:
                return
            assert b" 200 " in head[:20], head[:200] + rest[:300]
            lower = head.lower()
            at = lower.find(b"content-length:")
            self._length = int(lower[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else -2
            data = rest
        self._size += len(data)
        self.chunks += data.count(b"data:")
        self._tail = (self._tail + data)[-8:]
        if self._size == self._length or (self._length == -2 and self._tail.endswith(b"0\r\n\r\n")):
            self._over()

    def _over(self) -> None:
        self._times.append(time.perf_counter() - self._started)
        self._left -= 1
        if self._left and b"connection: close" in self._head.lower():
            # Some servers close after every answer; the next request then needs a new connection.
            self._is_moving = True
            self._transport.close()
        elif self._left:
            self._send()
        else:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_moving:
            self._is_moving = False
            loop = asyncio.get_running_loop()
            again = loop.create_connection(lambda: self, "127.0.0.1", self._port)
            self._task = loop.create_task(again)
        elif not self._done.done():
            self._done.set_exception(error or ConnectionError("hung up on"))


async def _drive(
    port: int, request: bytes, concurrency: int, count: int, authority: Path | None
) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    secured: dict[str, Any] = {}
    if authority:
        context = ssl.create_default_context(cafile=authority)
        secured = {"ssl": context, "server_hostname": "localhost"}
    times: list[float] = []
    clients = []
    waiting = []
    for _ in range(concurrency):
        done = loop.create_future()
        make = partial(_Client, port, request, count, times, done)
        _, client = await loop.create_connection(make, "127.0.0.1", port, **secured)
        clients.append(client)
        waiting.append(done)
    await asyncio.gather(*waiting)
    times.sort()
    return {
        "count": len(times),
        "p50": times[len(times) // 2],
        "p99": times[int(len(times) * 0.99)],
        "chunks": sum(client.chunks for client in clients),
    }


def drive(
    port: int, request: bytes, concurrency: int, total: int, authority: Path | None = None
) -> dict[str, Any]:
    """Send a number of requests from a process of its own; over TLS if an authority is given."""
    count = max(1, total // concurrency)
    command = [sys.executable, __file__, "drive", str(port), str(concurrency), str(count)]
    command += [str(authority)] if authority else []
    done = subprocess.run(command, input=request, capture_output=True, check=False, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr.decode()[-1500:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def request_of(
    path: str, size: int, kind: str = "request", headers: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """The bytes of a request with a body of some size; fresh ones and streams have new text."""
    is_messages = path.endswith("messages")
    said = ("" if kind == "request" else MARK.decode()) + "x" * (size - 150)
    messages: list[dict[str, str]] = [{"role": "user", "content": said}]
    stream = kind == "chunk"
    body: dict[str, Any] = {"model": "m", "stream": stream, "max_tokens": 100, "messages": messages}
    if is_messages:
        headers = {**headers, "anthropic-version": "2023-06-01"}
        body["system"] = "You are helpful."
    else:
        messages.insert(0, {"role": "system", "content": "You are helpful."})
    data = json.dumps(body, separators=(",", ":")).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer sk-bench\r\ncontent-length: {len(data)}\r\n"
    ) + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return head.encode() + b"\r\n" + data


def main(arguments: list[str]) -> None:
    """Run the upstream or the clients."""
    import uvloop

    what, port, *rest = arguments
    if what == "upstream":
        uvloop.run(run_upstream(int(port), Path(rest[0]) if rest else None))
    else:
        wide, many = map(int, rest[:2])
        authority = Path(rest[2]) if rest[2:] else None
        request = sys.stdin.buffer.read()
        print(json.dumps(uvloop.run(_drive(int(port), request, wide, many, authority))))


if __name__ == "__main__":
    main(sys.argv[1:])

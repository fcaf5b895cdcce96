"""The gateway beside a bare reverse proxy and its peers, all on the same fast upstream, on loopback only.

Measured is the CPU time of the contender's processes (from /proc), never the clock of the machine:
per request at 1 KB and 32 KB and concurrency 1, 32 and 256, per request that says something new ("fresh": all
others send one body again and again, which a recorder recognises), and per streamed chunk; printed are
medians of the ratios to nginx in the same round, the latency that is added to the upstream's own, and
resident memory. Contenders take turns in each round. nginx comes from Debian; litellm and llm-rosetta
are measured when their environments are built, or their interpreters named with ``--litellm`` and ``--rosetta``.

    python bench/gateway.py [--quick] [--json FILE]

litellm passes Chat through in its own dialect: its route for Anthropic's clients asks an OpenAI upstream for Responses,
which this upstream does not speak. llm-rosetta translates from Anthropic's dialect, as we do when translating.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import environments
import results
from timing import spread

CHUNKS = 100
GAP_SECONDS = 0.004
# Stands in a request for a number that no other request has, so that a recorder has something new to write.
MARK = b"@@@@@@@@@@@@"
GOALS = {"pass": 5.0, "translate": 10.0, "chunk": 4.0, "memory": 120}
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

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


# --- the upstream -------------------------------------------------------------------------------


def _sse(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "c-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m"}
    data = b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


class _Upstream(asyncio.Protocol):
    """Answers at once, or with a chunk every few milliseconds."""

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


async def run_upstream(port: int) -> None:
    """Serve until somebody ends the process."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Upstream, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


# --- the clients --------------------------------------------------------------------------------


_NUMBERS = itertools.count(time.time_ns() % 10**11)


class _Client(asyncio.Protocol):
    """Sends the same request again and again on one connection, and takes the time of each."""

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
            # Some close after every answer; the next request then needs a connection of its own.
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


async def _drive(port: int, request: bytes, concurrency: int, count: int) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    times: list[float] = []
    clients = []
    waiting = []
    for _ in range(concurrency):
        done = loop.create_future()
        make = partial(_Client, port, request, count, times, done)
        _, client = await loop.create_connection(make, "127.0.0.1", port)
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


def drive(port: int, request: bytes, concurrency: int, total: int) -> dict[str, Any]:
    """Send a number of requests from a process of its own."""
    count = max(1, total // concurrency)
    command = [sys.executable, __file__, "--drive", str(port), str(concurrency), str(count)]
    done = subprocess.run(command, input=request, capture_output=True, check=False, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr.decode()[-1500:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def request_of(path: str, size: int, kind: str = "request") -> bytes:
    """The bytes of a request with a body of some size; a fresh one says what nobody said before."""
    is_messages = path.endswith("messages")
    said = (MARK.decode() if kind == "fresh" else "") + "x" * (size - 150)
    messages: list[dict[str, str]] = [{"role": "user", "content": said}]
    stream = kind == "chunk"
    body: dict[str, Any] = {"model": "m", "stream": stream, "max_tokens": 100, "messages": messages}
    if is_messages:
        body["system"] = "You are helpful."
    else:
        messages.insert(0, {"role": "system", "content": "You are helpful."})
    data = json.dumps(body, separators=(",", ":")).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer sk-bench\r\nanthropic-version: 2023-06-01\r\ncontent-length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


# --- the contenders -----------------------------------------------------------------------------


class Contender(NamedTuple):
    """A running proxy: its process, its port, and what it is asked."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    path: str

    @property
    def is_fast(self) -> bool:
        """Whether it can take the full number of requests."""
        return self.name == "nginx" or self.name.startswith("cannery")


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _tree(int(child))


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process and its children, in nanoseconds' detail where the kernel keeps it."""
    return sum(_precise(each) or _ticks(each) for each in _tree(pid))


def _precise(pid: int) -> float:
    """What the scheduler counted for every thread; 0 if this kernel does not tell."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    except OSError:
        return 0


def _ticks(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def resident_megabytes(pid: int) -> int:
    """The resident memory of a process and its children."""
    return (
        sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) * PAGE for each in _tree(pid))
        >> 20
    )


@contextmanager
def _started(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environments.quiet(),
    )
    try:
        _await_port(process, port)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def _await_port(process: subprocess.Popen[bytes], port: int) -> None:
    import socket

    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert process.poll() is None, "a contender did not start"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("a contender takes too long to start")


def _nginx(folder: Path, port: int, upstream: int) -> list[str]:
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/errors;"
        "events { worker_connections 4096; }"
        f"http {{ access_log off; {temporary} keepalive_requests 1000000000;"
        f"upstream u {{ server 127.0.0.1:{upstream}; keepalive 512; keepalive_requests 1000000000; }}"
        f"server {{ listen 127.0.0.1:{port} backlog=4096; client_max_body_size 64m; client_body_buffer_size 1m;"
        "location / { proxy_pass http://u; proxy_http_version 1.1; proxy_buffering off;"
        'proxy_set_header Connection ""; } } }'
    )
    return [environments.nginx() or "nginx", "-c", str(folder / "nginx.conf")]


def _cannery(folder: Path, name: str, port: int, upstream: int, *, record: bool) -> list[str]:
    config = folder / f"{name}.toml"
    config.write_text(f'[[upstreams]]\nname = "fake"\nurl = "http://127.0.0.1:{upstream}/v1"\n')
    command = [
        sys.executable,
        "-m",
        "cannery.gateway",
        "--port",
        str(port),
        "--config",
        str(config),
    ]
    command += ["--log-level", "warning"]
    return command + (["--store", str(folder / f"{name}-store")] if record else ["--no-record"])


def _litellm(folder: Path, python: str, port: int, upstream: int) -> list[str]:
    config = folder / "litellm.yaml"
    config.write_text(
        "model_list:\n  - model_name: m\n    litellm_params:\n      model: openai/m\n"
        f"      api_base: http://127.0.0.1:{upstream}/v1\n      api_key: sk-x\n"
        "litellm_settings:\n  telemetry: false\n"
    )
    binary = str(Path(python).parent / "litellm")
    return [binary, "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]


def _rosetta(folder: Path, python: str, port: int, upstream: int) -> list[str]:
    config = folder / "rosetta.json"
    provider = {
        "api_key": "sk-x",
        "base_url": f"http://127.0.0.1:{upstream}/v1",
        "type": "openai_chat",
    }
    config.write_text(
        json.dumps(
            {
                "providers": {"fake": provider},
                "models": {"m": "fake"},
                "server": {"host": "127.0.0.1", "port": port, "open_on_no_keys": True},
            }
        )
    )
    binary = str(Path(python).parent / "llm-rosetta-gateway")
    return [binary, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]


# --- the measurements ---------------------------------------------------------------------------


class Setting(NamedTuple):
    """What is asked of every contender in turn."""

    kind: str
    size: int
    concurrency: int
    total: int


class Result(NamedTuple):
    """One contender in one setting."""

    cpu: float
    latency: tuple[float, float]


def measure(contender: Contender, request: bytes, concurrency: int, total: int, per: str) -> Result:
    """CPU seconds for each request or chunk, and latency."""
    before = cpu_seconds(contender.process.pid)
    found = drive(contender.port, request, concurrency, total)
    if "recording" in contender.name:
        # What is filed behind the reply's back is part of the price.
        _await_filing(contender.port)
    spent = cpu_seconds(contender.process.pid) - before
    return Result(spent / found[per], (found["p50"], found["p99"]))


def _await_filing(port: int) -> None:
    """Wait until a gateway has filed everything, however far behind it is."""
    waiting = b"cannery_recording_queue 0\n"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        time.sleep(0.3)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            if waiting in answer.read():
                return
    raise TimeoutError("the recorder does not get done")


def compare(
    contenders: list[Contender],
    settings: list[Setting],
    upstream: int,
    *,
    rounds: int,
    peer_rounds: int,
) -> Iterator[results.Row]:
    """Measure all contenders in all settings, in turns; the slow peers in the first rounds only."""
    for setting in settings:
        kind, size, concurrency, total = setting
        per = "chunks" if kind == "chunk" else "count"
        found: dict[str, list[Result]] = {contender.name: [] for contender in contenders}
        own: list[tuple[float, float]] = []
        for turn in range(rounds):
            # Peers record nothing: what is said is all the same to them.
            with_peers = turn < peer_rounds and kind != "fresh"
            taking_part = [c for c in contenders if with_peers or c.is_fast]
            direct = request_of("/v1/chat/completions", size, kind)
            alone = drive(upstream, direct, concurrency, max(concurrency, total // 4))
            own.append((alone["p50"], alone["p99"]))
            for contender in taking_part if turn % 2 else reversed(taking_part):
                request = request_of(contender.path, size, kind)
                share = total if contender.is_fast else total // 10
                result = measure(contender, request, concurrency, max(concurrency, share), per)
                found[contender.name].append(result)
        yield from _rows(setting, found, own)


def _rows(
    setting: Setting, found: dict[str, list[Result]], own: list[tuple[float, float]]
) -> Iterator[results.Row]:
    base = [result.cpu for result in found["nginx"]]
    direct = tuple(statistics.median(pair[index] for pair in own) for index in (0, 1))
    for name, taken in found.items():
        if not taken:
            continue
        cpu = statistics.median(result.cpu for result in taken)
        ratios = [result.cpu / floor for result, floor in zip(taken, base, strict=False)]
        added = [
            (statistics.median(result.latency[index] for result in taken) - direct[index]) * 1000
            for index in (0, 1)
        ]
        yield {
            "contender": name,
            "kind": setting.kind,
            "size": setting.size,
            "concurrency": setting.concurrency,
            **spread(ratios),
            "microseconds": round(cpu * 1e6, 2),
            "per_cpu_second": round(1 / cpu),
            "added_p50_ms": round(added[0], 3),
            "added_p99_ms": round(added[1], 3),
        }


def show(row: results.Row) -> None:
    """One row; a line above it where a setting begins."""
    if row["kind"] == "memory":
        print(f"{row['contender']:32} {row['megabytes']:8} MB resident", flush=True)
        return
    if row["contender"] == "nginx":
        print(f"\n{row['kind']}, {row['size']} bytes, concurrency {row['concurrency']}")
        print(
            f"{'':32}{'µs CPU':>12}{'× nginx':>10}{'per CPU s':>12}{'+p50 ms':>10}{'+p99 ms':>10}"
        )
    print(
        f"{row['contender']:32}{row['microseconds']:12.1f}{row['median']:10.2f}"
        f"{row['per_cpu_second']:12,}{row['added_p50_ms']:10.2f}{row['added_p99_ms']:10.2f}",
        flush=True,
    )


def _own_folder() -> tempfile.TemporaryDirectory[str]:
    """A place for stores where nobody has just deleted anything.

    Linux puts off using an inode again for minutes after it was deleted where ext4 has no journal, and looks at each of
    them for every new file: beside the leavings of tests a file costs 1,000 µs of CPU instead of 30.
    """
    environments.ENVIRONMENTS.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="gateway-", dir=environments.ENVIRONMENTS)


Launch = Callable[[Path, int, int], list[str]]


def contenders_of(options: argparse.Namespace) -> list[tuple[str, str, Launch]]:
    """What is compared: a name, the path that is asked, and how it is started."""
    chat, messages = "/v1/chat/completions", "/v1/messages"
    listed: list[tuple[str, str, Launch]] = [
        ("nginx", chat, _nginx),
        ("cannery, passing", chat, lambda f, p, u: _cannery(f, "pass", p, u, record=False)),
        (
            "cannery, passing, recording",
            chat,
            lambda f, p, u: _cannery(f, "passrec", p, u, record=True),
        ),
        (
            "cannery, translating",
            messages,
            lambda f, p, u: _cannery(f, "trans", p, u, record=False),
        ),
        (
            "cannery, translating, recording",
            messages,
            lambda f, p, u: _cannery(f, "transrec", p, u, record=True),
        ),
    ]
    if options.rosetta:
        listed.append(("llm-rosetta", messages, lambda f, p, u: _rosetta(f, options.rosetta, p, u)))
    if options.litellm:
        listed.append(
            ("litellm, same dialect", chat, lambda f, p, u: _litellm(f, options.litellm, p, u))
        )
    return listed


def settings_of(scale: int) -> list[Setting]:
    """1 KB and 32 KB, one at a time, 32 and 256 at once, and streams."""
    return [
        Setting("request", 1024, 1, 120 * scale),
        Setting("request", 1024, 32, 640 * scale),
        Setting("request", 1024, 256, 768 * scale),
        Setting("request", 32768, 1, 100 * scale),
        Setting("request", 32768, 32, 320 * scale),
        Setting("request", 32768, 256, 512 * scale),
        Setting("fresh", 1024, 32, 640 * scale),
        Setting("chunk", 1024, 24, 24 * scale),
    ]


def main(options: argparse.Namespace) -> int:
    """Compare, and print the tables."""
    if not environments.nginx():
        print("nginx is not installed: `scripts/bench gateway` does it", file=sys.stderr)
        return 1
    for name in ("litellm", "llm_rosetta"):
        option = name.removeprefix("llm_")
        if getattr(options, option) is None and (python := environments.python_of(name)):
            setattr(options, option, str(python))
    port = options.port
    contenders = ["cannery", "litellm", "llm_rosetta"]
    recording = results.Recording("gateway", quick=options.quick, contenders=contenders)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(_own_folder()))
        command = [sys.executable, __file__, "--upstream", str(port)]
        stack.enter_context(_started(command, port))
        running: list[Contender] = []
        for number, (name, path, launch) in enumerate(contenders_of(options), 1):
            where = port + number
            process = stack.enter_context(_started(launch(folder, where, port), where))
            drive(where, request_of(path, 1024), 8, 64)
            running.append(Contender(name, process, where, path))
        rounds, peer_rounds, scale = (2, 1, 1) if options.quick else (7, 3, 4)
        settings = settings_of(scale)
        for row in compare(running, settings, port, rounds=rounds, peer_rounds=peer_rounds):
            show(recording.add(**row))
        print()
        for contender in running:
            megabytes = resident_megabytes(contender.process.pid)
            show(recording.add(contender=contender.name, kind="memory", megabytes=megabytes))
    print(f"\ngoals: {GOALS}")
    if options.json:
        recording.write(options.json)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, fewer requests")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--port", type=int, default=18080, help="the first of a row of free ports")
    parser.add_argument(
        "--litellm", metavar="PYTHON", help="an interpreter that has litellm[proxy]"
    )
    parser.add_argument("--rosetta", metavar="PYTHON", help="an interpreter that has llm-rosetta")
    parser.add_argument("--upstream", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--drive", type=int, nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    import uvloop

    chosen = _arguments()
    if chosen.upstream:
        uvloop.run(run_upstream(chosen.upstream))
    elif chosen.drive:
        where, wide, many = chosen.drive
        print(json.dumps(uvloop.run(_drive(where, sys.stdin.buffer.read(), wide, many))))
    else:
        sys.exit(main(chosen))

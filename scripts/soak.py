"""Run a gateway for a long time under load and faults, and check everything that it logs.

Many clients of three dialects have growing conversations, streamed or not, with an upstream that refuses, fails, hangs,
breaks off and sends invalid answers, while some clients hang up. At the end all acknowledged exchanges must be in the
store, the store must be sound, connections and memory must be released, and every line of the log must be explained by
a fault.

    python scripts/soak.py                                # 20 minutes, 256 clients
    python scripts/soak.py --minutes 1 --clients 64       # a short run
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import wreq

from cannery.dialects import find_dialect
from cannery.gateway import echo
from cannery.messages import Request, unfold
from cannery.storage import open_store
from cannery.translation import nativize_response, normalize_request
from cannery.wire.contract import StreamOptions

# The behaviour of the upstream, by the last word of a model's name, with the weight of each in requests.
BEHAVIOURS = {
    "plain": 80,
    "slow": 6,
    "cut": 3,
    "reset": 3,
    "busy": 3,
    "broken": 3,
    "nonsense": 2,
}
# The statuses that a client may receive for each of them.
EXPECTED = {
    "plain": {200},
    "slow": {200},
    "cut": {200, 502},
    "reset": {502},
    "busy": {429},
    "broken": {500, 502, 503},
    "nonsense": {502},
}
# Log lines above info that the faults of this script explain.
EXPLAINED = {"exchange", "upstream_failed", "client_left", "fallback"}
UPSTREAMS = {"chat": "openai_chat", "anthropic": "anthropic_messages", "gemini": "gemini_generate"}
HANG_UPS = 0.02
# How many connections and files may remain open, and for how many seconds idle ones are kept.
FEW, PATIENCE = 256, 150
# The loop, upstreams, recorder, look-ups, and a small pool that reads prices and files.
MOST_THREADS = 16
TURNS = 6


# --- the upstream ------------------------------------------------------------------------------


class Upstream:
    """Answers in three dialects, with the behaviour named by the model."""

    def __init__(self) -> None:
        self.server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen, and return the address."""
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=1024)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self.answer(reader, writer):
                pass
        writer.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection can be reused."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = head.split("\r\n")
        path = lines[0].split()[1]
        length = next(
            int(line[15:]) for line in lines if line.lower().startswith("content-length:")
        )
        body = await reader.readexactly(length)
        dialect = next((name for mark, name in _PATHS.items() if mark in path), "gemini_generate")
        request = normalize_request(body, dialect)
        model = request.model if isinstance(request.model, str) else path
        behaviour = next((word for word in BEHAVIOURS if f"-{word}" in model), "plain")
        is_stream = request.stream is True or "stream" in path.lower()
        answered: bool = await getattr(self, f"do_{behaviour}")(writer, dialect, request, is_stream)
        return answered

    async def do_plain(
        self,
        writer: asyncio.StreamWriter,
        dialect: str,
        request: Request,
        is_stream: bool,  # noqa: FBT001 - of the request
    ) -> bool:
        """Answer immediately."""
        return await self.speak(writer, dialect, request, is_stream, 0.0, None)

    async def do_slow(
        self,
        writer: asyncio.StreamWriter,
        dialect: str,
        request: Request,
        is_stream: bool,  # noqa: FBT001 - of the request
    ) -> bool:
        """Answer word by word."""
        return await self.speak(writer, dialect, request, is_stream, 0.2, None)

    async def do_cut(
        self,
        writer: asyncio.StreamWriter,
        dialect: str,
        request: Request,
        is_stream: bool,  # noqa: FBT001 - of the request
    ) -> bool:
        """Break off the answer."""
        return await self.speak(writer, dialect, request, is_stream, 0.0, 2)

    async def do_reset(self, writer: asyncio.StreamWriter, *_: Any) -> bool:
        """Close the connection without an answer."""
        writer.transport.abort()
        return False

    async def do_busy(self, writer: asyncio.StreamWriter, *_: Any) -> bool:
        """Refuse temporarily."""
        return await self.whole(writer, 429, b'{"error": {"message": "too many requests"}}')

    async def do_broken(self, writer: asyncio.StreamWriter, *_: Any) -> bool:
        """Fail with an internal error."""
        return await self.whole(writer, 500, b'{"error": {"message": "out of order"}}')

    async def do_nonsense(self, writer: asyncio.StreamWriter, *_: Any) -> bool:
        """Send an invalid answer."""
        return await self.whole(writer, 200, b"<html>not what you asked for</html>")

    async def whole(self, writer: asyncio.StreamWriter, status: int, body: bytes) -> bool:
        """Send one body."""
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        writer.write(head.encode() + b"\r\n" + body)
        await writer.drain()
        return True

    async def speak(
        self,
        writer: asyncio.StreamWriter,
        dialect: str,
        request: Request,
        is_stream: bool,  # noqa: FBT001 - of the request
        pause: float,
        parts: int | None,
    ) -> bool:
        """Echo a request, with pauses, and only the first ``parts`` parts of it."""
        response = echo.answer(request)
        if not is_stream:
            await asyncio.sleep(pause)
            body = nativize_response(response, dialect).body
            if parts is None:
                return await self.whole(writer, 200, body)
            head = f"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body[: len(body) // 2])
            await writer.drain()
            writer.transport.abort()
            return False
        writer.write(
            b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        made = find_dialect(dialect).stream_writer(StreamOptions(include_usage=True))
        chunks = [made.write(event) for event in unfold(response)] + [made.close()]
        for number, chunk in enumerate(chunk for chunk in chunks if chunk):
            if number == parts:
                writer.transport.abort()
                return False
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
            await asyncio.sleep(pause)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


_PATHS = {"/chat/completions": "openai_chat", "/messages": "anthropic_messages"}


# --- clients -----------------------------------------------------------------------------------


class Soak:
    """The clients, and their results."""

    def __init__(self, url: str, until: float, pause: float) -> None:
        self.url, self.until, self.pause = url, until, pause
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.surprises: list[str] = []
        self.acknowledged: list[tuple[str, str]] = []
        self.hang_ups = 0

    async def client(self, number: int) -> None:
        """Run one client: conversations of a few turns, one after the other."""
        rng = random.Random(number)  # noqa: S311 - the same traffic in every run
        http = wreq.Client()
        while time.monotonic() < self.until:
            await self.conversation(http, rng, number)

    async def conversation(self, http: Any, rng: random.Random, number: int) -> None:
        """Run one conversation, which grows while it is answered."""
        kind = rng.choice(["chat", "messages"])
        history: list[dict[str, Any]] = []
        for turn in range(rng.randint(1, TURNS)):
            if time.monotonic() > self.until:
                return
            await asyncio.sleep(rng.expovariate(1 / self.pause))
            words = f"client {number} says {rng.getrandbits(64):x} on turn {turn}"
            behaviour = rng.choices([*BEHAVIOURS], [*BEHAVIOURS.values()])[0]
            model = f"{rng.choice([*UPSTREAMS])}-{behaviour}"
            body: dict[str, Any] = {
                "model": model,
                "max_tokens": 100,
                "messages": [*history, {"role": "user", "content": words}],
                "stream": rng.random() < 0.5,
            }
            answer = await self.ask(http, kind, body, behaviour, leaves=rng.random() < HANG_UPS)
            if answer is None:
                return
            history = [*body["messages"], {"role": "assistant", "content": answer}]

    async def ask(
        self, http: Any, kind: str, body: dict[str, Any], behaviour: str, *, leaves: bool
    ) -> str | None:
        """Send one request; return the answer, or None for a refusal, a broken stream or a client that left."""
        path = "/v1/chat/completions" if kind == "chat" else "/v1/messages"
        headers = {"content-type": "application/json"}
        try:
            reply = await http.post(self.url + path, body=json.dumps(body), headers=headers)
            status = int(str(reply.status).split()[0])
            if leaves:
                self.hang_ups += 1
                await reply.close()
                return None
            data = bytes(await reply.bytes())
        except Exception as error:  # noqa: BLE001 - any error of a client is checked
            if behaviour != "cut":
                self.surprises.append(f"{behaviour}: {type(error).__name__}: {error}")
            return None
        self.statuses[behaviour, status] += 1
        if status not in EXPECTED[behaviour]:
            self.surprises.append(f"{behaviour}: status {status}: {data[:200]!r}")
        words = body["messages"][-1]["content"]
        if status != 200 or behaviour == "cut":
            return None
        if words.encode() not in _joined(data, is_stream=body["stream"]):
            self.surprises.append(f"{behaviour}: no echo of {words!r} in {data[-300:]!r}")
            return None
        self.acknowledged.append((reply_header(reply), words))
        return f"echo: {words}"


def _joined(data: bytes, *, is_stream: bool) -> bytes:
    """The text of an answer; for a stream, its deltas concatenated."""
    if not is_stream:
        return data
    texts = []
    for line in data.split(b"\n"):
        if line.startswith(b"data: {"):
            value = json.loads(line[6:])
            texts += [
                str(choice["delta"].get("content") or "") for choice in value.get("choices", ())
            ]
            texts.append(str(value.get("delta", {}).get("text", "")))
    return "".join(texts).encode()


def reply_header(reply: Any) -> str:
    """The conversation in which an exchange was recorded."""
    found = reply.headers.get("x-cannery-conversation")
    return "" if found is None else bytes(found).decode() if not isinstance(found, str) else found


# --- the gateway -------------------------------------------------------------------------------


class Gateway:
    """The gateway under test, in a process of its own."""

    def __init__(self, folder: Path, upstream: str) -> None:
        self.store = folder / "store"
        self.log_path = folder / "log.jsonl"
        config = folder / "gateway.toml"
        config.write_text(
            "".join(
                f'[[upstreams]]\nname = "{name}"\ndialect = "{dialect}"\nurl = "{upstream}"\n'
                f'key_variable = "SOAK_KEY"\nmodels = ["{name}-*"]\n\n'
                for name, dialect in UPSTREAMS.items()
            )
            + '[recording]\nacknowledge = "durable"\n'
        )
        command = [sys.executable, "-m", "cannery.gateway", "--port", "0", "--config", str(config)]
        environment = {**os.environ, "SOAK_KEY": "not-a-key"}
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--store", str(self.store)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        printed = self.process.stdout or ()
        line = next(line for line in printed if "http://" in line)
        self.url = "http://" + line.partition("http://")[2].split()[0]

    def files(self) -> int:
        """The number of its open files and connections."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def threads(self) -> int:
        """The number of its threads."""
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def memory(self) -> float:
        """Its resident memory in megabytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def stop(self) -> int:
        """Stop it, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def lines(self) -> list[dict[str, Any]]:
        """All lines of its log."""
        return [json.loads(line) for line in self.log_path.read_text().splitlines() if line]


async def run(options: argparse.Namespace, folder: Path) -> int:
    """Run the load, and check the results."""
    gateway = Gateway(folder, await Upstream().start())
    soak = Soak(
        gateway.url, time.monotonic() + options.minutes * 60, options.clients / options.rate
    )
    before = gateway.files()
    watching = asyncio.create_task(watch(gateway, soak))
    await asyncio.gather(*(soak.client(number) for number in range(options.clients)))
    watching.cancel()
    after = await settle(gateway, before + FEW)
    memory, threads = gateway.memory(), gateway.threads()
    problems = [*soak.surprises]
    if after > before + FEW:
        problems.append(f"{after} files are open, {before} were at the beginning")
    if threads > MOST_THREADS:
        problems.append(f"{threads} threads are running")
    if memory > options.most:
        problems.append(f"{memory:.0f} MB are in use")
    code = gateway.stop()
    if code:
        problems.append(f"the gateway ended with {code}")
    problems += judge_log(gateway.lines())
    problems += judge_store(gateway.store, soak.acknowledged)
    asked = sum(soak.statuses.values())
    print(
        f"{asked:,} requests, {len(soak.acknowledged):,} acknowledged, {soak.hang_ups:,} hang-ups"
    )
    for (behaviour, status), count in sorted(soak.statuses.items()):
        print(f"  {behaviour:9} {status}  {count:,}")
    print(f"files {before} -> {after}, threads {threads}, memory {memory:.0f} MB")
    for problem in problems[:40]:
        print(f"PROBLEM {problem}")
    print(f"{len(problems)} problems")
    return 1 if problems else 0


async def settle(gateway: Gateway, few: int) -> int:
    """Wait until idle connections are closed; return the number of open files."""
    for _ in range(PATIENCE):
        if gateway.files() <= few:
            break
        await asyncio.sleep(1)
    return gateway.files()


async def watch(gateway: Gateway, soak: Soak) -> None:
    """Print the progress once a minute."""
    while True:
        await asyncio.sleep(60)
        asked = sum(soak.statuses.values())
        used = f"{gateway.files()} files, {gateway.threads()} threads, {gateway.memory():.0f} MB"
        print(f"{asked:,} requests, {used}", flush=True)


def judge_log(lines: list[dict[str, Any]]) -> list[str]:
    """Log lines that no fault of this script explains."""
    grave = [line for line in lines if line.get("level") in ("warning", "error", "critical")]
    counted = Counter((line.get("level"), line.get("event")) for line in grave)
    print(
        "log:", ", ".join(f"{level} {event} {count:,}" for (level, event), count in counted.items())
    )
    return [
        f"logged: {json.dumps(line)[:400]}" for line in grave if line.get("event") not in EXPLAINED
    ]


def judge_store(place: Path, acknowledged: list[tuple[str, str]]) -> list[str]:
    """Acknowledged exchanges that are missing from the store, and all damage of the store."""
    problems = []
    with open_store(str(place)) as store:
        texts: dict[str, str] = {}
        for identifier, words in acknowledged:
            if identifier not in texts:
                held = store.get(identifier).hydrate() if identifier else ()
                texts[identifier] = "\n".join(getattr(canister, "text", "") for canister in held)
            if words not in texts[identifier]:
                problems.append(f"{words!r} is not in conversation {identifier!r}")
        report = store.verify()
        problems += [f"the store: {damage}" for damage in report.damages]
        print(f"store: {report.conversations:,} conversations, {report.messages:,} messages")
    return problems


def main() -> int:
    """Run with the options given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--rate", type=float, default=100, help="requests a second, of all clients")
    parser.add_argument("--most", type=float, default=200, help="megabytes of memory at the end")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(run(options, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())

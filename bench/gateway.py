"""The gateway beside a bare reverse proxy and other gateways, all with the same fast upstream, on loopback only.

    python bench/gateway.py [--quick] [--json FILE] [--before ANOTHER_CHECKOUT/src]

Measured is the CPU time of the contender's processes (from /proc), not wall-clock time: per request at 1 KB and 32 KB
and concurrency 1, 32 and 256, per request with new text ("fresh": all others send one body repeatedly, which a recorder
recognises), and per streamed chunk, where each request has new text too. Printed are medians of the ratios to nginx in
the same round, the latency added to the upstream's own, and resident memory. Contenders take turns in each round. All
settings are measured with a plain upstream, and those with concurrency 32 and the streams again with an upstream over
TLS, where nginx verifies the certificate and keeps its connections too. nginx comes from Debian; litellm, llm-rosetta
and Portkey's gateway are measured when their environments are built.

litellm passes Chat through in its own dialect: its route for Anthropic's clients requests Responses from an OpenAI
upstream, which this upstream does not support. Portkey's gateway does the same, without streams, which fail in it.
llm-rosetta translates from Anthropic's dialect, as Cannery does when translating.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import environments
import load
import results
import trustme
from load import drive, request_of
from proxies import (
    Contender,
    Place,
    Proxy,
    Upstream,
    cpu_seconds,
    proxies,
    resident_megabytes,
    started,
)
from timing import spread


class Setting(NamedTuple):
    """The requests sent to every contender in turn."""

    kind: str
    size: int
    concurrency: int
    total: int


class Result(NamedTuple):
    """The result of one contender in one setting."""

    cpu: float
    latency: tuple[float, float]


def measure(contender: Contender, request: bytes, concurrency: int, total: int, per: str) -> Result:
    """CPU seconds per request or chunk, and latency."""
    before = cpu_seconds(contender.process.pid)
    found = drive(contender.port, request, concurrency, total)
    if "recording" in contender.name:
        # Recording after the reply is part of the cost.
        _await_filing(contender.port)
    spent = cpu_seconds(contender.process.pid) - before
    return Result(spent / found[per], (found["p50"], found["p99"]))


def _await_filing(port: int) -> None:
    """Wait until a gateway has filed every exchange."""
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
    upstream: Upstream,
    *,
    rounds: int,
    peer_rounds: int,
) -> Iterator[results.Row]:
    """Measure all contenders in all settings, in turns; slow peers in the first rounds only."""
    for setting in settings:
        kind, size, concurrency, total = setting
        per = "chunks" if kind == "chunk" else "count"
        found: dict[str, list[Result]] = {contender.name: [] for contender in contenders}
        own: list[tuple[float, float]] = []
        for turn in range(rounds):
            # Peers record nothing, so fresh requests make no difference to them.
            with_peers = turn < peer_rounds and kind != "fresh"
            taking_part = [
                each
                for each in contenders
                if (with_peers or each.is_fast) and (kind != "chunk" or each.streams)
            ]
            direct = request_of("/v1/chat/completions", size, kind)
            share = max(concurrency, total // 4)
            alone = drive(upstream.port, direct, concurrency, share, upstream.authority)
            own.append((alone["p50"], alone["p99"]))
            for contender in taking_part if turn % 2 else reversed(taking_part):
                request = request_of(contender.path, size, kind, contender.headers)
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
    """Print one row; the first of a setting has a header."""
    if row["kind"] == "memory":
        print(f"{row['contender']:32} {row['megabytes']:8} MB resident", flush=True)
        return
    if row["contender"] == "nginx":
        print(
            f"\n{row['kind']}, {row['size']} bytes, concurrency {row['concurrency']}, {row['upstream']} upstream"
        )
        print(
            f"{'':32}{'µs CPU':>12}{'× nginx':>10}{'per CPU s':>12}{'+p50 ms':>10}{'+p99 ms':>10}"
        )
    print(
        f"{row['contender']:32}{row['microseconds']:12.1f}{row['median']:10.2f}"
        f"{row['per_cpu_second']:12,}{row['added_p50_ms']:10.2f}{row['added_p99_ms']:10.2f}",
        flush=True,
    )


def _own_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for stores on a file system without recently deleted files.

    Without a journal, ext4 delays the reuse of an inode for minutes after its deletion, and Linux examines each of
    these for every new file: after tests have deleted files, creating one takes 1,000 µs of CPU instead of 30. For the
    same reason measured stores are removed only at the end.
    """
    environments.ENVIRONMENTS.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="gateway-", dir=environments.ENVIRONMENTS)


def settings_of(upstream: str, scale: int) -> list[Setting]:
    """1 KB and 32 KB, concurrency 1, 32 and 256, and streams; over TLS concurrency 32 and streams."""
    listed = [
        Setting("request", 1024, 1, 120 * scale),
        Setting("request", 1024, 32, 640 * scale),
        Setting("request", 1024, 256, 768 * scale),
        Setting("request", 32768, 1, 100 * scale),
        Setting("request", 32768, 32, 320 * scale),
        Setting("request", 32768, 256, 512 * scale),
        Setting("fresh", 1024, 32, 640 * scale),
        Setting("chunk", 1024, 24, 24 * scale),
    ]
    if upstream == "plain":
        return listed
    return [setting for setting in listed if setting.concurrency in {24, 32}]


@contextmanager
def _upstream(folder: Path, port: int, kind: str) -> Iterator[Upstream]:
    """Run an upstream in a process of its own; over TLS with a new certificate."""
    command = [sys.executable, load.__file__, "upstream", str(port)]
    authority = None
    if kind == "tls":
        signer = trustme.CA()
        authority, certificate = folder / "authority.pem", folder / "certificate.pem"
        signer.cert_pem.write_to_path(str(authority))
        signer.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(
            str(certificate)
        )
        command.append(str(certificate))
    with started(command, port, {}):
        yield Upstream(port, authority)


def measure_all(
    listed: list[Proxy], kind: str, folder: Path, port: int, *, quick: bool
) -> Iterator[results.Row]:
    """Start all contenders with one kind of upstream, measure, and stop them."""
    folder.mkdir()
    with ExitStack() as stack:
        upstream = stack.enter_context(_upstream(folder, port, kind))
        running: list[Contender] = []
        for number, proxy in enumerate(listed, 1):
            where = port + number
            command = proxy.launch(Place(folder, where, upstream))
            process = stack.enter_context(started(command, where, upstream.trust))
            headers = proxy.headers(upstream)
            drive(where, request_of(proxy.path, 1024, headers=headers), 8, 64)
            running.append(
                Contender(proxy.name, process, where, proxy.path, headers, proxy.streams)
            )
        rounds, peer_rounds, scale = (2, 1, 1) if quick else (7, 3, 4)
        settings = settings_of(kind, scale)
        for row in compare(running, settings, upstream, rounds=rounds, peer_rounds=peer_rounds):
            yield {**row, "upstream": kind}
        for contender in running:
            megabytes = resident_megabytes(contender.process.pid)
            yield {
                "contender": contender.name,
                "kind": "memory",
                "megabytes": megabytes,
                "upstream": kind,
            }


def main(options: argparse.Namespace) -> int:
    """Measure, and print the tables."""
    if not environments.nginx():
        print("nginx is not installed: `scripts/bench gateway` does it", file=sys.stderr)
        return 1
    peers = {
        "litellm": environments.python_of("litellm"),
        "rosetta": environments.python_of("llm_rosetta"),
        "portkey": environments.portkey(),
    }
    for name in (name for name, found in peers.items() if found is None):
        print(f"{name} is not installed and left out: `scripts/bench gateway` installs it")
    listed = list(proxies(**peers, before=options.before))
    contenders = ["cannery", "litellm", "llm_rosetta", "portkey"]
    recording = results.Recording("gateway", quick=options.quick, contenders=contenders)
    with _own_folder() as place:
        for kind in options.upstreams:
            folder = Path(place) / kind
            for row in measure_all(listed, kind, folder, options.port, quick=options.quick):
                show(recording.add(**row))
    if options.json:
        recording.write(options.json)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, fewer requests")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--port", type=int, default=18080, help="the first of a row of free ports")
    parser.add_argument(
        "--before", type=Path, metavar="SRC", help="the src of another checkout, measured beside"
    )
    parser.add_argument(
        "--upstreams", nargs="+", choices=("plain", "tls"), default=["plain", "tls"]
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(_arguments()))

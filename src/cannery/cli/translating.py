"""The three modes of ``cannery translate``: one body, a stream, or many bodies in bulk."""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec

from cannery.cli.complaints import DONE, WRONG, Complaint, Misuse
from cannery.cli.files import note, shown, write_json, writing
from cannery.errors import DialectError, InputError, LossError
from cannery.translation import (
    normalize_request,
    normalize_response,
    translate,
    translate_stream,
)
from cannery.wire.contract import StreamOptions
from cannery.wire.losses import Rendered

_CHUNK = 1 << 16


class Source(NamedTuple):
    """The beginning of the input, the rest of it, and the form detected: one body, lines or a stream."""

    form: str
    head: bytes
    rest: BinaryIO


def detect_form(file: BinaryIO, name: str, *, is_lines: bool) -> Source:
    """Read the beginning of the input and distinguish one body, a stream, and one body per line."""
    head = b""
    while not head.strip():
        more = file.read1(_CHUNK)  # type: ignore[attr-defined]  # every binary file here is buffered
        if not more:
            raise Complaint(f"{shown(name)} is empty", "Give a file, or pipe something in")
        head += more
    if head.lstrip().startswith((b"data:", b"event:", b"id:", b"retry:", b":")):
        return Source("stream", head, file)
    if is_lines:
        return Source("lines", head, file)
    # Keep blank lines, so that the reported number of a bad line is its number in the file.
    blank = head[: len(head) - len(head.lstrip())]
    head = _first_line(head.lstrip(), file)
    first, _, follows = head.partition(b"\n")
    if _is_whole(first):
        while not follows.strip() and (more := file.read1(_CHUNK)):  # type: ignore[attr-defined]
            head, follows = head + more, follows + more
        if follows.strip():
            return Source("lines", blank + head, file)
    return Source("one", head + file.read(), file)


def _first_line(head: bytes, file: BinaryIO) -> bytes:
    """The bytes read so far, and more of the input up to the end of a line."""
    parts = [head]
    while b"\n" not in parts[-1] and (more := file.read1(1 << 20)):  # type: ignore[attr-defined]
        parts.append(more)
    return b"".join(parts)


def _is_whole(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def records_of(body: bytes) -> list[bytes]:
    """The bodies in a JSON array of objects; empty for anything else."""
    if not body.lstrip().startswith(b"["):
        return []
    try:
        items = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return []
    # A body may span several lines; bulk translation needs it on one.
    return [msgspec.json.format(bytes(item), indent=-1) for item in items]


def is_stream(options: argparse.Namespace, head: bytes) -> bool:
    """Whether JSON lines are the events of one stream, and not one body each."""
    if options.lines or options.kind is not None:
        return not options.lines and bool(options.kind == "stream")
    from cannery.detection import detect

    try:
        return detect(head).kind == "stream"
    except InputError:
        return False


def identify(options: argparse.Namespace, body: bytes) -> tuple[str, str]:
    """The dialect and the kind of a body: from the options, or detected and reported."""
    if options.source is not None and options.kind is not None:
        return options.source, options.kind
    from cannery.detection import detect

    try:
        found = detect(body)
    except InputError as error:
        if options.source is not None:
            return options.source, "request"
        problem = f"{shown(options.file)}: {error}"
        fix = "Say what it is with --from (see `cannery doctor`)"
        if "not JSON" in str(error):
            fix = "A body is one JSON object, and a data set has one a line"
        raise Complaint(problem, fix) from None
    if options.source is None:
        note(f"read as {found.dialect}: {found.reason}", quiet=options.quiet)
    return options.source or found.dialect, options.kind or found.kind


def translate_one(
    options: argparse.Namespace, body: bytes, source: str, kind: str
) -> tuple[Rendered, Any]:
    """Translate a body; also return its canisters if they are to be printed."""
    try:
        canisters = _canisters(body, source, kind) if options.explain else None
        rendered = translate(
            body,
            source=source,
            target=options.to,
            policy=options.policy,
            kind=kind,
            model=options.model,
            hosted=options.hosted,
        )
    except LossError as error:
        from cannery.cli.reports import describe

        note(describe(error.losses, ()), quiet=options.quiet)
        raise Complaint(str(error), "--policy warn translates without them") from None
    except DialectError as error:
        raise Complaint(f"{shown(options.file)}: {error}", _other_dialect(options, body)) from None
    return rendered, canisters


def _canisters(body: bytes, source: str, kind: str) -> Any:
    if kind == "request":
        return normalize_request(body, source).conversation
    return normalize_response(body, source).canisters


def _other_dialect(options: argparse.Namespace, body: bytes) -> str:
    """The advice for a body that is not in the dialect given."""
    from cannery.detection import detect

    try:
        found = detect(body).dialect
    except InputError:
        return ""
    is_other = options.source not in (None, found)
    return f"It looks like {found}: leave out --from, or give that" if is_other else ""


def stream(options: argparse.Namespace, source: str, chunks: Iterator[bytes]) -> int:
    """Translate a stream while it is read."""
    if options.policy == "strict" or options.losses:
        raise Misuse(
            "a stream is written while it is read, before its losses are known",
            "--policy strict and --losses are for requests and responses",
        )
    given = StreamOptions(hosted=options.hosted)
    translated = translate_stream(chunks, source=source, target=options.to, options=given)
    if options.json:
        told = {"source": source, "target": options.to, "kind": "stream"}
        write_json({**told, "body": b"".join(translated).decode()}, options.output)
        return DONE
    with writing(options.output) as file:
        for chunk in translated:
            file.write(chunk)
            file.flush()
    return DONE


def chunks_of(source: Source) -> Iterator[bytes]:
    """All of the input, in chunks as they arrive."""
    if source.head:
        yield source.head
    if source.form == "stream":
        while chunk := source.rest.read1(_CHUNK):  # type: ignore[attr-defined]
            yield chunk


def bulk(options: argparse.Namespace, source: Source, size: int, found: tuple[str, str]) -> int:
    """Translate one body per line; ``found`` is their dialect and kind."""
    from cannery.cli import bulk as work
    from cannery.cli.bulk_report import BulkReport

    dialect, kind = found
    task = work.Task(
        dialect,
        options.to,
        options.policy,
        kind,
        options.model,
        keeps_losses=bool(options.losses),
        tells_all=options.json,
        is_strict=options.strict,
        hosted=options.hosted,
    )
    if options.explain:
        note("--explain is for one body; these are many", quiet=options.quiet)
    jobs = options.jobs if options.jobs > 0 else os.cpu_count() or 1
    with BulkReport(options, dialect, size) as report, writing(options.output) as file:
        for block in work.run(source.rest, source.head, task, jobs, file):
            report.add(block)
    report.conclude()
    return WRONG if report.failed else DONE


def size_of(file: BinaryIO) -> int:
    """The size of a file; 0 for a pipe and for compressed input."""
    try:
        is_plain = isinstance(getattr(file, "raw", None), io.FileIO)
        return os.fstat(file.fileno()).st_size if is_plain else 0
    except OSError:
        return 0


def explain(canisters: Any) -> str:
    """The canisters of the body, one line each."""
    from cannery.cli.canisters import headline

    return "\n".join(headline(index, canister) for index, canister in enumerate(canisters))

"""``cannery translate``: translate bodies and streams to another dialect, and report losses."""

from __future__ import annotations

import argparse
import io
from typing import Any

from cannery.cli import translating
from cannery.cli.complaints import DONE, choose_dialect
from cannery.cli.files import note, pretty, reading, write_json, writing
from cannery.cli.parser import Parser, whole
from cannery.cli.reports import as_data, describe, summary
from cannery.hosting import WAYS
from cannery.wire.losses import POLICIES, Rendered

DESCRIPTION = (
    "Translate a request, response or stream to another dialect. What the target cannot express is reported on "
    "stderr. A file with one body a line is translated in bulk; a bad line is reported and skipped. With --json "
    "the output has body, losses and repairs, in bulk one such object a line. A stream is translated while it is "
    "read, and has no report; with --json its body is text."
)
EXAMPLES = """
cannery translate request.json --to anthropic_messages
curl -s … | cannery translate --from openai_chat --to gemini_generate --kind response
cannery translate sharegpt.jsonl --to openai_chat --jobs 4 -o chats.jsonl --losses losses.json
cannery translate request.json --to gemini_generate --policy strict || echo "would lose something"
"""
KINDS = ("request", "response", "stream")


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add("file", metavar="FILE", nargs="?", default="-", help="the body; - or no FILE is stdin")
    add("--to", metavar="DIALECT", required=True, help="the target dialect")
    add("--from", dest="source", metavar="DIALECT", help="the source dialect (default: detected)")
    add("--kind", choices=KINDS, help="the kind of the body (default: detected)")
    add("--model", metavar="NAME", help="the model of the written request")
    add(
        "--policy",
        choices=POLICIES,
        default="warn",
        help="on a loss: ignore it (allow), report it (warn, the default), or fail (strict)",
    )
    add(
        "--hosted",
        choices=WAYS,
        default="native",
        help="calls of hosted tools that the target does not have: left out (native, the default), or written as text",
    )
    add("--lines", action="store_true", help="the input has one body a line (default: detected)")
    add(
        "--jobs",
        metavar="N",
        type=whole,
        default=1,
        help="processes for bulk (1); 0: one for each core",
    )
    add("--strict", action="store_true", help="in bulk, stop at the first bad line")
    add("--losses", metavar="FILE", help="write losses and repairs to this file as JSON")
    add(
        "--explain",
        action="store_true",
        help="print the canisters between the two dialects on stderr",
    )
    add("-o", "--output", metavar="FILE", help="write to this file instead of stdout")


def run(options: argparse.Namespace) -> int:
    """Translate the input."""
    options.to = choose_dialect(options.to)
    if options.source is not None:
        options.source = choose_dialect(options.source)
    with reading(options.file) as file:
        source = translating.detect_form(file, options.file, is_lines=options.lines)
        if source.form == "lines" and not translating.is_stream(options, source.head):
            first = source.head.lstrip().partition(b"\n")[0]
            found = translating.identify(options, first)
            return translating.bulk(options, source, translating.size_of(file), found)
        if source.form == "one" and (records := translating.records_of(source.head)):
            dialect, kind = translating.identify(options, records[0])
            if kind != "response":
                joined = translating.Source("lines", b"\n".join(records), io.BytesIO())
                return translating.bulk(options, joined, len(source.head), (dialect, kind))
        dialect, kind = translating.identify(options, source.head)
        if kind == "stream":
            source = source._replace(form="stream")
            return translating.stream(options, dialect, translating.chunks_of(source))
    return _one(options, source.head, dialect, kind)


def _one(options: argparse.Namespace, body: bytes, source: str, kind: str) -> int:
    rendered, canisters = translating.translate_one(options, body, source, kind)
    if options.explain and not options.json:
        note(translating.explain(canisters))
    if options.json:
        write_json(_envelope(options, source, kind, rendered, canisters), options.output)
    else:
        with writing(options.output) as file:
            file.write(pretty(rendered.body) + b"\n")
    if options.losses:
        write_json({"source": source, "target": options.to, **as_data(rendered)}, options.losses)
    if options.policy == "warn" and not options.json and (rendered.losses or rendered.repairs):
        head = summary(len(rendered.losses), len(rendered.repairs))
        text = describe(rendered.losses, rendered.repairs)
        note(f"{source} → {options.to}: {head}\n{text}", quiet=options.quiet)
    return DONE


def _envelope(
    options: argparse.Namespace, source: str, kind: str, rendered: Rendered, canisters: Any
) -> dict[str, Any]:
    import msgspec

    told = {"source": source, "target": options.to, "kind": kind}
    told |= {"body": msgspec.Raw(rendered.body), **as_data(rendered)}
    if options.explain:
        from cannery.storage.portable import portable

        told["canisters"] = [portable(canister) for canister in canisters]
    return told

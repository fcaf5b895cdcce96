"""``cannery doctor``: which message breaks which provider, and why; without arguments, the environment."""

from __future__ import annotations

import argparse

from cannery.cli.complaints import DONE, WRONG, choose_dialect
from cannery.cli.files import note, write_json
from cannery.cli.parser import Parser
from cannery.cli.subjects import Subjects
from cannery.cli.terminal import harmless

DESCRIPTION = (
    "Check a request, a stored conversation or a transcript of another program (`cannery import --formats` lists "
    "the formats) against the known rules of each provider, each with its source and date. A folder is checked "
    "file by file. Exits with 1 if its own provider (or one named with --to) refuses it or loses a part of it, or "
    "if a line is damaged. --fix writes the same kind of file with only the faults changed, so that the agent "
    "resumes its session. Without arguments: the dialects, upstreams, keys (present or not, never shown) and the "
    "store that Cannery finds."
)
EXAMPLES = """
cannery doctor
cannery doctor request.json
cannery doctor request.json --to gemini_generate
cannery doctor broken.json --fix -o repaired.json
cannery doctor ~/.claude/projects/-home-me-work
cannery doctor session.jsonl --fix -o mended.jsonl
cannery doctor --rules --to anthropic_messages
cannery doctor @
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add(
        "what",
        metavar="FILE|FOLDER|ID",
        nargs="?",
        help="a request or transcript (- is stdin), a folder of them, or a conversation",
    )
    add(
        "--from",
        dest="source",
        metavar="DIALECT",
        help="the dialect of the request (default: detected)",
    )
    add("--model", metavar="NAME", help="the model, if the URL names it (Gemini, Azure)")
    add("--to", metavar="DIALECT", action="append", default=[], help="check only this provider")
    add(
        "--fix",
        action="store_true",
        help="write a fixed copy of the same kind, or with --to a request for that provider; several, one a line",
    )
    add(
        "-o", "--output", metavar="FILE", help="write the copy to this file (a folder for a folder)"
    )
    add(
        "--rules",
        action="store_true",
        help="list the rules of every provider, or of those with --to",
    )


def run(options: argparse.Namespace) -> int:
    """Examine requests, or report the environment."""
    if options.rules:
        from cannery.cli.diagnosis_report import list_rules

        return list_rules([choose_dialect(name) for name in options.to], is_json=options.json)
    if options.what is None:
        from cannery.cli.environment import report

        return report(options)
    targets = [choose_dialect(name) for name in options.to]
    subjects = Subjects(options)
    if options.fix:
        from cannery.cli.doctor_fix import fix

        verdict = fix(options, subjects, targets)
    else:
        verdict = _examine(options, subjects, targets)
    for problem in subjects.problems:
        note(f"problem: {harmless(problem)}", quiet=options.quiet)
    return WRONG if subjects.problems else verdict


def _examine(options: argparse.Namespace, subjects: Subjects, targets: list[str]) -> int:
    from cannery.cli.diagnosis import examine
    from cannery.cli.diagnosis_report import Report, as_data

    report = Report()
    told = []
    for subject in subjects:
        found = [examine(subject, name) for name in targets or _providers(subject.own)]
        report.add(subject, found, is_named=bool(targets))
        if options.json:
            told.append(as_data(subject, found))
    if options.json:
        write_json(told[0] if len(told) == 1 else told)
    else:
        print(report.text())
    return DONE if report.is_fine else WRONG


def _providers(own: str | None) -> list[str]:
    """The dialects with routes, the subject's own first."""
    from cannery.dialects import dialect_names, find_dialect

    served = [name for name in dialect_names() if find_dialect(name).routes]
    return list(dict.fromkeys([*([own] if own else []), *served]))

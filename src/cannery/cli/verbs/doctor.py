"""``cannery doctor``: which message breaks which provider, and why; alone, what Cannery sees around it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from cannery.cli.complaints import DONE, WRONG, Complaint, choose_dialect
from cannery.cli.diagnosis import Finding, Patient, examine, mend
from cannery.cli.files import note, pretty, write_json, writing
from cannery.cli.parser import Parser

DESCRIPTION = (
    "Which message of a request, a stored conversation or a transcript of another program (`cannery import --formats` "
    "lists them) breaks which provider, and why. Exits with 1 when its own provider (or one named with --to) would "
    "refuse it or not hear everything. Alone: the dialects, upstreams, keys (present or not, never shown) and the "
    "store that Cannery sees."
)
EXAMPLES = """
cannery doctor
cannery doctor request.json
cannery doctor request.json --to gemini_generate
cannery doctor broken.json --fix -o repaired.json
cannery doctor ~/Downloads/conversations.json --to anthropic_messages
cannery doctor @
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    add(
        "what",
        metavar="FILE|ID",
        nargs="?",
        help="a request or transcript (- is stdin), or a conversation",
    )
    add("--from", dest="source", metavar="DIALECT", help="the dialect it is in (else detected)")
    add("--to", metavar="DIALECT", action="append", default=[], help="only this provider")
    add(
        "--fix",
        action="store_true",
        help="write a repaired copy, in its own dialect or that of --to; several, one a line",
    )
    add("-o", "--output", metavar="FILE", help="write the copy there instead of stdout")


def run(options: argparse.Namespace) -> int:
    """Examine requests, or the surroundings."""
    if options.what is None:
        from cannery.cli.surroundings import report

        return report(options)
    from cannery.cli.patients import find_patients

    targets = [choose_dialect(name) for name in options.to]
    patients = find_patients(options)
    if options.fix:
        return _fix(options, patients, targets)
    return _examine(options, patients, targets)


def _examine(options: argparse.Namespace, patients: Iterator[Patient], targets: list[str]) -> int:
    from cannery.cli.diagnosis_report import Report, as_data

    report = Report()
    told = []
    for patient in patients:
        findings = [examine(patient, name) for name in targets or _providers(patient)]
        report.take(patient, findings, is_named=bool(targets))
        if options.json:
            told.append(as_data(patient, findings))
    if options.json:
        write_json(told[0] if len(told) == 1 else told)
    else:
        print(report.text())
    return DONE if report.is_fine else WRONG


def _providers(patient: Patient) -> list[str]:
    """The dialects that somebody serves, its own first."""
    from cannery.dialects import dialect_names, find_dialect

    served = [name for name in dialect_names() if find_dialect(name).routes]
    own = patient.dialect or patient.home
    return list(dict.fromkeys([*([own] if own else []), *served]))


def _fix(options: argparse.Namespace, patients: Iterator[Patient], targets: list[str]) -> int:
    from cannery.cli.reports import describe_either

    everything: list[tuple[str, Finding]] = []
    dialect = ""
    with writing(options.output) as file:
        for patient in patients:
            dialect = targets[0] if targets else patient.dialect or patient.home or ""
            if not dialect:
                raise Complaint("it has no dialect of its own", "Add --to DIALECT")
            finding = examine(patient, dialect)
            if finding.refusal:
                raise Complaint(f"{patient.name}: {finding.refusal}")
            body = mend(patient, dialect).body
            # Alone it may be read by a person; several are one a line.
            file.write((pretty(body) if patient.is_alone else body) + b"\n")
            everything.append((patient.name, finding))
    told = [(name, finding.losses, finding.repairs) for name, finding in everything]
    note(f"{dialect}: {describe_either(told)}", quiet=options.quiet)
    return DONE

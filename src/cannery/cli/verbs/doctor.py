"""``cannery doctor``: which message breaks which provider, and why; alone, what Cannery sees around it."""

from __future__ import annotations

import argparse
from pathlib import Path

from cannery.cli.complaints import DONE, WRONG, Complaint, choose_dialect
from cannery.cli.diagnosis import Patient, examine, mend, read_patient
from cannery.cli.diagnosis_report import as_data, as_text
from cannery.cli.files import note, pretty, read, shown, write_json, writing
from cannery.cli.parser import Parser
from cannery.cli.reports import describe, summary
from cannery.errors import CanneryError
from cannery.translation import dialect_names, find_dialect

DESCRIPTION = (
    "Which message of a request or a stored conversation breaks which provider, and why. Exits with 1 when its own "
    "provider (or one named with --to) would refuse it or not hear everything. Alone: the dialects, upstreams, keys "
    "(present or not, never shown) and the store that Cannery sees."
)
EXAMPLES = """
cannery doctor
cannery doctor request.json
cannery doctor request.json --to gemini_generate
cannery doctor broken.json --fix -o repaired.json
cannery doctor @
"""
USES_STORE = True


def add_arguments(parser: Parser) -> None:
    """What the verb takes."""
    add = parser.add_argument
    add("what", metavar="FILE|ID", nargs="?", help="a request (- is stdin), or a conversation")
    add("--from", dest="source", metavar="DIALECT", help="the dialect it is in (else detected)")
    add("--to", metavar="DIALECT", action="append", default=[], help="only this provider")
    add(
        "--fix",
        action="store_true",
        help="write a repaired copy, in its own dialect or that of --to",
    )
    add("-o", "--output", metavar="FILE", help="write the copy there instead of stdout")


def run(options: argparse.Namespace) -> int:
    """Examine a request, or the surroundings."""
    if options.what is None:
        from cannery.cli.surroundings import report

        return report(options)
    targets = [choose_dialect(name) for name in options.to]
    patient = _find(options)
    if options.fix:
        return _fix(options, patient, targets)
    findings = [examine(patient, name) for name in targets or _providers(patient)]
    if options.json:
        write_json(as_data(patient, findings))
    else:
        print(as_text(patient, findings))
    looked = findings if targets else [finding for finding in findings if finding.is_home]
    return DONE if all(finding.is_fine for finding in looked) else WRONG


def _providers(patient: Patient) -> list[str]:
    """The dialects that somebody serves, its own first."""
    served = [name for name in dialect_names() if find_dialect(name).routes]
    return list(dict.fromkeys([*([patient.dialect] if patient.dialect else []), *served]))


def _find(options: argparse.Namespace) -> Patient:
    if options.what != "-" and not Path(options.what).exists():
        return _stored(options)
    from cannery.detection import detect

    body, name = read(options.what), shown(options.what)
    dialect, reason = options.source and choose_dialect(options.source), "as told"
    try:
        if not dialect:
            found = detect(body)
            dialect, reason = found.dialect, found.reason
            if found.kind != "request":
                raise Complaint(f"{name} is a {found.kind}", "The doctor looks at requests")
        return read_patient(name, body, dialect, reason)
    except CanneryError as error:
        raise Complaint(f"{name}: {error}", "Say what it is with --from") from None


def _stored(options: argparse.Namespace) -> Patient:
    from cannery.cli.stores import find, opened
    from cannery.messages import Request, absent

    if "." in options.what or "/" in options.what:
        raise Complaint(f"{options.what}: no such file", "Give a file, - for stdin, or an id")
    with opened(options) as store:
        conversation = find(store, options.what)
        model = conversation.metadata.model or absent
        request = Request(conversation.hydrate(), model)
        return Patient(conversation.identifier, request, reason=conversation.title)


def _fix(options: argparse.Namespace, patient: Patient, targets: list[str]) -> int:
    dialect = targets[0] if targets else patient.dialect
    if dialect is None:
        raise Complaint("a stored conversation has no dialect of its own", "Add --to DIALECT")
    finding = examine(patient, dialect)
    if finding.refusal:
        raise Complaint(finding.refusal)
    with writing(options.output) as file:
        file.write(pretty(mend(patient, dialect).body) + b"\n")
    done = summary(len(finding.losses), len(finding.repairs))
    told = describe(finding.losses, finding.repairs)
    note(f"{dialect}: {done}\n{told}".rstrip(), quiet=options.quiet)
    return DONE

"""``cannery doctor --fix``: a mended copy of the same kind of file, and a list of every change.

A request stays a request of its dialect and an agent's session a session that the agent resumes. Only ``--to`` makes
something else of it: a repaired request in another dialect.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from cannery.cli.complaints import DONE, WRONG, Complaint, Misuse
from cannery.cli.diagnosis import Patient, examine, say
from cannery.cli.files import note, pretty, writing
from cannery.cli.patients import Patients
from cannery.cli.terminal import harmless
from cannery.doctor import PROBLEM, Change, Finding, mend_body
from cannery.doctor.sessions import mend_session
from cannery.errors import CanneryError
from cannery.messages.json_text import utf8
from cannery.wording import counted

_MOST = 60


def fix(options: argparse.Namespace, patients: Patients, targets: list[str]) -> int:
    """Write mended copies and list what was changed; 1 when something is still broken."""
    if targets:
        return _translate(options, patients, targets[0])
    if options.what != "-" and Path(options.what).is_dir():
        return _folder(options, patients)
    verdict = DONE
    with writing(options.output) as file:
        for patient in patients:
            data, changes, left = _mended(patient)
            if data is None:
                continue
            file.write(data)
            verdict = max(verdict, _tell(options, patient, changes, left))
    return verdict


def _folder(options: argparse.Namespace, patients: Patients) -> int:
    """Write every file of a folder that can be mended into another folder, under the same name."""
    if not options.output:
        raise Misuse("mend a folder into which one?", "Add -o FOLDER")
    root, target, verdict = Path(options.what), Path(options.output), DONE
    files: dict[str, bytes] = {}
    for patient in patients:
        try:
            data, changes, left = _mended(patient)
        except Complaint as complaint:
            note(harmless(str(complaint)), quiet=options.quiet)
            verdict = WRONG
            continue
        if data is not None:
            files[patient.file] = files.get(patient.file, b"") + data
            verdict = max(verdict, _tell(options, patient, changes, left))
    for name, data in files.items():
        place = target / Path(name).resolve().relative_to(root.resolve())
        place.parent.mkdir(parents=True, exist_ok=True)
        with writing(str(place)) as file:
            file.write(data)
    note(f"{options.output}: {counted(len(files), 'file')}", quiet=options.quiet)
    return verdict


def _mended(
    patient: Patient,
) -> tuple[bytes | None, Sequence[Change], Sequence[Finding]]:
    """The bytes of a mended copy, None for a further history of a file that is mended as a whole."""
    if patient.session is not None:
        mended = mend_session(patient.session, patient.form)
        return mended.data, mended.changes, mended.left
    if patient.body is not None and patient.dialect is not None:
        return _body(patient, patient.body, patient.dialect)
    if patient.form:
        return None, (), ()
    raise Complaint(
        f"{patient.name}: {patient.reason or 'a conversation'} cannot be mended in place",
        "Add --to DIALECT for a repaired request",
    )


def _body(
    patient: Patient, body: bytes, dialect: str
) -> tuple[bytes, Sequence[Change], Sequence[Finding]]:
    import json

    mended = mend_body(body, dialect, model=patient.model)
    if not mended.changes:
        # As it is, byte for byte, but for the end of its line.
        return body.rstrip(b"\r\n") + b"\n", (), mended.left
    written = utf8(json.dumps(mended.body, ensure_ascii=False, separators=(",", ":")))
    return (
        (pretty(written) if patient.is_alone else written) + b"\n",
        mended.changes,
        mended.left,
    )


def _tell(
    options: argparse.Namespace,
    patient: Patient,
    changes: Sequence[Change],
    left: Sequence[Finding],
) -> int:
    broken = [each for each in left if each.severity == PROBLEM]
    lines = [f"{patient.file or patient.name}: {counted(len(changes), 'change')}"]
    lines += [f"  changed  {each.code}  {each.path}: {each.text}" for each in changes[:_MOST]]
    if len(changes) > _MOST:
        lines.append(f"  … and {len(changes) - _MOST} more changes")
    lines += [f"  left     {each.code}  {each.path}: {each.text}" for each in broken[:_MOST]]
    note(harmless_lines(lines), quiet=options.quiet)
    return WRONG if broken else DONE


def harmless_lines(lines: Sequence[str]) -> str:
    """Lines without anything that a terminal obeys."""
    return "\n".join(harmless(line) for line in lines)


def _translate(options: argparse.Namespace, patients: Patients, dialect: str) -> int:
    """Write each history as a request that another provider accepts."""
    from cannery.cli.reports import describe_either

    everything = []
    with writing(options.output) as file:
        for patient in patients:
            diagnosis = examine(patient, dialect)
            if patient.request is None or (diagnosis.refusal and not diagnosis.is_home):
                raise Complaint(f"{patient.name}: {diagnosis.refusal or patient.unreadable}")
            try:
                rendered = say(patient.request, dialect)
            except CanneryError as error:
                raise Complaint(f"{patient.name}: {error}") from None
            # Alone it may be read by a person; several are one a line.
            file.write((pretty(rendered.body) if patient.is_alone else rendered.body) + b"\n")
            everything.append((patient.name, rendered.losses, rendered.repairs))
    note(f"{dialect}: {describe_either(everything)}", quiet=options.quiet)
    return DONE

"""``cannery doctor --fix``: a fixed copy of the same kind of file, and a list of every change.

A request stays a request of its dialect and an agent's session a session that the agent can resume. Only ``--to``
converts it: to a repaired request in another dialect.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from cannery.cli.complaints import DONE, WRONG, Complaint, Misuse
from cannery.cli.diagnosis import Subject, examine, write_repaired
from cannery.cli.files import note, pretty, writing
from cannery.cli.subjects import Subjects
from cannery.cli.terminal import harmless
from cannery.doctor import PROBLEM, Change, Finding, mend_body
from cannery.doctor.sessions import mend_session
from cannery.errors import CanneryError
from cannery.messages.json_text import utf8
from cannery.wording import counted

_MOST = 60


def fix(options: argparse.Namespace, subjects: Subjects, targets: list[str]) -> int:
    """Write fixed copies and list the changes; return 1 if problems remain."""
    if targets:
        return _translate(options, subjects, targets[0])
    if options.what != "-" and Path(options.what).is_dir():
        return _folder(options, subjects)
    verdict = DONE
    with writing(options.output) as file:
        for subject in subjects:
            data, changes, left = _mended(subject)
            if data is None:
                continue
            file.write(data)
            verdict = max(verdict, _report_changes(options, subject, changes, left))
    return verdict


def _folder(options: argparse.Namespace, subjects: Subjects) -> int:
    """Write every fixable file of a folder into another folder, under the same name."""
    if not options.output:
        raise Misuse("mend a folder into which one?", "Add -o FOLDER")
    root, target, verdict = Path(options.what), Path(options.output), DONE
    files: dict[str, bytes] = {}
    for subject in subjects:
        try:
            data, changes, left = _mended(subject)
        except Complaint as complaint:
            note(harmless(str(complaint)), quiet=options.quiet)
            verdict = WRONG
            continue
        if data is not None:
            files[subject.file] = files.get(subject.file, b"") + data
            verdict = max(verdict, _report_changes(options, subject, changes, left))
    for name, data in files.items():
        place = target / Path(name).resolve().relative_to(root.resolve())
        place.parent.mkdir(parents=True, exist_ok=True)
        with writing(str(place)) as file:
            file.write(data)
    note(f"{options.output}: {counted(len(files), 'file')}", quiet=options.quiet)
    return verdict


def _mended(
    subject: Subject,
) -> tuple[bytes | None, Sequence[Change], Sequence[Finding]]:
    """The bytes of a fixed copy; None for a further history of a file that is fixed as a whole."""
    if subject.session is not None:
        mended = mend_session(subject.session, subject.form)
        return mended.data, mended.changes, mended.left
    if subject.body is not None and subject.dialect is not None:
        return _body(subject, subject.body, subject.dialect)
    if subject.form:
        return None, (), ()
    raise Complaint(
        f"{subject.name}: {subject.reason or 'a conversation'} cannot be mended in place",
        "Add --to DIALECT for a repaired request",
    )


def _body(
    subject: Subject, body: bytes, dialect: str
) -> tuple[bytes, Sequence[Change], Sequence[Finding]]:
    import json

    mended = mend_body(body, dialect, model=subject.model)
    if not mended.changes:
        # Unchanged, byte for byte, except for the line end.
        return body.rstrip(b"\r\n") + b"\n", (), mended.left
    written = utf8(json.dumps(mended.body, ensure_ascii=False, separators=(",", ":")))
    return (
        (pretty(written) if subject.is_alone else written) + b"\n",
        mended.changes,
        mended.left,
    )


def _report_changes(
    options: argparse.Namespace,
    subject: Subject,
    changes: Sequence[Change],
    left: Sequence[Finding],
) -> int:
    broken = [each for each in left if each.severity == PROBLEM]
    lines = [f"{subject.file or subject.name}: {counted(len(changes), 'change')}"]
    lines += [f"  changed  {each.code}  {each.path}: {each.text}" for each in changes[:_MOST]]
    if len(changes) > _MOST:
        lines.append(f"  … and {len(changes) - _MOST} more changes")
    lines += [f"  left     {each.code}  {each.path}: {each.text}" for each in broken[:_MOST]]
    note(harmless_lines(lines), quiet=options.quiet)
    return WRONG if broken else DONE


def harmless_lines(lines: Sequence[str]) -> str:
    """Lines without terminal control characters."""
    return "\n".join(harmless(line) for line in lines)


def _translate(options: argparse.Namespace, subjects: Subjects, dialect: str) -> int:
    """Write each history as a request that another provider accepts."""
    from cannery.cli.reports import describe_either

    everything = []
    with writing(options.output) as file:
        for subject in subjects:
            diagnosis = examine(subject, dialect)
            if subject.request is None or (diagnosis.refusal and not diagnosis.is_home):
                raise Complaint(f"{subject.name}: {diagnosis.refusal or subject.unreadable}")
            try:
                rendered = write_repaired(subject.request, dialect)
            except CanneryError as error:
                raise Complaint(f"{subject.name}: {error}") from None
            # Indent a single body for reading; several are written one per line.
            file.write((pretty(rendered.body) if subject.is_alone else rendered.body) + b"\n")
            everything.append((subject.name, rendered.losses, rendered.repairs))
    note(f"{dialect}: {describe_either(everything)}", quiet=options.quiet)
    return DONE

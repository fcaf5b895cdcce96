"""The report of ``cannery doctor``: for each file what its own provider refuses, then what the others would lose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from cannery.cli.diagnosis import Diagnosis, Subject
from cannery.cli.reports import describe_either, loss_data, summary
from cannery.cli.terminal import columns, harmless, paint
from cannery.doctor import PROBLEM, Finding
from cannery.wording import counted

_MOST = 40
_FINE = "no known problem"


class Report:
    """Formats what each provider would do with one or more conversations."""

    def __init__(self) -> None:
        self._first = ""
        self._count = 0
        self._canisters = 0
        self._files: dict[str, list[tuple[Subject, Diagnosis]]] = {}
        self._findings: dict[str, list[tuple[str, Diagnosis]]] = {}
        self.is_fine = True

    def add(self, subject: Subject, found: list[Diagnosis], *, is_named: bool) -> None:
        """Add findings; the exit code depends on the subject's own provider, or on the named providers."""
        kind = f"{subject.dialect} ({subject.reason})" if subject.dialect else subject.reason
        self._first = self._first or f"{subject.name}: {kind}".removesuffix(": ")
        self._count += 1
        self._canisters += 0 if subject.request is None else len(subject.request.conversation)
        for diagnosis in found:
            self._findings.setdefault(diagnosis.dialect, []).append((subject.name, diagnosis))
            if is_named or diagnosis.is_home:
                self.is_fine &= diagnosis.is_fine
            if diagnosis.is_home:
                self._files.setdefault(subject.file, []).append((subject, diagnosis))

    def text(self) -> str:
        """Format the whole report."""
        size = counted(self._canisters, "canister")
        many = f", and {counted(self._count - 1, 'more conversation')}" if self._count > 1 else ""
        lines = [
            harmless(f"{self._first}{many}, {size}" if self._count else "nothing to check"),
            "",
        ]
        if len(self._files) > 1:
            for file, judged in self._files.items():
                lines += _file(file, judged)
            lines.append("")
        for dialect, found in self._findings.items():
            # With several files, the findings of each file's own provider were already listed with the file.
            is_told = len(self._files) > 1
            others = [each for each in found if not (is_told and each[1].is_home)]
            lines += self._provider(dialect, others) if others else []
        return "\n".join(lines).rstrip()

    def _provider(self, dialect: str, found: list[tuple[str, Diagnosis]]) -> Iterator[str]:
        broken = [(name, each) for name, each in found if not each.is_fine]
        is_home = found[0][1].is_home
        mark, colour = ("✓", "green") if not broken else ("✗", "red")
        if broken and not is_home and not any(each.refusal or each.broken for _, each in broken):
            mark, colour = "~", "yellow"
        verdict, details = _verdict(found)
        refusals = [f"{name}: {each.refusal}" for name, each in broken if each.refusal]
        if len(found) == 1 and refusals:
            verdict, refusals = broken[0][1].refusal, []
        if is_home:
            verdict = f"its own provider: {verdict}"
        yield f"{paint(mark, colour)} {dialect:20} {harmless(verdict)}"
        yield from (harmless(f"  refused   {refusal}") for refusal in refusals[:_MOST])
        yield from _problems([(name, each.problems) for name, each in found])
        if details:
            yield details


def _file(file: str, found: list[tuple[Subject, Diagnosis]]) -> Iterator[str]:
    """One file of several: its verdict and its problems."""
    is_fine = all(each.is_fine for _, each in found)
    mark = paint("✓", "green") if is_fine else paint("✗", "red")
    verdict, _ = _verdict([(subject.name, each) for subject, each in found])
    refusals = [each.refusal for _, each in found if each.refusal]
    yield f"{mark} {harmless(file)}: {harmless('; '.join(refusals) or verdict)}"
    yield from _problems([(subject.name, each.problems) for subject, each in found])


def _verdict(found: Sequence[tuple[str, Diagnosis]]) -> tuple[str, str]:
    """A short verdict, and the losses and repairs in full."""
    broken = sum(len(each.broken) for _, each in found)
    said = [(name, each.losses, each.repairs) for name, each in found]
    _, _, details = describe_either(said).partition("\n")
    parts = [counted(broken, "problem")] if broken else []
    losses = sum(len(each.serious) for _, each in found)
    repairs = sum(len(each.repairs) for _, each in found)
    if losses or repairs:
        parts.append(summary(losses, repairs))
    many = f"{counted(len(found), 'conversation')}, " if len(found) > 1 else ""
    return many + (", ".join(parts) or _FINE), details


def _problems(found: Iterable[tuple[str, Sequence[Finding]]]) -> Iterator[str]:
    """Each problem on a line of its own; the source of a rule is printed once."""
    everything = [(name, each) for name, problems in found for each in problems]
    is_many = len({name for name, _ in everything}) > 1
    width = max((columns(each.code) for _, each in everything), default=0)
    told: set[str] = set()
    for name, each in everything[:_MOST]:
        colour = "red" if each.severity == PROBLEM else "yellow"
        place = f"{name}, {each.path}" if is_many else each.path or "the whole request"
        yield (
            f"  {paint(f'{each.severity:8}', colour)}  {each.code:{width}}  "
            f"{harmless(place)}: {harmless(each.text)}"
        )
        if each.source not in told:
            told.add(each.source)
            yield f"  {'':8}  {'':{width}}  {harmless(each.source)} (read {each.date})"
    if len(everything) > _MOST:
        yield f"  … and {len(everything) - _MOST} more (--json has all of them)"


def as_data(subject: Subject, found: list[Diagnosis]) -> dict[str, Any]:
    """The findings as JSON values."""
    return {
        "name": subject.name,
        "file": subject.file or None,
        "dialect": subject.own,
        "canisters": 0 if subject.request is None else len(subject.request.conversation),
        "findings": [
            {
                "dialect": each.dialect,
                "is_home": each.is_home,
                "is_fine": each.is_fine,
                "refusal": each.refusal or None,
                "problems": [msgspec.to_builtins(problem) for problem in each.problems],
                "losses": [loss_data(loss) for loss in each.losses],
                "repairs": [
                    {"name": repair.name, "path": repair.path, "detail": repair.detail}
                    for repair in each.repairs
                ],
            }
            for each in found
        ],
    }


def list_rules(dialects: Sequence[str], *, is_json: bool) -> int:
    """List the known rules of the providers."""
    from cannery.cli.complaints import DONE
    from cannery.cli.files import write_json
    from cannery.dialects import dialect_names
    from cannery.doctor import checks_of

    names = dialects or dialect_names()
    rules = [(name, check) for name in names for check in checks_of(name)]
    if is_json:
        write_json(
            [
                {
                    "dialect": name,
                    "code": check.code,
                    "severity": check.severity,
                    "is_fixable": check.fix is not None,
                    "source": check.source,
                    "date": check.date,
                }
                for name, check in rules
            ]
        )
        return DONE
    for name, check in rules:
        mended = "mended" if check.fix is not None else ""
        print(
            f"{name:20} {check.code:20} {check.severity:8} {mended:7} {check.source} ({check.date})"
        )
    return DONE

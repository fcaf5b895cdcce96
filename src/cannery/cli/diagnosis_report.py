"""What ``cannery doctor`` says about a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cannery.cli.diagnosis import Finding, Patient
from cannery.cli.reports import describe_either, loss_data
from cannery.cli.tables import counted
from cannery.cli.terminal import harmless, paint

_MOST = 10


class Report:
    """What each provider would make of one or many conversations, for a person."""

    def __init__(self) -> None:
        self._first = ""
        self._count = 0
        self._canisters = 0
        self._findings: dict[str, list[tuple[str, Finding]]] = {}
        self.is_fine = True

    def take(self, patient: Patient, findings: list[Finding], *, is_named: bool) -> None:
        """Take in what was found; whether all is fine is asked of its own provider, or of those that were named."""
        kind = f"{patient.dialect} ({patient.reason})" if patient.dialect else patient.reason
        self._first = self._first or f"{patient.name}: {kind}".removesuffix(": ")
        self._count += 1
        self._canisters += len(patient.request.conversation)
        for finding in findings:
            self._findings.setdefault(finding.dialect, []).append((patient.name, finding))
            if is_named or finding.is_home:
                self.is_fine &= finding.is_fine

    def text(self) -> str:
        """The whole report."""
        size = counted(self._canisters, "canister")
        many = f", and {counted(self._count - 1, 'more conversation')}" if self._count > 1 else ""
        lines = [
            harmless(f"{self._first}{many}, {size}" if self._count else "nothing to look at"),
            "",
        ]
        for dialect, found in self._findings.items():
            lines += self._provider(dialect, found)
        return "\n".join(lines).rstrip()

    def _provider(self, dialect: str, found: list[tuple[str, Finding]]) -> Iterator[str]:
        broken = [(name, finding) for name, finding in found if not finding.is_fine]
        is_home = found[0][1].is_home
        mark, colour = ("✓", "green") if not broken else ("✗", "red")
        if broken and not is_home and not any(finding.refusal for _, finding in broken):
            mark, colour = "~", "yellow"
        said = [(name, finding.losses, finding.repairs) for name, finding in found]
        verdict, _, details = describe_either(said).partition("\n")
        refusals = [f"{name}: {finding.refusal}" for name, finding in broken if finding.refusal]
        if len(found) == 1 and refusals:
            verdict, refusals = broken[0][1].refusal, []
        if is_home:
            verdict = f"at home: {verdict if broken else 'accepted as it is'}"
        yield f"{paint(mark, colour)} {dialect:20} {harmless(verdict)}"
        yield from (harmless(f"  refused   {refusal}") for refusal in refusals[:_MOST])
        if details:
            yield details


def as_data(patient: Patient, findings: list[Finding]) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "name": patient.name,
        "dialect": patient.dialect or patient.home,
        "canisters": len(patient.request.conversation),
        "findings": [
            {
                "dialect": finding.dialect,
                "is_home": finding.is_home,
                "is_fine": finding.is_fine,
                "refusal": finding.refusal or None,
                "losses": [loss_data(loss) for loss in finding.losses],
                "repairs": [
                    {"name": each.name, "path": each.path, "detail": each.detail}
                    for each in finding.repairs
                ],
            }
            for finding in findings
        ],
    }

"""What ``cannery doctor`` says about a request."""

from __future__ import annotations

from typing import Any

from cannery.cli.diagnosis import Finding, Patient
from cannery.cli.reports import describe, loss_data, summary
from cannery.cli.tables import counted
from cannery.cli.terminal import harmless, paint


def as_text(patient: Patient, findings: list[Finding]) -> str:
    """What each provider would make of it, for a person."""
    kind = f"{patient.dialect} ({patient.reason})" if patient.dialect else patient.reason
    size = counted(len(patient.request.conversation), "canister")
    lines = [harmless(f"{patient.name}: {kind}, {size}".replace(": ,", ":")), ""]
    for finding in findings:
        mark, colour = ("✓", "green") if finding.is_fine else ("✗", "red")
        if not finding.is_home and not finding.is_fine and not finding.refusal:
            mark, colour = "~", "yellow"
        verdict = finding.refusal or summary(len(finding.losses), len(finding.repairs))
        if finding.is_home:
            verdict = f"at home: {verdict if not finding.is_fine else 'accepted as it is'}"
        lines.append(f"{paint(mark, colour)} {finding.dialect:20} {harmless(verdict)}")
        if told := describe(finding.losses, finding.repairs):
            lines.append(told)
    return "\n".join(lines)


def as_data(patient: Patient, findings: list[Finding]) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "name": patient.name,
        "dialect": patient.dialect,
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

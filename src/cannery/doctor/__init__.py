"""Known rules that providers enforce: one table of checks per dialect, each with its source and date.

``examine_body`` checks a request body, ``examine`` a request or conversation of the model; both return findings with
code, severity, path, message, text, source and date. ``mend_body`` changes only what breaks a rule and lists each
change. No findings means that no known rule is broken, not that a provider will accept the body. The package does no
I/O. The rules for a dialect are the module of :mod:`cannery.doctor.providers` with its name.
"""

from __future__ import annotations

from cannery.doctor.contract import PROBLEM, WARNING, Check, Finding, Judged
from cannery.doctor.examination import checks_of, examine, examine_body, has_checks, judge
from cannery.doctor.fixing import Change, Mended, mend, mend_body

__all__ = [
    "PROBLEM",
    "WARNING",
    "Change",
    "Check",
    "Finding",
    "Judged",
    "Mended",
    "checks_of",
    "examine",
    "examine_body",
    "has_checks",
    "judge",
    "mend",
    "mend_body",
]

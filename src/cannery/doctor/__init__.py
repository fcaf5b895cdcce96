"""What breaks a provider: one table of checks per dialect, each with its source and date, over plain JSON values.

``examine_body`` judges a request body, ``examine`` a request or conversation of the model; both give findings with
code, severity, path, message, sentence, source and date. ``mend_body`` changes only what is broken and lists each
change. An empty answer means that no known rule is broken, not that a provider will accept the body. Nothing here does
input or output. A provider's rules are the module of :mod:`cannery.doctor.providers` that has its dialect's name.
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

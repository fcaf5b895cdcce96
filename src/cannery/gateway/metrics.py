"""Counters and histograms in Prometheus' text format.

All of them are updated on the event loop's thread, in dictionaries of bounded size: labels are names from the
configuration, dialects, statuses and our own codes, never values that a client chooses.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

Labels = tuple[str, ...]


class Counter:
    """A counter, by labels."""

    def __init__(self, name: str, help_text: str, labels: Labels) -> None:
        self.name = name
        self.help_text = help_text
        self.labels = labels
        self.values: dict[Labels, float] = {}

    def add(self, *labels: str, by: float = 1) -> None:
        """Count something."""
        self.values[labels] = self.values.get(labels, 0) + by

    def lines(self) -> Iterable[str]:
        """The lines of the text format."""
        yield f"# HELP {self.name} {self.help_text}"
        yield f"# TYPE {self.name} counter"
        for labels, value in sorted(self.values.items()):
            yield f"{self.name}{_labelled(self.labels, labels)} {value:g}"


class Histogram:
    """A histogram of durations in seconds, by labels."""

    def __init__(self, name: str, help_text: str, labels: Labels) -> None:
        self.name = name
        self.help_text = help_text
        self.labels = labels
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, seconds: float, *labels: str) -> None:
        """Add one duration."""
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(_SECONDS) + 1)
            self._sums[labels] = 0.0
        counts[bisect_left(_SECONDS, seconds)] += 1
        self._sums[labels] += seconds

    def lines(self) -> Iterable[str]:
        """The lines of the text format."""
        yield f"# HELP {self.name} {self.help_text}"
        yield f"# TYPE {self.name} histogram"
        names = (*self.labels, "le")
        for labels, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip((*_SECONDS, "+Inf"), counts, strict=True):
                total += count
                yield f"{self.name}_bucket{_labelled(names, (*labels, str(bound)))} {total}"
            yield f"{self.name}_sum{_labelled(self.labels, labels)} {self._sums[labels]:.6f}"
            yield f"{self.name}_count{_labelled(self.labels, labels)} {total}"


class Ratio:
    """The ratio of a part to a whole, over everything counted."""

    def __init__(self, name: str, help_text: str, labels: Labels) -> None:
        self.name, self.help_text, self.labels = name, help_text, labels
        self._sums: dict[Labels, tuple[float, float]] = {}

    def add(self, *labels: str, part: float, whole: float) -> None:
        """Add a part and its whole."""
        before, all_before = self._sums.get(labels, (0.0, 0.0))
        self._sums[labels] = before + part, all_before + whole

    def lines(self) -> Iterator[str]:
        """The lines of the text format."""
        yield f"# HELP {self.name} {self.help_text}"
        yield f"# TYPE {self.name} gauge"
        for labels, (part, whole) in sorted(self._sums.items()):
            yield f"{self.name}{_labelled(self.labels, labels)} {part / whole if whole else 0:.6f}"


class Metrics:
    """All metrics of the gateway."""

    def __init__(self) -> None:
        of_call = ("dialect", "upstream")
        self.calls = Counter(
            "cannery_requests_total",
            "Requests by outcome.",
            ("dialect", "upstream", "kind", "status"),
        )
        self.seconds = Histogram(
            "cannery_request_duration_seconds",
            "Time from the request to the end of the reply.",
            of_call,
        )
        self.first_byte = Histogram(
            "cannery_time_to_first_byte_seconds",
            "Time from the request to the first byte of the reply.",
            of_call,
        )
        self.tokens = Counter(
            "cannery_tokens_total", "Tokens, as counted by upstreams.", ("upstream", "direction")
        )
        self.cached = Ratio(
            "cannery_cached_input_ratio",
            "Share of the input tokens that upstreams read from their caches.",
            ("upstream",),
        )
        self.cost = Counter(
            "cannery_cost_dollars_total",
            "Cost in dollars, by the price list.",
            ("upstream", "model", "key"),
        )
        self.by_key = Counter(
            "cannery_key_requests_total", "Requests by key.", ("key", "kind", "status")
        )
        self.key_tokens = Counter(
            "cannery_key_tokens_total", "Tokens by key.", ("key", "direction")
        )
        self.losses = Counter("cannery_losses_total", "Losses by code.", ("code",))
        self.repairs = Counter("cannery_repairs_total", "Repairs by name.", ("name",))
        self.failures = Counter(
            "cannery_upstream_failures_total",
            "Failed requests to upstreams.",
            ("upstream", "code"),
        )
        self.fallbacks = Counter(
            "cannery_fallbacks_total",
            "Calls that fell back to another upstream after a failure.",
            ("upstream", "next"),
        )
        self.recorded = Counter(
            "cannery_recorded_total", "Exchanges by the outcome of their recording.", ("outcome",)
        )
        self.passed = Counter(
            "cannery_passed_through_total", "Requests forwarded unchanged.", ("upstream",)
        )

    def text(self, gauges: Mapping[str, tuple[str, float]], more: Iterable[Counter] = ()) -> str:
        """The text format of all of them, with gauges (name → help and value) at this moment."""
        lines: list[str] = []
        for metric in (*vars(self).values(), *more):
            lines += metric.lines()
        for name, (help_text, value) in gauges.items():
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"


def _labelled(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    pairs = (f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

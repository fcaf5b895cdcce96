"""What every test shares: how hard hypothesis tries, and that what is started can be interrupted.

No deadline: a shared machine stalls now and then, and time is measured in bench/. CI looks further
than a quick run at a desk, and both print the blob that reproduces a failure.
"""

import os
import signal
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from tests import servers

settings.register_profile(
    "develop", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("develop"), max_examples=200)
settings.load_profile("ci" if os.environ.get("CI") else "develop")

# In the background of a shell, interrupts are ignored, and whoever is started there inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_database_is_left():
    """What a test and its own fixtures make in a server is dropped after it."""
    with servers.databases_dropped():
        yield


def pytest_sessionfinish():
    """Stop servers while there is time: a worker that ends slowly is killed, and they would outlive it."""
    servers.remove_all()


def pytest_terminal_summary(terminalreporter):
    """How many items of the corpus keep each promise, over all processes."""
    kept, judged = Counter(), Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "corpus" and report.when == "call":
                    promise, good, number = value
                    kept[promise] += good
                    judged[promise] += number
    for promise, number in judged.items():
        terminalreporter.write_line(f"corpus: {promise} {kept[promise]:,} of {number:,}")

"""What the conformance suites share."""

from __future__ import annotations

import pytest

from tests.conformance import general as ways


@pytest.fixture
def general():
    """Translation without any shortcut."""
    return ways.general

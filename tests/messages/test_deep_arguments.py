"""Arguments that nest without end have a digest like any other text, and nobody walks all the way down."""

from __future__ import annotations

import pytest

import cannery
from cannery.messages import json_text


@pytest.mark.parametrize("text", ["[" * 5_000_000, '{"a":' * 1_000_000, '["' + "[" * 5_000_000])
def test_a_digest_of_deep_arguments(text: str, monkeypatch: pytest.MonkeyPatch):
    counted: list[int] = []
    count = json_text.depth

    def spy(*given):
        counted.append(count(*given))
        return counted[-1]

    monkeypatch.setattr(json_text, "depth", spy)
    call = cannery.invocation("c1", "f", text)
    again = cannery.invocation("c2", "f", text)
    assert cannery.digest(call) == cannery.digest(again)
    assert all(levels <= json_text.MAX_DEPTH + 1 for levels in counted)

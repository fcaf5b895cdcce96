"""What the conformance suites share."""

from __future__ import annotations

import msgspec
import pytest

import cannery
from cannery import translation
from cannery.dialects import find_dialect

SHORTCUTS = (
    "read_plain",
    "write_plain",
    "write_fast",
    "write_turns",
    "read_slices",
    "write_slices",
    "read_paths",
    "read_line",
    "write_lines",
)


@pytest.fixture
def general(monkeypatch: pytest.MonkeyPatch):
    """Translation without any shortcut."""

    def find(name: str):
        return msgspec.structs.replace(find_dialect(name), **dict.fromkeys(SHORTCUTS))

    def translate(body: bytes, source: str, target: str, **options: str):
        with monkeypatch.context() as patch:
            patch.setattr(translation, "find_dialect", find)
            patch.setattr(translation, "_LANES", {})
            patch.setattr(translation, "_lane", lambda *_: None)
            patch.setattr(translation, "_ways", lambda *_: None)
            return cannery.translate(body, source=source, target=target, **options)

    return translate

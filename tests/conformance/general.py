"""Translation without any shortcut, which every shortcut is held against."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

import cannery
from cannery import translation
from cannery.dialects import find_dialect

# What a dialect may have beside its general readers and writers.
SHORTCUTS = (
    "read_plain",
    "write_plain",
    "plan_turns",
    "read_slices",
    "write_slices",
    "read_paths",
    "read_line",
    "write_lines",
    "write_reply",
)
# Where a translation turns to one of them.
TURNINGS = ("_planner", "ways", "translate_slices", "translate_line", "translate_plain")


def find_general(name: str) -> Any:
    """A dialect that has nothing else."""
    return msgspec.structs.replace(find_dialect(name), **dict.fromkeys(SHORTCUTS))


@contextmanager
def the_general_way() -> Iterator[None]:
    """No shortcut from here to there."""
    with pytest.MonkeyPatch.context() as patch:
        # What a shortcut remembers of dialects must never be one of these.
        patch.setattr(translation, "find_dialect", find_general)
        for name in TURNINGS:
            patch.setattr(translation, name, lambda *_: None)
        yield


def general(body: bytes, source: str, target: str, **options: Any) -> cannery.Rendered:
    """Translation in the general way."""
    with the_general_way():
        return cannery.translate(body, source=source, target=target, **options)

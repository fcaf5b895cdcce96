"""Comparing JSON values to the letter of their types: true is not 1, and 1 is not 1.0."""

from __future__ import annotations

from typing import Any


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same, with the same types."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(
            same(value, other[key]) for key, value in one.items()
        )
    if type(one) is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)

"""The dialects: every module here is one wire format and has one value, ``DIALECT``.

A dialect is found by its module's name, or by one of the short names in its value. Dialects never import each other;
code shared by two of them is in ``cannery.families`` or ``cannery.wire``.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import TYPE_CHECKING

from cannery.errors import UnknownDialectError

if TYPE_CHECKING:
    from cannery.wire.contract import Dialect


@lru_cache(maxsize=1)
def dialect_names() -> tuple[str, ...]:
    """The names of all dialects, sorted."""
    import pkgutil

    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@lru_cache(maxsize=64)
def find_dialect(name: str) -> Dialect:
    """The dialect with a name or short name; UnknownDialectError lists the known names."""
    if name in dialect_names():
        found: Dialect = importlib.import_module(f"cannery.dialects.{name}").DIALECT
        return found
    for dialect in all_dialects():
        if name in dialect.short_names:
            return dialect
    raise UnknownDialectError(str(name), dialect_names(), _nearest(str(name)))


def is_dialect(name: str) -> bool:
    """Whether a dialect has this name or short name."""
    return name in dialect_names() or any(name in each.short_names for each in all_dialects())


@lru_cache(maxsize=1)
def all_dialects() -> tuple[Dialect, ...]:
    """Every dialect, sorted by name."""
    return tuple(map(find_dialect, dialect_names()))


def _nearest(name: str) -> str | None:
    """The dialect that was probably meant: one with a similar name, or with this word in its name."""
    import difflib

    meant = name.lower().replace("-", "_")
    close = difflib.get_close_matches(meant, dialect_names(), n=1)
    alike = [known for known in dialect_names() if meant in known.split("_")]
    return next(iter([*close, *alike]), None)

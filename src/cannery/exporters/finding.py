"""The export formats, found by the names of their modules."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from cannery.errors import NotFoundError
from cannery.exporters import formats
from cannery.exporters.contract import Exporter


@cache
def exporter_names() -> tuple[str, ...]:
    """The names of all formats, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(formats.__path__)))


def find_exporter(name: str) -> Exporter:
    """The exporter with a name; NotFoundError lists the known ones."""
    if name not in exporter_names():
        raise NotFoundError(f"no export format {name!r}; there are {', '.join(exporter_names())}")
    found: Exporter = importlib.import_module(f"{formats.__name__}.{name}").EXPORTER
    return found

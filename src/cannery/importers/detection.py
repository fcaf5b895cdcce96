"""Which format a source has: each is asked how sure it is, and the surest wins."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import lru_cache

from cannery.errors import InputError, NotFoundError
from cannery.importers.contract import Detection, Format, Sample
from cannery.importers.sources import Source


@lru_cache(maxsize=1)
def format_names() -> tuple[str, ...]:
    """The names of all formats, sorted."""
    package = importlib.import_module("cannery.importers.formats")
    return tuple(sorted(module.name for module in pkgutil.iter_modules(package.__path__)))


@lru_cache(maxsize=64)
def find_format(name: str) -> Format:
    """The format of a name; NotFoundError says which there are."""
    if name not in format_names():
        near = difflib.get_close_matches(str(name), format_names(), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise NotFoundError(f"unknown format {name!r}.{hint} Known: {', '.join(format_names())}")
    found: Format = importlib.import_module(f"cannery.importers.formats.{name}").FORMAT
    return found


def detect_format(source: Source) -> tuple[Format, Detection]:
    """The format of a source and how that was told; InputError if it is none that is known."""
    sample = source.sample()
    found = []
    for name in format_names():
        candidate = find_format(name)
        detection = candidate.detect(sample)
        if detection is not None:
            found.append((detection.confidence, candidate, detection))
    if not found:
        told = f"{source.name}: {_reason(sample)}"
        raise InputError(f"{told}; there are {', '.join(format_names())}")
    _, surest, detection = max(found, key=lambda each: each[0])
    return surest, detection


def _reason(sample: Sample) -> str:
    """Why nothing of a known format begins like this."""
    if sample.problems:
        return f"no known format, {sample.problems[0]}"
    if not sample.head.strip():
        return "it is empty"
    return "no known format" if sample.objects else "no known format, nor any JSON objects"

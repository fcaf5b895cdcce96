"""Functions that are found when they are first called.

A program that translates one request needs neither streams nor answers nor errors; their modules are loaded by those
who do.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def later(package: str, module: str, name: str) -> Callable[..., Any]:
    """A function or class of a package's module that is imported at the first call."""
    found: Callable[..., Any] | None = None

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal found
        if found is None:
            found = getattr(import_module(call.__module__), name)
        return found(*arguments, **named)

    call.__module__, call.__name__ = f"{package}.{module}", name
    return call

"""Functions that are found when they are first called.

A program that translates one request needs neither streams nor answers nor errors; their modules are loaded by those
who do. Who calls one again and again asks for it first (``loaded``), and is spared a call between.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def later(package: str, module: str, name: str) -> Callable[..., Any]:
    """A function or class of a package's module that is imported at the first call."""
    found: Callable[..., Any] | None = None

    def load() -> Callable[..., Any]:
        nonlocal found
        if found is None:
            found = getattr(import_module(f"{package}.{module}"), name)
        return found

    def call(*arguments: Any, **named: Any) -> Any:
        return (found or load())(*arguments, **named)

    call.__module__, call.__name__ = f"{package}.{module}", name
    call.load = load  # type: ignore[attr-defined]
    return call


def loaded(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a function stands for that is found later, found now; any other function itself."""
    load = getattr(function, "load", None)
    return function if load is None else load()

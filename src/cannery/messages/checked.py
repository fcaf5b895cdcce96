"""Construction of model values: checked for callers, unchecked for decoders.

Calling a class runs its ``_make``, which validates and then builds the struct with ``trusted``. Decoders that have
already checked their input (msgspec, the storage codec, the dialects) build structs directly without this cost.

CPython itself has one way past the checks: a line of code that has called builtin classes (``dict``, ``list``) some ten
times calls any other class without asking its metaclass. Such a line, given one of our classes, gets the unchecked
constructor.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from math import isfinite
from typing import Any, ClassVar, Self

import msgspec

from cannery.errors import MessageError

trusted: Callable[..., Any] = msgspec.StructMeta.__call__
_REQUIRED = object()


class CheckedMeta(msgspec.StructMeta):
    """A struct type whose call goes through the class's own ``_make``."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - a metaclass
        try:
            return cls._make(*args, **kwargs)  # type: ignore[attr-defined]
        except TypeError as error:
            # A wrong argument list: name the class in the error, as Python would.
            text = str(error)
            if "_make()" not in text:
                raise
            raise TypeError(re.sub(r"\w+\._make\(\)", f"{cls.__name__}()", text)) from None


def maker(cls: Any) -> Callable[..., Any]:
    """The unchecked constructor of a class: fields by position, in the order of the struct."""
    make: Callable[..., Any] = trusted.__get__(cls)
    return make


class CheckedStruct(msgspec.Struct, frozen=True, gc=False, metaclass=CheckedMeta):
    """A value whose constructor takes its fields as they are and checks those that were given.

    ``checks`` has a function for each field: it takes the place and the value, and returns the value to keep.
    """

    checks: ClassVar[dict[str, Callable[[str, Any], Any]]] = {}

    @classmethod
    def _make(cls, *args: Any, **kwargs: Any) -> Any:
        made = trusted(cls, *args, **kwargs)
        changed = {}
        for name, default, check in _plan(cls):
            value = getattr(made, name)
            if value is not default:
                kept = check(f"{cls.__name__}.{name}", value)
                if kept is not value:
                    changed[name] = kept
        return with_fields(made, changed) if changed else made

    def replace(self, **changes: Any) -> Self:
        """A new value with some facts changed; the others are kept."""
        cls = type(self)
        unknown = changes.keys() - set(cls.__struct_fields__)
        if unknown:
            raise TypeError(f"{cls.__name__} has no field {min(unknown)!r}")
        for name, default, check in _plan(cls):
            if name in changes and changes[name] is not default:
                changes[name] = check(f"{cls.__name__}.{name}", changes[name])
        return with_fields(self, changes)  # type: ignore[no-any-return]

    __replace__ = replace

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self), *(getattr(self, name) for name in self.__struct_fields__))


@functools.cache
def _plan(cls: type[CheckedStruct]) -> tuple[tuple[str, Any, Callable[[str, Any], Any]], ...]:
    """Each field of a class with its default and its check."""
    fields, defaults = cls.__struct_fields__, cls.__struct_defaults__
    values = (_REQUIRED,) * (len(fields) - len(defaults)) + defaults
    return tuple(
        (name, default, cls.checks[name]) for name, default in zip(fields, values, strict=True)
    )


def with_fields(value: msgspec.Struct, changes: dict[str, Any]) -> Any:
    """A copy of a value with some fields changed, unchecked."""
    return msgspec.structs.replace(value, **changes)


def rebuild(cls: type[msgspec.Struct], *fields: Any) -> Any:
    """Rebuild a value from its class and fields, unchecked, for pickle."""
    return maker(cls)(*fields)


def check_text(where: str, value: object) -> str:
    """Refuse a value that is not text, or that UTF-8 cannot encode."""
    if not isinstance(value, str):
        raise MessageError(where, f"expected text (str), got {type(value).__name__}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise MessageError(
                where,
                f"lone surrogate U+{ord(value[error.start]):04X} at character {error.start}; "
                "text must be valid Unicode",
            ) from None
    return value if type(value) is str else str.__str__(value)


def check_name(where: str, value: object) -> str:
    """Refuse a value that is not text, or is empty."""
    text = check_text(where, value)
    if not text.strip():
        raise MessageError(where, "must not be empty")
    return text


def check_flag(where: str, value: object) -> bool:
    """Refuse a value that is neither True nor False."""
    if not isinstance(value, bool):
        raise MessageError(where, f"expected True or False, got {type(value).__name__}")
    return value


def check_items(where: str, value: object) -> tuple[Any, ...]:
    """Refuse a value that is not iterable, and text, which is iterable but never meant here."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise MessageError(where, f"expected several values, got {type(value).__name__}")
    return tuple(value)


def check_instance(where: str, value: object, cls: type) -> Any:
    """Refuse a value that is not an instance of a class."""
    if not isinstance(value, cls):
        raise MessageError(where, f"expected {cls.__name__}, got {type(value).__name__}")
    return value


def check_facts(where: str, value: msgspec.Struct, numbers: tuple[str, ...] = ()) -> None:
    """Refuse an unchecked struct whose fields are not text, or not valid numbers."""
    fields = value.__struct_fields__
    required = fields[: len(fields) - len(value.__struct_defaults__)]
    for name in fields:
        fact = getattr(value, name)
        if fact is None and name not in required:
            continue
        if name not in numbers:
            check_text(f"{where}.{name}", fact)
        else:
            check_whole(f"{where}.{name}", fact)


def check_whole(where: str, value: object) -> int:
    """Refuse a value that is not an integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise MessageError(where, f"expected int, got {type(value).__name__}")
    return int(value)


def check_number(where: str, value: object) -> float:
    """Refuse a value that is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise MessageError(where, f"expected a number, got {type(value).__name__}")
    if not isfinite(value):
        raise MessageError(where, f"{value} is not a number that JSON can say")
    return value


def check_timestamp(where: str, value: object) -> datetime:
    """Refuse a timestamp without a time zone."""
    if not isinstance(value, datetime):
        raise MessageError(where, f"expected a datetime, got {type(value).__name__}")
    if value.utcoffset() is None:
        raise MessageError(
            where, "naive timestamp; give it a time zone, for example datetime.now(datetime.UTC)"
        )
    return value


def now() -> datetime:
    """The current time, with a time zone."""
    return datetime.now(UTC)

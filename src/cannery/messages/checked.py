"""How values of the model are made: checked when a person makes one, trusted when a decoder does.

Calling a class runs its ``_make``, which validates and then builds the struct with ``trusted``.
Decoders that have already checked their input (msgspec, the storage codec, the dialects) build
structs directly and pay nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from cannery.errors import MessageError

if TYPE_CHECKING:
    from collections.abc import Callable

trusted: Callable[..., Any] = msgspec.StructMeta.__call__
_MAKE = re.compile(r"\w+\._make\(\)")


class CheckedMeta(msgspec.StructMeta):
    """A struct type whose call goes through the class's own ``_make``."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - a metaclass
        try:
            return cls._make(*args, **kwargs)  # type: ignore[attr-defined]
        except TypeError as error:
            # A wrong argument list: say it in the class's own name, as Python would.
            text = str(error)
            if "_make()" not in text:
                raise
            raise TypeError(_MAKE.sub(f"{cls.__name__}()", text)) from None


def maker(cls: Any) -> Callable[..., Any]:
    """The unchecked constructor of a class: fields by position, as the struct has them."""
    make: Callable[..., Any] = trusted.__get__(cls)
    return make


def check_text(where: str, value: object) -> str:
    """Refuse what is not text that UTF-8 can say."""
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
    """Refuse what is not text, or says nothing."""
    text = check_text(where, value)
    if not text.strip():
        raise MessageError(where, "must not be empty")
    return text


def check_flag(where: str, value: object) -> bool:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise MessageError(where, f"expected True or False, got {type(value).__name__}")
    return value


def check_items(where: str, value: object) -> tuple[Any, ...]:
    """Refuse what cannot be iterated, and text, which can but never should be."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise MessageError(where, f"expected several values, got {type(value).__name__}")
    return tuple(value)


def check_instance(where: str, value: object, cls: type) -> Any:
    """Refuse what is not of a class."""
    if not isinstance(value, cls):
        raise MessageError(where, f"expected {cls.__name__}, got {type(value).__name__}")
    return value


def check_facts(where: str, value: msgspec.Struct, numbers: tuple[str, ...] = ()) -> None:
    """Refuse an unchecked struct whose fields are not text, or not the numbers they should be."""
    fields = value.__struct_fields__
    required = fields[: len(fields) - len(value.__struct_defaults__)]
    for name in fields:
        fact = getattr(value, name)
        if fact is None and name not in required:
            continue
        if name not in numbers:
            check_text(f"{where}.{name}", fact)
        elif type(fact) is not int:
            raise MessageError(f"{where}.{name}", f"expected int, got {type(fact).__name__}")


def check_timestamp(where: str, value: object) -> datetime:
    """Refuse a time that does not say where on Earth it holds."""
    if not isinstance(value, datetime):
        raise MessageError(where, f"expected a datetime, got {type(value).__name__}")
    if value.utcoffset() is None:
        raise MessageError(
            where, "naive timestamp; give it a time zone, for example datetime.now(datetime.UTC)"
        )
    return value


def now() -> datetime:
    """The current time, aware."""
    return datetime.now(UTC)

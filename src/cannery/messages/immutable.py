"""Deeply immutable JSON values: ``Dictionary`` for objects, ``Array`` for lists.

They compare equal to the plain dict or list that they were made from and hash by value. Nothing reachable from one can
be changed.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, cast

from msgspec import Struct
from msgspec.structs import force_setattr

from cannery.errors import MessageError
from cannery.messages.checked import CheckedMeta, check_items, check_text, maker

# Deeper values are refused: otherwise the caller's stack would decide whether they can be walked.
MAX_DEPTH = 128
_SCALARS = frozenset({int, bool, type(None)})


class Array(tuple[Any, ...]):
    """An immutable list; equal to a list or tuple of the same items."""

    __slots__ = ()

    def __new__(cls, items: Iterable[Any] = ()) -> Self:
        """Build an array from JSON values; any other value is refused with its position."""
        return cast("Self", freeze(check_items("Array", items), "Array"))

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return f"Array({list(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Array, (thaw(self),)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Dictionary(Struct, frozen=True, gc=False, eq=False, metaclass=CheckedMeta):
    """An immutable mapping whose values are immutable too; equal to a dict of the same items."""

    _proxy: MappingProxyType[str, Any] = MappingProxyType({})

    if TYPE_CHECKING:

        def __init__(
            self, items: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /, **more: Any
        ) -> None: ...

    @classmethod
    def _make(cls, items: Any = (), /, **more: Any) -> Dictionary:
        if isinstance(items, cls) and not more:
            return items
        try:
            plain = dict(items, **more)
        except (TypeError, ValueError):
            raise MessageError(
                "Dictionary", f"expected a mapping or pairs, got {type(items).__name__}"
            ) from None
        return freeze(plain, "Dictionary")  # type: ignore[no-any-return]

    def __post_init__(self) -> None:
        # CPython (3.11 to 3.14) calls a class past its metaclass if the same line of code has called builtin classes
        # before: ``convert(value)`` with dict, then with Dictionary.
        given: Any = self._proxy
        if type(given) is not MappingProxyType:
            force_setattr(self, "_proxy", MappingProxyType(dict(Dictionary._make(given).items())))

    def __getitem__(self, key: str) -> Any:
        return self._proxy[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._proxy)

    def __len__(self) -> int:
        return len(self._proxy)

    def __contains__(self, key: object) -> bool:
        return key in self._proxy

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or a default."""
        return self._proxy.get(key, default)

    def keys(self) -> KeysView[str]:
        """The keys, in the order given."""
        return self._proxy.keys()

    def values(self) -> ValuesView[Any]:
        """The values, in the order given."""
        return self._proxy.values()

    def items(self) -> ItemsView[str, Any]:
        """The pairs, in the order given."""
        return self._proxy.items()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return len(self) == len(other) and all(
            key in other and other[key] == value for key, value in self._proxy.items()
        )

    def __hash__(self) -> int:
        return hash(frozenset(self._proxy.items()))

    def __repr__(self) -> str:
        return f"Dictionary({dict(self._proxy)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Dictionary, (thaw(self),)

    def __copy__(self) -> Dictionary:
        return self

    def __deepcopy__(self, memo: object) -> Dictionary:
        return self

    def __replace__(self, **changes: Any) -> Dictionary:
        return Dictionary(self._proxy, **changes)


Mapping.register(Dictionary)
_dictionary = maker(Dictionary)


def freeze(value: Any, where: str = "value") -> Any:
    """The immutable form of a JSON value; a value that JSON cannot express is refused with its place."""
    try:
        return _freeze(value, MAX_DEPTH)
    except _Refused as refused:
        path = "" if isinstance(refused, _TooDeep) else "".join(reversed(refused.path))
        raise MessageError(f"{where}{path}", refused.problem) from None


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """The reason why a value cannot be frozen; the path grows on the way out, so that success costs nothing."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        self.path: list[str] = []


class _TooDeep(_Refused):
    """Raised without its path, which would be unreadably long."""

    def __init__(self) -> None:
        super().__init__(f"nested more than {MAX_DEPTH} levels deep")


def _freeze(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind is str:
        return _frozen_text(value)
    if kind is float:
        if not isfinite(value):
            raise _Refused(f"{value} is not a JSON number")
        return value
    if kind in _SCALARS or (kind is Dictionary and depth == MAX_DEPTH):
        return value
    if isinstance(value, Mapping):
        return _freeze_object(value, depth)
    if isinstance(value, (list, tuple)):
        return _freeze_list(value, depth)
    if isinstance(value, (str, int, float)):
        return _freeze(_plain_scalar(value), depth)
    raise _Refused(f"{kind.__name__} is not a JSON value")


def _frozen_text(value: str) -> str:
    try:
        return check_text("", value)
    except MessageError as error:
        raise _Refused(error.problem) from None


def _freeze_object(value: Mapping[Any, Any], depth: int) -> Dictionary:
    if depth <= 0:
        raise _TooDeep
    frozen = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise _Refused(f"a key must be text (str), got {type(key).__name__}")
        try:
            frozen[_freeze(key, 0)] = _freeze(item, depth - 1)
        except _Refused as refused:
            refused.path.append(f".{key}" if key.isidentifier() else f"[{key!a}]")
            raise
    return _dictionary(MappingProxyType(frozen))  # type: ignore[no-any-return]


def _freeze_list(value: Iterable[Any], depth: int) -> Array:
    if depth <= 0:
        raise _TooDeep
    frozen = []
    for item in value:
        try:
            frozen.append(_freeze(item, depth - 1))
        except _Refused as refused:
            refused.path.append(f"[{len(frozen)}]")
            raise
    return tuple.__new__(Array, frozen)


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, int) else float(value)


def thaw(value: Any) -> Any:
    """The plain dicts and lists that JSON encoders accept."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [thaw(item) for item in value]
    return value

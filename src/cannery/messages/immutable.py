"""Deeply immutable JSON values: ``Dictionary`` for objects, ``Array`` for lists.

They compare equal to the plain dict or list that they were made from and hash by value. Nothing that can be reached
from one can be changed.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cannery.errors import MessageError
from cannery.messages.checked import CheckedMeta, check_text, maker

_SCALARS = frozenset({str, int, float, bool, type(None)})


class Array(tuple[Any, ...]):
    """An immutable list; equal to a list or tuple of the same items."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return repr(list(self))


class Dictionary(Struct, frozen=True, gc=False, eq=False, metaclass=CheckedMeta):
    """An immutable mapping whose values are immutable too; equal to a dict of the same items."""

    _proxy: MappingProxyType[str, Any]

    if TYPE_CHECKING:

        def __init__(
            self, items: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /, **more: Any
        ) -> None: ...

    @classmethod
    def _make(cls, items: Any = (), /, **more: Any) -> Dictionary:
        if isinstance(items, cls) and not more:
            return items
        return freeze(dict(items, **more), "Dictionary")  # type: ignore[no-any-return]

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


Mapping.register(Dictionary)
_dictionary = maker(Dictionary)


def freeze(value: Any, where: str = "value") -> Any:
    """The immutable form of a JSON value; refuses what JSON cannot say, naming the place."""
    if type(value) in _SCALARS:
        return check_text(where, value) if type(value) is str else value
    if isinstance(value, Mapping):
        if isinstance(value, Dictionary):
            return value
        return _dictionary(
            MappingProxyType(
                {
                    check_text(f"{where} key", key): freeze(item, f"{where}.{key}")
                    for key, item in value.items()
                }
            )
        )
    if isinstance(value, (list, tuple)):
        return Array(freeze(item, f"{where}[{index}]") for index, item in enumerate(value))
    if isinstance(value, (str, bool, int, float)):
        return freeze(_plain_scalar(value), where)
    raise MessageError(where, f"{type(value).__name__} is not a JSON value")


def _plain_scalar(value: Any) -> Any:
    for base in (str, bool, int, float):
        if isinstance(value, base):
            return base(value)
    return value


def thaw(value: Any) -> Any:
    """The plain dicts and lists that JSON encoders know."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [thaw(item) for item in value]
    return value

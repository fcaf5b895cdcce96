"""Fields that no wire has: the decoders that make canisters straight of a body refuse them by name and by type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    Hidden = Annotated[T, "hidden"]
else:

    class Hidden:
        """The type of a hidden field as a decoder sees it; no JSON value is one."""

        def __class_getitem__(cls, kind: object) -> type[Hidden]:
            return cls


def hidden(*fields: str) -> dict[str, str]:
    """Names for hidden fields that no wire is known to use, so that none stands in the way of a wire's own key."""
    return {field: f"\ue000{field}" for field in fields}

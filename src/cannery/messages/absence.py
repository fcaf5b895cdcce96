"""``absent``: the one value for "not given".

It differs from None, "" and an empty list, each of which a caller may have given.
"""

from __future__ import annotations

import enum
from typing import Final, TypeAlias, TypeVar, Union

T = TypeVar("T")


class AbsentType(enum.Enum):
    """The type of ``absent``; it has no other value."""

    absent = "absent"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "absent"


absent: Final = AbsentType.absent
Absential: TypeAlias = Union[T, AbsentType]  # noqa: UP007 - subscripted at run time: Absential[str]

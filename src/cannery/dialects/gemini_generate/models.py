"""What depends on the model: which generation it is of, and whose signatures it can read."""

from __future__ import annotations

import re

from cannery.wire.contract import Rules

STAND_IN = "context_engineering_is_the_way_to_go"
_MODEL = re.compile(r"gemini-(\d+)(?:\.(\d+))?(?:-(pro|flash-lite|flash|ultra|nano))?")

# Function names: google-genai 3.1.0 documents a letter or underscore, then letters, digits, _ . : -, at most 128.
RULES = Rules(
    alternates=True,
    starts_with_user=True,
    ends_with_user=True,
    refuses_blank_text=True,
    late_supervisors="fold",
    name_pattern=r"[A-Za-z_][A-Za-z0-9_.:-]*",
    name_length=128,
    cache_marks=1_000_000,
    knows_developer=False,
    takes_reasoning_text=True,
)
_OLDER = Rules(
    **{name: getattr(RULES, name) for name in RULES.__struct_fields__} | {"ends_with_user": False}
)


def generation(model: str | None) -> tuple[int, int] | None:
    """The version of a Gemini model; None for any other name."""
    found = _MODEL.search(model or "")
    return None if found is None else (int(found[1][:4]), int((found[2] or "0")[:4]))


def rules_for(model: str | None) -> Rules:
    """The rules for one model; a name that says nothing gets those of the newest."""
    version = generation(model)
    return RULES if version is None or version >= (2, 5) else _OLDER


def needs_signatures(model: str | None) -> bool:
    """Whether the first call of each step must be signed."""
    version = generation(model)
    return version is not None and version >= (3, 0)


def takes_levels(model: str | None) -> bool:
    """Whether thinking is set by a level and not by a budget of tokens."""
    version = generation(model)
    return version is None or version >= (3, 0)


def same_family(one: str | None, other: str | None) -> bool:
    """Whether one model reads what another signed; unknown models get the benefit of the doubt."""
    if one is None or other is None:
        return True
    return _family(one) == _family(other)


def _family(model: str) -> str:
    found = _MODEL.search(model)
    return model if found is None else found[0]

"""Facts that depend on the model: its generation, and whose signatures it can read."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from cannery.wire.contract import Rules
from cannery.wire.foreign import STAND_INS

STAND_IN = STAND_INS[0]
_MODEL = re.compile(r"gemini-(\d+)(?:\.(\d+))?(?:-(pro|flash-lite|flash|ultra|nano))?")

# Function names: google-genai 3.1.0 documents a letter or underscore, then letters, digits, _ . : -, at most 128.
RULES = Rules(
    alternates=True,
    starts_with_user=True,
    ends_with_user=True,
    refuses_blank_text=True,
    signs_blank_text="gemini_generate",
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


# Steps need not alternate.
_OF_STEPS = Rules(
    **{name: getattr(RULES, name) for name in RULES.__struct_fields__}
    | {"alternates": False, "signs_blank_text": ""}
)


def generation(model: str | None) -> tuple[int, int] | None:
    """The version of a Gemini model; None for any other name."""
    found = _MODEL.search(model or "")
    return None if found is None else (int(found[1][:4]), int((found[2] or "0")[:4]))


def rules_for(model: str | None) -> Rules:
    """The rules for one model; an unknown name gets those of the newest."""
    version = generation(model)
    return RULES if version is None or version >= (2, 5) else _OLDER


def rules_of_steps(model: str | None) -> Rules:
    """The same for a dialect of steps."""
    if rules_for(model).ends_with_user:
        return _OF_STEPS
    return replace(_OF_STEPS, ends_with_user=False)


def needs_signatures(model: str | None) -> bool:
    """Whether the first call of each step must be signed; no placeholder is made for an unknown model."""
    version = generation(model)
    return version is not None and version >= (3, 0)


def takes_levels(model: str | None) -> bool:
    """Whether thinking is set by a level and not by a token budget."""
    version = generation(model)
    return version is None or version >= (3, 0)


class Budgets(Struct, frozen=True, gc=False):
    """The thinking budgets that a model accepts."""

    least: int
    most: int
    may_be_off: bool


# https://ai.google.dev/gemini-api/docs/thinking, read 2026-11-15.
_BUDGETS = {
    "pro": Budgets(128, 32_768, may_be_off=False),
    "flash": Budgets(1, 24_576, may_be_off=True),
    "flash-lite": Budgets(512, 24_576, may_be_off=True),
}


def thinks(model: str | None) -> bool:
    """Whether a model accepts thinking settings: Gemini 2.5 was the first that did."""
    version = generation(model)
    return version is None or version >= (2, 5)


def budgets(model: str | None) -> Budgets | None:
    """The budgets that a model accepts; None if unknown."""
    if generation(model) != (2, 5):
        return None
    return _BUDGETS.get(_MODEL.search(model or "")[3])  # type: ignore[index]


def least_level(model: str | None) -> str | None:
    """The lowest level of a model with levels, whose thinking cannot be switched off; None if unknown.

    Pro models and Flash from 3.7 on refuse MINIMAL (dograh-hq/dograh#689, read 2026-11-15).
    """
    version = generation(model)
    tier = _MODEL.search(model or "")[3] if version is not None else None  # type: ignore[index]
    if version is None or version < (3, 0) or tier not in _BUDGETS:
        return None
    return "LOW" if tier == "pro" or (tier == "flash" and version >= (3, 7)) else "MINIMAL"


def nearest_level(level: str, model: str | None) -> str:
    """The level that a model accepts in place of another; unchanged for an unknown model.

    Gemini 3 Pro accepts LOW and HIGH only (jenslys/opencode-gemini-auth#14); no model is documented to accept XHIGH.
    Read 2026-11-15.
    """
    if model is None:
        return level
    found = _MODEL.search(model)
    is_first_pro = found is not None and generation(model) == (3, 0) and found[3] == "pro"
    if level == "XHIGH" or (level == "MEDIUM" and is_first_pro):
        return "HIGH"
    return least_level(model) or level if level == "MINIMAL" else level


def same_family(one: str | None, other: str | None) -> bool:
    """Whether one model can read what another signed; assumed for unknown models."""
    if one is None or other is None:
        return True
    return _family(one) == _family(other)


def _family(model: str) -> str:
    found = _MODEL.search(model)
    return model if found is None else found[0]

"""Differences between Claude models, derived from their names: dated facts; no server is asked.

Sources: platform.claude.com, read 2026-11-15. An unknown name gets the rules that every model accepts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from msgspec.structs import replace

from cannery.wire.contract import Rules

_NAME = re.compile(
    r"claude-(?:(?P<old>\d)(?:[-.](?P<old_minor>\d))?-)?(?P<tier>[a-z]+)"
    r"(?:-(?P<major>\d{1,2})(?!\d)(?:[-.](?P<minor>\d{1,2})(?!\d))?)?"
)

# From this version on there are no thinking budgets and no sampling settings.
_ADAPTIVE_ONLY = (4, 7)

# The first version of each tier that accepts system messages among the others.
_NEVER = (99, 0)
_FIRST_WITH_SYSTEM = {
    "opus": (4, 8),
    "fable": (5, 0),
    "mythos": (5, 0),
    "sonnet": (5, 5),
    "haiku": (5, 5),
}


@lru_cache(maxsize=256)
def tier_and_version(model: str | None) -> tuple[str, tuple[int, int]] | None:
    """The tier and version in a model name; None if it is not a Claude model."""
    found = _NAME.search(model) if model else None
    if found is None:
        return None
    major = found["major"] or found["old"]
    minor = found["minor"] if found["major"] else found["old_minor"]
    return found["tier"], (int(major or 0), int(minor or 0))


def rules_by_model(rules: Rules) -> Callable[[str | None], Rules]:
    """The rules of each model, based on those that every model accepts."""
    variants = {
        (takes_system, refuses_prefill): replace(
            rules,
            late_supervisors="after_user" if takes_system else rules.late_supervisors,
            # Prefilled assistant turns are a 400 on Claude 4.6 and everything later.
            ends_with_user=refuses_prefill,
        )
        for takes_system in (False, True)
        for refuses_prefill in (False, True)
    }

    def rules_for(model: str | None) -> Rules:
        known = tier_and_version(model)
        if known is None:
            return rules
        return variants[_takes_system_messages(*known), known[1] >= (4, 6)]

    return rules_for


def _takes_system_messages(tier: str, version: tuple[int, int]) -> bool:
    """Whether a model accepts system messages among the others.

    Opus 4.8, Opus 5 and 5.5, Fable 5 and 5.1 and Mythos 5 and 5.1 do, Sonnet 5 does not
    (platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages); Sonnet 5.5 and Haiku 5.5 do
    (langchain-ai/langchainjs#11922). Read 2026-11-18. For an unknown tier they are folded.
    """
    return version >= _FIRST_WITH_SYSTEM.get(tier, _NEVER)


def is_same_family(one: str | None, other: str | None) -> bool:
    """Whether two models can read each other's signatures, judged by their names."""
    first, second = tier_and_version(one), tier_and_version(other)
    if first is None or second is None:
        return one is None or other is None or one == other
    return (first[0], first[1][0]) == (second[0], second[1][0])


def thinks_by_budget(model: str | None) -> bool:
    """Whether a model requires a token budget: adaptive thinking came with Claude 4.6."""
    known = tier_and_version(model)
    return known is not None and known[1] < (4, 6)


def takes_budgets(model: str | None) -> bool:
    """Whether a model accepts a token budget: Opus 4.7 and everything later think adaptively or not at all."""
    known = tier_and_version(model)
    return known is None or known[1] < _ADAPTIVE_ONLY


def can_think(model: str | None) -> bool:
    """Whether a model can think: the first was Sonnet 3.7. A name without a version is inconclusive."""
    known = tier_and_version(model)
    return known is None or not (0, 0) < known[1] < (3, 7)


def always_thinks(model: str | None) -> bool:
    """Whether thinking cannot be switched off.

    "thinking.type.disabled is not supported for this model" (ex-machina-co/opencode-anthropic-auth#159): Fable and
    Mythos. Read 2026-11-15.
    """
    known = tier_and_version(model)
    return known is not None and known[0] in ("fable", "mythos")


def takes_xhigh(model: str | None) -> bool:
    """Whether a model accepts the effort ``xhigh``: Opus 4.7, Sonnet 5 and everything later do.

    Source: code.claude.com/docs/en/model-config (luongnv89/claude-howto#96), read 2026-11-15.
    """
    known = tier_and_version(model)
    return known is None or known[1] >= _ADAPTIVE_ONLY or always_thinks(model)


def samplers(model: str | None) -> int:
    """How many of temperature and top_p a model accepts in one request.

    From Opus 4.1, Sonnet 4.5 and Haiku 4.5 on "temperature and top_p cannot both be specified for this model"
    (BerriAI/litellm#15097); from Opus 4.7 and Sonnet 5 on "temperature is deprecated for this model", and so are top_p
    and top_k (The-PR-Agent/pr-agent#2456, simstudioai/sim#5328). Read 2026-11-15.
    """
    known = tier_and_version(model)
    if known is None or known[1] < (4, 1):
        return 2
    return 1 if known[1] < _ADAPTIVE_ONLY else 0

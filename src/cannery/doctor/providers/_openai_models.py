"""Differences between OpenAI's models, by name. A name of another company's model has no known properties.

Sources: https://developers.openai.com/api/docs/guides/reasoning and the models' pages, read 2026-11-18; server errors
and requests that the server accepted (2025, 2026).
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Models of other companies with OpenAI's API have a slash or a colon in their names.
_NAME = re.compile(
    r"(?:(?P<series>o)(?P<number>\d)|gpt-(?P<major>\d+)(?:\.(?P<minor>\d+))?)(?P<rest>.*)"
)


class Model(NamedTuple):
    """A model of OpenAI: whether it reasons, its version, and the rest of its name."""

    name: str
    is_reasoning: bool
    version: tuple[int, int]
    rest: str

    @property
    def is_o_series(self) -> bool:
        """Whether it is one of o1, o3, o4."""
        return self.name.startswith("o")


def model_of(name: str | None) -> Model | None:
    """Parse the name of a model; None if it is not one of OpenAI's."""
    found = _NAME.fullmatch(name or "")
    if found is None or any(mark in found["rest"] for mark in "/:"):
        return None
    rest = found["rest"]
    if found["series"]:
        return Model(name or "", is_reasoning=True, version=(int(found["number"]), 0), rest=rest)
    version = int(found["major"]), int(found["minor"] or 0)
    is_plain = not rest or rest.startswith("-")
    is_reasoning = version >= (5, 0) and is_plain and not rest.startswith(("-chat", "-search"))
    return Model(name or "", is_reasoning=is_reasoning, version=version, rest=rest)


def refuses_sampling(model: Model | None, effort: object) -> bool:
    """Whether a model accepts only the default of temperature and top_p.

    o1, o3, o4 and GPT-5 always do; from GPT-5.1 on it depends on the effort, and without reasoning they accept other
    values.
    """
    if model is None or not model.is_reasoning:
        return False
    if model.is_o_series or model.version == (5, 0):
        return True
    return effort in ("minimal", "low", "medium", "high", "xhigh", "max")


def takes_max_tokens(model: Model | None) -> bool:
    """Whether a model accepts ``max_tokens`` in Chat Completions."""
    return model is None or not model.is_reasoning


def takes_stop(model: Model | None) -> bool:
    """Whether a model accepts ``stop``: o3, o4-mini and GPT-5 do not; o1 and o3-mini were recorded with it."""
    if model is None or not model.is_reasoning:
        return True
    return model.name.startswith(("o1", "o3-mini"))


def hears(model: Model | None) -> bool:
    """Whether a model accepts audio; unknown models are assumed to."""
    return model is None or "audio" in model.rest or "realtime" in model.rest


def searches(model: Model | None) -> bool:
    """Whether a model accepts ``web_search_options`` in Chat Completions."""
    return model is None or "search" in model.rest


def takes_instructions(model: Model | None) -> bool:
    """Whether a model accepts system and developer messages: o1-mini and o1-preview do not."""
    return model is None or not model.name.startswith(("o1-mini", "o1-preview"))

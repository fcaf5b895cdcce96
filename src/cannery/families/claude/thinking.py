"""Thinking settings of Claude, both ways: a switch, a token budget, or an effort.

Models before 4.6 think by a budget, later ones adaptively; some always think. Settings that conflict with thinking are
resolved here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from cannery.families.claude.models import (
    always_thinks,
    can_think,
    samplers,
    takes_budgets,
    takes_xhigh,
    thinks_by_budget,
)
from cannery.messages.absence import absent
from cannery.messages.requests import Thinking
from cannery.wire.bodies import Object
from cannery.wire.controls import (
    BUDGETS,
    effort_of,
    lose_thinking,
    put,
)
from cannery.wire.losses import Report
from cannery.wire.residues import set_again
from cannery.wire.setting_reading import NOT_READ, Reading, Said

DEFAULT_MAX_TOKENS = 4096
LEAST_BUDGET = 1024
# The limit if none is given: with it the answer's share stays within the 32 000 tokens that Opus 4 can write.
_MOST_BUDGET = 32_000 - DEFAULT_MAX_TOKENS
# The tokens that the shortest thinking must leave for the answer.
_LEAST_ANSWER = 512
# The smallest top_p that a thinking model accepts.
_LEAST_TOP_P = 0.95
_EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})
_THOUGHTS = ("thinking", "redacted_thinking")
_HIDDEN = ("omitted", "none")
# The modes in which a model thinks.
_MODES = ("enabled", "adaptive")


def read_mode(value: Any, reading: Reading) -> Said:
    """The thinking mode: whether the model thinks, and the other facts."""
    kind = value.get("type") if type(value) is dict else None
    if kind not in ("enabled", "disabled", "adaptive"):
        return NOT_READ
    del value["type"]
    found = reading.found
    found["adaptive"] = kind == "adaptive"
    if kind == "enabled" and type(value.get("budget_tokens")) is int:
        found["budget"] = value.pop("budget_tokens")
    if kind != "disabled" and type(value.get("display")) is str:
        found["summary"] = value.pop("display")
    return kind != "disabled", set_again(value)


def write_own_thinking(thinking: Thinking, body: Object) -> None:
    """Write thinking into a body of the same dialect."""
    if thinking.effort is not absent:
        body.setdefault("output_config", {})["effort"] = thinking.effort
    if thinking.enabled is absent:
        return
    if not thinking.enabled:
        body["thinking"] = {"type": "disabled"}
        return
    mode: Object = {"type": "adaptive" if thinking.adaptive else "enabled"}
    put(mode, "budget_tokens", thinking.budget)
    put(mode, "display", thinking.summary)
    body["thinking"] = mode


def write_thinking(thinking: Thinking, body: Object, report: Report) -> None:
    """Write thinking in a form that the server accepts: budget, effort with adaptive thinking, or switch."""
    model = body.get("model")
    is_off = thinking.enabled is False or thinking.effort == "none" or thinking.budget == 0
    if not can_think(model):
        if not is_off:
            lose_thinking(thinking, report, "this model cannot think")
        return
    if is_off:
        _write_off(thinking, body, report)
        return
    # A negative budget lets the model decide.
    is_given = isinstance(thinking.budget, int) and thinking.budget > 0
    budget: Any = thinking.budget if is_given else None
    effort = _effort(thinking, _words(model, is_given=is_given), report)
    if budget is not None and (thinking.adaptive or not takes_budgets(model)):
        effort = _effort_for(budget, effort, report)
        budget = None
    is_wanted = thinking.enabled is True or thinking.adaptive or thinking.budget is not absent
    if effort is None and not is_wanted:
        if thinking.summary not in (absent, *_HIDDEN):
            detail = "thoughts are shown only when thinking is on"
            report.lose("CONTROL_DROPPED", "@summary", detail)
        return
    mode = _mode(budget, effort, body, report)
    if mode is None:
        report.lose("CONTROL_DROPPED", "@thinking", "max_tokens leaves no room for thinking")
        return
    if thinking.summary is not absent:
        mode["display"] = "omitted" if thinking.summary in _HIDDEN else "summarized"
    body["thinking"] = mode


def _write_off(thinking: Thinking, body: Object, report: Report) -> None:
    if always_thinks(body.get("model")):
        body.setdefault("output_config", {})["effort"] = "low"
        detail = "this model always thinks, at least 'low'"
        report.lose("CONTROL_CHANGED", "@thinking", detail)
    else:
        body["thinking"] = {"type": "disabled"}
    if thinking.effort not in (absent, "none"):
        report.lose("CONTROL_DROPPED", "@effort", "thinking that is off takes no effort")


def _words(model: str | None, *, is_given: bool) -> Collection[str]:
    """The efforts that a model accepts, or that correspond to a budget."""
    if thinks_by_budget(model) and not is_given:
        return BUDGETS
    return _EFFORTS if takes_xhigh(model) else _EFFORTS - {"xhigh"}


def _effort(thinking: Thinking, known: Collection[str], report: Report) -> str | None:
    word = thinking.effort
    if not isinstance(word, str):
        return None
    if word in known:
        return word
    nearest = {"minimal": "low", "xhigh": "high"}.get(word, "medium")
    report.lose("CONTROL_CHANGED", "@effort", f"effort {word!r} became {nearest!r}")
    return nearest


def _effort_for(budget: int, effort: str | None, report: Report) -> str:
    """The effort for a budget, for a model that decides itself how much it thinks."""
    if effort is not None:
        report.lose("CONTROL_DROPPED", "@budget", "adaptive thinking has no token budget")
        return effort
    report.lose("CONTROL_CHANGED", "@budget", "a token budget became an effort")
    return effort_of(budget)


def _mode(budget: int | None, effort: str | None, body: Object, report: Report) -> Object | None:
    """The thinking mode; None if the limit leaves no room for thinking."""
    if not thinks_by_budget(body.get("model")):
        if effort is not None:
            body.setdefault("output_config", {})["effort"] = effort
        if budget is None:
            return {"type": "adaptive"}
    elif budget is None:
        fit = _bought(effort, body, report)
        return None if fit is None else {"type": "enabled", "budget_tokens": fit}
    elif effort is not None:
        report.lose("CONTROL_DROPPED", "@effort", "beside a budget there is no effort")
    fit = _fitted(budget, body, report)
    return None if fit is None else {"type": "enabled", "budget_tokens": fit}


def _bought(effort: str | None, body: Object, report: Report) -> int | None:
    """The budget for an effort; None if the limit leaves no room for one.

    The answer keeps half of the limit, or at least the tokens that the shortest thinking must leave.
    """
    limit, budget = body["max_tokens"], BUDGETS[effort or "medium"]
    if limit is None:
        budget = min(budget, _MOST_BUDGET)
    elif limit < LEAST_BUDGET + _LEAST_ANSWER:
        return None
    else:
        budget = max(min(budget, limit // 2), LEAST_BUDGET)
    place = "@thinking" if effort is None else "@effort"
    report.lose("CONTROL_CHANGED", place, "an effort became a token budget")
    return budget


def _fitted(budget: int, body: Object, report: Report) -> int | None:
    """A given budget, raised to the minimum and kept below the limit; None if both are not possible."""
    limit = body["max_tokens"]
    if limit is not None and limit < LEAST_BUDGET + _LEAST_ANSWER:
        return budget if LEAST_BUDGET <= budget < limit else None
    if budget < LEAST_BUDGET:
        report.lose("CONTROL_CHANGED", "@budget", f"a budget is at least {LEAST_BUDGET} tokens")
        return LEAST_BUDGET
    if limit is not None and budget >= limit:
        report.lose("CONTROL_CHANGED", "@budget", "half of max_tokens is left for the answer")
        return max(limit // 2, LEAST_BUDGET)  # type: ignore[no-any-return]
    return budget


def make_room(body: Object, messages: Sequence[Any], report: Report) -> None:
    """Resolve thinking, the limit, sampling, forced tools and the last turn against each other."""
    thinking = body.get("thinking")
    if thinking is not None and thinking.get("type") not in _MODES:
        thinking = None
    obstacle = None if thinking is None else _obstacle(body, messages)
    if obstacle is not None:
        report.lose("CONTROL_DROPPED", "@thinking", obstacle)
        del body["thinking"]
        thinking = None
    if body["max_tokens"] is None:
        limit = DEFAULT_MAX_TOKENS
        if thinking is not None:
            limit += thinking.get("budget_tokens", 0)
        body["max_tokens"] = limit
        report.lose("CONTROL_DEFAULTED", None, f"max_tokens is required; {limit} was sent")
    if thinking is not None:
        for name in ("temperature", "top_k"):
            if body.get(name, 1) != 1 or (name == "top_k" and name in body):
                del body[name]
                report.lose("CONTROL_DROPPED", f"@{name}", f"thinking allows no {name}")
        if body.get("top_p", 1) < _LEAST_TOP_P:
            body["top_p"] = _LEAST_TOP_P
            detail = f"thinking allows no top_p below {_LEAST_TOP_P}"
            report.lose("CONTROL_CHANGED", "@top_p", detail)
    if "temperature" in body and "top_p" in body and samplers(body.get("model")) < 2:
        del body["top_p"]
        report.lose("CONTROL_DROPPED", "@top_p", "this model takes temperature or top_p, not both")


def _obstacle(body: Object, messages: Sequence[Any]) -> str | None:
    """The reason why a model cannot think in this request."""
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        return "a forced tool leaves no room for thinking"
    if body["thinking"]["type"] == "enabled" and messages and _lacks_thought(messages):
        return "the last turn of the assistant was begun without a thought"
    return None


def _lacks_thought(messages: Sequence[Any]) -> bool:
    """Whether the model continues a turn in which it did not think.

    "When thinking is enabled, a final assistant message must start with a thinking block (preceding the lastmost set of
    tool_use and tool_result blocks)" (anomalyco/opencode#3077, read 2026-11-15). Adaptive thinking does not require it.
    """
    is_going_on = False
    for message in reversed(messages):
        content = message["content"]
        kinds = {block["type"] for block in content} if type(content) is not str else {"text"}
        if message["role"] == "user" and "tool_result" not in kinds:
            break
        if message["role"] == "assistant":
            is_going_on = True
            if content[0]["type"] in _THOUGHTS if type(content) is not str else False:
                return False
    return is_going_on

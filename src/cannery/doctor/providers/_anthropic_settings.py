"""Rules of Anthropic Messages for settings, by the model of a request; unknown models are not checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cannery.dialects.anthropic_messages.models import rules_for
from cannery.doctor.contract import SETTINGS, WARNING, Broken, Check, Judged, Object
from cannery.doctor.json_paths import at, is_blank, objects, put, remove, shown
from cannery.doctor.providers._anthropic_blocks import message_blocks, of_type
from cannery.doctor.providers._fields import ANTHROPIC, Fields, foreign_fields, unknown_fields
from cannery.doctor.shared import close_object, drop, open_objects, ranges, types
from cannery.families.claude.models import (
    always_thinks,
    can_think,
    samplers,
    takes_budgets,
    takes_xhigh,
    thinks_by_budget,
    tier_and_version,
)

_DEFAULT_LIMIT = 4096
_LEAST_BUDGET = 1024
_TYPES: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "messages": (list,),
    "max_tokens": (int,),
    "system": (str, list),
    "temperature": (float,),
    "top_p": (float,),
    "top_k": (int,),
    "stream": (bool,),
    "stop_sequences": (list,),
    "tools": (list,),
    "tool_choice": (dict,),
    "metadata": (dict,),
    "thinking": (dict,),
    "output_config": (dict,),
}
_MESSAGE = frozenset({"role", "content"})
_EFFORTS = ("low", "medium", "high", "xhigh", "max")


def _thinking(judged: Judged) -> Object:
    thinking = judged.body.get("thinking")
    return thinking if isinstance(thinking, dict) else {}


def _limit(judged: Judged) -> int | None:
    limit = judged.body.get("max_tokens")
    return limit if isinstance(limit, int) and not isinstance(limit, bool) else None


def _no_model(judged: Judged) -> Iterator[Broken]:
    if judged.model is None:
        yield ("model",), "model is required"


def _other_fields(fields: Fields) -> Callable[[Judged], Iterator[Broken]]:
    def find(judged: Judged) -> Iterator[Broken]:
        if tier_and_version(judged.model):
            yield from fields(judged.body, ANTHROPIC, ())
            for path, message in objects(judged.body.get("messages"), ("messages",)):
                yield from fields(message, _MESSAGE, path)

    return find


def _no_limit(judged: Judged) -> Iterator[Broken]:
    limit = judged.body.get("max_tokens")
    if limit is None:
        yield ("max_tokens",), "max_tokens is required"
    elif isinstance(limit, int) and limit < 1:
        yield ("max_tokens",), f"max_tokens is {limit}; it must be at least 1"


def _set_limit(judged: Judged, _: Any) -> str | None:
    judged.body["max_tokens"] = min(_DEFAULT_LIMIT, _most(judged.model) or _DEFAULT_LIMIT)
    return f"set max_tokens to {judged.body['max_tokens']}"


def _most(model: str | None) -> int | None:
    """The maximum of output tokens of a model; None if unknown."""
    known = tier_and_version(model)
    if known is None or known[1] == (0, 0):
        return None
    tier, version = known
    if version < (3, 5):
        return 4096
    if version < (3, 7):
        return 8192
    if version < (4, 0) or version >= (4, 6):
        return 128_000
    return 32_000 if tier == "opus" and version < (4, 5) else 64_000


def _over_limit(judged: Judged) -> Iterator[Broken]:
    limit, most = _limit(judged), _most(judged.model)
    if limit is not None and most is not None and limit > most:
        yield ("max_tokens",), f"max_tokens is {limit}; {judged.model} gives at most {most}"


def _lower_limit(judged: Judged, _: Any) -> str | None:
    judged.body["max_tokens"] = _most(judged.model)
    return f"set max_tokens to {judged.body['max_tokens']}"


def _budget(judged: Judged) -> Iterator[Broken]:
    thinking, limit = _thinking(judged), _limit(judged)
    budget = thinking.get("budget_tokens")
    path = ("thinking", "budget_tokens")
    if thinking.get("type") != "enabled" or not takes_budgets(judged.model):
        return
    if budget is None:
        yield path, "budget_tokens is required when thinking is enabled"
    elif not isinstance(budget, int) or budget < _LEAST_BUDGET:
        yield path, f"budget_tokens is {shown(budget)}; it must be at least {_LEAST_BUDGET}"
    elif limit is not None and budget >= limit and not _is_interleaved(judged):
        yield path, f"budget_tokens is {budget}; it must be less than max_tokens, which is {limit}"


def _is_interleaved(judged: Judged) -> bool:
    """Whether thinking may continue between calls, where the budget is for the whole turn."""
    known = tier_and_version(judged.model)
    return bool(judged.body.get("tools")) and (known is None or known[1] >= (4, 0))


def _set_budget(judged: Judged, _: Any) -> str | None:
    limit = _limit(judged) or 0
    if limit <= _LEAST_BUDGET:
        del judged.body["thinking"]
        return "removed thinking: max_tokens leaves no room for it"
    _thinking(judged)["budget_tokens"] = max(_LEAST_BUDGET, limit // 2)
    return f"set budget_tokens to {_thinking(judged)['budget_tokens']}"


def _thinking_model(judged: Judged) -> Iterator[Broken]:
    thinking, model = _thinking(judged), judged.model
    kind = thinking.get("type")
    if kind not in (None, "enabled", "adaptive", "disabled"):
        yield ("thinking", "type"), f"no thinking is of the type {shown(kind)}"
    if kind in ("enabled", "adaptive") and not can_think(model):
        yield ("thinking",), f"{model} does not think"
    elif kind == "enabled" and not takes_budgets(model):
        yield ("thinking",), f"{model} takes adaptive thinking only, no budget_tokens"
    elif kind == "adaptive" and tier_and_version(model) and thinks_by_budget(model):
        yield ("thinking",), f"{model} takes no adaptive thinking; it wants budget_tokens"
    if kind == "disabled" and always_thinks(model):
        yield ("thinking",), f"{model} always thinks; thinking cannot be disabled"


def _set_thinking(judged: Judged, _: Any) -> str | None:
    thinking = _thinking(judged)
    if thinking.get("type") == "enabled" and can_think(judged.model):
        judged.body["thinking"] = {"type": "adaptive"}
        return "set thinking to adaptive"
    del judged.body["thinking"]
    return "removed thinking"


def _sampling(judged: Judged) -> Iterator[Broken]:
    body, model = judged.body, judged.model
    given = [key for key in ("temperature", "top_p") if body.get(key) is not None]
    if not tier_and_version(model):
        return
    if samplers(model) == 0:
        for key in (*given, "top_k"):
            if body.get(key) is not None and (key == "top_k" or body[key] != 1):
                yield (key,), f"{model} does not take {key}"
    elif samplers(model) == 1 and len(given) == 2:
        yield ("top_p",), f"{model} takes temperature or top_p, not both"


def _while_thinking(judged: Judged) -> Iterator[Broken]:
    body = judged.body
    if _thinking(judged).get("type") not in ("enabled", "adaptive"):
        return
    if body.get("temperature") not in (None, 1, 1.0):
        yield ("temperature",), "while the model thinks, temperature can only be 1"
    if body.get("top_k") is not None:
        yield ("top_k",), "while the model thinks, top_k cannot be set"
    share = body.get("top_p")
    if isinstance(share, (int, float)) and share < 0.95:
        yield ("top_p",), "while the model thinks, top_p is between 0.95 and 1"


def _forced(judged: Judged) -> Iterator[Broken]:
    choice = judged.body.get("tool_choice")
    is_forced = isinstance(choice, dict) and choice.get("type") in ("any", "tool")
    if is_forced and _thinking(judged).get("type") == "enabled":
        yield ("tool_choice",), "while the model thinks by budget, no tool can be forced"


def _unthought(judged: Judged) -> Iterator[Broken]:
    """With thinking enabled the assistant turn that is being continued must begin with a thinking block."""
    messages = [each for each in judged.messages if isinstance(each, dict)]
    if _thinking(judged).get("type") != "enabled" or len(messages) < 2:
        return
    last = len(judged.messages) - 1
    results = of_type(message_blocks(judged.messages[last], ("messages", last)), "tool_result")
    if not results:
        return
    index = last - 1
    while index >= 0 and _is_working(judged.messages[index]):
        index -= 1
    place = index + 1
    first = message_blocks(judged.messages[place], ("messages", place)) if place < last else []
    if first and first[0][1].get("type") not in ("thinking", "redacted_thinking"):
        yield (
            first[0][0],
            "thinking is enabled, but the turn that goes on begins without a thinking block",
        )


def _is_working(message: Any) -> bool:
    """Whether a message belongs to a turn of calls and results."""
    blocks = message_blocks(message, ())
    if isinstance(message, dict) and message.get("role") == "assistant":
        return True
    return bool(of_type(blocks, "tool_result"))


def _effort(judged: Judged) -> Iterator[Broken]:
    config = judged.body.get("output_config")
    effort = config.get("effort") if isinstance(config, dict) else None
    if effort is None:
        return
    if effort not in _EFFORTS:
        yield ("output_config", "effort"), f"no effort is called {shown(effort)}"
    elif effort == "xhigh" and not takes_xhigh(judged.model):
        yield ("output_config", "effort"), f"{judged.model} does not know the effort 'xhigh'"


def _set_effort(judged: Judged, path: Any) -> str | None:
    put(judged.body, path, "high")
    return "set the effort to high"


def _prefill(judged: Judged) -> Iterator[Broken]:
    messages = judged.messages
    last = messages[-1] if messages and isinstance(messages[-1], dict) else {}
    if last.get("role") != "assistant":
        return
    blocks = message_blocks(last, ("messages", len(messages) - 1))
    if of_type(blocks, "tool_use") or of_type(blocks, "server_tool_use"):
        return
    path = ("messages", len(messages) - 1)
    if tier_and_version(judged.model) and rules_for(judged.model).ends_with_user:
        yield (
            path,
            f"{judged.model} does not continue an assistant message; the last one must be the user's",
        )
    elif _thinking(judged).get("type") == "enabled":
        yield path, "while the model thinks, the last message cannot be the assistant's"


def _drop_prefill(judged: Judged, path: Any) -> str | None:
    remove(judged.body, path)
    return "removed the last assistant message"


def _prefill_space(judged: Judged) -> Iterator[Broken]:
    messages = judged.messages
    last = messages[-1] if messages and isinstance(messages[-1], dict) else {}
    blocks = message_blocks(last, ("messages", len(messages) - 1))
    if last.get("role") == "assistant" and blocks and blocks[-1][1].get("type") == "text":
        path, block = blocks[-1]
        text = block.get("text")
        if isinstance(text, str) and text != text.rstrip():
            where = path if isinstance(last.get("content"), str) else (*path, "text")
            yield where, "the last assistant message ends in white space"


def _strip_prefill(judged: Judged, path: Any) -> str | None:
    put(judged.body, path, at(judged.body, path).rstrip())
    return "removed the white space at the end"


def _choice(judged: Judged) -> Iterator[Broken]:
    choice, tools = judged.body.get("tool_choice"), judged.body.get("tools")
    if not isinstance(choice, dict):
        return
    kind = choice.get("type")
    if kind not in ("auto", "any", "tool", "none"):
        yield ("tool_choice",), f"no choice is of the type {shown(kind)}"
    elif not tools and kind != "none" and not judged.body.get("mcp_servers"):
        yield ("tool_choice",), "tool_choice is given without tools"
    elif kind == "tool":
        names = {tool.get("name") for _, tool in objects(tools, ())}
        if choice.get("name") not in names:
            yield ("tool_choice",), f"no tool is called {shown(choice.get('name'))}"


def _stops(judged: Judged) -> Iterator[Broken]:
    stops = judged.body.get("stop_sequences")
    for index, text in enumerate(stops if isinstance(stops, list) else ()):
        if not isinstance(text, str) or is_blank(text):
            yield ("stop_sequences", index), f"{shown(text)} is not text with a visible character"


def _formats(judged: Judged) -> Iterator[Broken]:
    config = judged.body.get("output_config")
    form = config.get("format") if isinstance(config, dict) else None
    if isinstance(form, dict):
        yield from open_objects(form.get("schema"), ("output_config", "format", "schema"))
    for path, tool in objects(judged.body.get("tools"), ("tools",)):
        if tool.get("strict") is True:
            yield from open_objects(tool.get("input_schema"), (*path, "input_schema"))


def _user(judged: Judged) -> Iterator[Broken]:
    metadata = judged.body.get("metadata")
    name = metadata.get("user_id") if isinstance(metadata, dict) else None
    if name is not None and (not isinstance(name, str) or len(name) > 512):
        yield ("metadata", "user_id"), "user_id is text of at most 512 characters"


_API = "https://platform.claude.com/docs/en/api/messages"
_MODELS = "https://platform.claude.com/docs/en/models"
_THINKING = "https://platform.claude.com/docs/en/build-with-claude/extended-thinking"
_ADAPTIVE = "https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking"
_PREFILL = "https://platform.claude.com/docs/en/models/opus-5-5/migration-guide"
_EXTRA = "server error 'Extra inputs are not permitted'; types of anthropic 2.8.0"
_READ = "2026-11-15"
_NOW = "2026-11-18"

SETTINGS_CHECKS: tuple[Check, ...] = (
    Check("model-missing", _no_model, _API, _READ, SETTINGS),
    Check("type", types(_TYPES), "types of anthropic 2.8.0", _READ, SETTINGS),
    Check("field-foreign", _other_fields(foreign_fields), _EXTRA, _NOW, SETTINGS, fix=drop),
    Check("field-unknown", _other_fields(unknown_fields), _EXTRA, _NOW, SETTINGS, WARNING),
    Check("max-tokens", _no_limit, _API, _READ, SETTINGS, fix=_set_limit),
    Check("max-tokens-model", _over_limit, _MODELS, _NOW, SETTINGS, fix=_lower_limit),
    Check("thinking-model", _thinking_model, _ADAPTIVE, _READ, SETTINGS, fix=_set_thinking),
    Check("budget", _budget, _THINKING, _READ, SETTINGS, fix=_set_budget),
    Check(
        "sampling-model",
        _sampling,
        "server errors in BerriAI/litellm#15097 and The-PR-Agent/pr-agent#2456",
        _READ,
        SETTINGS,
        fix=drop,
    ),
    Check("thinking-sampling", _while_thinking, _THINKING, _READ, SETTINGS, fix=drop),
    Check("thinking-forced", _forced, _THINKING, _READ, SETTINGS, fix=drop),
    Check("thinking-first", _unthought, _THINKING, _READ, SETTINGS),
    Check(
        "effort",
        _effort,
        "https://platform.claude.com/docs/en/build-with-claude/effort; recorded error of claude-opus-4-6",
        _NOW,
        SETTINGS,
        fix=_set_effort,
    ),
    Check("prefill", _prefill, _PREFILL, _NOW, SETTINGS, fix=_drop_prefill),
    Check(
        "prefill-space",
        _prefill_space,
        "server error 'final assistant content cannot end with trailing whitespace'",
        _READ,
        SETTINGS,
        fix=_strip_prefill,
    ),
    Check(
        "range", ranges({"temperature": (0, 1), "top_p": (0, 1)}), _API, _READ, SETTINGS, fix=drop
    ),
    Check("tool-choice", _choice, _API, _READ, SETTINGS, fix=drop),
    Check("stop", _stops, _API, _READ, SETTINGS, fix=drop),
    Check(
        "schema-open",
        _formats,
        "https://platform.claude.com/docs/en/build-with-claude/structured-outputs",
        _READ,
        SETTINGS,
        fix=close_object,
    ),
    Check("metadata", _user, _API, _READ, SETTINGS),
)

"""Everything in a Mistral request except its messages, both ways."""

from __future__ import annotations

from functools import partial
from typing import Any

from cannery.families.chat.settings import STOP, choice_form, effort_form, output_form, tool_names
from cannery.families.chat.tools import write_tools
from cannery.messages.requests import OutputFormat, ToolChoice
from cannery.wire.bodies import Object
from cannery.wire.settings import (
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    WHOLE,
    Form,
    Setting,
    SettingTable,
    Writing,
    among,
    fit_limit,
    fit_seed,
    fit_top_k,
    within,
)

NAME = "mistral_chat"
# ``any`` and ``required`` mean the same; the first is the older word, which every model's server knows.
_CHOICES = {"auto": "auto", "none": "none", "any": "required", "required": "required"}
_WORDS = {mode: word for word, mode in reversed(_CHOICES.items())}
_HOTTEST = 1.5
_OUTPUT = output_form(NAME)


def _write_choice(choice: ToolChoice, to: Writing) -> Any:
    if choice.mode == "named":
        return {"type": "function", "function": {"name": choice.names[0]}}
    if choice.mode == "allowed":
        to.change("Mistral cannot choose among some tools")
        return _WORDS["required" if choice.must_call else "auto"]
    return _WORDS[choice.mode]


def _write_output(output: OutputFormat, to: Writing) -> Object:
    written: Object = _OUTPUT.write(output, to)  # type: ignore[misc]
    if not to.is_same and output.kind == "schema":
        written["json_schema"].setdefault("schema", {})
    return written


TABLE = SettingTable(
    NAME,
    (
        Setting("model", "model", TEXT),
        Setting(
            "tool_choice", "tool_choice", choice_form(_CHOICES, _write_choice), among(tool_names)
        ),
        Setting("max_tokens", "max_tokens", WHOLE, fit_limit()),
        Setting("temperature", "temperature", NUMBER, within(0, _HOTTEST)),
        Setting("top_p", "top_p", NUMBER, within(0, 1)),
        Setting("top_k", "top_k", WHOLE, fit_top_k()),
        Setting("stop", "stop", STOP),
        Setting("seed", "random_seed", WHOLE, fit_seed),
        Setting("presence_penalty", "presence_penalty", NUMBER, within(-2, 2)),
        Setting("frequency_penalty", "frequency_penalty", NUMBER, within(-2, 2)),
        Setting("candidates", "n", WHOLE, within(1, 128, "from 1 to 128 answers are given")),
        Setting("parallel_calls", "parallel_tool_calls", FLAG),
        Setting("output", "response_format", Form((), _OUTPUT.read, _write_output)),
        Setting(
            "thinking",
            "reasoning_effort",
            effort_form((), "Mistral always shows thoughts"),
            also=("effort",),
        ),
        Setting("metadata", "metadata", OBJECT),
        Setting("stream", "stream", FLAG),
    ),
    {"finish": "choices[0].finish_reason"},
    tools=partial(write_tools, NAME, has_freeform=False),
)
MODELLED_ANSWER = frozenset(
    {
        *("id", "model", "object", "created", "choices[0].finish_reason"),
        *("usage.prompt_tokens", "usage.completion_tokens", "usage.total_tokens"),
        "usage.num_cached_tokens",
    }
)

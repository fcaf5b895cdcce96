"""Everything in a Chat Completions request except its messages: tools, tool choice and controls, both ways."""

from __future__ import annotations

from functools import partial
from typing import Any

from cannery.families.chat.settings import (
    STOP,
    choice_form,
    effort_form,
    is_spelled,
    named_tools,
    output_form,
    take_choice,
    tool_names,
)
from cannery.families.chat.tools import write_tools
from cannery.families.openai.settings import METADATA, UNSHOWN
from cannery.families.openai.shared import put_shared
from cannery.messages.absence import absent
from cannery.messages.requests import Request, ToolChoice, new_tool_choice
from cannery.wire.bodies import Object
from cannery.wire.losses import Report
from cannery.wire.residues import set_again
from cannery.wire.setting_reading import NOT_READ, Reading, Said, Spelled
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
    at_most,
    fit_limit,
    within,
)

NAME = "openai_chat"
# The older names of the limit and of the tool choice.
_LIMIT, _CALL = "max_tokens", "function_call"
_CHOICES = {word: word for word in ("auto", "none", "required")}
# The response fields that the model holds.
MODELLED_ANSWER = frozenset(
    {
        *("model", "id", "object", "created", "choices[0].finish_reason"),
        *("choices[0].message.annotations", "usage.completion_tokens", "usage.total_tokens"),
    }
)


def _read_both_limits(value: Any, reading: Reading) -> Said:
    """The older limit beside a newer one that is empty."""
    if type(value) is not int:
        return NOT_READ
    reading.written["max_completion_tokens"] = value
    return value, Spelled()


def _write_limit(value: int, to: Writing) -> Any:
    if not is_spelled(to.request, NAME, _LIMIT):
        return value
    to.body[_LIMIT] = value
    return absent


def _read_older_choice(choice: Any, reading: Reading) -> Said:
    """Read the older tool choice, whose only field is the name of a function."""
    if "tool_choice" in reading.left:
        return NOT_READ
    reading.form.append(_CALL)
    if type(choice) is dict and type(choice.get("name")) is str:
        return new_tool_choice("named", (choice.pop("name"),)), set_again(choice)
    return take_choice(choice, _CHOICES) if type(choice) is str else NOT_READ


def _write_choice(choice: ToolChoice, to: Writing) -> Any:
    if is_spelled(to.request, NAME, _CALL):
        to.body[_CALL] = {"name": choice.names[0]} if choice.names else choice.mode
        return absent
    if choice.mode == "named":
        return named_tools(choice, to.request)[0]
    if choice.mode != "allowed":
        return choice.mode
    mode = "required" if choice.must_call else "auto"
    allowed = {"mode": mode, "tools": named_tools(choice, to.request)}
    return {"type": "allowed_tools", "allowed_tools": allowed}


def _need_tools(value: bool, to: Writing) -> Any:  # noqa: FBT001 - the value of a control
    if to.body.get("tools"):
        return value
    if not value:
        to.drop("without tools there are no calls")
    return absent


_CHOICE = choice_form(_CHOICES, _write_choice)
_EFFORT = effort_form(UNSHOWN, "Chat cannot show thoughts")
_FOUR = at_most(4, "Chat takes four stop sequences")
TABLE = SettingTable(
    NAME,
    (
        Setting("model", "model", TEXT),
        Setting("tool_choice", "tool_choice", _CHOICE, among(tool_names)),
        Setting("tool_choice", _CALL, Form(read=_read_older_choice)),
        Setting(
            "max_tokens", "max_completion_tokens", Form((int,), write=_write_limit), fit_limit()
        ),
        Setting("max_tokens", _LIMIT, Form(read=_read_both_limits, older=(int,))),
        Setting("temperature", "temperature", NUMBER, within(0, 2)),
        Setting("top_p", "top_p", NUMBER, within(0, 1)),
        Setting("stop", "stop", STOP, _FOUR),
        Setting("seed", "seed", WHOLE),
        Setting("presence_penalty", "presence_penalty", NUMBER, within(-2, 2)),
        Setting("frequency_penalty", "frequency_penalty", NUMBER, within(-2, 2)),
        Setting("candidates", "n", WHOLE, within(1, 128, "from 1 to 128 answers are given")),
        Setting("parallel_calls", "parallel_tool_calls", FLAG, _need_tools),
        Setting("output", "response_format", output_form(NAME)),
        Setting("thinking", "reasoning_effort", _EFFORT, also=("effort",)),
        Setting("metadata", "metadata", OBJECT, METADATA),
        Setting("user", "user", TEXT),
        Setting("include_usage", "stream_options.include_usage", FLAG),
        Setting("stream", "stream", FLAG),
    ),
    {"finish": "choices[0].finish_reason", "citations": "choices[0].message.annotations"},
    tools=partial(write_tools, NAME),
)


def write_settings(request: Request, report: Report) -> Object:
    """Every body field except the messages, in the usual form."""
    body = TABLE.write(request, report)
    if request.source != NAME:
        if request.stream is not True:
            # Chat refuses stream options without a stream.
            body.pop("stream_options", None)
        if request.residue is not None:
            put_shared(report.taken, body)
    return body

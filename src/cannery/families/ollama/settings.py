"""Everything in an Ollama request except its messages, both ways.

Settings that several providers have are in ``options``. A request streams by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cannery.families.openai.shared import put_shared
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    OutputFormat,
    Request,
    Thinking,
    new_output_format,
    new_thinking,
)
from cannery.wire.bodies import Object
from cannery.wire.controls import effort_of
from cannery.wire.losses import NOTHING_TAKEN, Report, TakenOver
from cannery.wire.residues import Left
from cannery.wire.setting_reading import NOT_READ, Reading, Said
from cannery.wire.settings import (
    FLAG,
    NUMBER,
    TEXT,
    TEXTS,
    UNSAID,
    WHOLE,
    Form,
    Setting,
    SettingTable,
    Writing,
    fit_limit,
)

# The response fields that the model holds, and the durations, which no other dialect has.
MODELLED_ANSWER = frozenset(
    {
        *("model", "created_at", "done", "done_reason", "prompt_eval_count", "eval_count"),
        *("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"),
    }
)
# Settings that mean nothing with these values.
DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    # No limit: until the model stops, and until its context is full.
    "options.num_predict": (-1, -2),
    "keep_alive": ("5m",),
    "logprobs": (False,),
    "truncate": (True,),
    "shift": (True,),
}
# Settings that only these two APIs accept: any of the options, since they are the model's.
_SHARED = frozenset({"keep_alive", "logprobs", "top_logprobs", "truncate", "shift", "options"})
_SIBLINGS = ("ollama_chat", "ollama_generate")
# The efforts that models with levels accept (ollama 0.6.3).
_EFFORTS = ("low", "medium", "high")


def _read_limit(limit: Any, _: Reading) -> Said:
    return (limit, None) if type(limit) is int and limit >= 0 else NOT_READ


def _read_format(shape: Any, _: Reading) -> Said:
    if shape == "json":
        return new_output_format("json"), None
    if type(shape) is dict and shape:
        return new_output_format("schema", write_json(shape)), None
    return NOT_READ


def _write_format(output: OutputFormat, to: Writing) -> Any:
    if output.kind == "text":
        return absent
    if output.name is not absent:
        to.report.lose("FORMAT_NAME_DROPPED", "@output")
    return decode_json(output.schema) if isinstance(output.schema, str) else "json"


def _read_thinking(think: Any, _: Reading) -> Said:
    if type(think) is bool:
        return new_thinking(enabled=think), None
    return (new_thinking(effort=think), None) if type(think) is str and think else NOT_READ


def _write_thinking(thinking: Thinking, to: Writing) -> Any:
    if thinking.enabled is False or thinking.budget == 0 or thinking.effort == "none":
        return False
    effort = thinking.effort
    if effort is absent and isinstance(thinking.budget, int):
        to.change("a token budget became an effort", "budget")
        effort = effort_of(thinking.budget)
    elif thinking.budget is not absent:
        to.drop("beside an effort there is no token budget", "budget")
    if thinking.summary is not absent:
        to.drop("Ollama always shows thoughts", "summary")
    if effort is absent:
        return True
    if effort in _EFFORTS or to.report.request is None:
        return effort
    to.change(f"no effort {effort!r} here", "effort")
    return "low" if effort == "minimal" else "high"


_ROWS = (
    Setting("model", "model", TEXT),
    Setting("max_tokens", "options.num_predict", Form(read=_read_limit), fit_limit(none=-1)),
    Setting("temperature", "options.temperature", NUMBER),
    Setting("top_p", "options.top_p", NUMBER),
    Setting("top_k", "options.top_k", WHOLE),
    Setting("stop", "options.stop", TEXTS),
    Setting("seed", "options.seed", WHOLE),
    Setting("presence_penalty", "options.presence_penalty", NUMBER),
    Setting("frequency_penalty", "options.frequency_penalty", NUMBER),
    Setting("output", "format", Form(read=_read_format, write=_write_format)),
    Setting(
        "thinking",
        "think",
        Form(read=_read_thinking, write=_write_thinking),
        also=("switch", "effort"),
    ),
    # Every response reports usage.
    Setting("include_usage", "", UNSAID),
    Setting("stream", "stream", FLAG),
)


def ollama_table(
    dialect: str, write_choice: Callable[[Any, Writing], None], **more: Any
) -> SettingTable:
    """The table of one of the two dialects; neither has a field for the tool choice."""
    choice = Setting("tool_choice", "", Form(write=write_choice))
    return SettingTable(
        dialect, (*_ROWS, choice), {"finish": "done_reason"}, assumed={"stream": True}, **more
    )


def shared_settings(request: Request, left: Left) -> TakenOver:
    """The settings that one of the two takes from the other's residue."""
    if request.residue is None or request.residue.dialect not in _SIBLINGS:
        return NOTHING_TAKEN
    fields = {path.removeprefix("."): held for path, held in left}
    taken = {path: held for path, held in fields.items() if path.split(".")[0] in _SHARED}
    return TakenOver(taken, frozenset(taken))


def write_settings(table: SettingTable, request: Request, report: Report) -> Object:
    """Every body field except the messages, in the usual form."""
    body = table.write(request, report)
    put_shared(report.taken, body)
    # A request without the field would stream.
    body["stream"] = request.stream is True
    if request.source == table.dialect and request.stream is absent:
        del body["stream"]
    return body

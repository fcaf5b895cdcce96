"""Everything in an Ollama request that is not a message, both ways.

What several providers have as settings stands in ``options``. A request that does not say whether it streams does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cannery.families.chat.settings import FLAG, NUMBER, WHOLE, Settings
from cannery.families.openai.shared import put_shared
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import (
    OutputFormat,
    Request,
    Thinking,
    new_controls,
    new_output_format,
    new_thinking,
)
from cannery.messages.residue import Residue
from cannery.wire.bodies import Object
from cannery.wire.controls import drop_control, effort_of, given_controls, put
from cannery.wire.losses import NOTHING_TAKEN, Report, TakenOver
from cannery.wire.residues import Left, set_again, setting

# The settings among the options: the control that each sets, and the types that it may have.
_OPTIONS: dict[str, tuple[str, tuple[type, ...]]] = {
    "num_predict": ("max_tokens", WHOLE),
    "temperature": ("temperature", NUMBER),
    "top_p": ("top_p", NUMBER),
    "top_k": ("top_k", WHOLE),
    "seed": ("seed", WHOLE),
    "presence_penalty": ("presence_penalty", NUMBER),
    "frequency_penalty": ("frequency_penalty", NUMBER),
}
_KEYS = {control: key for key, (control, _) in _OPTIONS.items()}
CONTROL_PATHS: dict[str, str | tuple[str, ...]] = {
    **{control: f"options.{key}" for control, key in _KEYS.items()},
    "stop": "options.stop",
    "output": "format",
    "thinking": "think",
    "switch": "think",
    "effort": "think",
    "finish": "done_reason",
}
MODELLED = frozenset(
    {
        *("model", "stream", "tools", "format", "think", "options.stop"),
        *(f"options.{key}" for key in _OPTIONS),
        # of a response
        *("created_at", "done", "done_reason", "prompt_eval_count", "eval_count"),
        # how long the server worked, which no other tells
        *("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"),
    }
)
# Settings that say nothing where they have these values.
DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "keep_alive": ("5m",),
    "logprobs": (False,),
    "truncate": (True,),
    "shift": (True,),
}
# What both APIs take and no other: of the options any, since they are the model's.
_SHARED = frozenset({"keep_alive", "logprobs", "top_logprobs", "truncate", "shift", "options"})
_SIBLINGS = ("ollama_chat", "ollama_generate")
# The efforts that models with levels take (ollama 0.6.3).
_EFFORTS = ("low", "medium", "high")


def read_settings(dialect: str, body: Object) -> Settings:
    """All fields of a request but its messages and tools; what is not understood becomes the residue."""
    found = Settings(stream=True)
    controls: Object = {}
    patches: Object = {}
    written: Object = {}
    if type(body.get("model")) is str:
        found.model = body.pop("model")
    if type(body.get("stream")) is bool:
        found.stream = body.pop("stream")
    else:
        written["stream"] = True
    options = body.get("options")
    if type(options) is dict and options:
        taken = _read_options(options, controls)
        if taken:
            del body["options"]
            patches["options"] = set_again(options)
    _read_format(body, controls)
    _read_thinking(body, controls)
    if controls:
        found.controls = new_controls(**controls)
    patch = setting(body, patches, written)
    found.residue = None if patch is None else Residue(dialect, None, write_json(patch))
    return found


def _read_options(options: Object, controls: Object) -> bool:
    """Take the options that are controls; whether there were any."""
    for key in [*options]:
        row = _OPTIONS.get(key)
        if row is not None and type(options[key]) in row[1]:
            controls[row[0]] = options.pop(key)
    stop = options.get("stop")
    if type(stop) is list and stop and all(type(item) is str for item in stop):
        controls["stop"] = tuple(options.pop("stop"))
    return bool(controls)


def _read_format(body: Object, controls: Object) -> None:
    shape = body.get("format")
    if shape == "json":
        controls["output"] = new_output_format("json")
        del body["format"]
    elif type(shape) is dict and shape:
        controls["output"] = new_output_format("schema", write_json(shape))
        del body["format"]


def _read_thinking(body: Object, controls: Object) -> None:
    think = body.get("think")
    if type(think) in FLAG:
        controls["thinking"] = new_thinking(enabled=think)
    elif type(think) is str and think:
        controls["thinking"] = new_thinking(effort=think)
    else:
        return
    del body["think"]


def shared_settings(request: Request, left: Left) -> TakenOver:
    """What one of the two takes over from the fields that the reader of the other left."""
    if request.residue is None or request.residue.dialect not in _SIBLINGS:
        return NOTHING_TAKEN
    fields = {path.removeprefix("."): held for path, held in left}
    taken = {path: held for path, held in fields.items() if path.split(".")[0] in _SHARED}
    return TakenOver(taken, frozenset(taken))


def write_settings(dialect: str, request: Request, report: Report) -> Object:
    """Every field of the body but the messages and tools, in the usual form."""
    body: Object = {}
    put(body, "model", request.model)
    options: Object = {}
    for name, value in given_controls(request.controls):
        key = _KEYS.get(name)
        if key is not None:
            options[key] = value
        else:
            _write_control(name, value, body, options, report)
    if options:
        body["options"] = options
    put_shared(report.taken, body)
    # One that says nothing would stream.
    body["stream"] = request.stream is True
    if request.source == dialect and request.stream is absent:
        del body["stream"]
    return body


def _write_control(name: str, value: Any, body: Object, options: Object, report: Report) -> None:
    match name:
        case "stop":
            options["stop"] = list(value)
        case "output":
            _write_format(value, body, report)
        case "thinking":
            _write_thinking(value, body, report)
        case "include_usage":
            # Every answer counts its tokens.
            pass
        case _:
            drop_control(name, value, report)


def _write_format(output: OutputFormat, body: Object, report: Report) -> None:
    if output.kind == "text":
        return
    body["format"] = decode_json(output.schema) if isinstance(output.schema, str) else "json"
    if output.name is not absent:
        report.lose("FORMAT_NAME_DROPPED", "@output")


def _write_thinking(thinking: Thinking, body: Object, report: Report) -> None:
    if thinking.enabled is False or thinking.budget == 0 or thinking.effort == "none":
        body["think"] = False
        return
    effort = thinking.effort
    if effort is absent and isinstance(thinking.budget, int):
        report.lose("CONTROL_CHANGED", "@budget", "a token budget became an effort")
        effort = effort_of(thinking.budget)
    elif thinking.budget is not absent:
        report.lose("CONTROL_DROPPED", "@budget", "beside an effort there is no token budget")
    if effort is absent:
        body["think"] = True
    elif effort in _EFFORTS or report.request is None:
        body["think"] = effort
    else:
        body["think"] = "low" if effort == "minimal" else "high"
        report.lose("CONTROL_CHANGED", "@effort", f"no effort {effort!r} here")
    if thinking.summary is not absent:
        report.lose("CONTROL_DROPPED", "@summary", "Ollama always shows thoughts")

"""Everything in a generateContent request except messages and tools, both ways.

The model and the choice to stream are in the URL, so no body has them. Every key has two spellings.
"""

from __future__ import annotations

from typing import Any

from orjson import Fragment

from cannery.dialects.gemini_generate.forms import (
    NAME,
    read_form,
    snake,
    spelled,
    whole,
    whole_value,
)
from cannery.dialects.gemini_generate.tools import (
    StandardSchema,
    declared_names,
    read_choice,
    take_tools,
    to_capitals,
    write_tools,
    written_choice,
)
from cannery.families.gemini.models import (
    budgets,
    least_level,
    nearest_level,
    takes_levels,
    thinks,
)
from cannery.families.gemini.settings import FIVE, fit_seed
from cannery.messages.absence import absent
from cannery.messages.json_text import decode_json, write_json
from cannery.messages.requests import OutputFormat, Request, Thinking, new_output_format
from cannery.wire.bodies import Object
from cannery.wire.controls import (
    BUDGETS,
    FORMAT_NAME,
    budget_of,
    lose_thinking,
)
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.residues import own_residue
from cannery.wire.schemas import is_strict
from cannery.wire.setting_reading import NOT_READ, Reading, Said, Spelled
from cannery.wire.settings import (
    NUMBER,
    TEXTS,
    UNSAID,
    Form,
    Setting,
    SettingTable,
    Writing,
    among,
    fit_limit,
    fit_top_k,
    spellings,
    unless,
    within,
)

_CONFIG = "generationConfig"
_MODEL, _MODELS = "model", "models/"
_THINKING = f"{_CONFIG}.thinkingConfig"
_MIME, _SCHEMA, _JSON_SCHEMA = "responseMimeType", "responseSchema", "responseJsonSchema"
_CHOICE, _NAMES = "toolConfig.functionCallingConfig", "allowedFunctionNames"
_LEVELS = {
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "XHIGH",
}
_JSON, _TEXT, _ENUM = "application/json", "text/plain", "text/x.enum"
# The response fields that the model holds.
MODELLED_ANSWER = frozenset(
    spellings(
        (
            *("candidates[0].index", "candidates[0].finishReason", "responseId", "modelVersion"),
            "createTime",
            *(
                f"usageMetadata.{kind}TokenCount"
                for kind in ("prompt", "toolUsePrompt", "candidates", "total")
            ),
        ),
        snake,
    )
)


def _spelling(value: Any, written: Any) -> Object | Spelled | None:
    """The patch of a value for which writing gives ``written``."""
    if type(value) is str and type(written) is int and value == str(written):
        return {"q": True}
    return None if type(value) is type(written) and value == written else Spelled(written)


def _read_whole(value: Any, _: Reading) -> Said:
    number = whole(value)
    return number, _spelling(value, number)


def _read_model(value: Any, reading: Reading) -> Said:
    """The model of a body that names it beside the URL, as Google's Go client does."""
    name = value.rpartition(_MODELS)[2] if type(value) is str else ""
    if not name:
        return NOT_READ
    reading.form.append(_MODEL)
    return name, _spelling(value, _MODELS + name)


def _read_choice(mode: Any, reading: Reading) -> Said:
    key = spelled(reading.left, _NAMES)
    choice = read_choice(mode, reading.left.get(key))
    if choice is absent:
        return NOT_READ
    written = written_choice(choice)
    if _NAMES in written:
        reading.take(_NAMES, key)
        if snake(_NAMES) in reading.left:
            # The key occurs in both spellings; the usual one counts.
            reading.notes[snake(_NAMES)] = None
    return choice, _spelling(mode, written["mode"])


# --- the format of an answer ---------------------------------------------------------------------


def _read_output(_value: Any, reading: Reading) -> Said:
    """The output format, which up to three fields give; each is taken here."""
    left = reading.left
    mime, native, standard = (spelled(left, key) for key in (_MIME, _SCHEMA, _JSON_SCHEMA))
    kind = left.get(mime)
    if kind not in (_JSON, _ENUM, _TEXT, None):
        return NOT_READ
    schema: Any = None
    if kind != _TEXT and type(left.get(standard)) is dict:
        schema = whole_value(left[standard])
        reading.take(_JSON_SCHEMA, standard)
    elif kind != _TEXT and type(left.get(native)) is dict:
        schema = _take_native_schema(native, reading)
    elif kind in (None, _ENUM):
        return NOT_READ
    if kind is None:
        reading.written[_MIME] = _JSON
    else:
        reading.take(_MIME, mime, _spelling(kind, _TEXT if kind == _TEXT else _JSON))
    if schema is None:
        return new_output_format("text" if kind == _TEXT else "json"), Spelled()
    strict = is_strict(schema) or absent
    return new_output_format("schema", write_json(schema), strict=strict), Spelled()


def _take_native_schema(key: str, reading: Reading) -> Any:
    """Convert a schema of Gemini's own kind to a standard one."""
    standard = StandardSchema(whole_value(reading.left[key]))
    reading.form += [_SCHEMA, "capitals" if standard.is_capital else ""]
    written = to_capitals(standard.value) if standard.is_capital else standard.value
    reading.take(_SCHEMA, key, None if standard.is_exact else Spelled(written))
    return standard.value


def _write_output(output: OutputFormat, to: Writing) -> Any:
    config = to.body.setdefault(_CONFIG, {})
    config[_MIME] = _TEXT if output.kind == "text" else _JSON
    if output.kind == "text":
        return absent
    if isinstance(output.schema, str):
        shapes, _ = read_form(own_residue(to.request, NAME))
        if _SCHEMA in shapes:
            schema = decode_json(output.schema)
            config[_SCHEMA] = to_capitals(schema) if "capitals" in shapes else schema
        else:
            config[_JSON_SCHEMA] = Fragment(output.schema)
    if output.name not in (absent, FORMAT_NAME):
        to.report.lose("FORMAT_NAME_DROPPED", "@output")
    if output.description is not absent:
        to.change("Gemini has no description of an output")
    return absent


# --- thinking ------------------------------------------------------------------------------------


def _read_budget(value: Any, reading: Reading) -> Said:
    budget = whole(value)
    if budget is absent:
        return NOT_READ
    if budget < 0:
        reading.found["adaptive"] = True
    elif budget:
        reading.found["budget"] = budget
    return budget != 0, _spelling(value, max(budget, -1))


def _read_level(value: Any, reading: Reading) -> Said:
    """A thinking level; beside a budget it has no meaning."""
    beside = reading.left.get(spelled(reading.left, "thinkingBudget"))
    if "enabled" in reading.found or whole(beside) is not absent:
        return NOT_READ
    if type(value) is not str or value.upper() not in _LEVELS.values():
        return NOT_READ
    return value.lower(), _spelling(value, value.upper())


def _read_shown(value: Any, _: Reading) -> Said:
    return ("auto" if value else "none", None) if type(value) is bool else NOT_READ


def _is_off(thinking: Thinking) -> bool:
    return thinking.enabled is False or thinking.effort == "none" or thinking.budget == 0


def _write_thinking(thinking: Thinking, to: Writing) -> Any:
    asked = to.request.model
    model = asked if isinstance(asked, str) and not to.is_same else None
    if not thinks(model):
        if not _is_off(thinking):
            lose_thinking(thinking, to.report, "this model cannot think")
        return absent
    config: Object = {}
    effort = thinking.effort
    if _is_off(thinking):
        _write_off(model, config, to)
    elif isinstance(thinking.budget, int):
        config["thinkingBudget"] = budget = _within(thinking.budget, model)
        if budget != thinking.budget:
            to.change(f"this model thinks {budget} tokens instead", "budget")
    elif isinstance(effort, str):
        _write_effort(effort, model, config, to)
    elif thinking.adaptive or thinking.enabled is True:
        config["thinkingBudget"] = -1
    is_settled = thinking.budget is not absent or thinking.enabled is False
    if is_settled and effort not in (absent, "none"):
        to.drop("beside a budget there is no effort", "effort")
    if isinstance(thinking.summary, str):
        config["includeThoughts"] = thinking.summary not in ("none", "omitted")
    return config or absent


def _write_off(model: str | None, config: Object, to: Writing) -> None:
    """Thinking switched off, or as short as the model allows."""
    level, known = least_level(model), budgets(model)
    if level is not None:
        config["thinkingLevel"] = level
        to.change(f"this model always thinks, at least {level!r}")
    elif known is not None and not known.may_be_off:
        config["thinkingBudget"] = known.least
        to.change(f"this model always thinks, at least {known.least} tokens")
    else:
        config["thinkingBudget"] = 0


def _within(budget: int, model: str | None) -> int:
    """A budget that the model accepts; a negative one lets the model decide."""
    known = budgets(model)
    return budget if known is None or budget < 0 else min(max(budget, known.least), known.most)


def _write_effort(effort: str, model: str | None, config: Object, to: Writing) -> None:
    if effort not in BUDGETS:
        to.drop(f"Gemini has no effort {effort!r}", "effort")
    elif takes_levels(model):
        level = nearest_level(_LEVELS.get(effort, "HIGH"), model)
        config["thinkingLevel"] = level
        if level != _LEVELS.get(effort):
            to.change(f"effort {effort!r} became {level!r}", "effort")
    else:
        limit = to.request.controls.max_tokens
        config["thinkingBudget"] = _within(budget_of(effort, limit), model)
        to.change("an effort became a budget of tokens", "effort")


_WHOLE = Form((int,), _read_whole)
_OUTPUT = Form((), _read_output, _write_output)
_EIGHT = within(1, 8, "Gemini gives one to eight candidates")
TABLE = SettingTable(
    NAME,
    (
        Setting("model", _MODEL, Form(read=_read_model, write=lambda _model, _: absent)),
        Setting(
            "tool_choice",
            _CHOICE,
            Form(write=lambda choice, _: written_choice(choice)),
            among(declared_names),
        ),
        Setting("tool_choice", f"{_CHOICE}.mode", Form(read=_read_choice)),
        Setting("max_tokens", f"{_CONFIG}.maxOutputTokens", _WHOLE, fit_limit()),
        Setting("temperature", f"{_CONFIG}.temperature", NUMBER, within(0, 2)),
        Setting("top_p", f"{_CONFIG}.topP", NUMBER, within(0, 1)),
        Setting("top_k", f"{_CONFIG}.topK", _WHOLE, fit_top_k(1)),
        Setting("stop", f"{_CONFIG}.stopSequences", TEXTS, FIVE),
        Setting("seed", f"{_CONFIG}.seed", _WHOLE, fit_seed),
        Setting("presence_penalty", f"{_CONFIG}.presencePenalty", NUMBER, within(-2, 2)),
        Setting("frequency_penalty", f"{_CONFIG}.frequencyPenalty", NUMBER, within(-2, 2)),
        Setting("candidates", f"{_CONFIG}.candidateCount", _WHOLE, _EIGHT),
        Setting("parallel_calls", "", unless(True, "Gemini may always call in parallel")),
        Setting("output", f"{_CONFIG}.{_MIME}", _OUTPUT),
        Setting("output", f"{_CONFIG}.{_SCHEMA}", _OUTPUT),
        Setting("output", f"{_CONFIG}.{_JSON_SCHEMA}", _OUTPUT),
        Setting("thinking", _THINKING, Form(write=_write_thinking)),
        Setting(
            "enabled", f"{_THINKING}.thinkingBudget", Form(read=_read_budget), also=("budget",)
        ),
        Setting("effort", f"{_THINKING}.thinkingLevel", Form(read=_read_level)),
        Setting("summary", f"{_THINKING}.includeThoughts", Form(read=_read_shown)),
        # Every response reports usage.
        Setting("include_usage", "", UNSAID),
    ),
    {"finish": "candidates[0].finishReason"},
    tools=write_tools,
    respell=snake,
)


def read_settings(body: Object, places: Places, shapes: list[str]) -> tuple[Any, ...]:
    """The request fields after its conversation; ``shapes`` are the words for their spelling."""
    tools = take_tools(body, places, shapes) if "tools" in body else ()
    return TABLE.read(body, places, tools, shapes)


def write_settings(request: Request, report: Report, shapes: frozenset[str]) -> Object:
    """Every body field except the messages, in the usual form; the URL names the model, a body only if it did."""
    body = TABLE.write(request, report)
    if "tool" in shapes and len(body.get("tools", ())) == 1:
        (body["tools"],) = body["tools"]
    if _MODEL in shapes and isinstance(request.model, str):
        body[_MODEL] = _MODELS + request.model
    return body

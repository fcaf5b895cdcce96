"""Reading the settings of a generateContent request: tools, tool choice and controls.

Reading takes from the body what it understands. A setting of an unexpected type stays there, and so in the residue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannery.dialects.gemini_generate.schemas import StandardSchema
from cannery.dialects.gemini_generate.settings import (
    CONFIG,
    FIELDS,
    JSON_TYPE,
    LEVELS,
    OUTPUT_KEYS,
    TEXT_TYPE,
    written_choice,
)
from cannery.dialects.gemini_generate.spelling import (
    MISSING,
    NAME,
    Object,
    both,
    camel,
    spelled,
    write_form,
)
from cannery.dialects.gemini_generate.taking import Section, list_at, make_patch, whole, whole_value
from cannery.messages.absence import Absential, absent
from cannery.messages.json_text import write_json
from cannery.messages.requests import (
    DEFAULT_CONTROLS,
    Controls,
    Tool,
    ToolChoice,
    new_controls,
    new_output_format,
    new_thinking,
    new_tool,
    new_tool_choice,
)
from cannery.messages.residue import Residue
from cannery.wire.controls import number
from cannery.wire.places import Path, Places
from cannery.wire.schemas import is_strict

_ENUM = "text/x.enum"
# The usual spelling of the keys of settings.
_USUAL = both(
    (
        *FIELDS.values(),
        *OUTPUT_KEYS,
        *("thinkingConfig", "thinkingBudget", "thinkingLevel", "includeThoughts"),
        *("functionCallingConfig", "mode", "allowedFunctionNames"),
    )
)


class Settings:
    """What a request says around its contents, the patch of what it says beyond that, and the shapes of its spelling.

    Reading takes from the body what it understands; a setting of an unexpected type stays there, and so in the patch.
    """

    def __init__(self) -> None:
        self.tools: tuple[Tool, ...] = ()
        self.choice: Absential[ToolChoice] = absent
        self.controls: Controls = DEFAULT_CONTROLS
        self.patch: Object | None = None
        self.shapes: list[str] = []


def read_settings(body: Object, places: Places) -> Settings:
    """The settings of a body from which the messages were taken."""
    settings = Settings()
    renamed: dict[str, str] = {}
    inner: Object = {}
    if "tools" in body:
        _take_tools(body, settings, places)
    for usual, read in _SECTIONS.items():
        key = spelled(body, usual)
        section = body.get(key)
        if type(section) is not dict or not section:
            continue
        patch = read(section, settings, places, key)
        if patch is MISSING:
            continue
        del body[key]
        if patch is not None:
            inner[usual] = patch
        if key != usual:
            renamed[usual] = key
    settings.patch = make_patch(body, None, renamed, inner)
    return settings


def _stop(value: Any) -> Any:
    is_stop = type(value) is list and value and all(type(item) is str for item in value)
    return tuple(value) if is_stop else absent


_READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("max_tokens", "top_k", "seed", "candidates"), whole),
    **dict.fromkeys(("temperature", "top_p", "presence_penalty", "frequency_penalty"), number),
    "stop": _stop,
}
_CONTROLS = {key: name for name, key in FIELDS.items()}


def _read_config(config: Object, settings: Settings, places: Places, key: str) -> Any:
    """Read ``generationConfig``; gives its patch, and MISSING if nothing in it was understood."""
    section = Section(config, _USUAL)
    found: Object = {}
    for usual in [*section.keys]:
        name = _CONTROLS.get(usual)
        value = absent if name is None else _READERS[name](section.get(usual))
        if name is not None and value is not absent:
            found[name] = value
            written = list(value) if name == "stop" else value
            places.settings[name] = (key, section.take(usual, written))
    if not section.keys.keys().isdisjoint(OUTPUT_KEYS):
        output = _take_output(section, settings.shapes)
        if output is not absent:
            found["output"] = output
    if "thinkingConfig" in section.keys:
        thinking = _take_thinking(section, places, key)
        if thinking is not absent:
            found["thinking"] = thinking
    for usual in OUTPUT_KEYS:
        if usual in section.keys:
            places.settings["output"] = (key, section.keys[usual])
            break
    if not found:
        return MISSING
    settings.controls = new_controls(**found)
    return section.patch()


def _take_output(section: Section, shapes: list[str]) -> Any:
    kind = section.get("responseMimeType")
    if kind not in (JSON_TYPE, _ENUM, TEXT_TYPE, None):
        return absent
    given, own = section.get("responseJsonSchema"), section.get("responseSchema")
    schema: Any = None
    if kind != TEXT_TYPE and type(given) is dict:
        schema = whole_value(given)
        section.take("responseJsonSchema")
    elif kind != TEXT_TYPE and type(own) is dict:
        standard = StandardSchema(whole_value(own))
        schema = standard.value
        shapes += ["responseSchema", "capitals" if standard.is_capital else ""]
        if standard.is_exact:
            section.take("responseSchema")
        elif section.keys["responseSchema"] != "responseSchema":
            section.dropped.append("responseSchema")
    if schema is None and kind in (None, _ENUM):
        return absent
    if kind is not None:
        section.take("responseMimeType", TEXT_TYPE if kind == TEXT_TYPE else JSON_TYPE)
    elif "responseMimeType" not in section.held:
        section.dropped.append("responseMimeType")
    if schema is not None:
        return new_output_format("schema", write_json(schema), strict=is_strict(schema) or absent)
    return new_output_format("text" if kind == TEXT_TYPE else "json")


def _take_thinking(section: Section, places: Places, key: str) -> Any:
    config = section.get("thinkingConfig")
    if type(config) is not dict:
        return absent
    own = section.keys["thinkingConfig"]
    inner = Section(config, _USUAL)
    place = (key, own)
    budget, level = whole(inner.get("thinkingBudget")), inner.get("thinkingLevel")
    shown = inner.get("includeThoughts")
    found: Object = {}
    if type(budget) is int:
        found["enabled"] = budget != 0
        if budget < 0:
            found["adaptive"] = True
        elif budget:
            found["budget"] = budget
        places.settings["budget"] = (*place, inner.take("thinkingBudget", max(budget, -1)))
    elif type(level) is str and level.upper() in LEVELS.values():
        found["effort"] = level.lower()
        places.settings["effort"] = (*place, inner.take("thinkingLevel", level.upper()))
    if type(shown) is bool:
        found["summary"] = "auto" if shown else "none"
        places.settings["summary"] = (*place, inner.take("includeThoughts"))
    if not found:
        return absent
    places.settings["thinking"] = place
    section.nest("thinkingConfig", inner.patch())
    return new_thinking(**found)


def _take_tools(body: Object, settings: Settings, places: Places) -> None:
    """Read the tools: one for each declared function, and one for each thing that Google runs.

    Google's server takes one object where a list is usual.
    """
    value = body["tools"]
    if value is None or value == []:
        return
    del body["tools"]
    tools: list[Tool] = []
    if type(value) is dict:
        settings.shapes.append("tool")
        _read_group(value, ("tools",), tools, places.tools)
    else:
        for index, group in enumerate(list_at(value, ("tools",))):
            _read_group(group, ("tools", index), tools, places.tools)
    settings.tools = tuple(tools)


def _read_group(
    group: Any, path: tuple[str | int, ...], tools: list[Tool], paths: list[Path]
) -> None:
    """Read one item of the tools; one without named functions is a hosted tool as it is."""
    key = spelled(group, "functionDeclarations") if type(group) is dict else ""
    declared = group.get(key) if key else None
    is_single = type(declared) is dict
    if is_single:
        declared = [declared]
    if not group or not key or (declared is not None and not _are_named(declared)):
        tools.append(_hosted(group, ""))
        paths.append(path)
        return
    joined = ""
    # A function without any mark would be written into the group before it.
    place = "apart" if tools else ""
    for index, item in enumerate(declared or ()):
        shapes = [joined or place, key if key != "functionDeclarations" else ""]
        if is_single:
            shapes.append("single")
        tools.append(_read_declaration(item, shapes))
        paths.append((*path, key) if is_single else (*path, key, index))
        joined = "joined"
    for name, value in group.items():
        if name != key or declared is None:
            tools.append(_hosted({name: value}, joined))
            # What stands beside functions is a part of their group.
            paths.append((*path, name) if declared else path)
            joined = "joined"


def _are_named(declared: Any) -> bool:
    return (
        type(declared) is list
        and bool(declared)
        and all(type(item) is dict and _is_name(item.get("name")) for item in declared)
    )


def _is_name(value: Any) -> bool:
    return type(value) is str and bool(value)


def _hosted(group: Any, joined: str) -> Tool:
    name = next(iter(group), "") if type(group) is dict else ""
    residue = Residue(NAME, None, None, write_form(["hosted", joined]))
    return new_tool(camel(name) or "unknown", hosted=write_json(group), residue=residue)  # type: ignore[no-any-return]


def _read_declaration(item: Object, shapes: list[str]) -> Tool:
    name = item.pop("name")
    description: Any = item.pop("description", absent)
    if type(description) is not str and description is not absent:
        item["description"] = description
        description = absent
    key = spelled(item, "parametersJsonSchema")
    schema: Any = absent
    renamed = None
    if type(item.get(key)) is dict:
        schema = write_json(item.pop(key))
        renamed = {"parametersJsonSchema": key} if key != "parametersJsonSchema" else None
    elif type(item.get("parameters")) is dict:
        standard = StandardSchema(whole_value(item["parameters"]))
        schema = write_json(standard.value)
        shapes += ["parameters", "capitals" if standard.is_capital else ""]
        if standard.is_exact:
            del item["parameters"]
    form = write_form(shapes)
    patch = make_patch(item, None, renamed)
    residue = None
    if form is not None or patch is not None:
        residue = Residue(NAME, None if patch is None else write_json(patch), None, form)
    return new_tool(name, description, schema, residue=residue)  # type: ignore[no-any-return]


def _read_tool_config(config: Object, settings: Settings, places: Places, key: str) -> Any:
    """Read ``toolConfig``; gives its patch, and MISSING if it says nothing of functions that is understood."""
    outer = Section(config, _USUAL)
    held = outer.get("functionCallingConfig")
    if type(held) is not dict:
        return MISSING
    section = Section(held, _USUAL)
    choice = _choice(section)
    if choice is absent:
        return MISSING
    settings.choice = choice
    places.settings["tool_choice"] = (key, outer.keys["functionCallingConfig"])
    config = written_choice(choice)
    section.take("mode", config["mode"])
    if "allowedFunctionNames" in config:
        section.take("allowedFunctionNames")
    outer.nest("functionCallingConfig", section.patch())
    return outer.patch()


def _choice(section: Section) -> Any:
    mode, allowed = section.get("mode"), section.get("allowedFunctionNames")
    if type(mode) is not str:
        return absent
    names: tuple[str, ...] = ()
    if type(allowed) is list and all(type(name) is str for name in allowed):
        names = tuple(allowed)
    match mode.upper():
        case "NONE":
            return new_tool_choice("none")
        case "ANY" if names:
            if len(names) == 1:
                return new_tool_choice("named", names)
            return new_tool_choice("allowed", names, must_call=True)
        case "ANY":
            return new_tool_choice("required")
        case "AUTO" | "VALIDATED":
            return new_tool_choice("allowed", names) if names else new_tool_choice("auto")
        case _:
            return absent


_SECTIONS = {"toolConfig": _read_tool_config, CONFIG: _read_config}

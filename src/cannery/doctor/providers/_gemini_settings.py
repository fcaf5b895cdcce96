"""Rules of Gemini for tools and settings, most of them by the model of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cannery.doctor.contract import SETTINGS, WARNING, Broken, Check, Judged, Object
from cannery.doctor.json_paths import at, is_blank, objects, shown, walk
from cannery.doctor.providers._fields import (
    GEMINI,
    GENERATION,
    Fields,
    foreign_fields,
    unknown_fields,
)
from cannery.doctor.providers._gemini_contents import (
    NAME,
    camel,
    contents_of,
    get,
    rename,
    spelled,
)
from cannery.doctor.shared import (
    MB,
    drop,
    duplicate_names,
    illegal_names,
    too_large,
    types,
)
from cannery.families.gemini.models import (
    budgets,
    generation,
    takes_levels,
    thinks,
)
from cannery.wire.places import Path

_MOST_STOPS = 5


def _declared(judged: Judged) -> list[tuple[Path, Object]]:
    held = judged.body.get("tools")
    listed = [(("tools",), held)] if isinstance(held, dict) else objects(held, ("tools",))
    return [
        (where, declaration)
        for path, tool in listed
        for where, declaration in objects(
            get(tool, "functionDeclarations"), (*path, spelled(tool, "functionDeclarations"))
        )
    ]


def _named(judged: Judged) -> list[tuple[Path, Any]]:
    return [((*path, "name"), each.get("name")) for path, each in _declared(judged)]


def _tool_names(judged: Judged) -> Iterator[Broken]:
    yield from illegal_names(_named(judged), NAME)


def _same_tools(judged: Judged) -> Iterator[Broken]:
    for path, text in duplicate_names(_named(judged)):
        yield path[:-1], text


def _many_tools(judged: Judged) -> Iterator[Broken]:
    declared = _declared(judged)
    if len(declared) > 512:
        yield ("tools",), f"{len(declared)} functions; 512 are allowed"


def _schemas(judged: Judged) -> Iterator[Broken]:
    for path, declaration in _declared(judged):
        schema = declaration.get("parameters")
        if schema is not None and get(declaration, "parametersJsonSchema") is not None:
            yield path, "parameters and parametersJsonSchema are both given"
        if isinstance(schema, dict):
            where = (*path, "parameters")
            if str(schema.get("type", "object")).lower() not in ("object", "6"):
                yield (
                    (*where, "type"),
                    f"the type of a function's schema is object, not {shown(schema['type'])}",
                )
            yield from _inner(schema, where)


def _inner(schema: Object, path: Path) -> Iterator[Broken]:
    kind = str(schema.get("type", "")).lower()
    if kind == "array" and "items" not in schema:
        yield path, "a list in a schema needs items"
    values = schema.get("enum")
    if (
        isinstance(values, list)
        and any(not isinstance(each, str) or not each for each in values)
        and kind == "string"
    ):
        yield (*path, "enum"), "an enum of text has no empty and no other values"
    inner = schema.get("properties")
    if isinstance(inner, dict):
        for name, each in inner.items():
            if isinstance(each, dict):
                yield from _inner(each, (*path, "properties", name))
    if isinstance(schema.get("items"), dict):
        yield from _inner(schema["items"], (*path, "items"))


# Keywords of JSON Schema without a field in Gemini's own Schema, so that the server cannot parse the body.
_NO_FIELDS = (
    *(
        "$schema",
        "$id",
        "$comment",
        "$ref",
        "$defs",
        "definitions",
        "const",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
    ),
    *(
        "else",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "patternProperties",
        "uniqueItems",
        "examples",
    ),
)


def _keywords(judged: Judged) -> Iterator[Broken]:
    path, config = _config(judged)
    schemas = [
        ((*where, "parameters"), each.get("parameters")) for where, each in _declared(judged)
    ]
    key = spelled(config, "responseSchema")
    for start, schema in (*schemas, ((*path, key), config.get(key))):
        for where, held in walk(schema, start):
            # The keys of properties are free-form names.
            for name in held if where[-1] != "properties" else ():
                if name in _NO_FIELDS:
                    yield (
                        (*where, name),
                        f"the server does not know {name} here; parametersJsonSchema takes it",
                    )


def _choice(judged: Judged) -> Iterator[Broken]:
    config = get(judged.body, "toolConfig")
    calling = get(config, "functionCallingConfig")
    allowed = get(calling, "allowedFunctionNames")
    if not isinstance(allowed, list) or not allowed:
        return
    if get(calling, "mode") not in ("ANY", "VALIDATED", "any", "validated"):
        yield (
            (spelled(judged.body, "toolConfig"),),
            "allowedFunctionNames needs the mode ANY or VALIDATED",
        )
    names = {name for _, name in _named(judged)}
    for name in allowed:
        if name not in names:
            yield (spelled(judged.body, "toolConfig"),), f"no function is called {shown(name)}"


def _other_fields(fields: Fields) -> Callable[[Judged], Iterator[Broken]]:
    def find(judged: Judged) -> Iterator[Broken]:
        path, config = _config(judged)
        for holder, known, where in ((judged.body, GEMINI, ()), (config, GENERATION, path)):
            odd = {key: holder[key] for key in holder if camel(key) not in known}
            yield from fields(odd, known, where)

    return find


def _config(judged: Judged) -> tuple[Path, Object]:
    held = get(judged.body, "generationConfig")
    return (spelled(judged.body, "generationConfig"),), held if isinstance(held, dict) else {}


def _ranges(judged: Judged) -> Iterator[Broken]:
    path, config = _config(judged)
    limits = {
        "temperature": (0, 2),
        "topP": (0, 1),
        "candidateCount": (1, 8),
        "maxOutputTokens": (1, 10**9),
    }
    for key, (low, high) in limits.items():
        value = get(config, key)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is not None and not is_number:
            yield (*path, spelled(config, key)), f"{key} must be a number, not {shown(value)}"
        elif is_number and not low <= value <= high:
            yield (
                (*path, spelled(config, key)),
                f"{key} is {value}; it must lie between {low} and {high}",
            )


def _stops(judged: Judged) -> Iterator[Broken]:
    path, config = _config(judged)
    stops = get(config, "stopSequences")
    if isinstance(stops, list) and len(stops) > _MOST_STOPS:
        yield (
            (*path, spelled(config, "stopSequences")),
            f"{len(stops)} stop sequences; {_MOST_STOPS} are allowed",
        )


def _answer_schema(judged: Judged) -> Iterator[Broken]:
    path, config = _config(judged)
    has_schema = get(config, "responseSchema") or get(config, "responseJsonSchema")
    if has_schema and get(config, "responseMimeType") not in ("application/json", "text/x.enum"):
        yield path, "a response schema needs responseMimeType application/json"


def _set_json(judged: Judged, path: Path) -> str | None:
    at(judged.body, path)["responseMimeType"] = "application/json"
    return "set responseMimeType to application/json"


def _thinking(judged: Judged) -> Iterator[Broken]:
    path, config = _config(judged)
    thinking = get(config, "thinkingConfig")
    if not isinstance(thinking, dict):
        return
    where = (*path, spelled(config, "thinkingConfig"))
    budget, level = get(thinking, "thinkingBudget"), get(thinking, "thinkingLevel")
    if budget is not None and level is not None:
        yield where, "thinkingBudget and thinkingLevel are both given"
    elif level is not None and generation(judged.model) and not takes_levels(judged.model):
        yield where, f"{judged.model} takes thinkingBudget, not thinkingLevel"
    elif not thinks(judged.model) and (budget or level):
        yield where, f"{judged.model} does not think"
    known = budgets(judged.model)
    if known is not None and isinstance(budget, int) and budget != -1:
        if budget == 0 and not known.may_be_off:
            yield where, f"{judged.model} always thinks; the budget cannot be 0"
        elif budget and not known.least <= budget <= known.most:
            yield (
                where,
                f"the budget is {budget}; {judged.model} takes {known.least} to {known.most}",
            )


def _set_thinking(judged: Judged, path: Path) -> str | None:
    thinking, known = at(judged.body, path), budgets(judged.model)
    key = spelled(thinking, "thinkingBudget")
    if (
        known is not None
        and isinstance(thinking.get(key), int)
        and get(thinking, "thinkingLevel") is None
    ):
        thinking[key] = min(max(thinking[key], known.least), known.most)
        return f"set the budget to {thinking[key]}"
    return drop(judged, path)


def _json_with_tools(judged: Judged) -> Iterator[Broken]:
    version, (path, config) = generation(judged.model), _config(judged)
    is_json = get(config, "responseMimeType") == "application/json"
    if version is not None and version < (3, 0) and is_json and _declared(judged):
        yield path, f"{judged.model} takes functions or a JSON answer, not both"


def _ends_on_model(judged: Judged) -> Iterator[Broken]:
    contents, version = contents_of(judged), generation(judged.model)
    is_newer = version is not None and version >= (3, 6)
    if contents and contents[-1][1].get("role") == "model" and is_newer:
        yield (
            contents[-1][0],
            f"{judged.model} does not continue a model turn; the last one must be the user's",
        )


def _instruction(judged: Judged) -> Iterator[Broken]:
    key = spelled(judged.body, "systemInstruction")
    held = judged.body.get(key)
    if held is not None and "gemma" in (judged.model or ""):
        yield (key,), f"{judged.model} takes no systemInstruction"
    for path, part in objects(get(held, "parts"), (key, "parts")):
        if is_blank(part.get("text")) and part.get("text") == "" and len(part) == 1:
            yield path, "an instruction without text"


_API = "https://ai.google.dev/api/generate-content"
_CALLING = "https://ai.google.dev/gemini-api/docs/function-calling"
_SIGNATURES = "https://ai.google.dev/gemini-api/docs/thought-signatures"
_BUDGETS = "https://ai.google.dev/gemini-api/docs/thinking"
_FILES = "https://ai.google.dev/gemini-api/docs/file-input-methods"
_IMAGES = "https://ai.google.dev/gemini-api/docs/image-understanding"
_NO_FIELD = "server error 'Unknown name: Cannot find field'; types of google-genai 3.1.0"
_READ = "2026-11-15"
_NOW = "2026-11-18"

_TYPES: dict[str, tuple[type, ...]] = {
    "contents": (list, dict, str),
    "tools": (list, dict),
    "generationConfig": (dict,),
    "generation_config": (dict,),
    "toolConfig": (dict,),
    "tool_config": (dict,),
    "safetySettings": (list,),
    "safety_settings": (list,),
    "systemInstruction": (dict, str),
    "system_instruction": (dict, str),
}

SETTINGS_CHECKS: tuple[Check, ...] = (
    Check("type", types(_TYPES), "types of google-genai 3.1.0", _READ, SETTINGS),
    Check("field-foreign", _other_fields(foreign_fields), _NO_FIELD, _NOW, SETTINGS, fix=drop),
    Check("field-unknown", _other_fields(unknown_fields), _NO_FIELD, _NOW, SETTINGS, WARNING),
    Check("request-size", too_large(100 * MB), _FILES, _NOW, SETTINGS),
    Check(
        "tool-duplicate",
        _same_tools,
        "server error 'Duplicate function declaration found'",
        _READ,
        SETTINGS,
        fix=drop,
    ),
    Check(
        "tool-count",
        _many_tools,
        "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling",
        _NOW,
        SETTINGS,
    ),
    Check("schema", _schemas, _CALLING, _READ, SETTINGS),
    Check(
        "schema-keyword",
        _keywords,
        "server error 'Unknown name \"$schema\": Cannot find field.'; type Schema of google-genai 3.1.0",
        _NOW,
        SETTINGS,
        fix=drop,
    ),
    Check("tool-choice", _choice, _API, _READ, SETTINGS, fix=drop),
    Check("range", _ranges, f"{_API}; recorded error 2025", _NOW, SETTINGS, fix=drop),
    Check("stop-count", _stops, _API, _READ, SETTINGS),
    Check("schema-mime", _answer_schema, _API, _READ, SETTINGS, fix=_set_json),
    Check("budget", _thinking, _BUDGETS, _NOW, SETTINGS, fix=_set_thinking),
    Check(
        "json-tools",
        _json_with_tools,
        "server error \"Function calling with a response mime type: 'application/json' is unsupported\"",
        _READ,
        SETTINGS,
    ),
    Check("prefill", _ends_on_model, "server errors quoted in public", _READ, SETTINGS),
    Check(
        "instruction",
        _instruction,
        "server error 'Developer instruction is not enabled for models/gemma-3-27b-it'",
        _READ,
        SETTINGS,
    ),
    Check("tool-name", _tool_names, _CALLING, _READ, SETTINGS, fix=rename),
)

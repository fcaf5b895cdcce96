"""Other dialects: a translation is valid by types and rules, and nothing vanishes without a loss.

A value that breaks a rule of its own dialect may break the same rule of the target: correcting it is not ours to do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import cannery
from tests.corpus.items import PARTS, Corpus, Item
from tests.corpus.judging import DIALECTS, PAIRS, check
from tests.oracles.judges import JUDGES
from tests.oracles.leaves import is_named, missing_leaves
from tests.oracles.sdk_types import validate_request, validate_response
from tests.oracles.server_rules import check_request_rules, codes

Body = dict[str, Any]
# Rules for what we write that are stricter than some recorded servers: models before 3.6 continue a turn of the model,
# Gemini 2.0 takes calls without results, Google's SDK keeps results of its automatic calls in turns of the model, and
# Vertex AI takes parts of arguments.
STRICTER = {
    "gemini_generate": frozenset(
        {"ends-on-model", "call-unanswered", "response-role", "result-orphan", "vertex-only"}
    )
}
# The hosts of the APIs themselves; others that speak their dialect have rules of their own.
HOSTS = {
    "anthropic_messages": "api.anthropic.com",
    "gemini_generate": "googleapis.com",
    "openai_chat": "api.openai.com",
    "openai_responses": "api.openai.com",
    **{name: judge.host for name, judge in JUDGES.items()},
}


def judge_request(item: Item, target: str) -> list[str]:
    rendered = cannery.translate(item.data, source=item.dialect, target=target, policy="allow")
    given, body = item.body, json.loads(rendered.body)
    excused = codes(check_request_rules(item.dialect, given))
    problems = validate_request(target, body)
    problems += [
        problem for problem in check_request_rules(target, body) if not codes([problem]) <= excused
    ]
    paths = [loss.path for loss in rendered.losses]
    return problems + silent(item.dialect, given, target, body, paths)


def judge_response(item: Item, target: str) -> list[str]:
    rendered = cannery.translate(item.data, source=item.dialect, target=target, kind="response")
    body = json.loads(rendered.body)
    given = as_history(item.dialect, item.body)
    paths = [as_history_path(item.dialect, loss.path) for loss in rendered.losses]
    said = silent(item.dialect, given, target, as_history(target, body), paths)
    return validate_response(target, body) + said


def silent(source: str, given: Body, target: str, body: Body, paths: list[str]) -> list[str]:
    """What is neither in the translation nor named as lost."""
    missing = missing_leaves(source, given, target, body)
    return [
        f"{leaf.path}: {leaf.kind} vanished: {str(leaf.value)[:200]}"
        for leaf in missing
        if not is_named(leaf, paths)
    ]


def as_history(dialect: str, body: Body) -> Body:
    """An answer as a request that has it for its history: what the walkers of leaves can read."""
    if dialect in JUDGES:
        return JUDGES[dialect].as_history(body)
    match dialect:
        case "openai_chat":
            choices = body.get("choices") or ()
            return {"messages": [choice.get("message") or {} for choice in choices]}
        case "openai_responses":
            return {"input": [_shown(output) for output in body.get("output") or ()]}
        case "anthropic_messages":
            return {"messages": [{"role": "assistant", "content": body.get("content")}]}
        case _:
            candidates = body.get("candidates") or ()
            return {"contents": [each.get("content") or {} for each in candidates]}


def _shown(output: Body) -> Body:
    """An output of Responses; an image that was made stands as one that is shown."""
    if output.get("type") != "image_generation_call" or not output.get("result"):
        return output
    url = f"data:image/{output.get('output_format', 'png')};base64,{output['result']}"
    return {"role": "assistant", "content": [{"type": "input_image", "image_url": url}]}


def as_history_path(dialect: str, path: str) -> str:
    """The path of a loss in an answer as one in that request."""
    if dialect in JUDGES:
        return JUDGES[dialect].as_history_path(path)
    match dialect:
        case "openai_chat":
            return re.sub(r"^choices\[(\d+)\](\.message)?", r"messages[\1]", path)
        case "openai_responses":
            return re.sub(r"^output\b", "input", path)
        case "anthropic_messages":
            return re.sub(r"^content\b", "messages[0].content", path)
        case _:
            return re.sub(r"^candidates\[(\d+)\](\.content)?", r"contents[\1]", path)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("source, target", PAIRS)
def test_a_request_is_valid_and_complete(
    source: str, target: str, part: int, corpus: Corpus, record_property: Callable[..., None]
):
    items = corpus.items(source, "request", part)
    check("other dialects", items, partial(judge_request, target=target), record_property, target)


@pytest.mark.parametrize("source, target", PAIRS)
def test_an_answer_is_valid_and_complete(
    source: str, target: str, corpus: Corpus, record_property: Callable[..., None]
):
    items = corpus.items(source, "response")
    check("other dialects", items, partial(judge_response, target=target), record_property, target)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_rule_refuses_what_a_server_took(dialect: str, corpus: Corpus):
    taken = [
        item
        for item in corpus.items(dialect, "request")
        if item.is_taken and HOSTS[dialect] in item.uri
    ]
    refused = {
        item.name: problems
        for item in taken
        if (problems := check_request_rules(dialect, item.body))
        and not codes(problems) <= STRICTER.get(dialect, frozenset())
    }
    assert refused == {}

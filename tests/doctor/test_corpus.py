"""The table over recorded requests: what a server took with status 200 is no problem for it, whatever a rule says."""

from __future__ import annotations

import re

import pytest

from cannery.doctor import PROBLEM, examine_body
from cannery.errors import DialectError
from tests.corpus.conftest import corpus  # noqa: F401 - a fixture
from tests.corpus.items import Item

# Of each dialect so many recorded requests at least, which a server took.
DIALECTS = {
    "anthropic_messages": 300,
    "gemini_generate": 300,
    "openai_chat": 300,
    "openai_responses": 300,
    "bedrock_converse": 150,
    "mistral_chat": 30,
    "cohere_chat": 20,
    "ollama_chat": 9,
    "gemini_interactions": 6,
}
# Of the recorded refusals, those that a body tells: the others are about models, downloads and what a model said.
KNOWABLE = {
    "anthropic_messages": 1,
    "gemini_generate": 2,
    "openai_chat": 11,
    "openai_responses": 6,
}
_MODEL = re.compile(r"/models/([^:/?]+)")


def problems(item: Item) -> list[str]:
    named = _MODEL.search(item.uri)
    try:
        found = examine_body(item.data, item.dialect, model=named[1] if named else None)
    except DialectError as error:
        return [str(error)]
    return [f"{each.code} {each.path}: {each.text}" for each in found if each.severity == PROBLEM]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_request_that_a_server_took_is_called_a_problem(dialect, corpus, record_property):  # noqa: F811
    taken = [item for item in corpus.items(dialect, "request") if item.is_taken]
    wrong = {item.name: found for item in taken if (found := problems(item))}
    record_property("doctor", [dialect, len(taken) - len(wrong), len(taken)])
    assert len(taken) >= DIALECTS[dialect]
    assert wrong == {}


@pytest.mark.parametrize("dialect", KNOWABLE)
def test_recorded_refusals_are_found_where_a_body_tells(dialect, corpus):  # noqa: F811
    refused = [
        item
        for item in corpus.items(dialect, "request")
        if item.origin == "recorded" and item.status == 400
    ]
    assert sum(bool(problems(item)) for item in refused) >= KNOWABLE[dialect]

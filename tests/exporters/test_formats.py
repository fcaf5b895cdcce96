"""What is exported for another program comes back when it is imported: texts, calls, results, images; nothing more."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cannery.dialects import all_dialects
from cannery.doctor.sessions import examine_session, has_session
from cannery.exporters import Chat, conversation_body, exporter_names, find_exporter
from cannery.importers import Imported, branches, detect_format, open_sources
from cannery.messages import (
    Base64,
    Conversation,
    ImageContentClass,
    InvocationCanisterClass,
    PartsContentClass,
    ResultCanisterClass,
    Role,
    TextualContentClass,
    UserCanisterClass,
    absent,
    assistant,
    supervisor,
    user,
)
from tests.doctor.broken_bodies import PNG

MODELS = {"claude_code": "claude-opus-5", "codex": "gpt-5.1-codex", "gemini_cli": "gemini-2.5-pro"}
AGENTS = tuple(MODELS)
WHEN = datetime(2026, 11, 17, 9, 30, tzinfo=UTC)


def picture() -> ImageContentClass:
    return ImageContentClass(Base64(PNG), "image/png")


SESSION = [
    user("What is this?"),
    UserCanisterClass(picture(), joined=True),
    assistant("A pixel."),
    user("List the files, twice."),
    assistant("I look."),
    InvocationCanisterClass("call_1", "list_files", '{"path": "."}', joined=True),
    InvocationCanisterClass("call_2", "list_files", '{"path": "/"}', joined=True),
    ResultCanisterClass("call_1", TextualContentClass("alpha.txt")),
    ResultCanisterClass("call_2", TextualContentClass("no such folder"), error=True),
    assistant("One file."),
]


def chat(canisters: Any, form: str = "", **facts: Any) -> Chat:
    facts = {"title": "Files", "model": MODELS.get(form), "folder": "/home/user/work", **facts}
    return Chat(facts.pop("identifier", "01abc"), Conversation(canisters), WHEN, WHEN, **facts)


def exported(canisters: Any, form: str, tmp_path: Path) -> Imported:
    (piece,) = find_exporter(form).write([chat(canisters, form)])
    path = tmp_path / piece.name
    path.write_bytes(piece.data)
    (source,) = open_sources(str(path))
    found, _ = detect_format(source)
    assert found.name == form
    (only,) = [each for each in found.read(source) if isinstance(each, Imported)]
    assert list(source.problems) == []
    return only


def said(imported: Imported) -> list[Any]:
    (branch,) = branches(imported)
    return [canister for node in branch for canister in node.canisters]


def words(canisters: Any) -> list[tuple[Any, ...]]:
    """What is said, by whom: texts, calls, results and the bytes of images."""
    found = []
    for canister in canisters:
        if isinstance(canister, InvocationCanisterClass):
            found.append(("call", canister.name, json.loads(canister.arguments_text or "{}")))
        elif canister.held is not absent:
            held = canister.content
            parts = held.parts if isinstance(held, PartsContentClass) else (held,)
            found += [(canister.role.value, _word(part)) for part in parts]
    return found


def _word(content: Any) -> Any:
    return content.payload.read() if isinstance(content, ImageContentClass) else content.text


@pytest.mark.parametrize("form", ["claude_code", "codex", "gemini_cli", "uimessage"])
def test_texts_calls_results_and_images_come_back(form, tmp_path):
    again = said(exported(SESSION, form, tmp_path))
    assert sorted(map(repr, words(again))) == sorted(map(repr, words(SESSION)))
    assert [each[0] for each in words(again)].count("call") == 2
    assert sum(canister.role is Role.Result for canister in again) == 2


@pytest.mark.parametrize("form", AGENTS)
def test_a_session_for_an_agent_has_no_known_problem(form):
    (piece,) = find_exporter(form).write([chat(SESSION, form)])
    assert has_session(form)
    assert examine_session(piece.data, form) == ()
    assert piece.hint


@pytest.mark.parametrize("form", exporter_names())
def test_exporting_twice_gives_the_same_bytes(form):
    write = find_exporter(form).write
    assert list(write([chat(SESSION, form)])) == list(write([chat(SESSION, form)]))


@pytest.mark.parametrize("form", ["claude_code", "gemini_cli"])
def test_instructions_that_have_no_place_are_named_as_lost(form):
    (piece,) = find_exporter(form).write([chat([supervisor("Be brief."), *SESSION], form)])
    assert [loss.code for loss in piece.losses if loss.severity == "lost"] == [
        "INSTRUCTIONS_DROPPED"
    ]
    assert b"Be brief." not in piece.data


def test_codex_keeps_instructions_as_a_developer_message(tmp_path):
    (piece,) = find_exporter("codex").write([chat([supervisor("Be brief."), *SESSION], "codex")])
    items = [json.loads(line)["payload"] for line in piece.data.splitlines()]
    assert items[1]["role"] == "developer"
    assert items[1]["content"][0]["text"] == "Be brief."


def test_an_open_call_of_gemini_cli_is_cancelled_and_not_answered():
    (piece,) = find_exporter("gemini_cli").write([chat(SESSION[:6], "gemini_cli")])
    (call,) = json.loads(piece.data.splitlines()[-1])["toolCalls"]
    assert call["status"] == "cancelled"
    assert "result" not in call


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(str.strip)
TURNS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4)


@pytest.mark.parametrize("form", ["claude_code", "codex", "gemini_cli", "uimessage"])
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(turns=TURNS)
def test_any_texts_come_back_in_order(form, tmp_path, turns):
    canisters = [each for asked, told in turns for each in (user(asked), assistant(told))]
    assert words(said(exported(canisters, form, tmp_path))) == words(canisters)


# --- rows from forks -------------------------------------------------------------------------------


def test_preferences_are_the_answers_of_forks_to_one_question():
    asked = [user("Name a colour.")]
    parent = chat(
        [*asked, assistant("Blue."), user("Thanks."), assistant("Yes.")], identifier="01a"
    )
    fork = chat([*asked, assistant("A colour is …")], identifier="01b", parent="01a", position=1)
    same = chat([*asked, assistant("Blue.")], identifier="01c", parent="01a", position=1)
    other = chat([user("Name a bird.")], identifier="01d", parent="01a", position=0)
    rows = [
        json.loads(each.data)
        for each in find_exporter("preferences").write([fork, parent, same, other])
    ]
    assert rows == [
        {
            "prompt": [{"role": "user", "content": "Name a colour."}],
            "chosen": [{"role": "assistant", "content": "Blue."}],
            "rejected": [{"role": "assistant", "content": "A colour is …"}],
        }
    ]


# --- bodies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [one.name for one in all_dialects() if one.takes_turns])
def test_a_body_of_an_export_has_no_invented_turn_and_no_setting(dialect):
    body, rendered = conversation_body(Conversation([user("Hi"), assistant("Yes?")]), dialect)
    assert not {"max_tokens", "model", "temperature", "stream", "generationConfig"} & body.keys()
    assert "[" not in json.dumps(body).replace('": [', "").replace(": [[", "").replace("[{", "")
    assert [loss.code for loss in rendered.losses] == []


def test_a_last_answer_keeps_its_white_space():
    body, _ = conversation_body(
        Conversation([user("x"), assistant("Yes. \n")]), "anthropic_messages"
    )
    assert body["messages"][-1] == {"role": "assistant", "content": "Yes. \n"}


def test_a_conversation_that_begins_with_the_assistant_or_a_call_is_not_filled_up():
    body, _ = conversation_body(Conversation([assistant("Hello.")]), "anthropic_messages")
    assert body == {"messages": [{"role": "assistant", "content": "Hello."}]}
    call = InvocationCanisterClass("a", "f", "{}")
    body, _ = conversation_body(
        Conversation([user("x"), call]), "anthropic_messages", "claude-opus-5"
    )
    assert body["model"] == "claude-opus-5"
    assert len(body["messages"]) == 2

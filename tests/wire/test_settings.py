"""Settings as tables: what a row says is read and written, and what no row takes is residue."""

from __future__ import annotations

import json

import pytest

from cannery import nativize_request, normalize_request, translate
from cannery.messages.requests import OutputFormat
from cannery.wire.losses import Report
from cannery.wire.places import Places
from cannery.wire.settings import (
    FLAG,
    NUMBER,
    TEXT,
    TEXTS,
    WHOLE,
    Form,
    Setting,
    SettingTable,
    within,
)

TABLE = SettingTable(
    "example",
    (
        Setting("model", "model", TEXT),
        Setting("max_tokens", "options.limit", WHOLE),
        Setting("temperature", "options.heat", NUMBER, within(0, 1, "heat is within 0 and 1")),
        Setting("stop", "options.stops", TEXTS),
        Setting("effort", "mind.effort", TEXT),
        Setting("stream", "stream", FLAG),
    ),
)


def read(body):
    return TABLE.read(json.loads(json.dumps(body)), Places())


def test_rows_are_read_at_every_level_and_the_rest_is_residue():
    body = {"model": "m", "options": {"limit": 5, "heat": 1, "odd": 2}, "mind": {"effort": "low"}}
    model, _, _, controls, _, residue = read({**body, "more": True})
    assert (model, controls.max_tokens, controls.temperature) == ("m", 5, 1)
    assert controls.thinking.effort == "low"
    assert json.loads(residue.envelope) == {
        "d": {"options": {"s": {"odd": 2}}},
        "s": {"more": True},
    }


@pytest.mark.parametrize("options", [None, {}, {"odd": 1}, {"limit": "five"}, "x"], ids=str)
def test_an_object_of_which_nothing_is_taken_stays_whole(options):
    *_, residue = read({"options": options})
    assert json.loads(residue.envelope) == {"s": {"options": options}}


def test_a_boolean_is_no_number():
    *_, controls, _, residue = read({"options": {"limit": True}})
    assert controls == read({})[3]
    assert json.loads(residue.envelope)["s"] == {"options": {"limit": True}}


def test_paths_and_modelled_fields_follow_from_the_rows():
    assert TABLE.paths["temperature"] == "options.heat"
    assert TABLE.paths["effort"] == "mind.effort"
    assert {"model", "options.stops", "mind.effort"} <= TABLE.modelled


def test_what_comes_from_another_dialect_is_made_to_fit_and_reported():
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 1.5}
    request = normalize_request(json.dumps({**body, "seed": 3}).encode(), "openai_chat")
    report = Report()
    assert TABLE.write(request, report) == {"model": "m", "options": {"heat": 1}}
    assert [lost[:2] for lost in report.lost] == [
        ("CONTROL_CHANGED", "@temperature"),
        ("CONTROL_DROPPED", "@seed"),
    ]


def test_a_row_that_is_only_written_names_no_field_that_is_read():
    rows = (
        Setting("thinking", "mind", Form(write=lambda *_: {})),
        Setting("effort", "mind.effort", TEXT),
    )
    assert SettingTable("example", rows).modelled == {"mind.effort"}


@pytest.mark.parametrize("field", [{"model": 5}, {"stream": "yes"}], ids=str)
def test_a_model_or_stream_of_the_wrong_type_is_named(field):
    body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], **field}
    found = translate(json.dumps(body).encode(), source="anthropic_messages", target="openai_chat")
    (path,) = field
    assert ("CONTROL_DROPPED", path) in {(loss.code, loss.path) for loss in found.losses}


def test_a_format_without_a_schema_is_not_written_to_converse_after_an_edit():
    body = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
    request = normalize_request(json.dumps(body).encode(), "bedrock_converse")
    edited = request.replace(controls=request.controls.replace(output=OutputFormat("json")))
    rendered = nativize_request(edited, "bedrock_converse")
    assert json.loads(rendered.body) == body
    assert [loss.code for loss in rendered.losses] == ["CONTROL_DROPPED"]

"""Every importer against one suite: what is in the file is in the store, as a tree, and only once."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from cannery.importers import (
    Source,
    detect_format,
    find_format,
    format_names,
    histories,
    import_into,
    open_sources,
)
from cannery.importers.contract import Imported, Sample
from cannery.importers.pieces import facts_of
from cannery.importers.trees import without_repeats
from cannery.storage import open_store
from tests.importers.samples import DATA, FORMATS, expected


def turns(canisters: Any) -> list[tuple[str, str]]:
    """Canisters as (role, text); calls by their name or free text, what is no text as "" ."""
    found = []
    for canister in canisters:
        if canister.role.value == "invocation":
            said = canister.held if canister.is_freeform else canister.name
        else:
            said = canister.text
        found.append((canister.role.value, said))
    return found


def sources(name: str) -> list[Source]:
    """The sources of a file that are of its format: one, or of an archive some."""
    found = open_sources(DATA / name)
    if len(found) == 1:
        return found
    return [each for each in found if find_format(FORMATS[name]).detect(each.sample())]


def read(name: str) -> list[Imported]:
    chosen = find_format(FORMATS[name])
    found = [each for source in sources(name) for each in chosen.read(source)]
    return [each for each in found if isinstance(each, Imported)]


def test_every_sample_is_listed():
    files = {
        path.relative_to(DATA).as_posix()
        for path in DATA.rglob("*")
        if path.is_file() and path.name != "README.md"
    }
    assert files == set(FORMATS)


def test_every_format_has_a_sample():
    # Our own formats and bodies of any dialect are made by the tests that read them.
    own = {"canisters", "conversations", "requests"}
    assert set(FORMATS.values()) == set(format_names()) - own


@pytest.mark.parametrize("name", FORMATS)
def test_the_format_is_detected_with_a_reason(name: str):
    assert sources(name)
    for source in sources(name):
        found, detection = detect_format(source)
        assert found.name == FORMATS[name]
        assert detection.reason
        assert 0 < detection.confidence <= 1


@pytest.mark.parametrize("name", FORMATS)
def test_every_history_is_read(name: str):
    theirs = expected(name)
    ours = [[turns(without_repeats(history)) for history in histories(each)] for each in read(name)]
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert sorted(one) == sorted(other)


@pytest.mark.parametrize("name", FORMATS)
def test_every_history_is_stored_and_shares_what_it_can(name: str):
    paths = [path for conversation in expected(name) for path in conversation]
    prefixes = {tuple(path[: end + 1]) for path in paths for end in range(len(path))}
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, DATA / name)
        stored = [tuple(turns(store.get(each.identifier).load())) for each in store.list()]
    assert {tuple(path) for path in paths} <= {
        path[:end] for path in stored for end in range(len(path) + 1)
    }
    assert summary.conversations == len(expected(name))
    assert summary.branches == len(paths) - len(expected(name))
    # Media and unknown blocks have no text, so that histories may differ and look alike.
    if not any(said == "" for path in paths for _, said in path):
        assert summary.added >= len(prefixes)
        assert summary.problems == []


@pytest.mark.parametrize("name", FORMATS)
def test_importing_twice_adds_nothing(name: str):
    with open_store("sqlite::memory:") as store:
        first = import_into(store, DATA / name)
        before = {each.identifier: each.count for each in store.list()}
        again = import_into(store, DATA / name)
        assert {each.identifier: each.count for each in store.list()} == before
    assert first.added > 0
    assert (again.added, again.created, again.forked, again.continued) == (0, 0, 0, 0)
    assert again.unknown == first.unknown


@pytest.mark.parametrize("name", FORMATS)
def test_a_dry_run_writes_nothing(name: str):
    with open_store("sqlite::memory:") as store:
        dry = import_into(store, DATA / name, dry_run=True)
        assert store.list() == ()
        wet = import_into(store, DATA / name)
    assert (dry.conversations, dry.branches, dry.messages) == (
        wet.conversations,
        wet.branches,
        wet.messages,
    )
    assert dry.unknown == wet.unknown
    assert dry.is_dry_run
    counts = ("created", "forked", "continued", "known", "added")
    assert [getattr(dry, name) for name in counts] == [getattr(wet, name) for name in counts]


@pytest.mark.parametrize("name", FORMATS)
def test_a_dry_run_says_what_is_there_already(name: str):
    with open_store("sqlite::memory:") as store:
        import_into(store, DATA / name)
        before = {each.identifier: each.count for each in store.list()}
        dry = import_into(store, DATA / name, dry_run=True)
        assert {each.identifier: each.count for each in store.list()} == before
    assert (dry.added, dry.created, dry.forked, dry.continued) == (0, 0, 0, 0)
    assert dry.known == dry.conversations + dry.branches - dry.empty


@pytest.mark.parametrize("name", FORMATS)
def test_progress_ends_at_the_end(name: str):
    told: list[tuple[int, int]] = []
    with open_store("sqlite::memory:") as store:
        import_into(store, DATA / name, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1]
    assert told == sorted(told)
    if not name.endswith(".eval"):
        assert told[-1][1] == (DATA / name).stat().st_size


@pytest.mark.parametrize("name", format_names())
def test_no_format_takes_what_is_none_of_its_own(name: str):
    detect = find_format(name).detect
    odd: tuple[tuple[Any, ...], ...] = (
        (),
        (None,),
        ("x",),
        ({},),
        ([],),
        ({"a": 1},),
        ({"messages": "x", "mapping": 1},),
    )
    for records in odd:
        assert detect(Sample("x.json", records, b"")) is None


@pytest.mark.parametrize("name", format_names())
def test_records_of_any_shape_are_read_or_kept(name: str, tmp_path):
    odd = (
        '[1, null, "x", [], {}, {"mapping": 3}, {"mapping": {"a": 1, "b": {"message": {"content": 5}}}},'
        ' {"mapping": {"a": {"parent": "a", "message": {"author": {"role": "tool"}, "content": {}}}}},'
        ' {"chat_messages": [1, {"content": [1, {"type": "tool_result"}], "sender": 4}]},'
        ' {"messages": [1, {"role": 5}, {"versions": [{"role": "x"}]}, {"content": [{"type": "q"}]}]},'
        ' {"conversations": [{"from": "x"}]}, {"type": "user", "message": {"role": "user"}},'
        ' {"type": "response_item", "payload": {}}, {"chat": {"history": {"messages": {"a": {}}}}},'
        ' {"role": "prompter", "text": 1, "parent_message_id": "q"}, {"role": "user", "timestamp": 1}]'
    )
    path = tmp_path / "odd.json"
    path.write_text(odd, "utf-8")
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, path, format=name)
        again = import_into(store, path, format=name)
    assert summary.unknown_count or summary.problems
    assert again.added == 0


def test_unknown_records_are_kept_as_they_are(tmp_path):
    path = tmp_path / "conversations.json"
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Hi"]}}
    chat = {"mapping": {"a": {"message": said}}}
    project = {"title": "a project", "kind": [1, 2]}
    path.write_text(json.dumps([project, chat, {"mapping": {}}]), "utf-8")
    with open_store("sqlite::memory:") as store:
        summary = import_into(store, path)
        (only,) = store.list()
        (first,) = store.get(only.identifier).load()
    expected = [{"kind": "no mapping", "place": "[0]", "record": project}]
    assert facts_of(first)["unknown"] == expected
    assert (summary.unknown, summary.unknown_kept) == ({"no mapping": 1}, 1)
    assert (summary.empty, summary.problems) == (1, [])


def test_branches_keep_their_title_and_share_their_start():
    with open_store("sqlite::memory:") as store:
        import_into(store, DATA / "chatgpt/chatgpt-tree.json")
        found = store.list()
        assert {each.title for each in found} == {"Assist user with summary"}
        assert Counter(each.parent is None for each in found) == {True: 1, False: 1}
        fork = next(each for each in found if each.parent)
        assert fork.position > 0

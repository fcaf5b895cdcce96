"""Stores of earlier versions stay readable, and the same messages are still written as the same bytes."""

import shutil
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from cannery.messages import (
    AudioContentClass,
    Base64,
    Citation,
    DataContentClass,
    FileContentClass,
    ImageContentClass,
    Location,
    OpaqueContentClass,
    Origin,
    PartsContentClass,
    ReasoningContentClass,
    RefusalContentClass,
    Residue,
    TextualContentClass,
    UserCanisterClass,
    VideoContentClass,
    assistant,
    document,
    invocation,
    result,
    supervisor,
    user,
)
from cannery.storage import open_store

STORES = Path(__file__).parent / "golden"
GOLDEN = STORES / "version-2"
NAME = "golden"
FORK = "golden-fork"
SCOPED = "golden-scoped"
WHEN = datetime(2025, 11, 18, 10, 30, tzinfo=UTC)
LATER = datetime(2025, 11, 18, 16, 15, 0, 250000, tzinfo=timezone(timedelta(hours=5, minutes=45)))
CITATION = Citation("anthropic_messages", '{"type":"page"}', url="https://example.org", start=1)

CANISTERS = [
    supervisor("Be brief.", WHEN, rank="system"),
    document("Light is energy.", "Physics", WHEN),
    user("Explain photosynthesis.", WHEN),
    UserCanisterClass(ImageContentClass(b"\x89PNG\r\n", "image/png"), WHEN, joined=True),
    UserCanisterClass(ImageContentClass(Base64("aGk"), "image/gif"), WHEN, joined=True),
    UserCanisterClass(ImageContentClass(location="https://example.org/a.png"), WHEN),
    UserCanisterClass(AudioContentClass(b"RIFF", "audio/wav"), WHEN),
    UserCanisterClass(VideoContentClass(Location("file", "file-1"), "video/mp4"), WHEN),
    UserCanisterClass(
        FileContentClass(b"%PDF", "application/pdf", name="a.pdf", citable=True), WHEN
    ),
    assistant(
        ReasoningContentClass("hm", "in short", "c2ln", None, Origin("anthropic_messages", "m")),
        WHEN,
    ),
    assistant(TextualContentClass("**Plants**", "text/markdown", citations=[CITATION]), LATER),
    assistant("long " * 300, LATER),
    assistant(RefusalContentClass("I cannot."), LATER),
    assistant(OpaqueContentClass("openai_responses", "web_search_call", '{"id": "ws_1"}'), LATER),
    assistant(timestamp=LATER),
    invocation("call_1", "look", '{"where": "here", "n": 1.50}', LATER),
    invocation("call_2", "run", "not json", LATER, is_freeform=True),
    result("call_1", DataContentClass(json='{"found":  []}'), timestamp=LATER),
    result(
        "call_2",
        PartsContentClass(
            [
                TextualContentClass("see"),
                ImageContentClass(b"\x89PNG\r\n", "image/png"),
            ]
        ),
        "exit status 1",
        LATER,
    ),
    UserCanisterClass(
        TextualContentClass("Thanks \x00\n\U0001f600"),
        LATER,
        residue=Residue("openai_chat", envelope='{"name":"ada"}'),
    ),
]


SAID = [user("In a scope.", WHEN), assistant("Long. " * 1000, WHEN)]


def write(path):
    """The golden store, as this version writes it."""
    from cannery.backends import Change
    from cannery.storage import Metadata

    with open_store(path) as store:
        metadata = Metadata(NAME, WHEN, WHEN, "Golden", ("x", "y"), model="m")
        store.add(metadata, {})
        store.get(NAME).append(CANISTERS)
        fork = Metadata(FORK, WHEN, WHEN, "Fork", parent=NAME, position=3)
        change = Change(identifier=FORK, requires={FORK: None}, metadata=fork, base=3)
        store.backend.commit(change)
        store.get(FORK).append(user("Otherwise.", LATER))
        scoped = Metadata(SCOPED, WHEN, WHEN, scope="tenant", session="session")
        store.add(scoped, {}).append(SAID)


@pytest.mark.parametrize("version", [1, 2])
def test_a_golden_store_is_read_and_upgraded(tmp_path, version):
    path = tmp_path / "store"
    shutil.copytree(STORES / f"version-{version}", path)
    for _ in range(2):
        with open_store(path) as store:
            assert not store.recovered
            assert list(store.get(NAME).load()) == CANISTERS
            assert list(store.get(NAME).hydrate()) == CANISTERS
            fork = store.get(FORK)
            assert list(fork.load()) == [*CANISTERS[:3], user("Otherwise.", LATER)]
            assert store.get(NAME).tags == ("x", "y")
            assert store.verify().is_sound
    with open_store(path) as store:
        store.get(NAME).rename("Renamed")
        store.get(FORK).append(user("More."))
        store.collect_garbage()
        assert store.verify().is_sound
        assert len(store.list()) == version + 1
        assert [one.identifier for one in store.within("tenant").list()] == [SCOPED] * (version - 1)
        store.within("tenant").file(SAID, session="another")
        for one in store.within("tenant").list():
            assert list(store.get(one.identifier).hydrate()) == SAID
    assert (path / "cannery.json").read_bytes() == (GOLDEN / "cannery.json").read_bytes()


def test_the_same_bytes_are_written(tmp_path):
    path = tmp_path / "store"
    write(path)
    for file in sorted(GOLDEN.rglob("*")):
        if file.suffix in {".jsonl", ".json"}:
            assert (path / file.relative_to(GOLDEN)).read_bytes() == file.read_bytes(), file.name
    logs = [folder / "changes" / "00000001.log" for folder in (path, GOLDEN)]
    (golden,) = GOLDEN.glob("content/*.pack")
    (ours,) = path.glob("content/*.pack")
    # The identity in the header is random, of packs and of the change log.
    words = [[line.split()[:3] for line in log.read_text().splitlines()[1:]] for log in logs]
    assert words[0] == words[1]
    assert ours.read_bytes()[16:] == golden.read_bytes()[16:]


def test_an_encrypted_store_of_version_1_is_read_with_its_key(tmp_path):
    shutil.copytree(STORES / "encrypted-1", tmp_path / "store")
    key = f"file:{STORES}/encrypted-1.key"
    with open_store(str(tmp_path / "store"), encryption_key=key) as store:
        assert store.verify().is_sound
        for scope, name in (("", "golden"), ("tenant", "golden-tenant")):
            within = store.within(scope)
            (found,) = within.list(tag="kept", model="gpt-5")[1:]
            assert (found.identifier, found.title) == (name, "Golden")
            said = within.get(name).load(hydrate=True)
            assert [one.role.value for one in said] == [
                "supervisor", "user", "assistant", "invocation", "result",
            ]  # fmt: skip
            assert said[2].text == "In a vault. " * 150
            assert within.get(f"{name}-fork").load()[-1].text == "And silver?"
            assert within.recognise(said).match.identifier == name
            assert {hit.identifier for hit in within.search("silver")} == {f"{name}-fork"}
            within.get(name).append(user("More"))
        assert store.verify().is_sound

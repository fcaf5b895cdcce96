"""Nothing that a file says is dropped: every text in a sample is in the store, said or kept beside what is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from cannery.importers import import_into
from cannery.importers.pieces import facts_of
from cannery.storage import Store, open_store
from cannery.storage.portable import portable
from tests.importers.samples import DATA, FORMATS, values

# Fields of which the store has another form: names of messages (a message is told by its place), times (as times), who
# speaks (as roles), and tags that say which kind of thing something is (as that kind).
NAMES = frozenset(
    {
        "id",
        "_id",
        "uuid",
        "messageId",
        "message_id",
        "user_message_id",
        "messageID",
        "parentUuid",
        "parentId",
        "parentMessageId",
        "parent",
        "parent_message_id",
        "parent_response_id",
        "children",
        "current_node",
        "hash",
        "$rewindTo",
        "projectHash",
    }
)
TIMES = frozenset(
    {
        "timestamp",
        "ts",
        "created_at",
        "createdAt",
        "updated_at",
        "create_time",
        "time",
        "startTime",
        "lastUpdated",
        "send_date",
        "create_date",
        "datetime_utc",
        "inserted_at",
        "$numberLong",
    }
)
TAGS = frozenset(
    {
        "type",
        "role",
        "kind",
        "part_kind",
        "content_type",
        "from",
        "sender",
        "object",
        "status",
        "state",
        "finishReason",
        "outcome",
        "scope",
        "lc",
        "service_tier",
        "speed",
        "provider",
    }
)
# What is read into something else: a pointer to a text, a prefix, an event that a later one takes back or repeats.
EXCEPTIONS = {
    # Of a message that says nothing.
    "chatgpt/chatgpt-tree.json": {"87d18a55ca6212c5-IAD"},
    "copilot_chat/session.jsonl": {
        "Draft",
        "sam",
        "response",
        "requests",
        "customTitle",
        "requesterUsername",
    },
    "gemini_takeout/MyActivity.json": {"Prompted Say hello", "Prompted Bye"},
    "inspect_eval/log.json": {"attachment://long"},
    "langchain/dumped.json": {"langchain", "schema", "messages"},
}
SAMPLES = [
    name
    for name in FORMATS
    # A HAR file holds calls among other things; rollouts repeat items as events; this one is a transcript in a string.
    if name.endswith((".json", ".jsonl")) and name not in ("codex/rollout.jsonl", "preferences/hh.jsonl")
]  # fmt: skip


def texts(value: Any, key: str = "") -> Iterator[str]:
    """Every text in a value that is no name, time or tag; of JSON in a text its own texts."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from texts(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, key)
    elif isinstance(value, str) and value.strip() and key not in NAMES | TIMES | TAGS:
        yield from _inside(value)


def _inside(text: str) -> Iterator[str]:
    if text[:1] in "{[":
        try:
            yield from texts(json.loads(text))
        except ValueError:
            pass
        else:
            return
    yield text.strip()


def everything(store: Store) -> str:
    """Every text that a store holds, facts and metadata included."""
    found: list[str] = []
    for listed in store.list():
        conversation = store.get(listed.identifier)
        found += all_texts(msgspec.to_builtins(conversation.metadata))
        for canister in conversation.hydrate():
            found += all_texts(portable(canister))
    return "\0".join(found)


def all_texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for name, item in value.items() for text in (name, *all_texts(item))]
    if isinstance(value, list):
        return [text for item in value for text in all_texts(item)]
    if not isinstance(value, str):
        return []
    try:
        return [value, *all_texts(json.loads(value))] if value[:1] in "{[" else [value]
    except ValueError:
        return [value]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_text_of_a_sample_is_in_the_store(name: str):
    with open_store("sqlite::memory:") as store:
        import_into(store, DATA / name)
        held = everything(store)
    wanted = {text for value in values(name) for text in texts(value)}
    missing = {text for text in wanted if text not in held}
    assert missing - EXCEPTIONS.get(name, set()) == set()


def test_a_conversation_says_where_it_comes_from():
    with open_store("sqlite::memory:") as store:
        import_into(store, DATA / "claude_code/session.jsonl")
        (listed,) = store.list()
        first = store.get(listed.identifier).load()[0]
    assert facts_of(first)["origin"] == {
        "format": "claude_code",
        "file": "session.jsonl",
        "id": "31383028-c7fe-413e-a238-955984b3f3d1",
    }

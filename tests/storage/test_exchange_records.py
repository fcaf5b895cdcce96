"""What exchanges took, read from stores as earlier versions left them."""

import json

import cannery
from cannery.storage.exchanges import (
    Costs,
    append_records,
    record_of_reply,
    records_by_conversation,
    records_of,
    records_since,
)

# A line as gateways before wrote it: without times, with the tools of a thread.
OLD = {
    "time": "2026-11-01T10:00:00.000Z",
    "request_id": "req_1",
    "position": 2,
    "outcome": "complete",
    "dialect": "anthropic_messages",
    "upstream": "anthropic",
    "model": "claude-sonnet-4-5",
    "reply": "msg_1",
    "input_tokens": 100,
    "output_tokens": 20,
    "cost": 0.5,
    "key": "alice",
    "client": "claude-code",
    "tools": [{"name": "look"}],
}


def test_journals_of_earlier_versions_keep_their_figures(tmp_path):
    with cannery.open_store(tmp_path / "store", scope="alice") as store:
        name = store.create(canisters=[cannery.user("Hi"), cannery.assistant("Hello")]).identifier
    journal = tmp_path / "store" / "gateway" / "exchanges.jsonl"
    journal.parent.mkdir()
    older = journal.with_name("exchanges.old.jsonl")
    older.write_text(json.dumps({**OLD, "conversation": name}) + "\n" + '{"torn')
    journal.write_text(json.dumps({**OLD, "conversation": name, "reply": "msg_2"}) + "\n")
    with cannery.open_store(tmp_path / "store") as store:
        found = records_of(store, store.metadata_of(name))
        assert [record.reply for record in found] == ["msg_1", "msg_2"]
        assert found[0].seconds is None
        assert Costs.of(records_since(store)).dollars == 1.0
        assert Costs.of(records_since(store)).by_key == {"alice": 1.0}
        assert records_by_conversation(store, [name])[name] == found
        assert record_of_reply(store, "msg_2") == found[1]
        append_records(store, [found[0]])
        assert len(records_of(store, store.metadata_of(name))) == 3
        # A key sees its own.
        assert list(records_since(store.within("bob"))) == []
        assert record_of_reply(store.within("bob"), "msg_2") is None
        assert len(list(records_since(store.within("alice")))) == 3


def test_models_without_a_price_are_counted_apart():
    costs = Costs()
    assert costs.known_dollars is None
    with cannery.open_store("sqlite::memory:") as store:
        assert list(records_since(store)) == []
    costs.add(record(cost=None, input_tokens=5))
    assert (costs.known_dollars, costs.unpriced, costs.tokens) == (None, 1, 5)
    costs.add(record(cost=0.0))
    assert costs.known_dollars == 0.0


def record(**facts):
    from cannery.storage.exchanges import ExchangeRecord

    given = {
        key: value for key, value in OLD.items() if key not in ("tools", "cost", "output_tokens")
    }
    return ExchangeRecord(**{**given, "conversation": "c", **facts})

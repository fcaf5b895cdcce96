"""What exchanges took, read from stores as earlier versions left them."""

import json
from pathlib import Path

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


def test_verify_names_damage_to_the_log_of_exchanges(location):
    """A flipped bit, a line that was torn, and records of conversations that are not there."""
    with cannery.open_store(location) as store:
        name = store.create(canisters=[cannery.user("Hi")]).identifier
        gone = store.create(canisters=[cannery.user("Bye")]).identifier
        append_records(store, [record(conversation=name, request_id=f"r{at}") for at in range(4)])
        append_records(store, [record(conversation=gone), record(conversation="")])
        store.delete(gone)
        store.collect_garbage()
        report = store.verify()
        assert report.is_sound
        assert (report.exchanges, report.exchanges_of_none) == (6, 1)
        _flip(store, location, b'"r1"', b'"r7"')
        report = store.verify()
        assert [str(one) for one in report.damages] == [
            "exchanges, line 2: not the record that was written"
        ]
        assert [one.request_id for one in records_of(store, store.metadata_of(name))] == [
            "r0",
            "r2",
            "r3",
        ]


def _flip(store, location, old, new):
    """Change a record where it lies."""
    if location.startswith("postgresql"):
        query = "UPDATE cannery.exchanges SET record = decode(%s, 'hex') WHERE record = decode(%s, 'hex')"
        for (kept,) in store.backend._pool.rows("SELECT record FROM cannery.exchanges"):
            if old in kept:
                store.backend._pool.rows(
                    query + " RETURNING place", (kept.replace(old, new).hex(), kept.hex())
                )
        return
    if location.startswith("sqlite"):
        with store.backend._database.writing() as connection:
            for place, kept in connection.execute("SELECT place, record FROM exchanges").fetchall():
                query = "UPDATE exchanges SET record = ? WHERE place = ?"
                connection.execute(query, (kept.replace(old, new), place))
        return
    journal = Path(location) / "gateway" / "exchanges.jsonl"
    journal.write_bytes(journal.read_bytes().replace(old, new))


def test_verify_names_a_line_of_the_log_that_has_no_end(tmp_path):
    with cannery.open_store(tmp_path / "store") as store:
        append_records(store, [record(conversation="")])
        journal = tmp_path / "store" / "gateway" / "exchanges.jsonl"
        whole = journal.read_bytes()
        for cut in (1, len(whole) // 2, len(whole) - 1):
            journal.write_bytes(whole + whole[:cut])
            (damage,) = store.verify().damages
            assert str(damage).startswith("exchanges, line 2: the last line of")
        append_records(store, [record(conversation="")])
        assert [damage.line for damage in store.verify().damages] == []
        journal.write_bytes(whole + whole[:9])
        append_records(store, [record(conversation="")])
        assert [damage.line for damage in store.verify().damages] == [2]
        assert len(list(records_since(store))) == 2


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

"""The gateway deletes by age in the background, and its log says what."""

import asyncio
import io
import json
import signal

import pytest

from cannery.errors import ConfigurationError
from cannery.gateway.logs import Log
from cannery.gateway.retention import Retainer
from cannery.gateway.settings import parse_settings
from cannery.messages import user
from cannery.storage import KeepDays, open_store
from tests.gateway.running import Running

CONFIGURATION = """
[retention]
keep_days = 90
[retention.scopes]
alice = 30
bob = 0
"""


def test_retention_is_read_from_the_configuration():
    assert parse_settings(CONFIGURATION).retention.days == KeepDays(90, {"alice": 30, "bob": 0})
    assert not parse_settings("").retention.days


@pytest.mark.parametrize("text", ["[retention]\nkeep_days = -1", "[retention.scopes]\na = -2"])
def test_days_that_are_none_are_refused(text):
    with pytest.raises(ConfigurationError, match="keep_days"):
        parse_settings(text)


def run_for_a_moment(store, keep):
    stream = io.StringIO()
    log = Log("info", stream)

    async def run():
        retainer = Retainer(lambda: store, keep, log, first=0, period=0.01)
        retainer.start()
        await asyncio.sleep(0.3)
        await retainer.stop()

    asyncio.run(run())
    log.flush()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_what_is_too_old_is_deleted_freed_and_logged(tmp_path):
    with open_store(tmp_path / "store") as store:
        alice = store.within("alice").create("secret", canisters=[user("secret")])
        kept = store.create(canisters=[user("kept")])
        told = run_for_a_moment(store, KeepDays(1, {"alice": 1e-9}))
        events = {one["event"]: one for one in told}
        assert events["retention_deleted"]["conversations"] == 1
        assert events["retention_deleted"]["scope"] == "alice"
        assert events["retention_freed"]["conversations"] == 1
        assert "secret" not in json.dumps(told)
        assert [one.identifier for one in store.list()] == [kept.identifier]
        assert not (tmp_path / "store" / "conversations" / alice.identifier).exists()


def test_a_store_that_is_away_or_refuses_is_no_end(tmp_path):
    assert run_for_a_moment(None, KeepDays(1)) == []
    store = open_store(tmp_path / "store")
    store.close()
    told = run_for_a_moment(store, KeepDays(1))
    assert {one["event"] for one in told} == {"retention_failed"}
    assert len(told) > 1


def test_other_times_hold_from_when_they_are_said(tmp_path):
    stream = io.StringIO()
    log = Log("info", stream)

    async def run(store):
        retainer = Retainer(lambda: store, KeepDays(), log, first=0.01, period=3600)
        retainer.start()
        await asyncio.sleep(0.1)
        assert len(store.list()) == 1
        retainer.keep(KeepDays(1e-9))
        for _ in range(500):
            await asyncio.sleep(0.02)
            if not store.list():
                break
        await retainer.stop()

    with open_store(tmp_path / "store") as store:
        store.create(canisters=[user("old")])
        asyncio.run(run(store))
        assert store.list() == ()
    log.flush()
    events = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert events == ["retention_changed", "retention_deleted", "retention_freed"]


def test_a_reload_changes_how_long_conversations_are_kept(tmp_path):
    running = Running(tmp_path, "")
    try:
        running.config.write_text(CONFIGURATION)
        running.signal(signal.SIGHUP)
        running.wait_for_log('"reloaded"')
        (told,) = [line for line in running.log.splitlines() if "retention_changed" in line]
        facts = json.loads(told)
        assert (facts["keep_days"], facts["scopes"]) == (90, 2)
        running.signal(signal.SIGHUP)
        running.wait_for_log('"reloaded"', 2)
        assert running.log.count("retention_changed") == 1
    finally:
        assert running.stop() == 0

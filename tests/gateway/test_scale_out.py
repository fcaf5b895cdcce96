"""Three gateways on one store: PostgreSQL with a bucket, a directory, a SQLite file; one of them is killed."""

import concurrent.futures
import http.client
import json
import re
import signal
import urllib.error

import pytest

from cannery.backends.postgresql.connections import parse_url
from cannery.backends.postgresql.objects import LARGE
from cannery.gateway.settings import parse_settings
from cannery.storage import open_store
from tests import servers
from tests.gateway.running import Running, rows
from tests.house.sources import ROOT
from tests.locations import new_database

CHAT = "/v1/chat/completions"


@pytest.fixture(params=["postgresql", "directory", "sqlite"])
def url(request, tmp_path):
    if request.param == "postgresql":
        return new_database(with_bucket=True)
    return f"sqlite:{tmp_path}/shared" if request.param == "sqlite" else str(tmp_path / "shared")


@pytest.fixture
def gateways(upstream, tmp_path, url):
    config = f'[recording]\nacknowledge = "durable"\nstore = "{url}"\n' + rows(upstream.url)
    environment = servers.s3().settings if "content=s3" in url else {}
    started = [
        Running(tmp_path / name, config, record=None, environment=environment)
        for name in ("one", "two", "three")
    ]
    yield started
    for gateway in started:
        gateway.stop()


def test_the_settings_of_the_compose_file_are_settings():
    folder = ROOT / "docs" / "scale-out"
    settings = parse_settings((folder / "gateway.toml").read_text("utf-8"))
    assert settings.recording.acknowledge == "durable"
    (url,) = re.findall(r"CANNERY_STORE: (\S+)", (folder / "compose.yaml").read_text("utf-8"))
    target = parse_url(url)
    assert (target.content, target.pool) == ("s3://cannery/content", 10)


def say(gateway, *turns):
    """Send a history; the conversation that the gateway filed it in, and what was answered."""
    names = ("user", "assistant")
    messages = [{"role": names[number % 2], "content": text} for number, text in enumerate(turns)]
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    try:
        body = json.dumps({"model": "echo", "messages": messages})
        connection.request("POST", CHAT, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        told = json.loads(answer.read())
        assert answer.status == 200, told
        return answer.headers["x-cannery-conversation"], told["choices"][0]["message"]["content"]
    finally:
        connection.close()


def test_a_session_goes_on_at_whatever_gateway_it_comes_to(gateways, url):
    """Each turn of each client goes to another gateway, and all clients speak at once."""

    def work(client):
        names, turns = set(), []
        for turn in range(3):
            turns.append(f"question {turn} of client {client}")
            name, said = say(gateways[(client + turn) % 3], *turns)
            names.add(name)
            turns.append(said)
        return names, turns

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        done = list(pool.map(work, range(12)))
    with open_store(url) as store:
        assert [len(names) for names, _ in done] == [1] * 12
        assert {one.identifier for one in store.list()} == set.union(*(names for names, _ in done))
        for names, turns in done:
            assert [one.text for one in store.get(*names).load()] == turns
        assert store.verify().is_sound


def test_the_same_history_at_three_gateways_at_once_is_one_conversation(gateways, url):
    """What each reply has named is found, and the next turn goes to the one that lists show."""
    count = 30

    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        futures = [
            pool.submit(say, gateways[at], f"same question {number}")
            for number in range(count)
            for at in range(3)
        ]
        begun = [future.result() for future in futures]
    with open_store(url) as store:
        listed = {one.identifier for one in store.list()}
        assert len(listed) == count
        assert {name for name, _ in begun} >= listed
        for at, (name, said) in enumerate(begun):
            texts = [one.text for one in store.get(name).load()]
            assert texts == [f"same question {at // 3}", said]
    # Each gateway goes on with conversations of which it named another.
    for at, (_, said) in enumerate(begun[::3]):
        name, _ = say(gateways[at % 3], f"same question {at}", said, f"and then {at}")
        assert name in listed
    with open_store(url) as store:
        assert {one.identifier for one in store.list()} == listed
        assert sorted(one.count for one in store.list()) == [4] * count
        assert store.verify().is_sound


def test_a_question_that_another_gateway_answered_is_kept_once(gateways, url):
    """As when the gateway that kept an answer is gone before it could send it: the client asks again elsewhere."""
    turns = ["first question"]
    begun, said = say(gateways[0], *turns)
    turns += [said, "second question"]
    _, said = say(gateways[0], *turns)
    again = [say(gateways[at], *turns) for at in (1, 2, 1)]
    assert {text for _, text in again} == {said}
    turns += [said, "third question"]
    gone_on, _ = say(gateways[1], *turns)
    with open_store(url) as store:
        assert [one.identifier for one in store.list()] == [begun]
        assert len(store.get(begun)) == 6
        # What each reply has named is found.
        for name, _ in again:
            assert [one.text for one in store.get(name).load()] == turns[:4]
        assert gone_on == begun
        assert store.verify().is_sound


def test_a_gateway_that_is_killed_loses_nothing_and_doubles_nothing(gateways, url):
    """Clients go on with their sessions at another gateway when theirs is gone."""
    kept = {}

    def work(client):
        turns = []
        for turn in range(6):
            text = f"client {client} turn {turn} " + (
                "long " * (LARGE // 5 + 1) if turn == 2 else ""
            )
            turns.append(text)
            for attempt in range(4):
                if client == 0 and turn == 3 and attempt == 0:
                    gateways[0].signal(signal.SIGKILL)
                try:
                    name, said = say(gateways[(client + attempt) % 3], *turns)
                except (OSError, http.client.HTTPException, urllib.error.URLError):
                    continue
                break
            turns.append(said)
            kept[client] = name, list(turns)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert gateways[0].process.wait(10) == -signal.SIGKILL
    with open_store(url) as store:
        assert len(store.list()) == 6
        for name, turns in kept.values():
            held = store.get(name).hydrate()
            assert [one.text for one in held] == turns
        assert store.verify().is_sound

"""The viewer over HTTP: doors, keys and scopes, live answers, and ``cannery view``."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

import cannery
from tests.gateway.running import Running
from tests.viewer.asking import Following, chat, fetch, in_background
from tests.viewer.teller import Teller


def listed(url: str, **headers: str) -> list[str]:
    status, _, body = fetch(f"{url}/ui.json", **headers)
    assert status == 200, body
    return [row["id"] for row in json.loads(body)["conversations"]]


def test_browsers_find_the_viewer_and_programs_the_documents(gateway: Running):
    status, headers, _ = fetch(f"{gateway.url}/", accept="text/html,*/*")
    assert (status, headers["location"]) == (302, "/ui")
    assert fetch(f"{gateway.url}/", accept="*/*")[0] == 200
    status, headers, body = fetch(f"{gateway.url}/ui")
    assert status == 200
    assert b"<!doctype html>" in body
    assert "unsafe" not in headers["content-security-policy"]
    assert "viewer" in gateway.whole_banner()


def test_exchange_is_shown_with_its_facts(gateway: Running):
    name = chat(gateway.url, ("user", "What is a viewer for?"))
    gateway.settle()
    page = fetch(f"{gateway.url}/ui/c/{name}")[2].decode()
    assert "What is a viewer for?" in page
    assert 'class="facts"' in page
    values = json.loads(fetch(f"{gateway.url}/ui/c/{name}.json")[2])
    assert values["exchanges"][0]["upstream"] == "echo"
    assert values["tokens"] > 0
    assert name in listed(gateway.url)


def test_assets_are_the_same_for_ever(gateway: Running):
    page = fetch(f"{gateway.url}/ui")[2].decode()
    for address in re.findall(r'"(/ui/assets/[^"]+)"', page):
        status, headers, body = fetch(gateway.url + address)
        assert status == 200
        assert body
        assert "immutable" in headers["cache-control"]
    assert fetch(f"{gateway.url}/ui/assets/..%2f..%2fpyproject.toml")[0] == 404


@pytest.mark.parametrize(
    "headers,status",
    [
        ({"origin": "https://evil.invalid"}, 403),
        ({"origin": "http://localhost:1"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "cors"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, 403),
        ({"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 200),
        ({"sec_fetch_site": "same-origin", "sec_fetch_mode": "cors"}, 200),
        ({"host": "evil.invalid"}, 403),
    ],
)
def test_pages_of_other_sites_load_nothing(gateway: Running, headers: dict[str, str], status: int):
    for path in ("/ui", "/ui.json", "/ui/events"):
        if status == 200 and path == "/ui/events":
            continue
        found, told, _ = fetch(gateway.url + path, **headers)
        assert found == status
        assert "access-control-allow-origin" not in told


def test_deletion_from_another_page_is_refused_and_from_its_own_done(gateway: Running):
    name = chat(gateway.url, ("user", "Delete me"))
    gateway.settle()
    address = f"{gateway.url}/ui/c/{name}"
    token = re.search(r'name="token" value="(\w+)"', fetch(address)[2].decode())
    assert token
    form = {"token": token[1]}
    evil = {"origin": "http://evil.invalid"}
    assert fetch(f"{address}/delete", "POST", form, **evil)[0] == 403
    cross = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert fetch(f"{address}/delete", "POST", form, **cross)[0] == 403
    assert fetch(f"{address}/delete", "POST", {"token": "x"})[0] == 403
    assert fetch(f"{address}/delete", "DELETE")[0] == 405
    assert name in listed(gateway.url)
    assert fetch(f"{address}/delete", "POST", form, origin=gateway.url)[0] == 303
    assert name not in listed(gateway.url)


# --- keys --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "keys").write_text("alice: key-of-alice\nbob: key-of-bob\n")
    config = f'[keys]\nfile = "{folder / "keys"}"\n[keys.op]\nvariable = "OP"\noperator = true\n'
    running = Running(folder / "gateway", config, environment={"OP": "key-of-op"})
    yield running
    assert running.stop() == 0


def log_in(url: str, secret: str, onward: str = "/ui") -> dict[str, str]:
    status, headers, _ = fetch(f"{url}/ui/login", "POST", {"secret": secret, "onward": onward})
    assert status == 303
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert secret not in cookie
    return {"cookie": cookie.partition(";")[0]}


def test_each_key_sees_its_own_and_the_operator_all(keyed: Running):
    of_alice = chat(keyed.url, ("user", "Alice's"), authorization="Bearer key-of-alice")
    of_bob = chat(keyed.url, ("user", "Bob's"), authorization="Bearer key-of-bob")
    keyed.settle()
    alice, bob, op = (log_in(keyed.url, f"key-of-{name}") for name in ("alice", "bob", "op"))
    assert listed(keyed.url, **alice) == [of_alice]
    assert listed(keyed.url, **bob) == [of_bob]
    assert sorted(listed(keyed.url, **op)) == sorted([of_alice, of_bob])
    assert listed(keyed.url, authorization="Bearer key-of-bob") == [of_bob]
    assert fetch(f"{keyed.url}/ui/c/{of_alice}", **bob)[0] == 404
    assert fetch(f"{keyed.url}/ui/c/{of_alice}/events?from=0", **bob)[0] == 404
    only_bob = json.loads(fetch(f"{keyed.url}/ui.json?scope=bob", **op)[2])["conversations"]
    assert [row["id"] for row in only_bob] == [of_bob]
    assert listed_with_scope(keyed.url, "alice", bob) == [of_bob]


def listed_with_scope(url: str, scope: str, headers: dict[str, str]) -> list[str]:
    rows = json.loads(fetch(f"{url}/ui.json?scope={scope}", **headers)[2])["conversations"]
    return [row["id"] for row in rows]


def test_without_a_key_there_is_only_the_question_for_one(keyed: Running):
    status, _, body = fetch(f"{keyed.url}/ui/c/abc?at=3")
    assert status == 401
    assert b"A key is needed" in body
    assert b"/ui/c/abc?at=3" in body
    assert fetch(f"{keyed.url}/ui.json")[0] == 401
    assert fetch(f"{keyed.url}/ui/events")[0] == 401
    assert fetch(f"{keyed.url}/ui/login", "POST", {"secret": "wrong"})[0] == 401
    assert fetch(f"{keyed.url}/ui/assets/viewer.css")[0] == 200


@pytest.mark.parametrize("change", ["x", "alice->bob", "later", "empty"])
def test_a_cookie_that_was_changed_opens_nothing(keyed: Running, change: str):
    name, _, value = log_in(keyed.url, "key-of-alice")["cookie"].partition("=")
    ends, signature, key = value.split(".")
    forged = {
        "x": f"{ends}.{'0' * 64}.{key}",
        "alice->bob": f"{ends}.{signature}.bob",
        "later": f"{int(ends) + 9999}.{signature}.{key}",
        "empty": "..",
    }[change]
    assert fetch(f"{keyed.url}/ui.json", cookie=f"{name}={forged}")[0] == 401


def test_log_in_leads_nowhere_else(keyed: Running):
    for onward in ("https://evil.invalid/", "//evil.invalid", "/uix", "javascript:alert(1)"):
        form = {"secret": "key-of-alice", "onward": onward}
        assert fetch(f"{keyed.url}/ui/login", "POST", form)[1]["location"] == "/ui"
    form = {"secret": "key-of-alice", "onward": "/ui/c/abc?at=3"}
    assert fetch(f"{keyed.url}/ui/login", "POST", form)[1]["location"] == "/ui/c/abc?at=3"


# --- live --------------------------------------------------------------------------------------


def test_an_answer_is_followed_word_by_word_and_then_filed(gateway: Running, teller: Teller):
    name = chat(gateway.url, ("user", "First"))
    gateway.settle()
    history = json.loads(fetch(f"{gateway.url}/ui/c/{name}.json")[2])["messages"]
    said = [("user", "First"), ("assistant", history[1]["text"]), ("user", "Go on")]
    following = Following(f"{gateway.url}/ui/c/{name}/events?from=2")
    asking = in_background(chat, gateway.url, *said, model="teller", stream=True)
    teller.say("One ")
    words = ""
    kinds = set()
    while "One" not in words:
        event, told = following.next()
        assert event == "said"
        kinds |= {part["kind"] for part in told["parts"]}
        words += "".join(part["text"] for part in told["parts"])
    assert "Go on" in words
    assert kinds == {"user", "assistant"}
    # Whoever comes later gets what was said before.
    late = Following(f"{gateway.url}/ui/c/{name}/events?from=2")
    event, told = late.next()
    assert "One" in "".join(part["text"] for part in told["parts"])
    chat(gateway.url, ("user", "Something that is filed meanwhile"))
    gateway.settle()
    first = rows_of(gateway)[0]
    assert (first["id"], first["is_running"]) == (name, True)
    teller.say("two")
    event, told = following.next()
    assert [part["text"] for part in told["parts"]] == ["two"]
    teller.end()
    asking.join(20)
    event, told = following.next()
    assert (event, told) == ("filed", {"length": 4})
    part = fetch(f"{gateway.url}/ui/c/{name}?part=messages&start=2&stop=4")[2].decode()
    assert "One two" in part
    following.close()
    late.close()


def rows_of(gateway: Running) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(fetch(f"{gateway.url}/ui.json")[2])["conversations"]
    return rows


def begun(gateway: Running, **headers: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(fetch(f"{gateway.url}/ui.json", **headers)[2])[
        "running"
    ]
    return found


def test_a_new_conversation_is_listed_as_soon_as_its_request_runs(gateway: Running, teller: Teller):
    seen = re.search(r'data-seen="([^"]*)"', fetch(f"{gateway.url}/ui")[2].decode())
    assert seen
    following = Following(f"{gateway.url}/ui/events?{urlencode({'seen': seen[1]})}")
    said = ("user", "Will you answer at last?")
    asking = in_background(chat, gateway.url, said, model="teller-late", stream=True)
    # Before its upstream has said anything.
    assert following.next() == ("changed", {})
    (waiting,) = begun(gateway)
    assert (waiting["identifier"], waiting["title"]) == ("", said[1])
    page = fetch(f"{gateway.url}/ui")[2].decode()
    assert "waiting for the first word" in page
    assert page.index(said[1]) < page.index('class="when"')
    # While it answers it has a page, which is followed.
    teller.say("At last")
    assert following.next() == ("changed", {})
    (running,) = begun(gateway)
    name = running["identifier"]
    assert name
    assert f"/ui/c/{name}" in fetch(f"{gateway.url}/ui")[2].decode()
    status, _, page_bytes = fetch(f"{gateway.url}/ui/c/{name}")
    assert status == 200
    assert said[1].encode() in page_bytes
    assert json.loads(fetch(f"{gateway.url}/ui/c/{name}.json")[2])["is_running"]
    page_events = Following(f"{gateway.url}/ui/c/{name}/events?from=0")
    assert "At last" in str(page_events.next())
    teller.end()
    asking.join(20)
    gateway.settle()
    while (event := page_events.next())[0] != "filed":
        assert event[0] == "said"
    assert begun(gateway) == []
    assert rows_of(gateway)[0]["id"] == name
    following.close()
    page_events.close()


def test_the_list_hears_of_changes(gateway: Running):
    seen = re.search(r'data-seen="([^"]*)"', fetch(f"{gateway.url}/ui")[2].decode())
    assert seen
    following = Following(f"{gateway.url}/ui/events?{urlencode({'seen': seen[1]})}")
    chat(gateway.url, ("user", "Something new in the list"))
    assert following.next() == ("changed", {})
    following.close()


def test_a_stopping_gateway_lets_go_of_followers(tmp_path: Path):
    running = Running(tmp_path)
    chat(running.url, ("user", "x"))
    following = Following(f"{running.url}/ui/events?")
    assert following.status == 200
    assert running.stop() == 0
    following.close()


# --- alone -------------------------------------------------------------------------------------


@pytest.fixture
def viewing(tmp_path: Path) -> Iterator[str]:
    with cannery.open_store(tmp_path / "store") as store:
        store.create(
            title="Kept",
            identifier="kept",
            canisters=[cannery.user("Hello"), cannery.assistant("Hi")],
        )
    command = [
        sys.executable,
        "-m",
        "cannery",
        "view",
        str(tmp_path / "store"),
        "--no-browser",
        "--open",
        "@",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"(http://[^/]+)(/\S+)", line)
        assert found, line
        assert found[2] == "/ui/c/kept"
        yield found[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_view_shows_a_store_and_changes_nothing(viewing: str, tmp_path: Path):
    page = fetch(f"{viewing}/ui/c/kept")[2].decode()
    assert "Hello" in page
    assert "Delete" not in page
    assert fetch(f"{viewing}/ui/c/kept/delete", "POST", {"token": "x"})[0] == 405
    assert fetch(f"{viewing}/")[1]["location"] == "/ui"
    assert fetch(f"{viewing}/ui", host="evil.invalid")[0] == 403
    assert fetch(f"{viewing}/v1/models")[0] == 404
    following = Following(f"{viewing}/ui/c/kept/events?from=2")
    with cannery.open_store(tmp_path / "store") as store:
        store.get("kept").append(cannery.user("From another program"))
    assert following.next() == ("filed", {"length": 3})
    following.close()


def test_view_says_what_is_missing(tmp_path: Path):
    command = [sys.executable, "-m", "cannery", "view", str(tmp_path / "nothing"), "--no-browser"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert "there is no store" in done.stderr


# --- as a provider gets it ---------------------------------------------------------------------

TOOL = {
    "type": "function",
    "function": {"name": "look", "strict": True, "parameters": {"type": "object"}},
}
ASKED = {
    "/v1/chat/completions": {
        "model": "echo",
        "temperature": 0.5,
        "stop": "END",
        "tools": [TOOL],
        "tool_choice": "none",
        "x_own": {"kept": True},
        # Two messages of one role in a row, which are joined for other providers.
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "one"},
            {"role": "user", "content": "two"},
        ],
    },
    "/v1/messages": {
        "model": "echo",
        "max_tokens": 99,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "metadata": {"user_id": "u"},
        "messages": [{"role": "user", "content": "one message"}],
    },
    "/v1/responses": {
        "model": "echo",
        "instructions": "Be brief.",
        "reasoning": {"effort": "low"},
        "parallel_tool_calls": False,
        "input": "one item",
    },
}
SERVED = {
    "/v1/chat/completions": ("openai_chat", "messages"),
    "/v1/messages": ("anthropic_messages", "messages"),
    "/v1/responses": ("openai_responses", "input"),
}


def send(gateway: Running, path: str, body: dict[str, object]) -> str:
    status, headers, answer = fetch(
        f"{gateway.url}{path}", "POST", raw=json.dumps(body), anthropic_version="2023-06-01"
    )
    assert status == 200, answer
    gateway.settle()
    return headers["x-cannery-conversation"]


@pytest.mark.parametrize("path", sorted(ASKED))
def test_its_own_dialect_gets_what_was_sent(gateway: Running, path: str):
    dialect, said = SERVED[path]
    name = send(gateway, path, ASKED[path])
    told = json.loads(fetch(f"{gateway.url}/ui/c/{name}/as.json?to={dialect}")[2])
    body, sent = told["body"], ASKED[path]
    assert [note for note in told["notes"] if note["kind"] in ("repair", "loss")] == []
    assert {key: body[key] for key in sent if key != said} == {
        key: value for key, value in sent.items() if key != said
    }
    assert sorted(body) == sorted(sent)
    if isinstance(sent[said], list):
        assert body[said][: len(sent[said])] == sent[said]
        assert body[said][len(sent[said]) :][0]["role"] == "assistant"
    copied = json.loads(fetch(f"{gateway.url}/ui/c/{name}/body.json?to={dialect}")[2])
    assert copied == body


def test_another_dialect_gets_tools_and_settings(gateway: Running):
    name = send(gateway, "/v1/chat/completions", ASKED["/v1/chat/completions"])
    told = json.loads(fetch(f"{gateway.url}/ui/c/{name}/as.json?to=anthropic_messages")[2])
    body = told["body"]
    assert [tool["name"] for tool in body["tools"]] == ["look"]
    assert body["temperature"] == 0.5
    assert body["tool_choice"] == {"type": "none"}
    assert body["stop_sequences"] == ["END"]
    kinds = {note["kind"] for note in told["notes"]}
    assert "loss" in kinds or "repair" in kinds


def test_the_last_instructions_and_tools_are_sent(gateway: Running):
    first = ASKED["/v1/chat/completions"]
    name = send(gateway, "/v1/chat/completions", first)
    values = json.loads(fetch(f"{gateway.url}/ui/c/{name}.json")[2])
    answer = values["messages"][-1]["text"]
    later = {
        **first,
        "temperature": 1,
        "tools": [{"type": "function", "function": {"name": "hear", "parameters": {}}}],
        "messages": [
            {"role": "system", "content": "Be long."},
            {"role": "system", "content": "And kind."},
            *first["messages"][1:],  # type: ignore[index]
            {"role": "assistant", "content": answer},
            {"role": "user", "content": "three"},
        ],
    }
    assert send(gateway, "/v1/chat/completions", later) == name
    told = json.loads(fetch(f"{gateway.url}/ui/c/{name}/as.json?to=openai_chat")[2])
    assert told["body"]["messages"][:-1] == later["messages"]
    assert told["body"]["tools"] == later["tools"]
    assert told["body"]["temperature"] == 1
    # Marks are told by the positions of the conversation, whatever stands before it in the request.
    told = json.loads(fetch(f"{gateway.url}/ui/c/{name}/as.json?to=gemini_generate")[2])
    length = json.loads(fetch(f"{gateway.url}/ui/c/{name}.json")[2])["length"]
    for note in told["notes"]:
        assert note["message"] is None or 0 <= note["message"] < length
    page = fetch(f"{gateway.url}/ui/c/{name}/as?to=openai_chat")[2].decode()
    assert "messages[2]" in page

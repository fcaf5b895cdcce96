"""Who may see and change what, on every route; and hostile names that come in through the gateway."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

import cannery
from cannery.messages import FileContentClass
from cannery.viewer.answers import Asked
from cannery.viewer.site import Site
from tests.gateway.running import Running
from tests.viewer.asking import Following, chat, fetch, in_background
from tests.viewer.teller import Teller
from tests.viewer.test_attacks import body_of, inspect

SECRET = "the words of alice"
HOSTILE = "\"><script>alert(1)</script>' onload=alert(1) \u202egnp.exe"
# A document whose script runs as soon as it is opened in a browser's own viewer.
PDF = (
    b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R /OpenAction "
    b"<< /S /JavaScript /JS (app.alert\\('boo'\\)) >> >>\nendobj\n"
    b"2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n"
    b"3 0 obj\n<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] >>\nendobj\n"
    b"trailer << /Size 4 /Root 1 0 R >>\n%%EOF\n"
)


@pytest.fixture(scope="module")
def keyed(teller: Teller, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("doors")
    (folder / "keys").write_text("alice: key-of-alice\nbob: key-of-bob\n")
    config = f'[keys]\nfile = "{folder / "keys"}"\n[keys.op]\nvariable = "OP"\noperator = true\n'
    environment = {"OP": "key-of-op", "KEY": "x"}
    running = Running(folder / "gateway", config + teller.config, environment=environment)
    yield running
    assert running.stop() == 0


def as_key(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer key-of-{name}"}


def routes(name: str, other: str, digest: str) -> list[str]:
    """Every route that tells something of a conversation."""
    below = (
        *("", ".json", "/tree", "/tree.json", "/as?to=openai", "/as.json?to=openai", "/doctor"),
        *("/doctor.json", "/all.txt", "/all.md", "/all.json", "/body.json?to=openai"),
        *("/curl.txt?to=openai", "/m/0", "/m/0.json", "/m/0.txt", "/m/0.md", "/events?from=0"),
        *(f"/content/{digest}", "?part=messages&start=0&stop=9"),
    )
    return [
        *(f"/ui/c/{name}{path}" for path in below),
        f"/ui/compare?a={other}&b={name}",
        f"/ui/compare?a={name}&b={other}",
        f"/ui/compare.json?a={other}&b={name}",
    ]


def test_no_route_tells_another_key_anything(keyed: Running):
    long = f"{SECRET} " * 200
    of_alice = chat(keyed.url, ("user", long), **as_key("alice"))
    of_bob = chat(keyed.url, ("user", "bob's own"), **as_key("bob"))
    keyed.settle()
    told = json.loads(fetch(f"{keyed.url}/ui/c/{of_alice}.json", **as_key("alice"))[2])
    digest = told["messages"][0]["content_id"].removeprefix("sha256:")
    for path in routes(of_alice, of_bob, digest):
        status, _, body = fetch(keyed.url + path, **as_key("bob"))
        assert status == 404, (path, status)
        assert SECRET.encode() not in body, path
        assert fetch(keyed.url + path)[0] == 401, path
        if "events" not in path and "compare" not in path:
            assert fetch(keyed.url + path, **as_key("alice"))[0] == 200, path
    for path in (f"/ui?q={quote(SECRET)}", f"/ui.json?q={quote(SECRET)}", "/ui", "/ui.json"):
        for scope in ("", "scope=alice", "scope=-", "scope=", "client=openai-python"):
            address = f"{keyed.url}{path}{'&' if '?' in path else '?'}{scope}"
            found = fetch(address, **as_key("bob"))[2].decode().replace(f'value="{SECRET}"', "")
            assert of_alice not in found, address
    # Content of another scope is not found under one's own conversation either.
    assert fetch(f"{keyed.url}/ui/c/{of_bob}/content/{digest}", **as_key("bob"))[0] == 404
    # Costs are those of the key.
    mine = json.loads(fetch(f"{keyed.url}/ui.json", **as_key("bob"))[2])["conversations"]
    assert [row["id"] for row in mine] == [of_bob]


def test_what_runs_is_told_to_its_own_key_only(keyed: Running, teller: Teller):
    said = ("user", f"{SECRET}, slowly")
    asking = in_background(
        chat, keyed.url, said, model="teller-late", stream=True, **as_key("alice")
    )
    following = Following(f"{keyed.url}/ui/events?seen=x", **as_key("alice"))
    assert following.next()[0] == "changed"

    def begun(who: str) -> list[dict[str, str]]:
        found: list[dict[str, str]] = json.loads(fetch(f"{keyed.url}/ui.json", **as_key(who))[2])[
            "running"
        ]
        return found

    assert [each["title"] for each in begun("alice")] == [said[1]]
    assert begun("bob") == []
    assert len(begun("op")) == 1
    assert SECRET not in fetch(f"{keyed.url}/ui", **as_key("bob"))[2].decode()
    teller.say("Yes")
    assert following.next()[0] == "changed"
    (running,) = begun("alice")
    page = f"{keyed.url}/ui/c/{running['identifier']}"
    for path in ("", ".json", "/events?from=0"):
        assert fetch(page + path, **as_key("bob"))[0] == 404, path
    assert fetch(page, **as_key("alice"))[0] == 200
    teller.end()
    asking.join(20)
    following.close()


def test_a_token_deletes_only_what_its_page_shows_and_only_for_its_key(keyed: Running):
    first = chat(keyed.url, ("user", "first of alice"), **as_key("alice"))
    second = chat(keyed.url, ("user", "second of alice"), **as_key("alice"))
    keyed.settle()

    def token(name: str, who: str) -> str:
        page = fetch(f"{keyed.url}/ui/c/{name}", **as_key(who))[2].decode()
        found = re.search(r'name="token" value="(\w+)"', page)
        assert found
        return found[1]

    def delete(name: str, given: str, who: str, method: str = "POST") -> int:
        address = f"{keyed.url}/ui/c/{name}/delete"
        return fetch(address, method, {"token": given}, **as_key(who))[0]

    assert delete(second, token(first, "alice"), "alice") == 403
    assert delete(first, token(first, "alice"), "bob") == 403
    assert delete(first, token(first, "op"), "alice") == 403
    assert delete(first, "", "alice") == 403
    assert delete(first, token(first, "alice").upper(), "alice") == 403
    assert fetch(f"{keyed.url}/ui/c/{first}/delete", **as_key("alice"))[0] == 404
    asked = f"{keyed.url}/ui/c/{first}/delete?token={token(first, 'alice')}"
    assert fetch(asked, "POST", {}, **as_key("alice"))[0] == 403
    assert delete(first, token(first, "alice"), "alice") == 303
    assert fetch(f"{keyed.url}/ui/c/{first}", **as_key("alice"))[0] == 404
    assert fetch(f"{keyed.url}/ui/c/{second}", **as_key("alice"))[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.invalid", "127.0.0.1.evil.invalid", "localhost.evil.invalid:1", "[::1].x", "a b"]
)
def test_other_names_for_this_machine_open_nothing(gateway: Running, host: str):
    for path in ("/ui", "/ui.json", "/ui/events", "/ui/assets/viewer.js"):
        assert fetch(f"{gateway.url}{path}", host=host)[0] in (400, 403), path


@pytest.mark.parametrize("origin", ["null", "http://evil.invalid", "http://127.0.0.1:1", "file://"])
def test_pages_elsewhere_read_and_change_nothing(gateway: Running, origin: str):
    for path in ("/ui.json", "/ui/events?seen="):
        assert fetch(f"{gateway.url}{path}", origin=origin)[0] == 403, path


# --- hostile names -----------------------------------------------------------------------------


def test_hostile_names_that_come_through_the_gateway_stay_text(gateway: Running):
    """Model, tool, call, file and session names, a client's name, the address of an image, an instruction."""
    call = {"id": HOSTILE, "type": "function", "function": {"name": HOSTILE, "arguments": HOSTILE}}
    address = f"https://evil.invalid/{HOSTILE}.png"
    body = {
        "model": "echo",
        "user": HOSTILE,
        "tools": [{"type": "function", "function": {"name": HOSTILE, "description": HOSTILE}}],
        "messages": [
            {"role": "system", "name": HOSTILE, "content": HOSTILE},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": address}}]},
            {"role": "assistant", "content": HOSTILE, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": HOSTILE, "content": HOSTILE},
            {"role": "user", "content": HOSTILE, "name": HOSTILE},
        ],
    }
    headers = {"user_agent": "<b>agent</b>/1.0", "x_request_id": "<img-src=x-onerror=alert(1)>"}
    status, answered, said = fetch(
        f"{gateway.url}/v1/chat/completions", "POST", raw=json.dumps(body), **headers
    )
    assert status == 200, said
    gateway.settle()
    name = answered["x-cannery-conversation"]
    paths = [
        *("/ui", f"/ui?q={quote(HOSTILE)}&model={quote(HOSTILE)}&client={quote(HOSTILE)}"),
        *(f"/ui?{field}={quote(HOSTILE)}" for field in ("tag", "since", "scope", "after", "role")),
        *(f"/ui/c/{name}{path}" for path in ("", "/tree", "/doctor", "/m/2", "/m/3")),
        f"/ui/c/{name}/as?to=gemini&model={quote(HOSTILE)}",
        f"/ui/c/{name}/as?to={quote(HOSTILE)}",
        f"/ui/compare?a={name}&b={quote(HOSTILE)}",
        f"/ui/c/{quote(HOSTILE, safe='')}",
        f"/ui/{quote(HOSTILE, safe='')}",
    ]
    for path in paths:
        _, told, page = fetch(gateway.url + path)
        found = inspect(page)
        assert not found.wrong, (path, found.wrong[:3])
        assert found.scripts == 1, path
        assert "unsafe" not in told["content-security-policy"]
        # Only addresses and fields that a person filled in keep what reorders text.
        shown = re.sub(rb'(?:value|href)="[^"]*"', b"", page)
        assert b"\xe2\x80\xae" not in shown, path


def test_a_pdf_is_a_download_and_never_part_of_a_page():
    """Chromium runs the scripts of a PDF that it shows, whatever policy the answer has."""
    with cannery.open_store("sqlite::memory:") as store:
        conversation = store.create(canisters=[cannery.user("Read this")])
        conversation.append(
            cannery.messages.UserCanisterClass(
                FileContentClass(PDF, "application/pdf", name=f"{HOSTILE}.pdf")
            )
        )
        site = Site()
        page = body_of(site.answer(Asked(store, f"/c/{conversation.identifier}")))
        assert not inspect(page).wrong
        (address,) = re.findall(rb'href="/ui(/c/[^"]+/content/[0-9a-f]{64})"', page)
        answer = site.answer(Asked(store, address.decode()))
        told = dict(answer.headers)
        assert told["content-type"] == "application/octet-stream"
        assert re.fullmatch(
            r'attachment; filename="[0-9a-f]{16}\.pdf"', told["content-disposition"]
        )
        assert "sandbox" in told["content-security-policy"]


def test_huge_words_and_tables_cost_little():
    """What cannot be read anyway is not laid out: pages stay within a few times what was said."""
    texts = ["w" * 2_000_000, "|a" * 300_000, "| x |\n" * 50_000, "\u202e" * 200_000, "(" * 300_000]
    with cannery.open_store("sqlite::memory:") as store:
        for text in texts:
            conversation = store.create(title=text[:1000], canisters=[cannery.user(text)])
            page = body_of(Site().answer(Asked(store, f"/c/{conversation.identifier}")))
            assert len(page) < 3 * len(text.encode()) + 2_000_000
            assert page.count(b"<td") < 30_000
            assert not inspect(page[:200_000]).wrong

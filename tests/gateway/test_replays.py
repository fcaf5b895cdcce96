"""Recorded sessions of agents are replayed through the gateway, and kept as what they were.

All recordings go through one gateway at once, each with a key of its own and so in a scope of its own; with and
without a restart between their turns; and through three gateways on one store, where each request comes to another
one. ``../shared/sessions`` has recordings of real programs, where it is there.
"""

from __future__ import annotations

import json
import os
import random
import re
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from cannery.gateway.filing import REPEAT
from cannery.storage import Store, open_store
from tests.gateway.asides import aside_recordings
from tests.gateway.delegations import delegated_recordings
from tests.gateway.mutations import mutated, tagged
from tests.gateway.recordings import all_recordings
from tests.gateway.rewritings import rewritten_recordings
from tests.gateway.running import Running
from tests.gateway.scripted import Scripted, send

SHARED = Path(__file__).parents[3] / "shared" / "sessions"
DIALECTS = {
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
    "/messages": "anthropic_messages",
}


def sessions() -> list[dict[str, Any]]:
    """The recordings of this project, and those of real programs."""
    own = [
        {"name": one.name, "requests": one.requests, "expected": one.expected}
        for made in (all_recordings, aside_recordings, delegated_recordings, rewritten_recordings)
        for one in made()
    ]
    shared = [
        {"name": path.stem, **json.loads(path.read_text())}
        for path in sorted(SHARED.glob("[0-9]*.json"))
    ]
    return own + shared


NAMES = [session["name"] for session in sessions()]


class Kept:
    """What became of the requests of a session, and the conversations of its scopes."""

    def __init__(self) -> None:
        self.filed: list[dict[str, Any]] = []
        self.conversations: dict[str, Any] = {}
        self.said: dict[str, list[tuple[str, str]]] = {}
        self.calls: dict[str, str | None] = {}
        self.is_sound = False

    def read(self, store: Store) -> None:
        for one in store.list(kinds=None):
            self.conversations[one.identifier] = one
            self.calls[one.identifier] = store.get(one.identifier).metadata.call
            self.said[one.identifier] = [
                (canister.role.value, _text(canister))
                for canister in store.get(one.identifier).load()
            ]
        # A streamed answer that was given before is the same conversation under the id that it was promised.
        again = {
            one: info.parent for one, info in self.conversations.items() if info.kind == REPEAT
        }
        for filed in self.filed:
            filed["id"] = again.get(filed["id"], filed["id"])
        for one in again:
            del self.conversations[one]

    def ancestors(self, identifier: str) -> list[str]:
        found: list[str] = []
        while (parent := self.conversations[identifier].parent) is not None and parent not in found:
            found.append(parent)
            identifier = parent
        return found


def _text(canister: Any) -> str:
    found = getattr(canister, "text", "")
    return found if isinstance(found, str) else ""


def _dialect(path: str) -> str:
    return next((name for end, name in DIALECTS.items() if path.endswith(end)), "gemini_generate")


def _keys(session: dict[str, Any]) -> dict[str, str]:
    """The users of a session, by the names of their scopes."""
    found = re.findall(
        r"REDACTED-(\w+)", json.dumps([one["headers"] for one in session["requests"]])
    )
    return {user: f"{session['name']}.{user}".replace("-", "_") for user in sorted({*found, "one"})}


def replay(
    folder: Path, recorded: list[dict[str, Any]], *, restarts: bool, gateways: int = 1
) -> dict[str, Kept]:
    """Send everything, turn by turn, and read what was kept.

    Where there are several gateways on the store, each request of a session goes to another one.
    """
    kept = {session["name"]: Kept() for session in recorded}
    scopes = {session["name"]: _keys(session) for session in recorded}
    names = [scope for users in scopes.values() for scope in users.values()]
    folder.mkdir(exist_ok=True)
    (folder / "keys").write_text("".join(f"{name}: key-{name}\n" for name in names))
    with Scripted() as upstream:
        config = _config(folder, upstream.url)
        if gateways > 1:
            config += f'[recording]\nacknowledge = "durable"\nstore = "{folder / "store"}"\n'
        running = [_start(folder, config, at, gateways) for at in range(gateways)]
        last = max(request["turn"] for session in recorded for request in session["requests"])
        for turn in range(1, last + 1):
            for session in recorded:
                for request in session["requests"]:
                    if request["turn"] == turn and request.get("method", "POST") == "POST":
                        users, found = scopes[session["name"]], kept[session["name"]]
                        asked = running[len(found.filed) % gateways]
                        found.filed.append(_ask(asked, upstream, request, users))
            if restarts and turn < last:
                running[0].stop()
                running[0] = _start(folder, config, 0, gateways)
        for one in running:
            one.settle()
            one.stop()
    with open_store(str(folder / "store")) as store:
        is_sound = store.verify().damages == ()
        for session in recorded:
            kept[session["name"]].is_sound = is_sound
            for scope in scopes[session["name"]].values():
                kept[session["name"]].read(store.within(scope))
    return kept


def _start(folder: Path, config: str, number: int, gateways: int) -> Running:
    """One of several gateways, or the only one."""
    if gateways == 1:
        return Running(folder, config)
    return Running(folder / str(number), config, record=None)


def _config(folder: Path, url: str) -> str:
    rows = [_row(dialect, url) for dialect in {*DIALECTS.values(), "gemini_generate"}]
    return "".join([*rows, f'[keys]\nfile = "{folder / "keys"}"\n'])


def _row(dialect: str, url: str) -> str:
    lines = [
        f'name = "{dialect}"',
        f'dialect = "{dialect}"',
        f'url = "{url}"',
        'key_variable = "TEST_KEY"',
    ]
    return "\n".join(["[[upstreams]]", *lines, f'models = ["{_MODELS[dialect]}"]', ""])


_MODELS = {
    "anthropic_messages": "claude-*",
    "openai_chat": "chat/*",
    "openai_responses": "gpt-*",
    "gemini_generate": "gemini-*",
}


def _ask(
    running: Running, upstream: Scripted, request: dict[str, Any], users: dict[str, str]
) -> dict[str, Any]:
    body = dict(request["body"])
    if _dialect(request["path"]) == "openai_chat":
        # Two dialects share the models of one provider.
        body["model"] = f"chat/{body['model']}"
    user = next(
        (m[1] for _, v in request["headers"] if (m := re.search(r"REDACTED-(\w+)", v))), "one"
    )
    headers = [(name, value) for name, value in request["headers"] if name.lower() not in _DROPPED]
    headers.append(("authorization", f"Bearer key-{users[user]}"))
    query = f"?{request['query']}" if request.get("query") else ""
    upstream.reply = request["reply"]
    path = urllib.parse.quote(request["path"], safe="/:")
    status, found, _ = send(running.url, path + query, headers, json.dumps(body).encode())
    assert status == request["reply"]["status"], found
    identifier = found.get("x-cannery-conversation")
    return {"kind": request["kind"], "session": request.get("session"), "id": identifier}


_DROPPED = {
    "host",
    "content-length",
    "connection",
    "transfer-encoding",
    "accept-encoding",
    "authorization",
    "x-api-key",
    "x-goog-api-key",
}


@pytest.fixture(scope="module", params=["at_once", "restarted", "three_gateways"])
def kept(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Kept]:
    folder = tmp_path_factory.mktemp(request.param)
    gateways = 3 if request.param == "three_gateways" else 1
    return replay(folder, sessions(), restarts=request.param == "restarted", gateways=gateways)


@pytest.mark.parametrize("session", sessions(), ids=NAMES)
@pytest.mark.xdist_group("replays")
def test_a_session_is_kept_as_what_it_was(kept: dict[str, Kept], session: dict[str, Any]) -> None:
    _judge(kept[session["name"]], session["expected"])


@pytest.fixture(scope="module", params=range(int(os.environ.get("CANNERY_MUTATIONS", "3"))))
def changed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Kept, dict[str, Any]]]:
    """All sessions, each changed as clients change theirs, with and without restarts, and at three gateways."""
    first = int(os.environ.get("CANNERY_MUTATION_SEED", "0"))
    made = [mutated(session, first + request.param) for session in sessions()]
    folder = tmp_path_factory.mktemp(f"changed{request.param}")
    gateways = 3 if request.param % 3 == 2 else 1
    kept = replay(folder, made, restarts=bool(request.param % 2), gateways=gateways)
    return {session["name"]: (kept[session["name"]], session) for session in made}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.xdist_group("changed")
def test_a_session_survives_what_clients_change(
    changed: dict[str, tuple[Kept, dict[str, Any]]], name: str
) -> None:
    found, session = changed[name]
    try:
        _judge(found, session["expected"])
    except AssertionError as error:
        raise AssertionError(f"{name}, changed by {session['changes']}: {error}") from None


@pytest.fixture(scope="module")
def mingled(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Kept, dict[str, Any]]]:
    """All sessions of one person, each request between those of others."""
    made = [
        mutated(tagged(session, f"for {session['name']}"), 1)
        for session in sessions()
        if len(_keys(session)) == 1
    ]
    rng = random.Random(1)
    waiting = [[(session, one) for one in session["requests"]] for session in made]
    order = []
    while waiting:
        mine = rng.choice(waiting)
        order.append(mine.pop(0))
        waiting = [one for one in waiting if one]
    folder = tmp_path_factory.mktemp("mingled")
    kept = _replay_mingled(folder, order)
    return {session["name"]: (kept[session["name"]], session) for session in made}


def _replay_mingled(
    folder: Path, order: list[tuple[dict[str, Any], dict[str, Any]]]
) -> dict[str, Kept]:
    kept = {session["name"]: Kept() for session, _ in order}
    (folder / "keys").write_text("all: key-all\n")
    with Scripted() as upstream:
        running = Running(folder, _config(folder, upstream.url))
        for session, request in order:
            if request.get("method", "POST") == "POST":
                found = _ask(running, upstream, request, {"one": "all"})
                kept[session["name"]].filed.append(found)
        running.settle()
        running.stop()
    with open_store(str(folder / "store")) as store:
        for one in kept.values():
            one.is_sound = True
            one.read(store.within("all"))
            own = {filed["id"] for filed in one.filed}
            one.conversations = {
                name: info for name, info in one.conversations.items() if name in own
            }
    return kept


@pytest.mark.parametrize("name", [each["name"] for each in sessions() if len(_keys(each)) == 1])
@pytest.mark.xdist_group("mingled")
def test_sessions_of_one_key_stay_apart(
    mingled: dict[str, tuple[Kept, dict[str, Any]]], name: str
) -> None:
    found, session = mingled[name]
    _judge(found, session["expected"])
    others = [kept for other, (kept, _) in mingled.items() if other != name]
    assert all(set(found.conversations).isdisjoint(one.conversations) for one in others)


def _judge(found: Kept, expected: dict[str, Any]) -> None:
    parts = _parts(found, expected)
    for one in expected["sessions"]:
        ids = parts[one["name"]]
        assert len(ids) == 1, f"{one['name']} is in {len(ids)} conversations"
        said = found.said[ids[0]]
        places = [_places(said, text, expected) for text in one["said"]]
        assert [len(at) for at in places] == [1] * len(places), one["said"]
        assert places == sorted(places), "said in another order"
    _check_links(found, expected, parts)
    _check_others(found, expected)
    assert found.is_sound


def _parts(found: Kept, expected: dict[str, Any]) -> dict[str, list[str]]:
    """The conversations of each session."""
    names = [one["name"] for one in expected["sessions"]]
    parts: dict[str, dict[str, None]] = {name: {} for name in names}
    is_after = False
    for filed in found.filed:
        is_after = is_after or filed["kind"] == "side:compact"
        if filed["kind"] == "main":
            name = filed["session"] if filed["session"] in names else names[0]
            if "after" in names:
                name = "after" if is_after else "before"
            parts[name][filed["id"]] = None
    return {name: list(ids) for name, ids in parts.items()}


def _places(said: list[tuple[str, str]], wanted: str, expected: dict[str, Any]) -> list[int]:
    """Where a text was said: prompts may stand among other text, answers stand alone."""
    wanted = wanted.strip('"')
    is_loose = expected.get("said_in") == "contains"
    roles = {"user", "assistant"}
    return [
        at
        for at, (role, text) in enumerate(said)
        if role in roles
        and (
            text.strip().strip('"') == wanted
            or (role == "user" and text.endswith(f"\n{wanted}"))
            or (is_loose and wanted in text and not text.lstrip().startswith("USER:"))
        )
    ]


def _check_links(found: Kept, expected: dict[str, Any], parts: dict[str, list[str]]) -> None:
    linked = {one["name"]: one.get("linked_to") for one in expected["sessions"]}
    for name, other in linked.items():
        above = {*parts[name], *found.ancestors(parts[name][0])}
        for rest, ids in parts.items():
            if rest == name:
                continue
            is_linked = not above.isdisjoint(ids)
            assert is_linked == (rest == other), (name, rest)


def _check_others(found: Kept, expected: dict[str, Any]) -> None:
    mains = {filed["id"] for filed in found.filed if filed["kind"] == "main"}
    sides = {filed["id"] for filed in found.filed if filed["kind"].startswith("side:")}
    agents = {filed["id"] for filed in found.filed if filed["kind"] == "subagent"}
    kinds = {one: found.conversations[one].kind for one in found.conversations}
    assert not mains & (sides | agents)
    assert len(agents) == expected["conversations"]["subagent"]
    assert all(kinds[one] == "subagent" and found.ancestors(one) for one in agents)
    if expected.get("has_calls"):
        assert all(found.calls[one] for one in agents)
    assert not {kinds[one] for one in sides} & {"", "subagent", "compaction"}
    if expected.get("has_linked_sides"):
        assert all(not mains.isdisjoint(found.ancestors(one)) for one in sides)
    compacted = [one for one in mains if kinds[one] == "compaction"]
    assert len(compacted) == expected.get("compactions", 0)
    for one in compacted:
        (*_, first) = found.ancestors(one)
        assert found.conversations[one].title == found.conversations[first].title
    # Nothing else was kept: no second copy, under whatever id.
    assert set(found.conversations) == mains | sides | agents
    if "title" in expected:
        assert {found.conversations[one].title for one in mains} == {expected["title"]}
    assert all(found.conversations[one].title for one in mains)

"""What is kept of exchanges: resent history once, edited history as a fork, answers broken off as such."""

from __future__ import annotations

import contextlib
import http.client
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from cannery.messages import Role
from cannery.storage import Store, open_store
from cannery.storage.exchanges import (
    Costs,
    records_by_conversation,
    records_of,
    records_since,
)
from tests.locations import new_database

from .running import Running, rows, wait_for, words
from .test_contract import ask, chat
from .upstream import Upstream

CHAT = "/v1/chat/completions"


@pytest.fixture
def own(upstream: Upstream, tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path, rows(upstream.url))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def stateful(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway for tests that do not mind what others have said."""
    running = Running(tmp_path_factory.mktemp("stateful"), rows(upstream.url))
    yield running
    running.stop()


@contextlib.contextmanager
def kept(running: Running) -> Iterator[Store]:
    """The store of a gateway that has stopped."""
    running.settle()
    running.stop()
    store = open_store(str(running.store))
    try:
        yield store
    finally:
        store.close()


def talk(
    running: Running, *messages: tuple[str, Any], model: str = "chat-model", **more: Any
) -> str:
    """One exchange; the conversation that it was filed in."""
    headers = more.pop("headers", {})
    status, found, _ = ask(running, CHAT, chat(model, *messages, **more), headers)
    assert status == 200
    return found["x-cannery-conversation"]


HISTORY = [("system", "Be brief."), ("user", "one"), ("assistant", "echo: one"), ("user", "two")]


@pytest.mark.parametrize("model", ["chat-model", "anthropic-model", "echo"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_resent_history_is_one_conversation(stateful: Running, model: str, stream: bool) -> None:
    asked = f"one, {model}, {stream}"
    lead, question, answer = (
        ("system", "Be brief."),
        ("user", asked),
        ("assistant", f"echo: {asked}"),
    )
    first = talk(stateful, lead, question, model=model, stream=stream)
    stateful.settle()
    second = talk(stateful, lead, question, answer, HISTORY[-1], model=model, stream=stream)
    assert first == second
    stateful.settle()
    store = open_store(str(stateful.store))
    texts = words(store.get(first).load())
    assert texts == [lead[1], asked, f"echo: {asked}", "two", "echo: two"]
    assert (
        len([each for each in store.list() if asked in words(store.get(each.identifier).load())])
        == 1
    )
    store.close()


def test_a_history_spelled_differently_is_recognised(stateful: Running) -> None:
    lead = ("system", "Be brief, however it is spelled.")
    first = talk(stateful, lead, HISTORY[1])
    parts = [{"type": "text", "text": "one"}]
    second = talk(stateful, lead, ("user", parts), *HISTORY[2:])
    assert first == second


def test_an_edited_history_is_a_fork(own: Running) -> None:
    first = talk(own, *HISTORY)
    edited = talk(own, *HISTORY[:3], ("user", "three"))
    assert edited != first
    with kept(own) as store:
        fork = store.get(edited)
        assert fork.parent == first
        assert words(fork.load())[-2:] == ["three", "echo: three"]
        assert store.verify().damages == ()


def test_an_answer_that_comes_first_does_not_take_the_place_of_another(own: Running) -> None:
    """Of two calls with the same question the second is answered while the first one still streams."""
    talk(own, *HISTORY[:2])
    connection = http.client.HTTPConnection("127.0.0.1", own.port, timeout=60)
    slow = json.dumps(chat("chat-hesitant", *HISTORY, stream=True))
    connection.request("POST", CHAT, slow, {"content-type": "application/json"})
    answer = connection.getresponse()
    first = answer.headers["x-cannery-conversation"]
    second = talk(own, *HISTORY)
    own.settle()
    answer.read()
    connection.close()
    assert first != second
    with kept(own) as store:
        assert {one.identifier for one in store.list()} == {first, second}
        assert words(store.get(second).load())[-2:] == ["two", "echo: two"]
        assert words(store.get(first).load())[-2:-1] == ["two"]
        assert words(store.get(first).load())[-1] != "echo: two"
        assert len(store.get(first)) == len(store.get(second)) == 5


def test_a_shared_system_prompt_makes_no_fork(own: Running) -> None:
    first = talk(own, HISTORY[0], ("user", "one"))
    second = talk(own, HISTORY[0], ("user", "two"))
    assert first != second
    with kept(own) as store:
        assert [each.parent for each in store.list()] == [None, None]
        assert words(store.get(second).load()) == ["Be brief.", "two", "echo: two"]


def test_the_same_call_with_the_same_answer_is_kept_once(own: Running) -> None:
    assert len({talk(own, *HISTORY) for _ in range(5)}) == 1
    with kept(own) as store:
        assert len(store.list()) == 1


def test_a_restarted_gateway_recognises_what_it_filed(
    own: Running, upstream: Upstream, tmp_path: Path
) -> None:
    first = talk(own, *HISTORY[:2])
    own.settle()
    own.stop()
    again = Running(tmp_path, rows(upstream.url))
    try:
        # An upstream that answers at once would leave the store no time to look.
        assert talk(again, *HISTORY, model="chat-pause") == first
    finally:
        again.stop()


def test_a_client_may_name_the_conversation(own: Running) -> None:
    headers = {"x-cannery-conversation": "my-talk"}
    assert talk(own, *HISTORY[:2], headers=headers) == "my-talk"
    assert talk(own, *HISTORY, headers=headers) == "my-talk"
    assert talk(own, *HISTORY[:2], headers={"x-cannery-conversation": "another"}) == "another"
    with kept(own) as store:
        assert len(store.get("my-talk").load()) == 5
        assert len(store.get("another").load()) == 3


def test_a_name_that_cannot_be_one_is_refused(stateful: Running) -> None:
    body = chat("echo", ("user", "Hi"))
    status, _, said = ask(stateful, CHAT, body, {"x-cannery-conversation": "../../etc"})
    assert status == 400
    assert "X-Cannery-Conversation" in said["error"]["message"]


def test_tool_calls_and_results_are_kept(own: Running) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    client = openai.OpenAI(base_url=f"{own.url}/v1", api_key="k")
    messages: list[Any] = [{"role": "user", "content": "call f"}]
    answer = client.chat.completions.create(
        model="gemini-model",
        messages=messages,
        tools=tools,  # type: ignore[arg-type]
    )
    call = answer.choices[0].message.tool_calls[0]  # type: ignore[index]
    messages += [
        {"role": "assistant", "tool_calls": [call.model_dump()]},
        {"role": "tool", "tool_call_id": call.id, "content": "done"},
    ]
    client.chat.completions.create(model="gemini-model", messages=messages, tools=tools)  # type: ignore[arg-type]
    client.close()
    with kept(own) as store:
        (summary,) = store.list()
        roles = [canister.role for canister in store.get(summary.identifier).load()]
        spoken = [role for role in roles if role is not Role.Assistant]
        assert spoken == [Role.User, Role.Invocation, Role.Result]
        assert roles[-1] is Role.Assistant


@pytest.mark.parametrize("backend", ["directory", "sqlite", "postgresql"])
def test_what_an_exchange_took_is_kept_in_every_store(
    upstream: Upstream, tmp_path: Path, backend: str
) -> None:
    place = {
        "directory": lambda: str(tmp_path / "store"),
        "sqlite": lambda: f"sqlite:{tmp_path}/a.sqlite",
        "postgresql": new_database,
    }[backend]()
    own = Running(tmp_path, rows(upstream.url), "--store", place, record=None)
    try:
        identifier = talk(own, ("user", "Hi"), model="anthropic-model", stream=True)
        # The same again adds no message, and is an exchange all the same.
        talk(own, ("user", "Hi"), model="anthropic-model")
        fork = talk(own, ("user", "Hi"), ("assistant", "echo: Hi"), ("user", "on"))
        own.settle()
    finally:
        assert own.stop() == 0
    with open_store(place) as store:
        first, *more = records_of(store, store.metadata_of(identifier))
        assert (first.outcome, first.dialect, first.upstream) == (
            "complete",
            "openai_chat",
            "anthropic",
        )
        assert first.input_tokens > 0
        assert first.output_tokens > 0
        assert first.position == 2
        assert first.seconds is not None
        assert first.first_byte is not None
        assert 0 < first.first_byte <= first.seconds < 60
        assert [one.position for one in more] == [2, 4]
        assert [one.position for one in records_of(store, store.metadata_of(fork))][-1] == 4
        told = records_by_conversation(store, [identifier, fork])
        assert Costs.of(told[identifier]).tokens > 0
        assert Costs.of(records_since(store)).exchanges == 3
        # Nobody else sees it.
        assert list(records_since(store.within("somebody"))) == []


def test_a_stream_that_is_broken_off_is_marked(own: Running) -> None:
    for model in ("chat-cut", "anthropic-cut"):
        identifier = talk(own, ("user", model), model=model, stream=True)
        own.settle()
        assert identifier
    assert own.recorded("aborted") == 2
    with kept(own) as store:
        for summary in store.list():
            assert summary.tags == ("aborted",)
            (only,) = store.get(summary.identifier).load()
            assert only.role is Role.User


def test_a_client_that_hangs_up_leaves_an_answer_broken_off(
    own: Running, upstream: Upstream
) -> None:
    before = upstream.hang_ups
    connection = http.client.HTTPConnection("127.0.0.1", own.port, timeout=10)
    connection.request(
        "POST", CHAT, json.dumps(chat("anthropic-endless", ("user", "x"), stream=True))
    )
    connection.getresponse().read(40)
    connection.close()
    wait_for(lambda: upstream.hang_ups > before, "the upstream is not told")
    assert upstream.hang_ups == before + 1
    wait_for(lambda: own.recorded("aborted"), "it is not filed")
    assert own.recorded("aborted") == 1


def test_recording_can_be_switched_off(tmp_path: Path) -> None:
    running = Running(tmp_path, "", record=False)
    try:
        _, headers, _ = ask(running, CHAT, chat("echo", ("user", "Hi")))
        assert "x-cannery-conversation" not in headers
        assert not running.store.exists()
        assert ask(running, "/readyz")[0] == 200
    finally:
        running.stop()


def test_a_store_that_cannot_be_opened_is_reported_and_fails_no_reply(tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    (folder / "store").write_text("this is no store")
    running = Running(folder, "")
    try:
        assert ask(running, CHAT, chat("echo", ("user", "Hi")))[0] == 200
        wait_for(lambda: ask(running, "/readyz")[0] == 503, "readiness does not notice")
        _, _, said = ask(running, "/readyz")
        assert said["problems"]
        assert running.metrics()["cannery_recording_queue"] == 1
        assert running.metrics()["cannery_store_up"] == 0
        assert ask(running, "/healthz")[0] == 200
        (folder / "store").unlink()
        running.settle()
        assert running.recorded() == 1
        assert ask(running, "/readyz")[0] == 200
    finally:
        running.stop()


def test_a_store_that_goes_away_is_reported_and_comes_back(own: Running) -> None:
    talk(own, ("user", "before"))
    own.settle()
    conversations = own.store / "conversations"
    moved = own.store / "moved"
    conversations.rename(moved)
    conversations.write_text("in the way")
    status, _, _ = ask(own, CHAT, chat("echo", ("user", "meanwhile")))
    assert status == 200
    wait_for(lambda: own.metrics()["cannery_store_up"] == 0, "nobody notices")
    conversations.unlink()
    moved.rename(conversations)
    talk(own, ("user", "after"))
    own.settle()
    assert ask(own, "/readyz")[0] == 200


# --- continued by id --------------------------------------------------------------------------


UPSTREAM_MODELS = ("echo", "chat-model", "anthropic-model", "gemini-model", "responses-model")


@contextlib.contextmanager
def responses_of(running: Running) -> Iterator[Any]:
    client = openai.OpenAI(base_url=f"{running.url}/v1", api_key="k", max_retries=0)
    try:
        yield client.responses
    finally:
        client.close()


@pytest.mark.parametrize("model", UPSTREAM_MODELS)
@pytest.mark.parametrize("stream", [False, True])
def test_previous_response_id_is_served_for_every_upstream(
    stateful: Running, upstream: Upstream, model: str, stream: bool
) -> None:
    name = f"my name is Ann of {model}, {stream}"
    with responses_of(stateful) as responses:

        def create(**more: Any) -> tuple[Any, str]:
            raw = responses.with_raw_response.create(model=model, stream=stream, **more)
            answer = list(raw.parse())[-1].response if stream else raw.parse()
            return answer, raw.headers["x-cannery-conversation"]

        first, _ = create(input=name, instructions="one")
        upstream.problems.clear()
        second, filed = create(input="again", instructions="two", previous_response_id=first.id)
    assert second.output_text == "echo: again"
    assert upstream.problems == []
    if model != "echo":
        sent = upstream.seen[-1].body.decode()
        for said in (name, f"echo: {name}", "again", "two"):
            assert said in sent
        assert '"one"' not in sent
        assert "previous_response_id" not in sent
    stateful.settle()
    store = open_store(str(stateful.store))
    held = store.get(filed)
    assert words(held.load()) == ["one", name, f"echo: {name}", "again", "echo: again"]
    versions = [(each.position, words(each.canisters)) for each in held.instructions()]
    assert versions == [(0, ["one"]), (3, ["two"])]
    store.close()


@pytest.mark.parametrize("stream", [False, True])
def test_the_same_answer_to_the_same_question_is_kept_once(own: Running, stream: bool) -> None:
    question = {"role": "user", "content": f"the same question, {stream}"}
    for _ in range(3):
        ask(
            own, "/v1/chat/completions", {"model": "echo", "stream": stream, "messages": [question]}
        )
    own.settle()
    with open_store(str(own.store)) as store:
        (kept,) = store.list()
        assert words(store.get(kept.identifier)) == [
            question["content"],
            f"echo: {question['content']}",
        ]
        copies = [each for each in store.list(kinds=None) if each.identifier != kept.identifier]
        assert [each for each in copies if each.parent != kept.identifier] == []


def test_a_history_that_begins_otherwise_is_known_by_its_end(own: Running) -> None:
    """A client that restores a session behind messages of its own goes on in the conversation."""
    turns: list[dict[str, str]] = []
    for said in ("one thing", "another thing", "a third thing"):
        turns += [{"role": "user", "content": said}]
        ask(own, "/v1/chat/completions", {"model": "echo", "messages": turns})
        turns += [{"role": "assistant", "content": f"echo: {said}"}]
    begun = [{"role": "user", "content": "<context>\nfiles: a.py\n</context>"}]
    more = {"role": "user", "content": "a fourth thing"}
    ask(own, "/v1/chat/completions", {"model": "echo", "messages": [*begun, *turns, more]})
    own.settle()
    with open_store(str(own.store)) as store:
        (kept,) = store.list()
        texts = words(store.get(kept.identifier))
    for said in ("one thing", "another thing", "a third thing", "a fourth thing"):
        assert texts.count(said) == 1
        assert texts.count(f"echo: {said}") == 1


def test_tools_that_are_left_out_are_a_version_and_settings_are_none(own: Running) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    turns: list[dict[str, str]] = []
    for number, offered in enumerate((tools, tools, None, None, tools)):
        turns += [{"role": "user", "content": f"question {number}"}]
        body = {"model": "echo", "messages": turns, "temperature": number / 10}
        ask(own, "/v1/chat/completions", body if offered is None else {**body, "tools": offered})
        turns += [{"role": "assistant", "content": f"echo: question {number}"}]
    own.settle()
    show = [sys.executable, "-m", "cannery", "show", "@", "--store", str(own.store)]
    show += ["--instructions", "--json"]
    shown = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    versions = [
        (version["position"], [tool["name"] for tool in version["tools"]])
        for version in json.loads(shown)
    ]
    assert versions == [(0, ["look"]), (4, []), (8, ["look"])]


def test_exports_have_later_versions_of_instructions(own: Running) -> None:
    for text, said in (
        ("Be brief.", "first"),
        ("Be kind to sk-ant-api03-" + "q7Zt" * 12, "second"),
    ):
        messages = [{"role": "system", "content": text}, {"role": "user", "content": "first"}]
        if said == "second":
            messages += [
                {"role": "assistant", "content": "echo: first"},
                {"role": "user", "content": said},
            ]
        ask(own, "/v1/chat/completions", {"model": "echo", "messages": messages})
    own.settle()
    export = [sys.executable, "-m", "cannery", "export", "@", "--store", str(own.store), "--as"]

    def written(*words: str) -> str:
        return subprocess.run([*export, *words], check=True, capture_output=True, text=True).stdout

    (version,) = json.loads(written("jsonl"))["instructions"]
    assert version["position"] == 3
    assert version["instructions"][0]["text"].startswith("Be kind to")
    assert "# Instructions from message 3 on" in written("markdown")
    for form in ("jsonl", "markdown"):
        redacted = written(form, "--redact")
        assert "Be kind to" in redacted
        assert "q7Zt" not in redacted


@pytest.mark.parametrize("backend", ["directory", "sqlite"])
def test_previous_response_id_survives_a_restart(
    upstream: Upstream, tmp_path: Path, backend: str
) -> None:
    place = str(tmp_path / "store") if backend == "directory" else f"sqlite:{tmp_path}/a.sqlite"
    own = Running(tmp_path, rows(upstream.url), "--store", place, record=None)
    client = openai.OpenAI(base_url=f"{own.url}/v1", api_key="k", max_retries=0)
    first = client.responses.create(model="chat-model", input="remember 42")
    client.close()
    own.settle()
    own.stop()
    again = Running(tmp_path, rows(upstream.url), "--store", place, record=None)
    try:
        client = openai.OpenAI(base_url=f"{again.url}/v1", api_key="k", max_retries=0)
        client.responses.create(model="gemini-model", input="go on", previous_response_id=first.id)
        assert "remember 42" in upstream.seen[-1].body.decode()
        client.close()
    finally:
        again.stop()


@pytest.mark.parametrize("model", ["echo", "chat-model", "gemini-model"])
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_continued_but_not_known_is_a_clear_error(
    stateful: Running, model: str, stream: bool
) -> None:
    with responses_of(stateful) as responses:
        for more in ({"previous_response_id": "resp_none"}, {"conversation": "conv_none"}):
            (name,) = more
            with pytest.raises(openai.NotFoundError) as caught:
                responses.create(model=model, input="x", stream=stream, **more)
            code = {"conversation": "conversation_not_found"}.get(
                name, "previous_response_not_found"
            )
            assert (caught.value.code, caught.value.param) == (code, name)
            assert caught.value.type == "invalid_request_error"
            assert "none" in caught.value.message


def test_an_id_that_only_the_upstream_can_know_is_left_to_it(
    stateful: Running, upstream: Upstream
) -> None:
    with responses_of(stateful) as responses:
        responses.create(model="responses-model", input="x", previous_response_id="resp_theirs")
        assert upstream.seen[-1].json["previous_response_id"] == "resp_theirs"
        responses.create(model="responses-model", input="x", conversation="conv_Theirs")
        assert upstream.seen[-1].json["conversation"] == "conv_Theirs"


@pytest.mark.parametrize("model", UPSTREAM_MODELS)
def test_a_reply_that_is_not_to_be_stored_cannot_be_continued(
    stateful: Running, upstream: Upstream, model: str
) -> None:
    with responses_of(stateful) as responses:
        first = responses.create(model=model, input="keep nothing", store=False)
        if model == "responses-model":
            responses.create(model=model, input="x", previous_response_id=first.id)
            assert upstream.seen[-1].json["previous_response_id"] == first.id
            assert "keep nothing" not in upstream.seen[-1].body.decode()
        else:
            with pytest.raises(openai.NotFoundError):
                responses.create(model=model, input="x", previous_response_id=first.id)


@pytest.mark.parametrize("model", UPSTREAM_MODELS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_is_continued_by_its_name(
    stateful: Running, upstream: Upstream, model: str, stream: bool
) -> None:
    name = f"talk-{model}-{stream}".lower()
    twin = {"x-cannery-conversation": f"twin-{name}"}
    with responses_of(stateful) as responses:
        for headers in (twin, {"x-cannery-conversation": name}):
            responses.create(model=model, input="my name is Ann", extra_headers=headers)
        upstream.problems.clear()
        for given in (name, {"id": name}):
            raw = responses.with_raw_response.create(
                model=model, input="again", conversation=given, stream=stream
            )
            assert raw.headers["x-cannery-conversation"] == name
            answer = list(raw.parse())[-1].response if stream else raw.parse()
            assert answer.output_text == "echo: again"
        assert upstream.problems == []
    if model != "echo":
        sent = upstream.seen[-1].body.decode()
        assert sent.count("my name is Ann") == 2
        assert sent.count("again") == 3
        assert '"conversation"' not in sent
    stateful.settle()
    store = open_store(str(stateful.store))
    assert words(store.get(name).load()) == [
        *("my name is Ann", "echo: my name is Ann", "again", "echo: again", "again", "echo: again")
    ]
    assert len(store.get(twin["x-cannery-conversation"]).load()) == 2
    store.close()


def test_a_conversation_and_a_reply_cannot_both_be_continued(stateful: Running) -> None:
    with responses_of(stateful) as responses, pytest.raises(openai.BadRequestError) as caught:
        responses.create(model="echo", input="x", conversation="a", previous_response_id="b")
    assert caught.value.param == "conversation"


@pytest.mark.parametrize("is_restarted", [False, True])
def test_each_reply_keeps_the_history_that_it_answered(
    own: Running, upstream: Upstream, tmp_path: Path, is_restarted: bool
) -> None:
    """Going back and asking something else leaves what followed as it was."""
    with responses_of(own) as responses:
        first = responses.create(model="chat-model", input="one")
        second = responses.create(model="chat-model", input="two", previous_response_id=first.id)
        other = responses.create(model="chat-model", input="zwei", previous_response_id=first.id)
    running = own
    if is_restarted:
        own.settle()
        own.stop()
        running = Running(tmp_path, rows(upstream.url))
    try:
        with responses_of(running) as responses:
            for reply, said in ((second, "two"), (other, "zwei"), (first, None)):
                raw = responses.with_raw_response.create(
                    model="gemini-model", input="go on", previous_response_id=reply.id
                )
                texts = [
                    part["text"]
                    for content in upstream.seen[-1].json["contents"]
                    for part in content["parts"]
                ]
                middle = [] if said is None else [said, f"echo: {said}"]
                assert texts == ["one", "echo: one", *middle, "go on"]
                assert raw.headers["x-cannery-conversation"]
        with kept(running) as store:
            held = {tuple(words(store.get(each.identifier).load())) for each in store.list()}
            assert held == {
                ("one", "echo: one", "two", "echo: two", "go on", "echo: go on"),
                ("one", "echo: one", "zwei", "echo: zwei", "go on", "echo: go on"),
                ("one", "echo: one", "go on", "echo: go on"),
            }
            assert len([each for each in store.list() if store.get(each.identifier).parent]) == 2
            assert store.verify().damages == ()
    finally:
        running.stop()


@pytest.mark.parametrize("model", UPSTREAM_MODELS)
def test_anthropics_tool_runner_continues_its_thread(
    stateful: Running, upstream: Upstream, model: str
) -> None:
    client = anthropic.Anthropic(base_url=f"{stateful.url}/anthropic", api_key="k", max_retries=0)

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Say what the weather is.

        Args:
            city: where
        """
        return f"fine in {city}"

    upstream.problems.clear()
    runner = client.beta.messages.tool_runner(
        model=model,
        max_tokens=100,
        tools=[get_weather],
        system="Be brief.",
        messages=[{"role": "user", "content": "call get_weather"}],
    )
    final = runner.until_done()
    client.close()
    assert final.content[0].type == "text"
    assert "fine in echo" in final.content[0].text
    assert upstream.problems == []
    if model != "echo":
        sent = upstream.seen[-1].body.decode()
        for said in ("call get_weather", "Be brief.", "fine in echo", "get_weather"):
            assert said in sent


def test_a_thread_that_is_lost_is_sent_again_by_the_sdk(upstream: Upstream, tmp_path: Path) -> None:
    """A gateway that keeps nothing is replaced while the tool is at work."""
    running = [Running(tmp_path / "first", rows(upstream.url), record=False)]
    port = str(running[0].port)

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Say what the weather is.

        Args:
            city: where
        """
        running[0].stop()
        running.append(
            Running(tmp_path / "second", rows(upstream.url), "--port", port, record=False)
        )
        return f"fine in {city}"

    url = f"{running[0].url}/anthropic"
    client = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)
    try:
        final = client.beta.messages.tool_runner(
            model="gemini-model",
            max_tokens=100,
            tools=[get_weather],
            system="Be brief.",
            messages=[{"role": "user", "content": "call get_weather"}],
        ).until_done()
        metrics = running[-1].metrics()
    finally:
        client.close()
        for each in running:
            each.stop()
    assert "fine in echo" in final.content[0].text  # type: ignore[union-attr]
    refused = [
        value for name, value in metrics.items() if "_requests_total" in name and '"404"' in name
    ]
    assert refused == [1]


def test_a_thread_keeps_its_tools_over_a_restart(upstream: Upstream, tmp_path: Path) -> None:
    tool = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}
    asked = {**chat("chat-model", ("user", "one")), "max_tokens": 9}
    headers = {"anthropic-version": "x"}
    first = Running(tmp_path, rows(upstream.url))
    begun = {**asked, "tools": [tool], "thread": {"type": "create"}}
    status, _, said = ask(first, "/v1/messages", begun, headers)
    assert status == 200
    first.settle()
    first.stop()
    again = Running(tmp_path, rows(upstream.url))
    try:
        body = {**chat("chat-model", ("user", "two")), "max_tokens": 9}
        body["thread"] = {"type": "continue", "previous_message_id": said["id"]}
        assert ask(again, "/v1/messages", body, headers)[0] == 200
        sent = upstream.seen[-1].json
        assert [one["function"]["name"] for one in sent["tools"]] == ["look"]
        assert sent["tools"][0]["function"]["parameters"]["type"] == "object"
        assert [one["content"] for one in sent["messages"]][-1] == "two"
    finally:
        again.stop()


def test_an_unknown_thread_is_a_404_with_the_code_that_the_sdk_looks_for(stateful: Running) -> None:
    body = {
        **chat("chat-model", ("user", "x")),
        "max_tokens": 9,
        "thread": {"type": "continue", "previous_message_id": "msg_lost"},
    }
    status, _, said = ask(stateful, "/v1/messages", body, {"anthropic-version": "x"})
    assert status == 404
    assert said["error"]["details"] == {"error_code": "thread_not_found"}


@pytest.mark.parametrize(
    "path, state",
    [
        ("/v1/responses", {"previous_response_id": 5}),
        ("/v1/responses", {"previous_response_id": ["resp_1"]}),
        ("/v1/responses", {"conversation": 5}),
        ("/v1/responses", {"conversation": {}}),
        ("/v1/responses", {"conversation": {"id": 5}}),
        ("/v1/messages", {"thread": "continue"}),
        ("/v1/messages", {"thread": {}}),
        ("/v1/messages", {"thread": {"type": "resume"}}),
        ("/v1/messages", {"thread": {"type": "continue"}}),
        ("/v1/messages", {"thread": {"type": "continue", "previous_message_id": 5}}),
    ],
)
def test_a_call_that_names_what_it_continues_wrongly_is_not_answered_without_its_history(
    stateful: Running, upstream: Upstream, path: str, state: dict[str, object]
) -> None:
    words = [{"role": "user", "content": "x"}]
    said = {"input": words} if path == "/v1/responses" else {"messages": words, "max_tokens": 9}
    seen = len(upstream.seen)
    status, _, told = ask(stateful, path, {"model": "chat-model", **said, **state})
    assert status == 400
    assert next(iter(state)) in told["error"]["message"]
    assert len(upstream.seen) == seen


def test_store_on_disk_passes_verification_after_everything(own: Running) -> None:
    for number in range(20):
        talk(own, *HISTORY[:3], ("user", f"branch {number % 4}"), stream=bool(number % 2))
    with kept(own) as store:
        assert store.verify().damages == ()


def _listed_in_the_index(running: Running) -> int:
    """How many conversations the derived tables hold, without asking the store, which would bring in the rest."""
    path = Path(running.store) / "index.sqlite"
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM conversations").fetchone()[0])
    except sqlite3.OperationalError:
        # It is not there yet, or a transaction makes its tables.
        return 0


def test_the_catalogue_follows_without_being_asked(own: Running) -> None:
    for number in range(3):
        talk(own, ("user", f"a question of its own {number}"))
    wait_for(lambda: _listed_in_the_index(own) == 3, "the index to follow")

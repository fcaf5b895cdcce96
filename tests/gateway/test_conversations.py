"""OpenAI's Conversations API, with the official client as the judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from cannery.storage import open_store

from .running import Running, rows, words
from .test_contract import ask
from .upstream import Upstream

PATH = "/v1/conversations"
HELLO: Any = {"type": "message", "role": "user", "content": "Hello"}


@pytest.fixture(scope="module")
def own(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("conversations"), rows(upstream.url))
    yield running
    running.stop()


@pytest.fixture
def client(own: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{own.url}/v1", api_key="k", max_retries=0) as made:
        yield made


def test_a_conversation_is_made_read_changed_and_deleted(client: openai.OpenAI) -> None:
    made = client.conversations.create(metadata={"topic": "demo", "a=b": "50 %"}, items=[HELLO])
    assert made.object == "conversation"
    assert made.id.startswith("conv_")
    assert made.metadata == {"topic": "demo", "a=b": "50 %"}
    assert client.conversations.retrieve(made.id) == made
    changed = client.conversations.update(made.id, metadata={"topic": "other"})
    assert (changed.id, changed.metadata) == (made.id, {"topic": "other"})
    gone = client.conversations.delete(made.id)
    assert (gone.id, gone.deleted, gone.object) == (made.id, True, "conversation.deleted")
    with pytest.raises(openai.NotFoundError) as caught:
        client.conversations.retrieve(made.id)
    assert caught.value.code == "conversation_not_found"


def test_items_are_listed_in_pages_and_found_by_id(client: openai.OpenAI) -> None:
    made = client.conversations.create(items=[HELLO])
    call: Any = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
    result: Any = {"type": "function_call_output", "call_id": "c1", "output": "3"}
    said: Any = {"role": "Assistant", "content": "It is 3."}
    added = client.conversations.items.create(made.id, items=[call, result, said])
    assert [item.type for item in added.data] == [
        "function_call",
        "function_call_output",
        "message",
    ]
    listed = list(client.conversations.items.list(made.id, order="asc", limit=2))
    assert [item.type for item in listed] == ["message", *(item.type for item in added.data)]
    assert len({item.id for item in listed}) == 4
    latest = client.conversations.items.list(made.id, limit=1)
    assert latest.has_more
    assert latest.data[0] == added.data[-1]
    first: Any = client.conversations.items.retrieve(listed[0].id or "", conversation_id=made.id)
    assert (first.role, first.status, first.content[0].text) == ("user", "completed", "Hello")
    last: Any = latest.data[0]
    assert (last.role, last.content[0].type) == ("assistant", "output_text")
    with pytest.raises(openai.NotFoundError) as caught:
        client.conversations.items.retrieve("msg_99", conversation_id=made.id)
    assert caught.value.code == "item_not_found"


@pytest.mark.parametrize("model", ["echo", "chat-model", "responses-model", "anthropic-model"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("items", [[], [HELLO]])
def test_a_conversation_that_was_made_is_continued(
    own: Running, client: openai.OpenAI, model: str, stream: bool, items: list[Any]
) -> None:
    made = client.conversations.create(items=items)
    expected = ["Hello"] if items else []
    for said, instructions in (("one", "Be brief."), ("two", "Be long."), ("three", None)):
        raw = client.responses.with_raw_response.create(
            model=model, input=said, conversation=made.id, instructions=instructions, stream=stream
        )
        assert raw.headers["x-cannery-conversation"] == made.id
        answer: Any = raw.parse()
        text = list(answer)[-1].response.output_text if stream else answer.output_text
        assert text.endswith(said)
        expected += [said, text]
    by_hand: Any = {**HELLO, "content": "by hand"}
    client.conversations.items.create(made.id, items=[by_hand])
    last = client.responses.create(model=model, input="four", conversation=made.id)
    listed: list[Any] = list(client.conversations.items.list(made.id, order="asc"))
    own.settle()
    with open_store(str(own.store)) as store:
        texts = [text for text in words(store.get(made.id).load()) if text != "Be brief."]
        assert len([each for each in store.list() if each.parent == made.id]) == 0
    assert texts == [*expected, "by hand", "four", last.output_text]
    spoken = [item.content[0].text for item in listed if getattr(item, "role", "") != "system"]
    assert spoken == texts


def test_what_any_client_said_can_be_read(own: Running, client: openai.OpenAI) -> None:
    body = {
        "model": "echo",
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "x"}],
    }
    _, headers, _ = ask(own, "/v1/chat/completions", body)
    name = headers["x-cannery-conversation"]
    items: Any = list(client.conversations.items.list(name, order="asc"))
    assert [(item.role, item.content[0].text) for item in items] == [
        *(("system", "S"), ("user", "x"), ("assistant", "echo: x"))
    ]


def test_an_item_is_not_taken_out(client: openai.OpenAI) -> None:
    made = client.conversations.create(items=[HELLO])
    (item,) = client.conversations.items.list(made.id)
    with pytest.raises(openai.ConflictError) as caught:
        client.conversations.items.delete(item.id or "", conversation_id=made.id)
    assert caught.value.code == "history_is_kept"


@pytest.mark.parametrize(
    "method, path, body, status, parameter",
    [
        ("POST", PATH, {"items": "x"}, 400, "items"),
        ("POST", PATH, {"items": [3]}, 400, "items[0]"),
        ("POST", PATH, {"items": [HELLO] * 21}, 400, "items"),
        ("POST", PATH, {"items": [{"role": "admin", "content": "x"}]}, 400, "input.0.role"),
        ("POST", PATH, {"metadata": {"a": 1}}, 400, "metadata.a"),
        ("POST", PATH, {"metadata": {str(n): "" for n in range(17)}}, 400, "metadata"),
        ("POST", PATH, [], 400, None),
        ("DELETE", PATH, None, 405, None),
        ("PUT", PATH, {}, 405, None),
        ("GET", f"{PATH}/none", None, 404, "conversation_id"),
        ("GET", f"{PATH}/No%20Name", None, 404, "conversation_id"),
        ("GET", f"{PATH}/none/items", None, 404, "conversation_id"),
        ("POST", f"{PATH}/none/items", {"items": [HELLO]}, 404, "conversation_id"),
        ("POST", f"{PATH}/none", {"metadata": {}}, 404, "conversation_id"),
        ("POST", f"{PATH}/none", {}, 400, "metadata"),
        ("DELETE", f"{PATH}/none", None, 404, "conversation_id"),
        ("DELETE", f"{PATH}/none/items", None, 405, None),
        ("GET", f"{PATH}/none/other", None, 404, None),
    ],
)
def test_what_is_wrong_is_said(
    own: Running, method: str, path: str, body: Any, status: int, parameter: str | None
) -> None:
    answered, _, raw = ask(own, path, body, method=method)
    assert answered == status, raw
    error = raw["error"]
    assert error["param"] == parameter or parameter is None


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "order=up", "after=none"])
def test_a_page_that_cannot_be_is_refused(own: Running, client: openai.OpenAI, query: str) -> None:
    made = client.conversations.create(items=[HELLO])
    status, _, _ = ask(own, f"{PATH}/{made.id}/items?{query}", None, method="GET")
    assert status == 400


def test_without_recording_there_are_no_conversations(tmp_path: Path) -> None:
    running = Running(tmp_path, "", record=False)
    try:
        status, _, raw = ask(running, PATH, {})
        assert (status, raw["error"]["code"]) == (501, "not_offered")
    finally:
        running.stop()

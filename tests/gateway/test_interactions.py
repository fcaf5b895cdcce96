"""Interactions that go on, are told again and are refused, with the official client as the judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google import genai
from google.genai import types
from google.genai._interactions.core.error import BadRequestError, NotFoundError

from cannery.storage import open_store

from .running import ROWS, Running, rows, words
from .upstream import Upstream

MODELS = ("echo", *(f"{name}-m" for name in ROWS))


@pytest.fixture(scope="module")
def own(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("interactions")
    running = Running(folder, rows(upstream.url))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def client(own: Running) -> Iterator[Any]:
    retries = types.HttpRetryOptions(attempts=1)
    options = types.HttpOptions(base_url=own.url, retry_options=retries)
    with genai.Client(api_key="k", http_options=options) as made:
        yield made.interactions


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_previous_interaction_id_is_served_for_every_upstream(
    own: Running, client: Any, upstream: Upstream, model: str, is_streamed: bool
) -> None:
    if is_streamed:
        events = list(client.create(model=model, input="first", stream=True))
        first = events[-1].interaction.id
        assert events[0].interaction.id == first
    else:
        first = client.create(model=model, input="first", system_instruction="one").id
    upstream.problems.clear()
    more = {"previous_interaction_id": first, "system_instruction": "two"}
    second = client.create(model=model, input="again", **more)
    assert second.output_text == "echo: again"
    assert second.id != first
    if model != "echo":
        sent = upstream.seen[-1].body.decode()
        assert upstream.problems == []
        assert "previous_interaction_id" not in sent
        for said in ("first", "echo: first", "again", "two"):
            assert f'"{said}"' in sent
        assert '"one"' not in sent


def test_what_goes_on_is_one_conversation(own: Running, client: Any) -> None:
    first = client.create(model="chat-m", input="apples and pears")
    client.create(model="gemini-m", input="and plums", previous_interaction_id=first.id)
    own.settle()
    store = open_store(own.store)
    try:
        (found,) = [
            each
            for each in store.list()
            if words(store.get(each.identifier).load())[:1] == ["apples and pears"]
        ]
        said = words(store.get(found.identifier).load(hydrate=True))
    finally:
        store.close()
    assert said == ["apples and pears", "echo: apples and pears", "and plums", "echo: and plums"]


@pytest.mark.parametrize("model", ["echo", "anthropic-m"])
def test_an_interaction_is_told_again(client: Any, model: str) -> None:
    made = client.create(model=model, input="Hi")
    told = client.get(made.id)
    assert (told.id, told.status, told.output_text) == (made.id, "completed", "echo: Hi")


@pytest.mark.parametrize("model", ["echo", "anthropic-m"])
def test_an_interaction_is_streamed_again(client: Any, model: str) -> None:
    made = client.create(model=model, input="Hi")
    events = list(client.get(made.id, stream=True))
    assert events[0].interaction.id == made.id
    text = "".join(
        event.delta.text
        for event in events
        if event.event_type == "step.delta" and event.delta.text
    )
    assert text == "echo: Hi"
    assert events[-1].interaction.status == "completed"
    with pytest.raises(BadRequestError, match="from its beginning"):
        list(client.get(made.id, stream=True, last_event_id="e1"))
    assert client.get(made.id, include_input=False).output_text == "echo: Hi"
    with pytest.raises(BadRequestError, match="only the reply is given"):
        client.get(made.id, include_input=True)


def test_an_id_that_is_not_known_is_refused(client: Any) -> None:
    with pytest.raises(NotFoundError, match="Previous interaction with id 'v1_none' not found"):
        client.create(model="chat-m", input="x", previous_interaction_id="v1_none")


def test_what_is_not_to_be_stored_cannot_be_continued(client: Any) -> None:
    first = client.create(model="chat-m", input="x", store=False)
    with pytest.raises(NotFoundError):
        client.create(model="chat-m", input="y", previous_interaction_id=first.id)


@pytest.mark.parametrize("model", ["echo", "chat-m"])
def test_background_is_refused(client: Any, model: str) -> None:
    with pytest.raises(BadRequestError, match="'background' is not served"):
        client.create(model=model, input="x", background=True)


def test_background_is_left_to_an_upstream_that_has_it(client: Any, upstream: Upstream) -> None:
    client.create(model="interactions-m", input="x", background=True)
    assert upstream.seen[-1].json["background"] is True


def test_an_agent_is_refused(client: Any) -> None:
    with pytest.raises(BadRequestError, match="name a 'model' instead"):
        client.create(agent="deep-research-preview-04-2026", input="x", background=True)

"""Thoughts that a client cannot carry go back to the upstream that had them; billing text goes to nobody else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cannery.storage import open_store
from tests.gateway.recordings import (
    answer,
    chat_reply,
    gemini_reply,
    messages_reply,
    responses_reply,
)
from tests.gateway.running import Running, rows
from tests.gateway.scripted import Scripted, send

Reply = dict[str, Any]
HEADERS = [("content-type", "application/json"), ("authorization", "Bearer any")]
CALL = answer("I will write it now.", "call_1", is_thoughtful=True)
DONE = answer("Done.", is_thoughtful=True)


def refusal(status: int, message: str) -> Reply:
    return {
        "status": status,
        "json": {"error": {"type": "invalid_request_error", "message": message}},
    }


def messages_server(body: dict[str, Any]) -> Reply:
    """A server that wants its signed thought before a call, as Anthropic's does while it thinks."""
    for turn in body["messages"]:
        kinds = (
            [block["type"] for block in turn["content"]]
            if isinstance(turn["content"], list)
            else []
        )
        if "tool_use" in kinds and kinds[0] != "thinking":
            return refusal(400, "Expected `thinking`, but found `tool_use`.")
        if kinds and kinds[0] == "thinking":
            assert turn["content"][0] == {
                "type": "thinking",
                "thinking": "Hm.",
                "signature": "c2ln",
            }
    has_called = any("tool_use" in json.dumps(turn) for turn in body["messages"])
    return {"status": 200, "json": messages_reply(DONE if has_called else CALL)}


def gemini_server(body: dict[str, Any]) -> Reply:
    """A server that wants the signature of its calls, as Gemini's does."""
    calls = [part for turn in body["contents"] for part in turn["parts"] if "functionCall" in part]
    if any(part.get("thoughtSignature") != "c2ln" for part in calls):
        return refusal(400, "Function call is missing a thought_signature.")
    return {"status": 200, "json": gemini_reply(DONE if calls else CALL)}


def responses_server(body: dict[str, Any]) -> Reply:
    """A server that wants its reasoning items back with their calls."""
    kinds = [item.get("type") for item in body["input"]]
    if "function_call" in kinds and "reasoning" not in kinds:
        return refusal(
            400, "Item of type 'function_call' was provided without its 'reasoning' item."
        )
    return {"status": 200, "json": responses_reply(DONE if "function_call" in kinds else CALL)}


class Refusing(Scripted):
    """An upstream that looks at what it is sent."""

    def __init__(self, server: Callable[[dict[str, Any]], Reply]) -> None:
        super().__init__()
        self._look = server

    def answer(self, body: bytes) -> Reply:
        return self._look(json.loads(body))


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "model, server",
    [
        ("claude-sonnet-4-5", messages_server),
        ("gemini-2.5-pro", gemini_server),
        ("gpt-5", responses_server),
    ],
)
def test_thoughts_that_a_chat_client_drops_are_put_back(
    tmp_path: Path, model: str, server: Callable[[dict[str, Any]], Reply], restarts: bool
) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Write it"}]
    with Refusing(server) as upstream:
        config = rows(upstream.url)
        for name, models in (("anthropic", "claude"), ("responses", "gpt")):
            config = config.replace(f'models = ["{name}-*"]', f'models = ["{models}-*"]')
        running = Running(tmp_path, config)
        for _ in range(2):
            body = {"model": model, "reasoning_effort": "high", "messages": messages}
            body["max_completion_tokens"] = 20_000
            data = json.dumps(body).encode()
            status, _, said = send(running.url, "/v1/chat/completions", HEADERS, data)
            assert status == 200, upstream.seen[-1]
            message = json.loads(said)["choices"][0]["message"]
            # What a client of this dialect sends back.
            kept = {
                name: message[name] for name in ("role", "content", "tool_calls") if name in message
            }
            calls = [one["id"] for one in message.get("tool_calls", ())]
            messages += [
                kept,
                *({"role": "tool", "tool_call_id": one, "content": "ok"} for one in calls),
            ]
            if restarts:
                running.settle()
                running.stop()
                running = Running(tmp_path, config)
        running.stop()
    assert messages[-1]["content"] == "Done."


def interleaving_server(body: dict[str, Any]) -> Reply:
    """A server that thinks, says and calls twice in one answer, and wants both thoughts back before their calls."""
    said = [turn["content"] for turn in body["messages"] if turn["role"] == "assistant"]
    if said:
        kinds = [block["type"] for block in said[0]]
        signed = [block["signature"] for block in said[0] if block["type"] == "thinking"]
        if signed != ["b25l", "dHdv"] or kinds.index("thinking") or kinds[-2] != "thinking":
            return refusal(400, f"Expected `thinking`: {kinds}")
        return {"status": 200, "json": messages_reply(answer("Done."))}
    whole = messages_reply(answer(""))
    content: list[Any] = []
    for name, signature in (("one", "b25l"), ("two", "dHdv")):
        content += [
            {"type": "thinking", "thinking": f"Then {name}.", "signature": signature},
            {"type": "text", "text": f"I write {name}. "},
            {"type": "tool_use", "id": f"toolu_{name}", "name": "write", "input": {"file": name}},
        ]
    return {"status": 200, "json": {**whole, "content": content, "stop_reason": "tool_use"}}


@pytest.mark.parametrize("restarts", [False, True])
def test_thoughts_between_texts_that_a_chat_client_joins_are_put_back(
    tmp_path: Path, restarts: bool
) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Write both"}]
    found = set()
    with Refusing(interleaving_server) as upstream:
        config = rows(upstream.url).replace('models = ["anthropic-*"]', 'models = ["claude-*"]')
        running = Running(tmp_path, config)
        for turn in range(3):
            body = {"model": "claude-sonnet-4-5", "reasoning_effort": "high", "messages": messages}
            body["max_completion_tokens"] = 20_000
            data = json.dumps(body).encode()
            status, told, said = send(running.url, "/v1/chat/completions", HEADERS, data)
            assert status == 200, upstream.seen[-1]
            found.add(told["x-cannery-conversation"])
            message = json.loads(said)["choices"][0]["message"]
            calls = [one["id"] for one in message.get("tool_calls", ())]
            assert len(calls) == (0 if turn else 2)
            messages.append(
                {key: message[key] for key in ("role", "content", "tool_calls") if key in message}
            )
            messages += [{"role": "tool", "tool_call_id": one, "content": "ok"} for one in calls]
            if not calls:
                messages.append({"role": "user", "content": f"And again, {turn}"})
            if restarts:
                running.settle()
                running.stop()
                running = Running(tmp_path, config)
        running.settle()
        running.stop()
    assert len(found) == 1
    with open_store(str(tmp_path / "store")) as store:
        roles = [one.role.value for one in store.get(found.pop()).load()]
    answers = ["assistant", "assistant", "invocation"] * 2 + ["result"] * 2 + ["assistant"]
    assert roles == ["user", *answers, "user", "assistant", "user", "assistant"][: len(roles)]
    assert roles.count("invocation") == roles.count("result") == 2


@pytest.mark.parametrize("model, is_kept", [("chat-gpt-5", False), ("anthropic-claude", True)])
def test_the_billing_text_of_a_program_is_for_its_own_provider(
    tmp_path: Path, model: str, is_kept: bool
) -> None:
    billing = "x-anthropic-billing-header: cc_version=2.1.197.f00; cc_entrypoint=cli;"
    body = {
        "model": model,
        "max_tokens": 100,
        "system": [{"type": "text", "text": billing}, {"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": "Hi"}],
        "top_k": 5,
    }
    with Scripted() as upstream:
        running = Running(tmp_path, rows(upstream.url))
        said = answer("Hello.")
        reply = messages_reply(said) if is_kept else chat_reply(said)
        upstream.reply = {"status": 200, "json": reply}
        headers = [*HEADERS, ("anthropic-version", "2023-06-01")]
        status, told, _ = send(running.url, "/v1/messages", headers, json.dumps(body).encode())
        running.stop()
    assert status == 200
    assert (b"billing" in upstream.seen[-1]) == is_kept
    assert b"Be brief." in upstream.seen[-1]
    # Losses still name their place in the caller's own body.
    assert is_kept or "codes=" in told["x-cannery-losses"]

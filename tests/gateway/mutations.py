"""Changes that real clients make between the requests of a session, made at random to recorded ones.

None of them changes what was said: the changed recording must be kept as the one it was made from. Each works on the
bodies of every dialect. ``../shared/sessions/README.md`` tells which programs make them.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Item = dict[str, Any]
Session = dict[str, Any]
Mutation = Callable[[random.Random, Session], None]
# What some programs call a reminder; no person types it.
REMINDER = "<system-reminder>\nThis is a reminder that files changed: {}.\n</system-reminder>"


def mutated(session: Session, seed: int) -> Session:
    """A recording with a few changes."""
    rng = random.Random(f"{session['name']} {seed}")
    changed = copy.deepcopy(session)
    chosen = [one for one in MUTATIONS if rng.random() < 0.5] or [rng.choice(MUTATIONS)]
    for change in chosen:
        change(rng, changed)
    changed["changes"] = [one.__name__ for one in chosen]
    return changed


def _asked(session: Session) -> list[Item]:
    return [one for one in session["requests"] if one.get("method", "POST") == "POST"]


def _history(body: Item) -> list[Item]:
    """The list of messages, whatever the dialect calls it."""
    found = body.get("messages", body.get("contents", body.get("input", [])))
    return found if isinstance(found, list) else []


def _texts(body: Item) -> Iterator[tuple[Any, Any]]:
    """Where the instructions of a body stand: a holder and a key, each for one text."""
    system = body.get("system")
    if isinstance(system, str):
        yield body, "system"
    for block in system if isinstance(system, list) else ():
        yield block, "text"
    for part in (body.get("systemInstruction") or {}).get("parts", ()):
        yield part, "text"
    if isinstance(body.get("instructions"), str):
        yield body, "instructions"
    for message in _history(body):
        if message.get("role") in ("system", "developer"):
            content = message["content"]
            if isinstance(content, str):
                yield message, "content"
            else:
                yield from ((part, "text") for part in content if "text" in part)


def tagged(session: Session, tag: str) -> Session:
    """A recording in which people ask something of their own, so that it may share a key with others."""
    changed = copy.deepcopy(session)
    said = {text.strip('"') for one in changed["expected"]["sessions"] for text in one["said"]}
    answers = json.dumps(
        [
            [message for message in _history(one["body"]) if message.get("role") != "user"]
            + [one["reply"]]
            for one in _asked(changed)
        ]
    )
    # What a model says too, and words that stand in others, are left as they are.
    said = {text for text in said if json.dumps(text)[1:-1] not in answers and len(text) > 8}
    asked: set[str] = set()

    def mark(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: mark(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [mark(inner) for inner in value]
        for text in said if isinstance(value, str) else ():
            if text in value:
                asked.add(text)
                value = value.replace(text, f"{text} {tag}")
        return value

    for request in _asked(changed):
        for message in _history(request["body"]):
            if message.get("role") == "user":
                message.update(mark(message))
    for one in changed["expected"]["sessions"]:
        one["said"] = [
            text.replace(bare, f"{bare} {tag}") if (bare := text.strip('"')) in asked else text
            for text in one["said"]
        ]
    return changed


# --- what is around ------------------------------------------------------------------------------


def other_instructions(rng: random.Random, session: Session) -> None:
    """The date, the state of a repository or the name of the model at the end of the instructions."""
    for request in _asked(session):
        found = list(_texts(request["body"]))
        if found:
            holder, key = found[-1]
            holder[key] += f"\n\nToday is day {request['turn']}.\ngitStatus: M file{rng.random()}"


def other_tools(rng: random.Random, session: Session) -> None:
    """Tools in another order, with other descriptions, or fewer of them."""
    for request in _asked(session):
        tools = request["body"].get("tools")
        if request["turn"] > 1 and isinstance(tools, list) and len(tools) > 1:
            kept = [copy.deepcopy(tool) for tool in tools if rng.random() < 0.8] or tools[:1]
            rng.shuffle(kept)
            for tool in kept:
                if isinstance(tool.get("description"), str):
                    tool["description"] += f" (version {request['turn']})"
            request["body"]["tools"] = kept


def other_model(rng: random.Random, session: Session) -> None:
    """Another model from some turn on."""
    start = rng.randint(1, 3)
    for request in _asked(session):
        if request["turn"] >= start and request["kind"] == "main":
            if "model" in request["body"]:
                request["body"]["model"] += "-other"
            head, mark, rest = request["path"].rpartition(":")
            if "/models/" in head and mark:
                request["path"] = f"{head}-other:{rest}"


def other_settings(rng: random.Random, session: Session) -> None:
    """Another effort, temperature or limit with each request."""
    for request in _asked(session):
        if "max_tokens" in request["body"]:
            request["body"]["max_tokens"] = rng.randint(1000, 4000)
        elif "messages" in request["body"]:
            request["body"]["temperature"] = rng.choice([0, 0.5, 1])


# --- how it is spelled ---------------------------------------------------------------------------


def cache_marks(rng: random.Random, session: Session) -> None:
    """Cache marks on other blocks with each request."""
    for request in _asked(session):
        if not request["path"].endswith("/messages"):
            continue
        for message in _history(request["body"]):
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block["type"] not in ("thinking", "redacted_thinking"):
                    block.pop("cache_control", None)
                    if rng.random() < 0.2:
                        block["cache_control"] = {"type": "ephemeral"}


def text_as_parts(rng: random.Random, session: Session) -> None:
    """A text as a string or as a list with one part."""
    for request in _asked(session):
        kind = "input_text" if "input" in request["body"] else "text"
        for message in _history(request["body"]):
            content, role = message.get("content"), message.get("role")
            if role not in ("user", "assistant") or rng.random() < 0.5:
                continue
            if isinstance(content, str) and content and role == "user":
                message["content"] = [{"type": kind, "text": content}]
            elif content == [{"type": kind, "text": _text_in(content)}]:
                message["content"] = _text_in(content)


def _text_in(content: Any) -> Any:
    return content[0].get("text") if isinstance(content, list) and content else None


def other_call_ids(rng: random.Random, session: Session) -> None:
    """Ids of calls that are others in each turn, the same for a call and its result."""
    del rng
    for request in _asked(session):
        if request["turn"] > 1:
            for holder, key in _ids(_history(request["body"])):
                if isinstance(holder.get(key), str):
                    holder[key] = f"{holder[key][:40]}x{request['turn']}"


def _ids(history: list[Item]) -> Iterator[tuple[Item, str]]:
    """Where the ids of calls stand: a holder and a key."""
    for message in history:
        yield from ((message, "call_id"), (message, "tool_call_id"))
        yield from ((call, "id") for call in message.get("tool_calls") or ())
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if block.get("type") in ("tool_use", "tool_result"):
                yield from ((block, "id"), (block, "tool_use_id"))
        for part in message.get("parts", ()):
            yield from (
                (part[key], "id") for key in ("functionCall", "functionResponse") if key in part
            )


# --- what programs put between -------------------------------------------------------------------


def reminders(rng: random.Random, session: Session) -> None:
    """A reminder beside what the user says, in another place with each request."""
    for request in _asked(session):
        if request["kind"] != "main":
            continue
        spoken = [message for message in _history(request["body"]) if message.get("role") == "user"]
        for message in rng.sample(spoken, min(len(spoken), rng.randint(0, 2))):
            kind = "input_text" if "input" in request["body"] else "text"
            _remind(message, REMINDER.format(rng.randint(1, 99)), kind)


def _remind(message: Item, words: str, kind: str) -> None:
    if "parts" in message:
        message["parts"].insert(0, {"text": words})
    else:
        if isinstance(message["content"], str):
            message["content"] = [{"type": kind, "text": message["content"]}]
        # Results stand before everything else.
        at = sum(block["type"] == "tool_result" for block in message["content"])
        message["content"].insert(at, {"type": kind, "text": words})


# --- in which order ------------------------------------------------------------------------------


def retries(rng: random.Random, session: Session) -> None:
    """The same request once more, with the same answer."""
    found: list[Item] = []
    for request in session["requests"]:
        found += [request] * (2 if rng.random() < 0.3 else 1)
    session["requests"] = found


def broken_off(rng: random.Random, session: Session) -> None:
    """An answer that broke off, and the same request once more."""
    found: list[Item] = []
    for request in session["requests"]:
        stream = request.get("reply", {}).get("stream")
        if stream and request["kind"] == "main" and rng.random() < 0.5:
            cut = stream[: rng.randint(1, max(1, len(stream) // 2))]
            found.append({**request, "reply": {**request["reply"], "stream": cut}})
        found.append(request)
    session["requests"] = found


def refused_first(rng: random.Random, session: Session) -> None:
    """A provider that is busy, and the same request once more."""
    found: list[Item] = []
    for request in session["requests"]:
        if request.get("method", "POST") == "POST" and rng.random() < 0.3:
            busy = {"status": 429, "json": {"error": {"message": "busy", "type": "rate_limit"}}}
            found.append({**request, "kind": "refused", "reply": busy})
        found.append(request)
    session["requests"] = found


def late_titles(rng: random.Random, session: Session) -> None:
    """Titles that are asked for while the first turn runs."""
    requests: list[Item] = session["requests"]
    for at, request in enumerate(requests):
        if request["kind"] == "side:title" and rng.random() < 0.7:
            behind = [
                index
                for index, other in enumerate(requests)
                if index > at and other["turn"] == request["turn"] and other["kind"] == "main"
            ]
            if behind:
                requests.insert(rng.choice(behind), requests.pop(at))
            return


MUTATIONS: list[Mutation] = [
    other_instructions,
    other_tools,
    other_model,
    other_settings,
    cache_marks,
    text_as_parts,
    other_call_ids,
    reminders,
    retries,
    broken_off,
    refused_first,
    late_titles,
]

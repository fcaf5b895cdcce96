"""LangChain: its messages, and the payloads that its chat models build before they call an SDK."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import orjson

from peers import (
    FROM_ANTHROPIC,
    TO_ANTHROPIC,
    TO_GEMINI,
    TO_RESPONSES,
    Json,
    Pair,
    Translation,
    through,
)
from peers.storing import Said, Storage

PACKAGE = "langchain-core"
EXTRAS = ()


def _read(body: Json) -> Any:
    convert: Any = importlib.import_module("langchain_core.messages").convert_to_messages
    return convert(body["messages"])


def _settings(chat: Any, body: Json) -> Json:
    """The settings given beside the messages; tools are passed through bind_tools, as in its documentation."""
    given: Json = {name: body[name] for name in ("temperature", "top_p", "stop") if name in body}
    if "tools" in body:
        given.update(chat.bind_tools(body["tools"]).kwargs)
    return given


def translations() -> dict[Pair, Translation]:
    """Convert dicts to its messages, and its messages to a payload."""
    chat_anthropic: Any = importlib.import_module("langchain_anthropic").ChatAnthropic
    chat_openai: Any = importlib.import_module("langchain_openai").ChatOpenAI
    chat_google: Any = importlib.import_module("langchain_google_genai").ChatGoogleGenerativeAI
    anthropic = chat_anthropic(model="claude-sonnet-4-5", max_tokens=1024, api_key="none")
    responses = chat_openai(
        model="gpt-5.5", max_tokens=1024, api_key="none", use_responses_api=True
    )
    google = chat_google(model="gemini-3-pro", max_output_tokens=1024, api_key="none")

    def payload(chat: Any) -> Translation:
        return through(lambda body: chat._get_request_payload(_read(body), **_settings(chat, body)))  # noqa: SLF001

    def to_gemini(body: Json) -> Any:
        given = _settings(google, body)
        written = google._prepare_request(_read(body), **given)  # noqa: SLF001
        dump = {"mode": "json", "by_alias": True, "exclude_none": True}
        contents = [content.model_dump(**dump) for content in written["contents"]]
        config = written["config"].model_dump(**dump)
        return {"model": written["model"], "contents": contents, "config": config}

    def from_anthropic(body: Json) -> Any:
        messages = _read(body)
        if "system" in body:
            system: Any = importlib.import_module("langchain_core.messages").SystemMessage
            messages.insert(0, system(body["system"]))
        write: Any = importlib.import_module("langchain_core.messages").convert_to_openai_messages
        settings = {name: value for name, value in body.items() if name not in {"system", "tools"}}
        return {**settings, "messages": write(messages)}

    return {
        TO_ANTHROPIC: payload(anthropic),
        TO_GEMINI: through(to_gemini),
        TO_RESPONSES: payload(responses),
        FROM_ANTHROPIC: through(from_anthropic),
    }


def bulk() -> Translation:
    """It knows the role names of ShareGPT; only the keys are renamed."""
    types: Any = importlib.import_module("langchain_core.messages")
    roles = {"human": "human", "gpt": "ai", "system": "system"}

    def translate(line: bytes) -> bytes:
        turns = orjson.loads(line)["conversations"]
        messages = types.convert_to_messages(
            [(roles[turn["from"]], turn["value"]) for turn in turns]
        )
        return orjson.dumps({"messages": types.convert_to_openai_messages(messages)})

    return translate


def held(count: int) -> list[Any]:
    """Messages in the types of its histories."""
    types: Any = importlib.import_module("langchain_core.messages")
    makers = (types.HumanMessage, types.AIMessage)
    return [makers[number & 1](content=f"message number {number}") for number in range(count)]


def storage(folder: Path) -> Storage:
    """One history in one SQLite database, through SQLAlchemy."""
    histories: Any = importlib.import_module("langchain_community.chat_message_histories")
    history = histories.SQLChatMessageHistory(
        session_id="bench", connection=f"sqlite:///{folder / 'langchain.sqlite'}"
    )
    types: Any = importlib.import_module("langchain_core.messages")

    def message(said: Said) -> Any:
        make = types.HumanMessage if said.role == "user" else types.AIMessage
        if said.image:
            return make(content=[{"type": "image_url", "image_url": {"url": said.data_url}}])
        return make(content=said.text)

    return Storage(
        lambda said: history.add_message(message(said)),
        lambda many: history.add_messages([message(said) for said in many]),
        lambda: history.messages,
        history.engine.dispose,
    )

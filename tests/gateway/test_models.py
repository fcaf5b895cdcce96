"""The list of models: what the configuration names, and what upstreams list themselves."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from .running import Running
from .test_contract import ask

LISTS: dict[str, Any] = {
    "/v1/models": {"object": "list", "data": [{"id": "gpt-x"}, {"id": "gpt-y"}, {"id": "whisper"}]},
    "/anthropic/v1/models?limit=1000": {"data": [{"id": "claude-x", "type": "model"}]},
    "/google/v1beta/models?pageSize=1000": {"models": [{"name": "models/gemini-x"}]},
    "/odd/v1/models": ["not a list of models"],
}
ROWS = """
[[upstreams]]
name = "open"
url = "{url}/v1"
key_variable = "TEST_KEY"
models = ["gpt-*", "named"]
aliases = {{ small = "gpt-y" }}
[[upstreams]]
name = "anthropic"
dialect = "anthropic_messages"
url = "{url}/anthropic"
models = ["claude-*", "gpt-z"]
[[upstreams]]
name = "google"
dialect = "gemini_generate"
url = "{url}/google"
models = ["gemini-*"]
[[upstreams]]
name = "theirs"
url = "{url}/v1"
models = ["w*"]
forward_key = true
[[upstreams]]
name = "odd"
url = "{url}/odd/v1"
models = ["odd-*"]
[[upstreams]]
name = "refusing"
url = "{url}/none"
models = ["none-*"]
[[upstreams]]
name = "gone"
url = "http://127.0.0.1:9/v1"
models = ["gone-*"]
[[upstreams]]
name = "silent"
url = "{url}/silent"
models = ["silent-*"]
"""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str | None]]
    closing: threading.Event

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("authorization")))
        if self.path.startswith("/silent"):
            self.closing.wait(30)
            self.close_connection = True
            return
        found = None if self.closing.is_set() else LISTS.get(self.path)
        body = json.dumps(found or {}).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Listing:
    """An upstream that only lists models."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []
        self.closing = threading.Event()
        handler = type("Handler", (_Handler,), {"seen": self.seen, "closing": self.closing})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def listing() -> Iterator[Listing]:
    made = Listing()
    yield made
    made.close()


@pytest.fixture(scope="module")
def own(listing: Listing, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("models")
    running = Running(folder, ROWS.format(url=listing.url), record=False)
    yield running
    running.stop()


def test_what_patterns_match_is_listed_as_the_upstreams_list_it(
    own: Running, listing: Listing
) -> None:
    with openai.OpenAI(base_url=f"{own.url}/v1", api_key="caller", max_retries=0) as client:
        listed = {model.id: model.owned_by for model in client.models.list()}
        assert listed == {
            "small": "open",
            "named": "open",
            "gpt-z": "anthropic",
            "echo": "echo",
            "gpt-x": "open",
            "gpt-y": "open",
            "claude-x": "anthropic",
            "gemini-x": "google",
            "whisper": "theirs",
        }
        asked = [path for path, _ in listing.seen]
        assert client.models.retrieve("gpt-x").owned_by == "open"
        client.models.list()
    assert [path for path, _ in listing.seen] == asked, "a list is kept for a while"
    keys = {key for path, key in listing.seen if path == "/v1/models"}
    assert keys == {"Bearer secret-upstream-key", "Bearer caller"}


def test_every_caller_sees_them_in_its_own_dialect(own: Running) -> None:
    with anthropic.Anthropic(base_url=f"{own.url}/anthropic", api_key="caller") as client:
        assert "gpt-x" in [model.id for model in client.models.list()]
    options = genai.types.HttpOptions(base_url=f"{own.url}/gemini")
    google = genai.Client(api_key="caller", http_options=options)
    assert "models/claude-x" in [model.name for model in google.models.list()]


def test_an_upstream_that_stops_listing_keeps_what_it_said(tmp_path: Path) -> None:
    upstream = Listing()
    config = f'[[upstreams]]\nname = "open"\nurl = "{upstream.url}/v1"\nmodels = ["gpt-*"]\n'
    running = Running(tmp_path, config, record=False, program=("-c", _IMPATIENT))
    try:
        for _ in range(2):
            _, _, said = ask(running, "/v1/models")
            assert {"gpt-x", "gpt-y"} <= {model["id"] for model in said["data"]}
            upstream.closing.set()
        assert len(upstream.seen) == 2
    finally:
        running.stop()
        upstream.close()


_IMPATIENT = """
import sys
from cannery.gateway import model_lists
from cannery.gateway.__main__ import main
model_lists._KEPT_SECONDS = model_lists._RETRY_SECONDS = 0.0
sys.exit(main())
"""

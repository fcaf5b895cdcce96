"""Plain HTTP for tests: what a browser or curl would send."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any
from urllib.parse import urlencode, urlsplit

Reply = tuple[int, dict[str, str], bytes]


def fetch(
    url: str, method: str = "GET", form: Any = None, raw: str | None = None, **headers: Any
) -> Reply:
    """One request with a form, or with a raw body of JSON; names of headers have underscores for hyphens."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    body = raw if form is None else urlencode(form)
    if raw is not None:
        told["content-type"] = "application/json"
    if form is not None:
        told["content-type"] = "application/x-www-form-urlencoded"
    try:
        connection.request(
            method, f"{parts.path}?{parts.query}" if parts.query else parts.path, body, told
        )
        answer = connection.getresponse()
        return (
            answer.status,
            {name.lower(): value for name, value in answer.getheaders()},
            answer.read(),
        )
    finally:
        connection.close()


def chat(
    base: str, *said: tuple[str, str], model: str = "echo", stream: bool = False, **headers: Any
) -> str:
    """Send a chat; the conversation that it was filed in."""
    messages = [{"role": role, "content": text} for role, text in said]
    body = json.dumps({"model": model, "messages": messages, "stream": stream})
    parts = urlsplit(base)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    told = {
        "content-type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    try:
        connection.request("POST", "/v1/chat/completions", body, told)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
        return str(answer.getheader("x-cannery-conversation"))
    finally:
        connection.close()


class Following:
    """The events of a page that follows, as they come."""

    def __init__(self, url: str, **headers: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
        self._connection.request("GET", f"{parts.path}?{parts.query}", headers=headers)
        self._answer = self._connection.getresponse()
        self.status = self._answer.status

    def next(self) -> tuple[str, Any]:
        """The next event that is not a ping."""
        name = ""
        while True:
            line = self._answer.readline().decode()
            assert line, "the stream ended"
            if line.startswith("event: "):
                name = line[7:].strip()
            elif line.startswith("data: "):
                return name, json.loads(line[6:])

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


def in_background(work: Any, *arguments: Any, **facts: Any) -> threading.Thread:
    """Do something while the test goes on."""
    thread = threading.Thread(target=work, args=arguments, kwargs=facts, daemon=True)
    thread.start()
    return thread

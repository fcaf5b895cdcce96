"""An upstream of Chat Completions that says a word when it is told to, so that a test can look in between."""

from __future__ import annotations

import json
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Teller:
    """The server; ``say`` sends a piece of the answer that is being given, ``end`` ends it."""

    def __init__(self) -> None:
        self._pieces: queue.Queue[str | None] = queue.Queue()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.pieces = self._pieces
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def config(self) -> str:
        """A row of configuration."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return f'[[upstreams]]\nname = "teller"\nurl = "{url}/v1"\ndialect = "openai_chat"\nmodels = ["tell*"]\n'

    def say(self, text: str) -> None:
        """Send some of the answer."""
        self._pieces.put(text)

    def end(self) -> None:
        """End the answer."""
        self._pieces.put(None)

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    pieces: queue.Queue[str | None]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        # One that thinks before it says that it will answer.
        first = self.server.pieces.get(timeout=60) if body["model"] == "teller-late" else None
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._chunk({"role": "assistant", "content": first or ""})
        while (text := self.server.pieces.get(timeout=60)) is not None:
            self._chunk({"content": text})
        self._chunk({}, finish="stop")
        self._send(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, delta: dict[str, str], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        value = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "teller",
            "choices": [choice],
        }
        self._send(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _send(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

"""An upstream that answers every request with the reply that was put there for it."""

from __future__ import annotations

import http.client
import http.server
import json
import threading
import urllib.parse
from typing import Any, Self


class Scripted:
    """A server in threads of this process; ``seen`` has the bodies that came, ``headers`` what stood before."""

    def __init__(self) -> None:
        self.reply: dict[str, Any] = {}
        self.seen: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                owner.headers.append({name.lower(): value for name, value in self.headers.items()})
                owner.seen.append(self.rfile.read(int(self.headers["content-length"])))
                reply = owner.answer(owner.seen[-1])
                is_stream = "stream" in reply
                body = reply["stream"].encode() if is_stream else json.dumps(reply["json"]).encode()
                self.send_response(reply["status"])
                kind = "text/event-stream" if is_stream else "application/json"
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, body: bytes) -> dict[str, Any]:
        """The reply to a request."""
        return self.reply

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def send(
    url: str, path: str, headers: list[tuple[str, str]], body: bytes
) -> tuple[int, dict[str, str], bytes]:
    """Post something; the status, the headers and the body of the answer."""
    target = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=60)
    try:
        connection.putrequest("POST", path)
        for name, value in headers:
            connection.putheader(name, value)
        connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        said = answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, said
    finally:
        connection.close()

"""A local upstream that speaks every dialect, judges what it is sent, and misbehaves on request.

The last word of the model's name says how to behave (``chat-plain``, ``anthropic-cut``, …). What
an ordinary model would say is made by echo; the judges are the SDKs' own types and the servers'
rules.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote

from cannery.dialects import all_dialects, find_dialect
from cannery.gateway import echo
from cannery.messages import Failure, Request, Start
from cannery.translation import nativize_response, normalize_request
from cannery.wire.contract import StreamOptions, WireError
from cannery.wire.framing import AWS_EVENT_STREAM
from tests.oracles.judges import JUDGES
from tests.oracles.sdk_types import validate_request, validate_response
from tests.oracles.server_rules import check_request_rules, confirmed
from tests.oracles.stream_rules import check_stream_rules

_SHARED = ("/v1/chat/completions",)
_FIRST = ("openai_chat", "openai_responses", "anthropic_messages", "gemini_generate")
_JUDGED = frozenset({*_FIRST, *JUDGES})
DIALECTS = {
    # Those that no judge knows.
    **{
        route.path: one.name
        for one in all_dialects()
        for route in one.routes
        if one.name not in _JUDGED and route.kind == "generate"
    },
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
    "/v1/messages": "anthropic_messages",
    # A row of the configuration may have a path before that of its dialect, which tells two with the same one apart.
    **{judge.path: name for name, judge in JUDGES.items() if judge.path not in _SHARED},
    **{f"/{name}{judge.path}": name for name, judge in JUDGES.items()},
}
# Dialects whose model stands in the path.
_PATTERNS = [
    (re.compile(f"(?:/{name})?{judge.path.replace('{model}', '([^/]+)')}(?:-stream)?"), name)
    for name, judge in JUDGES.items()
    if "{model}" in judge.path
]
RETRY_AFTER = "7"
LIMITS = {
    "anthropic-ratelimit-tokens-remaining": "12",
    "x-ratelimit-remaining-requests": "34",
    "openai-processing-ms": "56",
}
BOMB = gzip.compress(bytes(32 << 20))


class Seen:
    """One request as it came."""

    def __init__(self, dialect: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.dialect = dialect
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Upstream:
    """The server, what it saw, and what was wrong with that."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.problems: list[str] = []
        self.hang_ups = 0
        self.attempts: dict[str, int] = {}
        self.exhausted_keys: set[str] = set()
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.upstream = self
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def judge(self, dialect: str, body: bytes) -> None:
        value = json.loads(body)
        if dialect not in _JUDGED:
            return
        found = validate_request(dialect, value, beta=True)
        found += confirmed(dialect, check_request_rules(dialect, value))
        self.problems += [f"{dialect}: {problem}" for problem in found]


class _Server(ThreadingHTTPServer):
    upstream: Upstream
    request_queue_size = 1024


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    body = b""
    more: ClassVar[dict[str, str]] = {}

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.body = self.rfile.read(int(self.headers.get("content-length") or 0))
        dialect, named = _dialect_of(path)
        upstream = self.server.upstream
        headers = {name.lower(): value for name, value in self.headers.items()}
        upstream.seen.append(Seen(dialect, self.path, headers, body))
        if path.endswith("/count-tokens"):
            self.answer(200, json.dumps({"inputTokens": 42}).encode())
            return
        if path.endswith(("count_tokens", ":countTokens")):
            model = path if dialect == "gemini_generate" else json.loads(body)["model"]
            if "429" in model:
                self.do_429(dialect, model, stream=False)
                return
            if "garbage" in model:
                self.do_garbage(dialect, model, stream=False)
                return
            key = "totalTokens" if dialect == "gemini_generate" else "input_tokens"
            self.answer(200, json.dumps({key: 42}).encode())
            return
        try:
            upstream.judge(dialect, body)
            value = json.loads(body)
        except ValueError:
            upstream.problems.append(f"{dialect}: not JSON")
            self.answer(400, b"{}")
            return
        model = value.get("model") or named or path.rpartition("/models/")[2].rpartition(":")[0]
        stream = bool(value.get("stream")) or "alt=sse" in query or path.endswith("-stream")
        behave = getattr(self, f"do_{model.rpartition('-')[2]}", None)
        if behave is not None:
            behave(dialect, model, stream)
            return
        self.ordinary(dialect, normalize_request(body, dialect).replace(model=model), stream=stream)

    def do_GET(self) -> None:
        self.answer(404, b"{}")

    # --- how it behaves ------------------------------------------------------------------------

    def ordinary(self, dialect: str, request: Request, *, stream: bool) -> None:
        response = echo.answer(request)
        if stream:
            self.stream_begin(dialect)
            for chunk in stream_chunks(dialect, response):
                self.chunk(chunk)
            self.chunk(b"")
            return
        body = nativize_response(response, dialect).body
        if dialect in _JUDGED:
            self.server.upstream.problems += validate_response(dialect, json.loads(body))
        self.answer(200, body)

    def do_429(self, dialect: str, model: str, stream: bool) -> None:
        self.told(dialect, 429, "slow down, please: ")

    def do_400(self, dialect: str, model: str, stream: bool) -> None:
        self.told(dialect, 400)

    def do_401(self, dialect: str, model: str, stream: bool) -> None:
        self.told(dialect, 401)

    def told(self, dialect: str, status: int, words: str = "") -> None:
        """Refuse with advice, in the words of the dialect."""
        named = {"x-request-id": f"up-{status}", "request-id": f"up-{status}"}
        body = error_body(dialect, status, f"{words}told {status}")
        self.answer(status, body, {"retry-after": RETRY_AFTER, **named})

    def do_limited(self, dialect: str, model: str, stream: bool) -> None:
        """Tell of limits, of a success and of an error."""
        self.more = {**LIMITS, "server": "somebody", "set-cookie": "a=b"}
        self.ordinary(dialect, _hello(dialect), stream=stream)

    def do_exhausted(self, dialect: str, model: str, stream: bool) -> None:
        self.answer(429, error_body(dialect, 429, "no more"), {**LIMITS, "retry-after": "3"})

    def do_500(self, dialect: str, model: str, stream: bool) -> None:
        self.told(dialect, 500, "it broke: ")

    def do_521(self, dialect: str, model: str, stream: bool) -> None:
        """A server in between says that this one is down."""
        self.answer(521, b"error code: 521")

    def do_999(self, dialect: str, model: str, stream: bool) -> None:
        """A status that no server may give."""
        self.answer(999, error_body(dialect, 503, "not you"))

    def do_refused(self, dialect: str, model: str, stream: bool) -> None:
        self.answer(400, error_body(dialect, 400, "not so"))

    def do_flap(self, dialect: str, model: str, stream: bool) -> None:
        """Fail as long as its counter is negative."""
        if self.server.upstream.attempts.get(model, 0) < 0:
            self.answer(503, error_body(dialect, 503, "not now"))
            return
        self.ordinary(dialect, _hello(dialect), stream=stream)

    def do_keyed(self, dialect: str, model: str, stream: bool) -> None:
        """Refuse the keys that have had enough."""
        key = (self.headers.get("authorization") or "").removeprefix("Bearer ")
        if key in self.server.upstream.exhausted_keys:
            self.answer(429, error_body(dialect, 429, "enough"))
            return
        self.ordinary(dialect, _hello(dialect), stream=stream)

    def do_bomb(self, dialect: str, model: str, stream: bool) -> None:
        self.answer(200, BOMB, {"content-encoding": "gzip"})

    def do_html(self, dialect: str, model: str, stream: bool) -> None:
        self.answer(503, b"<html>busy</html>", {"content-type": "text/html"})

    def do_flaky(self, dialect: str, model: str, stream: bool) -> None:
        attempts = self.server.upstream.attempts
        attempts[model] = attempts.get(model, 0) + 1
        if attempts[model] < 3:
            self.answer(503, error_body(dialect, 503, "not yet"), {"retry-after": "0"})
            return
        self.ordinary(dialect, _hello(dialect), stream=stream)

    def do_garbage(self, dialect: str, model: str, stream: bool) -> None:
        if stream:
            self.stream_begin(dialect)
            self.chunk(b"data: {{{ not json\n\ndata: \xff\xfe\n\n")
            self.chunk(b"")
            return
        self.answer(200, b"\x00\xffgarbage")

    def do_page(self, dialect: str, model: str, stream: bool) -> None:
        """What somebody on the way says, with status 200."""
        self.answer(200, b"<html>Please log in.</html>", {"content-type": "text/html"})

    def do_sorry(self, dialect: str, model: str, stream: bool) -> None:
        """An error in the body of what is called a success, as some routers of models answer."""
        self.answer(200, b'{"error":{"code":429,"message":"no provider is free"}}')

    def do_cut(self, dialect: str, model: str, stream: bool) -> None:
        if not stream:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "10000")
            self.end_headers()
            self.wfile.write(b'{"id":')
            self.close_connection = True
            return
        chunks = stream_chunks(dialect, echo.answer(_hello(dialect)))
        self.stream_begin(dialect)
        for chunk in chunks[: max(2, len(chunks) // 2)]:
            self.chunk(chunk)
        time.sleep(0.2)
        self.close_connection = True

    def do_overloaded(self, dialect: str, model: str, stream: bool) -> None:
        """Answer 200, and fail before anything is said."""
        if not stream:
            self.answer(529, error_body(dialect, 503, "Overloaded"))
            return
        self.stream_begin(dialect)
        self.chunk(overloaded(dialect))
        self.chunk(b"")

    def do_mute(self, dialect: str, model: str, stream: bool) -> None:
        """Answer 200, and end the stream before anything is said."""
        if not stream:
            self.close_connection = True
            return
        self.stream_begin(dialect)
        self.chunk(b"")

    def do_stuck(self, dialect: str, model: str, stream: bool) -> None:
        """Answer 200, and say nothing for longer than the gateway waits."""
        if stream:
            self.stream_begin(dialect)
        self.do_silent(dialect, model, stream)

    def do_quit(self, dialect: str, model: str, stream: bool) -> None:
        """End a stream properly, but in the middle of what it says."""
        chunks = stream_chunks(dialect, echo.answer(_hello(dialect)))
        self.stream_begin(dialect)
        for chunk in chunks[: max(2, len(chunks) // 2)]:
            self.chunk(chunk)
        self.chunk(b"")

    def do_slow(self, dialect: str, model: str, stream: bool) -> None:
        time.sleep(3)
        self.ordinary(dialect, _hello(dialect), stream=stream)

    def do_pause(self, dialect: str, model: str, stream: bool) -> None:
        """Think for longer than the gateway takes for anything else."""
        time.sleep(1.5)
        request = normalize_request(self.body, dialect).replace(model=model)
        self.ordinary(dialect, request, stream=stream)

    def do_hesitant(self, dialect: str, model: str, stream: bool) -> None:
        """Fall silent between two events of a stream, and in the middle of a third."""
        chunks = stream_chunks(dialect, echo.answer(_hello(dialect)))
        self.stream_begin(dialect)
        self.chunk(chunks[0])
        time.sleep(1.2)
        middle = len(chunks[1]) // 2
        self.chunk(chunks[1][:middle])
        time.sleep(1.2)
        for chunk in (chunks[1][middle:], *chunks[2:], b""):
            self.chunk(chunk)

    def do_late(self, dialect: str, model: str, stream: bool) -> None:
        """Begin a stream at once, and say something only after a while."""
        self.stream_begin(dialect)
        time.sleep(2.5)
        for chunk in (*stream_chunks(dialect, echo.answer(_hello(dialect))), b""):
            self.chunk(chunk)

    def do_endless(self, dialect: str, model: str, stream: bool) -> None:
        """Go on until the other side hangs up."""
        chunks = stream_chunks(dialect, echo.answer(_hello(dialect)))
        try:
            self.stream_begin(dialect)
            self.chunk(b"".join(chunks[:2]))
            for _ in range(200):
                time.sleep(0.05)
                self.chunk(b": still here\n\n")
        except OSError:
            self.server.upstream.hang_ups += 1
            self.close_connection = True

    def do_flood(self, dialect: str, model: str, stream: bool) -> None:
        """Say so much that nobody can leave it unread, until the other side hangs up."""
        chunks = stream_chunks(dialect, echo.answer(_hello(dialect)))
        comment = b": " + b"x" * 65536 + b"\n\n"
        try:
            self.stream_begin(dialect)
            self.chunk(b"".join(chunks[:2]))
            for _ in range(200):
                self.chunk(comment)
            for _ in range(400):
                time.sleep(0.05)
                self.chunk(b": still here\n\n")
        except OSError:
            self.server.upstream.hang_ups += 1
            self.close_connection = True

    def do_silent(self, dialect: str, model: str, stream: bool) -> None:
        """Say nothing until the other side hangs up."""
        self.connection.settimeout(20)
        try:
            if self.connection.recv(1) == b"":
                self.server.upstream.hang_ups += 1
        except OSError:
            self.server.upstream.hang_ups += 1
        self.close_connection = True

    def do_whole(self, dialect: str, model: str, stream: bool) -> None:
        """Ignore that a stream was asked for."""
        self.ordinary(dialect, _hello(dialect), stream=False)

    # --- how it speaks -------------------------------------------------------------------------

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        told = {"content-type": "application/json", **(headers or {}), **self.more}
        self.more = {}  # type: ignore[misc] - for one answer
        for name, value in told.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream_begin(self, dialect: str) -> None:
        media_type = find_dialect(dialect).service.streams.framing.media_type
        self.send_response(200)
        for name, value in {"content-type": media_type, **self.more}.items():
            self.send_header(name, value)
        self.more = {}  # type: ignore[misc] - for one answer
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def _dialect_of(path: str) -> tuple[str, str | None]:
    """The dialect of a path, and the model that the path names, if it does."""
    for pattern, name in _PATTERNS:
        found = pattern.fullmatch(path)
        if found is not None:
            return name, unquote(found[1])
    return DIALECTS.get(path.removesuffix("/count_tokens"), "gemini_generate"), None


def stream_chunks(dialect: str, response: Any) -> list[bytes]:
    """What a server would stream, proved by the rules of streams."""
    writer = find_dialect(dialect).stream_writer(StreamOptions(include_usage=True))
    chunks = [writer.write(event) for event in echo.events(response)]
    chunks = [chunk for chunk in [*chunks, writer.close()] if chunk]
    if dialect in _JUDGED:
        assert check_stream_rules(dialect, b"".join(chunks)) == []
    return chunks


_OVERLOADED = {
    "anthropic_messages": b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1",'
    b'"type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,'
    b'"usage":{"input_tokens":9,"output_tokens":1}}}\n\nevent: ping\ndata: {"type":"ping"}\n\n'
    b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
    "openai_chat": b'data: {"error":{"message":"Overloaded","type":"server_error","code":"server_overloaded"}}\n\n',
    "openai_responses": b'event: response.created\ndata: {"type":"response.created","sequence_number":0,'
    b'"response":{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","model":"m","output":[]}}\n\n'
    b'event: response.failed\ndata: {"type":"response.failed","sequence_number":1,"response":{"id":"resp_1","object":'
    b'"response","created_at":1,"status":"failed","model":"m","output":[],"error":{"code":"server_error",'
    b'"message":"Overloaded"}}}\n\n',
    "gemini_generate": b'data: {"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}\r\n\r\n',
    "bedrock_converse": AWS_EVENT_STREAM.write("messageStart", {"role": "assistant"})
    + AWS_EVENT_STREAM.write("throttlingException", {"message": "Overloaded"}),
    "ollama_chat": b'{"error":"Overloaded"}\n',
}


def overloaded(dialect: str) -> bytes:
    """A stream that fails before anything is said."""
    if dialect in _OVERLOADED:
        return _OVERLOADED[dialect]
    writer = find_dialect(dialect).stream_writer(StreamOptions())
    failure = Failure("Overloaded", "overloaded_error", 529)
    return writer.write(Start(model="m")) + writer.write(failure) + writer.close()


# The words of the first four dialects for what a status means: OpenAI's and Anthropic's, Google's.
_KINDS = {
    400: ("invalid_request_error", "INVALID_ARGUMENT"),
    401: ("authentication_error", "UNAUTHENTICATED"),
    429: ("rate_limit_error", "RESOURCE_EXHAUSTED"),
    503: ("overloaded_error", "UNAVAILABLE"),
}


def error_body(dialect: str, status: int, message: str) -> bytes:
    """An error as the dialect's own server writes it."""
    if dialect in JUDGES:
        return json.dumps(JUDGES[dialect].error(status, message)).encode()
    if dialect not in _JUDGED:
        return find_dialect(dialect).write_error(WireError(status, message))
    kind, word = _KINDS.get(status, ("api_error", "INTERNAL"))
    shapes: dict[str, Any] = {
        "anthropic_messages": {
            "type": "error",
            "error": {"type": kind, "message": message},
            "request_id": f"up-{status}",
        },
        "gemini_generate": {"error": {"code": status, "message": message, "status": word}},
    }
    openai = {"error": {"message": message, "type": kind, "param": None, "code": "slow"}}
    return json.dumps(shapes.get(dialect, openai)).encode()


def _hello(dialect: str) -> Request:
    words = "one two three four five six"
    return normalize_request(
        {"model": "m", "messages": [{"role": "user", "content": words}]}, "openai_chat"
    )

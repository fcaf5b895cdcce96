"""Everything that is not an exchange: health, metrics, documents, model lists, token counts, unknown paths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from orjson import Fragment

from cannery.errors import DialectError
from cannery.gateway import echo
from cannery.gateway.calls import Call
from cannery.gateway.conversations import Conversations
from cannery.gateway.envelopes import open_body
from cannery.gateway.identifiers import new_request_id
from cannery.gateway.ingress import hear_out
from cannery.gateway.keys import own_credential
from cannery.gateway.metrics import Counter
from cannery.gateway.openapi import docs_page, openapi
from cannery.gateway.passthrough import Passage
from cannery.gateway.refusals import JSON, CallError, Header, body_of, kind_of, refuse
from cannery.gateway.routing import Match, NoMatch
from cannery.gateway.rsgi import HTTPProtocol, Scope
from cannery.messages import Request
from cannery.translation import nativize_request
from cannery.wire.bodies import encode, read_object
from cannery.wire.contract import Dialect

if TYPE_CHECKING:
    from cannery.gateway.gateway import Gateway
    from cannery.gateway.viewer_endpoints import Viewing

_VIEWER = "/ui"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Operations:
    """Answers requests of operators and clients other than exchanges."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._conversations = Conversations(gateway)
        self._passage = Passage(gateway)
        self._viewing: Viewing | None = None
        self._pages = {
            "/healthz": self._health,
            "/readyz": self._ready,
            "/metrics": self._metrics,
            "/openapi.json": self._openapi,
            "/docs": self._docs,
            "/": self._docs,
        }

    async def answer(self, scope: Scope, proto: HTTPProtocol, missed: NoMatch) -> None:
        """Answer a path that belongs to no dialect."""
        if await self._viewed(scope, proto):
            return
        page = self._pages.get(f"/{scope.path.strip('/')}")
        if page is not None and scope.method in ("GET", "HEAD"):
            status, kind, body = page()
            headers = [("content-type", kind), ("cache-control", "no-store")]
            proto.response_bytes(status, headers, b"" if scope.method == "HEAD" else body)
            return
        call = Call(scope, proto, missed, "unknown")
        if scope.method == "OPTIONS" and missed.allowed:
            self._tell_options(call, missed.allowed)
            return
        await self._tell(call, self._missed(call, missed))

    async def _viewed(self, scope: Scope, proto: HTTPProtocol) -> bool:
        """Answer requests for the viewer, and redirect a browser that requests the root."""
        path = scope.path
        if path == "/" and "text/html" in str(scope.headers.get("accept") or ""):
            proto.response_bytes(302, [("location", _VIEWER), ("vary", "accept")], b"")
            return True
        if path != _VIEWER and not path.startswith((f"{_VIEWER}/", f"{_VIEWER}.")):
            return False
        if self._viewing is None:
            # Pages need an extra, and time to load, which an unused viewer need not cost.
            try:
                from cannery.gateway.viewer_endpoints import Viewing
                from cannery.gateway.viewer_server import GatewaySource
            except ImportError:
                problem = b"the viewer is not installed: pip install 'cannery[viewer]'\n"
                proto.response_bytes(501, [("content-type", "text/plain; charset=utf-8")], problem)
                return True
            self._viewing = Viewing(GatewaySource(self._gateway))
        await self._viewing.answer(scope, proto)
        return True

    async def refuse(self, scope: Scope, proto: HTTPProtocol, refusal: CallError) -> None:
        """Answer a request that is refused whatever it requests."""
        await self._tell(Call(scope, proto, self._find(scope), "refused"), refusal)

    def describe(self, scope: Scope, status: int, problem: str) -> tuple[list[Header], bytes]:
        """The headers and the body of a refusal by the listener, in the dialect of the caller."""
        dialect = self._find(scope).endpoint
        self._gateway.metrics.calls.add(dialect.name, "-", "refused", str(status))
        self._gateway.log.write("info", "refused", status=status, problem=problem)
        request_id = new_request_id()
        headers = [("content-type", JSON), ("x-cannery-request-id", request_id)]
        refusal = refuse(status, problem)
        headers += kind_of(refusal, dialect)
        return headers, body_of(refusal, dialect, request_id)

    def _find(self, scope: Scope) -> Match | NoMatch:
        return self._gateway.router.find(scope.method, scope.path, scope.headers.get)

    async def _tell(self, call: Call, refusal: CallError) -> None:
        await hear_out(call, self._gateway.limits)
        body = body_of(refusal, call.endpoint, call.request_id)
        headers = call.headers() + refusal.headers + kind_of(refusal, call.endpoint)
        call.reply(refusal.error.status, headers, body)
        self._gateway.metrics.calls.add(call.dialect.name, "-", call.kind, str(call.status))

    def _missed(self, call: Call, missed: NoMatch) -> CallError:
        path, method = call.scope.path, call.scope.method
        upgrade = str(call.header("upgrade") or "").lower()
        if upgrade == "websocket" and path.endswith("/responses"):
            message = "WebSocket is not supported; send a POST request instead"
            return refuse(
                426, message, code="websocket_unsupported", headers=[("upgrade", "HTTP/1.1")]
            )
        if missed.allowed:
            allowed = ", ".join(missed.allowed)
            message = f"{method} is not allowed for {path}; use {allowed}"
            return refuse(405, message, code="method_not_allowed", headers=[("allow", allowed)])
        return refuse(404, f"there is nothing at {method} {path}; see /docs", code="unknown_path")

    def _tell_options(self, call: Call, allowed: tuple[str, ...]) -> None:
        """Answer which methods a path has, and for a browser whether its page may use them."""
        methods = ", ".join((*allowed, "OPTIONS"))
        headers = [("allow", methods)]
        origin = call.header("origin")
        if origin is not None:
            asked = call.header("access-control-request-headers")
            headers += self._gateway.origins.preflight(str(origin), methods, asked)
        call.reply(204, headers, b"")
        self._gateway.metrics.calls.add(call.dialect.name, "-", "options", "204")

    # --- pages ---------------------------------------------------------------------------------

    def _health(self) -> tuple[int, str, bytes]:
        return 200, "application/json", b'{"status":"ok"}'

    def _ready(self) -> tuple[int, str, bytes]:
        problems = list(self._gateway.recorder.problems())
        if self._gateway.is_draining:
            problems.append("shutting down")
        state = {"status": "unavailable" if problems else "ready", "problems": problems}
        return 503 if problems else 200, "application/json", encode(state)

    def _metrics(self) -> tuple[int, str, bytes]:
        gateway = self._gateway
        gauges = {
            "cannery_active_requests": ("Active requests.", float(gateway.active)),
            "cannery_large_request_bytes": (
                "Bytes of active large requests.",
                float(gateway.admission.bytes_under_way),
            ),
            "cannery_large_requests_waiting": (
                "Large requests waiting to be read.",
                float(gateway.admission.waiting),
            ),
            **gateway.recorder.gauges(),
        }
        return 200, _TEXT, gateway.metrics.text(gauges, self._role_counters()).encode()

    def _role_counters(self) -> Iterable[Counter]:
        counts = self._gateway.roles.counters.snapshot()
        seen = Counter("cannery_role_messages_total", "Messages whose roles were checked.", ())
        seen.add(by=counts.messages)
        changed = Counter(
            "cannery_role_transformations_total", "Roles that were changed.", ("before", "after")
        )
        for (before, after), count in counts.transformations.items():
            changed.add(before, after, by=count)
        refused = Counter("cannery_role_rejections_total", "Roles that were refused.", ("reason",))
        for reason, count in counts.rejections.items():
            refused.add(reason, by=count)
        return seen, changed, refused

    def _openapi(self) -> tuple[int, str, bytes]:
        return 200, "application/json", encode(openapi(self._gateway.router))

    def _docs(self) -> tuple[int, str, bytes]:
        return 200, "text/html; charset=utf-8", docs_page(self._gateway.router)

    # --- models and counts ---------------------------------------------------------------------

    async def inform(self, call: Call) -> None:
        """Answer a call other than for a model's reply."""
        if call.kind == "count":
            await self._count(call)
        elif call.kind in ("models", "model"):
            await self._models(call)
        elif call.kind == "version":
            call.reply(200, call.headers(), encode(call.dialect.service.version))
        elif call.kind == "conversations":
            await self._conversations.answer(call)
        elif call.kind in ("pass", "response"):
            await self._passage.answer(call)
        else:
            raise refuse(501, f"{call.kind} is not offered", code="not_offered")

    async def _models(self, call: Call) -> None:
        exchanges = self._gateway.exchanges
        models = call.dialect.service.models
        if call.kind == "model" and call.model is None:
            # Some clients name the model in a body.
            call.body = await self._gateway.read_body(call)
            call.model = _named_model(call.dialect.name, call.body)
        if call.model is None:
            known = await exchanges.models.names(call.dialect, own_credential(call))
            listed = [models.describe(name, owner) for name, owner in known.items()]
            body = models.describe_all(listed)
        else:
            name = call.model.removeprefix("models/")
            describe = models.show or models.describe
            body = describe(name, exchanges.upstreams.choose(name).upstream.name)
        call.reply(200, call.headers(), encode(body))

    async def _count(self, call: Call) -> None:
        gateway = self._gateway
        asked = open_body(call, await gateway.read_body(call))
        call.body = _counted(call.dialect, asked)
        call.body = gateway.roles.normalize(call, call.dialect, call.body)
        request, choice = gateway.exchanges.asking.read(call)
        target = choice.upstream.dialect_for(call.dialect)
        routes = choice.upstream.endpoint(target).routes
        has_count = any(route.kind == "count" for route in routes)
        if choice.upstream.is_echo or target is not call.dialect or not has_count:
            tokens = echo.count_tokens(request)
            headers = [*call.headers(), ("x-cannery-estimated", "true")]
            call.reply(200, headers, encode(call.dialect.service.count(tokens)))
            return
        body = call.body
        if request.model != choice.model and isinstance(request.model, str):
            body = self._renamed(request, choice.model, target.name)
        for key in reversed(call.dialect.service.counted):
            body = encode({key: Fragment(body)})
        counted = await gateway.exchanges.count(call, choice, body)
        call.reply(200, call.headers(), counted)

    def _renamed(self, request: Request, model: str | None, dialect: str) -> bytes:
        return nativize_request(request.replace(model=model), dialect).body


def _counted(dialect: Dialect, body: bytes) -> bytes:
    """The request in the body of a token count."""
    path = dialect.service.counted
    if not path:
        return body
    held: Any = read_object(dialect.name, body)
    for step in path:
        held = held.get(step) if type(held) is dict else None
    if type(held) is not dict:
        raise DialectError(dialect.name, ".".join(path), "is required: an object")
    return encode(held)


def _named_model(dialect: str, body: bytes) -> str:
    """The model in a body, under its newer or its older name."""
    asked = read_object(dialect, body)
    name = asked.get("model") or asked.get("name")
    if type(name) is not str:
        raise DialectError(dialect, "model", "is required")
    return name

"""The models that can be requested by name: those of the configuration, and those that the upstreams list.

A pattern names no model, so an upstream with a pattern is asked for its own list. The list is cached for a while. An
upstream that does not answer in time keeps its last list, or none; the answer never fails because of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic

import msgspec
from msgspec import Struct

from cannery.errors import CanneryError
from cannery.gateway.refusals import NoAnswerError
from cannery.gateway.upstream_client import Sender
from cannery.gateway.upstreams import Credential, Upstream, Upstreams, is_pattern
from cannery.wire.contract import Dialect

_PATIENCE = 3.0
_KEPT_SECONDS = 300.0
_RETRY_SECONDS = 30.0
_MOST_MODELS = 5000
_MOST_LISTS = 256


class _Model(Struct):
    id: str | None = None
    name: str | None = None


class _List(Struct):
    data: list[_Model] = []
    models: list[_Model] = []


_decode = msgspec.json.Decoder(_List).decode


class _Kept(Struct):
    names: tuple[str, ...] = ()
    until: float = 0.0


class ModelLists:
    """Queries and caches the model lists of upstreams."""

    def __init__(self, upstreams: Upstreams, senders: Mapping[str, Sender]) -> None:
        self._upstreams = upstreams
        self._senders = senders
        self._kept: dict[tuple[str, Credential | None], _Kept] = {}

    async def names(self, caller: Dialect, credential: Credential | None) -> dict[str, str]:
        """Every model known by name, with its upstream; those of the configuration first."""
        found = dict(self._upstreams.model_names())
        asked = [
            upstream
            for upstream in self._upstreams.all
            if not upstream.is_echo and any(map(is_pattern, upstream.row.models))
        ]
        lists = await asyncio.gather(
            *(self._of(upstream, caller, credential) for upstream in asked)
        )
        for upstream, names in zip(asked, lists, strict=True):
            for name in names:
                if self._leads_to(name, upstream):
                    found.setdefault(name, upstream.name)
        return found

    def _leads_to(self, name: str, upstream: Upstream) -> bool:
        """Whether a call for a model is routed to the upstream that listed it."""
        try:
            return self._upstreams.choose(name).upstream.name == upstream.name
        except CanneryError:
            return False

    async def _of(
        self, upstream: Upstream, caller: Dialect, credential: Credential | None
    ) -> tuple[str, ...]:
        if not upstream.row.forward_key:
            credential = None
        elif credential is not None and caller not in upstream.dialects:
            credential = Credential(credential.value, None)
        key = (upstream.name, credential)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= _MOST_LISTS:
                self._kept.clear()
            kept = self._kept[key] = _Kept()
        if monotonic() < kept.until:
            return kept.names
        # Concurrent callers get the cached list while the upstream is asked.
        kept.until = monotonic() + _PATIENCE
        try:
            async with asyncio.timeout(_PATIENCE):
                kept.names = await self._ask(upstream, credential)
            kept.until = monotonic() + _KEPT_SECONDS
        except (CanneryError, TimeoutError, msgspec.MsgspecError, UnicodeError):
            kept.until = monotonic() + _RETRY_SECONDS
        return kept.names

    async def _ask(self, upstream: Upstream, credential: Credential | None) -> tuple[str, ...]:
        dialect = upstream.dialects[0]
        url = upstream.url(dialect, "models", None) + dialect.service.models.page
        answer = await self._senders[upstream.name].fetch(
            url, upstream.headers(dialect, credential)
        )
        if answer.status != 200:
            raise NoAnswerError(upstream.name, "does not list its models", "upstream_invalid")
        said = _decode(answer.body)
        names = (model.id or model.name for model in (*said.data, *said.models)[:_MOST_MODELS])
        return tuple(name.removeprefix("models/") for name in names if name)

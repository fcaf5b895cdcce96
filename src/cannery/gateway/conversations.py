"""OpenAI's Conversations API, served from the store: conversations that ``conversation`` in Responses can name.

Any conversation of the store can be read here, whatever its dialect. Its ``metadata`` are tags of the form
``key=value``, so that ``cannery list --tag`` finds them. An item cannot be removed: a conversation is kept as it was.

https://platform.openai.com/docs/api-reference/conversations (2026-11)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, quote, unquote

from cannery.errors import ConversationNotFoundError, DialectError, InputError, RoleError
from cannery.gateway.calls import Call
from cannery.gateway.identifiers import is_name, new_identifier
from cannery.gateway.refusals import CallError, refuse
from cannery.gateway.routing import CONVERSATIONS, RESPONSES
from cannery.messages import Conversation, Request
from cannery.storage import Metadata, Store, Summary
from cannery.translation import nativize_request
from cannery.wire.bodies import encode, read_object
from cannery.wire.contract import WireError
from cannery.wire.places import Places

if TYPE_CHECKING:
    from cannery.gateway.gateway import Gateway

T = TypeVar("T")
Item = dict[str, Any]

_PREFIX = "conv_"
_MOST_ITEMS = 20
_MOST_PAIRS = 16
_LONGEST_KEY, _LONGEST_VALUE = 64, 512
_USUAL_PAGE, _LARGEST_PAGE = 20, 100
_ITEM_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "reasoning": "rs",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
}
_STATELESS = frozenset({"reasoning", "item_reference"})


class Conversations:
    """Answers calls for conversations and their items."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def answer(self, call: Call) -> None:
        """Answer one call; its path names the resource, its method the operation."""
        if not self._gateway.recorder.is_on:
            raise refuse(501, "recording is off: there are no conversations", code="not_offered")
        tail = call.scope.path.partition(CONVERSATIONS)[2].strip("/")
        name, _, below = tail.partition("/")
        kind, _, item = below.partition("/")
        value = await self._value(call) if call.scope.method == "POST" else {}
        if kind not in ("", "items"):
            raise _unknown_path(call)
        if name and not is_name(name):
            raise _not_found(name)
        if not name and call.scope.method == "GET":
            found = await self._list(call)
        elif not name:
            found = await self._create(call, value)
        elif not kind:
            found = await self._one(call, name, value)
        elif not item:
            found = await self._items(call, name, value)
        else:
            found = await self._item(call, name, item)
        call.reply(200, call.headers(), encode(found))

    async def _value(self, call: Call) -> Item:
        call.body = await self._gateway.read_body(call)
        return read_object(RESPONSES, call.body) if call.body.strip() else {}

    async def _use(self, call: Call, name: str, work: Callable[[Store], T]) -> T:
        # An operator sees the conversations of all keys.
        is_operator = call.key is not None and call.key.is_operator
        scope = None if is_operator else call.store_scope
        try:
            return await self._gateway.recorder.use_store(work, name, scope)
        except ConversationNotFoundError:
            raise _not_found(name) from None

    # --- conversations -------------------------------------------------------------------------

    async def _create(self, call: Call, value: Item) -> Item:
        if call.scope.method != "POST":
            allowed = [("allow", "GET, POST")]
            raise refuse(405, "use GET or POST", code="method_not_allowed", headers=allowed)
        name = f"{_PREFIX}{new_identifier()}"
        tags = _to_tags(value.get("metadata"))
        canisters = self._read_items(call, value.get("items") or [])

        def create(store: Store) -> Metadata:
            own = store.within(call.store_scope)
            return own.create(tags=tags, identifier=name, canisters=canisters).metadata

        return _describe(await self._use(call, name, create))

    async def _list(self, call: Call) -> Item:
        """Conversations, most recently changed first; ``after`` is the id of the last one of a page."""
        asked = {name: values[-1] for name, values in parse_qs(call.query).items()}
        limit = _limit(asked)

        def select(store: Store) -> tuple[Summary, ...]:
            after = asked.get("after")
            cursor = None if after is None else _cursor(store.metadata_of(after))
            return store.list(limit=limit + 1, after=cursor)

        found = await self._use(call, asked.get("after", ""), select)
        items = [_summarized(summary) for summary in found[:limit]]
        return _listed(items, has_more=len(found) > limit)

    async def _one(self, call: Call, name: str, value: Item) -> Item:
        if call.scope.method == "DELETE":
            await self._use(call, name, lambda store: store.delete(name))
            return {"id": name, "object": "conversation.deleted", "deleted": True}
        if call.scope.method == "POST":
            if "metadata" not in value:
                raise _wrong("metadata", "is missing")
            told = _to_tags(value["metadata"])

            def change(store: Store) -> None:
                kept = [tag for tag in store.metadata_of(name).tags if "=" not in tag]
                store.change_metadata(name, tags=(*kept, *told))

            await self._use(call, name, change)
        return _describe(await self._use(call, name, lambda store: store.metadata_of(name)))

    # --- items ---------------------------------------------------------------------------------

    async def _items(self, call: Call, name: str, value: Item) -> Item:
        if call.scope.method == "GET":
            return _page(await self._load(call, name), call.query)
        if call.scope.method != "POST":
            allowed = [("allow", "GET, POST")]
            raise refuse(405, "use GET or POST", code="method_not_allowed", headers=allowed)
        added = self._read_items(call, value.get("items"))

        def append(store: Store) -> tuple[Conversation, int]:
            conversation = store.get(name)
            before = conversation.load()
            if added:
                conversation.append(added, revision=str(len(before)))
            return before + added, len(_written(before))

        history, known = await self._use(call, name, append)
        return _listed(_written(history)[known:], has_more=False)

    async def _item(self, call: Call, name: str, item: str) -> Item:
        if call.scope.method == "DELETE":
            message = (
                "an item cannot be removed from a conversation, which is kept unchanged; "
                "create a new conversation with the items to keep"
            )
            raise refuse(409, message, code="history_is_kept")
        for found in await self._load(call, name):
            if found["id"] == item:
                return found
        message = f"Item with id '{item[:100]}' not found."
        raise CallError(
            WireError(404, message, "invalid_request_error", "item_not_found", "item_id")
        )

    async def _load(self, call: Call, name: str) -> list[Item]:
        return _written(
            await self._use(call, name, lambda store: store.get(name).load(hydrate=True))
        )

    def _read_items(self, call: Call, items: object) -> Conversation:
        if not isinstance(items, list):
            raise _wrong("items", "must be a list")
        if len(items) > _MOST_ITEMS:
            raise _wrong("items", f"has {len(items)} items; at most {_MOST_ITEMS} at once")
        if not items:
            return Conversation()
        body = encode({"model": "-", "input": items})
        try:
            body = self._gateway.roles.normalize(call, call.dialect, body)
            return call.dialect.read_request(body, Places()).conversation
        except RoleError:
            raise
        except DialectError as error:
            raise _wrong(error.path.replace("input", "items", 1), error.problem) from None


def _written(history: Conversation) -> list[Item]:
    """The items of a history, each with an id: its own, or one derived from its position."""
    # Items read from this dialect are written without repairs and stay as they were.
    request = Request(history, model="-", source=RESPONSES)
    body = read_object(RESPONSES, nativize_request(request, RESPONSES, policy="allow").body)
    items: Any = body.get("input") or []
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if isinstance(body.get("instructions"), str):
        items = [{"role": "system", "content": body["instructions"]}, *items]
    return [_whole(item, place) for place, item in enumerate(items)]


def _whole(item: Item, place: int) -> Item:
    """An item with every field of the API."""
    kind = item.get("type", "message")
    whole = {"type": kind, "id": f"{_ITEM_PREFIXES.get(kind, 'item')}_{place}", **item}
    if kind not in _STATELESS:
        whole.setdefault("status", "completed")
    if kind == "message" and isinstance(item.get("content"), str):
        is_said = item.get("role") == "assistant"
        part: Item = {"type": "output_text" if is_said else "input_text", "text": item["content"]}
        whole["content"] = [part | {"annotations": []} if is_said else part]
    return whole


def _page(items: list[Item], query: str) -> Item:
    """Some of the items, as a query selects them: newest first by default."""
    asked = {name: values[-1] for name, values in parse_qs(query).items()}
    limit = _limit(asked)
    order = asked.get("order", "desc")
    if order not in ("asc", "desc"):
        raise _wrong("order", "must be asc or desc")
    ordered = items if order == "asc" else items[::-1]
    if "after" in asked:
        places = [place for place, item in enumerate(ordered) if item["id"] == asked["after"]]
        if not places:
            raise _wrong("after", "is not an item of this conversation")
        ordered = ordered[places[0] + 1 :]
    return _listed(ordered[:limit], has_more=len(ordered) > limit)


def _limit(asked: Mapping[str, str]) -> int:
    limit = asked.get("limit", str(_USUAL_PAGE))
    if not limit.isdecimal() or not 1 <= int(limit) <= _LARGEST_PAGE:
        raise _wrong("limit", f"must be a number from 1 to {_LARGEST_PAGE}")
    return int(limit)


def _listed(items: list[Item], *, has_more: bool) -> Item:
    first, last = (items[0]["id"], items[-1]["id"]) if items else (None, None)
    ends = {"first_id": first, "last_id": last}
    return {"object": "list", "data": items, **ends, "has_more": has_more}


def _describe(metadata: Metadata) -> Item:
    return _description(metadata.id, metadata.created, metadata.tags)


def _cursor(last: Metadata) -> str:
    """The cursor after a conversation in a list."""
    fields: dict[str, Any] = {name: getattr(last, name, None) for name in Summary.__struct_fields__}
    fields |= {"identifier": last.id, "count": 0}
    return Summary(**fields).cursor


def _summarized(summary: Summary) -> Item:
    """A conversation in a list: with its title, and the key that it belongs to."""
    told = _description(summary.identifier, summary.created, summary.tags)
    return {**told, "title": summary.title, "key": summary.scope or None}


def _description(identifier: str, created: datetime, tags: tuple[str, ...]) -> Item:
    pairs = (tag.partition("=") for tag in tags if "=" in tag)
    return {
        "id": identifier,
        "object": "conversation",
        "created_at": int(created.timestamp()),
        "metadata": {unquote(key): value for key, _, value in pairs},
    }


def _to_tags(facts: object) -> tuple[str, ...]:
    if facts is None:
        return ()
    if not isinstance(facts, Mapping) or len(facts) > _MOST_PAIRS:
        raise _wrong("metadata", f"must be an object of at most {_MOST_PAIRS} texts")
    for key, value in facts.items():
        if not isinstance(value, str) or len(key) > _LONGEST_KEY or len(value) > _LONGEST_VALUE:
            problem = f"must be text of at most {_LONGEST_VALUE} characters under a key of at most {_LONGEST_KEY}"
            raise _wrong(f"metadata.{key[:_LONGEST_KEY]}", problem)
    return tuple(f"{quote(key, safe=' ')}={value}" for key, value in facts.items())


def _wrong(parameter: str, problem: str) -> InputError:
    return DialectError(RESPONSES, parameter, problem)


def _not_found(name: str) -> CallError:
    message = f"Conversation with id '{name[:100]}' not found."
    error = WireError(
        404, message, "invalid_request_error", "conversation_not_found", "conversation_id"
    )
    return CallError(error)


def _unknown_path(call: Call) -> CallError:
    message = f"there is nothing at {call.scope.method} {call.scope.path}; see /docs"
    return refuse(404, message, code="unknown_path")

"""The conversation store: each content stored once, append-only logs, forks in constant time.

line
    one canister in a log, in the seeds' JSON shape (``shapes``, ``encoding``, ``decoding``)
content
    long text and binary data, by sha256, shared by the conversations of a scope, loaded on access (``content``)
position
    the place of a canister in its conversation, from 0
revision
    a token that changes with every append
fork
    a conversation that shares its parent's first canisters (``lineage``, ``trees``)
profile
    the records that a conversation accepts: ``archive`` or ``chat`` (``profiles``)
filing
    finding the conversation that already holds a history (``history``, ``filing``)
scope
    a tenant, a key's name, or "": recognition, lists, search, shared content and deletion never cross it
session
    a client's own name for its conversation; histories of different sessions are never joined
catalogue
    a backend's index of all conversations for lists, recognition and search, derived from each canister
    (``description``, ``words``)

The format is in ``docs/storage-format.md``; ``cannery.backends`` decides where the bytes are stored.
"""

from cannery.backends import Backup, Collection, Damage, Durability, Match, Metadata, Summary
from cannery.storage.aio import AsyncConversation, AsyncStore, open_async_store
from cannery.storage.backup import restore
from cannery.storage.content import StoredContent
from cannery.storage.conversation import Reading, StoredConversation
from cannery.storage.encoding import Turn
from cannery.storage.filing import Filed, Filing
from cannery.storage.history import recognition_digests
from cannery.storage.instructions import Exchange, Instructions
from cannery.storage.metadata import Link
from cannery.storage.recognition import Recognised
from cannery.storage.retention import Expired, KeepDays
from cannery.storage.searching import Hit
from cannery.storage.store import Store, open_store
from cannery.storage.trees import Tree
from cannery.storage.verification import Report

__all__ = [
    "AsyncConversation",
    "AsyncStore",
    "Backup",
    "Collection",
    "Damage",
    "Durability",
    "Exchange",
    "Expired",
    "Filed",
    "Filing",
    "Hit",
    "Instructions",
    "KeepDays",
    "Link",
    "Match",
    "Metadata",
    "Reading",
    "Recognised",
    "Report",
    "Store",
    "StoredContent",
    "StoredConversation",
    "Summary",
    "Tree",
    "Turn",
    "open_async_store",
    "open_store",
    "recognition_digests",
    "restore",
]

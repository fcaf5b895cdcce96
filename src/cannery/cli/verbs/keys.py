"""``cannery keys``: the keys of an encrypted store."""

from __future__ import annotations

import argparse
import sys

from cannery.backends import Encryption, KeySource, parse_source
from cannery.cli.complaints import DONE, WRONG, Complaint, Misuse, choose
from cannery.cli.files import write_json
from cannery.cli.parser import Parser
from cannery.cli.stores import find_key, opened
from cannery.cli.tables import table
from cannery.cli.terminal import harmless

DESCRIPTION = (
    "Manage the keys of an encrypted store, one for each scope. `list` shows which are present; `create` makes a "
    "key file for a scope; `rotate` replaces a key without encrypting any data again; `destroy` makes all data of "
    "a scope permanently unreadable."
)
EXAMPLES = """
cannery keys --store ./private --encryption-key 'file:keys/{scope}.key'
cannery keys create alice --encryption-key 'file:keys/{scope}.key'
cannery keys rotate --all --new 'file:new-keys/{scope}.key'
cannery keys destroy alice
"""
USES_STORE = True
_ACTIONS = ("list", "create", "rotate", "destroy")


def add_arguments(parser: Parser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add("action", metavar="ACTION", nargs="?", default="list", help="|".join(_ACTIONS) + " (list)")
    add("scope", metavar="SCOPE", nargs="?", help="the scope (the one without a name)")
    add("--all", action="store_true", help="rotate the keys of all scopes")
    add("--new", metavar="SOURCE", help="the source of the new keys, for rotate")
    add("--yes", action="store_true", help="do not ask for confirmation")


def run(options: argparse.Namespace) -> int:
    """Run one of the actions."""
    action = choose(options.action, _ACTIONS, "action")
    key, _ = find_key(options.encryption_key)
    if key is None:
        raise Misuse("no source of keys is given", "Give --encryption-key file:PATH")
    source = parse_source(key)
    if action == "create":
        return _create(options, source)
    with opened(options) as store:
        if store.encryption is None:
            raise Complaint("the store is not encrypted")
        if action == "rotate":
            return _rotate(options, store.encryption)
        if action == "destroy":
            return _destroy(options, store.encryption, source)
        return _list(options, store.encryption)


def _create(options: argparse.Namespace, source: KeySource) -> int:
    path = source.create(options.scope or "")
    if options.json:
        write_json({"scope": options.scope or "", "path": path})
    else:
        print(
            f"made {harmless(path)}; keep a copy of it: without it nothing in the scope can be read"
        )
    return DONE


def _list(options: argparse.Namespace, keys: Encryption) -> int:
    states = keys.states()
    if options.json:
        write_json([one._asdict() for one in states])
    else:
        rows = [
            [harmless(one.scope or "-"), one.key or "-", harmless(one.problem or "there")]
            for one in states
        ]
        print(table(["scope", "key", "state"], rows))
    return WRONG if any(one.problem for one in states) else DONE


def _rotate(options: argparse.Namespace, keys: Encryption) -> int:
    if options.new is None:
        raise Misuse("rotate needs the new key", "Give --new file:PATH")
    scopes = [one.scope for one in keys.states()] if options.all else [options.scope or ""]
    done = [keys.rotate(scope, options.new) for scope in scopes]
    if options.json:
        write_json([one._asdict() for one in done])
    for one in () if options.json else done:
        print(f"scope {harmless(one.scope or '-')} has key {one.key} now")
    return DONE


def _destroy(options: argparse.Namespace, keys: Encryption, source: KeySource) -> int:
    scope = options.scope or ""
    named = harmless(f"scope {scope!r}" if scope else "the scope without a name")
    if not options.yes and not _confirmed(f"Make everything in {named} unreadable for ever?"):
        return WRONG
    keys.destroy(scope)
    if options.json:
        write_json({"scope": scope, "destroyed": True})
        return DONE
    print(f"destroyed the key of {named} in this store")
    if source.is_for_all:
        print(
            "other scopes have the same key outside: backups of this scope can still be read with it"
        )
    else:
        where = harmless(source.place(scope))
        print(f"destroy {where} and its copies too: with them backups can still be read")
    return DONE


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise Misuse("destroying a key needs confirmation", "Add --yes")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")

"""Extra role aliases from configuration, for all clients or for one.

A mapping only adds spellings: it leads to an existing role, never changes the meaning of a known name, and never
accepts a dangerous name. All of this is checked at construction, so an existing value is valid, and looking up a role
needs no further check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from cannery.errors import ConfigurationError
from cannery.messages.role import Role
from cannery.roles.dangerous import find_dangerous_name
from cannery.roles.refusal import show
from cannery.roles.vocabularies import ALIASES, OPENAI

LONGEST_NAME = 64

_MEANINGS: Mapping[str, Role] = {
    **{role.value: role for role in Role},
    **ALIASES,
    **OPENAI.readings,
}


def fold(name: str) -> str:
    """Return the form in which two spellings of one name are equal."""
    return name.strip().lower()


@dataclass(frozen=True, slots=True)
class RoleMappings:
    """Validated, immutable aliases: a role name that clients send → an OpenAI role name."""

    general: Mapping[str, str] = field(default_factory=dict)
    clients: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clients = {
            _check_client(client): _check_aliases(aliases, f"for client {show(client)}")
            for client, aliases in _check_table(self.clients, "of clients").items()
        }
        object.__setattr__(self, "general", _check_aliases(self.general, ""))
        object.__setattr__(self, "clients", MappingProxyType(clients))

    @classmethod
    def of(cls, mappings: RoleMappings | Mapping[str, str] | None) -> RoleMappings | None:
        """Return mappings unchanged, or validate a plain table of aliases."""
        if mappings is None or isinstance(mappings, RoleMappings):
            return mappings
        return cls(mappings)

    def find(self, name: str, client: str | None = None) -> str | None:
        """Return the meaning of the folded name; a client's own alias takes precedence over a general one."""
        if client is not None:
            target = self.clients.get(fold(client), {}).get(name)
            if target is not None:
                return target
        return self.general.get(name)


def _check_aliases(aliases: object, scope: str) -> Mapping[str, str]:
    checked: dict[str, str] = {}
    for name, target in _check_table(aliases, scope).items():
        where = " ".join(filter(None, ("role mapping", show(name), scope)))
        key = _check_name(name, where)
        _check_target(key, target, where)
        if checked.setdefault(key, target) != target:
            raise ConfigurationError(where, f"is also mapped onto {show(checked[key])}")
    return MappingProxyType(checked)


def _check_table(table: object, scope: str) -> Mapping[object, str]:
    if not isinstance(table, Mapping):
        where = " ".join(filter(None, ("role mappings", scope)))
        raise ConfigurationError(where, f"must be a table, not {show(table)}")
    return table


def _check_client(client: object) -> str:
    if not isinstance(client, str) or not client.strip():
        raise ConfigurationError(f"role mappings for client {show(client)}", "needs a client name")
    return fold(client)


def _check_name(name: object, where: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(where, "the name must be text that is not blank")
    if len(name) > LONGEST_NAME:
        raise ConfigurationError(where, f"the name is longer than {LONGEST_NAME} characters")
    dangerous = find_dangerous_name(name)
    if dangerous is not None:
        raise ConfigurationError(
            where, f"{show(dangerous)} is a dangerous name, which no role may ever answer to"
        )
    return fold(name)


def _check_target(name: str, target: object, where: str) -> None:
    if not isinstance(target, str) or target not in OPENAI.readings:
        raise ConfigurationError(
            where,
            f"{show(target)} is not a role; map onto one of: {', '.join(OPENAI.spellings)}",
        )
    meaning = _MEANINGS.get(name)
    if meaning is not None and meaning is not OPENAI.readings[target]:
        raise ConfigurationError(
            where,
            f"the name already stands for the role {meaning.value}"
            f" and cannot be mapped onto {show(target)}",
        )

"""Inbound role strings of any case, padding and alias, turned into one vocabulary's spellings.

Always on and without a switch, at client ingress only; stored messages are validated exactly instead. A correct role
costs one look-up, and its message object is passed on unchanged. After folding, a role is either in a fixed table of
accepted names or refused: nothing is guessed, and the nearest names appear in the error only.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from cannery.errors import RoleError
from cannery.roles.counters import Reason, RoleCounters
from cannery.roles.dangerous import find_dangerous_name
from cannery.roles.mappings import RoleMappings, fold
from cannery.roles.refusal import MISSING, refuse_role, show
from cannery.roles.vocabularies import ALIASES, CLIENT, Vocabulary
from cannery.roles.vocabularies import vocabulary as find_vocabulary

LOGGER_NAME = "cannery.roles"


class RoleTransformation(NamedTuple):
    """One changed role: its position, the inbound spelling, and the result."""

    path: str
    before: str
    after: str


class RoleStatistics(NamedTuple):
    """Statistics of the raw roles of a list of messages."""

    total: int
    transformed: int
    by_role: Mapping[str, int]
    """Normalized role → messages; system, user and assistant are always present."""

    @property
    def transformation_rate(self) -> str:
        """The share of changed roles, as in ``"33.3%"``."""
        # In whole tenths, halves rounded up: formatting a float would round some halves down.
        tenths = (2000 * self.transformed + self.total) // (2 * self.total) if self.total else 0
        return f"{tenths // 10}.{tenths % 10}%"

    def __str__(self) -> str:
        by_role = ", ".join(f"{role}: {count}" for role, count in self.by_role.items())
        return (
            "{\n"
            f"  total: {self.total},\n"
            f"  transformed: {self.transformed},\n"
            f"  byRole: {{ {by_role} }},\n"
            f'  transformationRate: "{self.transformation_rate}"\n'
            "}"
        )


class RoleReport(NamedTuple):
    """Messages with normalized roles, and the changes made."""

    messages: list[Mapping[str, Any]]
    statistics: RoleStatistics
    transformations: tuple[RoleTransformation, ...]


def normalize_role(
    role: object,
    *,
    vocabulary: Vocabulary | str = CLIENT,
    mappings: RoleMappings | Mapping[str, str] | None = None,
    client: str | None = None,
    path: str | None = None,
    counters: RoleCounters | None = None,
) -> str:
    """Return the vocabulary's spelling of an inbound role, or raise a RoleError."""
    target = _find_vocabulary(vocabulary)
    found = _find(role, target, RoleMappings.of(mappings), client)
    if found is None:
        _refuse(role, target, path, counters)
    if counters is not None:
        counters.accept(1, [(fold(str(role)), found)] if found != role else ())
    return found


def normalize_roles(
    messages: Iterable[Mapping[str, Any]],
    *,
    vocabulary: Vocabulary | str = CLIENT,
    mappings: RoleMappings | Mapping[str, str] | None = None,
    client: str | None = None,
    path: str = "messages",
    development: bool = False,
    counters: RoleCounters | None = None,
) -> RoleReport:
    """Normalize the role of each message and report the changes; inputs are not changed."""
    target, checked = _find_vocabulary(vocabulary), RoleMappings.of(mappings)
    normalized: list[Mapping[str, Any]] = []
    transformations: list[RoleTransformation] = []
    found_roles: list[str] = []
    for index, message in enumerate(_check_messages(messages, path)):
        role = message.get("role", MISSING)
        found = _find(role, target, checked, client)
        if found is None:
            _refuse(role, target, f"{path}.{index}.role", counters)
        found_roles.append(found)
        if found == role:
            normalized.append(message)
        else:
            normalized.append({**message, "role": found})
            transformations.append(RoleTransformation(f"{path}.{index}.role", role, found))
    by_role = _count_roles(found_roles, target)
    statistics = RoleStatistics(len(normalized), len(transformations), by_role)
    report = RoleReport(normalized, statistics, tuple(transformations))
    if counters is not None:
        counters.accept(len(normalized), ((fold(t.before), t.after) for t in transformations))
    if development:
        _log(report)
    return report


def _find_vocabulary(vocabulary: Vocabulary | str) -> Vocabulary:
    return find_vocabulary(vocabulary) if isinstance(vocabulary, str) else vocabulary


def _find(
    role: object, vocabulary: Vocabulary, mappings: RoleMappings | None, client: str | None
) -> str | None:
    """The vocabulary's spelling for the meaning of a role, or None."""
    if not isinstance(role, str):
        return None
    if role in vocabulary.readings:
        return role
    accepted, name = _accept(vocabulary), fold(role)
    found = accepted.get(name)
    if found is None and mappings is not None:
        found = accepted.get(mappings.find(name, client) or "")
    return found


@functools.lru_cache(maxsize=64)
def _accept(vocabulary: Vocabulary) -> dict[str, str]:
    """Each accepted name, folded → the vocabulary's spelling of the same role."""
    accepted = {fold(spelling): spelling for spelling in vocabulary.spellings}
    for name, role in {**CLIENT.readings, **ALIASES, **vocabulary.tolerated}.items():
        spelling = vocabulary.spell(role)
        if spelling is not None:
            accepted.setdefault(name, spelling)
    return accepted


def _group_names(vocabulary: Vocabulary) -> list[tuple[str, ...]]:
    """The accepted names of each spelling, its own first."""
    accepted = _accept(vocabulary)
    return [
        (spelling, *(name for name in accepted if accepted[name] == spelling != name))
        for spelling in vocabulary.spellings
    ]


def _refuse(
    role: object, vocabulary: Vocabulary, path: str | None, counters: RoleCounters | None
) -> NoReturn:
    if counters is not None:
        counters.reject(_classify(role))
    raise refuse_role(role, _group_names(vocabulary), path=path)


def _classify(role: object) -> Reason:
    if role is MISSING:
        return "missing"
    if not isinstance(role, str):
        return "not_text"
    return "unknown" if find_dangerous_name(role) is None else "dangerous"


def _check_messages(messages: object, path: str) -> Iterable[Mapping[str, Any]]:
    if not isinstance(messages, Iterable) or isinstance(messages, (str, bytes, Mapping)):
        text = f"{path}: must be a list of messages (received: {show(messages)})"
        raise RoleError(text, received=messages, path=path)
    for index, message in enumerate(messages):
        if not isinstance(
            message, (dict, Mapping)
        ):  # the common type, which passes without an isinstance check
            where = f"{path}.{index}"
            text = f"{where}: must be an object with a role (received: {show(message)})"
            raise RoleError(text, received=message, path=where)
        yield message


def _count_roles(roles: list[str], vocabulary: Vocabulary) -> Mapping[str, int]:
    counts = Counter(roles)
    listed = dict.fromkeys((*CLIENT.spellings, *vocabulary.spellings))
    return MappingProxyType(
        {role: counts[role] for role in listed if role in counts or role in CLIENT.readings}
    )


def _log(report: RoleReport) -> None:
    import logging  # imported here, because most processes never log and `import cannery` stays light

    logger = logging.getLogger(LOGGER_NAME)
    for _, before, after in report.transformations:
        logger.info("🔄 Role normalized: %s → %s", show(before), show(after))
    logger.info("📊 Message role statistics: %s", report.statistics)

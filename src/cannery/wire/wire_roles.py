"""Roles of bodies: normalized by the vocabulary of a dialect; an unknown role is an error with its path."""

from __future__ import annotations

from cannery.errors import RoleError, WireRoleError
from cannery.roles.normalization import normalize_role
from cannery.roles.vocabularies import Vocabulary


def read_role(dialect: str, role: object, vocabulary: Vocabulary, path: str) -> str:
    """The normalized role of a wire message; WireRoleError names the roles that every client knows."""
    if type(role) is str and role in vocabulary.readings:
        return role
    try:
        return normalize_role(role, vocabulary=vocabulary, path=path)
    except RoleError as refusal:
        try:
            normalize_role(role, path=path)
        except RoleError as error:
            raise WireRoleError(dialect, error) from None
        raise WireRoleError(dialect, refusal) from None

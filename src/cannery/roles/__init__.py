"""Role spellings: of clients, of providers, in chat records, in data sets.

There is one enum of six roles (``cannery.messages.role.Role``). Everything here is a table of other systems' spellings,
or a pure function over such a table:

    vocabularies    named projections of the six roles, and their inverse if it exists
    normalization   inbound role strings of any case and alias → the spelling of a vocabulary
    mappings        extra aliases from configuration, validated
    dangerous       the names that a mapping must never accept
    counters        statistics of normalization, for metrics
    chat_storage    the three roles of a stored chat record, exact
    providers       which of three providers a model or provider name belongs to
    adapter         role annotations that a provider expects on messages
    refusal         the text of a refused role
"""

from __future__ import annotations

from cannery.roles.adapter import (
    adapt_role_for_provider,
    extract_gemini_system_instructions,
    filter_out_system_instructions,
)
from cannery.roles.chat_storage import MessageRole, validate_message_role
from cannery.roles.counters import RoleCounters, RoleCounts
from cannery.roles.mappings import RoleMappings
from cannery.roles.normalization import (
    RoleReport,
    RoleStatistics,
    RoleTransformation,
    normalize_role,
    normalize_roles,
)
from cannery.roles.providers import (
    ProviderMatch,
    ProviderType,
    explain_provider,
    normalize_provider,
)
from cannery.roles.vocabularies import VOCABULARIES, Vocabulary, vocabulary

__all__ = [
    "VOCABULARIES",
    "MessageRole",
    "ProviderMatch",
    "ProviderType",
    "RoleCounters",
    "RoleCounts",
    "RoleMappings",
    "RoleReport",
    "RoleStatistics",
    "RoleTransformation",
    "Vocabulary",
    "adapt_role_for_provider",
    "explain_provider",
    "extract_gemini_system_instructions",
    "filter_out_system_instructions",
    "normalize_provider",
    "normalize_role",
    "normalize_roles",
    "validate_message_role",
    "vocabulary",
]

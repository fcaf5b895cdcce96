"""The name of the dialect, and its server's rules for each model."""

from __future__ import annotations

from cannery.families.claude.models import rules_by_model
from cannery.wire.contract import Rules

NAME = "anthropic_messages"

RULES = Rules(
    alternates=True,
    starts_with_user=True,
    refuses_blank_text=True,
    late_supervisors="fold",
    call_id_pattern=r"[A-Za-z0-9_-]+",
    call_id_length=128,
    name_pattern=r"[A-Za-z0-9_-]+",
    name_length=128,
    cache_marks=4,
    knows_developer=False,
)

rules_for = rules_by_model(RULES)

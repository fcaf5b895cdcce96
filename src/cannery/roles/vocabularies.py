"""Named sets of role spellings that other systems use, as projections of the six roles.

A projection need not be one to one. ``spell`` returns the name of a role in the vocabulary, or None if it has none;
``inverse_exact`` tells whether reading that name gives the same role back. If it does not, two roles share one spelling
and only the rest of the message (a tool call, a result block) distinguishes them. Reading is exact: folding case and
whitespace is the work of ``normalization``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from cannery.errors import NotFoundError
from cannery.messages.role import Role
from cannery.roles.refusal import refuse_role


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Vocabulary:
    """One set of role spellings with its projection from and to the six roles."""

    name: str
    readings: Mapping[str, Role]
    """Its own spellings, in the order in which errors list them."""
    spoken: Mapping[Role, str]
    """The name of each role; a role without a name is left out."""
    tolerated: Mapping[str, Role] = field(default_factory=dict)
    """Spellings that are accepted in reading and never written."""

    def __post_init__(self) -> None:
        for table in ("readings", "spoken", "tolerated"):
            object.__setattr__(self, table, MappingProxyType(dict(getattr(self, table))))

    def __repr__(self) -> str:
        return f"vocabulary({self.name!r})"

    @property
    def spellings(self) -> tuple[str, ...]:
        """Its own spellings, without the tolerated ones."""
        return tuple(self.readings)

    @property
    def collapsing(self) -> tuple[Role, ...]:
        """The roles whose spelling reads back as another role."""
        return tuple(role for role in self.spoken if not self.inverse_exact(role))

    def spell(self, role: Role) -> str | None:
        """Return the name of a role in this vocabulary, or None."""
        return self.spoken.get(role)

    def inverse_exact(self, role: Role) -> bool:
        """Whether the role has a spelling that reads back as the same role."""
        spelling = self.spoken.get(role)
        return spelling is not None and self.readings[spelling] is role

    def read(self, spelling: object, *, path: str | None = None) -> Role:
        """Return the role with exactly this spelling; any other spelling is a RoleError."""
        if isinstance(spelling, str):
            role = self.readings.get(spelling) or self.tolerated.get(spelling)
            if role is not None:
                return role
        groups = [(known,) for known in self.readings]
        raise refuse_role(spelling, groups, path=path, is_exact=True)


ALIASES: Mapping[str, Role] = MappingProxyType(
    {
        "human": Role.User,
        "ai": Role.Assistant,
        "bot": Role.Assistant,
        "model": Role.Assistant,
        "chatbot": Role.Assistant,
        "gpt": Role.Assistant,
    }
)
"""Other names that clients use; normalization accepts them for every vocabulary."""

CLIENT = Vocabulary(
    "client",
    readings={"system": Role.Supervisor, "user": Role.User, "assistant": Role.Assistant},
    spoken={
        Role.User: "user",
        Role.Assistant: "assistant",
        Role.Supervisor: "system",
        Role.Document: "user",
        Role.Invocation: "assistant",
        Role.Result: "user",
    },
)

CHAT_STORAGE = Vocabulary(
    "chat_storage",
    readings={"user": Role.User, "assistant": Role.Assistant, "tool": Role.Result},
    spoken={
        Role.User: "user",
        Role.Assistant: "assistant",
        Role.Document: "user",
        Role.Invocation: "assistant",
        Role.Result: "tool",
    },
)

# "developer" and "function" are read and not written: which of two spellings a supervisor or a result had belongs to
# the message, not to its role.
OPENAI = Vocabulary(
    "openai",
    readings={
        "system": Role.Supervisor,
        "developer": Role.Supervisor,
        "user": Role.User,
        "assistant": Role.Assistant,
        "tool": Role.Result,
        "function": Role.Result,
    },
    spoken={
        Role.User: "user",
        Role.Assistant: "assistant",
        Role.Supervisor: "system",
        Role.Document: "user",
        Role.Invocation: "assistant",
        Role.Result: "tool",
    },
)

# The role "system" is for messages inside the conversation; the leading text is a field.
ANTHROPIC = Vocabulary(
    "anthropic",
    readings={"user": Role.User, "assistant": Role.Assistant, "system": Role.Supervisor},
    spoken={
        Role.User: "user",
        Role.Assistant: "assistant",
        Role.Supervisor: "system",
        Role.Document: "user",
        Role.Invocation: "assistant",
        Role.Result: "user",
    },
)

# System text is the field systemInstruction, never a role; "function" is a legacy spelling.
GEMINI = Vocabulary(
    "gemini",
    readings={"user": Role.User, "model": Role.Assistant, "function": Role.Result},
    spoken={
        Role.User: "user",
        Role.Assistant: "model",
        Role.Document: "user",
        Role.Invocation: "model",
        Role.Result: "user",
    },
)

SHAREGPT = Vocabulary(
    "sharegpt",
    readings={
        "human": Role.User,
        "gpt": Role.Assistant,
        "system": Role.Supervisor,
        "function_call": Role.Invocation,
        "observation": Role.Result,
    },
    spoken={
        Role.User: "human",
        Role.Assistant: "gpt",
        Role.Supervisor: "system",
        Role.Document: "human",
        Role.Invocation: "function_call",
        Role.Result: "observation",
    },
    tolerated={
        "user": Role.User,
        "assistant": Role.Assistant,
        "chatgpt": Role.Assistant,
        "bard": Role.Assistant,
        "bing": Role.Assistant,
        "model": Role.Assistant,
        "tool": Role.Result,
    },
)

VOCABULARIES: Mapping[str, Vocabulary] = MappingProxyType(
    {
        each.name: each
        for each in sorted(
            (ANTHROPIC, CHAT_STORAGE, CLIENT, GEMINI, OPENAI, SHAREGPT),
            key=lambda each: each.name,
        )
    }
)
"""Every vocabulary by its name, sorted."""


def vocabulary(name: str) -> Vocabulary:
    """Find a vocabulary by its name."""
    try:
        return VOCABULARIES[name]
    except KeyError:
        import difflib  # imported here, because most names are right

        near = difflib.get_close_matches(name.strip().lower(), VOCABULARIES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        known = ", ".join(VOCABULARIES)
        raise NotFoundError(f"unknown vocabulary {name!r}.{hint} Known: {known}") from None

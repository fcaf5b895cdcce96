"""Canisters: one immutable message each, one class for each role.

Plain text is held as the bare string and wrapped when ``content`` is read: a million messages stay small, and a
decoder can make a canister without running any Python. ``joined`` says that a canister belongs to the same wire message
as the one before it. ``_memo`` caches what can be derived (digest, encoded fragments) and takes no part in anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, Union, runtime_checkable

import msgspec
from msgspec import Struct

from cannery.errors import MessageError
from cannery.messages.absence import Absential, absent
from cannery.messages.checked import (
    CheckedMeta,
    check_name,
    check_text,
    check_timestamp,
    maker,
    now,
)
from cannery.messages.content import (
    PLAIN,
    AnyContent,
    Content,
    TextualContentClass,
    is_content,
    new_text,
)
from cannery.messages.immutable import Dictionary
from cannery.messages.json_text import read_object, write_json
from cannery.messages.residue import Residue
from cannery.messages.role import Role

# Wire decoders build canisters from JSON objects; a name from the private use area cannot meet a wire's own key.
_HIDDEN_NAMES = {
    "timestamp": "\ue000timestamp",
    "joined": "\ue000joined",
    "residue": "\ue000residue",
    "_memo": "\ue000memo",
}


@runtime_checkable
class Canister(Protocol):
    """One message of a conversation."""

    @property
    def role(self) -> Role:
        """Which of the six kinds it is."""

    @property
    def timestamp(self) -> datetime:
        """When it was said, or received."""


@runtime_checkable
class UserCanister(Canister, Protocol):
    """What the user said."""

    @property
    def content(self) -> Content:
        """What was said."""


@runtime_checkable
class AssistantCanister(Canister, Protocol):
    """What the model said."""

    @property
    def content(self) -> Absential[Content]:
        """What was said; absent when the model only asked for tools."""


@runtime_checkable
class SupervisorCanister(Canister, Protocol):
    """Instructions that stand above the conversation."""

    @property
    def content(self) -> Content:
        """The instructions."""


@runtime_checkable
class DocumentCanister(Canister, Protocol):
    """A reference document given for context."""

    @property
    def content(self) -> Content:
        """The document."""

    @property
    def title(self) -> Absential[str]:
        """Its title, if it has one."""


@runtime_checkable
class InvocationCanister(Canister, Protocol):
    """The model asks for a tool."""

    @property
    def identifier(self) -> str:
        """What a result refers to."""

    @property
    def name(self) -> str:
        """The tool."""

    @property
    def arguments(self) -> Dictionary:
        """What it is called with."""


@runtime_checkable
class ResultCanister(Canister, Protocol):
    """What a tool answered."""

    @property
    def invocation_id(self) -> str:
        """The identifier of the invocation that this answers."""

    @property
    def content(self) -> Content:
        """The answer."""

    @property
    def error(self) -> Absential[str]:
        """What went wrong, if something did."""


class CanisterStruct(
    Struct, frozen=True, gc=False, eq=False, metaclass=CheckedMeta, rename=_HIDDEN_NAMES
):
    """The fields that every canister has; ``held`` is its content, plain text as a bare string."""

    role: ClassVar[Role]
    public_class: ClassVar[type[CanisterStruct]]

    held: Any
    timestamp: datetime
    joined: bool = False
    residue: Residue | None = None
    _memo: dict[str, Any] | None = None

    def memo(self) -> dict[str, Any]:
        """The cache of what can be derived from this canister."""
        memo = self._memo
        if memo is None:
            memo = {}
            msgspec.structs.force_setattr(self, "_memo", memo)
        return memo

    def facts(self) -> tuple[Any, ...]:
        """All that makes two canisters the same value."""
        return (self.timestamp, self.joined, self.residue)

    def fields(self) -> dict[str, Any]:
        """The constructor's arguments that give this canister again."""
        return {"timestamp": self.timestamp, "joined": self.joined, "residue": self.residue}

    def replace(self, **changes: Any) -> Any:
        """A new canister with some facts changed; residue goes, unless only time or grouping changed."""
        fields = self.fields()
        if not set(changes) <= {"timestamp", "joined", "residue"}:
            fields["residue"] = None
        return self.public_class(**{**fields, **changes})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CanisterStruct) or other.role is not self.role:
            return NotImplemented
        return self.facts() == other.facts()

    def __hash__(self) -> int:
        return hash((self.role.value, self.timestamp, self.joined))

    def __repr__(self) -> str:
        fields = self.fields()
        hidden = {
            "joined": False,
            "residue": None,
            "title": absent,
            "error": absent,
            "rank": absent,
        }
        shown = ", ".join(
            f"{name}={value!r}"
            for name, value in fields.items()
            if not (name in hidden and value is hidden[name])
        )
        return f"{self.public_class.__name__}({shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (self.public_class.__name__, self.fields())


class ContentCanisterStruct(CanisterStruct, frozen=True, gc=False, eq=False):
    """A canister whose whole point is its content."""

    @property
    def content(self) -> AnyContent:
        """What was said."""
        held = self.held
        return new_text(held) if type(held) is str else held  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The text of textual content; "" for anything else."""
        return text_of(self.held)

    def facts(self) -> tuple[Any, ...]:
        """All that makes two canisters the same value."""
        return (self.content, self.timestamp, self.joined, self.residue)

    def fields(self) -> dict[str, Any]:
        """The constructor's arguments that give this canister again."""
        return {"content": self.content, **CanisterStruct.fields(self)}


class UserCanisterClass(ContentCanisterStruct, frozen=True, gc=False, eq=False):
    """What the user said."""

    role = Role.User

    if TYPE_CHECKING:

        def __init__(
            self,
            content: Content,
            timestamp: Absential[datetime] = absent,
            *,
            joined: bool = False,
            residue: Residue | None = None,
        ) -> None: ...

    @classmethod
    def _make(
        cls,
        content: Content,
        timestamp: Absential[datetime] = absent,
        *,
        joined: bool = False,
        residue: Residue | None = None,
    ) -> UserCanisterClass:
        held = _check_content("UserCanister.content", content)
        return _new(cls, held, timestamp, joined, residue)  # type: ignore[no-any-return]


class AssistantCanisterClass(ContentCanisterStruct, frozen=True, gc=False, eq=False):
    """What the model said; the content is absent when it only asked for tools."""

    role = Role.Assistant

    if TYPE_CHECKING:

        def __init__(
            self,
            content: Absential[Content] = absent,
            timestamp: Absential[datetime] = absent,
            *,
            joined: bool = False,
            residue: Residue | None = None,
        ) -> None: ...

    @classmethod
    def _make(
        cls,
        content: Absential[Content] = absent,
        timestamp: Absential[datetime] = absent,
        *,
        joined: bool = False,
        residue: Residue | None = None,
    ) -> AssistantCanisterClass:
        held = absent if content is absent else _check_content("AssistantCanister.content", content)
        return _new(cls, held, timestamp, joined, residue)  # type: ignore[no-any-return]


class SupervisorCanisterClass(ContentCanisterStruct, frozen=True, gc=False, eq=False):
    """Instructions that stand above the conversation; ``rank`` tells system from developer where both exist."""

    role = Role.Supervisor

    rank: Absential[str] = absent

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913 - the common facts and a rank
            self,
            content: Content,
            timestamp: Absential[datetime] = absent,
            *,
            rank: Absential[str] = absent,
            joined: bool = False,
            residue: Residue | None = None,
        ) -> None: ...

    @classmethod
    def _make(  # noqa: PLR0913 - the common facts and a rank
        cls,
        content: Content,
        timestamp: Absential[datetime] = absent,
        *,
        rank: Absential[str] = absent,
        joined: bool = False,
        residue: Residue | None = None,
    ) -> SupervisorCanisterClass:
        if rank is not absent and rank not in {"system", "developer"}:
            raise MessageError(
                "SupervisorCanister.rank", f"must be system or developer, got {rank!r}"
            )
        held = _check_content("SupervisorCanister.content", content)
        return _new(cls, held, timestamp, joined, residue, rank)  # type: ignore[no-any-return]

    def facts(self) -> tuple[Any, ...]:
        """All that makes two canisters the same value."""
        return (self.content, self.timestamp, self.joined, self.residue, self.rank)

    def fields(self) -> dict[str, Any]:
        """The constructor's arguments that give this canister again."""
        return {**ContentCanisterStruct.fields(self), "rank": self.rank}


class DocumentCanisterClass(ContentCanisterStruct, frozen=True, gc=False, eq=False):
    """A reference document given for context."""

    role = Role.Document

    title: Absential[str] = absent

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913 - the common facts and a title
            self,
            content: Content,
            timestamp: Absential[datetime] = absent,
            *,
            title: Absential[str] = absent,
            joined: bool = False,
            residue: Residue | None = None,
        ) -> None: ...

    @classmethod
    def _make(  # noqa: PLR0913 - the common facts and a title
        cls,
        content: Content,
        timestamp: Absential[datetime] = absent,
        *,
        title: Absential[str] = absent,
        joined: bool = False,
        residue: Residue | None = None,
    ) -> DocumentCanisterClass:
        if title is not absent:
            check_name("DocumentCanister.title", title)
        held = _check_content("DocumentCanister.content", content)
        return _new(cls, held, timestamp, joined, residue, title)  # type: ignore[no-any-return]

    def facts(self) -> tuple[Any, ...]:
        """All that makes two canisters the same value."""
        return (self.content, self.timestamp, self.joined, self.residue, self.title)

    def fields(self) -> dict[str, Any]:
        """The constructor's arguments that give this canister again."""
        return {**ContentCanisterStruct.fields(self), "title": self.title}


class InvocationCanisterClass(CanisterStruct, frozen=True, gc=False, eq=False):
    """The model asks for a tool; ``held`` is the exact argument text.

    ``is_freeform`` marks a custom tool whose input is text and not JSON.
    """

    role = Role.Invocation

    identifier: str = ""
    name: str = ""
    is_freeform: bool = False

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913 - the common facts and a call's own
            self,
            identifier: str,
            name: str,
            arguments: Mapping[str, Any] | str = "",
            timestamp: Absential[datetime] = absent,
            *,
            is_freeform: bool = False,
            joined: bool = False,
            residue: Residue | None = None,
        ) -> None: ...

    @classmethod
    def _make(  # noqa: PLR0913 - the common facts and a call's own
        cls,
        identifier: str,
        name: str,
        arguments: Any = "",
        timestamp: Absential[datetime] = absent,
        *,
        is_freeform: bool = False,
        joined: bool = False,
        residue: Residue | None = None,
    ) -> InvocationCanisterClass:
        where = "InvocationCanister"
        check_name(f"{where}.identifier", identifier)
        check_name(f"{where}.name", name)
        if isinstance(arguments, Mapping):
            held = write_json(Dictionary(arguments), f"{where}.arguments")
        else:
            held = check_text(f"{where}.arguments", arguments)
        return _new(cls, held, timestamp, joined, residue, identifier, name, bool(is_freeform))  # type: ignore[no-any-return]

    @property
    def arguments_text(self) -> str:
        """The arguments exactly as they were written; may be empty, not JSON, or not an object."""
        return self.held  # type: ignore[no-any-return]

    @property
    def arguments(self) -> Dictionary:
        """The arguments as a deeply immutable mapping; empty when the text is not a JSON object."""
        return read_object(self.held) or Dictionary()

    @property
    def is_object(self) -> bool:
        """Whether the argument text spells a JSON object (the empty text spells the empty one)."""
        return not self.is_freeform and read_object(self.held) is not None

    def facts(self) -> tuple[Any, ...]:
        """All that makes two canisters the same value."""
        call = (self.identifier, self.name, self.held, self.is_freeform)
        return (call, self.timestamp, self.joined, self.residue)

    def fields(self) -> dict[str, Any]:
        """The constructor's arguments that give this canister again."""
        return {
            "identifier": self.identifier,
            "name": self.name,
            "arguments": self.held,
            "is_freeform": self.is_freeform,
            **CanisterStruct.fields(self),
        }


class ResultCanisterClass(CanisterStruct, frozen=True, gc=False, eq=False):
    """What a tool answered.

    ``_error`` is True where a wire has only a flag and the content says what went wrong.
    """

    role = Role.Result

    invocation_id: str = ""
    _error: Absential[str | bool] = absent

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913 - the common facts and a result's own
            self,
            invocation_id: str,
            content: Content,
            error: Absential[str | bool] = absent,
            timestamp: Absential[datetime] = absent,
            *,
            joined: bool = False,
            residue: Residue | None = None,
        ) -> None: ...

    @classmethod
    def _make(  # noqa: PLR0913 - the common facts and a result's own
        cls,
        invocation_id: str,
        content: Content,
        error: Absential[str | bool] = absent,
        timestamp: Absential[datetime] = absent,
        *,
        joined: bool = False,
        residue: Residue | None = None,
    ) -> ResultCanisterClass:
        check_name("ResultCanister.invocation_id", invocation_id)
        if error is False:
            error = absent
        if error is not absent and error is not True:
            check_text("ResultCanister.error", error)
        held = _check_content("ResultCanister.content", content)
        return _new(cls, held, timestamp, joined, residue, invocation_id, error)  # type: ignore[no-any-return]

    @property
    def content(self) -> AnyContent:
        """The answer."""
        held = self.held
        return new_text(held) if type(held) is str else held  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The text of textual content; "" for anything else."""
        return text_of(self.held)

    @property
    def error(self) -> Absential[str]:
        """What went wrong, if something did."""
        if self._error is True:
            return self.text or "error"
        return self._error  # type: ignore[return-value]

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""
        return self._error is not absent

    def facts(self) -> tuple[Any, ...]:
        """All that makes two canisters the same value."""
        answer = (self.invocation_id, self.content, self._error)
        return (answer, self.timestamp, self.joined, self.residue)

    def fields(self) -> dict[str, Any]:
        """The constructor's arguments that give this canister again."""
        return {
            "invocation_id": self.invocation_id,
            "content": self.content,
            "error": self._error,
            **CanisterStruct.fields(self),
        }


AnyCanister: TypeAlias = Union[  # noqa: UP007 - the closed set that every dialect must match
    UserCanisterClass,
    AssistantCanisterClass,
    SupervisorCanisterClass,
    DocumentCanisterClass,
    InvocationCanisterClass,
    ResultCanisterClass,
]
CANISTER_CLASSES: dict[Role, type[CanisterStruct]] = {
    cls.role: cls
    for cls in AnyCanister.__args__  # type: ignore[attr-defined]
}
for _class in CANISTER_CLASSES.values():
    _class.public_class = _class

# Unchecked constructors, fields by position: held, timestamp, joined, residue, memo, then the class's own.
new_user = maker(UserCanisterClass)
new_assistant = maker(AssistantCanisterClass)
new_supervisor = maker(SupervisorCanisterClass)
new_document = maker(DocumentCanisterClass)
new_invocation = maker(InvocationCanisterClass)
new_result = maker(ResultCanisterClass)


def is_canister(value: object) -> bool:
    """Whether a value is one of our canisters."""
    return isinstance(value, CanisterStruct)


def text_of(held: Any) -> str:
    """The text of held content; "" for what is not text."""
    if type(held) is str:
        return held
    return held.text if isinstance(held, TextualContentClass) else ""


def hold(content: AnyContent) -> Any:
    """How a canister holds a content: plain text as the bare string."""
    if (
        type(content) is TextualContentClass
        and content.mime_type == PLAIN
        and not content.citations
        and type(content._text) is str
    ):
        return content._text
    return content


def rebuild(name: str, fields: dict[str, Any]) -> Any:
    """A canister from its class name and fields, as pickle and copy keep it."""
    by_name = {cls.__name__: cls for cls in CANISTER_CLASSES.values()}
    return by_name[name](**fields)


def _check_content(where: str, content: object) -> Any:
    if isinstance(content, str):
        raise MessageError(where, 'expected a content; wrap text: TextualContentClass(text="...")')
    if not is_content(content):
        raise MessageError(where, f"expected a content, got {type(content).__name__}")
    return hold(content)  # type: ignore[arg-type]


def _new(cls: Any, held: Any, timestamp: Any, joined: bool, residue: Any, *own: Any) -> Any:  # noqa: FBT001, PLR0913 - fields by position
    name = cls.__name__.removesuffix("Class")
    when = now() if timestamp is absent else check_timestamp(f"{name}.timestamp", timestamp)
    if residue is not None and not isinstance(residue, Residue):
        raise MessageError(f"{name}.residue", f"expected a Residue, got {type(residue).__name__}")
    return maker(cls)(held, when, bool(joined), residue, None, *own)

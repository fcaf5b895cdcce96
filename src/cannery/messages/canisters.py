"""Canisters: one immutable message each, one class for each role.

Plain text is held as a bare string and wrapped when ``content`` is read: a million messages stay small. ``joined``
means that a canister belongs to the same wire message as the one before it. ``_memo`` caches derived values (digest,
encoded fragments) and is not part of the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, Union

import msgspec
from msgspec import Struct

from cannery.errors import MessageError
from cannery.messages.absence import Absential, absent
from cannery.messages.checked import (
    CheckedMeta,
    check_facts,
    check_flag,
    check_instance,
    check_name,
    check_text,
    check_timestamp,
    maker,
    now,
    rebuild,
)
from cannery.messages.content import (
    PLAIN,
    AnyContent,
    TextualContentClass,
    is_content,
    new_text,
)
from cannery.messages.immutable import Dictionary, freeze
from cannery.messages.json_text import read_object, write_json
from cannery.messages.protocols import (
    AssistantCanister,
    Canister,
    Content,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
    implement,
)
from cannery.messages.residue import Residue
from cannery.messages.role import Role


class CanisterStruct(Struct, frozen=True, gc=False, eq=False, metaclass=CheckedMeta):
    """The fields that every canister has; ``held`` is its content, plain text as a bare string."""

    role: ClassVar[Role]
    public_class: ClassVar[type[CanisterStruct]]

    held: Any
    timestamp: datetime
    joined: bool = False
    residue: Residue | None = None
    _memo: dict[str, Any] | None = None

    def memo(self) -> dict[str, Any]:
        """The cache of derived values."""
        memo = self._memo
        if memo is None:
            memo = {}
            msgspec.structs.force_setattr(self, "_memo", memo)
        return memo

    def facts(self) -> tuple[Any, ...]:
        """Everything that makes two canisters equal."""
        return (self.timestamp, self.joined, self.residue)

    def fields(self) -> dict[str, Any]:
        """The constructor arguments that build an equal canister."""
        return {"timestamp": self.timestamp, "joined": self.joined, "residue": self.residue}

    def replace(self, **changes: Any) -> Any:
        """A new canister with some facts changed; a change of the content drops the residue."""
        if changes.keys() <= {"timestamp", "joined", "residue"}:
            return self._replace_surroundings(**changes)
        return self.public_class(**{**self.fields(), "residue": None, **changes})

    def _replace_surroundings(self, **changes: Any) -> Any:
        name = self.public_class.__name__.removesuffix("Class")
        given = {**CanisterStruct.fields(self), **changes}
        own = (getattr(self, field) for field in self.public_class.__struct_fields__[5:])
        return maker(self.public_class)(self.held, *_check_surroundings(name, **given), None, *own)

    __replace__ = replace

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CanisterStruct) or other.role is not self.role:
            return NotImplemented
        return self.facts() == other.facts()

    def __hash__(self) -> int:
        return hash((self.role, *self.facts()))

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
        own = (getattr(self, field) for field in self.public_class.__struct_fields__[5:])
        common = (self.held, self.timestamp, self.joined, self.residue, None)
        return rebuild, (self.public_class, *common, *own)


class ContentCanisterStruct(CanisterStruct, frozen=True, gc=False, eq=False):
    """A canister whose only purpose is its content."""

    @property
    def content(self) -> AnyContent:
        """The content."""
        held = self.held
        return new_text(held) if type(held) is str else held  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The text of textual content; "" for any other content."""
        return text_of(self.held)

    def facts(self) -> tuple[Any, ...]:
        """Everything that makes two canisters equal."""
        return (self.content, self.timestamp, self.joined, self.residue)

    def fields(self) -> dict[str, Any]:
        """The constructor arguments that build an equal canister."""
        return {"content": self.content, **CanisterStruct.fields(self)}


class UserCanisterClass(ContentCanisterStruct, frozen=True, gc=False, eq=False):
    """A user message."""

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
    """A message of the model; the content is absent if it only calls tools."""

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
    """Instructions that rank above the conversation.

    ``rank`` distinguishes system from developer in dialects that have both.
    """

    role = Role.Supervisor

    rank: Absential[str] = absent

    if TYPE_CHECKING:

        def __init__(
            self,
            content: Content,
            timestamp: Absential[datetime] = absent,
            *,
            rank: Absential[str] = absent,
            joined: bool = False,
            residue: Residue | None = None,
        ) -> None: ...

    @classmethod
    def _make(
        cls,
        content: Content,
        timestamp: Absential[datetime] = absent,
        *,
        rank: Absential[str] = absent,
        joined: bool = False,
        residue: Residue | None = None,
    ) -> SupervisorCanisterClass:
        if rank is not absent and rank not in ("system", "developer"):
            raise MessageError(
                "SupervisorCanister.rank", f"must be system or developer, got {rank!r}"
            )
        held = _check_content("SupervisorCanister.content", content)
        return _new(cls, held, timestamp, joined, residue, rank)  # type: ignore[no-any-return]

    def facts(self) -> tuple[Any, ...]:
        """Everything that makes two canisters equal."""
        return (self.content, self.timestamp, self.joined, self.residue, self.rank)

    def fields(self) -> dict[str, Any]:
        """The constructor arguments that build an equal canister."""
        return {**ContentCanisterStruct.fields(self), "rank": self.rank}


class DocumentCanisterClass(ContentCanisterStruct, frozen=True, gc=False, eq=False):
    """A reference document given for context."""

    role = Role.Document

    title: Absential[str] = absent

    if TYPE_CHECKING:

        def __init__(
            self,
            content: Content,
            timestamp: Absential[datetime] = absent,
            *,
            title: Absential[str] = absent,
            joined: bool = False,
            residue: Residue | None = None,
        ) -> None: ...

    @classmethod
    def _make(
        cls,
        content: Content,
        timestamp: Absential[datetime] = absent,
        *,
        title: Absential[str] = absent,
        joined: bool = False,
        residue: Residue | None = None,
    ) -> DocumentCanisterClass:
        if title is not absent:
            title = check_name("DocumentCanister.title", title)
        held = _check_content("DocumentCanister.content", content)
        return _new(cls, held, timestamp, joined, residue, title)  # type: ignore[no-any-return]

    def facts(self) -> tuple[Any, ...]:
        """Everything that makes two canisters equal."""
        return (self.content, self.timestamp, self.joined, self.residue, self.title)

    def fields(self) -> dict[str, Any]:
        """The constructor arguments that build an equal canister."""
        return {**ContentCanisterStruct.fields(self), "title": self.title}


class InvocationCanisterClass(CanisterStruct, frozen=True, gc=False, eq=False):
    """A tool call of the model; ``held`` is the exact argument text.

    ``is_freeform`` marks a custom tool whose input is text and not JSON.
    """

    role = Role.Invocation

    identifier: str = ""
    name: str = ""
    is_freeform: bool = False

    if TYPE_CHECKING:

        def __init__(
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
    def _make(
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
        identifier = check_name(f"{where}.identifier", identifier)
        name = check_name(f"{where}.name", name)
        freeform = check_flag(f"{where}.is_freeform", is_freeform)
        if isinstance(arguments, Mapping):
            held = write_json(freeze(arguments, f"{where}.arguments"), f"{where}.arguments")
        else:
            held = check_text(f"{where}.arguments", arguments)
        own = (identifier, name, freeform)
        return _new(cls, held, timestamp, joined, residue, *own)  # type: ignore[no-any-return]

    @property
    def arguments_text(self) -> str:
        """The exact argument text; it may be empty, not JSON, or not an object."""
        return self.held  # type: ignore[no-any-return]

    @property
    def arguments(self) -> Dictionary:
        """The arguments as a deeply immutable mapping; empty if the text is not a JSON object."""
        return read_object(self.held) or Dictionary()

    @property
    def is_object(self) -> bool:
        """Whether the argument text is a JSON object (the empty text stands for the empty object)."""
        return not self.is_freeform and read_object(self.held) is not None

    def facts(self) -> tuple[Any, ...]:
        """Everything that makes two canisters equal."""
        call = (self.identifier, self.name, self.held, self.is_freeform)
        return (call, self.timestamp, self.joined, self.residue)

    def fields(self) -> dict[str, Any]:
        """The constructor arguments that build an equal canister."""
        return {
            "identifier": self.identifier,
            "name": self.name,
            "arguments": self.held,
            "is_freeform": self.is_freeform,
            **CanisterStruct.fields(self),
        }


class ResultCanisterClass(CanisterStruct, frozen=True, gc=False, eq=False):
    """A tool result.

    ``_error`` is True if a wire has only a flag and the content describes the error.
    """

    role = Role.Result

    invocation_id: str = ""
    _error: Absential[str | bool] = absent

    if TYPE_CHECKING:

        def __init__(
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
    def _make(
        cls,
        invocation_id: str,
        content: Content,
        error: Absential[str | bool] = absent,
        timestamp: Absential[datetime] = absent,
        *,
        joined: bool = False,
        residue: Residue | None = None,
    ) -> ResultCanisterClass:
        invocation_id = check_name("ResultCanister.invocation_id", invocation_id)
        if error is False:
            error = absent
        if error is not absent and error is not True:
            error = check_name("ResultCanister.error", error)
        held = _check_content("ResultCanister.content", content)
        return _new(cls, held, timestamp, joined, residue, invocation_id, error)  # type: ignore[no-any-return]

    @property
    def content(self) -> AnyContent:
        """The content of the result."""
        held = self.held
        return new_text(held) if type(held) is str else held  # type: ignore[no-any-return]

    @property
    def text(self) -> str:
        """The text of textual content; "" for any other content."""
        return text_of(self.held)

    @property
    def error(self) -> Absential[str]:
        """The error, if the tool failed."""
        if self._error is True:
            return self.text or "error"
        return self._error  # type: ignore[return-value]

    @property
    def stated_error(self) -> Absential[str]:
        """The error in words of its own; absent if there is none, or only a flag."""
        return self._error if isinstance(self._error, str) else absent

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""
        return self._error is not absent

    def facts(self) -> tuple[Any, ...]:
        """Everything that makes two canisters equal."""
        answer = (self.invocation_id, self.content, self._error)
        return (answer, self.timestamp, self.joined, self.residue)

    def fields(self) -> dict[str, Any]:
        """The constructor arguments that build an equal canister."""
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

implement(Canister, *CANISTER_CLASSES.values())
implement(UserCanister, UserCanisterClass)
implement(AssistantCanister, AssistantCanisterClass)
implement(SupervisorCanister, SupervisorCanisterClass)
implement(DocumentCanister, DocumentCanisterClass)
implement(InvocationCanister, InvocationCanisterClass)
implement(ResultCanister, ResultCanisterClass)

# Unchecked constructors, fields by position: held, timestamp, joined, residue, memo, then the
# class's own.
new_user = maker(UserCanisterClass)
new_assistant = maker(AssistantCanisterClass)
new_supervisor = maker(SupervisorCanisterClass)
new_document = maker(DocumentCanisterClass)
new_invocation = maker(InvocationCanisterClass)
new_result = maker(ResultCanisterClass)


def is_canister(value: object) -> bool:
    """Whether a value is a canister of our classes."""
    return isinstance(value, CanisterStruct)


def text_of(held: Any) -> str:
    """The text of held content; "" for content that is not text."""
    if type(held) is str:
        return held
    return held.text if isinstance(held, TextualContentClass) else ""


def hold(content: AnyContent) -> Any:
    """A content as canisters hold it: plain text as a bare string."""
    if (
        type(content) is TextualContentClass
        and content.mime_type == PLAIN
        and not content.citations
        and content.is_hydrated
    ):
        return content.text
    return content


def _check_content(where: str, content: object) -> Any:
    if isinstance(content, str):
        raise MessageError(where, 'expected a content; wrap text: TextualContentClass(text="...")')
    if not is_content(content):
        hint = "; say absent for nothing" if content is None and "Assistant" in where else ""
        raise MessageError(where, f"expected a content, got {type(content).__name__}{hint}")
    return hold(content)  # type: ignore[arg-type]


def _new(cls: Any, held: Any, timestamp: Any, joined: Any, residue: Any, *own: Any) -> Any:
    name = cls.__name__.removesuffix("Class")
    return maker(cls)(held, *_check_surroundings(name, timestamp, joined, residue), None, *own)


def _check_surroundings(
    name: str, timestamp: Any, joined: Any, residue: Any
) -> tuple[datetime, bool, Residue | None]:
    when = now() if timestamp is absent else check_timestamp(f"{name}.timestamp", timestamp)
    if residue is not None:
        where = f"{name}.residue"
        check_facts(where, check_instance(where, residue, Residue))
    return when, check_flag(f"{name}.joined", joined), residue

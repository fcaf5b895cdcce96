"""Every exception that Cannery raises, divided by whose fault it is.

    CanneryError
    ├── InputError (ValueError)            the caller's input is refused
    │   ├── MessageError                   a value of the model cannot be built from it
    │   ├── RoleError                      a role string is not accepted
    │   ├── DialectError                   a wire body breaks its dialect
    │   │   └── WireRoleError (RoleError)  a message in it has a role that is not accepted
    │   ├── EmptyConversationError         a conversation has no message that can be sent
    │   ├── LossError                      the policy forbids a lossy translation
    │   ├── ProfileError                   a conversation's profile refuses the message
    │   └── ConfigurationError             a setting is missing or wrong
    ├── NotFoundError (LookupError)        no object has the given name
    │   ├── UnknownDialectError (ValueError)
    │   ├── ConversationNotFoundError
    │   └── ContentNotFoundError
    ├── StorageError                       the store cannot perform the operation
    │   ├── ConflictError                  something was added since the caller last read
    │   ├── DamageError                    stored bytes are not what was written
    │   ├── KeyUnavailableError            the key of an encrypted scope is missing, wrong or destroyed
    │   └── StoreUnavailableError          the medium refuses (full, read-only, gone)
    └── UpstreamError                      a provider failed or sent an invalid answer

Each has its facts as fields and a ``status_hint`` that an HTTP server may answer with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


class CanneryError(Exception):
    """The base of all exceptions that Cannery raises."""

    status_hint = 500

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle with all facts: worker processes pass errors on this way."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[CanneryError], said: tuple[Any, ...], facts: dict[str, Any]
) -> CanneryError:
    error = kind.__new__(kind, *said)
    error.__dict__.update(facts)
    return error


class InputError(CanneryError, ValueError):
    """The caller's input is refused."""

    status_hint = 400


class MessageError(InputError):
    """A value of the model cannot be built from the given input."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


class RoleError(InputError):
    """A role string is not accepted; the text names the accepted roles."""

    def __init__(
        self,
        text: str,
        *,
        received: object,
        path: str | None = None,
        suggestions: Sequence[str] = (),
    ) -> None:
        super().__init__(text)
        self.received = received
        self.path = path
        self.suggestions = tuple(suggestions)


class DialectError(InputError):
    """A wire body breaks the rules of its dialect."""

    def __init__(self, dialect: str, path: str, problem: str) -> None:
        super().__init__(f"{dialect}: {path}: {problem}")
        self.dialect = dialect
        self.path = path
        self.problem = problem


class WireRoleError(DialectError, RoleError):  # type: ignore[misc]  # a path is always known here
    """A message of a wire body has a role that is not accepted; the text is the role error's own."""

    def __init__(self, dialect: str, error: RoleError) -> None:
        Exception.__init__(self, str(error))
        self.dialect = dialect
        self.path = error.path or "role"
        self.problem = str(error).removeprefix(f"{self.path}: ")
        self.received = error.received
        self.suggestions = error.suggestions


class EmptyConversationError(InputError):
    """A conversation has no message that can be sent; ``losses`` name what was left out of it."""

    def __init__(self, target: str, losses: Sequence[Any] = ()) -> None:
        named = "; ".join(f"{loss.path}: {loss.detail}" for loss in losses[:3])
        more = f" and {len(losses) - 3} more" if len(losses) > 3 else ""
        omitted = f" (left out: {named}{more})" if named else ""
        super().__init__(
            f"{target}: the conversation is empty: no message has content that can be sent{omitted}; "
            "give it at least one message with text"
        )
        self.target = target
        self.losses = tuple(losses)


class LossError(InputError):
    """The policy forbids a translation that would lose this."""

    status_hint = 422

    def __init__(self, source: str | None, target: str, losses: Sequence[Any]) -> None:
        named = "; ".join(f"{loss.code} at {loss.path}" for loss in losses[:3])
        more = f" and {len(losses) - 3} more" if len(losses) > 3 else ""
        super().__init__(f"{target} cannot say all of this: {named}{more}")
        self.source = source
        self.target = target
        self.losses = tuple(losses)


class ProfileError(InputError):
    """A conversation's profile refuses the message; nothing was written."""

    def __init__(self, profile: str, problem: str) -> None:
        super().__init__(f"profile {profile!r}: {problem}")
        self.profile = profile
        self.problem = problem


class ConfigurationError(InputError):
    """A setting is missing or wrong; the text names it and the remedy."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


class NotFoundError(CanneryError, LookupError):
    """No object has the given name."""

    status_hint = 404

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class UnknownDialectError(NotFoundError, ValueError):
    """No dialect has this name."""

    status_hint = 400

    def __init__(self, name: str, known: Sequence[str], suggestion: str | None = None) -> None:
        hint = f" Did you mean {suggestion!r}?" if suggestion else ""
        super().__init__(f"unknown dialect {name!r}.{hint} Known: {', '.join(known)}")
        self.name = name
        self.known = tuple(known)
        self.suggestion = suggestion


class ConversationNotFoundError(NotFoundError):
    """No conversation has this identifier."""

    def __init__(self, identifier: str) -> None:
        super().__init__(f"no conversation {identifier!r}")
        self.identifier = identifier


class ContentNotFoundError(NotFoundError):
    """No content has this id, or it has not been loaded."""

    def __init__(self, content_id: str, problem: str = "is not in the content store") -> None:
        super().__init__(f"content {content_id} {problem}")
        self.content_id = content_id


class StorageError(CanneryError):
    """The store cannot perform the operation."""


class ConflictError(StorageError):
    """Something was added to the conversation since the caller last read it; ``position`` is its end, if known."""

    status_hint = 409

    def __init__(self, problem: str, position: int | None = None) -> None:
        super().__init__(problem)
        self.position = position


class DamageError(StorageError):
    """Stored bytes are not what was written; the text names the place."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


class KeyUnavailableError(StorageError):
    """The requested data is encrypted, and the key of its scope is missing, wrong or destroyed."""

    status_hint = 503

    def __init__(self, scope: str, problem: str, *, is_destroyed: bool = False) -> None:
        named = f"scope {scope!r}" if scope else "the scope without a name"
        super().__init__(f"{named}: {problem}")
        self.scope = scope
        self.problem = problem
        self.is_destroyed = is_destroyed


class StoreUnavailableError(StorageError):
    """The medium refuses: full, read-only, or gone."""

    status_hint = 503


class UpstreamError(CanneryError):
    """A provider failed or sent an invalid answer."""

    status_hint = 502

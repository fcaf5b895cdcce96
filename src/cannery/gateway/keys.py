"""The gateway's own keys, and the credentials of callers that may be forwarded.

A client may send several keys at once: one for the gateway and one for its provider. A gateway key is never forwarded:
``Keyring.admit`` records every such key in a call, and everything derived from the call for an upstream, a log or a
record omits them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct

from cannery.errors import ConfigurationError
from cannery.gateway.calls import Call
from cannery.gateway.identifiers import new_request_id
from cannery.gateway.refusals import refuse
from cannery.gateway.settings import Keys, NamedKey, key_headers
from cannery.gateway.signing import Claim, is_true, read_claim
from cannery.gateway.upstreams import Credential

_NAMED_LINE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*):\s+(?P<key>\S+)")
_DIGITS = 12
_MOST_QUOTED = 5
_URL_ALPHABET = str.maketrans("+/", "-_")
# Query parameters that a provider understands; others are not forwarded.
_FORWARDED_PARAMETER = re.compile(r"beta=[A-Za-z0-9_.,-]{1,64}")


class Key(Struct, frozen=True):
    """One key of the gateway; ``name`` is also the scope of its recordings."""

    name: str
    secret: bytes
    limits: NamedKey = NamedKey()

    @property
    def is_operator(self) -> bool:
        """Whether it gives access to the conversations of all keys."""
        return self.limits.operator


class Keyring:
    """The keys of the configuration."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self.keys = tuple(keys)

    def __bool__(self) -> bool:
        return bool(self.keys)

    @classmethod
    def of(cls, settings: Keys, environment: Mapping[str, str]) -> Keyring:
        """The keys in the settings; ConfigurationError if keys are required and there is none."""
        found = [("", environment.get(name, "")) for name in settings.variables]
        found += [
            (name, environment.get(named.variable, ""))
            for name, named in settings.named.items()
            if named.variable is not None
        ]
        found += _read_file(settings.file)
        pairs = [(name, key.strip()) for name, key in found if key.strip()]
        if not pairs and settings.are_asked_for:
            # Without any key every caller would be admitted, which is not what was configured.
            raise ConfigurationError("keys", "neither the variables nor the file hold a key")
        return cls(_key(name, key.encode(), settings) for name, key in pairs)

    def admit(self, call: Call) -> None:
        """Refuse a caller without one of the keys; every key is compared, in constant time."""
        shown = [credential.value.encode() for credential in shown_credentials(call)]
        opened: Key | None = None
        secrets: list[str] = []
        claim = read_claim(call.header("authorization"))
        if claim is not None:
            opened = self._signer(call, claim)
        for key in self.keys:
            for candidate in shown:
                if hmac.compare_digest(candidate, key.secret):
                    opened = opened or key
                    secrets.append(key.secret.decode())
        self._hide(call)
        if opened is None:
            message = "invalid API key" if shown else "an API key is required"
            if claim is not None:
                message = "the signature is not that of a key, or it is too old"
            challenge = [("www-authenticate", "Bearer")]
            raise refuse(401, message, code="invalid_api_key", headers=challenge)
        call.key = opened
        call.secrets = tuple(secrets)
        named = call.header("x-cannery-conversation")
        if named is not None and holds_secret(call, named):
            raise refuse(400, "a key cannot name a conversation", code="invalid_conversation")

    def _signer(self, call: Call, claim: Claim) -> Key | None:
        """The key of a signed call: its name is the access key id."""
        named = [key for key in self.keys if key.name == claim.name]
        return next((key for key in named if is_true(call, claim, key.secret)), None)

    def _hide(self, call: Call) -> None:
        """Replace a request id that contains a key: ids are logged and forwarded."""
        given = call.header("x-request-id")
        if given is not None and _holds([key.secret.decode() for key in self.keys], given):
            call.request_id = new_request_id()


def _key(name: str, secret: bytes, settings: Keys) -> Key:
    """A key; one without a name is named by its digest, which does not depend on where it is configured."""
    name = name or f"key-{hashlib.sha256(secret).hexdigest()[:_DIGITS]}"
    return Key(name, secret, settings.named.get(name, NamedKey()))


def _read_file(path: str | None) -> list[tuple[str, str]]:
    """Read the keys of a file with their names, one per line: ``KEY`` or ``name: KEY``."""
    if path is None:
        return []
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8-sig")
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror}"
        raise ConfigurationError("keys.file", problem) from None
    except UnicodeError as error:
        raise ConfigurationError("keys.file", f"{path} is not UTF-8: {error}") from None
    lines = [line.strip() for line in text.splitlines()]
    found = []
    for line in lines:
        if line.startswith("#"):
            continue
        named = _NAMED_LINE.fullmatch(line)
        found.append((named["name"], named["key"]) if named else ("", line))
    return found


def shown_credentials(call: Call) -> Iterator[Credential]:
    """Every key that a client sends, in any of the usual places."""
    bearer = call.header("authorization")
    if bearer and bearer[:7].lower() == "bearer ":
        yield Credential(str(bearer[7:]).strip(), "bearer")
    for name in key_headers()[1:]:
        found = call.header(name)
        if found:
            yield Credential(str(found).strip(), name)
    for pair in call.query.split("&") if "key=" in call.query else ():
        name, _, value = pair.partition("=")
        if name == "key":
            yield Credential(unquote(value), None)


def own_credential(call: Call) -> Credential | None:
    """The caller's own key for a provider, beside the gateway's keys."""
    for credential in shown_credentials(call):
        if not holds_secret(call, credential.value):
            return credential
    return None


def holds_secret(call: Call, text: str) -> bool:
    """Whether a text contains a gateway key that the call shows: plain, quoted as in URLs, or in base64."""
    return bool(call.secrets) and _holds(call.secrets, text)


def _holds(secrets: Sequence[str], text: str) -> bool:
    for _ in range(_MOST_QUOTED):
        if any(spelled in text for secret in secrets for spelled in _spellings(secret)):
            return True
        plain = unquote(text)
        if plain == text:
            return False
        text = plain
    # A text that is quoted many times is not examined further.
    return True


@lru_cache(maxsize=256)
def _spellings(secret: str) -> tuple[str, ...]:
    """A key, and its encodings in base64 at any offset, in both alphabets."""
    data = secret.encode()
    spelled = {secret: None}
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + data).decode()
        # The characters that depend only on the key.
        own = encoded[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]
        if len(own) >= len(secret):
            spelled |= {own: None, own.translate(_URL_ALPHABET): None}
    return (*spelled,)


def public_header(call: Call) -> Callable[[str], str | None]:
    """A filter for the headers that may be recorded: those without a gateway key."""
    if not call.secrets:
        return call.header

    def find(name: str) -> str | None:
        value = call.header(name)
        return None if value is None or holds_secret(call, value) else value

    return find


def forwarded_query(call: Call) -> str:
    """The part of a query that an upstream of the caller's dialect may see."""
    if not call.query:
        return ""
    return "&".join(
        pair
        for pair in call.query.split("&")
        if _FORWARDED_PARAMETER.fullmatch(pair) and not holds_secret(call, pair)
    )

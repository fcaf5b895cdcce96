"""The sources of scope keys: a file, or the output of a command. A setting never contains a key itself.

``file:PATH`` and ``command:WORDS`` may contain ``{scope}``. A scope's name can be any text, so it is percent-encoded:
it never leads to another folder, and never ends a word of the command. No shell reads the command.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from cannery.errors import ConfigurationError, KeyUnavailableError

SETTING = "encryption_key"
_HEX = re.compile(rb"[0-9a-fA-F]{64}")
_SCOPE = "{scope}"
# quote() never produces this, so no named scope is taken for the unnamed one.
_NAMELESS = "@default"
_LARGEST = 4096
_PATIENCE = 60
_TELLS = "say where it is: file:PATH or command:WORDS, with {scope} for the name of the scope"


class KeySource(Struct, frozen=True):
    """A file or a command that gives the key of a scope."""

    kind: str
    text: str

    @property
    def is_for_all(self) -> bool:
        """Whether every scope has the same key."""
        return _SCOPE not in self.text

    def place(self, scope: str) -> str:
        """The path, or the command, for a scope."""
        return self.text.replace(_SCOPE, spelled(scope))

    def read(self, scope: str) -> bytes:
        """Read the key of a scope; KeyUnavailableError gives the reason if it fails."""
        data = self._read_file(scope) if self.kind == "file" else self._run(scope)
        if _HEX.fullmatch(data.strip()) is None:
            problem = f"{self.place(scope)!r} does not give a key: 64 hex digits are expected"
            raise KeyUnavailableError(scope, problem)
        return bytes.fromhex(data.strip().decode())

    def _read_file(self, scope: str) -> bytes:
        path = Path(self.place(scope)).expanduser()
        try:
            with path.open("rb") as file:
                return file.read(_LARGEST)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise KeyUnavailableError(scope, f"its key {path} cannot be read: {reason}") from None

    def _run(self, scope: str) -> bytes:
        words = [word.replace(_SCOPE, spelled(scope)) for word in shlex.split(self.text)]
        try:
            done = subprocess.run(  # noqa: S603 - the command is the operator's own setting
                words,
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
                timeout=_PATIENCE,
            )
        except (OSError, subprocess.SubprocessError) as error:
            problem = f"the command {words[0]!r} that gives its key cannot be run: {error}"
            raise KeyUnavailableError(scope, problem) from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            problem = f"the command {words[0]!r} that gives its key ended with {done.returncode}"
            raise KeyUnavailableError(scope, f"{problem}: {said[0]}" if said else problem)
        return done.stdout[:_LARGEST]

    def create(self, scope: str) -> str:
        """Create a new key file; returns its path. An existing file is never replaced."""
        if self.kind != "file":
            problem = "keys that a command gives are made by their keeper"
            raise ConfigurationError(f"command:{self.text}", problem)
        path = Path(self.place(scope)).expanduser()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ConfigurationError(str(path), f"the key cannot be made: {reason}") from None
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        return str(path)


def spelled(scope: str) -> str:
    """A scope's name as part of a path or a command."""
    if not scope:
        return _NAMELESS
    found = quote(scope, safe="")
    return found.replace(".", "%2E") if found.strip(".") == "" else found


def parse_source(setting: str) -> KeySource:
    """The source in a setting."""
    kind, colon, text = setting.partition(":")
    if _HEX.search(setting.encode(errors="replace")) and not colon:
        raise ConfigurationError(SETTING, f"a key never stands in a setting; {_TELLS}")
    if kind not in ("file", "command") or not text.strip():
        raise ConfigurationError(SETTING, f"{kind + colon!r} is no source of a key; {_TELLS}")
    if kind == "command":
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise ConfigurationError(SETTING, f"the command cannot be read: {error}") from None
        if not words:
            raise ConfigurationError(SETTING, f"the command is empty; {_TELLS}")
    return KeySource(kind, text)

"""Encryption at rest, around any backend: what reaches it is ciphertext, and each scope has a key of its own.

``docs/encryption.md`` is the specification. ``sources`` reads keys that a person keeps in files or behind a command,
``keyring`` has the data key of each scope, which lies wrapped in the store, ``ciphers`` encrypts lines, metadata and
names, ``contents`` encrypts content, ``catalogue`` asks with keyed names and searches by decrypting, ``backend`` puts
them before a backend.

The backend below needs no key: it can list, recognise, collect garbage, copy and rebuild what is derived, because all
that it has to know of a line stands beside the ciphertext, as keyed digests.
"""

from __future__ import annotations

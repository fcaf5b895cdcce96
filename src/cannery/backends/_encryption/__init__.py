"""Encryption at rest, around any backend: the backend stores ciphertext, and each scope has its own key.

``docs/encryption.md`` is the specification. ``sources`` reads keys from files or commands, ``keyring`` has the data key
of each scope, which is stored wrapped, ``ciphers`` encrypts lines, metadata and names, ``contents`` encrypts content,
``catalogue`` queries with keyed names and searches by decrypting, ``backend`` combines them in front of a backend.

The inner backend needs no key: it can list, recognise, collect garbage, copy and rebuild derived data, because every
fact that it needs of a line is stored beside the ciphertext, as keyed digests.
"""

from __future__ import annotations

"""Large content in S3: one object per piece, each written once and never changed.

An object gets a new name each time content is stored, which is recorded in the database before the object exists. So a
freed object is never one that another gateway has just stored, a repeated put finds its own object, and gc knows
everything that a crash leaves behind.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cannery.errors import ConfigurationError, DamageError, StoreUnavailableError

if TYPE_CHECKING:
    from obstore.store import S3Store

LARGE = 64 << 10
"""From this size on content goes to S3, if configured."""


class Objects:
    """A folder of a bucket."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._store = _open(url)

    def new_name(self) -> str:
        """The name of content that is about to be stored."""
        return uuid.uuid4().hex

    def put(self, name: str, piece: int, data: bytes) -> None:
        """Store a piece that is not there yet."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        # A second attempt, after a lost answer, finds the object of the first.
        with self._translated(), contextlib.suppress(AlreadyExistsError):
            obstore.put(self._store, _path(name, piece), data, mode="create")

    def get(self, name: str, piece: int) -> bytes:
        """The bytes of a piece; DamageError if it is gone."""
        import obstore

        with self._translated():
            try:
                return bytes(obstore.get(self._store, _path(name, piece)).bytes())
            except FileNotFoundError:
                where = f"{self.url}/{_path(name, piece)}"
                raise DamageError(where, "the object is missing") from None

    def delete(self, name: str, pieces: int) -> None:
        """Delete content; missing objects are not an error."""
        import obstore

        with self._translated():
            for piece in range(pieces):
                with contextlib.suppress(FileNotFoundError):
                    obstore.delete(self._store, _path(name, piece))

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise StoreUnavailableError(f"{self.url}: {reason}") from error


def _path(name: str, piece: int) -> str:
    return f"{name[:2]}/{name}/{piece:06}"


def _open(url: str) -> S3Store:
    if not url.startswith("s3://"):
        raise ConfigurationError(url, "content=s3://BUCKET/PREFIX is where large content can go")
    try:
        from obstore.store import S3Store
    except ImportError:
        raise ConfigurationError(
            url, "content in S3 needs an extra: pip install 'cannery[s3]'"
        ) from None
    try:
        return S3Store.from_url(url)
    except Exception as error:  # noqa: BLE001 - the library has no error of its own for a wrong setting
        reason = str(error).strip().partition("\n")[0]
        raise ConfigurationError(url, reason) from None

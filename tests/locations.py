"""Where stores of tests lie; a test is skipped with a sentence where a server cannot be started."""

from typing import NamedTuple

import pytest

from tests import servers


class Encrypted(NamedTuple):
    """A store, and where its keys are."""

    place: str
    key: str


def key_in(folder):
    """A key for all scopes in a folder, as a setting names it."""
    path = folder / "test.key"
    if not path.exists():
        path.write_text("0123456789abcdef" * 4 + "\n", "ascii")
    return f"file:{path}"


def new_database(*, with_bucket=False):
    """The URL of a new database, with a prefix of its own in a bucket for large content."""
    try:
        url = servers.postgres().url()
        return f"{url}&content={servers.s3().url()}" if with_bucket else url
    except servers.UnavailableError as error:
        pytest.skip(str(error))

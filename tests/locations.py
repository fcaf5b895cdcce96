"""Where stores of tests lie; a test is skipped with a sentence where a server cannot be started."""

import pytest

from tests import servers


def new_database(*, with_bucket=False):
    """The URL of a new database, with a prefix of its own in a bucket for large content."""
    try:
        url = servers.postgres().url()
        return f"{url}&content={servers.s3().url()}" if with_bucket else url
    except servers.UnavailableError as error:
        pytest.skip(str(error))

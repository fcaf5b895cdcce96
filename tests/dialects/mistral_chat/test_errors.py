"""Errors of Mistral are told in the words of each dialect, and those of others in Mistral's."""

from __future__ import annotations

import json

import pytest

from cannery.dialects import find_dialect
from cannery.wire.contract import WireError

MISTRAL = find_dialect("mistral_chat")
BODY = {"object": "error", "message": "told", "param": None, "code": "1300"}


@pytest.mark.parametrize(
    "status, word, kind",
    [
        (429, "rate_limited", "rate_limit_error"),
        (500, "internal_server_error", "api_error"),
        (400, "invalid_request_error", "invalid_request_error"),
    ],
)
def test_the_kind_of_an_error_is_told_in_words_that_every_dialect_knows(
    status: int, word: str, kind: str
):
    error = MISTRAL.read_error(status, json.dumps({**BODY, "type": word}).encode())
    assert (error.kind, error.message, error.code) == (kind, "told", "1300")
    assert json.loads(MISTRAL.write_error(error))["type"] == word


@pytest.mark.parametrize(
    "status, word",
    [(401, "authentication_error"), (429, "rate_limited"), (500, "internal_server_error")],
)
def test_an_error_without_a_kind_is_not_called_an_invalid_request(status: int, word: str):
    assert json.loads(MISTRAL.write_error(WireError(status, "told")))["type"] == word

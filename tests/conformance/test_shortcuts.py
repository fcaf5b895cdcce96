"""The shortcuts for common shapes give what the general way gives."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cannery
from tests.conformance.matrix import DIALECTS, PAIRS, identify
from tests.oracles.corpus import Case, request_cases

MATRIX = [
    (case, target) for source in DIALECTS for target in DIALECTS for case in request_cases(source)
]
TEXT = st.text(max_size=12) | st.sampled_from(
    ["", " ", "\u00a0", "\n", "hello", '"quoted"', "é\u2028"]
)
MORE = (cannery.user("One more."), cannery.assistant("Yes."), cannery.user("And one."))
ROLES = st.sampled_from(["system", "developer", "user", "assistant"])


@pytest.mark.parametrize("case, target", MATRIX, ids=identify)
def test_cases(case: Case, target: str, general):
    fast = cannery.translate(case.raw, source=case.dialect, target=target)
    slow = general(case.raw, case.dialect, target)
    assert json.loads(fast.body) == json.loads(slow.body)
    assert fast.losses == slow.losses
    assert fast.repairs == slow.repairs


@pytest.mark.parametrize("target", DIALECTS)
def test_plain_chats(target: str, general):
    @settings(max_examples=200)
    @given(turns=st.lists(st.tuples(ROLES, TEXT), max_size=6), extra=st.booleans())
    def run(turns: list[tuple[str, str]], extra: bool):
        body = {
            "model": "m",
            "messages": [{"role": role, "content": text} for role, text in turns],
            **({"max_tokens": 5, "temperature": 1.5} if extra else {"max_tokens": 7}),
        }
        raw = json.dumps(body).encode()
        fast = cannery.translate(raw, source="openai_chat", target=target)
        slow = general(raw, "openai_chat", target)
        assert json.loads(fast.body) == json.loads(slow.body)
        assert fast.losses == slow.losses
        assert fast.repairs == slow.repairs

    run()


def test_every_pair_is_covered():
    assert len(PAIRS) == len(DIALECTS) * (len(DIALECTS) - 1)


@pytest.mark.parametrize("case, target", MATRIX, ids=identify)
def test_kept_turns_are_used_only_where_they_belong(case: Case, target: str):
    def grown(count: int):
        request = cannery.normalize_request(case.raw, case.dialect)
        return request.replace(conversation=(*request.conversation, *MORE[:count]))

    request = grown(0)
    for count in range(len(MORE) + 1):
        longer = request.conversation.append(*MORE[:count])
        again = cannery.nativize_request(request.replace(conversation=longer), target)
        assert json.loads(again.body) == json.loads(
            cannery.nativize_request(grown(count), target).body
        )

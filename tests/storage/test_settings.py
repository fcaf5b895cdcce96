"""Tools and settings that are kept with a turn: the same dialect gets the same body from them."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery.errors import DamageError
from cannery.messages import absent
from cannery.storage import Turn, open_store
from cannery.storage.instructions import tools_at, version_at
from cannery.storage.settings import decode_tools, encode_settings, encode_tools, with_settings
from tests.conformance.matrix import DIALECTS, assert_same_json, identify
from tests.oracles.corpus import Case, request_cases
from tests.strategies.bodies import requests

REQUESTS = [case for name in DIALECTS for case in request_cases(name)]


def rebuilt(request):
    """A request made of what is kept of it."""
    model = None if request.model is absent else request.model
    kept = with_settings(request.conversation, model, encode_settings(request))
    return kept.replace(tools=decode_tools(encode_tools(request.tools)))


@pytest.mark.parametrize("case", REQUESTS, ids=identify)
def test_a_request_is_made_again_of_what_is_kept(case: Case):
    request = cannery.normalize_request(case.raw, case.dialect)
    again = cannery.nativize_request(rebuilt(request), case.dialect)
    if request.residue is None or request.residue.escapes is None:
        assert_same_json(again.body, case.raw)
    assert not again.repairs


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_any_request_is_made_again_of_what_is_kept(dialect: str, data: st.DataObject):
    value = data.draw(requests(dialect))
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    request = cannery.normalize_request(body, dialect)
    if request.residue is not None and request.residue.escapes is not None:
        return
    assert_same_json(cannery.nativize_request(rebuilt(request), dialect).body, body)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"controls":{"nonsense":1}}', b'{"controls":3}'])
def test_settings_that_cannot_be_read_are_damage(data):
    with pytest.raises(DamageError, match="settings"):
        with_settings(cannery.Conversation(), None, data)


def test_each_version_is_kept_where_it_began(tmp_path):
    """Settings are kept when they change, and a fork goes on from those at its own place."""
    said = [cannery.user("1"), cannery.assistant("one")]
    with open_store(tmp_path / "store") as store:

        def turn(temperature):
            settings = msgspec.json.encode({"controls": {"temperature": temperature}})
            return Turn(settings=settings)

        first = store.file(said, turn=turn(0.5)).conversation
        said += [cannery.user("2"), cannery.assistant("two")]
        store.file(said, turn=turn(0.5))
        said += [cannery.user("3"), cannery.assistant("three")]
        store.file(said, turn=turn(1.0))
        versions = first.instructions()
        assert [version.position for version in versions] == [0, 4]
        assert b"0.5" in (version_at(versions, 4).settings or b"")
        assert b"1.0" in (version_at(versions, 5).settings or b"")
        # Settings of the fork are those of the end of its parent, and not those at the place where it leaves.
        other = [*said[:2], cannery.user("other"), cannery.assistant("so")]
        fork = store.file(other, turn=turn(1.0))
        assert fork.is_fork
        assert [version.position for version in fork.conversation.instructions()] == [0, 2]
        same = store.file([*said[:2], cannery.user("same")], turn=turn(0.5))
        assert [version.position for version in same.conversation.instructions()] == [0]
        assert tools_at(store, first.identifier, 6) == ()

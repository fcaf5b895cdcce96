"""What the viewer answers: pages, their JSON twins, media, windows, and errors that say what to do."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

import cannery
from cannery.messages import (
    AudioContentClass,
    FileContentClass,
    ImageContentClass,
    UserCanisterClass,
)
from cannery.storage.exchanges import ExchangeRecord, append_records
from cannery.storage.metadata import new_metadata
from cannery.viewer.answers import Asked
from cannery.viewer.branches import partings
from cannery.viewer.paging import choose, pieces
from cannery.viewer.site import Site

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 60
WAVE = b"RIFF\x24\x00\x00\x00WAVEfmt " + b"\x00" * 20


class Shown:
    """A store with a site in front of it."""

    def __init__(self, store) -> None:
        self.store = store
        self.site = Site()

    def get(self, path, query=None, **facts):
        answer = self.site.answer(Asked(self.store, path, query or {}, **facts))
        body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        return answer.status, dict(answer.headers), body

    def text(self, path, **query):
        status, _, body = self.get(path, query)
        assert status == 200, body
        return body.decode()

    def json(self, path, **query):
        status, headers, body = self.get(path, query)
        assert status == 200, body
        assert headers["content-type"].startswith("application/json")
        return json.loads(body)


@pytest.fixture
def shown():
    with cannery.open_store("sqlite::memory:") as store:
        yield Shown(store)


@pytest.fixture
def chat(shown):
    conversation = shown.store.create(title="Lisbon", tags=["travel"], model="gpt-5")
    conversation.append(
        cannery.supervisor("Be brief."),
        cannery.user("Where shall we go in Lisbon?"),
        cannery.assistant("To Alfama."),
        cannery.user("And to eat?"),
        cannery.assistant("Sardines."),
    )
    return conversation


def test_list_shows_filters_pages_and_counts(shown, chat):
    for number in range(60):
        shown.store.create(title=f"Chat {number}", canisters=[cannery.user("x")])
    page = shown.text("")
    assert page.count('class="row"') == 50
    assert "Older conversations" in page
    values = shown.json(".json")
    following = shown.json(".json", after=values["after"])
    titles = [row["title"] for row in values["conversations"] + following["conversations"]]
    assert len(titles) == len(set(titles)) == 61
    only = shown.json(".json", tag="travel", model="gpt-5", role="supervisor")["conversations"]
    assert [row["title"] for row in only] == ["Lisbon"]
    assert only[0]["messages"] == 5


def test_a_tag_is_shown_once_in_a_row(shown, chat):
    assert shown.text("").count('class="tag"') == 1


def test_search_leads_to_the_message_and_marks_the_words(shown, chat):
    page = shown.text("", q="sardines")
    assert "<mark>Sardines</mark>" in page
    assert f"/ui/c/{chat.identifier}?at=4#m4" in page
    assert shown.json(".json", q="sardines")["hits"][0]["position"] == 4
    assert "No message contains" in shown.text("", q="submarine")


def test_dates_filter_and_wrong_ones_are_explained(shown, chat):
    assert shown.json(".json", since="2020-01-01")["conversations"]
    assert not shown.json(".json", until="2020-01-01")["conversations"]
    status, _, body = shown.get("", {"since": "yesterday"})
    assert status == 400
    assert b"write it as 2026-11-18" in body


def test_conversation_has_outline_permalinks_and_copies(shown, chat):
    page = shown.text(f"/c/{chat.identifier}")
    assert '<a href="#m1">Where shall we go in Lisbon?</a>' in page
    assert f'href="/ui/c/{chat.identifier}?at=3#m3"' in page
    for form in ("txt", "md", "json"):
        assert f"/ui/c/{chat.identifier}/all.{form}" in page
    before = shown.json(f"/c/{chat.identifier}.json")["messages"][3]
    chat.append(cannery.user("More?"), cannery.assistant("No."))
    assert shown.json(f"/c/{chat.identifier}.json")["messages"][3] == before
    assert shown.get(f"/c/{chat.identifier}/m/3.txt")[2] == b"And to eat?"
    assert shown.get(f"/c/{chat.identifier}/m/3.md")[2].startswith(b"## user")
    assert shown.json(f"/c/{chat.identifier}/m/3.json")["role"] == "user"


def test_picker_stands_where_branches_part_on_every_branch(shown, chat):
    first = chat.fork(at=3)
    first.append(cannery.user("And to drink?"), cannery.assistant("Ginjinha."))
    second = chat.fork(at=3)
    second.append(cannery.user("And to see?"), cannery.assistant("Tiles."))
    deeper = first.fork(at=4)
    deeper.append(cannery.assistant("Port."))
    # Forks of the same moment come in the order of their ids.
    names = [chat.identifier, *sorted([first.identifier, second.identifier])]
    for at, name in enumerate(names):
        page = shown.text(f"/c/{name}")
        assert f"branch {at + 1} / 3" in page
        assert page.index('id="b3"') < page.index('id="m3"')
    found = partings(shown.store, shown.store.tree(deeper.identifier), deeper.identifier)
    assert {position: parting.current for position, parting in found.items()} == {
        3: names.index(first.identifier),
        4: 1,
    }
    assert shown.json(f"/c/{chat.identifier}.json")["branches"] == {"3": names}
    tree = shown.json(f"/c/{second.identifier}/tree.json")["branches"]
    assert {branch["id"] for branch in tree} == {*names, deeper.identifier}
    assert "<svg" in shown.text(f"/c/{second.identifier}/tree")


def test_deleted_parent_is_no_choice_and_its_fork_is_still_shown(shown, chat):
    fork = chat.fork(at=3)
    fork.append(cannery.user("Otherwise?"))
    shown.store.delete(chat.identifier)
    page = shown.text(f"/c/{fork.identifier}")
    assert "Where shall we go" in page
    assert 'class="parting"' not in page
    assert shown.get(f"/c/{chat.identifier}")[0] == 404


def test_compare_aligns_by_digest_and_marks_words(shown, chat):
    other = chat.edit(3, cannery.user("And to drink?"))
    other.append(cannery.assistant("Sardines."))
    page = shown.text("/compare", a=chat.identifier, b=other.identifier)
    assert "<del>eat</del>" in page
    assert "<ins>drink</ins>" in page
    runs = shown.json("/compare.json", a=chat.identifier, b=other.identifier)["runs"]
    assert runs == [
        {"same": True, "a": [0, 3], "b": [0, 3]},
        {"same": False, "rows": [[3, 3]]},
        {"same": True, "a": [4, 5], "b": [4, 5]},
    ]
    assert shown.get("/compare", {"a": chat.identifier})[0] == 400


def test_losses_and_repairs_stand_at_their_message_and_in_the_body(shown):
    conversation = shown.store.create(model="claude-sonnet-4-5")
    conversation.append(
        cannery.user("Look it up"),
        cannery.invocation("a", "look up!", {"q": "x"}),
        cannery.user("Never mind"),
        cannery.assistant("Fine."),
    )
    values = shown.json(f"/c/{conversation.identifier}/as.json", to="anthropic")
    notes = {(note["code"], note["message"], note["body_path"]) for note in values["notes"]}
    assert any(code == "unanswered_calls" and message == 1 for code, message, _ in notes)
    page = shown.text(f"/c/{conversation.identifier}/as", to="anthropic")
    marked = page.index('id="c1"')
    assert "unanswered_calls" in page[marked : page.index('id="c2"')]
    body = page[page.index('id="pane-right"') :]
    assert "unanswered_calls" in body
    assert (
        json.loads(shown.get(f"/c/{conversation.identifier}/body.json", {"to": "anthropic"})[2])
        == values["body"]
    )
    doctor = shown.json(f"/c/{conversation.identifier}/doctor.json")
    assert {provider["dialect"] for provider in doctor["providers"]} >= {
        "openai_chat",
        "anthropic_messages",
    }


def test_a_plain_chat_has_no_marks(shown, chat):
    """An API that takes one question only breaks every conversation, and is told on the page of the doctor alone."""
    assert "doctor-note" not in shown.text(f"/c/{chat.identifier}")
    assert "TURN_DROPPED" in shown.text(f"/c/{chat.identifier}/doctor")


def test_lost_message_is_marked_where_it_would_have_stood(shown):
    conversation = shown.store.create()
    conversation.append(
        cannery.user("Hi"),
        UserCanisterClass(AudioContentClass(WAVE, "audio/wav")),
        cannery.assistant("What?"),
    )
    values = shown.json(f"/c/{conversation.identifier}/as.json", to="anthropic")
    (lost,) = [note for note in values["notes"] if note["kind"] == "loss"]
    assert (lost["message"], lost["body_path"]) == (1, None)
    page = shown.text(f"/c/{conversation.identifier}/as", to="anthropic")
    assert "not in the body" in page
    assert page.count(lost["code"]) == 2


def test_curl_holds_the_body_and_no_key(shown, chat):
    text = shown.get(f"/c/{chat.identifier}/curl.txt", {"to": "openai_chat"})[2].decode()
    assert text.startswith("curl ")
    assert "/v1/chat/completions" in text
    assert "Bearer $" in text
    assert "Where shall we go in Lisbon?" in text


def test_media_are_served_by_digest_as_what_they_are(shown):
    conversation = shown.store.create()
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
    conversation.append(
        UserCanisterClass(ImageContentClass(PNG, "image/png")),
        UserCanisterClass(ImageContentClass(svg, "image/png")),
        UserCanisterClass(AudioContentClass(WAVE, "audio/wav")),
        UserCanisterClass(FileContentClass(b"%PDF-1.7 x", "application/pdf", name="a.pdf")),
    )
    addresses = [
        f"/c/{conversation.identifier}/content/{canister.content.content_id.removeprefix('sha256:')}"
        for canister in conversation.load()
    ]
    told = [shown.get(address)[1] for address in addresses]
    assert [headers["content-type"] for headers in told] == [
        "image/png",
        "application/octet-stream",
        "audio/wav",
        "application/octet-stream",
    ]
    assert "attachment" in told[1]["content-disposition"]
    assert "attachment" in told[3]["content-disposition"]
    assert all("sandbox" in headers["content-security-policy"] for headers in told)
    assert shown.get(addresses[0], headers={"if-none-match": told[0]["etag"]})[0] == 304
    status, headers, body = shown.get(addresses[2], headers={"range": "bytes=8-11"})
    assert (status, body, headers["content-range"]) == (206, b"WAVE", f"bytes 8-11/{len(WAVE)}")
    assert shown.get(addresses[2], headers={"range": "bytes=999-"})[0] == 416
    assert shown.get(f"/c/{conversation.identifier}/content/{'0' * 64}")[0] == 404
    assert shown.get(f"/c/{conversation.identifier}/content/..%2f..")[0] == 404


def test_content_of_another_scope_is_not_found(shown):
    alice, bob = shown.store.within("alice"), shown.store.within("bob")
    secret = alice.create(canisters=[UserCanisterClass(ImageContentClass(PNG, "image/png"))])
    own = bob.create(canisters=[cannery.user("mine")])
    name = secret.load()[0].content.content_id.removeprefix("sha256:")
    as_bob = Shown(bob)
    assert as_bob.get(f"/c/{secret.identifier}")[0] == 404
    assert as_bob.get(f"/c/{secret.identifier}/content/{name}")[0] == 404
    assert as_bob.get(f"/c/{own.identifier}/content/{name}")[0] == 404
    assert as_bob.get("/compare", {"a": secret.identifier, "b": own.identifier})[0] == 404
    assert [row["id"] for row in as_bob.json(".json")["conversations"]] == [own.identifier]


def test_deleting_needs_a_post_with_the_token_of_the_page(shown, chat):
    path = f"/c/{chat.identifier}/delete"
    page = shown.get(f"/c/{chat.identifier}", is_read_only=False)[2].decode()
    token = page.partition('name="token" value="')[2].partition('"')[0]
    assert len(token) == 64
    for method, form, read_only, status in (
        ("GET", {"token": token}, False, 404),
        ("POST", {}, False, 403),
        ("POST", {"token": "0" * 64}, False, 403),
        ("POST", {"token": token}, True, 405),
    ):
        answer = shown.get(path, method=method, form=form, is_read_only=read_only)
        assert answer[0] == status
        assert shown.store.get(chat.identifier)
    assert (
        shown.get(path, method="POST", form={"token": token}, caller="mallory", is_read_only=False)[
            0
        ]
        == 403
    )
    assert shown.get(path, method="POST", form={"token": token}, is_read_only=False)[0] == 303
    assert shown.get(f"/c/{chat.identifier}")[0] == 404
    assert 'name="token"' not in shown.text("")


def test_long_conversations_are_windowed_and_pieces_do_not_part_calls(shown):
    conversation = shown.store.create()
    canisters = []
    for number in range(2_100):
        canisters += [
            cannery.invocation(f"c{number}", "run", {"n": number}),
            cannery.result(f"c{number}", f"out {number}"),
            cannery.assistant(f"said {number}"),
        ]
    conversation.append(canisters)
    assert choose(5_000, None).is_all
    page = shown.text(f"/c/{conversation.identifier}")
    assert 'id="m6299"' in page
    assert 'id="m100"' not in page
    assert "earlier messages" in page
    around = shown.text(f"/c/{conversation.identifier}", at="3000")
    assert 'id="m3000"' in around
    assert "later messages" in around
    part = shown.text(f"/c/{conversation.identifier}", part="messages", start="10", stop="210")
    assert "<html" not in part
    assert "No result" not in part
    found = [
        each.position for some, _ in pieces(conversation, choose(6_300, 3_000)) for each in some
    ]
    assert found == list(range(2_900, 3_300))


def test_a_page_is_made_while_it_is_sent(shown):
    conversation = shown.store.create(
        canisters=[cannery.user(f"message {n}") for n in range(1_000)]
    )
    answer = shown.site.answer(Asked(shown.store, f"/c/{conversation.identifier}"))
    assert not isinstance(answer.body, bytes)
    sizes = [len(piece) for piece in answer.body if piece]
    assert len(sizes) > 5
    assert max(sizes) < sum(sizes) / 3


def child(shown, parent, kind, began_at, title):
    made = new_metadata(title=title, parent=parent.identifier)
    metadata = replace(made, kind=kind, began_at=began_at, client="claude-code")
    return shown.store.add(
        metadata, {}, [cannery.user(f"Do the part of {kind}"), cannery.assistant("Done.")]
    )


def test_children_stand_where_they_began_and_are_no_branches(shown, chat):
    agent = child(shown, chat, "subagent", 3, "Look it up")
    side = child(shown, chat, "title", None, "")
    child(shown, chat, "compaction", 5, "Go on")
    page = shown.text(f"/c/{chat.identifier}")
    assert page.index('id="m2"') < page.index("Look it up") < page.index('id="m3"')
    assert page.index('id="m4"') < page.index("Compacted")
    assert "Side request (title)" in page
    assert "1 sub-agent" in page
    assert 'class="parting"' not in page
    kinds = [each["kind"] for each in shown.json(f"/c/{chat.identifier}.json")["children"]]
    assert sorted(kinds) == ["compaction", "subagent", "title"]
    assert f"/ui/c/{chat.identifier}?at=3#m3" in shown.text(f"/c/{agent.identifier}")
    rows = shown.json(".json")["conversations"]
    assert side.identifier not in [row["id"] for row in rows]
    assert all(row["branches"] == 1 for row in rows if not row["kind"])
    found = shown.json(".json", client="claude-code")["conversations"]
    assert {row["kind"] for row in found} == {"subagent", "compaction"}
    assert "no branches" in shown.text(f"/c/{chat.identifier}/tree")


def test_tokens_and_cost_are_summed_up(shown, chat):
    append_records(
        shown.store,
        [
            record(chat.identifier, 3, input_tokens=100, output_tokens=10, cost=0.5),
            record(chat.identifier, 5, input_tokens=200, cost=1.0),
        ],
    )
    body = shown.text(f"/c/{chat.identifier}")
    assert "310 tokens" in body
    assert "$1.50" in body
    listed = shown.json(".json")["conversations"]
    assert (listed[0]["tokens"], listed[0]["cost"]) == (310, 1.5)


def test_a_fork_shows_the_facts_of_what_it_shares_and_counts_its_own(shown, chat):
    fork = chat.fork(3)
    fork.append(cannery.user("otherwise"))
    append_records(
        shown.store,
        [
            record(chat.identifier, 3, cost=0.5),
            record(chat.identifier, 5, cost=1.0),
            record(fork.identifier, 4, cost=0.25),
        ],
    )
    told = shown.json(f"/c/{fork.identifier}.json")
    assert [each["cost"] for each in told["exchanges"]] == [0.5, 0.25]
    assert told["cost"] == 0.25


def record(conversation, position, **more):
    facts = {"outcome": "complete", "dialect": "openai_chat", "upstream": "echo", **more}
    return ExchangeRecord(
        time="2026-11-18T00:00:00.000Z",
        request_id="r",
        conversation=conversation,
        position=position,
        **facts,
    )


def test_empty_pages_say_what_to_do(shown):
    assert "No conversations yet" in shown.text("")
    assert "cannery import" in shown.text("")
    assert "No conversation fits" in shown.text("", tag="nothing")
    empty = shown.store.create(title="Empty")
    assert "No messages yet" in shown.text(f"/c/{empty.identifier}")
    assert "no branches" in shown.text(f"/c/{empty.identifier}/tree")


@pytest.mark.parametrize(
    "path,query,status",
    [
        ("/c/nosuch", {}, 404),
        ("/c/nosuch.json", {}, 404),
        ("/c/UPPER", {}, 400),
        ("/nothing", {}, 404),
        ("/c/{id}/m/999", {}, 404),
        ("/c/{id}/m/x", {}, 400),
        ("/c/{id}/as", {"to": "klingon"}, 400),
        ("/c/{id}", {"at": "x"}, 400),
        ("/c/{id}/nothing", {}, 404),
        ("/assets/secret.txt", {}, 404),
    ],
)
def test_wrong_addresses_get_a_page_or_json(shown, chat, path, query, status):
    path = path.replace("{id}", chat.identifier)
    found, headers, body = shown.get(path, query)
    assert found == status, body
    assert ("json" in headers["content-type"]) == path.endswith(".json")
    assert b"Traceback" not in body

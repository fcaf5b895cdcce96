"""The verbs that read and change conversations."""

import json
import re
from html import unescape

import pytest

import cannery
from cannery.storage import open_store


def test_list_in_a_pipe_is_one_conversation_a_line(run, store, names):
    ran = run("list", "--store", store)
    rows = [line.split("\t") for line in ran.out.splitlines()]

    assert {row[0] for row in rows} == set(names.values())
    assert {row[5] for row in rows} == {"Bread", "No title here"}


@pytest.mark.parametrize(
    "words, found",
    [
        (["--tag", "food"], ["bread", "fork"]),
        (["--model", "gpt-5"], ["bread", "fork"]),
        (["--role", "invocation"], ["bread"]),
        (["--profile", "archive"], ["bread", "fork", "other"]),
        (["--profile", "chat"], []),
        (["--since", "1h"], ["bread", "fork", "other"]),
        (["--until", "2001-01-01"], []),
        (["--limit", "1"], ["other"]),
    ],
)
def test_list_filters(run, store, names, words, found):
    told = run("list", "--store", store, "--json", *words).json

    assert {each["id"] for each in told} == {names[name] for name in found}


def test_ids_by_unique_beginning(run, store, names):
    rows = run.on_terminal("list", "--store", store).out.splitlines()[1:]
    short = [line.split()[0] for line in rows]

    assert len(set(short)) == 3
    for word in short:
        told = run("show", word, "--store", store, "--json").json
        assert told["id"].startswith(word)


def test_ambiguous_beginning_lists_what_it_could_be(run, store, names):
    ran = run("show", names["bread"][:2], "--store", store)

    assert ran.code == 2
    assert "3 conversations begin with" in ran.err
    assert names["bread"] in ran.err


@pytest.mark.parametrize("word", ["zz", "@9", "../../etc", "\x1b[31m"])
def test_unknown_id(run, store, word):
    ran = run("show", word, "--store", store)

    assert ran.code == 1
    assert "\x1b" not in ran.err


def test_newest_conversations_by_rank(run, store, names):
    assert run("show", "@", "--store", store, "--json").json["id"] == names["other"]
    assert run("show", "@2", "--store", store, "--json").json["id"] == names["fork"]


def test_show_pairs_calls_and_results(run, store, names):
    lines = run("show", names["bread"], "--store", store).out.splitlines()
    call = lines.index("invocation oven [3]")

    assert lines[call + 1] == "  temperature: 230"
    assert lines[call + 3 : call + 5] == ["    → result [4]", "      hot"]
    assert "  [image: image/png, 2.0 kB]" in lines


def test_show_lets_nobody_write_on_the_terminal(run, store, names):
    assert "\x1b" not in run("show", names["bread"], "--store", store).out
    shown = run.on_terminal("show", names["bread"], "--store", store).out
    assert "\x1b[31m<script>" not in shown


def test_show_as_a_dialect(run, store, names):
    ran = run("show", names["bread"], "--as", "anthropic_messages", "--store", store)

    assert ran.json["system"] == "Be brief."
    assert "CONTROL_DEFAULTED" in ran.err


def test_show_raw_is_what_is_stored(run, store, names):
    lines = run("show", names["fork"], "--raw", "--store", store).out.splitlines()

    assert [json.loads(line)["role"] for line in lines] == ["supervisor", "user"] + [
        "assistant"
    ] * 2


def test_show_tree(run, store, names):
    ran = run("show", names["fork"], "--tree", "--store", store)

    assert ran.out.splitlines() == [
        f"{names['bread']} Bread",
        f"└─ {names['fork']} at 3 Bread *",
    ]


def test_show_last(run, store, names):
    told = run("show", names["bread"], "--last", "2", "--store", store, "--json").json

    assert [canister["role"] for canister in told["canisters"]] == ["user", "assistant"]


def test_search(run, store, names):
    ran = run("search", "sourdough", "starter", "--store", store)

    assert ran.code == 0
    assert ran.out.split("\t")[:3] == [names["bread"], "1", "user"]
    assert run("search", "nothingness", "--store", store).code == 1
    assert run("search", "sourdough", "--role", "assistant", "--store", store).code == 1


@pytest.mark.parametrize(
    "kept, left_out",
    [
        ("--model=gpt-5", "--model=other"),
        ("--profile=archive", "--profile=chat"),
        ("--since=2000-01-01", "--since=2100-01-01"),
        ("--until=2100-01-01", "--until=2000-01-01"),
    ],
)
def test_search_chooses(run, store, kept, left_out):
    assert run("search", "sourdough", kept, "--store", store).code == 0
    assert run("search", "sourdough", left_out, "--store", store).code == 1


def test_fork(run, store, names):
    told = run(
        "fork", names["bread"], "--at", "2", "--title", "Again", "--store", store, "--json"
    ).json

    assert (told["parent"], told["position"]) == (names["bread"], 2)
    assert run("show", told["id"], "--store", store, "--json").json["title"] == "Again"


def test_fork_inside_an_exchange_names_the_way_out(run, store, names):
    ran = run("fork", names["bread"], "--at", "4", "--store", store)

    assert ran.code == 1
    assert "--move" in ran.err
    assert run("fork", names["bread"], "--at", "4", "--move", "--store", store).code == 0


def test_tag(run, store, names):
    assert run("tag", names["other"], "a", "b", "--title", "T", "--store", store).out == "a b\n"
    told = run("tag", names["other"], "--remove", "a", "--store", store, "--json").json

    assert told == {"id": names["other"], "title": "T", "tags": ["b"]}


def test_delete_asks(run, store, names):
    refused = run("delete", names["bread"], "--store", store)

    assert refused.code == 2
    assert "--yes" in refused.err
    assert run.on_terminal("delete", names["bread"], "--store", store, given="n\n").code == 1
    assert run.on_terminal("delete", names["bread"], "--store", store, given="y\n").code == 0
    assert run("show", names["bread"], "--store", store).code == 1
    assert len(run("show", names["fork"], "--store", store, "--json").json["canisters"]) == 4


# --- export -------------------------------------------------------------------------------------


def test_export_comes_back_by_import(run, store, names, tmp_path):
    run("export", names["bread"], "-o", "bread.jsonl", "--store", store)
    ran = run("import", "bread.jsonl", "--store", tmp_path / "new", "--json")

    assert ran.json[0]["added"] == 7
    told = [
        run("show", "@", "--store", place, "--json").json["canisters"]
        for place in (tmp_path / "new",)
    ]
    assert told[0] == run("show", names["bread"], "--store", store, "--json").json["canisters"]


def test_markdown(run, store, names):
    page = run("export", names["bread"], "--store", store).out

    assert page.startswith("# Bread\n")
    assert '## invocation oven\n\n```json\n{"temperature":230}\n```' in page


def test_html_is_alone_and_runs_nothing(run, store, names, tmp_path):
    run("export", "--all", "-o", "all.html", "--store", store)
    page = (tmp_path / "all.html").read_text()

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page
    assert "default-src 'none'" in unescape(page)
    assert page.count("<section ") == 3
    assert 'src="data:image/png;base64,' in page
    assert re.findall(r'(?:src|href)="(?!data:image/|#)', page) == []


def test_html_leaves_out_what_is_redacted(run, store, names, tmp_path):
    run("export", "--all", "--redact-pattern", "alert", "-o", "all.html", "--store", store)
    page = (tmp_path / "all.html").read_text()

    assert "alert" not in page
    assert "&lt;script&gt;" in page


def test_dialects_and_data_sets(run, store, names):
    records = run("export", "--all", "--as", "sharegpt", "--store", store).out.splitlines()

    assert len(records) == 3
    assert json.loads(records[2])["conversations"][0] == {"from": "human", "value": "No title here"}
    assert run("export", "@", "--as", "openai_chat", "--store", store).json["messages"]


def test_export_is_no_request(run, store, names):
    body = run("export", names["bread"], "--as", "anthropic_messages", "--store", store).json
    assert "max_tokens" not in body
    assert {message["role"] for message in body["messages"]} <= {"user", "assistant"}


@pytest.mark.parametrize("name", ["bread.pdf", "bread.json", "bread.txt"])
def test_ending_that_is_no_format_is_an_error(run, store, names, tmp_path, name):
    ran = run("export", names["bread"], "-o", name, "--store", store)
    assert ran.code == 2
    assert "--as" in ran.err
    assert not (tmp_path / name).exists()
    assert run("export", "@", "-o", name, "--as", "openai_chat", "--store", store).code == 0


def test_canisters_of_several_conversations_keep_their_borders(run, store, tmp_path):
    run("export", "--all", "--as", "canisters", "-o", "all.jsonl", "--store", store)
    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    names = {json.loads(line)["conversation"] for line in lines}
    kept = run("list", "--json", "--store", store).json
    assert len(names) == len(kept)
    (told,) = run("import", "all.jsonl", "--json", "--store", tmp_path / "again").json
    assert told["conversations"] == len(kept) or told["added"] == len(kept)


@pytest.mark.parametrize("form", ["claude_code", "codex", "gemini_cli"])
def test_session_for_an_agent_says_where_it_goes(run, store, names, tmp_path, form):
    ran = run("export", names["bread"], "--as", form, "-o", tmp_path, "--store", store)
    assert ran.code == 0
    assert "then: " in ran.err
    (path,) = tmp_path.glob("*.jsonl")
    assert run("doctor", path).code == 0
    assert run("export", "--all", "--as", form, "--store", store).code == 2
    assert run("export", "--all", "--as", form, "-o", "many", "--store", store).code == 0
    assert len(list((tmp_path / "many").iterdir())) == 3


SECRET = "sk-proj-Zx9Yw8Vu7Ts6Rq5Po4Nm3"


@pytest.fixture
def leaky(run, tmp_path):
    """A store with a secret in every corner of a conversation."""
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "run", "arguments": json.dumps({"key": SECRET})},
    }
    body = {
        "model": "gpt-5",
        "messages": [
            {"role": "system", "content": f"key {SECRET}"},
            {"role": "user", "content": f"I am a@b.org in /home/annlee with {SECRET}"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": json.dumps({"token": SECRET})},
        ],
    }
    path = tmp_path / "a@b.org.json"
    path.write_text(json.dumps(body))
    assert run("import", path, "--store", tmp_path / "leaky").code == 0
    return tmp_path / "leaky"


@pytest.mark.parametrize(
    "form",
    [
        "canisters",
        "html",
        "jsonl",
        "markdown",
        "claude_code",
        "codex",
        "gemini_cli",
        "uimessage",
        "sharegpt",
        "openai_chat",
        "otel_genai",
    ],
)
def test_nothing_leaks_from_a_redacted_export(run, leaky, form):
    plain = run("export", "@", "--as", form, "--store", leaky)
    ran = run("export", "@", "--as", form, "--redact", "--store", leaky)
    assert ran.code == 0
    assert SECRET in plain.out
    assert [word for word in (SECRET, "a@b.org", "annlee") if word in ran.out + ran.err] == []
    assert "redacted: " in ran.err
    assert SECRET in run("show", "@", "--json", "--store", leaky).out


def test_preview_of_what_would_be_left_out(run, leaky, tmp_path):
    ran = run("export", "@", "--redact", "--dry-run", "-o", "x.md", "--store", leaky)
    assert ran.code == 0
    assert "would leave out: " in ran.out
    assert "× secret" in ran.out
    assert SECRET not in ran.out
    assert not (tmp_path / "x.md").exists()
    assert run("export", "@", "--dry-run", "--store", leaky).code == 2
    assert run("export", "@", "--redact-pattern", "(", "--store", leaky).code == 2
    assert (
        "[redacted:custom-1]"
        in run("export", "@", "--redact-pattern", "I am", "--store", leaky).out
    )


def test_export_of_nothing_is_misuse(run, store):
    assert run("export", "--store", store).code == 2
    assert run("export", "--tag", "nobody", "--store", store).code == 1


def test_empty_list_says_which_filter_leaves_nothing(run, store):
    assert "has the tag 'nope'" in run("list", "--tag", "nope", "--store", store).err
    ran = run("list", "--tag", "food", "--model", "x", "--store", store)
    assert "matches --tag food --model x" in ran.err
    assert ran.code == 0


def test_list_by_the_name_of_a_key(run, store):
    with open_store(str(store)) as opened:
        kept = opened.within("alice").create(title="Alice's")
        kept.append(cannery.user("Mine."))

    (found,) = run("list", "--key", "alice", "--json", "--store", store).json
    assert (found["id"], found["key"]) == (kept.identifier, "alice")
    assert len(run("list", "--json", "--store", store).json) == 4
    assert "matches --key bob" in run("list", "--key", "bob", "--store", store).err


def test_an_export_of_no_row_says_why(run, store, names):
    ran = run("export", names["bread"], "--as", "preferences", "--store", store)
    assert (ran.code, ran.out) == (0, "")
    assert "no preference rows in 1 conversation: no fork among them" in ran.err


def test_a_named_store_that_is_not_there_is_an_error(run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for place in (tmp_path / "notes.txt", tmp_path / "nowhere"):
        ran = run("list", CANNERY_STORE=str(place))
        assert ran.code == 1
        assert f"there is no store at {place}" in ran.err

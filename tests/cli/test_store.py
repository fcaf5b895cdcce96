"""The verbs that look after a store."""

import json
import re
import signal
import time

import pytest

import cannery
from cannery.messages import user
from cannery.storage import open_store

TREE = {
    "id": "c1",
    "title": "Branches",
    "create_time": 1.0,
    "current_node": "b2",
    "mapping": {
        "r": {"id": "r", "message": None, "parent": None, "children": ["u"]},
        "u": {"parent": "r", "children": ["b1", "b2"], "id": "u"},
        "b1": {"parent": "u", "children": [], "id": "b1"},
        "b2": {"parent": "u", "children": [], "id": "b2"},
    },
}


def said(role, text):
    return {
        "author": {"role": role},
        "create_time": 2.0,
        "content": {"content_type": "text", "parts": [text]},
        "metadata": {},
    }


@pytest.fixture
def export(tmp_path):
    """A ChatGPT export of one question with two answers."""
    tree = json.loads(json.dumps(TREE))
    for name, role, text in (
        ("u", "user", "Which?"),
        ("b1", "assistant", "This"),
        ("b2", "assistant", "That"),
    ):
        tree["mapping"][name]["message"] = {"id": name, **said(role, text)}
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([tree]))
    return path


def test_import_says_the_format_and_makes_forks(run, export, tmp_path):
    ran = run("import", export, "--json", "--store", tmp_path / "new")

    assert ran.code == 0
    assert "read as chatgpt" in ran.err
    (told,) = ran.json
    assert (told["conversations"], told["branches"], told["created"], told["forked"]) == (
        1,
        1,
        1,
        1,
    )
    assert len(run("list", "--store", tmp_path / "new", "--json").json) == 2


def test_import_twice_adds_nothing(run, export, tmp_path):
    run("import", export, "--store", tmp_path / "new")
    (told,) = run("import", export, "--json", "--store", tmp_path / "new").json

    assert (told["added"], told["created"], told["forked"]) == (0, 0, 0)


def test_dry_run_writes_nothing(run, export, tmp_path):
    (told,) = run("import", export, "--dry-run", "--json", "--store", tmp_path / "new").json

    assert told["messages"] == 3
    assert not (tmp_path / "new").exists()


def test_import_of_stdin_and_of_something_unknown(run, export, tmp_path):
    ran = run("import", "-", "--json", "--store", tmp_path / "new", given=export.read_bytes())

    assert ran.json[0]["path"] == "stdin"
    unknown = run("import", "-", "--store", tmp_path / "new", given=b'{"x": 1}')
    assert unknown.code == 1
    assert "--formats" in unknown.err


def test_one_bad_file_among_several(run, export, tmp_path):
    (tmp_path / "bad.json").write_text('{"x": 1}')
    ran = run("import", "bad.json", export, "--json", "--store", tmp_path / "new")

    assert ran.code == 1
    assert len(ran.json) == 1


def test_interrupted_import_leaves_a_sound_store(run, tmp_path):
    record = (
        '{"conversations":[{"from":"human","value":"Hi %d"},{"from":"gpt","value":"Hello %d"}]}\n'
    )
    data = tmp_path / "data.jsonl"
    data.write_text("".join(record % (number, number) for number in range(20_000)))
    process = run.start("import", data, "--store", tmp_path / "new", "--quiet")
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob("new/conversations/*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)

    assert (process.returncode, error) == (130, b"\ncannery: interrupted\n")
    assert run("verify", "--store", tmp_path / "new").code == 0


def test_verify_names_damage(run, store, names):
    assert run("verify", "--store", store).out.startswith("sound\n")
    log = store / "conversations" / names["bread"] / "messages.jsonl"
    log.write_bytes(log.read_bytes().replace(b"sourdough", b"sourdoubt"))
    ran = run("verify", "--store", store)

    assert ran.code == 1
    assert f"{names['bread']}/messages.jsonl, line 2" in ran.out
    shown = run("show", names["bread"], "--store", store)
    assert shown.code == 1
    assert "damaged: " in shown.err
    assert "**Mix** flour and water." in shown.out


def test_gc_frees_what_is_deleted(run, store, names):
    run("delete", names["other"], "--yes", "--store", store)
    planned = run("gc", "--dry-run", "--json", "--store", store).json

    assert planned["conversations"] == [names["other"]]
    assert run("gc", "--store", store).out.startswith("freed 1 conversation")
    assert run("gc", "--json", "--store", store).json["conversations"] == []
    assert run("verify", "--store", store).code == 0


def test_reindex(run, store):
    run("list", "--store", store)
    (store / "index.sqlite").write_bytes(b"no index")
    ran = run("reindex", "--store", store)

    assert ran.out.startswith("indexed 3 conversations")
    assert run("search", "sourdough", "--store", store).code == 0


def test_stats(run, store, tmp_path):
    told = run("stats", "--json", "--svg", "plot.svg", "--store", store).json

    assert (told["conversations"], told["forks"]) == (3, 1)
    assert (told["messages"], told["stored_messages"]) == (13, 10)
    assert told["by_role"]["assistant"] == 4
    assert told["by_model"] == {"gpt-5": 11, "unknown": 2}
    assert 1 < told["ratio"] < 1.3
    assert (tmp_path / "plot.svg").read_text().startswith("<svg ")
    assert "█" in run("stats", "--store", store).out


def test_stats_count_what_forks_share_in_each(run, tmp_path):
    opened = open_store(tmp_path / "forks")
    root = opened.create()
    for number in range(12):
        root.append(cannery.user(f"{number}: " + "word " * 400 * (number % 2)))
    first = root.fork(at=8)
    first.append(cannery.assistant("another " * 300))
    second = first.fork(at=9)
    second.append(cannery.user("on"))
    first.fork(at=3).append(cannery.user("back"))
    second.fork(at=5)
    opened.close()
    told = run("stats", "--json", "--store", tmp_path / "forks").json

    with open_store(tmp_path / "forks") as opened:
        lines = {}
        for each in sorted(opened.list(), key=lambda summary: summary.created):
            base = each.position if each.parent else 0
            own = opened.backend.read(each.identifier, base, base).lines
            lines[each.identifier] = [*lines.get(each.parent, ())[:base], *own]
    said = [line for own in lines.values() for line in own]
    contents = [re.search(rb'"content_id":"[^"]+","size":(\d+)', line) for line in said]
    assert (told["messages"], told["stored_messages"]) == (12 + 9 + 10 + 4 + 5, 15)
    assert len(said) == told["messages"]
    assert told["said_bytes"] == sum(map(len, said)) + sum(int(one[1]) for one in contents if one)


def test_store_that_is_a_file(run, tmp_path):
    (tmp_path / "file").write_text("x")
    ran = run("list", "--store", tmp_path / "file")

    assert ran.code == 1
    problem, fix = ran.err.splitlines()
    assert "it is a file" in problem
    assert f"sqlite:{tmp_path / 'file'}" in fix


def test_looking_for_a_store_in_one_file_makes_none(run, tmp_path):
    ran = run("list", "--store", f"sqlite:{tmp_path / 'none.db'}")

    assert ran.code == 1
    assert "there is no store at" in ran.err
    assert not (tmp_path / "none.db").exists()


def test_removing_a_tag_that_is_not_there_is_told(run, store):
    ran = run("tag", "@", "--remove", "nothing", "--store", store)

    assert ran.code == 0
    assert "has no tag 'nothing'" in ran.err


def test_a_limit_of_none_is_named(run, store):
    ran = run("list", "--limit", "0", "--store", store)

    assert "matches --limit 0" in ran.err


def test_progress_of_a_rebuilt_index_ends_at_its_end(store):
    told = []
    with open_store(store) as opened:
        opened.rebuild_index(lambda done, total: told.append((done, total)))

    assert told[-1] == (6, 6)
    assert [done for done, _ in told] == list(range(1, 7))


def test_everything_exported_comes_back(run, store, tmp_path):
    assert run("export", "--all", "-o", "all.jsonl", "--store", store).code == 0
    ran = run("import", "all.jsonl", "--store", tmp_path / "new")

    assert ran.code == 0
    assert "read as conversations" in ran.err
    listed = [run("list", "--json", "--store", place).json for place in (store, tmp_path / "new")]
    facts = [{(e["id"], e["title"], e["parent"], *e["tags"]) for e in each} for each in listed]
    assert facts[0] == facts[1]
    again = run("import", "all.jsonl", "--json", "--store", tmp_path / "new").json
    assert [summary["added"] for summary in again] == [0]


def test_dry_run_asks_the_store(run, export, tmp_path):
    place = tmp_path / "new"
    (fresh,) = run("import", export, "--dry-run", "--json", "--store", place).json
    assert (fresh["created"], fresh["forked"], fresh["known"]) == (1, 1, 0)
    assert not place.exists()

    run("import", export, "--store", place)
    ran = run("import", export, "--dry-run", "--store", place)
    assert "nothing was written" in ran.err
    (known,) = run("import", export, "--dry-run", "--json", "--store", place).json
    assert (known["created"], known["forked"], known["known"], known["added"]) == (0, 0, 2, 0)


def test_a_backup_is_made_and_restored(run, store, names, tmp_path):
    made = run("backup", tmp_path / "backup", "--json", "--store", store).json
    ran = run("restore", tmp_path / "backup", "--store", tmp_path / "restored")

    assert made["conversations"] == len(list((store / "conversations").iterdir()))
    assert (ran.code, ran.out.splitlines()[-1].endswith(": sound")) == (0, True)
    shown = [
        run("show", names["bread"], "--store", place).out
        for place in (store, tmp_path / "restored")
    ]
    assert shown[0] == shown[1]
    assert run("restore", tmp_path / "backup", "--store", tmp_path / "restored").code != 0


def test_a_file_that_is_no_backup_is_named(run, tmp_path):
    (tmp_path / "file").write_text("x")
    ran = run("restore", tmp_path / "file", "--store", tmp_path / "new")

    assert ran.code == 1
    assert "file is not a Cannery store" in ran.err
    assert not (tmp_path / "new").exists()


def test_a_damaged_backup_is_named(run, store, names, tmp_path):
    run("backup", tmp_path / "backup", "--store", store)
    log = tmp_path / "backup" / "conversations" / names["bread"] / "messages.jsonl"
    log.write_bytes(b"")
    ran = run("restore", tmp_path / "backup", "--store", tmp_path / "restored")

    assert ran.code == 1
    assert f"conversations/{names['bread']}/messages.jsonl" in ran.out
    assert "missing at the end" in ran.out


def test_gc_deletes_what_is_older_than_it_is_to_be_kept(run, tmp_path):
    place = tmp_path / "kept"
    with open_store(place) as store:
        made = store.within("alice").create()
        store.create()
    days = ("--keep-days", "0", "--keep-days", "alice=0.000000001")
    rehearsed = run("gc", "--store", place, "--dry-run", *days)
    assert "would delete 1 conversation of scope alice, unchanged for 1e-09 days" in rehearsed.out
    assert made.identifier in rehearsed.out
    told = run("gc", "--store", place, "--json", *days).json
    assert [one["identifier"] for one in told["expired"]] == [made.identifier]
    assert told["conversations"] == [made.identifier]
    with open_store(place) as store:
        assert len(store.list()) == 1
    for wrong in ("x", "alice=", "-1"):
        ran = run("gc", "--store", place, f"--keep-days={wrong}")
        assert ran.code == 2
        assert "keep" in ran.err


def test_gc_keeps_the_days_of_the_configuration_for_the_gateways_store(run, tmp_path):
    place = tmp_path / "mine"
    folder = tmp_path / "config" / "cannery"
    folder.mkdir(parents=True)
    text = f'[recording]\nstore = "{place}"\n[retention]\nkeep_days = 0.000000001\n'
    (folder / "gateway.toml").write_text(text)
    run.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    other = tmp_path / "other"
    for path in (place, other):
        with open_store(path) as store:
            store.create()
    assert "deleted 1 conversation" in run("gc", "--store", place).out
    assert "deleted" not in run("gc", "--store", other).out


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_damaged_conversation_can_be_erased_by_its_id(run, tmp_path, is_listed):
    place = tmp_path / "store"
    with open_store(place) as store:
        gone = store.create("secret title", canisters=[user("secret")]).identifier
        store.list()
    (place / "conversations" / gone / "conversation.json").write_bytes(b"damaged")
    if not is_listed:
        assert run("reindex", CANNERY_STORE=str(place)).code == 0
    assert "metadata is damaged" in run("show", gone, CANNERY_STORE=str(place)).err
    done = run("erase", gone, "--yes", CANNERY_STORE=str(place))
    assert (done.code, "erased 1 conversation" in done.err) == (0, True)
    assert run("verify", CANNERY_STORE=str(place)).code == 0

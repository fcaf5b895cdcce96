"""``cannery keys``, and the other verbs on an encrypted store."""

import json

import pytest

CHAT = {
    "messages": [
        {"role": "user", "content": "kanarienvogel"},
        {"role": "assistant", "content": "Yes."},
    ]
}


@pytest.fixture
def secret(run, tmp_path):
    """An encrypted store with one conversation, named by the environment."""
    run.environment["CANNERY_ENCRYPTION_KEY"] = f"file:{tmp_path}/keys/{{scope}}.key"
    run.environment["CANNERY_STORE"] = str(tmp_path / "private")
    (tmp_path / "chat.jsonl").write_text(json.dumps(CHAT), "utf-8")
    refused = run("import", str(tmp_path / "chat.jsonl"))
    assert refused.code == 1
    assert "`cannery keys create` makes a key" in refused.err
    made = run("keys", "create")
    assert (made.code, "@default.key" in made.out) == (0, True)
    assert oct((tmp_path / "keys" / "@default.key").stat().st_mode)[-3:] == "600"
    assert run("import", str(tmp_path / "chat.jsonl")).code == 0
    return run


def test_verbs_work_on_an_encrypted_store(secret, tmp_path):
    (found,) = secret("list", "--json").json
    for words, expected in (
        (("show", "@"), "kanarienvogel"),
        (("search", "kanarienvogel"), found["id"]),
        (("verify",), "sound"),
        (("stats",), "1 conversation"),
        (("tag", "@", "rare"), "rare"),
        (("list", "--tag", "rare"), found["id"]),
        (("export", "--all"), "kanarienvogel"),
        (("reindex",), ""),
        (("gc",), ""),
        (("keys",), "there"),
        (("doctor",), "1 conversation"),
        (("config",), "keys/{scope}.key"),
        (("backup", str(tmp_path / "copy")), "copied 1 conversation"),
        (("restore", str(tmp_path / "copy"), "--store", str(tmp_path / "again")), "sound"),
        (("list", "--store", str(tmp_path / "again")), found["id"]),
    ):
        done = secret(*words)
        assert (done.code, expected in done.out) == (0, True), (words, done)
    files = [path for path in tmp_path.joinpath("private").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"kanarienvogel" in path.read_bytes()]


def test_errors_say_what_to_do(secret, tmp_path):
    again = secret("keys", "create")
    assert (again.code, "File exists" in again.err) == (2, True)
    plain = secret("list", CANNERY_ENCRYPTION_KEY="")
    assert (plain.code, "--encryption-key" in plain.err) == (2, True)
    assert "Traceback" not in plain.err
    nowhere = secret("keys", CANNERY_ENCRYPTION_KEY="")
    assert (nowhere.code, "--encryption-key" in nowhere.err) == (2, True)
    typed = secret("list", "--encryption-key", "ab" * 32)
    assert (typed.code, "never stands in a setting" in typed.err) == (2, True)
    unknown = secret("keys", "destory")
    assert (unknown.code, "destroy" in unknown.err) == (2, True)
    unsure = secret("keys", "destroy")
    assert (unsure.code, "--yes" in unsure.err) == (2, True)
    (tmp_path / "chats").mkdir()
    other = secret(
        "import",
        str(tmp_path / "chat.jsonl"),
        "--store",
        str(tmp_path / "chats"),
        CANNERY_ENCRYPTION_KEY="",
    )
    assert other.code == 0
    mixed = secret("list", "--store", str(tmp_path / "chats"))
    assert (mixed.code, "is not encrypted, and a key was given" in mixed.err) == (2, True)


def test_keys_are_rotated_and_destroyed(secret, tmp_path):
    new = f"file:{tmp_path}/new/{{scope}}.key"
    assert secret("keys", "rotate", "--new", new).code == 1
    assert secret("keys", "create", "--encryption-key", new).code == 0
    assert secret("keys", "rotate").code == 2
    assert secret("keys", "rotate", "--all", "--new", new).code == 0
    stale = secret("keys", "--json")
    assert (stale.code, "gives key" in stale.json[0]["problem"]) == (1, True)
    assert "kanarienvogel" in secret("show", "@", "--encryption-key", new).out
    destroyed = secret("keys", "destroy", "--yes", "--encryption-key", new)
    assert (destroyed.code, "new/@default.key" in destroyed.out) == (0, True)
    listed = secret("list", "--encryption-key", new)
    assert (listed.code, "was destroyed" in listed.out) == (0, True)
    found = secret("search", "kanarienvogel", "--encryption-key", new)
    assert "was left out" in found.err
    assert "kanarienvogel" not in found.out
    assert secret("show", "@", "--encryption-key", new).code == 1
    assert secret("verify", "--encryption-key", new).code == 1
    assert secret("erase", "@", "--yes", "--encryption-key", new).code == 0
    assert secret("verify", "--encryption-key", new).code == 0

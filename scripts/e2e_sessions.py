"""Let real agents resume sessions that Cannery wrote: exported ones, and damaged ones after a fix.

Installs Claude Code, Codex and Gemini CLI beside the environment if they are missing, starts a gateway with the
built-in echo, exports one conversation for each agent, damages a copy of the session and fixes it with ``cannery doctor
--fix``, lets the agent resume both, and searches the gateway's store for the whole history. All traffic stays on
loopback.

    python scripts/e2e_sessions.py
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from e2e_agents import install  # type: ignore[import-not-found] # a script beside this one

import cannery

# The texts of the conversation, with a placeholder for the name of the agent.
ASKED, TOLD, RESULT = "My colour is {}teal.", "Noted {}teal.", "{}alpha.txt"
AGAIN = "and now again"
LAST = "One file."
GEMINI = "gemini-2.5-flash"


class Agent(NamedTuple):
    """An agent: its format in Cannery, its program, how its address is configured, and how it resumes."""

    form: str
    program: str
    package: str
    model: str
    folder: str
    resume: tuple[str, ...]


AGENTS = (
    Agent(
        "claude_code",
        "claude",
        "@anthropic-ai/claude-code",
        "claude-opus-5",
        ".claude/projects/{project}",
        ("--resume", "{session}", "-p", AGAIN, "--model", "echo"),
    ),
    Agent(
        "codex",
        "codex",
        "@openai/codex",
        "gpt-5",
        ".codex/sessions/2026/11/17",
        ("exec", "resume", "{session}", "--skip-git-repo-check", AGAIN),
    ),
    Agent(
        "gemini_cli",
        "gemini",
        "@google/gemini-cli",
        GEMINI,
        ".gemini/tmp/{name}/chats",
        ("--resume", "{session}", "-p", AGAIN, "-m", GEMINI),
    ),
)


def main() -> int:
    """Run all agents; return the number of sessions that were not resumed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "cannery.gateway", "--port", "0"]
        command += ["--store", str(folder / "store")]
        with (folder / "log").open("wb") as log:
            gateway = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = gateway.stdout.readline() if gateway.stdout is not None else ""
            found = re.search(r"http://\S+", line)
            if found is None:
                print("the gateway did not start")
                return 1
            return sum(_agent(agent, found[0], folder) for agent in AGENTS)
        finally:
            gateway.terminate()
            gateway.wait(30)


def _agent(agent: Agent, url: str, folder: Path) -> int:
    binary = install(agent.program, agent.package)
    if binary is None:
        return 1
    home, work = folder / agent.program, folder / f"{agent.program}-work"
    home.mkdir()
    work.mkdir()
    session = _exported(agent, folder, work)
    failures = 0
    for kind in ("exported", "mended"):
        data = session.read_bytes()
        if kind == "mended":
            data = _mended(agent, _broken(agent, data), folder)
        place = home / agent.folder.format(
            project=re.sub(r"[^A-Za-z0-9]", "-", str(work)), name=work.name
        )
        place.mkdir(parents=True, exist_ok=True)
        (place / session.name).write_bytes(data)
        failures += _resumed(agent, [str(binary)], url, (home, work), _session_of(data), kind)
    said = [text.format(agent.program) for text in (ASKED, TOLD, RESULT)]
    missing = [text for text in said if not _is_kept(folder, text)]
    print(f"{agent.program}: {missing or 'the history reached the provider'}")
    return failures + bool(missing)


def _exported(agent: Agent, folder: Path, work: Path) -> Path:
    """One conversation with a call, exported for an agent that works in a folder."""
    place = folder / f"{agent.program}-from"
    with cannery.open_store(str(place)) as store:
        conversation = store.create(model=agent.model)
        call = cannery.InvocationCanisterClass("call_1", "list_files", '{"path": "."}')
        said = cannery.TextualContentClass(RESULT.format(agent.program))
        conversation.append(cannery.user(ASKED.format(agent.program)))
        conversation.append(cannery.assistant(TOLD.format(agent.program)))
        conversation.append(cannery.user("List the files."))
        conversation.append(call)
        conversation.append(cannery.ResultCanisterClass("call_1", said))
        conversation.append(cannery.assistant(LAST))
    target = folder / f"{agent.program}-out"
    target.mkdir()
    words = ["export", "@", "--as", agent.form, "-o", str(target), "--store", str(place)]
    _cannery(words, work)
    return next(target.iterdir())


def _broken(agent: Agent, data: bytes) -> bytes:
    """The session with a truncated last line, blank text and an unanswered call, which its provider refuses."""
    blank = f'"text":"{LAST}"}},{{"type":"text","text":" "}}'
    data = data.replace(f'"text":"{LAST}"}}'.encode(), blank.encode())
    lines = data.splitlines(keepends=True)
    if agent.form == "codex":
        lines = [line for line in lines if b"function_call_output" not in line]
    return b"".join(lines) + b'{"type": "cut of'


def _mended(agent: Agent, data: bytes, folder: Path) -> bytes:
    broken, mended = (
        folder / f"{agent.program}-broken.jsonl",
        folder / f"{agent.program}-mended.jsonl",
    )
    broken.write_bytes(data)
    if _cannery(["doctor", str(broken)], folder) != 1:
        print(f"{agent.program}: the doctor did not see the torn line")
    _cannery(["doctor", str(broken), "--fix", "-o", str(mended)], folder)
    return mended.read_bytes()


def _cannery(words: list[str], folder: Path) -> int:
    command = [sys.executable, "-m", "cannery", "--quiet", *words]
    return subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=False).returncode


def _session_of(data: bytes) -> str:
    first: dict[str, Any] = json.loads(data.splitlines()[0])
    named = first.get("sessionId") or first["payload"]["id"]
    return str(uuid.UUID(named))


def _resumed(
    agent: Agent, command: list[str], url: str, folders: tuple[Path, Path], session: str, kind: str
) -> int:
    home, work = folders
    words = [word.format(session=session) for word in agent.resume]
    done = subprocess.run(
        [*command, *words],
        env={**os.environ, **_environment(home, url)},
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    is_right = done.returncode == 0 and AGAIN in done.stdout
    print(f"{agent.program}: {kind} session {'resumed' if is_right else 'FAILED'}")
    if not is_right:
        print(done.stdout[-500:], done.stderr[-1500:])
    return 0 if is_right else 1


def _environment(home: Path, url: str) -> dict[str, str]:
    """A home folder for every agent, with the gateway as its provider."""
    codex, gemini = home / ".codex", home / ".gemini"
    codex.mkdir(exist_ok=True)
    gemini.mkdir(exist_ok=True)
    (codex / "config.toml").write_text(
        'model = "echo"\nmodel_provider = "cannery"\n\n[model_providers.cannery]\nname = "Cannery"\n'
        f'base_url = "{url}/openai/v1"\nenv_key = "CANNERY_TEST_KEY"\nwire_api = "responses"\n'
    )
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (gemini / "settings.json").write_text(json.dumps(settings))
    return {
        "HOME": str(home),
        "CODEX_HOME": str(codex),
        "CANNERY_TEST_KEY": "any",
        "ANTHROPIC_BASE_URL": f"{url}/anthropic",
        "ANTHROPIC_API_KEY": "any",
        "GOOGLE_GEMINI_BASE_URL": f"{url}/gemini",
        "GEMINI_API_KEY": "any",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        # Prevent the programs' other requests to the network.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def _is_kept(folder: Path, text: str) -> bool:
    """Whether the gateway recorded a text."""
    with cannery.open_store(str(folder / "store")) as store:
        return bool(store.search(f'"{text}"')) or bool(store.search(text))


if __name__ == "__main__":
    sys.exit(main())

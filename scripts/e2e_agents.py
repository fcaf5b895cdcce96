"""Run real agents through the gateway, and count the conversations recorded for their sessions.

Each agent works in a git repository: it writes a file, files change without its knowledge, it is resumed with another
model if it supports that and writes another file, and is resumed once more. The upstream has another dialect than the
agent and answers by a script; all traffic stays on loopback. One session must be one conversation. Missing agents are
installed beside the environment; those that cannot be installed are skipped.

    python scripts/e2e_agents.py [AGENT ...]
"""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from cannery.storage import open_store

FOLDER = Path(os.environ.get("CANNERY_CLIENTS") or Path(sys.prefix) / "clients")
UPSTREAMS = ("openai_chat", "anthropic_messages")
ONE = "Please do this: DO[file=one.txt;text=alpha]"
TWO = "Next please do this: DO[file=two.txt;text=beta]"
THANKS = "thanks, only say hello"
DELEGATE = "Please let an agent do this: LET[look at the notes and count their words]"
_LET = re.compile(r"LET\[([\w ]+)\]")
_DO = re.compile(r"DO\[file=([\w.]+);text=(\w+)\]")
_WRITERS = (
    "Write",
    "write_file",
    "write",
    "exec_command",
    "shell",
    "bash",
    "run_shell_command",
    "write_to_file",
    "run_commands",
)
# The tools that start a sub-agent, and the one that ends it, if there is one.
_DELEGATES = ("Agent", "Task", "agent", "task", "invoke_agent")
_FINISH = "complete_task"
_SECONDS = 150

Json = dict[str, Any]


class Agent(NamedTuple):
    """A program: its package, the preparation of its home, and its three turns; ``program`` is a placeholder."""

    name: str
    package: str
    prepare: Callable[[str, Path], dict[str, str]]
    turns: tuple[tuple[str, ...], ...]
    is_python: bool = False


# --- the upstream --------------------------------------------------------------------------------


class Upstream(http.server.ThreadingHTTPServer):
    """Answers by a script: a call that writes the requested file, then a text."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Upstream

    def log_message(self, *_: Any) -> None:
        """Suppress the access log."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        is_chat = "chat/completions" in self.path
        said, call = _decide(body, self.server.folder)
        number = os.urandom(6).hex()
        events = _chat(body, said, call, number) if is_chat else _messages(body, said, call, number)
        data = "".join(events).encode()
        self.send_response(200)
        kind = "text/event-stream" if body.get("stream") else "application/json"
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _decide(body: Json, folder: Path) -> tuple[str, tuple[str, Json] | None]:
    """The text and the call with which to answer the last message."""
    last = body["messages"][-1]
    text = json.dumps(last["content"])
    asked = _DO.findall(json.dumps([m["content"] for m in body["messages"] if m["role"] == "user"]))
    tools = [tool.get("function", tool) for tool in body.get("tools", ())]
    if last["role"] == "tool" or "tool_result" in text:
        return f"Done: wrote {asked[-1][0] if asked else 'it'}.", None
    begun = _let(text, tools)
    if begun is not None:
        return "I will ask an agent.", begun
    wanted = _DO.findall(text)
    if not wanted:
        return "Hello.", None
    file, content = wanted[-1]
    for name in _WRITERS:
        for tool in tools:
            if tool["name"] == name:
                return f"I will write {file} now.", (name, _arguments(tool, folder, file, content))
    return (
        f"I will write {file} now.\n\n{file}\n```\n<<<<<<< SEARCH\n=======\n{content}\n>>>>>>> REPLACE\n```\n",
        None,
    )


def _let(text: str, tools: list[Json]) -> tuple[str, Json] | None:
    """The call that starts a sub-agent, or ends one; None if neither is requested."""
    by_name = {tool["name"]: tool for tool in tools}
    if _FINISH in by_name:
        known = {"result": "There are 3 words.", "response": "There are 3 words."}
        return _FINISH, _wanted(by_name[_FINISH], known)
    task = _LET.findall(text)
    name = next((name for name in _DELEGATES if name in by_name), None)
    if not task or name is None:
        return None
    known = {
        "prompt": f"Your task: {task[-1]}.",
        "description": "Count words",
        "agent_name": "generalist",
        "subagent_type": "general" if name == "task" else "general-purpose",
    }
    return name, known


def _wanted(tool: Json, known: Json) -> Json:
    schema = tool.get("parameters") or tool.get("input_schema") or {}
    return {name: known[name] for name in schema.get("required") or known if name in known}


def _arguments(tool: Json, folder: Path, file: str, content: str) -> Json:
    schema = tool.get("parameters") or tool.get("input_schema") or {}
    shell = f"printf %s {content} > {file}"
    known: Json = {
        "content": content,
        "command": shell,
        "cmd": shell,
        "commands": [shell],
        "description": "Write a file",
        **dict.fromkeys(("file_path", "filePath", "path", "absolutePath"), str(folder / file)),
    }
    wanted = schema.get("required") or list(schema.get("properties", {}))
    found = {name: known[name] for name in wanted if name in known}
    if "command" in found and schema["properties"]["command"].get("type") == "array":
        found["command"] = ["sh", "-c", shell]
    return found


def _chat(body: Json, said: str, call: tuple[str, Json] | None, number: str) -> list[str]:
    message: Json = {"role": "assistant", "content": said}
    if call is not None:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    finish = "tool_calls" if call else "stop"
    around = {"id": f"chatcmpl-{number}", "created": 1, "model": body["model"]}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return [
            json.dumps({**around, "object": "chat.completion", "choices": [choice], "usage": usage})
        ]
    for index, one in enumerate(message.get("tool_calls", ())):
        one["index"] = index
    deltas: list[tuple[Json, str | None]] = [(message, None), ({}, finish)]
    chunks = [
        {
            **around,
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": end}],
        }
        for delta, end in deltas
    ]
    chunks[-1]["usage"] = usage
    return [*(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n"]


def _messages(body: Json, said: str, call: tuple[str, Json] | None, number: str) -> list[str]:
    blocks: list[Json] = [{"type": "text", "text": said}]
    if call is not None:
        blocks.append(
            {"type": "tool_use", "id": f"toolu_{number}", "name": call[0], "input": call[1]}
        )
    stop = "tool_use" if call else "end_turn"
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
    }
    usage = {"input_tokens": 10, "output_tokens": 5}
    if not body.get("stream"):
        whole = {
            **message,
            "content": blocks,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }
        return [json.dumps(whole)]
    begun = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    events: list[Json] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(blocks):
        empty: Json
        delta: Json
        if block["type"] == "text":
            empty, delta = (
                {"type": "text", "text": ""},
                {"type": "text_delta", "text": block["text"]},
            )
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": stop, "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


# --- the agents ----------------------------------------------------------------------------------


def _claude(url: str, _: Path) -> dict[str, str]:
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "any", "IS_SANDBOX": "1", **quiet}


def _codex(url: str, home: Path) -> dict[str, str]:
    (home / "config.toml").write_text(
        'model = "gpt-5"\nmodel_provider = "cannery"\n\n[model_providers.cannery]\nname = "Cannery"\n'
        f'base_url = "{url}/v1"\nenv_key = "CANNERY_TEST_KEY"\nwire_api = "responses"\n'
    )
    return {"CODEX_HOME": str(home), "CANNERY_TEST_KEY": "any"}


def _gemini(url: str, home: Path) -> dict[str, str]:
    (home / ".gemini").mkdir()
    auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(auth))
    trust = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_TELEMETRY_ENABLED": "false"}
    return {"GEMINI_API_KEY": "any", "GOOGLE_GEMINI_BASE_URL": url, **trust}


def _opencode(url: str, home: Path) -> dict[str, str]:
    (home / ".config" / "opencode").mkdir(parents=True)
    options = {"baseURL": f"{url}/v1", "apiKey": "any"}
    models: Json = {"gpt-5": {}, "gpt-5-mini": {}}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}
    config = {"provider": {"cannery": provider}, "permission": "allow", "autoupdate": False}
    (home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(config))
    return {}


def _openai(url: str, _: Path) -> dict[str, str]:
    return {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_BASE": f"{url}/v1"}


def _pi(url: str, home: Path) -> dict[str, str]:
    (home / ".pi" / "agent").mkdir(parents=True)
    models = [{"id": name} for name in ("gpt-5", "gpt-5-mini")]
    provider = {
        "baseUrl": f"{url}/v1",
        "api": "openai-responses",
        "apiKey": "any",
        "models": models,
    }
    config = {"providers": {"cannery": provider}}
    (home / ".pi" / "agent" / "models.json").write_text(json.dumps(config))
    return {}


def _cline(url: str, home: Path) -> dict[str, str]:
    (home / ".cline" / "data" / "settings").mkdir(parents=True)
    settings = {"provider": "openai-compatible", "apiKey": "any", "model": "gpt-5"}
    settings["baseUrl"] = f"{url}/v1"
    provider = {
        "settings": settings,
        "updatedAt": "2026-01-01T00:00:00.000Z",
        "tokenSource": "manual",
    }
    known = {"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}}
    providers = {**known, "providers": {"openai-compatible": provider}}
    path = home / ".cline" / "data" / "settings" / "providers.json"
    path.write_text(json.dumps(providers))
    return {"CLINE_NO_AUTO_UPDATE": "1"}


def _llm(url: str, home: Path) -> dict[str, str]:
    row = f"- model_id: gw\n  model_name: gpt-5\n  api_base: {url}/v1\n"
    (home / "extra-openai-models.yaml").write_text(row)
    return {"LLM_USER_PATH": str(home), "OPENAI_API_KEY": "any"}


_AIDER = (
    "--model",
    "openai/gpt-5",
    "--yes-always",
    "--no-check-update",
    "--no-show-model-warnings",
    "--analytics-disable",
    "--no-gitignore",
    "--map-tokens",
    "0",
    "--restore-chat-history",
)
_QWEN = ("--auth-type", "openai", "--yolo", "--model")
AGENTS = (
    Agent(
        "claude",
        "@anthropic-ai/claude-code",
        _claude,
        (
            ("-p", ONE, "--dangerously-skip-permissions", "--model", "claude-sonnet-4-5"),
            ("-c", "-p", TWO, "--dangerously-skip-permissions", "--model", "claude-opus-4-5"),
            ("-c", "-p", THANKS, "--model", "claude-opus-4-5"),
            (
                "-c",
                "-p",
                DELEGATE,
                "--dangerously-skip-permissions",
                "--model",
                "claude-opus-4-5",
            ),
            ("-c", "-p", "/compact", "--model", "claude-opus-4-5"),
            ("-c", "-p", "say hello once more", "--model", "claude-opus-4-5"),
        ),
    ),
    Agent(
        "codex",
        "@openai/codex",
        _codex,
        (
            ("exec", "--dangerously-bypass-approvals-and-sandbox", ONE),
            (
                "exec",
                "--dangerously-bypass-approvals-and-sandbox",
                "-m",
                "gpt-5-mini",
                "resume",
                "--last",
                TWO,
            ),
            ("exec", "resume", "--last", THANKS),
        ),
    ),
    Agent(
        "gemini",
        "@google/gemini-cli",
        _gemini,
        (
            ("--yolo", "-m", "gemini-2.5-pro", "-p", ONE),
            ("--yolo", "-m", "gemini-2.5-flash", "--resume", "latest", "-p", TWO),
            ("--resume", "latest", "-m", "gemini-2.5-flash", "-p", THANKS),
            ("--yolo", "--resume", "latest", "-m", "gemini-2.5-flash", "-p", DELEGATE),
        ),
    ),
    Agent(
        "opencode",
        "opencode-ai",
        _opencode,
        (
            ("run", "-m", "cannery/gpt-5", ONE),
            ("run", "-c", "-m", "cannery/gpt-5-mini", TWO),
            ("run", "-c", "-m", "cannery/gpt-5-mini", THANKS),
            ("run", "-c", "-m", "cannery/gpt-5-mini", DELEGATE),
        ),
    ),
    Agent(
        "qwen",
        "@qwen-code/qwen-code",
        _openai,
        (
            (*_QWEN, "gpt-5", "-p", ONE),
            (*_QWEN, "gpt-5-mini", "--continue", "-p", TWO),
            (*_QWEN, "gpt-5-mini", "--continue", "-p", THANKS),
            (*_QWEN, "gpt-5-mini", "--continue", "-p", DELEGATE),
        ),
    ),
    Agent(
        "pi",
        "@mariozechner/pi-coding-agent",
        _pi,
        (
            ("-p", "--provider", "cannery", "--model", "gpt-5", ONE),
            ("-p", "-c", "--provider", "cannery", "--model", "gpt-5-mini", TWO),
            ("-p", "-c", "--provider", "cannery", "--model", "gpt-5-mini", THANKS),
        ),
    ),
    # It resumes a session only in a terminal (3.0.65, --id).
    Agent("cline", "cline", _cline, (("--json", "-P", "openai-compatible", "-m", "gpt-5", ONE),)),
    Agent("llm", "llm", _llm, (("-m", "gw", ONE), ("-c", TWO), ("-c", THANKS)), is_python=True),
    Agent(
        "aider",
        "aider-chat",
        _openai,
        tuple((*_AIDER, "-m", prompt) for prompt in (ONE, TWO, THANKS)),
        is_python=True,
    ),
)


def install(agent: Agent) -> Path | None:
    """Install an agent if it is missing; return its program, or None if that failed."""
    home = FOLDER / agent.name
    binary = home / ("bin" if agent.is_python else "node_modules/.bin") / agent.name
    if binary.exists():
        return binary
    home.mkdir(parents=True, exist_ok=True)
    commands = [
        [
            "npm",
            "install",
            "--prefix",
            str(home),
            "--no-audit",
            "--no-fund",
            "--silent",
            agent.package,
        ]
    ]
    if agent.is_python:
        pip = [str(home / "bin" / "pip"), "install", "--quiet", agent.package]
        commands = [[sys.executable, "-m", "venv", str(home)], pip]
    for command in commands:
        if shutil.which(command[0]) is None and not Path(command[0]).exists():
            return None
        if subprocess.run(command, check=False, cwd=home).returncode:
            return None
    return binary if binary.exists() else None


# --- a session -----------------------------------------------------------------------------------


def run(agent: Agent, binary: Path, dialect: str, folder: Path) -> tuple[int, dict[str, int], str]:
    """The number of answered turns, the conversations by kind, and the error."""
    home, work = folder / "home", folder / "work"
    home.mkdir(parents=True)
    work.mkdir()
    upstream = Upstream(work)
    row = f'name = "up"\nurl = "http://127.0.0.1:{upstream.server_port}"\ndialect = "{dialect}"\n'
    (folder / "gateway.toml").write_text(
        f'echo = false\n[[upstreams]]\n{row}key_variable = "UP"\nmodels = ["*"]\n'
    )
    command = [
        sys.executable,
        "-m",
        "cannery.gateway",
        "--port",
        "0",
        "--config",
        str(folder / "gateway.toml"),
    ]
    with (folder / "log").open("wb") as log:
        gateway = subprocess.Popen(
            [*command, "--store", str(folder / "store")],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "UP": "any"},
        )
    try:
        line = gateway.stdout.readline() if gateway.stdout is not None else ""
        url = (re.search(r"http://[^\s/]+", line) or [""])[0]
        environment = {
            key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")
        }
        # Some programs use PWD instead of the current directory.
        environment |= {"HOME": str(home), "PWD": str(work), "CI": "1"}
        environment |= agent.prepare(url, home)
        _git(work, "init", "-q")
        answered, problem = 0, ""
        for number, turn in enumerate(agent.turns):
            (work / f"notes{number}.txt").write_text("written between turns\n")
            _git(work, "add", "-A")
            _git(work, "commit", "-qm", f"Turn {number}")
            (work / f"draft{number}.txt").write_text("not committed\n")
            is_answered, told = _turn([str(binary), *turn], environment, work)
            answered += is_answered
            problem = problem or ("" if is_answered else told)
    finally:
        gateway.terminate()
        gateway.wait(30)
        upstream.shutdown()
    kinds: dict[str, int] = {}
    with open_store(str(folder / "store")) as store:
        for one in store.list(kinds=None):
            name = one.kind or ("fork" if one.parent else "main")
            name += " without a parent" if one.kind and not one.parent else ""
            kinds[name] = kinds.get(name, 0) + 1
    return answered, kinds, problem


def _git(work: Path, *words: str) -> None:
    person = ["-c", "user.name=A", "-c", "user.email=a@localhost"]
    subprocess.run(["git", *person, *words], cwd=work, check=False, capture_output=True)


def _turn(command: list[str], environment: dict[str, str], work: Path) -> tuple[bool, str]:
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return False, "it took too long"
    return done.returncode == 0, (done.stderr or done.stdout)[-300:]


def main() -> int:
    """Run the named agents, or all; return the number of sessions that are not one conversation."""
    wrong = 0
    print("| agent | upstream | turns answered | conversations | verdict |\n|---|---|---|---|---|")
    for agent in AGENTS:
        if sys.argv[1:] and agent.name not in sys.argv[1:]:
            continue
        binary = install(agent)
        if binary is None:
            print(f"| {agent.name} | | | | not installed |", flush=True)
            continue
        for dialect in UPSTREAMS:
            with tempfile.TemporaryDirectory(prefix="agents-") as name:
                answered, kinds, problem = run(agent, binary, dialect, Path(name))
            is_right = (
                kinds.get("main") == 1 and not kinds.get("fork") and answered == len(agent.turns)
            )
            wrong += not is_right
            told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            verdict = "ok" if is_right else f"WRONG {problem!r}"
            print(
                f"| {agent.name} | {dialect} | {answered}/{len(agent.turns)} | {told} | {verdict} |",
                flush=True,
            )
    return wrong


if __name__ == "__main__":
    sys.exit(main())

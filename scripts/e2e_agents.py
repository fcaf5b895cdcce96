"""Run real programs against a running gateway, end to end: simonw's ``llm``, Codex, Claude Code and Cline.

Installs them beside the environment when they are missing, starts a gateway with the built-in echo and a store of its
own, lets each program do what a person would do with it, and says what came out. It talks to loopback only.

    python scripts/e2e_agents.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(os.environ.get("CANNERY_CLIENTS") or Path(sys.prefix) / "clients")
LLM = "llm>=0.30,<1"
CODEX = "@openai/codex"
CLAUDE = "@anthropic-ai/claude-code"
CLINE = "cline"


def main() -> int:
    """Run everything; the exit code is the number of programs that failed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [
            sys.executable,
            "-m",
            "cannery.gateway",
            "--port",
            "0",
            "--store",
            str(folder / "store"),
        ]
        with (folder / "log").open("wb") as log:
            gateway = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = gateway.stdout.readline() if gateway.stdout is not None else ""
            found = re.search(r"http://\S+", line)
            if found is None:
                print("the gateway did not start")
                return 1
            programs = (run_llm, run_codex, run_claude, run_cline)
            failures = [run(found[0], folder) for run in programs]
        finally:
            gateway.terminate()
            gateway.wait(30)
        kept = list((folder / "store" / "conversations").glob("*/messages.jsonl"))
        print(f"\n{len(kept)} conversations were kept")
        print((folder / "log").read_text()[-600:])
    return sum(failures)


def run_llm(url: str, folder: Path) -> bool:
    """Plain, continued and streamed prompts with llm."""
    home = FOLDER / "llm"
    if not (home / ".complete").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(home), LLM]
        subprocess.run(pip, check=True)
        (home / ".complete").touch()
    user = folder / "llm"
    user.mkdir()
    (user / "extra-openai-models.yaml").write_text(
        f"- model_id: echo\n  model_name: echo\n  api_base: {url}/openai/v1\n  api_key_name: none\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(home),
        "LLM_USER_PATH": str(user),
        "OPENAI_API_KEY": "any",
    }
    says = [
        (["-m", "echo", "hello from llm"], "echo: hello from llm"),
        (["-m", "echo", "-c", "and again"], "echo: and again"),
        (["-m", "echo", "--no-stream", "whole"], "echo: whole"),
    ]
    return _run(
        "llm",
        [([sys.executable, "-m", "llm", *words], want) for words, want in says],
        environment,
        folder,
    )


def install(name: str, package: str) -> Path | None:
    """The program of an npm package, installed when it is missing; None without npm."""
    home = FOLDER / name
    binary = home / "node_modules" / ".bin" / name
    if binary.exists():
        return binary
    npm = shutil.which("npm")
    if npm is None:
        print(f"{name}: npm is not here")
        return None
    home.mkdir(parents=True, exist_ok=True)
    quiet = ["--no-audit", "--no-fund", "--silent"]
    install = [npm, "install", "--prefix", str(home), *quiet, package]
    subprocess.run(install, check=True, cwd=home)
    return binary


def _folders(folder: Path, name: str) -> tuple[Path, Path]:
    """A home and a place to work in for one agent."""
    user, work = folder / name, folder / f"{name}-work"
    user.mkdir()
    work.mkdir()
    return user, work


def run_codex(url: str, folder: Path) -> bool:
    """One headless task with Codex, over Responses."""
    binary = install("codex", CODEX)
    if binary is None:
        return True
    user, work = _folders(folder, "codex")
    (user / "config.toml").write_text(
        'model = "echo"\nmodel_provider = "cannery"\n\n[model_providers.cannery]\nname = "Cannery"\n'
        f'base_url = "{url}/openai/v1"\nenv_key = "CANNERY_TEST_KEY"\nwire_api = "responses"\n'
    )
    environment = {**os.environ, "CODEX_HOME": str(user), "CANNERY_TEST_KEY": "any"}
    task = [
        str(binary),
        "exec",
        "--skip-git-repo-check",
        "--cd",
        str(work),
        "say hello to the gateway",
    ]
    return _run("codex", [(task, "say hello to the gateway")], environment, work)


def run_claude(url: str, folder: Path) -> bool:
    """Plain, continued and with a tool: three headless tasks with Claude Code, over Messages."""
    binary = install("claude", CLAUDE)
    if binary is None:
        return True
    user, work = _folders(folder, "claude")
    environment = {
        **os.environ,
        "HOME": str(user),
        "ANTHROPIC_BASE_URL": f"{url}/anthropic",
        "ANTHROPIC_API_KEY": "any",
        # What the program would otherwise ask of the world outside.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    says = [
        (["-p", "say hello to the gateway"], "say hello to the gateway"),
        (["-c", "-p", "and again"], "echo: and again"),
        (["-p", "call Bash", "--allowedTools", "Bash"], "Bash completed"),
    ]
    jobs = [([str(binary), *words, "--model", "echo"], wanted) for words, wanted in says]
    return _run("claude", jobs, environment, work)


def run_cline(url: str, folder: Path) -> bool:
    """One headless task with Cline, over Chat Completions."""
    binary = install("cline", CLINE)
    if binary is None:
        return True
    user = folder / "cline"
    work = folder / "cline-work"
    user.mkdir()
    work.mkdir()
    environment = {**os.environ, "HOME": str(user), "CLINE_DIR": str(user / ".cline")}
    base = f"{url}/openai/v1"
    jobs = [
        ([str(binary), "auth", "-p", "openai", "-b", base, "-k", "any", "-m", "echo"], ""),
        ([str(binary), "-P", "openai", "--json", "say hello to the gateway"], "say hello"),
    ]
    return _run("cline", jobs, environment, work)


def _run(
    name: str, jobs: list[tuple[list[str], str]], environment: dict[str, str], folder: Path
) -> bool:
    has_failed = False
    for command, wanted in jobs:
        done = subprocess.run(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        is_right = done.returncode == 0 and wanted in done.stdout
        has_failed |= not is_right
        print(f"{name}: {'ok' if is_right else 'FAILED'}: {done.stdout.strip()[-200:]!r}")
        if not is_right:
            print(done.stderr[-1500:])
    return has_failed


if __name__ == "__main__":
    sys.exit(main())

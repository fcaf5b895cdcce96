"""The environments of contenders: one for each requirements file, built once and kept in ``.bench``.

``requirements/<name>.in`` names the requirements of a peer, ``requirements/<name>.txt`` pins all of them for Python
3.11; peers with incompatible pins have separate environments. An environment is built again when its pins change. nginx
comes from Debian, and Portkey's gateway from npm by the lock file in ``requirements/portkey``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
REQUIREMENTS = BENCH / "requirements"
ENVIRONMENTS = ROOT / ".bench"
OURS = "cannery"
PORTKEY = "portkey"  # the one peer from npm
# The environment of a contender, if it is not the one with its name.
HOSTS = {"floor": OURS, "postgresql": OURS, "sqlite": OURS}


class NotBuiltError(Exception):
    """An environment or a program could not be installed."""


def names() -> list[str]:
    """Every environment there is a requirements file for, ours first."""
    peers = sorted(path.stem for path in REQUIREMENTS.glob("*.txt"))
    return [OURS, *(name for name in peers if name != OURS)]


def python_of(contender: str) -> Path | None:
    """The interpreter of a contender's environment; for Cannery without one, this interpreter; otherwise None."""
    name = HOSTS.get(contender, contender)
    python = ENVIRONMENTS / name / "bin" / "python"
    if python.exists():
        return python
    return Path(sys.executable) if name == OURS else None


def build(name: str) -> None:
    """Build an environment, unless it exists with the same pins."""
    folder = ENVIRONMENTS / name
    pins = REQUIREMENTS / f"{name}.txt"
    wanted = sha256(pins.read_bytes() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if name != OURS:
        wanted = sha256(pins.read_bytes()).hexdigest()
    stamp = folder / ".made-from"
    if stamp.exists() and stamp.read_text("ascii") == wanted:
        return
    print(f"installing {name} into {folder.relative_to(ROOT)} ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "install", "--requirement", str(pins)])
    if name == OURS:
        _run([*pip, "install", "--editable", f"{ROOT}[cli,gateway,postgres]"])
    stamp.write_text(wanted, "ascii")


def lock(name: str) -> None:
    """Write the pins that pip resolves today for a requirements file."""
    folder = ENVIRONMENTS / f"lock-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wishes = REQUIREMENTS / f"{name}.in"
    _run([*pip, "install", "--requirement", str(wishes)])
    listed = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True).stdout
    head = f"# What pip chose for {wishes.name} with Python 3.11; `scripts/bench --lock {name}` writes it.\n"
    (REQUIREMENTS / f"{name}.txt").write_text(head + listed, "ascii")
    shutil.rmtree(folder)


def quiet() -> dict[str, str]:
    """The variables of a contender's process, which prevent requests to the network."""
    return {
        **os.environ,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        # The proxy requires a statement that it is not reachable from outside.
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LANGSMITH_TRACING": "false",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }


def node() -> str | None:
    """The path of node, if it is installed."""
    return shutil.which("node")


def portkey() -> Path | None:
    """The program of Portkey's gateway, if it and node are installed."""
    server = ENVIRONMENTS / PORTKEY / "node_modules" / "@portkey-ai" / "gateway" / "build"
    found = server / "start-server.js"
    return found if node() and found.exists() else None


def build_portkey() -> None:
    """Install Portkey's gateway from its lock file, unless it is present; without npm it is skipped."""
    lock_file = REQUIREMENTS / PORTKEY / "package-lock.json"
    folder = ENVIRONMENTS / PORTKEY
    stamp, wanted = folder / ".made-from", sha256(lock_file.read_bytes()).hexdigest()
    npm = shutil.which("npm")
    if npm is None or (stamp.exists() and stamp.read_text("ascii") == wanted):
        return
    print(f"installing {PORTKEY} into {folder.relative_to(ROOT)} ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(lock_file.parent, folder)
    _run([npm, "ci", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts"])
    stamp.write_text(wanted, "ascii")


def nginx() -> str | None:
    """The path of nginx, if it is installed."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def install_nginx() -> None:
    """Install nginx from Debian's packages, which requires root."""
    if nginx():
        return
    if os.geteuid() or not shutil.which("apt-get"):
        raise NotBuiltError(
            "the gateway is measured beside nginx: install it first, as in `sudo apt-get install nginx-light`"
        )
    print("installing nginx from Debian's packages ...", flush=True)
    _run(["apt-get", "update", "--quiet=2"])
    _run(["apt-get", "install", "--quiet=2", "--yes", "--no-install-recommends", "nginx-light"])


def _run(command: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    finished = subprocess.run(
        command,
        check=False,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if finished.returncode:
        shown = "\n".join(finished.stdout.splitlines()[-20:])
        raise NotBuiltError(f"{' '.join(command)} failed:\n{shown}")

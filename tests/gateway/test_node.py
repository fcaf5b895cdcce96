"""The Vercel AI SDK under node, through every upstream dialect."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from .running import Running
from .test_clients import OLD_FOLDER, UPSTREAMS, expected, jobs_of

NODE = OLD_FOLDER / "node"


@pytest.mark.parametrize("client", ["compatible", "responses", "messages", "gemini"])
def test_the_ai_sdk(gateway: Running, client: str) -> None:
    if shutil.which("node") is None or not (NODE / "node_modules").is_dir():
        pytest.skip("needs node and its packages: scripts/e2e_clients.py installs them")
    script = NODE / "client.mjs"
    script.write_text((Path(__file__).parent / "client.mjs").read_text())
    jobs = [job for through in UPSTREAMS for job in jobs_of(through)]
    done = subprocess.run(
        ["node", str(script), client, gateway.url, json.dumps(jobs)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for (scenario, model), said in zip(jobs, json.loads(done.stdout), strict=True):
        expected(scenario, model, said)

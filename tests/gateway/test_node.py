"""The Vercel AI SDK under node, through every upstream dialect."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from .clients import SCENARIOS
from .running import Running
from .test_clients import OLD_FOLDER, UPSTREAMS, expected, model_of

NODE = OLD_FOLDER / "node"


@pytest.mark.parametrize("client", ["compatible", "responses", "messages", "gemini"])
def test_the_ai_sdk(gateway: Running, client: str) -> None:
    if shutil.which("node") is None or not (NODE / "node_modules").is_dir():
        pytest.skip("needs node and its packages: scripts/e2e_clients.py installs them")
    script = NODE / "client.mjs"
    script.write_text((Path(__file__).parent / "client.mjs").read_text())
    jobs = [
        (scenario, model_of(through, scenario)) for through in UPSTREAMS for scenario in SCENARIOS
    ]
    done = subprocess.run(
        ["node", str(script), client, gateway.url, json.dumps(jobs)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for (scenario, _), said in zip(jobs, json.loads(done.stdout), strict=True):
        expected(scenario, said)

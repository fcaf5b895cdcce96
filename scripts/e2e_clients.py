"""Install the clients for the gateway's tests that cannot share an environment.

Old majors of the Python SDKs go into folders of their own beside the environment; the npm packages go into one more. A
repeated run installs only missing ones. The tests look in the same place, and skip missing clients.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(os.environ.get("CANNERY_CLIENTS") or Path(sys.prefix) / "clients")
PYTHON = {
    "openai-1": "openai>=1.100,<2",
    "anthropic-0": "anthropic>=0.80,<1",
    "google-genai-1": "google-genai>=1.50,<2",
}
NODE = (
    "ai@6",
    "@ai-sdk/openai@3",
    "@ai-sdk/anthropic@3",
    "@ai-sdk/google@3",
    "@ai-sdk/openai-compatible@2",
    "zod@4",
    "@aws-sdk/client-bedrock-runtime@3",
)


def main() -> int:
    """Install missing clients; return the exit code."""
    for name, requirement in PYTHON.items():
        folder = FOLDER / name
        if not (folder / ".complete").exists():
            print(f"installing {requirement} into {folder}")
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
            subprocess.run([*command, requirement], check=True)
            (folder / ".complete").touch()
    npm = shutil.which("npm")
    folder = FOLDER / "node"
    if npm is None:
        print("npm is not here: the clients for node are left out")
    elif not (folder / ".complete").exists():
        print(f"installing {', '.join(NODE)} into {folder}")
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--silent"]
        subprocess.run([*command, *NODE], check=True)
        (folder / ".complete").touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())

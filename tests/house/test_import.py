"""`import cannery` is light: it loads what a value needs, and nothing that talks to the world."""

import json
import subprocess
import sys

import pytest

# What msgspec itself brings (inspect, uuid, typing_extensions if there) is not ours to forbid.
NOT_LOADED = (
    "_sqlite3",
    "_ssl",
    "aiohttp",
    "anthropic",
    "argparse",
    "asyncio",
    "backports.zstd",
    "compression.zstd",
    "concurrent",
    "ctypes",
    "email",
    "google",
    "granian",
    "http",
    "httpx",
    "httpx2",
    "importlib.metadata",
    "logging",
    "multiprocessing",
    "openai",
    "orjson",
    "pydantic",
    "requests",
    "rich",
    "socket",
    "sqlite3",
    "ssl",
    "starlette",
    "subprocess",
    "tempfile",
    "tomllib",
    "unittest",
    "urllib.request",
    "cannery.backends",
    "cannery.cli",
    "cannery.gateway",
    "cannery.storage",
)
LISTING = "import json, sys; print(json.dumps(sorted(sys.modules)))"


def interpret(program):
    """What a fresh, isolated interpreter prints."""
    finished = subprocess.run(
        [sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True
    )
    return finished.stdout


@pytest.fixture(scope="module")
def loaded():
    """The modules that importing cannery adds to a bare interpreter."""
    bare = set(json.loads(interpret(LISTING)))
    return set(json.loads(interpret(f"import cannery; {LISTING}"))) - bare


def test_the_package_is_loaded(loaded):
    assert "cannery" in loaded


@pytest.mark.parametrize("name", NOT_LOADED)
def test_import_does_not_load(loaded, name):
    assert not [module for module in loaded if module == name or module.startswith(f"{name}.")]

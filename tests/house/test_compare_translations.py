"""The comparison of translations sees every difference that a change makes, and none where nothing changed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SCRIPT = ROOT / "scripts" / "compare_translations.py"
LOSS = ["FIELD_DROPPED", "lost", "nowhere", "made up"]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, text=True)


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("frozen")
    assert run("freeze", folder, "--source", "openai_finetuning", "--drawn", "0").returncode == 0
    return folder


def test_the_same_checkout_has_no_differences(frozen: Path):
    compared = run("compare", frozen)

    assert compared.returncode == 0
    assert " 0 differences" in compared.stdout


@pytest.mark.parametrize(
    "column, value, kind",
    [
        ("body", {"messages": 1}, "body $.messages (int became list)"),
        ("losses", [LOSS], "loss FIELD_DROPPED: gone"),
        ("aliases", {"names": {"a": "b"}, "ids": {}, "freeform": []}, "aliases $.names"),
        ("error", "DialectError: no", "no error any more"),
    ],
)
def test_a_difference_is_told(frozen: Path, tmp_path: Path, column: str, value: object, kind: str):
    (file,) = frozen.glob("*.zst")
    with zstd.open(file, "rb") as lines:
        entry = json.loads(next(lines))
    entry["results"]["openai_chat"][column] = value
    with zstd.open(tmp_path / file.name, "wb") as sink:
        sink.write(json.dumps(entry).encode() + b"\n")

    compared = run("compare", tmp_path)

    assert compared.returncode == 1
    assert kind in compared.stdout

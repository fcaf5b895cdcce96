"""Which files belong to the house, for the tests that read them."""

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "cannery"

_MADE = {".bench", ".git", ".venv", "build", "dist", "__pycache__"}


@functools.cache
def tracked_files() -> tuple[Path, ...]:
    """Every file that git tracks, or every file there is without git (an unpacked sdist)."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False, text=True
    )
    if listed.returncode == 0 and listed.stdout:
        named = [ROOT / name for name in listed.stdout.split("\0") if name]
        return tuple(path for path in named if path.is_file())
    return tuple(
        path
        for path in sorted(ROOT.rglob("*"))
        if path.is_file() and not _MADE.intersection(path.relative_to(ROOT).parts)
    )


def label(path: Path) -> str:
    """The name of a file in test ids and messages."""
    return path.relative_to(ROOT).as_posix()


def modules() -> tuple[Path, ...]:
    """Every module of the package."""
    return tuple(sorted(PACKAGE.rglob("*.py")))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function of a module, with the number of lines that it spans."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def imported(path: Path) -> Iterator[str]:
    """The top-level packages that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]


def documents() -> tuple[Path, ...]:
    """Every page a person reads: the Markdown files at the top and under docs/."""
    return (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))

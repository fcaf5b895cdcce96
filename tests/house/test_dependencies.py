"""The package imports the standard library and what pyproject.toml declares, and nothing else."""

import re
import sys
import tomllib

import pytest

from tests.house.sources import PACKAGE, ROOT, imported, label, modules

# Of the standard library from Python 3.14, where it takes the place of backports.zstd.
NEWER = {"compression"}
# Packages that are imported under another name.
IMPORTED = {"markdown_it_py": "markdown_it"}


def declared(*extras):
    """The packages that the project, with some extras, may import."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = list(project["dependencies"])
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    names = re.findall(r"^[\w.-]+", "\n".join(requirements), re.MULTILINE)
    found = {name.replace("-", "_").partition(".")[0] for name in names}
    return {IMPORTED.get(name, name) for name in found}


def allowed(path):
    part, *inside = path.relative_to(PACKAGE).parts
    # The command line also starts the gateway.
    backends = {"postgresql": ("postgres", "s3"), "_encryption": ("encryption",)}
    extras = {
        "gateway": ("gateway", "bedrock"),
        "cli": ("cli", "gateway"),
        "viewer": ("viewer",),
    }.get(part, backends.get(inside[0] if inside else "", ()))
    return declared(*extras) | sys.stdlib_module_names | NEWER | {"cannery"}


@pytest.mark.parametrize("path", modules(), ids=label)
def test_module_imports_only_what_is_declared(path):
    assert set(imported(path)) - allowed(path) == set()


def test_there_are_three_runtime_dependencies():
    assert declared() == {"msgspec", "orjson", "backports"}

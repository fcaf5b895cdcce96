"""One flat public namespace: listed, sorted, complete, explained."""

import inspect
import re
import tomllib
import types

import cannery
from cannery import errors
from tests.house.sources import ROOT, documents

NAMES = list(getattr(cannery, "__all__", []))


def test_names_are_listed_once_and_sorted():
    assert sorted(set(NAMES)) == NAMES


def test_every_listed_name_exists():
    assert [name for name in NAMES if not hasattr(cannery, name)] == []


def test_every_public_name_is_listed():
    public = {
        name
        for name, value in vars(cannery).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    public.discard("annotations")

    assert public - set(NAMES) == set()


def test_every_public_class_and_function_explains_itself():
    explicable = {
        name: value
        for name in NAMES
        if inspect.isclass(value := getattr(cannery, name)) or inspect.isroutine(value)
    }

    assert [name for name, value in explicable.items() if not inspect.getdoc(value)] == []


def test_every_error_is_public():
    raised = {name for name, value in vars(errors).items() if inspect.isclass(value)}
    raised = {name for name in raised if issubclass(getattr(errors, name), errors.CanneryError)}

    assert raised - set(NAMES) == set()


def test_every_public_name_is_in_the_documents():
    text = "\n".join(page.read_text(encoding="utf-8") for page in documents())
    words = set(re.findall(r"\w+", text))

    assert [name for name in NAMES if name not in words] == []


def test_version_has_one_source():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert getattr(cannery, "__version__", project["version"]) == project["version"]

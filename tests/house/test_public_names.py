"""One flat public namespace: listed, sorted, complete, explained."""

import inspect
import re
import tomllib
import types

import cannery
from cannery import errors
from scripts import write_api
from tests.house.sources import ROOT

NAMES = list(getattr(cannery, "__all__", []))


def order(name):
    """Constants, then classes, then the rest: the order that lint asks of ``__all__``."""
    return (not name.isupper(), not name[0].isupper(), name)


def test_names_are_listed_once_and_sorted():
    assert sorted(set(NAMES), key=order) == NAMES


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


def test_page_of_public_names_is_current():
    written = write_api.PAGE.read_text(encoding="utf-8")

    assert written == write_api.page(), "run `make docs`"
    assert [name for name in NAMES if not re.search(rf"^\| `{name}\b", written, re.MULTILINE)] == []
    assert " at 0x" not in written


def test_version_has_one_source():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert getattr(cannery, "__version__", project["version"]) == project["version"]

"""Functions that are found later are found once, when they are first needed."""

from __future__ import annotations

import sys

import cannery.wire.lazy
from cannery.wire import markers
from cannery.wire.lazy import later, loaded

MODULE = "cannery.wire.sse"


def test_a_module_is_loaded_by_the_first_call(monkeypatch):
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    one_line = later("cannery.wire", "sse", "one_line")
    assert (one_line.__module__, one_line.__name__) == (MODULE, "one_line")
    assert MODULE not in sys.modules
    one_line({})
    assert MODULE in sys.modules


def test_what_is_loaded_is_the_function_itself_and_found_once(monkeypatch):
    flag_error = later("cannery.wire", "markers", "flag_error")
    assert loaded(flag_error) is markers.flag_error
    monkeypatch.delattr(cannery.wire.lazy, "import_module")
    assert flag_error("no") == "[tool error] no"


def test_any_other_function_is_loaded_already():
    assert loaded(len) is len

"""The documents show code that runs and says what it does."""

import pytest

from tests.gateway.running import Running
from tests.house.examples import find_examples, run
from tests.house.sources import label

EXAMPLES = find_examples()


DOCUMENTS = sorted({example.document for example in EXAMPLES})


@pytest.fixture
def gateway(tmp_path):
    """A gateway on its defaults, which some pages tell the reader to start."""
    running = Running(tmp_path / "gateway")
    yield running.url
    running.stop()


@pytest.mark.parametrize("document", DOCUMENTS, ids=label)
def test_examples_run_in_the_order_of_the_page(document, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    if "CANNERY_URL" in document.read_text("utf-8"):
        monkeypatch.setenv("CANNERY_URL", request.getfixturevalue("gateway"))
    names = {"__name__": "example"}

    for example in EXAMPLES:
        if example.document == document and not example.planned:
            run(example.source, str(example), names)


def test_planned_examples_are_still_planned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    for example in EXAMPLES:
        if example.planned:
            with pytest.raises((AttributeError, ImportError), match="cannery"):
                run(example.source, str(example))


@pytest.mark.parametrize(
    "source",
    [
        "1 + 1  # 3",
        "print('a')  # b",
        "len(\n    'ab'\n)  # 3",
        "{'a': 1}  # {'a': 2}",
        "x = 1\nx  # None",
    ],
)
def test_broken_promise_is_noticed(source):
    with pytest.raises(AssertionError):
        run(source)


@pytest.mark.parametrize(
    "source",
    [
        "1 + 1  # 2",
        "print('a # b')  # a # b",
        "b'{}'  # bytes",
        "x = 1  # 2, an assignment promises nothing",
        "(1, 2)  # (1, 2)",
    ],
)
def test_kept_promise_and_prose_pass(source):
    run(source)

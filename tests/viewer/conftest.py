"""A gateway with the viewer and a filled store, and a real browser, for the tests that need them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

import cannery
from tests.gateway.running import Running
from tests.viewer.samples import fill
from tests.viewer.teller import Teller

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def teller() -> Iterator[Teller]:
    running = Teller()
    yield running
    running.close()


@pytest.fixture(scope="session")
def gateway(teller: Teller, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("viewer"), teller.config)
    yield running
    assert running.stop() == 0


class Filled:
    """A gateway whose store has something to show."""

    def __init__(self, running: Running, names: dict[str, str]) -> None:
        self.running = running
        self.url = running.url
        self.names = names

    def page(self, name: str, rest: str = "") -> str:
        return f"{self.url}/ui/c/{self.names[name]}{rest}"


@pytest.fixture(scope="session")
def filled(teller: Teller, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    folder = tmp_path_factory.mktemp("filled")
    with cannery.open_store(folder / "store") as store:
        names = fill(store)
    running = Running(folder, teller.config)
    yield Filled(running, names)
    assert running.stop() == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser; while it lives, a loop runs in this thread that would keep other tests from running theirs."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium's own sandbox needs a user other than root.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        running = playwright.chromium.launch(executable_path=program, args=arguments)
        yield running
        running.close()


class Watched:
    """A page, and everything that it should not do."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.dialogs: list[str] = []
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("dialog", self._dialog)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def foreign(self, base: str) -> list[str]:
        """Requests to anywhere else."""
        return [url for url in self.requests if not url.startswith((base, "data:"))]


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    yield Watched(context.new_page())
    context.close()


@pytest.fixture
def page(watched: Watched) -> Iterator[Any]:
    yield watched.page
    assert watched.dialogs == []
    assert watched.problems == []

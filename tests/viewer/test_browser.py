"""The viewer in a real browser: what a person does, and what no page may do."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

import cannery
from cannery.viewer.static import static_page
from tests.viewer.asking import chat, fetch, in_background
from tests.viewer.conftest import Filled, Watched
from tests.viewer.samples import LONG, fill
from tests.viewer.teller import Teller

pytest.importorskip("playwright", reason="playwright is not installed: make .venv/.develops")


def wait_in_view(page: Any, selector: str, top: int = -5, bottom: int | None = None) -> None:
    """Wait until an element stands still between two heights of the window, those of the window if none are given."""
    page.wait_for_function(
        """([selector, top, bottom]) => {
            const y = document.querySelector(selector)?.getBoundingClientRect().top;
            const isStill = window.lastTop === y;
            window.lastTop = y;
            return isStill && y !== undefined && top <= y && y <= (bottom ?? innerHeight - 10);
        }""",
        arg=[selector, top, bottom],
        polling=50,
    )


@contextlib.contextmanager
def led_on(page: Any) -> Iterator[None]:
    """What is done here leads to another page, which is loaded afterwards: its address may look the same."""
    with page.expect_navigation(wait_until="load"):
        yield


def test_list_and_search_lead_to_the_message(filled: Filled, page: Any):
    page.goto(f"{filled.url}/ui")
    assert page.get_by_role("link", name="Fix the failing test").is_visible()
    assert page.get_by_text("3 branches").first.is_visible()
    page.keyboard.press("/")
    page.keyboard.type("sardines")
    with led_on(page):
        page.keyboard.press("Enter")
    assert page.url.endswith("/ui?q=sardines")
    assert page.locator("mark").first.text_content() == "sardines"
    with led_on(page):
        page.locator("a.snippet").first.click()
    assert page.url.endswith("#m3")
    wait_in_view(page, "#m3")


def test_filters_are_in_the_address(filled: Filled, page: Any):
    page.goto(f"{filled.url}/ui")
    page.get_by_label("Model").fill("gpt-5")
    with led_on(page):
        page.get_by_role("button", name="Filter").click()
    assert "model=gpt-5" in page.url
    assert page.locator(".row").count() == 3
    # A search from here keeps the filter, and so does a filter of the search.
    page.locator("#search").fill("lisbon")
    with led_on(page):
        page.keyboard.press("Enter")
    assert "model=gpt-5" in page.url
    assert page.locator("mark").count() > 0
    page.get_by_label("Client").fill("nobody")
    with led_on(page):
        page.get_by_role("button", name="Filter").click()
    assert {"q=lisbon", "model=gpt-5", "client=nobody"} <= set(
        page.url.partition("?")[2].split("&")
    )
    assert page.get_by_text("No message contains").is_visible()
    with led_on(page):
        page.get_by_role("link", name="Reset").click()
    assert page.url.endswith("/ui?q=lisbon")


def test_long_results_and_thoughts_open(filled: Filled, page: Any):
    page.goto(filled.page("agent"))
    assert page.locator(".parallel .invocation").count() == 2
    assert page.locator(".answer.failed").count() == 1
    assert page.locator("ins.line").first.is_visible()
    long = page.locator("#m6 details.long")
    inner = long.locator("pre")
    assert not inner.is_visible()
    long.locator("summary").click()
    assert inner.is_visible()
    thought = page.locator("#m2 .thought")
    page.keyboard.press("t")
    assert thought.evaluate("each => each.open")
    image = page.locator("#m12 img")
    image.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('#m12 img').naturalWidth === 320")


def test_picker_goes_round_the_branches(filled: Filled, page: Any):
    page.goto(filled.page("chat"))
    picker = page.locator("#b2")
    assert "branch 1 / 3" in picker.text_content()
    wait_in_view(page, "#b2")
    seen = []
    for _ in range(3):
        seen.append(page.locator("#m2 .said").text_content().strip())
        with led_on(page):
            page.get_by_label("Next branch").click()
    assert sorted(seen) == ["And to drink?", "And to eat?", "And to see?"]
    assert page.url.startswith(filled.page("chat"))
    picker.locator("summary").click()
    with led_on(page):
        picker.get_by_role("link", name=re.compile("And to see")).click()
    assert "And to see?" in page.locator("#m2").text_content()


def test_branches_are_mapped_and_compared(filled: Filled, page: Any):
    page.goto(filled.page("chat"))
    # The key scrolls to a picker that is out of view; it opens the map when the picker is in view.
    page.locator(".parting").first.evaluate("picker => picker.scrollIntoView({block: 'center'})")
    wait_in_view(page, ".parting", 60, 840)
    with led_on(page):
        page.keyboard.press("b")
    assert page.url.endswith("/tree")
    assert page.locator("svg.lanes").count() == 3
    with led_on(page):
        page.get_by_role("button", name="Compare").click()
    assert "/compare?" in page.url
    assert page.locator("del").first.text_content()
    assert page.locator("ins").first.text_content()
    assert page.locator(".shared").count() == 2


@pytest.mark.parametrize("size", [(1280, 800), (390, 780)], ids=["desk", "phone"])
def test_first_screens_lead_to_branches_and_losses(
    filled: Filled, browser: Any, size: tuple[int, int]
):
    """Who knows nothing of them sees a way there before scrolling: only what is on the screen is used."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]})
    page = context.new_page()

    def on_screen(selector: str, words: str) -> Any:
        found = page.locator(selector, has_text=re.compile(words, re.IGNORECASE)).first
        box = found.bounding_box()
        assert box, (selector, words)
        assert box["y"] + box["height"] <= size[1], (selector, words, box)
        return found

    page.goto(f"{filled.url}/ui?q=lisbon")
    page.goto(f"{filled.url}/ui?model=gpt-5")
    with led_on(page):
        on_screen(".row a", r"\d branches").click()
    assert page.url.endswith("/tree")
    page.goto(filled.page("chat"))
    on_screen(".tabs a", "branches")
    assert re.search(r"branch \d / 3", on_screen(".picker", "branch").text_content())
    with led_on(page):
        on_screen(".picker a.step >> nth=1", "").click()
    assert "And to" in page.locator("#m2").text_content()
    page.goto(filled.page("agent"))
    on_screen(".tabs a", "as a provider gets it")
    with led_on(page):
        on_screen(".doctor-note", "not carried|breaks").click()
    assert page.locator(".badge.loss, .badge.error, td code").count() > 0
    context.close()


def test_losses_are_found_from_the_message_and_in_the_body(filled: Filled, page: Any):
    page.goto(filled.page("agent"))
    with led_on(page):
        page.get_by_role("link", name="As a provider gets it").click()
    page.get_by_label("Dialect").select_option("gemini_generate")
    with led_on(page):
        page.get_by_role("button", name="Show").click()
    assert "to=gemini_generate" in page.url
    assert page.locator(".verdict").is_visible()
    mark = page.locator(".body .mark a.badge").first
    code = mark.text_content()
    mark.click()
    target = page.evaluate("location.hash")
    assert code in page.locator(f"{target} .marks").text_content()
    page.locator(f"{target} a.to").click()
    assert page.evaluate("location.hash").startswith("#x")


def test_doctors_marks_stand_at_the_message(filled: Filled, page: Any):
    page.goto(filled.page("agent"))
    note = page.locator(".doctor-note").first
    assert re.search("breaks|carried", note.text_content())
    with led_on(page):
        note.click()
    assert re.search("/(doctor|as)", page.url)


def test_keyboard_moves_and_copies(filled: Filled, watched: Watched):
    page = watched.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(filled.page("agent"))
    page.keyboard.press("]")
    assert page.locator(".message.current").get_attribute("id") == "m1"
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.locator(".message.current").get_attribute("id") == "m3"
    page.keyboard.press("k")
    assert page.locator(".message.current").get_attribute("id") == "m2"
    page.keyboard.press("]")
    assert page.locator(".message.current").get_attribute("id") == "m11"
    page.keyboard.press("y")
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "Thanks! And this picture?"
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()
    page.locator("#m10").hover()
    page.get_by_role("button", name="Markdown").click()
    page.wait_for_function(
        "navigator.clipboard.readText().then(text => text.startsWith('## Assistant'))"
    )
    assert not watched.problems


def test_permalink_survives_appends(filled: Filled, page: Any):
    name = chat(filled.url, ("user", "Permalink"))
    filled.running.settle()
    address = f"{filled.url}/ui/c/{name}?at=0#m0"
    history = fetch(f"{filled.url}/ui/c/{name}/m/1.txt")[2].decode()
    said = [("user", "Permalink"), ("assistant", history), ("user", "Second")]
    assert chat(filled.url, *said) == name
    filled.running.settle()
    page.goto(address)
    assert "Permalink" in page.locator("#m0").text_content()
    assert page.locator(".message").count() == 4


def test_open_page_follows_a_running_answer(filled: Filled, teller: Teller, watched: Watched):
    page = watched.page
    name = chat(filled.url, ("user", "Live"))
    filled.running.settle()
    answer = fetch(f"{filled.url}/ui/c/{name}/m/1.txt")[2].decode()
    page.goto(f"{filled.url}/ui/c/{name}")
    said = [("user", "Live"), ("assistant", answer), ("user", "Tell me slowly")]
    asking = in_background(chat, filled.url, *said, model="teller", stream=True)
    teller.say("Once <b>upon</b> ")
    page.locator(".running", has_text="Once <b>upon</b>").wait_for()
    assert page.locator("#tail", has_text="Tell me slowly").is_visible()
    assert page.get_by_text("The answer is being given").is_visible()
    teller.say("a **time**")
    page.locator(".running", has_text="a **time**").wait_for()
    teller.end()
    asking.join(20)
    page.locator("#m3 strong", has_text="time").wait_for()
    assert page.locator(".running").count() == 0
    assert page.locator("#m2").count() == 1
    assert not watched.problems


def test_new_conversation_is_followed_from_the_list_on(
    filled: Filled, teller: Teller, watched: Watched
):
    page = watched.page
    page.goto(f"{filled.url}/ui")
    said = ("user", "A question that nobody has asked yet")
    asking = in_background(chat, filled.url, said, model="teller-late", stream=True)
    row = page.locator(".row.begun", has_text=said[1])
    row.get_by_text("waiting for the first word").wait_for()
    teller.say("The first words")
    row.get_by_text("the answer is being given").wait_for()
    with led_on(page):
        row.locator("a").click()
    page.locator(".running", has_text="The first words").wait_for()
    teller.say(" and the last")
    teller.end()
    asking.join(20)
    # The page is loaded again when everything is filed.
    page.locator("#m1", has_text="The first words and the last").wait_for()
    assert page.locator(".facts").count() == 1
    assert not watched.problems


def test_page_says_when_the_connection_is_gone(tmp_path: Any, browser: Any):
    from tests.gateway.running import Running

    running = Running(tmp_path)
    name = chat(running.url, ("user", "Hello"))
    running.settle()
    context = browser.new_context()
    page = context.new_page()
    with page.expect_response(re.compile("/events")):
        page.goto(f"{running.url}/ui/c/{name}")
    running.stop()
    page.get_by_text("The connection is gone").wait_for()
    context.close()


def test_running_session_moves_to_the_top(filled: Filled, page: Any):
    page.goto(f"{filled.url}/ui")
    name = chat(filled.url, ("user", "I am the newest of all"))
    page.locator(".row:first-child", has_text="I am the newest of all").wait_for()
    assert name in page.locator(".row:first-child a").first.get_attribute("href")


def test_everything_can_be_read_without_javascript(filled: Filled, browser: Any):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(filled.page("agent"))
    assert page.get_by_text("Let me look.").is_visible()
    page.locator("#m6 summary").click()
    assert page.get_by_text("def line_79(): ...").is_visible()
    assert not page.get_by_role("button", name="Keys").is_visible()
    assert page.locator(".message .doctor-note").count() > 0
    with led_on(page):
        page.get_by_role("link", name="Branches", exact=True).first.click()
    assert page.get_by_text("no branches").is_visible()
    page.goto(filled.page("long", f"?start={LONG - 5}&stop={LONG}"))
    assert page.locator(".message").count() >= 3
    page.goto(f"{filled.url}/ui?q=sardines")
    assert page.locator("mark").first.is_visible()
    context.close()


def test_attacks_do_nothing_in_a_real_browser(filled: Filled, watched: Watched):
    page = watched.page
    page.add_init_script(
        "addEventListener('securitypolicyviolation', event => console.error('CSP ' + event.blockedURI))"
    )
    hostile = filled.names["hostile"]
    for path in (
        "",
        f"/c/{hostile}",
        f"/c/{hostile}/m/5",
        f"/c/{hostile}/as?to=gemini",
        f"/c/{hostile}/doctor",
        f"/c/{hostile}/tree",
        f"/compare?a={hostile}&b={filled.names['chat']}",
        "?q=script",
    ):
        page.goto(f"{filled.url}/ui{path}")
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        page.evaluate(
            "for (const each of document.querySelectorAll('.message, .parallel'))"
            " each.style.contentVisibility = 'visible'"
        )
        page.wait_for_timeout(250)
    # The bytes of an SVG that says it is a PNG are not shown.
    problems = [problem for problem in watched.problems if "Failed to load resource" not in problem]
    assert problems == []
    assert watched.dialogs == []
    assert watched.foreign(filled.url) == []
    assert page.evaluate("typeof document.getElementById") == "function"


def test_dark_and_light_follow_the_preference_and_the_switch(filled: Filled, browser: Any):
    colours = []
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto(filled.page("chat"))
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.get_by_role("button", name="Theme").click()
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        context.close()
    assert colours[0] == colours[3]
    assert colours[1] == colours[2]
    assert colours[0] != colours[1]


PAGES = (
    "",
    "?q=lisbon",
    "/c/{agent}",
    "/c/{chat}",
    "/c/{chat}/tree",
    "/c/{agent}/as?to=gemini",
    "/c/{agent}/doctor",
    "/compare?a={agent}&b={chat}",
    "/c/{agent}/m/4",
    "/nothing",
)


@pytest.mark.parametrize("path", PAGES)
def test_nothing_runs_out_of_a_phone(filled: Filled, browser: Any, path: str):
    context = browser.new_context(viewport={"width": 375, "height": 720})
    page = context.new_page()
    page.goto(f"{filled.url}/ui{path.format(**filled.names)}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    context.close()


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(filled: Filled, browser: Any, path: str, scheme: str):
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{filled.url}/ui{path.format(**filled.names)}")
    found = Axe().run(page).response["violations"]
    serious = [
        (
            each["id"],
            [node["html"][:120] for node in each["nodes"][:3]],
            each["nodes"][0]["any"][:1],
        )
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == []
    context.close()


# --- one file ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("static") / "all.html"
    with cannery.open_store("sqlite::memory:") as store:
        names = fill(store, is_long=False)
        chosen = [store.get(names[name]) for name in ("agent", "chat", "hostile")]
        pages = [(each.metadata, each.hydrate()) for each in chosen]
        path.write_bytes(b"".join(static_page(pages)))
    return f"file://{path}"


def test_static_file_reads_folds_and_has_an_outline(exported: str, page: Any):
    page.goto(exported)
    page.locator("#c0 .outline a").first.click()
    assert page.evaluate("location.hash") == "#c0-m1"
    long = page.locator("#c0-m6 details.long")
    assert not long.locator("pre").is_visible()
    long.locator("summary").click()
    assert long.locator("pre").is_visible()
    assert page.evaluate("document.querySelector('#c0-m12 img').naturalWidth") == 320
    assert page.evaluate("document.scripts.length") == 0
    styled = page.evaluate(
        "getComputedStyle(document.querySelector('#c0 .message.user')).borderRadius"
    )
    assert styled != "0px"


def test_static_file_runs_and_loads_nothing(exported: str, watched: Watched):
    watched.page.goto(exported)
    watched.page.evaluate(
        "for (const each of document.querySelectorAll('details')) each.open = true"
    )
    watched.page.wait_for_timeout(200)
    assert watched.dialogs == []
    assert watched.foreign("file://") == []
    # The bytes of an SVG that says it is a PNG are no picture.
    assert [problem for problem in watched.problems if "ERR_" not in problem] == []


# --- speed -------------------------------------------------------------------------------------


def laid_out(browser: Any, url: str, style: str = "") -> float:
    """How many objects Chromium lays out to show a page."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, java_script_enabled=False
    )
    page = context.new_page()
    if style:
        page.route(
            "**/viewer.css*",
            lambda route: route.fulfill(response=(got := route.fetch()), body=got.text() + style),
        )
    session = context.new_cdp_session(page)
    session.send("Performance.enable")
    page.goto(url, wait_until="load")
    page.wait_for_timeout(200)
    told = {
        each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]
    }
    context.close()
    return float(told["LayoutObjects"])


def test_five_thousand_messages_are_laid_out_when_they_are_seen(filled: Filled, browser: Any):
    address = filled.page("long")
    plain = laid_out(
        browser, address, ".message, .parallel { content-visibility: visible !important; }"
    )
    assert laid_out(browser, address) <= 0.1 * plain


def test_finding_and_permalinks_work_in_five_thousand_messages(filled: Filled, page: Any):
    page.goto(filled.page("long", f"?at={LONG // 2}#m{LONG // 2}"))
    wait_in_view(page, f"#m{LONG // 2}", 0, 100)
    assert page.evaluate(f"find('Prompt {LONG // 5 - 1}:')")
    found = page.evaluate("getSelection().anchorNode.parentElement.closest('.message').id")
    assert found == f"m{LONG - 5}"

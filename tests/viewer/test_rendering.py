"""Messages as HTML: roles, calls with their results, folding, what edit tools do."""

from __future__ import annotations

from typing import Any

import pytest

import cannery
from cannery.messages import (
    AssistantCanisterClass,
    ImageContentClass,
    InvocationCanisterClass,
    ReasoningContentClass,
    ResultCanisterClass,
    TextualContentClass,
)
from cannery.storage.exchanges import ExchangeRecord
from cannery.viewer.arrangement import Calls, Silent, Single, arrange, placed
from cannery.viewer.contents import Links
from cannery.viewer.differences import line_changes, word_changes
from cannery.viewer.edits import deed_of, is_patch
from cannery.viewer.elements import Fragments
from cannery.viewer.exchange_facts import by_position
from cannery.viewer.highlighting import highlight, language_of_path
from cannery.viewer.json_lines import laid_out, pretty
from cannery.viewer.markdown import markdown
from cannery.viewer.messages import Surroundings, blocks_html
from cannery.viewer.typed_text import is_setup, passages
from cannery.viewer.visible import visible

LINKS = Links(
    lambda content: "/media", lambda position: f"#m{position}", lambda position: f"/m/{position}"
)


def rendered(*canisters, **around):
    blocks = arrange(placed(canisters))
    return "".join(map(str, blocks_html(blocks, Surroundings(LINKS, **around))))


def test_six_roles_are_told_apart():
    page = rendered(
        cannery.supervisor("Be brief."),
        cannery.document("Facts.", title="Handbook"),
        cannery.user("Hello"),
        cannery.assistant("Hi"),
        cannery.invocation("a", "look", {}),
        cannery.result("a", "seen"),
    )
    for kind in ("supervisor", "document", "user", "assistant", "invocation"):
        assert f'class="message {kind}"' in page
    assert 'class="answer"' in page
    assert "Handbook" in page


def test_every_position_has_exactly_one_anchor():
    canisters = [
        cannery.user("Do two things"),
        AssistantCanisterClass(),
        cannery.invocation("a", "one", {}),
        cannery.invocation("b", "two", {}),
        cannery.result("b", "2"),
        cannery.result("a", "1"),
        cannery.result("lost", "whose?"),
        cannery.assistant("Done"),
    ]
    page = rendered(*canisters)
    for position in range(len(canisters)):
        assert page.count(f'id="m{position}"') == 1


def test_calls_made_at_once_are_grouped_and_answered_by_id():
    window: Any = placed(
        [
            cannery.invocation("a", "one", {}),
            cannery.invocation("b", "two", {}),
            cannery.result("b", "second"),
            cannery.result("a", "first"),
            cannery.invocation("c", "three", {}),
            cannery.result("c", "third"),
        ]
    )
    both: Any
    both, alone = arrange(window)
    assert type(both) is Calls
    said: Any = both
    assert [call.results[0].canister.text for call in said.calls] == ["first", "second"]
    assert isinstance(alone, Calls)
    assert len(alone.calls) == 1


def test_an_id_that_is_used_again_belongs_to_the_latest_call():
    window = placed(
        [
            cannery.invocation("x", "one", {}),
            cannery.result("x", "first"),
            cannery.invocation("x", "two", {}),
            cannery.result("x", "second"),
        ]
    )
    blocks: Any = arrange(window)
    said = [call.results[0].canister.text for block in blocks for call in block.calls]
    assert said == ["first", "second"]


def test_silent_messages_and_results_without_calls_are_kept():
    blocks = list(arrange(placed([AssistantCanisterClass(), cannery.result("gone", "x")])))
    assert isinstance(blocks[0], Silent)
    assert isinstance(blocks[1], Single)


def test_a_failed_call_says_so():
    page = rendered(
        InvocationCanisterClass("a", "run", {"command": "false"}),
        ResultCanisterClass("a", TextualContentClass("exit 1"), error=True),
    )
    assert "failed" in page
    assert "exit 1" in page


def test_long_results_and_thoughts_are_folded_and_short_ones_are_not():
    long = rendered(cannery.invocation("a", "run", {}), cannery.result("a", "line\n" * 60))
    short = rendered(cannery.invocation("a", "run", {}), cannery.result("a", "line\n" * 3))
    thought = rendered(AssistantCanisterClass(ReasoningContentClass("Let me see.")))
    assert '<details class="long">' in long
    assert "61 lines" in long
    assert '<details class="long">' not in short
    assert '<details class="thought">' in thought


def test_a_result_beyond_the_limit_leads_to_all_of_it():
    page = rendered(cannery.invocation("a", "run", {}), cannery.result("a", "x" * 200_000))
    assert "140,000 characters more" in page
    assert "/m/1" in page
    assert len(page) < 100_000


def test_facts_stand_behind_the_last_message_of_their_exchange():
    record = ExchangeRecord(
        time="2026-11-18T00:00:00.000Z",
        request_id="r",
        conversation="c",
        position=2,
        outcome="complete",
        dialect="openai_chat",
        upstream="openai",
        model="gpt-5",
        input_tokens=1200,
        output_tokens=30,
        cache_read_tokens=1000,
        cost=0.0042,
        losses=("X",),
        first_byte=0.25,
        seconds=3.25,
    )
    page = rendered(
        cannery.user("Hi"),
        cannery.assistant("Hello"),
        cannery.user("?"),
        facts=by_position([record, record]),
    )
    behind = page.index('class="facts"')
    assert page.index('id="m1"') < behind < page.index('id="m2"')
    assert "1.2k tokens in (1k cached) · 30 out" in page
    assert "3.2 s" in page
    assert "first byte after 250 ms" in page
    assert "asked 2 times" in page
    assert "$0.0042" in page
    assert "1 loss" in page


def test_images_come_from_the_given_place_and_svg_is_never_shown():
    page = rendered(
        cannery.user(ImageContentClass(b"\x89PNG\r\n\x1a\n", "image/png")),
        cannery.user(ImageContentClass(b"<svg/>", "image/svg+xml")),
    )
    assert page.count("<img") == 1
    assert "Download" in page


@pytest.mark.parametrize(
    "arguments",
    [
        {"file_path": "a.py", "old_string": "x", "new_string": "y"},
        {"path": "a.py", "old_str": "x", "new_str": "y"},
        {"filePath": "a.py", "oldString": "x", "newString": "y"},
        {"path": "a.py", "edits": [{"oldText": "x", "newText": "y"}]},
        {"path": "a.py", "diff": "------- SEARCH\nx\n=======\ny\n+++++++ REPLACE"},
        {"path": "a.py", "diff": "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE"},
    ],
    ids=["claude", "str_replace", "opencode", "edits", "cline", "aider"],
)
def test_edits_of_many_tools_become_the_same_change(arguments):
    deed = deed_of(arguments)
    assert deed.path == "a.py"
    assert [(change.old, change.new) for change in deed.changes] == [("x", "y")]


def test_commands_patches_and_written_files_are_recognised():
    assert deed_of({"command": ["bash", "-lc", "ls | wc"]}).command == "ls | wc"
    assert deed_of({"input": "*** Begin Patch\n*** End Patch"}).patch
    assert deed_of({"file_path": "x.rs", "content": "fn main() {}"}).written == "fn main() {}"
    assert is_patch("diff --git a/x b/x\n")
    assert not is_patch("- a list\n- of things")
    assert deed_of({"query": "weather in Rome"}).subject == "weather in Rome"


def test_changes_are_marked_by_line_and_by_word():
    lines = str(line_changes("a\nb\nc", "a\nB\nc"))
    assert '<del class="line del">-b' in lines
    assert '<ins class="line ins">+B' in lines
    before, after = word_changes("the quick fox", "the slow fox")
    assert before == "the <del>quick</del> fox"
    assert after == "the <ins>slow</ins> fox"


def test_blocks_of_programs_are_parted_from_what_a_person_typed():
    text = "<system-reminder>\nBe careful\n</system-reminder>\nFix the bug\n<open_files>\na.py\n</open_files>"
    assert [(each.tag, each.text) for each in passages(text)] == [
        ("system-reminder", "Be careful"),
        ("", "Fix the bug"),
        ("open_files", "a.py"),
    ]
    assert is_setup("<environment_context>\nx\n</environment_context>")
    assert not is_setup("<b>bold</b> words")
    assert [each.text for each in passages("")] == [""]


def test_markdown_renders_tables_code_and_links():
    page = str(
        markdown(
            "| a | b |\n|--:|---|\n| 1 | 2 |\n\n```py\nx = 1\n```\n\n[site](https://example.com)"
        )
    )
    assert '<td class="right">1</td>' in page
    assert 'data-language="python"' in page
    assert 'rel="noopener noreferrer nofollow"' in page


def test_code_is_coloured_in_known_languages_only():
    assert "k-k" in highlight("def f(): pass", "python")
    assert highlight("<b>", "nosuchlanguage") == "&lt;b&gt;"
    assert language_of_path("src/main.rs") == "rust"
    assert language_of_path("Makefile") == "make"


def test_hidden_characters_are_written_out():
    assert visible("a\u202eb\x1b[0m") == "a[U+202E]b\u241b[0m"
    assert visible("שלום \u200f") == "שלום \u200f"


def test_json_is_laid_out_with_the_paths_of_its_lines():
    value = {"messages": [{"role": "user", "content": "x" * 100}], "n": 1}
    lines = {line.path: line.text for line in laid_out(value)}
    assert lines["messages", 0, "role"].strip() == '"role": "user",'
    assert pretty("{not json") is None


def test_what_was_rendered_once_is_not_rendered_again():
    fragments = Fragments(limit=100)
    made = []

    def render(text):
        made.append(text)
        return markdown(text)

    for _ in range(3):
        fragments.get("markdown", "hello", render)
    assert made == ["hello"]
    for number in range(50):
        fragments.get("markdown", f"text {number}", render)
    fragments.get("markdown", "hello", render)
    assert made.count("hello") == 2

"""Write ``docs/dialects.md``: the features of each dialect, found by translating one body per feature.

``make docs`` runs it, and a test compares. A feature is a request in the model; a dialect supports it if writing the
request for it has no more losses than a plain question. Losses from one dialect to another are found with the body that
the first one writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cannery
from cannery.dialects import all_dialects
from cannery.wire.contract import Dialect

PAGE = Path(__file__).resolve().parent.parent / "docs" / "dialects.md"
_PIXEL = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")
_PDF, _WAV, _MP4 = b"%PDF-1.4\n%%EOF", b"RIFF\x24\0\0\0WAVEfmt ", b"\0\0\0\x18ftypmp42"
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_STRICT = {**_SCHEMA, "additionalProperties": False}
_LOOK = cannery.Tool("look", "Looks something up.", _SCHEMA)
_ASKED = cannery.user("What is it?")
_CALL = cannery.invocation("call_1", "look", {"city": "Oslo"})
_DONE = cannery.result("call_1", "4 degrees")
_PICTURE = cannery.ImageContentClass(_PIXEL, "image/png")


def _ask(*canisters: Any, **settings: Any) -> cannery.Request:
    return cannery.Request(canisters or (_ASKED,), model="model", **settings)


def _set(**controls: Any) -> cannery.Request:
    return _ask(controls=cannery.Controls(**controls))


def _called(result: Any, **settings: Any) -> cannery.Request:
    tools = settings.pop("tools", (_LOOK,))
    return _ask(_ASKED, _CALL, result, tools=tools, **settings)


def _choose(*choice: Any) -> cannery.Request:
    other = cannery.Tool("other", "Does something else.", _SCHEMA)
    return _ask(tools=(_LOOK, other), tool_choice=cannery.ToolChoice(*choice))


def _file(data: bytes, mime_type: str) -> cannery.Request:
    return _ask(cannery.user(cannery.FileContentClass(data, mime_type, name="a file")), _ASKED)


def _features() -> Mapping[str, cannery.Request]:
    schema = cannery.OutputFormat("schema", cannery.Tool("x", schema=_STRICT).schema, "out")
    cited = cannery.TextualContentClass(
        "It is cold.",
        citations=[cannery.Citation("", "{}", "https://example.com/a", "A", None, 0, 5)],
    )
    parts = cannery.PartsContentClass([cannery.TextualContentClass("a map"), _PICTURE])
    custom = cannery.Tool("patch", "Applies a patch.", is_freeform=True)
    patch = cannery.invocation("call_1", "patch", "*** Begin", is_freeform=True)
    reasoning = cannery.ReasoningContentClass("Let me see.")
    answer = cannery.assistant("Hello.")
    return {
        "system message": _ask(cannery.supervisor("Be brief."), _ASKED),
        "system message amid the turns": _ask(
            _ASKED, answer, _ASKED, cannery.supervisor("Be brief."), answer, _ASKED
        ),
        "two users in a row": _ask(_ASKED, _ASKED),
        "trailing assistant message to go on from": _ask(_ASKED, cannery.assistant("It is")),
        "document before the first turn": _ask(
            cannery.document("Oslo is cold.", title="N"), _ASKED
        ),
        "image": _ask(cannery.user(_PICTURE), _ASKED),
        "image by URL": _ask(
            cannery.user(cannery.ImageContentClass(location="https://example.com/a.png")), _ASKED
        ),
        "PDF": _file(_PDF, "application/pdf"),
        "text file": _file(b"Oslo is cold.", "text/plain"),
        "audio": _ask(cannery.user(cannery.AudioContentClass(_WAV, "audio/wav")), _ASKED),
        "video": _ask(cannery.user(cannery.VideoContentClass(_MP4, "video/mp4")), _ASKED),
        "tools, calls and results": _called(_DONE),
        "result that is a JSON object": _called(cannery.result("call_1", {"degrees": 4})),
        "result with an image": _called(cannery.result("call_1", parts)),
        "failed result": _called(cannery.result("call_1", "no such city", error=True)),
        "custom tool with free text": _ask(_ASKED, patch, _DONE, tools=(custom,)),
        "strict tool": _called(_DONE, tools=(cannery.Tool("look", "", _STRICT, strict=True),)),
        "tool choice: required": _choose("required"),
        "tool choice: none": _choose("none"),
        "tool choice: one tool": _choose("named", "look"),
        "no parallel calls": _ask(tools=(_LOOK,), controls=cannery.Controls(parallel_calls=False)),
        "thoughts as text": _ask(
            _ASKED, cannery.assistant(reasoning), answer.replace(joined=True), _ASKED
        ),
        "refusal": _ask(_ASKED, cannery.assistant(cannery.RefusalContentClass("No.")), _ASKED),
        "citation with an address": _ask(_ASKED, cannery.assistant(cited), _ASKED),
        "limit of tokens": _set(max_tokens=64),
        "temperature": _set(temperature=0.5),
        "top_p": _set(top_p=0.9),
        "top_k": _set(top_k=40),
        "stop sequences": _set(stop=("END",)),
        "seed": _set(seed=7),
        "penalties": _set(presence_penalty=0.5, frequency_penalty=0.5),
        "several candidates": _set(candidates=2),
        "JSON answer": _set(output=cannery.OutputFormat("json")),
        "JSON answer by a schema": _set(output=schema),
        "thinking switched off": _set(thinking=cannery.Thinking(enabled=False)),
        "thinking by effort": _set(thinking=cannery.Thinking(effort="high")),
        "thinking by budget": _set(thinking=cannery.Thinking(budget=4096)),
        "metadata": _set(metadata={"team": "a"}),
        "end user": _set(user="u1"),
    }


FEATURES = _features()
_TOP = """\
# Dialects and features

This page is generated by `make docs`: each feature is a small request, written for each dialect and translated between
each pair of them. A check mark: it is said. ≈: said otherwise, with a note. A dash: lost. A cross: refused unless the
policy is `allow`. The codes are those of [losses](losses.md). What depends on the model is not asked for here."""
_MIDDLE = """\
## From each to each

Features that the first dialect has and the second has not. Fields that only one dialect knows are lost everywhere else;
each is named with its path when it happens."""
_MARKS = {"info": "≈", "lost": "–", "blocked": "✗"}


def _codes(losses: tuple[cannery.Loss, ...], usual: frozenset[str]) -> dict[str, str]:
    """The codes of losses that a plain question does not have, with their severities."""
    return {loss.code: loss.severity for loss in losses if loss.code not in usual}


def _said(request: cannery.Request, target: str, usual: frozenset[str]) -> dict[str, str]:
    rendered = cannery.nativize_request(request, target, policy="allow")
    return _codes(rendered.losses, usual)


def _cell(found: dict[str, str]) -> str:
    """How a dialect supports a feature."""
    for severity in ("blocked", "lost", "info"):
        codes = [code for code, given in found.items() if given == severity]
        if codes:
            return f"{_MARKS[severity]} {', '.join(sorted(codes))}"
    return "✓"


def _usual(target: str) -> frozenset[str]:
    return frozenset(
        loss.code for loss in cannery.nativize_request(_ask(), target, policy="allow").losses
    )


def _lost_between(source: Dialect, target: Dialect) -> tuple[list[str], list[str]]:
    """The features that are lost, and those that are changed, from one dialect to another."""
    plain = cannery.nativize_request(_ask(), source.name).body
    usual = frozenset(
        loss.code
        for loss in cannery.translate(
            plain, source=source.name, target=target.name, policy="allow"
        ).losses
    )
    lost, changed = [], []
    for name, request in FEATURES.items():
        rendered = cannery.nativize_request(request, source.name, policy="allow")
        if any(loss.severity != "info" for loss in rendered.losses):
            continue
        found = _codes(
            cannery.translate(
                rendered.body, source=source.name, target=target.name, policy="allow"
            ).losses,
            usual,
        )
        if any(severity != "info" for severity in found.values()):
            lost.append(name)
        elif found:
            changed.append(name)
    return lost, changed


def _feature_table(dialects: list[Dialect]) -> list[str]:
    names = [dialect.name for dialect in dialects]
    usual = {name: _usual(name) for name in names}
    return [
        f"| feature | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
        *(
            f"| {feature} | "
            + " | ".join(_cell(_said(request, name, usual[name])) for name in names)
            + " |"
            for feature, request in FEATURES.items()
        ),
    ]


def _pair_table(source: Dialect, targets: list[Dialect]) -> list[str]:
    rows = ["| to | lost | said otherwise, with a note |", "|---|---|---|"]
    for target in targets:
        if target is not source:
            lost, changed = _lost_between(source, target)
            rows.append(f"| {target.name} | {', '.join(lost)} | {', '.join(changed)} |")
    return rows


def page() -> str:
    """Generate the whole page."""
    apis = [dialect for dialect in all_dialects() if dialect.routes]
    talking = [dialect for dialect in apis if dialect.takes_turns]
    lines = [*_TOP.splitlines(), "", *_feature_table(apis), "", *_MIDDLE.splitlines()]
    for source in talking:
        lines += ["", f"### From {source.name}", "", *_pair_table(source, talking)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

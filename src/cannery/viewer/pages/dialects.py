"""A conversation as a provider receives it, and the doctor's findings for every provider."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import htpy
from htpy import (
    Element,
    Node,
    a,
    button,
    code,
    details,
    div,
    form,
    fragment,
    h2,
    label,
    li,
    ol,
    option,
    p,
    pre,
    section,
    select,
    span,
    strong,
    summary,
    table,
    tbody,
    td,
    th,
    thead,
    tr,
    ul,
)

from cannery.dialects import find_dialect, is_dialect
from cannery.errors import InputError
from cannery.messages import Conversation, InvocationCanisterClass
from cannery.viewer.addresses import below, conversation_address
from cannery.viewer.answers import Asked, Endpoint
from cannery.viewer.highlighting import highlight
from cannery.viewer.marks import (
    Noted,
    Run,
    Spoken,
    all_spoken,
    body_runs,
    place_text,
    served_dialects,
    write_request,
)
from cannery.viewer.messages import mark_html
from cannery.viewer.pages.conversation import Shown, load_shown, tabs
from cannery.viewer.pages.layout import crumbs, document
from cannery.viewer.visible import one_line, visible
from cannery.wording import counted, message_text

MOST = 2_000
_MOST_LINES = 30_000


def as_page(asked: Asked, identifier: str) -> Iterator[bytes]:
    """Render the body beside the conversation, with all marks."""
    shown = load_shown(asked, identifier)
    spoken = _spoken(asked, shown)
    history = _history(shown)
    name = f"{one_line(shown.title, 60)} as {spoken.dialect}"
    twin = below(identifier, "as.json", query={"to": spoken.dialect, "model": spoken.model})
    content = [
        div(".page.wide")[
            div(".page-head")[
                crumbs(
                    a(href=conversation_address(identifier))[one_line(shown.title, 60)],
                    span["As a provider gets it"],
                ),
                tabs(shown, "as"),
                _chooser(identifier, spoken),
                _verdict(spoken),
            ],
            _refused(spoken) if spoken.refusal else _panes(asked, shown, spoken, history),
        ]
    ]
    return document(name, content, kind="as", twin=twin)


def as_data(asked: Asked, identifier: str) -> dict[str, Any]:
    """The page as JSON values."""
    import msgspec

    spoken = _spoken(asked, load_shown(asked, identifier))
    return {
        "dialect": spoken.dialect,
        "model": spoken.model or None,
        "refusal": spoken.refusal or None,
        "body": msgspec.Raw(spoken.body) if spoken.body else None,
        "notes": [_note_data(spoken, note) for note in spoken.notes],
    }


def _note_data(spoken: Spoken, note: Noted) -> dict[str, Any]:
    place = "" if note.position is None else place_text(spoken, note.position)
    mark = note.mark
    return {
        "kind": mark.kind,
        "code": mark.label,
        "detail": mark.detail,
        "message": note.position,
        "path": note.path,
        "body_path": place or None,
    }


def _spoken(asked: Asked, shown: Shown) -> Spoken:
    wanted = asked.query.get("to", "") or served_dialects()[0]
    if not is_dialect(wanted):
        raise InputError(f"no dialect {wanted[:60]!r}; known: {', '.join(served_dialects())}")
    _check_length(shown)
    model = asked.query.get("model", "").strip()
    return write_request(shown.asking(_history(shown), model), wanted)


def _check_length(shown: Shown) -> None:
    if shown.window.length > MOST:
        raise InputError(
            f"the conversation has {counted(shown.window.length, 'message')}; this page shows up to {MOST}. "
            f"`cannery export {shown.metadata.id} --as DIALECT` writes all of it"
        )


def _history(shown: Shown) -> Conversation:
    return shown.conversation.load(hydrate=True)


def _chooser(identifier: str, spoken: Spoken) -> Element:
    return form(".chooser", action=below(identifier, "as"), method="get")[
        label[
            span["Dialect"],
            select(name="to", aria_label="Dialect")[
                (
                    option(value=name, selected=name == spoken.dialect)[name]
                    for name in served_dialects()
                )
            ],
        ],
        label[
            span["Model"], htpy.input(name="model", value=spoken.model, placeholder="as recorded")
        ],
        button(type="submit")["Show"],
    ]


def _verdict(spoken: Spoken) -> Element:
    broken, lost, repaired = map(spoken.count, ("broken", "loss", "repair"))
    told: list[Node] = []
    if broken:
        told.append(span(".badge.error")[f"breaks in {counted(broken, 'place')}"])
    if spoken.refusal:
        told.append(span(".badge.error")["cannot be sent"])
    if lost:
        told.append(span(".badge.loss")[counted(lost, "loss", "losses")])
    if repaired:
        told.append(span(".badge.repair")[counted(repaired, "repair")])
    if not told:
        told.append(span(".badge.fine")["everything is carried over"])
    if infos := spoken.count("info"):
        told.append(span(".badge.info")[counted(infos, "note")])
    return p(".verdict", role="status")[told]


def _refused(spoken: Spoken) -> Element:
    return div(".empty")[h2[f"This cannot be sent as {spoken.dialect}"], p[visible(spoken.refusal)]]


def _panes(asked: Asked, shown: Shown, spoken: Spoken, history: Conversation) -> Node:
    elsewhere = spoken.elsewhere
    return fragment[
        section(".notice", aria_label="About the request as a whole")[
            ul(".marks")[(mark_html(note.mark) for note in elsewhere)]
        ]
        if elsewhere
        else None,
        div(".panes")[
            section(aria_labelledby="pane-left")[
                h2("#pane-left")["Conversation"], _lines(shown, spoken, history)
            ],
            section(aria_labelledby="pane-right")[
                h2("#pane-right")["Body"], _copies(asked, shown, spoken), _body(shown, spoken)
            ],
        ],
    ]


def _lines(shown: Shown, spoken: Spoken, history: Conversation) -> Element:
    """The messages on one line each, with their marks and a link to their place in the body."""
    marks = spoken.by_message
    rows = []
    for position, canister in enumerate(history):
        place = place_text(spoken, position)
        told, said = canister.role.value, ""
        if isinstance(canister, InvocationCanisterClass):
            told, said = canister.name, canister.arguments_text
        words = one_line((said or message_text(canister))[:400], 90)
        gone = "" if place else ".gone"
        rows.append(
            li(
                f"#c{position}.line-{canister.role.value}{gone}{'.marked' if position in marks else ''}"
            )[
                a(".who", href=conversation_address(shown.metadata.id, position))[
                    f"#{position} {visible(told)}"
                ],
                span(".words")[words],
                a(".to", href=f"#x{position}")[place] if place else span(".to")["not in the body"],
                ul(".marks")[(mark_html(mark) for mark in marks[position])]
                if position in marks
                else None,
            ]
        )
    return ol(".message-lines")[rows]


def _body(shown: Shown, spoken: Spoken) -> Element:
    shown_lines = 0
    parts: list[Node] = []
    for run in body_runs(spoken):
        if shown_lines > _MOST_LINES:
            parts.append(p(".quiet")["The rest is left out here; the copy has all of it."])
            break
        shown_lines += len(run.lines)
        parts.append(_run(shown, run))
    return div(".body", tabindex="0", role="region", aria_label="Body")[parts]


def _run(shown: Shown, run: Run) -> Node:
    anchors = [span(f"#x{position}") for position in run.positions]
    notes = None
    if run.notes:
        notes = ul(".marks")[(mark_html(_linked(note)) for note in run.notes)]
    del shown
    return fragment[anchors, notes, pre[highlight("\n".join(run.lines), "json")]]


def _linked(note: Noted) -> Any:
    if note.position is None:
        return note.mark
    import msgspec

    return msgspec.structs.replace(note.mark, link=f"#c{note.position}")


def _copies(asked: Asked, shown: Shown, spoken: Spoken) -> Element:
    identifier = shown.metadata.id
    query = {"to": spoken.dialect, "model": spoken.model}
    return div(".copies")[
        a(".copy", href=below(identifier, "body.json", query=query))["Copy body"],
        details(".curl")[
            summary["Copy as curl"],
            p(".quiet")["Save the body first, then send it:"],
            pre(".code", tabindex="0")[
                curl_text(asked, spoken, below(identifier, "body.json", query=query))
            ],
            a(".copy", href=below(identifier, "curl.txt", query=query))[
                "Copy with the body inside"
            ],
        ],
    ]


def curl_text(asked: Asked, spoken: Spoken, source: str, body: bytes | None = None) -> str:
    """A command that sends the body; with ``body`` it contains the whole body, otherwise it reads a file."""
    dialect = find_dialect(spoken.dialect)
    route = next(route for route in dialect.routes if route.kind == "generate")
    path = route.path.replace("{model}", quote(spoken.model, safe="/:@") or "MODEL")
    endpoint = asked.endpoints.get(spoken.dialect) or Endpoint(
        asked.base or "http://127.0.0.1:8484", "CANNERY_KEY"
    )
    address = endpoint.address + path
    version = endpoint.address.rpartition("/")[2]
    if path.startswith(f"/{version}/"):
        address = endpoint.address + path.removeprefix(f"/{version}")
    headers = {"content-type": "application/json", **dialect.service.headers.always}
    name = dialect.service.headers.key
    key = (
        f"authorization: Bearer ${endpoint.variable}"
        if name == "bearer"
        else f"{name}: ${endpoint.variable}"
    )
    told = [
        f"curl {shlex.quote(address)}",
        *(f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()),
    ]
    told.append(f'-H "{key}"')
    if body is None:
        told.append("--data-binary @body.json")
        base = asked.base or "http://127.0.0.1:8484"
        return f"curl -o body.json {shlex.quote(base + source)}\n" + " \\\n  ".join(told)
    return (
        " \\\n  ".join([*told, f"--data-binary {shlex.quote(body.decode('utf-8', 'replace'))}"])
        + "\n"
    )


def body_of(asked: Asked, identifier: str) -> Spoken:
    """The conversation in the dialect and for the model of a query; InputError if it cannot be sent."""
    spoken = _spoken(asked, load_shown(asked, identifier))
    if spoken.refusal:
        raise InputError(spoken.refusal)
    return spoken


# --- the doctor --------------------------------------------------------------------------------


def doctor_page(asked: Asked, identifier: str) -> Iterator[bytes]:
    """Render the findings for every provider."""
    shown = load_shown(asked, identifier)
    found = _examined(shown)
    content = [
        div(".page")[
            div(".page-head")[
                crumbs(
                    a(href=conversation_address(identifier))[one_line(shown.title, 60)],
                    span["Doctor"],
                ),
                tabs(shown, "doctor"),
            ],
            p(".lead")["What each provider would make of this conversation, sent as it is."],
            div(".table")[
                table[
                    thead[
                        tr[
                            th(scope="col")["Provider"],
                            th(scope="col")["Breaks"],
                            th(scope="col")["Losses"],
                            th(scope="col")["Repairs"],
                            th(scope="col")["Messages"],
                        ]
                    ],
                    tbody[(_provider(identifier, spoken) for spoken in found)],
                ]
            ],
        ]
    ]
    twin = below(identifier, "doctor.json")
    return document(f"Doctor · {one_line(shown.title, 60)}", content, kind="doctor", twin=twin)


def _examined(shown: Shown) -> Sequence[Spoken]:
    _check_length(shown)
    return list(all_spoken(shown.asking(_history(shown))))


def _provider(identifier: str, spoken: Spoken) -> Element:
    address = below(identifier, "as", query={"to": spoken.dialect})
    name = th(scope="row")[a(href=address)[spoken.dialect]]
    if spoken.refusal:
        return tr[
            name,
            td(colspan="4")[span(".badge.error")["cannot be sent"], f" {visible(spoken.refusal)}"],
        ]
    positions = sorted(
        {
            note.position
            for note in spoken.notes
            if note.position is not None and note.mark.kind != "info"
        }
    )
    links = [fragment[a(href=f"{address}#c{at}")[f"#{at}"], " "] for at in positions[:20]]
    more = f"and {len(positions) - 20} more" if len(positions) > 20 else None
    return tr[
        name,
        td[_codes(spoken, "broken")],
        td[_codes(spoken, "loss")],
        td[_codes(spoken, "repair")],
        td[links, more] if positions else td(".quiet")["all fine"],
    ]


def _codes(spoken: Spoken, *kinds: str) -> Node:
    counts: dict[str, int] = {}
    for note in spoken.notes:
        if note.mark.kind in kinds:
            counts[note.mark.label] = counts.get(note.mark.label, 0) + 1
    if not counts:
        return span(".quiet")["none"]
    return fragment[
        (
            fragment[code[name], strong[f" ×{count}"] if count > 1 else None, " "]
            for name, count in counts.items()
        )
    ]


def doctor_data(asked: Asked, identifier: str) -> dict[str, Any]:
    """The page as JSON values: the losses and repairs of each provider, by message."""
    shown = load_shown(asked, identifier)
    return {
        "id": identifier,
        "providers": [
            {
                "dialect": spoken.dialect,
                "refusal": spoken.refusal or None,
                "notes": [_note_data(spoken, note) for note in spoken.notes],
                "address": below(identifier, "as", query={"to": spoken.dialect}),
            }
            for spoken in _examined(shown)
        ],
    }

"""The page of hosted tools says what the tables of the dialects say."""

from __future__ import annotations

from pathlib import Path

from cannery.dialects import all_dialects

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "hosted-tools.md").read_text("utf-8")
DIALECTS = [dialect for dialect in all_dialects() if dialect.hosted.rows]


def test_every_kind_is_on_the_page():
    kinds = sorted({row.kind for dialect in DIALECTS for row in dialect.hosted.rows})
    names = " | ".join(f"`{dialect.name}`" for dialect in DIALECTS)
    assert f"| kind | {names} |" in PAGE
    for kind in kinds:
        rows = [dialect.hosted.row_of(kind) for dialect in DIALECTS]
        cells = " | ".join("" if row is None else f"`{row.tags[0]}`" for row in rows)
        assert f"| {kind} | {cells} |" in PAGE


def test_every_tool_of_the_client_is_on_the_page():
    for dialect in DIALECTS:
        for client in dialect.hosted.clients:
            line = f"| `{client.tags[0]}` | `{dialect.name}` | `{client.name}` |"
            assert line in PAGE


def test_every_tag_belongs_to_one_row():
    for dialect in DIALECTS:
        tags = [tag for row in dialect.hosted.rows for tag in row.tags]
        tags += [tag for client in dialect.hosted.clients for tag in client.tags]
        assert len(tags) == len({*tags})

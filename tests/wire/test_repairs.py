"""Repairs: skipping a pass is only ever a saving, and running them again changes nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import cannery
from cannery.messages.content import ImageContentClass
from cannery.messages.residue import Residue
from cannery.repairs import PASSES, repair
from cannery.repairs.survey import UNPAIRED, survey
from cannery.wire.contract import Piece, Rules
from cannery.wire.losses import Report

IDS = st.sampled_from(["a", "b", "c"])
CANISTERS = st.lists(
    st.one_of(
        st.builds(lambda joined: cannery.user("u", joined=joined), st.booleans()),
        st.builds(lambda joined: cannery.assistant("t", joined=joined), st.booleans()),
        st.just(cannery.assistant()),
        st.just(cannery.supervisor("s")),
        st.sampled_from(["", " ", "\n"]).map(cannery.user),
        st.sampled_from(["", " "]).map(cannery.assistant),
        st.just(cannery.user("m").replace(residue=Residue("x", cache="short"))),
        st.just(cannery.user(ImageContentClass(b"\x89PNG\r\n\x1a\n", "image/jpeg"))),
        st.builds(
            lambda name, joined: cannery.invocation(name, "f", joined=joined), IDS, st.booleans()
        ),
        st.builds(
            lambda name, joined: cannery.result(name, "r", joined=joined), IDS, st.booleans()
        ),
    ),
    max_size=8,
)
STRICT = Rules(
    alternates=True,
    starts_with_user=True,
    ends_with_user=True,
    refuses_blank_text=True,
    late_supervisors="fold",
    call_id_pattern="[a-z_0-9]+",
    call_id_length=20,
    name_pattern="[a-z]+",
    name_length=20,
)
STRICT_ABOUT_ONE = Rules(leading_supervisors="one", cache_marks=1)


def pieces(canisters: list[Any]) -> list[Piece]:
    return [Piece(canister, index) for index, canister in enumerate(canisters)]


def shape(arranged: list[Piece]) -> list[Any]:
    return [
        (
            piece.canister.role.value,
            piece.canister.held,
            getattr(piece.canister, "identifier", getattr(piece.canister, "invocation_id", None)),
        )
        for piece in arranged
    ]


def repaired(
    given_pieces: list[Piece], rules: Rules, report: Report, off: Collection[str] = ()
) -> list[Piece]:
    """The pieces after all passes."""
    return repair(given_pieces, survey(given_pieces, rules), rules, report, off)[0]


@given(canisters=CANISTERS, rules=st.sampled_from([STRICT, STRICT_ABOUT_ONE, Rules()]))
def test_a_pass_that_the_survey_rules_out_changes_nothing(canisters: list[Any], rules: Rules):
    given_pieces = pieces(canisters)
    facts = survey(given_pieces, rules)
    for run, fact in PASSES.values():
        if not facts & fact:
            report = Report()
            arranged = run(given_pieces, rules, report)
            assert shape(arranged) == shape(given_pieces)
            assert not report.lost
            assert not report.repaired


@given(canisters=CANISTERS)
def test_repairing_again_changes_nothing(canisters: list[Any]):
    once = repaired(pieces(canisters), STRICT, Report())
    assert shape(repaired(once, STRICT, Report())) == shape(once)


@given(canisters=CANISTERS)
def test_repaired_calls_are_paired(canisters: list[Any]):
    arranged = repaired(pieces(canisters), STRICT, Report())
    assert not survey(arranged, STRICT) & UNPAIRED


@given(canisters=CANISTERS, off=st.sets(st.sampled_from(sorted(PASSES))))
def test_a_pass_that_is_off_does_nothing(canisters: list[Any], off: set[str]):
    report = Report()
    repaired(pieces(canisters), STRICT, report, off)
    assert not {repair.name for repair in report.repairs(str)} & off


@given(canisters=CANISTERS)
def test_an_answer_that_is_made_moves_no_other(canisters: list[Any]):
    given_pieces = pieces(canisters)
    arranged = PASSES["unanswered_calls"][0](given_pieces, STRICT, Report())
    assert [piece for piece in arranged if not piece.is_synthetic] == given_pieces

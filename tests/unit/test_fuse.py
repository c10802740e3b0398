"""How two legs become one order, and how turns lend to those beside them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.models import Candidate
from hermes_memory_pgvector.recall.fuse import LENT_SHARE, fuse, smooth

_scores = st.floats(-1, 1).map(lambda score: round(score, 4))
legs = st.lists(st.builds(Candidate, st.integers(1, 30), _scores), max_size=20, unique_by=lambda each: each.id)


@st.composite
def neighbourhoods(draw: st.DrawFn) -> dict[int, tuple[int, ...]]:
    """Some turns of one session, each with the ids before and after it."""
    turns = draw(st.sets(st.integers(1, 30)))
    return {turn: tuple(beside for beside in (turn - 1, turn + 1) if 1 <= beside <= 30) for turn in turns}


def best(scores: Mapping[int, float]) -> int:
    return max(scores, key=lambda row: scores[row])


def test_nothing_is_nothing() -> None:
    assert fuse([], []) == {}
    assert smooth({}, {}) == {}


def test_one_leg_decides_alone() -> None:
    leg = [Candidate(1, 0.9), Candidate(2, 0.7), Candidate(3, 0.5)]
    assert fuse(leg, []) == fuse([], leg) == {1: 1.0, 2: pytest.approx(0.5), 3: 0.0}


def test_what_both_legs_find_comes_before_what_one_finds() -> None:
    scores = fuse(
        [Candidate(1, 0.80), Candidate(2, 0.78), Candidate(3, 0.20)],
        [Candidate(4, 0.80), Candidate(2, 0.78), Candidate(5, 0.20)],
    )
    assert best(scores) == 2


def test_equal_scores_stay_equal() -> None:
    assert fuse([Candidate(1, 0.4), Candidate(2, 0.4)], []) == {1: 1.0, 2: 1.0}


@given(legs, legs)
def test_every_candidate_has_a_score_from_0_to_1(vector: list[Candidate], lexical: list[Candidate]) -> None:
    scores = fuse(vector, lexical)
    assert scores.keys() == {each.id for each in [*vector, *lexical]}
    assert all(0 <= score <= 1 + 1e-9 for score in scores.values())


@given(legs, legs, st.floats(0.1, 10), st.floats(-5, 5))
def test_a_legs_scale_does_not_matter(
    vector: list[Candidate], lexical: list[Candidate], factor: float, shift: float
) -> None:
    scaled = [Candidate(each.id, each.score * factor + shift) for each in lexical]
    before, after = fuse(vector, lexical), fuse(vector, scaled)
    assert after == {row: pytest.approx(score, abs=1e-6) for row, score in before.items()}


def test_a_turn_lends_to_those_beside_it_and_keeps_its_place() -> None:
    scores = smooth({10: 1.0, 50: 0.2}, {10: (9, 11), 50: ()})
    assert scores == {10: 1.0, 9: pytest.approx(LENT_SHARE), 11: pytest.approx(LENT_SHARE), 50: pytest.approx(0.2)}


def test_a_turn_between_two_matches_may_pass_a_lonely_one() -> None:
    scores = smooth({10: 1.0, 12: 0.9, 50: 0.6}, {10: (9, 11), 12: (11, 13), 50: ()})
    assert scores[11] > scores[50]


@given(legs.filter(bool), legs, neighbourhoods())
def test_smoothing_loses_nobody_and_keeps_the_best_score(
    vector: list[Candidate], lexical: list[Candidate], beside: dict[int, tuple[int, ...]]
) -> None:
    scores = fuse(vector, lexical)
    smoothed = smooth(scores, beside)
    assert smoothed.keys() >= scores.keys()
    assert max(smoothed.values()) == pytest.approx(max(scores.values()))

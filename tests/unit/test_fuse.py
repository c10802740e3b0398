"""How two legs become one order, and how turns lend to those beside them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.types import Candidate
from hermes_memory_pgvector.recall.fuse import (
    DATED_SHARE,
    LENT_SHARES,
    TOLD_THEN,
    favour,
    fuse,
    smooth,
    trust_in_words,
)
from hermes_memory_pgvector.store.vector_search import Beside

_scores = st.floats(-1, 1).map(lambda score: round(score, 4))
legs = st.lists(st.builds(Candidate, st.integers(1, 30), _scores), max_size=20, unique_by=lambda each: each.id)
word_legs = st.lists(
    st.builds(Candidate, st.integers(1, 30), _scores.map(abs)), max_size=20, unique_by=lambda each: each.id
)


@st.composite
def neighbourhoods(draw: st.DrawFn) -> dict[int, Beside]:
    """Some turns of one session, each with the ids before and after it."""
    turns = draw(st.sets(st.integers(1, 30)))
    return {
        turn: Beside(range(turn - 1, max(0, turn - 3), -1), range(turn + 1, min(31, turn + 3)), draw(st.floats(0, 1)))
        for turn in turns
    }


def best(scores: Mapping[int, float]) -> int:
    return max(scores, key=lambda row: scores[row])


def test_nothing_is_nothing() -> None:
    assert fuse([], []) == {}
    assert smooth({}, {}) == {}


def test_one_leg_decides_alone() -> None:
    leg = [Candidate(1, 0.9), Candidate(2, 0.7), Candidate(3, 0.5)]
    assert fuse(leg, []) == {1: 1.0, 2: pytest.approx(0.5), 3: 0.0}
    assert fuse([], leg) == {1: 1.0, 2: pytest.approx(7 / 9), 3: pytest.approx(5 / 9)}


def test_of_a_leg_of_near_rows_alone_the_last_is_not_far() -> None:
    leg = [Candidate(1, 0.8), Candidate(2, 0.75)]
    assert fuse(leg, [], far=0.3) == {1: 1.0, 2: pytest.approx(0.9)}
    assert fuse(leg, [], far=0.9) == fuse(leg, []) == {1: 1.0, 2: 0.0}
    assert fuse([], [], far=0.3) == {}


def test_what_both_legs_find_comes_before_what_one_finds() -> None:
    scores = fuse(
        [Candidate(1, 0.80), Candidate(2, 0.78), Candidate(3, 0.20)],
        [Candidate(4, 0.80), Candidate(2, 0.78), Candidate(5, 0.20)],
    )
    assert best(scores) == 2


@pytest.mark.parametrize(
    ("coverage", "words", "trust"),
    [
        (0.5, 2, 1.0),  # one word of two
        (0.25, 12, 1.0),  # three words of twelve
        (0.125, 8, 1 / 3),  # one word of eight
        (0.25, 4, 0.5),  # one word of four
    ],
)
def test_words_weigh_in_full_where_a_row_holds_half_of_the_question_or_three_words(
    coverage: float, words: int, trust: float
) -> None:
    rows = [Candidate(1, 0.4, 0.01), Candidate(2, 0.3, coverage)]
    assert trust_in_words(rows, words) == pytest.approx(trust)
    assert trust_in_words([], words) == 0


def test_words_that_say_little_leave_the_order_to_the_vectors() -> None:
    vector, lexical = [Candidate(1, 0.8), Candidate(2, 0.5), Candidate(3, 0.3)], [Candidate(3, 0.1)]
    assert best(fuse(vector, lexical)) == 3
    assert best(fuse(vector, lexical, trust=0.2)) == 1
    assert fuse(vector, lexical, trust=0.2, vector_weight=0.1) == fuse(vector, lexical, vector_weight=0.1)
    assert fuse([], lexical, trust=0.2) == fuse([], lexical)


def test_equal_scores_stay_equal() -> None:
    assert fuse([Candidate(1, 0.4), Candidate(2, 0.4)], []) == {1: 1.0, 2: 1.0}


@given(legs, word_legs)
def test_every_candidate_has_a_score_from_0_to_1(vector: list[Candidate], lexical: list[Candidate]) -> None:
    scores = fuse(vector, lexical)
    assert scores.keys() == {each.id for each in [*vector, *lexical]}
    assert all(0 <= score <= 1 + 1e-9 for score in scores.values())


@given(legs, word_legs, st.floats(0.1, 10), st.floats(-5, 5))
def test_a_legs_scale_does_not_matter(
    vector: list[Candidate], lexical: list[Candidate], factor: float, shift: float
) -> None:
    nearer = [Candidate(each.id, each.score * factor + shift) for each in vector]
    heavier = [Candidate(each.id, each.score * factor) for each in lexical]
    before, after = fuse(vector, lexical), fuse(nearer, heavier)
    assert after == {row: pytest.approx(score, abs=1e-6) for row, score in before.items()}


def test_a_turn_lends_to_those_beside_it_and_keeps_its_place() -> None:
    scores = smooth({10: 1.0, 50: 0.2}, {10: Beside([9, 8], [11]), 50: Beside([], [])})
    near, far = LENT_SHARES
    assert scores == {
        place: pytest.approx(score) for place, score in {10: 1, 9: near, 8: far, 11: near, 50: 0.2}.items()
    }


def test_a_long_turn_lends_less_than_a_short_one() -> None:
    scores = smooth({10: 1.0, 50: 1.0}, {10: Beside([9], []), 50: Beside([49], [], brevity=0.2)})
    assert scores[9] == pytest.approx(LENT_SHARES[0])
    assert scores[49] == pytest.approx(0.2 * LENT_SHARES[0])


def test_no_turn_alone_lifts_another_above_itself() -> None:
    assert all(0 < share < 1 for share in LENT_SHARES)


def test_a_turn_between_two_matches_may_pass_a_lonely_one() -> None:
    beside = {10: Beside([9, 8], [11, 12]), 12: Beside([11, 10], [13, 14]), 50: Beside([], [])}
    scores = smooth({10: 1.0, 12: 0.9, 50: 0.6}, beside)
    assert scores[11] > scores[50]


def test_many_half_matches_around_a_turn_do_not_make_it_pass_a_whole_one() -> None:
    half = {number: 0.5 for number in (8, 9, 11, 12)}
    near = {8: ([], [9, 10]), 9: ([8], [10, 11]), 11: ([10, 9], [12]), 12: ([11, 10], [])}
    beside = {turn: Beside(before, after) for turn, (before, after) in near.items()}
    scores = smooth(half | {50: 1.0}, beside)
    assert best(scores) == 50
    assert scores[10] > 0.5


def test_rows_of_the_named_time_rise_and_none_is_lost() -> None:
    scores = favour({1: 1.0, 2: 0.6, 3: 0.3}, {2: TOLD_THEN})
    assert sorted(scores, key=lambda row: -scores[row]) == [2, 1, 3]
    assert scores[1] - scores[3] == pytest.approx(0.7 / (1 + DATED_SHARE))


def test_what_was_told_then_rises_more_than_what_was_told_around_it() -> None:
    scores = favour({1: 0.5, 2: 0.5, 3: 0.5, 4: 1.0}, {1: TOLD_THEN, 2: TOLD_THEN - 1})
    assert sorted(scores, key=lambda row: -scores[row]) == [1, 4, 2, 3]


@given(legs.filter(bool), word_legs, st.dictionaries(st.integers(1, 30), st.integers(1, TOLD_THEN)))
def test_a_named_time_keeps_scores_from_0_to_1_and_the_order_within(
    vector: list[Candidate], lexical: list[Candidate], told: dict[int, int]
) -> None:
    before = fuse(vector, lexical)
    after = favour(before, told)
    assert after.keys() == before.keys()
    assert all(0 <= score <= 1 + 1e-9 for score in after.values())
    for group in ([row for row in before if told.get(row) == when] for when in (None, 1, TOLD_THEN)):
        assert sorted(group, key=lambda row: (after[row], row)) == sorted(group, key=lambda row: (before[row], row))


@given(legs.filter(bool), word_legs, neighbourhoods())
def test_smoothing_loses_nobody_and_keeps_the_best_score(
    vector: list[Candidate], lexical: list[Candidate], beside: dict[int, tuple[list[int], list[int]]]
) -> None:
    scores = fuse(vector, lexical)
    smoothed = smooth(scores, beside)
    assert smoothed.keys() >= scores.keys()
    assert max(smoothed.values()) == pytest.approx(max(scores.values()))

"""A little for what is recent, and of statements that say the same, the newest."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from itertools import islice, permutations
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.types import Hit
from hermes_memory_pgvector.recall.ranking import RECENCY_WEIGHT, newest_of_near_equals, settle, weighed

NOW = datetime(2026, 5, 20, tzinfo=UTC)


def hit(content: str, *, age_days: float = 0.0, score: float = 0.5, theme: str = "marketing", number: int = 1) -> Hit:
    at = NOW - timedelta(days=age_days)
    return Hit("turns", number, theme, "user", "session-1", content, at, None, score=score)


def settled(given_hits: list[Hit]) -> list[Hit]:
    """The hits in their order, each with the weight of its age."""
    return list(settle([each._replace(score=weighed(each.score, each.at, NOW)) for each in given_hits]).values())


hits = st.lists(
    st.builds(
        hit,
        st.sampled_from(["", "🎉", "the port is 5432", "The port  is 5432", "The port is 5433", "Tea at four", "茶"]),
        age_days=st.floats(-10, 4000),
        score=st.floats(0, 1),
        theme=st.sampled_from(["marketing", "sales"]),
        number=st.integers(1, 99),
    ),
    max_size=12,
)


@given(hits)
def test_need_17_the_recency_weight_is_small(given_hits: list[Hit]) -> None:
    before = {id(each): each.score for each in given_hits}
    for each in settled(given_hits):
        assert any(
            score <= each.score <= score * (1 + RECENCY_WEIGHT) * (1 + 1e-9) + 1e-12 for score in before.values()
        )
    ordered = settled(given_hits)
    assert {(each.theme, " ".join(each.content.casefold().split())) for each in ordered} == {
        (each.theme, " ".join(each.content.casefold().split())) for each in given_hits
    }


@pytest.mark.parametrize("newer_score", [0.55, 0.45])
def test_need_17_of_the_same_text_the_one_told_at_the_named_time_is_shown(newer_score: float) -> None:
    then = hit("The gate code is in the safe", age_days=90)._replace(told_then=True)
    (shown,) = settle([then, hit(then.content, age_days=1, score=newer_score)]).values()
    assert shown.at == then.at


def test_need_17_of_two_equally_good_ones_the_newer_comes_first() -> None:
    old, new = hit("The gate code is in the safe", age_days=90), hit("The gate is painted green", age_days=1)
    assert [each.content for each in settled([old, new])] == [new.content, old.content]


def test_need_17_an_old_better_answer_stays_before_a_new_worse_one() -> None:
    old, new = hit("The gate code is 4711", age_days=3000, score=0.9), hit("Tea at four", score=0.8)
    assert [each.content for each in settled([new, old])] == [old.content, new.content]


def test_need_17_a_date_in_the_future_gains_no_more_than_now() -> None:
    ahead, today = settled([hit("later", age_days=-500), hit("now")])
    assert ahead.score == today.score == pytest.approx(0.5 * (1 + RECENCY_WEIGHT))


def test_need_17_of_the_same_words_the_newest_stands_in_the_place_of_the_best() -> None:
    old = hit("The port is 5432", age_days=300, score=0.9, number=1)
    other = hit("Tea at four", age_days=10, score=0.6, number=2)
    new = hit("the port  is 5432", age_days=2, score=0.7, number=3)
    assert [each.id for each in settled([old, other, new])] == [3, 2]


def test_need_17_of_the_same_words_that_only_stand_beside_what_fits_the_one_that_stands_there_stays() -> None:
    beside = hit("Done, that is on your list.", age_days=9, score=0.35, number=1)
    newest = hit("Done, that is on your list.", age_days=1, score=0.04, number=2)
    assert [each.id for each in settled([newest, beside])] == [1]


def test_need_08_near_equals_collapse_to_the_newest() -> None:
    old = hit("The staging database lives on the host elbe now", age_days=300)
    new = hit("the staging database lives on the host elbe, now!", age_days=3)
    assert newest_of_near_equals([old, new]) == newest_of_near_equals([new, old]) == [new]


def test_need_08_what_is_said_again_with_more_words_or_another_value_is_one_fact() -> None:
    old = hit("The key of the archive room is in the drawer of Ingrid", age_days=300)
    for again in (
        "Remember: the key of the archive room is in the drawer of Ingrid",
        "The key of the archive room is in the drawer of Svante",
        "The key of the archive room is not in the drawer of Ingrid",
    ):
        assert newest_of_near_equals([old, hit(again)]) == [hit(again)]
    doctor = hit("Ada from the house beside the mill is a doctor", age_days=300)
    nurse = hit("Ada from the house beside the mill is a nurse")
    assert newest_of_near_equals([doctor, nurse]) == [nurse]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ticket 12 is open", "Ticket 13 is open"),
        ("ERR_CONN_42 broke the second node of the cluster", "ERR_CONN_43 broke the second node of the cluster"),
        ("Ada likes green tea", "Bob repairs old clocks"),
        (
            "Ada is allergic to nuts and must not eat them at school",
            "Bob is allergic to nuts and must not eat them at school",
        ),
        ("Ada takes two tablets in the morning with water", "Mum takes two tablets in the morning with water"),
        ("The flight from Oslo to Rome leaves at 9:15", "The flight from Rome to Oslo leaves at 9:15"),
        ("Ghent beat Malmö 2-1 in the cup final", "Malmö beat Ghent 2-1 in the cup final"),
        ("The freezer in the cellar is set to -18 degrees", "The freezer in the cellar is set to 18 degrees"),
        (
            "The limit of the search API is 20 requests a minute for each key",
            "The limit of the orders API is 20 requests a minute for each key",
        ),
        (
            "ERROR worker-alpha could not connect to the database on port 5432: refused",
            "ERROR worker-beta could not connect to the database on port 5432: refused",
        ),
        ("There is a leak under the old sink in the kitchen", "There is a leak under the old sink in the bathroom"),
        ("It is in the drawer of the desk in the hall", "It is in the drawer of the desk in the office"),
        ("A van leaves from the gate behind the hall to Ghent", "A van leaves from the gate behind the hall to Malmö"),
        ("🎉", "👍"),
    ],
)
def test_need_08_two_facts_stay_two(one: str, other: str) -> None:
    assert newest_of_near_equals([hit(one), hit(other)]) == [hit(one), hit(other)]


def test_need_04_themes_do_not_replace_each_other() -> None:
    both = [hit("Tea at four", theme="marketing"), hit("Tea at four", theme="sales")]
    assert newest_of_near_equals(both) == both
    assert len(settled(both)) == 2


@given(hits)
def test_collapsing_twice_changes_nothing_and_keeps_the_order(given_hits: list[Hit]) -> None:
    once = newest_of_near_equals(given_hits)
    assert newest_of_near_equals(once) == once
    assert all(each in given_hits for each in once)


@pytest.mark.parametrize("text", ["To {name}: {words}", "{words}, for {name}", "As it is: {words} {name}"])
def test_need_01_long_texts_of_one_template_are_compared_in_a_moment(text: str) -> None:
    """As whoever gives the same order for each customer has them; without numbers, which tell such texts apart."""
    chance = random.Random(1)
    words = " ".join("".join(chance.choices(ascii_lowercase, k=5)) for _ in range(1500))
    names = ["".join(each) for each in islice(permutations("abcdefgh"), 300)]
    many = [hit(text.format(name=name, words=words), number=number) for number, name in enumerate(names)]
    started = time.thread_time()
    assert len(newest_of_near_equals(many)) == 300
    assert time.thread_time() - started < 10


@pytest.mark.parametrize(("words", "rows"), [(1000, 60), (12_000, 550)])
def test_need_19_long_texts_are_compared_in_a_moment(words: int, rows: int) -> None:
    text = " ".join(f"word{number}" for number in range(words))
    many = [hit(f"{text} {number}", number=number) for number in range(rows)]
    started = time.thread_time()
    assert len(newest_of_near_equals(many)) == rows
    assert time.thread_time() - started < 5

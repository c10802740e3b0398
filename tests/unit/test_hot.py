"""The hot block: what stands in it, in what order things leave it, and that it never grows past its budget."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.chunks import estimate_tokens
from hermes_memory_pgvector.recall.hot import HEADING, TEXT_MAX_CHARS, HotFact, HotLimits, Turns, hot_block
from tests.support.hostile import HOSTILE

NOW = datetime(2026, 5, 3, 12, tzinfo=UTC)
ROOMY = HotLimits(tokens=2000, scope_days=14, scope_turns=100)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def fact(id: int, text: str, kind: str = "value", subject: str = "", *, days: float = 1, **more: object) -> HotFact:
    known: dict[str, object] = {"kind": kind, "subject": subject or f"s{id}"}
    return HotFact(id, text, ago(days), **(known | more))  # type: ignore[arg-type]


def test_lines_stand_in_the_notation_by_kind_and_subject() -> None:
    block = hot_block(
        [
            fact(1, "V[srv.prod]: api.example.com:3005", "value", "srv.prod"),
            fact(2, "Which queue do we take?", "question", "queue"),
            fact(3, "JWT for 7 days", "decision", "auth", scope="checkout"),
            fact(4, "C[db.id]: UUID, as in D[ids]: never a serial", "constraint", "db.id"),
            HotFact(5, "V[office]: closes at six.", NOW, pinned=True),
        ],
        (), NOW, ROOMY,
    )  # fmt: skip
    assert block.text.splitlines() == [
        HEADING,
        "C[db.id]: UUID, as in D[ids]: never a serial",
        "?[queue]: Which queue do we take?",
        "D[auth @checkout]: JWT for 7 days",
        "V[srv.prod]: api.example.com:3005",
        "- V[office]: closes at six.",
    ]
    assert block.tokens >= estimate_tokens(block.text)


def test_with_nothing_to_say_there_is_no_heading_either() -> None:
    block = hot_block([], [(NOW, frozenset({"x"}))], NOW, ROOMY)
    assert (block.text, block.tokens, block.pressure) == ("", 0, 0.0)


def words(tokens: int) -> str:
    return "x" * (3 * tokens)


def pressed(facts: list[HotFact], share: float) -> HotLimits:
    """A budget of which these facts take `share` as they stand."""
    return HotLimits(int(hot_block(facts, (), NOW, ROOMY).tokens / share), 14, 100)


def test_from_70_percent_lines_of_one_subject_and_scope_are_one() -> None:
    facts = [
        fact(1, "tokens are signed", "constraint", "auth"),
        fact(2, "JWT", "decision", "AUTH"),
        fact(3, "7 days", "value", "auth"),
        fact(4, "6 hours", "value", "auth", scope="admin"),
    ]
    assert len(hot_block(facts, (), NOW, pressed(facts, 0.65)).lines) == 4
    block = hot_block(facts, (), NOW, pressed(facts, 0.75))
    assert block.lines == ("C[auth]: tokens are signed; D: JWT; V: 7 days", "V[auth @admin]: 6 hours")
    assert block.merged == 2


def test_from_85_percent_facts_of_cooled_scopes_leave_and_come_back_when_spoken_of() -> None:
    facts = [
        fact(1, words(20), "constraint", days=90),
        fact(2, words(20), "constraint", scope="Old", days=90),
        fact(3, words(20), scope="old", days=80),
        fact(4, words(20), scope="old", days=80, pinned=True),
        fact(5, words(20), scope="new", days=3),
    ]
    assert hot_block(facts, (), NOW, pressed(facts, 0.8)).cooled == ()
    block = hot_block(facts, (), NOW, pressed(facts, 0.9))
    assert set(block.cooled) == {2, 3}
    assert len(block.lines) == 3
    spoken = [(ago(2), frozenset({"old"}))]
    assert hot_block(facts, spoken, NOW, pressed(facts, 0.9)).cooled == ()


@pytest.mark.parametrize(("turns", "cooled"), [(99, ()), (100, (1,))])
def test_a_scope_cools_by_the_turns_that_came_after_it_too(turns: int, cooled: tuple[int, ...]) -> None:
    facts = [fact(1, words(50), scope="cart"), fact(2, words(50))]
    since: Turns = [(NOW - timedelta(minutes=1 + number), frozenset[str]()) for number in range(turns)]
    assert hot_block(facts, since, NOW, pressed(facts, 0.9)).cooled == cooled


def test_another_fact_of_the_scope_counts_as_speaking_of_it() -> None:
    facts = [fact(1, words(50), scope="cart", days=40, scope_at=ago(1)), fact(2, words(50), days=40)]
    assert hot_block(facts, (), NOW, pressed(facts, 0.9)).cooled == ()


def test_from_95_percent_what_was_said_longest_ago_goes_cold_constraints_last() -> None:
    facts = [
        fact(1, words(20), "constraint", days=90),
        HotFact(2, words(20), ago(60), pinned=True),
        fact(3, words(20), days=50),
        fact(4, words(20), days=2),
    ]
    assert hot_block(facts, (), NOW, pressed(facts, 0.94)).cold == ()
    assert [hot_block(facts, (), NOW, pressed(facts, share)).cold for share in (0.96, 1.4, 2.0, 6.0)] == [
        (3,), (3, 4), (3, 4, 2), (3, 4, 2, 1),
    ]  # fmt: skip


def test_constraints_may_fill_the_budget() -> None:
    facts = [fact(1, words(30), "constraint"), fact(2, words(30), "constraint")]
    assert len(hot_block(facts, (), NOW, pressed(facts, 1.0)).lines) == 2


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_fact_stays_one_line(hostile: str) -> None:
    facts = [
        fact(1, f"Walrus {hostile}", "constraint", f"a{hostile}", scope=f"b{hostile}"),
        HotFact(2, f"Pinned {hostile}", NOW, pinned=True),
    ]
    block = hot_block(facts, (), NOW, ROOMY)
    assert len(block.text.splitlines()) == 3
    assert block.lines[0].startswith("C[a")
    assert max(map(len, block.lines)) <= TEXT_MAX_CHARS + 150


texts = st.one_of(st.text(min_size=1, max_size=400), st.sampled_from(HOSTILE), st.integers(1, 70).map(words))
facts_given = st.builds(
    HotFact,
    id=st.integers(1, 10**6),
    content=texts,
    said_at=st.floats(0, 200).map(ago),
    kind=st.sampled_from(["constraint", "question", "decision", "value", "fact", "preference", ""]),
    subject=st.sampled_from(["auth", "Auth", "srv.prod", "db.id", ""]),
    scope=st.sampled_from(["", "", "shop", "Shop", "admin"]),
    pinned=st.booleans(),
    scope_at=st.one_of(st.none(), st.floats(0, 200).map(ago)),
)
turns_given = st.lists(
    st.tuples(st.floats(0, 60).map(ago), st.frozensets(st.sampled_from(["shop", "admin"]))), max_size=30
)
limits_given = st.builds(HotLimits, st.integers(0, 400), st.floats(0.1, 60), st.integers(1, 25))


def alike(one: HotFact, other: HotFact) -> bool:
    """Return whether two facts make the same line."""
    return one.id != other.id and hot_block([one], (), NOW, ROOMY).text == hot_block([other], (), NOW, ROOMY).text


@settings(max_examples=300)
@given(st.lists(facts_given, max_size=25, unique_by=lambda each: each.id), turns_given, limits_given, st.randoms())
def test_any_history_keeps_the_budget(
    facts: list[HotFact], turns: Turns, limits: HotLimits, order: random.Random
) -> None:
    block = hot_block(facts, turns, NOW, limits)
    assert estimate_tokens(block.text) <= max(block.tokens, 1)
    assert block.tokens <= limits.tokens

    by_id = {each.id: each for each in facts}
    held = [each for each in facts if each.text]
    assert all(by_id[id] in held for id in (*block.cooled, *block.cold))
    alone = hot_block(held, turns, NOW, limits)
    assert alone == block, "what has no text changes nothing"

    shuffled, talk = list(facts), list(turns)
    order.shuffle(shuffled)
    order.shuffle(talk)
    assert hot_block(shuffled, talk, NOW, limits) == block

    if any(by_id[id].letter == "C" for id in block.cold):
        left = {*block.cooled, *block.cold}
        assert all(line.startswith("C[") for line in block.lines)
        assert all(each.id in left for each in held if each.letter != "C" and not any(alike(each, o) for o in held))
    if block.pressure < 0.7:
        assert (block.merged, block.cooled, block.cold) == (0, (), ())

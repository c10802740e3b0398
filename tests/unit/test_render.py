"""What the agent sees of a recall: one heading, one line a hit, whatever the hit holds; or a tool's JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.chunks import estimate_tokens
from hermes_memory_pgvector.domain.types import Hit, Store
from hermes_memory_pgvector.recall.block import Line
from hermes_memory_pgvector.recall.render import (
    AROUND_MAX_CHARS,
    BRIEF_MAX_CHARS,
    LINE_MAX_CHARS,
    RESULT_MAX_CHARS,
    as_result,
    quoted,
    render_block,
)
from tests.support.hostile import HOSTILE, plain_lines

AT = datetime(2026, 5, 3, 9, 12, 44, 500_000, tzinfo=UTC)


def hit(content: str = "The spring campaign starts on 3 May.", **more: object) -> Hit:
    known: dict[str, object] = {
        "store": "memories", "id": 7, "theme": "marketing", "kind": "memory", "session_id": "session-1",
        "content": content, "at": AT, "similarity": 0.81234,
    }  # fmt: skip
    return Hit(**(known | more))  # type: ignore[arg-type]


hits = st.builds(
    hit,
    st.one_of(
        st.sampled_from(HOSTILE),
        st.text(max_size=900),
        st.lists(st.sampled_from([*HOSTILE, "memory-context>", "<", "</", "`", '"', "\n"]), max_size=8).map("".join),
    ),
    store=st.sampled_from(get_args(Store)),
    kind=st.just("user"),
)  # fmt: skip


@pytest.mark.parametrize("content", HOSTILE)
def test_need_23_a_hostile_text_stays_one_quoted_line(content: str) -> None:
    lines = [Line(hit(f"Walrus {content}")), Line(hit("Tea at four", id=8))]
    block, told = render_block(lines, "obey", max_tokens=800)
    assert len(plain_lines(block)) == len(told) == 2


def said(content: str, kind: str) -> Hit:
    return hit(content, store="turns", kind=kind)


replies = st.builds(said, st.sampled_from(HOSTILE), st.just("assistant"))
predecessors = st.tuples(st.sampled_from(HOSTILE), st.just(AT))
lines = st.builds(Line, hits, st.none() | replies, st.none() | predecessors)


@given(st.lists(lines, max_size=6), st.text(max_size=30), st.integers(0, 1000))
@example([Line(said(content, "user"), said(content, "assistant")) for content in HOSTILE], "memory-context", 4000)
@example([Line(said(content, "assistant"), said(content, "user")) for content in HOSTILE], "memory-context", 4000)
def test_need_23_any_block_is_a_heading_and_a_line_each_within_its_budget(
    given_lines: list[Line], question: str, max_tokens: int
) -> None:
    block, told = render_block(given_lines, question, max_tokens=max_tokens)
    if not told:
        assert block == ""
        return
    assert len(plain_lines(block)) == len(told)
    assert all(each in given_lines for each in told)
    assert estimate_tokens(block) <= max_tokens


@given(st.one_of(st.text(max_size=2000), st.sampled_from(HOSTILE).map(lambda text: text * 9)), st.text(max_size=30))
def test_need_23_quoting_what_was_quoted_changes_nothing_and_is_short(text: str, question: str) -> None:
    once = quoted(text, question)
    assert len(once) <= LINE_MAX_CHARS
    assert quoted(once, question) == once


def test_need_23_a_text_of_marks_alone_is_no_line() -> None:
    assert render_block([Line(hit("</memory-context>\n\u200b```"))], "", max_tokens=800) == ("", [])


def test_need_23_ordinary_text_is_left_alone() -> None:
    for text in (
        "if a < b and c > d: return Map<String, Int>",
        "The <b>bold</b> claim, see docs/system.md and the memory usage graph",
        "E-Mail an anna@example.org, 12:30 Uhr, 上海办公室",
    ):
        assert quoted(text) == text


def test_need_17_every_line_carries_its_date_and_who_said_it() -> None:
    given_hits = [
        hit("Tea at four", kind="memory"),
        hit("Likes tea", kind="user"),
        hit("I like tea", store="turns", kind="user"),
        hit("Noted", store="turns", kind="assistant"),
        hit("Delegated: find tea", store="turns", kind="tool"),
    ]
    block, _ = render_block(list(map(Line, given_hits)), "tea", max_tokens=800)
    assert plain_lines(block) == [
        '- [2026-05-03, memory] "Tea at four"',
        '- [2026-05-03, about the user] "Likes tea"',
        '- [2026-05-03, user said] "I like tea"',
        '- [2026-05-03, assistant said] "Noted"',
        '- [2026-05-03, tool said] "Delegated: find tea"',
    ]


def test_need_37_an_exchange_is_one_line_with_the_question_in_brief() -> None:
    question, answer = said("When is tea? " * 40, "user"), said("At four", "assistant")
    told = [Line(answer, question), Line(said("I like tea", "user"), answer)]
    block, _ = render_block(told, "tea", max_tokens=800)
    first, second = plain_lines(block)
    assert first.startswith('- [2026-05-03, user said] "…') and first.endswith('…" [assistant] "At four"')
    assert "When is tea?" in first
    assert len(first) < BRIEF_MAX_CHARS + 70
    assert second == '- [2026-05-03, user said] "I like tea" [assistant] "At four"'


def test_need_37_what_replaces_another_says_so() -> None:
    older = hit("Tea is at three", at=datetime(2025, 1, 2, tzinfo=UTC))
    block, _ = render_block([Line(hit("Tea is at four"), replaced=("three", older.at))], "tea", max_tokens=800)
    assert plain_lines(block) == ['- [2026-05-03, memory] "Tea is at four" (replaces "three" of 2025-01-02)']


def test_need_08_what_does_not_fit_makes_room_for_what_does() -> None:
    long, short = Line(hit("tea " * 140)), Line(hit("Tea at four", id=8))
    block, told = render_block([long, short], "tea", max_tokens=55)
    assert told == [short] and len(plain_lines(block)) == 1
    assert render_block([long, short], "tea", max_tokens=20) == ("", [])
    assert render_block([], "tea", max_tokens=800) == ("", [])


def test_need_08_of_what_does_not_fit_the_part_that_answers_is_quoted() -> None:
    talk = "Nothing of note was said about it. " * 12
    for budget in (64, 100, 150):
        long = Line(hit(f"{talk}The vault code is QUARTZ-7719. {talk}"))
        block, told = render_block([long], "vault code", max_tokens=budget)
        (line,) = plain_lines(block)
        assert len(told) == 1 and estimate_tokens(block) <= budget
        assert "vault code is QUARTZ-7719" in line and line.endswith('…"')


@given(st.text(max_size=300))
def test_need_08_tokens_are_guessed_high(text: str) -> None:
    # No tokenizer makes more tokens of a text than it has bytes, and English ones need four letters each.
    assert len(text) // 3 <= estimate_tokens(text) <= len(text) + 1
    assert estimate_tokens("部署" * 10) >= 20


def test_a_result_says_what_it_is_and_where_it_comes_from() -> None:
    assert as_result(hit(), "campaign", explain=False) == {
        "id": 7,
        "theme": "marketing",
        "target": "memory",
        "date": "2026-05-03T09:12:44+00:00",
        "content": "The spring campaign starts on 3 May.",
        "similarity": 0.8123,
        "session_id": "session-1",
    }
    turn = as_result(hit(store="turns", kind="user", similarity=None, session_id=None), "campaign", explain=False)
    assert turn["role"] == "user" and turn["similarity"] is None
    assert "target" not in turn and "session_id" not in turn


def test_need_24_explain_says_which_leg_found_a_hit_at_which_rank() -> None:
    found = hit(score=0.91239, coverage=0.5, vector_rank=2, word_rank=None)
    assert as_result(found, "campaign", explain=True)["explain"] == {
        "score": 0.9124,
        "meaning_rank": 2,
        "words_rank": None,
        "words_coverage": 0.5,
        "beside_a_match": False,
    }
    assert as_result(hit(), "campaign", explain=True)["explain"]["beside_a_match"] is True


def test_need_19_a_result_shows_the_part_of_a_long_text_that_answers_and_says_how_long_it_is() -> None:
    text = "Nothing was said. " * 1500 + "The vault code is QUARTZ-7719. " + "Nothing was said. " * 700
    beside = hit(text, store="turns", kind="assistant")
    result = as_result(hit(text, store="turns", kind="user")._replace(around=(beside,)), "vault code?", explain=False)
    assert "QUARTZ-7719" in result["content"] and len(result["content"]) <= RESULT_MAX_CHARS
    assert result["excerpt_of_chars"] == len(text)
    (around,) = result["around"]
    assert set(around) == {"id", "role", "date", "content"}
    assert "QUARTZ-7719" in around["content"] and len(around["content"]) <= AROUND_MAX_CHARS
    assert "excerpt_of_chars" not in as_result(hit(), "campaign", explain=False)
    assert json.loads(json.dumps(result, allow_nan=False)) == result

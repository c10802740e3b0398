"""Which words of a question the text index is asked for."""

from __future__ import annotations

import pytest

from hermes_memory_pgvector.domain.text import both_ends
from hermes_memory_pgvector.store.question_words import (
    ENDS_CHARS,
    HIT_BUDGET,
    MAX_PHRASES,
    MAX_TERMS,
    WIDE_BUDGET,
    QuestionWord,
    choose,
    exactly,
    phrases,
    replaced,
    select,
    widened,
    word,
)

ROWS = 200_000.0


def test_a_small_theme_is_searched_for_every_word() -> None:
    choice = exactly([QuestionWord("'a'"), QuestionWord("'b'")])
    assert choice.match == "'a' | 'b'"
    assert not choice.partial
    assert all(word.holding is None for word in choice.words)


def test_rare_words_propose_and_common_words_only_weigh() -> None:
    choice = choose([QuestionWord("'common'", 100_000), QuestionWord("'rare'", 10)], ROWS)
    assert choice.match == "'rare'"
    assert choice.partial
    assert set(choice.words) == {QuestionWord("'rare'"), QuestionWord("'common'", 100_000)}


def test_the_budget_of_rows_is_kept() -> None:
    words = [QuestionWord(f"'w{number}'", HIT_BUDGET / 4 + number) for number in range(8)]
    choice = choose(words, ROWS)
    assert sum(word.holding is None for word in choice.words) == 3
    assert len(choice.words) == 8


def test_common_words_that_rarely_stand_together_are_asked_for_together() -> None:
    choice = choose([QuestionWord("'a'", 5_000), QuestionWord("'b'", 6_000), QuestionWord("'c'", 150_000)], ROWS)
    assert choice.match == "('a' & 'b')"


def test_nothing_but_words_that_are_everywhere_asks_the_index_for_nothing() -> None:
    choice = choose([QuestionWord("'a'", 100_000), QuestionWord("'b'", 120_000)], ROWS)
    assert choice.match is None
    assert choice.partial


def test_the_second_try_takes_all_words_unless_they_are_in_too_many_rows() -> None:
    few = choose([QuestionWord("'a'", 30_000), QuestionWord("'b'", 10)], ROWS)
    wide = widened(few)
    assert wide is not None
    assert wide.match == "'b' | 'a'"
    assert not wide.partial
    assert widened(choose([QuestionWord("'a'", WIDE_BUDGET + 1)], ROWS)) is None


def test_quoted_strings_are_phrases() -> None:
    assert phrases('find "light harbour" and “dry run”, „zwei“') == ["light harbour", "dry run", "zwei"]
    assert phrases("«trois» 「会议室」『四』") == ["trois", "会议室", "四"]
    assert phrases('"a b" "a b"') == ["a b"]
    assert phrases('他说"会议室"了') == ["会议室"]


@pytest.mark.parametrize(
    "text", ["", '"', '""', '" a', 'a 5" and a 6" pipe', '"!?"', "don't say 'this'", '"two\nlines"']
)
def test_what_is_not_quoted_is_no_phrase(text: str) -> None:
    assert phrases(text) == []


def test_pasted_text_with_many_quotes_has_no_phrases() -> None:
    assert len(phrases(" ".join(f'"w{n}"' for n in range(MAX_PHRASES)))) == MAX_PHRASES
    assert phrases(" ".join(f'"w{n}"' for n in range(MAX_PHRASES + 1))) == []


def test_the_ends_of_a_long_question_give_their_words_first() -> None:
    ends = both_ends("why " + "a" * 5_000 + " how", ENDS_CHARS)
    assert ends.startswith("why ") and ends.endswith(" how")
    chosen = select([f"identifier{number}" for number in range(100)] + ["why", "how"], {"why", "how"})
    assert len(chosen) == MAX_TERMS and chosen[:2] == ["how", "why"]


def test_a_single_character_stands_for_itself_only_alone() -> None:
    assert select(["会议", "议室", "室"], ()) == ["会议", "议室"]
    assert select(["猫"], ()) == ["猫"]
    assert word("猫").matcher == "'猫':*"
    assert word("会议").absent < word("room").absent == 1.0


def test_signs_of_the_query_language_are_quoted() -> None:
    assert word("o'neil\\").matcher == "'o''neil\\\\'"


def test_another_spelling_takes_the_place_of_a_word() -> None:
    choice = replaced(exactly([QuestionWord("'zepelin'"), QuestionWord("'lake'")]), {"'zepelin'": "('zeppelin')"})
    assert [each.matcher for each in choice.words] == ["('zeppelin')", "'lake'"]
    assert choice.match is not None and choice.match.endswith("| ('zeppelin')")

"""Which words of a question the text index is asked for."""

from __future__ import annotations

from hermes_memory_pgvector.store.words import HIT_BUDGET, WIDE_BUDGET, Word, choose, exactly, widened

ROWS = 200_000.0


def test_a_small_theme_is_searched_for_every_word() -> None:
    choice = exactly(["'a'", "'b'"])
    assert choice.match == "'a' | 'b'"
    assert not choice.partial
    assert all(word.holding is None for word in choice.words)


def test_rare_words_propose_and_common_words_only_weigh() -> None:
    choice = choose([Word("'common'", 100_000), Word("'rare'", 10)], ROWS)
    assert choice.match == "'rare'"
    assert choice.partial
    assert set(choice.words) == {Word("'rare'"), Word("'common'", 100_000)}


def test_the_budget_of_rows_is_kept() -> None:
    words = [Word(f"'w{number}'", HIT_BUDGET / 4 + number) for number in range(8)]
    choice = choose(words, ROWS)
    assert sum(word.holding is None for word in choice.words) == 3
    assert len(choice.words) == 8


def test_common_words_that_rarely_stand_together_are_asked_for_together() -> None:
    choice = choose([Word("'a'", 5_000), Word("'b'", 6_000), Word("'c'", 150_000)], ROWS)
    assert choice.match == "('a' & 'b')"


def test_nothing_but_words_that_are_everywhere_asks_the_index_for_nothing() -> None:
    choice = choose([Word("'a'", 100_000), Word("'b'", 120_000)], ROWS)
    assert choice.match is None
    assert choice.partial


def test_the_second_try_takes_all_words_unless_they_are_in_too_many_rows() -> None:
    few = choose([Word("'a'", 30_000), Word("'b'", 10)], ROWS)
    wide = widened(few)
    assert wide is not None
    assert wide.match == "'b' | 'a'"
    assert not wide.partial
    assert widened(choose([Word("'a'", WIDE_BUDGET + 1)], ROWS)) is None

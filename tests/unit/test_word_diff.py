"""What of a text is new, word by word."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_memory_pgvector.dashboard.word_diff import WordDiffs

COMPARED = 50_000  # characters, all that is ever compared


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("I live in Berlin.", "I live in Bern.", "=I live in |-Berlin|+Bern|=."),
        ("a b c", "a x b c", "=a |+x |=b c"),
        ("der Hund bellt laut", "die Katze bellt laut", "-der Hund|+die Katze|= bellt laut"),
        ("one two three four", "one 2 three 4", "=one |-two |+2 |=three |-four|+4"),
        ("same", "same", "=same"),
        ("", "new", "+new"),
        ("old", "", "-old"),
        ("", "", ""),
    ],
)
def test_words_that_changed_are_told(before: str, after: str, told: str) -> None:
    assert "|".join(op + text for op, text in WordDiffs().diff(before, after)) == told


@given(st.text("ab \n.", max_size=200), st.text("ab \n.", max_size=200))
def test_nothing_is_lost(before: str, after: str) -> None:
    found = WordDiffs().diff(before, after)
    assert "".join(text for op, text in found if op != "+") == before
    assert "".join(text for op, text in found if op != "-") == after


def test_of_what_stays_only_what_stands_beside_a_change_is_told() -> None:
    before = "word " * 1_000_000 + "old" + " word" * 1000
    first, *changed, last = WordDiffs().diff(before, before.replace("old", "new"))
    assert changed == [["-", "old"], ["+", "new"]]
    assert len(first[1]) == len(last[1]) == 603


@pytest.mark.parametrize("letters", ["x", "x ", "ab ", "ab\n"])
def test_huge_texts_take_no_longer(letters: str) -> None:
    chosen = random.Random(1)
    before, after = ("".join(chosen.choices(letters, k=COMPARED)) for _ in range(2))
    began = time.process_time()
    found = WordDiffs().diff(before, after + "!")
    assert time.process_time() - began < 2
    assert sum(len(text) for _, text in found) < 20_000


def test_every_second_word_of_a_huge_text_changed_takes_no_longer() -> None:
    """Each equal word by itself costs little, and there are thousands of them, as in a table with new figures."""
    before, after = (" ".join(f"n{row:x} {new}{row:x}" for row in range(COMPARED // 11)) for new in "ab")
    began = time.process_time()
    found = WordDiffs().diff(before, after)
    assert time.process_time() - began < 2
    assert found[:4] == [["=", "n0 "], ["-", "a0 "], ["+", "b0 "], ["=", "n1 "]], "as far as it came, word by word"


def test_many_texts_take_no_longer_than_a_few() -> None:
    chosen, diffs = random.Random(1), WordDiffs()
    texts = [" ".join(chosen.choices("abcdefgh", k=800)) for _ in range(100)]
    began = time.process_time()
    for before, after in pairwise(texts):
        diffs.diff(before, after)
    assert time.process_time() - began < 3

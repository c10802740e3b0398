"""Every part of a text is in some chunk, and no chunk is too long."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.chunks import chunk_spans, estimate_tokens

PIECES = ["word ", "Sentence ends. ", "\n\n", "漢字", "x" * 50, "é", "https://a.b/c?d=e ", "\N{FIRE}"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=300).map("".join)


@given(TEXTS, st.integers(8, 200))
def test_chunks_cover_the_text_and_keep_to_the_limit(text: str, max_tokens: int) -> None:
    spans = chunk_spans(text, max_tokens)
    assert spans[0].first == 0
    assert spans[-1].end == len(text)
    for one, next_ in pairwise(spans):
        assert one.first < next_.first <= one.end < next_.end
    assert all(estimate_tokens(text[first:end]) <= max_tokens + 1 for first, end in spans)


@pytest.mark.parametrize("text", ["", "a", "A short note.", "漢字" * 100])
def test_a_short_text_is_one_chunk(text: str) -> None:
    assert chunk_spans(text, 400) == [(0, len(text))]


def test_a_long_text_is_cut_between_sentences() -> None:
    text = "The crane was inspected on Monday morning by two engineers. " * 100
    for first, end in chunk_spans(text, 200)[:-1]:
        assert text[end - 2 : end] == ". "
        assert first == 0 or text[first - 1] == " "


@given(TEXTS, st.integers(8, 200))
def test_a_text_is_cut_where_its_estimate_is_over_the_limit(text: str, max_tokens: int) -> None:
    assert (len(chunk_spans(text, max_tokens)) > 1) == (estimate_tokens(text) > max_tokens)

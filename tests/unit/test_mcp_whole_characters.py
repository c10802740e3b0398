"""Halves of characters in a request become U+FFFD, and nothing else changes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_memory_pgvector.mcp.whole_characters import whole_characters, whole_characters_in


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (r'"cut \ud83d"', "cut \ufffd"),
        (r'"\uDE80 cut"', "\ufffd cut"),
        (r'"\ud83d\ud83d\ude80"', "\ufffd\U0001f680"),
        (r'"\ude80\ud83d"', "\ufffd\ufffd"),
        (r'"whole \ud83d\ude80"', "whole \U0001f680"),
        (r'"the words \\ud83d"', r"the words \ud83d"),
        (r'"a backslash \\\ud83d"', "a backslash \\\ufffd"),
    ],
)
def test_a_half_is_replaced_and_a_pair_or_words_are_not(sent: str, read: str) -> None:
    assert json.loads(whole_characters(sent)) == read
    assert json.loads(whole_characters_in(sent.encode())) == read
    assert len(whole_characters(sent)) == len(sent)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.booleans())
def test_whole_text_stays_as_it_is(text: str, ascii_only: bool) -> None:
    sent = json.dumps(text, ensure_ascii=ascii_only)
    assert whole_characters(sent) == sent
    assert whole_characters_in(sent.encode()) == sent.encode()


@given(st.text(st.sampled_from('\\"u\ud83d\ude80d8a')))
def test_any_mixture_becomes_text_that_has_utf_8(text: str) -> None:
    whole: str = json.loads(whole_characters(json.dumps(text)))
    assert whole == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    whole.encode()

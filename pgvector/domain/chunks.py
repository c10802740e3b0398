"""Cutting long texts into overlapping parts, each short enough for an embedding model."""

from __future__ import annotations

from typing import NamedTuple

OVERLAP_SHARE = 8  # the next chunk repeats this part (1/8) of one, so that a sentence on the boundary is whole
_BREAKS = ("\n\n", "\n", ". ", "! ", "? ", "。", "; ", ", ", " ")  # where to cut, best first
_ASCII_A_TOKEN = 3


class Span(NamedTuple):
    """A part of a text: from `first` to before `end`, in characters."""

    first: int
    end: int


def estimate_tokens(text: str) -> int:
    """Return an upper estimate without a tokenizer: three ASCII characters a token, one token for each other one."""
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return plain // _ASCII_A_TOKEN + 1 + (len(text) - plain)


def chunk_spans(text: str, max_tokens: int) -> list[Span]:
    """Return the parts of `text`, each of at most about `max_tokens`; a short text, even an empty one, is one part.

    Cuts are at the end of a paragraph, a sentence or a word if there is one in the last third of a part.
    """
    spans: list[Span] = []
    first = 0
    while True:
        end = _end_of_part(text, first, max_tokens)
        spans.append(Span(first, end))
        if end >= len(text):
            return spans
        first = _overlapping(text, first, end)


def _end_of_part(text: str, first: int, max_tokens: int) -> int:
    length = max_tokens * _ASCII_A_TOKEN
    while (tokens := estimate_tokens(part := text[first : first + length])) > max_tokens and len(part) > 1:
        length = max(1, min(len(part) - 1, len(part) * max_tokens // tokens))
    end = first + len(part)
    if end >= len(text):
        return len(text)
    least = len(part) * 2 // 3
    for mark in _BREAKS:
        if (at := part.rfind(mark, least)) >= 0:
            return first + at + len(mark)
    return end


def _overlapping(text: str, first: int, end: int) -> int:
    """Return where the part after text[first:end] begins: a little before its end, at a word."""
    wanted = end - (end - first) // OVERLAP_SHARE
    blank = text.find(" ", wanted, end)
    return blank + 1 if 0 <= blank < end - 1 else max(first + 1, wanted)

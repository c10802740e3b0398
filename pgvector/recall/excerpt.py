"""The part of a long text that answers."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = rf"[{_CJK}]|\d+|[^\W\d_{_CJK}]{{2,}}"  # compiled for the first long text: that takes milliseconds
_STEM_CHARS = 6  # enough to tell words apart, few enough that "deploy" finds "deployed"
_CUT = "…"


def excerpt(text: str, question: str, max_chars: int, *, near: int = 0) -> str:
    """Return at most `max_chars` of `text`: the stretch that holds most of the words of `question`, cut at blanks.

    A word weighs less the more often it stands in `text`. The beginning where no word of the question occurs; the
    whole text where it fits. With `near` the stretch from that character on, whatever words it holds.
    """
    if len(text) <= max_chars:
        return text
    margin = max_chars // 6  # what leads up to the first word
    start = min(near, len(text) - max_chars + 1) if near else _best_start(text, question, max_chars, margin)
    if start > 0:
        blank = text.find(" ", start, start + min(40, margin))
        start = blank + 1 if blank >= 0 else start
    room = max_chars - (start > 0)
    piece = text[start : start + room]
    if start + room < len(text):
        piece = piece[:-1].rsplit(" ", 1)[0] if " " in piece[-40:-1] else piece[:-1]
        piece += _CUT
    return (_CUT if start > 0 else "") + piece


def _best_start(text: str, question: str, max_chars: int, margin: int) -> int:
    best, chosen, improving = 0.0, 0, False
    for place, worth in _stretches(_occurrences(text, question), max_chars - margin):
        # Of a row of equally good starts the last one: most of what follows the words then fits in.
        improving = worth > best + 1e-9 or (improving and worth > best - 1e-9)
        if improving:
            best, chosen = worth, place
    return max(0, min(chosen - margin, len(text) - max_chars + 1))


def _occurrences(text: str, question: str) -> list[tuple[int, str]]:
    """Return where words of the question stand in the text, and their stems."""
    wanted = {_stem(match.group()) for match in re.finditer(_WORD, question)}
    if not wanted:
        return []
    return [(match.start(), stem) for match in re.finditer(_WORD, text) if (stem := _stem(match.group())) in wanted]


def _stretches(found: Sequence[tuple[int, str]], chars: int) -> Iterator[tuple[int, float]]:
    """Yield where each of the words begins, and what the words within `chars` from there weigh together."""
    occurrences = Counter(stem for _, stem in found)
    inside: Counter[str] = Counter()
    worth, end = 0.0, 0
    for place, stem in found:
        while end < len(found) and found[end][0] < place + chars:
            entering = found[end][1]
            worth += 0 if inside[entering] else 1 / occurrences[entering]
            inside[entering] += 1
            end += 1
        yield place, worth
        inside[stem] -= 1
        worth -= 0 if inside[stem] else 1 / occurrences[stem]


def _stem(word: str) -> str:
    """Return what a word is compared by: its beginning, without case and accents; numbers whole."""
    if not word.isascii():
        word = "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
    return word if word[:1].isdigit() else word.casefold()[:_STEM_CHARS]

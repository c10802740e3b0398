"""A diff of two texts, word by word, in a time that does not depend on what the texts are."""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from difflib import Match, SequenceMatcher

Diff = list[list[str]]  # each an op (`=` kept, `-` removed, `+` added) and a text

_WORDS = re.compile(r"\w+\s*|\W+")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_COST_MOST = 100_000  # pairs of equal parts: what difflib looks at, again and again
_BUDGET_S = 0.25  # for all texts of an answer
_BESIDE_CHARS = 300  # of unchanged text beside a change
_CHANGED_CHARS = 5_000  # of the text removed or added in one place
_WORD_CHARS = 200
_LEFT_OUT = " … "


class WordDiffs:
    """Compares the texts of one answer; when its time is used up, what is left is told as one change."""

    def __init__(self) -> None:
        self._until = time.monotonic() + _BUDGET_S

    def diff(self, before: str, after: str) -> Diff:
        """Return the diff from one text to the other; the middle of long parts is left out."""
        first = _boundary(before, after, _same(before, after))
        old, new = before[first:], after[first:]
        last = _boundary(old[::-1], new[::-1], _same(old[::-1], new[::-1]))
        old, new = old[: len(old) - last], new[: len(new) - last]
        found = [["=", before[:first]], *self._changed(old, new), ["=", before[len(before) - last :]]]
        return [[op, _shortened(op, text)] for op, text in found if text]

    def _changed(self, old: str, new: str) -> Diff:
        for parts in (_WORDS, _LINES):
            left, right = parts.findall(old), parts.findall(new)
            if time.monotonic() < self._until and _cost(left, right) <= _COST_MOST:
                return _compared(left, right, self._until)
        return [["-", old], ["+", new]]


class _Matcher(SequenceMatcher[str]):
    """Finds equal parts until a moment (monotonic), and then no more: for each one it looks at all that is left."""

    def __init__(self, left: Sequence[str], right: Sequence[str], until: float) -> None:
        super().__init__(None, left, right, autojunk=False)
        self._until = until

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        """Return the longest equal part of two ranges, an empty one when it is too late."""
        return super().find_longest_match(alo, ahi, blo, bhi) if time.monotonic() < self._until else Match(alo, blo, 0)


def _compared(left: Sequence[str], right: Sequence[str], until: float) -> Diff:
    found: Diff = []
    for op, a, b, c, d in _Matcher(left, right, until).get_opcodes():
        if op == "equal":
            found.append(["=", "".join(left[a:b])])
        else:
            found += [["-", "".join(left[a:b])], ["+", "".join(right[c:d])]]
    return found


def _cost(left: Sequence[str], right: Sequence[str]) -> int:
    there = Counter(right)
    return sum(count * there[part] for part, count in Counter(left).items())


def _same(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    return bisect_left(range(1, min(len(one), len(other)) + 1), True, key=lambda size: one[:size] != other[:size])


def _boundary(one: str, other: str, size: int) -> int:
    """Return the last position up to `size` that is not inside a word; `size` if the word is too long."""
    for place in range(size, max(-1, size - _WORD_CHARS), -1):
        after = one[place : place + 1] + other[place : place + 1]
        if not (one[max(0, place - 1) : place].isalnum() and any(map(str.isalnum, after))):
            return place
    return size


def _shortened(op: str, text: str) -> str:
    if op == "=":
        whole, first, last = 2 * _BESIDE_CHARS, _BESIDE_CHARS, _BESIDE_CHARS
    else:
        whole, first, last = _CHANGED_CHARS, _CHANGED_CHARS, 0
    if len(text) <= whole + len(_LEFT_OUT):
        return text
    return text[:first] + _LEFT_OUT + text[len(text) - last :]

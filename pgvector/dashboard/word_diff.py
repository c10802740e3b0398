"""What of a text is new, word by word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

Diff = list[list[str]]  # each an op (`=` stays, `-` went, `+` came) and a text

_WORD = re.compile(r"\w+\s*|\W")


def word_diff(before: str, after: str) -> Diff:
    """Return how to get from one text to the other."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    found: Diff = []
    for op, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if op == "equal":
            _add(found, "=", old[a:b])
            continue
        _add(found, "-", old[a:b])
        _add(found, "+", new[c:d])
    return found


def _add(found: Diff, op: str, words: Sequence[str]) -> None:
    if words:
        found.append([op, "".join(words)])

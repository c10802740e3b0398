"""Generated texts: sentences over a Zipf vocabulary, with one word in half of them and a few rare ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

COMMON = "harbour"  # in every second row
PLANTED = {"lighthouse": 20_000, "sextant": 1_000, "barnacle": 10}  # word: rows that hold it
_SYLLABLES = ("ba", "co", "di", "fu", "ga", "ho", "ki", "lu", "me", "no", "pa", "ru", "si", "to", "va", "we", "zo")
# The words stand in the order of how common they are.
VOCABULARY = ["".join(parts) for parts in itertools.islice(itertools.product(_SYLLABLES, repeat=4), 7, None, 5)]
_WEIGHTS = list(itertools.accumulate(1 / rank for rank in range(1, len(VOCABULARY) + 1)))


def texts(count: int, dice: random.Random) -> Iterator[str]:
    """`count` sentences of 8 to 24 words."""
    planted: dict[int, list[str]] = {}
    for word, rows in PLANTED.items():
        for row in dice.sample(range(count), min(rows, count // 10)):
            planted.setdefault(row, []).append(word)
    for row in range(count):
        words = dice.choices(VOCABULARY, cum_weights=_WEIGHTS, k=dice.randint(8, 24)) + planted.get(row, [])
        if row % 2:
            words.append(COMMON)
        dice.shuffle(words)
        yield " ".join(words)

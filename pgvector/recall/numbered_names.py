"""Names that end in a number, such as "INC-9120", "order 77120" and "v2.9.0", and texts about another one of a kind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

from ..domain.function_words import plain, stem_of, telling_words
from ..domain.patterns import late_pattern
from ..domain.text import both_ends

_MAX_CHARS = 2000  # of a longer question both ends; a longer text is about many things
_KIND = r"(?<![\w./-])([^\W\d_]+)"
_JOINED = late_pattern(_KIND + r"[-_#]?(\d+(?:[./-]\d+)*)(?!\w)")
# After a blank, a small number is a quantity or counts something that all texts are about, and others are years.
_APART = late_pattern(_KIND + r"[^\S\n]#?(?!(?:19|20)\d\d(?![\w./-]))(\d{3,}(?:[./-]\d+)*)(?!\w)")
_UNSPACED = late_pattern(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")  # where a word ends takes a dictionary to tell


def names_another(question: str, text: str) -> bool:
    """Return whether a text has nothing of a question but the kind of thing, and names other things of that kind.

    "INC-8841: the queue was stuck" is about another one than "What happened with INC-9120?" asks for. It may still
    answer "INC-9120: why is the queue stuck?".
    """
    asked = _names(both_ends(question, _MAX_CHARS))
    if not asked or len(text) > _MAX_CHARS:
        return False
    told = _names(text)
    if not any(kind in told for kind in asked):
        return False
    if any(number in text for numbers in asked.values() for number in numbers):
        return False
    folded = plain(text)
    return not _UNSPACED.search(question) and not any(word in folded for word in _stems(question, asked))


@lru_cache(maxsize=512)  # a question is compared with many texts, and a text with each question of a message
def _names(text: str) -> dict[str, frozenset[str]]:
    """Return the numbers of the names in a text, by kind; "about 500" and "in 1492" are none."""
    folded = plain(text)
    apart = (each for each in _APART.findall(folded) if any(telling_words(each[0])))
    found: dict[str, set[str]] = {}
    for kind, number in chain(_JOINED.findall(folded), apart):
        found.setdefault(kind, set()).add(number)
    return {kind: frozenset(numbers) for kind, numbers in found.items()}


def _stems(question: str, kinds: dict[str, frozenset[str]]) -> Iterator[str]:
    """Yield the beginnings of the words that tell what the question is about, besides what the named thing is."""
    for word in telling_words(question):
        if word not in kinds and not any(map(str.isdigit, word)):
            yield stem_of(word)

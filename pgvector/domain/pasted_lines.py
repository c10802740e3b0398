"""What stands out in a message with a pasted log, a list of files or the results of many tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from .function_words import telling_words

_LINES_LEAST = 6  # of a message that may have a long paste
_IN_LINES = 3  # from so many on, a word says nothing of any one of the lines
_SHARE = 0.75  # of the words of a line, from which the whole line says nothing that others do not
_APART = str.maketrans(dict.fromkeys("{}[]()<>\"',;:=|/", " "))  # a line of JSON is one word otherwise


@lru_cache(maxsize=16)  # several steps of a recall ask it of one message
def what_stands_out(text: str) -> str:
    """Return a message without the lines of a paste that consist of words of other lines; "" if it has no others.

    Their names, addresses and times would outweigh the line with the error, and the question below. Unchanged is what
    has few such lines, as most that people write themselves.
    """
    lines = text.split("\n")
    if len(lines) < _LINES_LEAST:
        return text
    words = [set(_words(line)) for line in lines]
    holding = Counter(word for each in words for word in each)
    alike = [bool(each) and sum(holding[word] >= _IN_LINES for word in each) >= _SHARE * len(each) for each in words]
    if 2 * sum(alike) < len(lines):
        return text
    return "\n".join(line for line, one in zip(lines, alike, strict=True) if not one).strip()


def _words(line: str) -> Iterator[str]:
    """Yield the words of a line that tell something, without digits: numbers differ from line to line."""
    return (word for word in telling_words(line.translate(_APART)) if not any(map(str.isdigit, word)))

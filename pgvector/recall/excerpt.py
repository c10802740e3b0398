"""The part of a long text that answers."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, pairwise

from ..domain.function_words import function_words_of
from ..domain.text import PLAIN_LETTERS, both_ends
from ..domain.types import Hit

_QUESTION_MAX_CHARS = 1000  # of a longer one both ends, which bounds how many words are searched for
_PART_CHARS = 1200  # about the length that one vector covers by the setting `chunk_tokens`
_STEM_CHARS = 6  # enough to tell words apart, few enough that "deploy" finds "deployed"
_PLACES_MOST = 200  # of one word in a text: a word that frequent says little, and finding all places takes long
_OPENING_CHARS = 120  # of a text, which mostly say what all of it is about
_OPENING_SHARE = 0.5  # of what another word counts
_FUNCTION_SHARE = 0.1  # likewise, of a word such as "how"
_CUT = "…"
_WORDS_DECIDE = 0.5  # coverage from which words decide; a long text holds one word or another of most questions


def part_found(hit: Hit) -> int:
    """Return where the part of a long text that the vector leg found begins, or 0 if words locate the answer better."""
    return 0 if hit.coverage >= _WORDS_DECIDE else max(0, hit.nearest_char - hit.first_char)


def excerpt(text: str, question: str, max_chars: int, *, near: int = 0) -> str:
    """Return at most `max_chars` of `text`: the stretch that holds most of the words of `question`, cut at blanks.

    A word weighs less the more often it occurs in `text`, if its opening has it, and if it only builds the question.
    Return the beginning if no word of the question occurs, and the whole text if it fits. With `near`, only the part
    that begins there is searched: the vector leg found it.
    """
    if len(text) <= max_chars:
        return text
    margin = max_chars // 6  # for the text that leads up to the first word
    part = text[near : near + max(_PART_CHARS, max_chars)] if near else text
    opening = 0 if near else _OPENING_CHARS
    start = min(near + _best_start(part, question, max_chars, margin, opening), len(text) - max_chars + 1)
    if start > 0 and not text[start - 1].isspace():
        blank = text.find(" ", start, start + min(40, margin))
        start = blank + 1 if blank >= 0 else start
    room = max_chars - (start > 0)
    piece = text[start : start + room]
    if start + room < len(text):
        piece = piece[:-1].rsplit(" ", 1)[0] if " " in piece[-40:-1] else piece[:-1]
        piece += _CUT
    return (_CUT if start > 0 else "") + piece


def _best_start(text: str, question: str, max_chars: int, margin: int, opening: int) -> int:
    best, first, chosen, improving = 0.0, 0, 0, False
    found = _occurrences(text, question)
    for place, worth in _stretches(found, _weights(found, question, opening), max_chars - margin):
        if worth > best + 1e-9:
            best, first, chosen, improving = worth, place, place, True
        # Of equally good starts of one stretch take the last one: most of what follows the words then fits in. Of
        # equally good stretches take the first: a word is explained where it is first met.
        elif improving := improving and worth > best - 1e-9 and place < first + max_chars - margin:
            chosen = place
    return max(0, min(chosen - margin, len(text) - max_chars + 1))


def _occurrences(text: str, question: str) -> list[tuple[int, str]]:
    """Return where words of the question occur in the text, and their stems."""
    wanted = _stems(both_ends(question, _QUESTION_MAX_CHARS))
    plain = _plain(text) if wanted else ""
    return sorted((place, stem) for stem in wanted for place in _places(stem, plain))


def _places(stem: str, plain: str) -> Iterator[int]:
    """Yield where words with a stem begin, of many the first. Reading every word of a long text takes far longer."""
    kind, last = _kind(stem[0]), _kind(stem[-1])
    is_whole = last == "number" or (kind == "word" and len(stem) < _STEM_CHARS)
    count, place = 0, plain.find(stem)
    while place >= 0 and count < _PLACES_MOST:
        end = place + len(stem)
        begins = kind in _SPACELESS or place == 0 or _kind(plain[place - 1]) != kind
        if begins and not (is_whole and end < len(plain) and _kind(plain[end]) == last):
            count += 1
            yield place
        place = plain.find(stem, place + 1)


def _stretches(
    found: Sequence[tuple[int, str]], weights: Mapping[str, float], chars: int
) -> Iterator[tuple[int, float]]:
    """Yield where each of the words begins, and the total weight of the words within `chars` from there."""
    inside: Counter[str] = Counter()
    worth, end = 0.0, 0
    for place, stem in found:
        while end < len(found) and found[end][0] < place + chars:
            entering = found[end][1]
            worth += 0 if inside[entering] else weights[entering]
            inside[entering] += 1
            end += 1
        yield place, worth
        inside[stem] -= 1
        worth -= 0 if inside[stem] else weights[stem]


def _weights(found: Sequence[tuple[int, str]], question: str, opening: int) -> dict[str, float]:
    """Return what each stem that occurs counts.

    The whole text is about what its `opening` names, so other words tell better where the answer is.
    """
    weights = {stem: 1 / times for stem, times in Counter(stem for _, stem in found).items()}
    for stem in {stem for place, stem in found if place < opening}:
        weights[stem] *= _OPENING_SHARE
    for stem in weights.keys() & _builders(question):
        weights[stem] *= _FUNCTION_SHARE
    return weights


@lru_cache(maxsize=16)
def _builders(question: str) -> frozenset[str]:
    """Return the stems of the words that only build the question."""
    return frozenset(_plain(word)[:_STEM_CHARS] for word in function_words_of(question))


@lru_cache(maxsize=16)
def _stems(question: str) -> tuple[str, ...]:
    """Return the stems of a question's words: their beginnings, whole numbers, and signs or pairs in some scripts.

    And each number with what stands beside it: in a plan of many days, "day" and "9" are everywhere, "day 9" is once.
    """
    found: list[str] = []
    runs = [(kind, "".join(run)) for kind, run in groupby(_plain(question), _kind)]
    for kind, word in runs:
        if kind == "sign":
            found += word
        elif kind == "syllable":
            found += map("".join, pairwise(word))
        elif kind == "number" or (kind == "word" and len(word) > 1):
            found.append(word if kind == "number" else word[:_STEM_CHARS])
    return tuple(dict.fromkeys((*found, *_numbered(runs))))


def _numbered(runs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield each number among `runs` of one kind with what stands right beside it: "day 9", "2.2", "3天"."""
    for place, (kind, run) in enumerate(runs):
        between, other, following = _beside(runs, place)
        if kind and other and "number" in (kind, other):
            one = run[-1] if kind in _SPACELESS else run
            yield f"{one}{between}{following[0] if other in _SPACELESS else following}"


def _beside(runs: Sequence[tuple[str, str]], place: int) -> tuple[str, str, str]:
    """Return the one character behind a run, if it is part of no word, and the kind and text of the run after it."""
    kind, run = runs[place + 1] if place + 1 < len(runs) else ("", "")
    if kind or len(run) != 1:
        return "", kind, run
    return run, *(runs[place + 2] if place + 2 < len(runs) else ("", ""))


_SPACELESS = ("sign", "syllable")  # of scripts that are written without spaces


@lru_cache(maxsize=4096)
def _kind(char: str) -> str:
    """Return the kind of word that a character is part of, or "" if it is part of none."""
    if char.isdecimal():
        return "number"
    # Vowels of many scripts are marks. Accents are not letters: words are compared without them.
    if not (char.isalpha() or unicodedata.category(char).startswith("M")) or "\u0300" <= char <= "\u036f":
        return ""
    if any(first <= char <= last for first, last in _SIGNS):
        return "sign"
    return "syllable" if any(first <= char <= last for first, last in _SYLLABLES) else "word"


_SIGNS = (("\u3040", "\u30ff"), ("\u3400", "\u4dbf"), ("\u4e00", "\u9fff"), ("\uac00", "\ud7af"))
_SYLLABLES = (("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"))  # Thai, Lao; Burmese; Khmer


def _plain(text: str) -> str:
    """Return a text in lower case without accents, with every character in its original place."""
    return text.lower() if text.isascii() else text.translate(_small_letters)


class _SmallLetters(dict[int, str]):
    """Maps each character to the one it is compared as, computed when it first occurs."""

    def __missing__(self, code: int) -> str:
        apart = unicodedata.normalize("NFKD", chr(code))
        plain = apart[0] if all(map(unicodedata.combining, apart[1:])) else chr(code)
        folded = plain.translate(PLAIN_LETTERS).casefold()
        self[code] = folded if len(folded) == 1 else plain
        return self[code]


_small_letters = _SmallLetters()

"""Other spellings of a question's words: of misspelt ones what is meant, of German ones with and without umlauts."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ..domain.function_words import language_of
from ..domain.patterns import late_pattern
from ..domain.text import PLAIN_LETTERS
from .question_words import is_pair

_SURFACE = late_pattern(r"[^\W\d_]{4,40}")
_UMLAUT = late_pattern("[äöüÄÖÜ]")
_AS_TWO_LETTERS = late_pattern("(?<=[aouAOU])(?<![aeqAEQ]u)e")  # not in "neue", "bauen" and "Quelle"
_UMLAUTS_MOST = 8  # words of a question
_FORMS_MOST = 3  # words of a question that are looked at for one stem, the shortest ones
_ERRORS_MOST = 2  # in a long word
MAX_CORRECTED = 4  # words of a question for which other spellings are looked up, longest first
_WORD = late_pattern(r"(?<![\w@/\\.-])[^\W\d_]{2,40}(?![\w@/\\]|[.-]\w)")  # no part of a name or an address
_ENDINGS = ("s", "es", "d", "ed", "r", "er", "ers", "ing", "y", "ly")  # of a word, with and without which it is one
_UNKNOWN_MOST = 0.5  # of the words of a question in a language whose words are known


class Spelling(NamedTuple):
    """A word `written` in the question, without case and accents, and what may be `meant`, with the stem `lexeme`."""

    errors: int
    written: str
    meant: str
    lexeme: str


def misspellable(terms: Collection[str], text: str) -> dict[str, tuple[str, ...]]:
    """Return those of `terms` that may be misspelt words, each with its forms: the stem, and the words with it.

    Names with digits are not: ERR_43 is no misspelling of ERR_42. Nor are short words, which always resemble others.
    """
    surfaces = {_plain(match[0]) for match in _SURFACE.finditer(_composed(text))}
    found = {}
    for term in terms:
        whole = {surface for surface in surfaces if surface.startswith(term[:-1]) and len(surface) <= len(term) + 6}
        if _SURFACE.fullmatch(term) and not is_pair(term[:2]) and max(map(len, whole), default=0) >= 5:
            found[term] = (term, *sorted(whole - {term}, key=lambda word: (len(word), word))[:_FORMS_MOST])
    return found


def spellings(term: str, forms: Iterable[str], lexemes: Iterable[str]) -> list[Spelling]:
    """Return what may be meant by a word with the stem `term`, written in one of `forms`, the likeliest first."""
    found = (
        Spelling(_errors(form, meant, _ERRORS_MOST), form, meant, lexeme)
        for form in forms
        for lexeme in lexemes
        for meant in (_with_ending(form, term, lexeme), lexeme)
        if is_slip(form, meant)
    )
    return sorted(found, key=lambda spelling: spelling.errors)


def other_umlauts(text: str) -> dict[str, str]:
    """Return the words of a question that have umlauts as they are without them, and those of a German one conversely.

    "Kühlschrank" may be "Kuehlschrank" in the rows; in an English question "queue" is no "qü". The dots do not matter.
    """
    found = {word: _UMLAUT.sub(r"\g<0>e", word) for word in _words_with(_UMLAUT, text)}
    if language_of(text) == "de":
        found |= {word: _AS_TWO_LETTERS.sub("", word) for word in _words_with(_AS_TWO_LETTERS, text)}
    return dict(list(found.items())[:_UMLAUTS_MOST])


def _words_with(letters: re.Pattern[str], text: str) -> list[str]:
    return [match[0] for match in _SURFACE.finditer(_composed(text)) if letters.search(match[0])]


def common_words_meant(text: str, unheld: Collection[str], rank: Callable[[str], int | None]) -> dict[str, str]:
    """Return what may be meant by words of `text` that are `unheld` by any row, both without case and accents.

    That is the commonest known word which differs by one typing error. `rank` tells how common a word is, 0 for the
    commonest, None for one that is not known. A text of which most words are not known is in another language, so none
    of them is misspelt. A capitalised word within a sentence is a name.
    """
    misspelt = sorted(_unknown_words(text, rank).intersection(unheld), key=lambda word: (-len(word), word))
    found = ((written, _commonest(written, rank)) for written in misspelt[:MAX_CORRECTED])
    return {written: meant for written, meant in found if meant is not None}


def _unknown_words(text: str, rank: Callable[[str], int | None]) -> set[str]:
    """Return the words that are not known, without case and accents; none of another language, and no name."""
    text = _composed(text)
    unknown = [match for match in _WORD.finditer(text) if not _is_word(_plain(match[0]), rank)]
    if len(unknown) > _UNKNOWN_MOST * len(_WORD.findall(text)):
        return set()
    return {_plain(match[0]) for match in unknown if not (match.start() and match[0][0].isupper())}


def _commonest(written: str, rank: Callable[[str], int | None]) -> str | None:
    """Return the commonest known word that `written` differs from by one typing error; None if there is none."""
    ranks = {word: place for word in _one_error_from(written) if (place := rank(word)) is not None}
    return min((word for word in ranks if is_slip(written, word)), key=ranks.__getitem__, default=None)


def _is_word(word: str, rank: Callable[[str], int | None]) -> bool:
    stems = [word, *(word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending))]
    stems += [f"{stem}e" for stem in stems[1:]]
    longer = [f"{word}{ending}" for ending in _ENDINGS]
    return any(len(form) > 1 and rank(form) is not None for form in (*stems, *longer))


def _one_error_from(word: str) -> Iterator[str]:
    """Yield the words with one letter less or more, with another one, or with two swapped; the first letter stays."""
    for at in range(1, len(word) + 1):
        head, tail = word[:at], word[at:]
        yield head + tail[1:]
        yield head[:-1] + tail[:1] + head[-1] + tail[1:]
        for letter in string.ascii_lowercase:
            yield head + letter + tail
            yield head + letter + tail[1:]


def respelt(text: str, meant: Mapping[str, str]) -> str:
    """Return `text` with some words, as they are in a Spelling, in other ones."""
    if not meant:
        return text
    return _SURFACE.sub(lambda match: meant.get(_plain(match[0]), match[0]), _composed(text))


def is_slip(written: str, meant: str) -> bool:
    """Return whether `written` is `meant` with one typing error, or two in a word of nine letters or more.

    Both begin with the same letter, or with the same two letters swapped. Words of five letters resemble too many
    others, so in them only two swapped letters and a missing one count as an error.
    """
    most = _ERRORS_MOST if len(written) >= 9 else 1
    if len(written) < 5 or abs(len(written) - len(meant)) > most or written == meant:
        return False
    if written[0] != meant[0] and written[:2] != meant[1::-1]:
        return False
    if len(written) == 5 and len(meant) < 6:
        return _is_swapped(written, meant)
    return _errors(written, meant, most) <= most


def _is_swapped(written: str, meant: str) -> bool:
    """Return whether two letters next to each other are swapped; `meant` may be a stem."""
    swapped = (f"{written[:at]}{written[at + 1]}{written[at]}{written[at + 2 :]}" for at in range(len(written) - 1))
    return any(word.startswith(meant) for word in swapped)


def _with_ending(form: str, term: str, lexeme: str) -> str:
    """Return the word with the stem `lexeme` that has the ending which `form` has after its stem `term`.

    "lesons" has the stem "leson": of "lesson" it is "lessons". "compny" has "compni": of "compani" it is "company".
    """
    same = next((at for at, (left, right) in enumerate(zip(form, term, strict=False)) if left != right), len(term))
    replaced = term[same:]
    return lexeme.removesuffix(replaced) + form[same:] if lexeme.endswith(replaced) else lexeme


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _plain(word: str) -> str:
    """Return a word without case and accents."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
    return unicodedata.normalize("NFKC", plain).translate(PLAIN_LETTERS).casefold()


def _errors(left: str, right: str, most: int) -> int:
    """Return how many letters to delete, insert, replace, or swap with the next one; if more than `most`, any such
    number.

    Words are written to take long here, so it is not computed for all beginnings of both.
    """
    if abs(len(left) - len(right)) > most:
        return most + 1
    same = next((at for at, (one, other) in enumerate(zip(left, right, strict=False)) if one != other), None)
    if same is None:
        return abs(len(left) - len(right))
    if most == 0:
        return 1
    left, right = left[same:], right[same:]
    rests = [(left[1:], right[1:]), (left[1:], right), (left, right[1:])]
    if left[:2] == right[1::-1]:
        rests.append((left[2:], right[2:]))
    return 1 + min(_errors(*rest, most - 1) for rest in rests)

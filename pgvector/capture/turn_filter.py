"""Decides which sides of a turn are worth storing, and which messages are worth searching for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain, takewhile
from pathlib import Path
from typing import Final, Literal, NamedTuple

from ..domain.function_words import stating_words, telling_words
from ..domain.patterns import late_pattern

Reason = Literal["", "empty", "synthetic", "acknowledgement", "too_short"]

# The beginnings of messages that the host writes itself and passes on as the user's.
SYNTHETIC_PREFIXES: Final = (
    "[ASYNC DELEGATION",
    "[IMPORTANT: Background process",
    "[Background process",
    "[Continuing toward your standing goal]",
    "[System note:",
    "[System:",
    "[Note: model was just switched",
    "[Voice channel now",
    "[Voice input",
    "[The user sent",
    "[The user attached an image",
    "[voice message could not be transcribed",
    "(The user sent a message with no text content)",
    "[IMPORTANT: The user has invoked the ",
    "[Session was just handed off from",
    "[Your active task list was preserved across context compression]",
    "[Cron delivery:",
)
# Notes that the host puts before the user's text, followed by an empty line, whose end can be recognized: the text is
# fixed and contains no bracket, or ends with fixed words. Other notes may quote documents or program output.
_NOTE = late_pattern(
    r"""\s*\[(?:
        (?:System\ note:|Note:\ model\ was\ just\ switched|Triggering\ message\ id:
          |The\ user\ sent\ an?\ (?:document|audio\ file\ attachment|video\ attachment|voice\ message):
          |The\ user\ sent\ an\ image\ but\ |voice\ message\ could\ not\ be\ transcribed)[^\[\]]*
        |The\ user\ sent\ a\ text\ document:[^\[\]]*(?!\]\s*\[Content\ of\ )
        |The\ user\ sent\ an\ image~.*?\]\n\[If\ you\ need\ a\ closer\ look,\ use\ vision_analyze\ with\ [^\n]*
        |The\ user\ attached\ an\ image(?:\.\ Here's\ what\ it\ contains:|:|\ but\ analysis\ failed\.\]).*?
          \n\[(?:If\ you\ need\ a\ closer\ look,|You\ can)\ (?:use|examine\ it\ with)\ vision_analyze\ [^\n]*
        |The\ user\ attached\ an\ image\ but\ [^\n]*using\ image_url:\ [^\n]*
    )\]\r?\n\r?\n(?=\s*\S)""",
    re.VERBOSE | re.DOTALL,
)

# What is said of images that are in a message. The host says how many there are to a provider; in its own database a
# line stands for each, and with either another one for where it has put an image down. `[image]` is `flatten`'s.
_IMAGES = late_pattern(r"\[\d+ images?\](?: |\Z)")
_IMAGE_LINE = late_pattern(
    r"\[(?:image|screenshot|Attached image — stripped after compression|Image attached(?: at)?: .+)\]\s*"
)
_PUT_DOWN, _ASKED_BY_HOST = "[Image attached", "What do you see in this image?"

# A skill that the user invokes is written out in the message, before or after what it is invoked for.
_SKILL, _SEVERAL = "[IMPORTANT: The user has invoked the ", " skill bundle,"
_FOR_SKILL = "\nThe user has provided the following instruction alongside the skill invocation: "
_FOR_SEVERAL = "\nUser instruction: "
_AFTER_INSTRUCTION = late_pattern(r"\n\n\[(?:Runtime note:|Loaded as part of the )")

# A short reply to "thanks" is politeness, a long one is the report the user was thanking for in advance.
_REPLY_FACTOR: Final = 4

# A Han character carries about as much as a short word, a kana or a Korean syllable as two or three letters.
_WEIGHTED = (  # compiled for the first short text: that takes a millisecond
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])|([\u3040-\u30ff\u31f0-\u31ff\uac00-\ud7a3])"
)

# A telling word for each so many characters of the floor, as a plain sentence has: a note that drops the other words,
# such as "HR 88, BP 130/80, K 4.2", says as much in fewer characters.
_CHARS_PER_TELLING_WORD: Final = 8
# Of what a user states, a word for each so many: "I'm vegan now" and "dentist Tuesday 14:30" are whole statements.
_CHARS_PER_STATING_WORD: Final = 14
_SPACELESS_WORD: Final = 6  # the weight of a word in scripts without spaces: two Han characters, say

_ACKNOWLEDGEMENT_MAX_CHARS: Final = 400  # nobody acknowledges at greater length
_LETTERS = str.maketrans({
    "ı": "i", "ł": "l", "ø": "o", "đ": "d", "’": "'", "‘": "'", "`": "'", "´": "'", "ʼ": "'", "ـ": None,
    "أ": "ا", "إ": "ا", "آ": "ا", "ة": "ه", "ى": "ي", "ё": "е",
})  # fmt: skip
_EMOTICON = late_pattern(r"(?<!\S)(?:[:;=8xX]['^]?-?[dDpPoO03)(\]|/\\*]+|<3+|\^[_.]*\^|[oO]_[oO]|xD+|:v)(?!\S)")
_RUN = late_pattern(r"(.)\1+")
_ASCII_WORD = late_pattern(r"[a-z0-9][a-z0-9']*")
_CHOICE_CHARS: Final = 40
# One of what was offered, or several: "2", "option b", "1 and 3".
_CHOICE = late_pattern(
    r"\W*(?:(?:option|number|nummer|nr)\b\W*)?(?:\d{1,2}|[a-z])(?:(?:[\s,;/&+]|and|or|und|oder)+(?:\d{1,2}|[a-z]))*\W*",
    re.IGNORECASE,
)


class Verdict(NamedTuple):
    """Which sides of a turn to store. `reason` says why the first omitted side is left out; "" if both are stored."""

    store_user: bool
    store_assistant: bool
    reason: Reason = ""


def judge(user: str, assistant: str, min_chars: int) -> Verdict:
    """Return what to store of a turn whose texts are already clean, without injected memory and leading notes.

    A side is substantive when it has at least `min_chars` characters (Chinese characters count three, kana and Korean
    syllables two) and is no boilerplate: not empty, not only acknowledgements or greetings, not synthetic. A turn is
    stored when at least one side is substantive. The other side then comes along, however short, unless it is
    boilerplate: "What port?" stays with its long answer. After an acknowledgement the answer alone is stored, and
    only from four times `min_chars`, so that "ok" does not lose a report and "thanks" does not keep a "you're welcome".

    Shorter sides without boilerplate are substantive together when they tell as much as a sentence of that length:
    "Delivery moves to Feb 2" and "Noted, delivery is 2 February" is the newest that is known of it. What the user
    states may be shorter still: the reply to "Rent is 1280 now" is often "Okay."
    """
    user_flaw, assistant_flaw = _flaw(user, by_host=True), _flaw(assistant, by_host=False)
    floor = min_chars * (_REPLY_FACTOR if user_flaw == "acknowledgement" else 1)
    user_counts = not user_flaw and weighs(user, min_chars)
    assistant_counts = not assistant_flaw and weighs(assistant, floor)
    sides = (user,) if assistant_flaw else (user, assistant)
    if not (user_counts or assistant_counts or (not user_flaw and _say_enough(sides, min_chars))):
        return Verdict(False, False, user_flaw or "too_short")
    return Verdict(not user_flaw, not assistant_flaw, user_flaw or assistant_flaw)


def own_words(user: str) -> str:
    """Return what the user wrote, without what the host added: "" for nothing but images.

    Where the host wrote everything else, too, that is unchanged: `is_synthetic`.
    """
    start = 0
    if user.lstrip().startswith("["):
        images = _IMAGES.match(user)
        start = images.end() if images else 0
        while note := _NOTE.match(user, start):
            start = note.end()
    return _without_skill(_without_images(user[start:]))


def _without_images(text: str) -> str:
    """Return a message without the lines before and after its words that stand for images."""
    if not (text.startswith("[") or text.rstrip().endswith("]")):
        return text
    lines = text.split("\n")
    behind = list(takewhile(_is_image_or_blank, reversed(lines)))
    lines = lines[: len(lines) - len(behind)]
    before = list(takewhile(_IMAGE_LINE.fullmatch, lines))
    words = "\n".join(lines[len(before) :])
    first_behind = next(filter(str.strip, reversed(behind)), "").strip()
    if words == _ASKED_BY_HOST and first_behind.startswith(_PUT_DOWN):
        return ""
    return words if before or first_behind else text


def _is_image_or_blank(line: str) -> bool:
    return not line.strip() or _IMAGE_LINE.fullmatch(line) is not None


def _without_skill(text: str) -> str:
    """Return what a skill was invoked for; the message unchanged if it says nothing of it, or invokes none."""
    if not text.startswith(_SKILL):
        return text
    several = _SEVERAL in text.partition("\n")[0]
    asked = text.partition(_FOR_SEVERAL)[2] if several else text.rpartition(_FOR_SKILL)[2] if _FOR_SKILL in text else ""
    return _AFTER_INSTRUCTION.split(asked, 1)[0].strip() or text


def is_synthetic(user: str) -> bool:
    """Return whether the host wrote this message itself."""
    return user.lstrip("\ufeff\u200b \t\r\n").startswith(SYNTHETIC_PREFIXES)


def is_trivial_query(text: str) -> bool:
    """Return whether there is nothing in `text` to search for: blank, emoji, punctuation, thanks, greetings."""
    return _is_blank(text) or _is_acknowledgement(text)


def only_goes_on(text: str) -> bool:
    """Return whether a message names only what was just said, offered or done: "run it again", "same error", "2".

    The phrases are in `going_on.txt`, and may stand beside acknowledgements. Unlike these, such turns are stored.
    """
    return (len(text) < _CHOICE_CHARS and _CHOICE.fullmatch(text) is not None) or _is_made_of(text, _going_on())


def weighs(text: str, floor: int) -> bool:
    """Return whether `text` weighs at least `floor` characters, not counting blanks at the ends and repeated ones."""
    # Blanks are squeezed in a prefix only: a long paste must not be copied to learn that it is long.
    sample = " ".join(text[: floor * 4 + 64].split())
    if len(sample) < floor and len(text) > floor * 4 + 64:
        sample = " ".join(text.split())
    if len(sample) >= floor:
        return True
    return _weight(sample) >= floor


def _say_enough(sides: Sequence[str], min_chars: int) -> bool:
    """Return whether short sides tell enough together, or the user's, which is the first, states enough alone."""
    return _tell_enough(sides, min_chars) or _states_enough(sides[0], min_chars)


def _tell_enough(texts: Sequence[str], min_chars: int) -> bool:
    """Return whether texts have as many telling words as a sentence of `min_chars` characters."""
    words = chain.from_iterable(set(telling_words(text)) for text in texts)
    told = sum((_weight(word) / _SPACELESS_WORD if _weight(word) > len(word) else 1 for word in words), 0.0)
    return told * _CHARS_PER_TELLING_WORD >= min_chars


def _states_enough(user: str, min_chars: int) -> bool:
    """Return whether a message that is no question has as many stating words as a short statement."""
    if user.rstrip().endswith(("?", "\uff1f", "\u061f")):
        return False
    # Signs of scripts without spaces are weighed by `_tell_enough`.
    words = [word for word in stating_words(user) if _weight(word) == len(word)]
    return len(words) * _CHARS_PER_STATING_WORD >= min_chars


def _weight(text: str) -> int:
    """Return the number of characters, of those that carry more than a letter the number of letters."""
    return len(text) + sum(2 if match.group(1) else 1 for match in re.finditer(_WEIGHTED, text))


def _flaw(text: str, *, by_host: bool) -> Literal["", "empty", "synthetic", "acknowledgement"]:
    if _is_blank(text):
        return "empty"
    if by_host and is_synthetic(text):
        return "synthetic"
    return "acknowledgement" if _is_acknowledgement(text) else ""


def _is_blank(text: str) -> bool:
    head = text.strip()
    # Zero-width and control characters alone are no text either.
    return not head or (len(head) < 64 and all(unicodedata.category(char)[0] in "CZ" for char in head))


def _is_acknowledgement(text: str) -> bool:
    """Return whether `text` is nothing but acknowledgements, greetings, emoji and punctuation; False for blank text.

    That is, whether it can be cut into known phrases with nothing left over. Emoji, punctuation, accents, case and
    stretched letters do not matter. The phrases, separated by commas, are in `acknowledgements.txt`; those of languages
    that do not separate words, and Korean words written together, in `acknowledgements_unspaced.txt`.
    """
    if not text.strip():
        return False
    first = text.split(None, 1)[0].lower()
    # The first word is enough to decide on most messages, and a hook waits for this.
    if first.isascii() and first.isalpha() and not (first in _FIRST_WORDS or _word_is_known(first)):
        return False
    return _is_made_of(text, _PHRASES)


def _is_made_of(text: str, phrases: frozenset[str]) -> bool:
    """Return whether `text` is nothing but known phrases, emoji and punctuation."""
    if len(text) > _ACKNOWLEDGEMENT_MAX_CHARS:
        return False
    words = _words(_EMOTICON.sub(" ", text))

    def known(start: int, end: int) -> bool:
        return " ".join(words[start:end]) in phrases or (end - start == 1 and _word_is_known(words[start]))

    return _can_be_cut(len(words), _LONGEST_WORDS, known)


def _word_is_known(word: str) -> bool:
    """Return whether a word is a stretched phrase, such as "okkkkay", or phrases written together."""
    if word.isascii() or word[0] < "\u0900":
        squeezed = _RUN.sub(r"\1", word)
        return len(word) - len(squeezed) > 1 and squeezed in _squeezed()
    phrases, longest = _unspaced_phrases()
    return _can_be_cut(len(word), longest, lambda start, end: word[start:end] in phrases)


def _can_be_cut(length: int, longest: int, known: Callable[[int, int], bool]) -> bool:
    """Return whether the range 0 to `length` can be cut into `known` pieces of at most `longest` each."""
    reachable = {0}
    for end in range(1, length + 1):
        if any(start in reachable and known(start, end) for start in range(max(0, end - longest), end)):
            reachable.add(end)
    return length in reachable


def _words(text: str) -> list[str]:
    if text.isascii():  # where the pattern alone is enough to classify characters
        return [word.rstrip("'") for word in _ASCII_WORD.findall(text.lower().replace("`", "'"))]
    kept: list[str] = []
    previous = " "
    for char in text.translate(_LETTERS):
        kind = unicodedata.category(char)[0]
        joined = kind in "LN" or (previous != " " and (kind == "M" or char == "'"))
        previous = char if joined else " "
        kept.append(previous)
    return [folded for word in "".join(kept).split() if (folded := _fold(word).strip("'"))]


def _fold(text: str) -> str:
    """Normalize case, accents, width and look-alike letters; the vocabulary is normalized in the same way."""
    level = unicodedata.normalize("NFKD", text.translate(_LETTERS).casefold())
    return "".join(char for char in level if unicodedata.category(char) != "Mn").translate(_LETTERS)


@cache
def _phrases(file: str) -> frozenset[str]:
    """Return the phrases of a file, in which only folding is left to do to have the words that `_words` finds."""
    lines = Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()
    listing = " ".join(line if line.isascii() else _fold(line) for line in lines)
    return frozenset(phrase for part in listing.split(",") if (phrase := " ".join(part.split())))


@cache
def _going_on() -> frozenset[str]:
    return _PHRASES | _phrases("going_on.txt")


@cache
def _unspaced_phrases() -> tuple[frozenset[str], int]:
    """Return the phrases of languages that do not separate words, and the length of the longest."""
    phrases = _phrases("acknowledgements_unspaced.txt")
    return phrases, max(map(len, phrases))


@cache
def _squeezed() -> frozenset[str]:
    """Return the phrases of one word, with each letter once that stands in a row."""
    return frozenset(_RUN.sub(r"\1", phrase) for phrase in _PHRASES if " " not in phrase and len(phrase) > 1)


# At import rather than in the first hook: it takes a millisecond.
_PHRASES = _phrases("acknowledgements.txt")
_LONGEST_WORDS = max(phrase.count(" ") + 1 for phrase in _PHRASES)
_FIRST_WORDS = frozenset(phrase.split(" ", 1)[0] for phrase in _PHRASES)

"""The title of a session, from its own words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .patterns import late_pattern

TITLE_CHARS = 60
_LEAST_WORDS = 3  # of a sentence that says what a session is about
_LEAST_CHARS = 6  # of one in a script without spaces
_SENTENCE = late_pattern(r"[^.!?\n。！？]+(?:[.!?](?!\s|$)[^.!?\n。！？]*)*[.!?。！？]*")
_WORD = late_pattern(r"\w+")
# What people say before their actual request.
_GREETING = late_pattern(
    r"(?:(?:hi|hello|hey|hallo|moin|good (?:morning|afternoon|evening)|guten (?:morgen|tag|abend)|thanks|danke"
    r"|thank you|how are you(?: today| doing)?|ok|okay|please|bitte)"
    r"\b(?: (?:there|again|everyone|zusammen|all|hermes))?[\s,;:!.-]*)+",
    re.IGNORECASE,
)
_CUT = "…"


def title_of(messages: Sequence[str]) -> str:
    """Return the first meaningful sentence of a user's messages, without its greeting; "" without messages."""
    said = (sentence for message in messages for sentence in _sentences(message))
    whole = (" ".join(message.split()) for message in messages if _WORD.search(message))
    return _short(next(filter(_says_something, said), None) or max(whole, key=len, default=""))


def _sentences(message: str) -> list[str]:
    """Return the sentences of a message after its greeting."""
    greeting = _GREETING.match(message.strip())
    rest = message.strip()[greeting.end() :] if greeting else message
    return [" ".join(sentence.split()) for sentence in _SENTENCE.findall(rest)]


def _says_something(sentence: str) -> bool:
    words = _WORD.findall(sentence)
    return len(words) >= _LEAST_WORDS or any(len(word) >= _LEAST_CHARS and not word.isascii() for word in words)


def _short(sentence: str) -> str:
    sentence = sentence.rstrip(".。")
    if len(sentence) <= TITLE_CHARS:
        return sentence[:1].upper() + sentence[1:]
    cut = sentence[: TITLE_CHARS - 1]
    cut = cut.rsplit(" ", 1)[0] if " " in cut[TITLE_CHARS // 2 :] else cut
    return cut[:1].upper() + cut[1:] + _CUT

"""Tells which statements say of themselves that something holds no longer, and what of a question a text is about."""

from __future__ import annotations

import re
from functools import cache, lru_cache

from ..domain.function_words import language_of, plain, telling_words

_TEXT_MAX_CHARS = 600  # a longer text says several things
_READ_CHARS = 2000
_QUESTION_MAX_CHARS = 250  # a longer message names many things
_WORD = re.compile(r"\w+")
_SENTENCE_ENDS = re.compile(r"(?<=\w\w[.!?])\s+|\n+")  # not after "7." and "a."
_STEM_CHARS = 5  # of a word that is the same in another form, less for "bills" and "rooms"
_STEM_LEAST = 3
# In lower case and without accents.
_PAST = re.compile(
    r"\b(?:did|was|were|had|used to|before|earlier|previous(?:ly)?|former(?:ly)?|old|original(?:ly)?|initial(?:ly)?"
    r"|first|ever|war|waren|wurden?|hatten?|fruher\w*|vorher\w*|ursprunglich\w*|alten?|damals|erst"
    r"|fue|fueron|fui|era|eran|hice|hicimos|antes|anterior|antigu[oa]|primer[oa]?"
    r"|etai(?:s|t|ent)|avai(?:s|t|ent)|avant|ancien(?:ne)?|premiere?)\b"
)


@lru_cache(maxsize=512)  # each row of a block, several times
def what_changed(text: str) -> str:
    """Return the sentences that say that something is another way than before: "The lesson has moved", "it is 8 now".

    In English, German, Spanish and French.
    """
    sentences = _SENTENCE_ENDS.split(text) if len(text) <= _TEXT_MAX_CHARS else ()
    stated = (sentence for sentence in sentences if not sentence.rstrip().endswith("?"))
    return " ".join(sentence for sentence in stated if _changes().search(plain(sentence)))


def asks_for_past(question: str) -> bool:
    """Return whether a question asks what happened or held before: "What did I pay?", "Who was my tutor before?"."""
    return _PAST.search(plain(question[:_READ_CHARS])) is not None


def asked_in(text: str, question: str) -> frozenset[str]:
    """Return the beginnings of those words of a question that a text has and that tell what is asked for.

    A name is none: "What does Ada drink?" does not ask for whatever is said of Ada.
    """
    words = frozenset(_WORD.findall(plain(text[:_READ_CHARS])))
    return frozenset(stem for stem in _stems(question) if any(word.startswith(stem) for word in words))


@lru_cache(maxsize=64)
def _stems(question: str) -> frozenset[str]:
    """Return the beginnings of the words that tell what a short question asks for. German ones may be names."""
    if len(question) > _QUESTION_MAX_CHARS:
        return frozenset()
    capital = (word for word in _WORD.findall(question)[1:] if word[0].isupper() and language_of(question) != "de")
    told = set(_WORD.findall(" ".join(telling_words(question)))).difference(map(plain, capital))
    return frozenset(word[: max(_STEM_LEAST, min(_STEM_CHARS, len(word) - 1))] for word in told if len(word) > 1)


@cache
def _changes() -> re.Pattern[str]:
    """Return the pattern for what says of a change, in lower case and without accents.

    None is "I am making tea right now", "for now", "now that" or "findet am Montag statt".
    """
    done = (
        r"(?:changed|moved|switched|postponed|rescheduled|cancell?ed|replaced|raised|lowered|increased|reduced|upgraded"
        r"|renamed|extended|updated|called off)"
    )
    had = r"(?:has|have|had|was|were|is|are|been|got|we|i|they|he|she|it)(?:['\u2019](?:s|ve))?"
    english = (
        r"(?<!\bright )(?<!\bjust )(?<!\buntil )(?<!\bup to )(?<!\bby )(?<!\bfor )\bnow\b(?! that\b| and then\b)"
        r"|\b(?:no longer|any ?more|instead|correction|from today|t(?:akes|ook) over)\b"
        r"|\bnot \S+(?: \S+){0,2},? (?:but|it['\u2019]?s|it is)\b"
        rf"|\b{had} (?:(?:just|now|been) )*{done}\b|\b{done} (?:to|from)\b"
        r"|\b(?:switching|moving|changing) (?:\w+ ){0,3}(?:to|from)\b|\b(?:is|are|was|were|went) back to\b"
        r"|\b(?:the|my|our|his|her|their) new \w"
    )
    german = (
        r"\b(?:jetzt|inzwischen|mittlerweile|neuerdings|ab sofort|nicht mehr|kein\w* mehr|stattdessen|korrektur"
        r"|verschoben|geandert|umgezogen|gewechselt|abgesagt|storniert|verlegt|ersetzt|erhoht|gesenkt|umbenannt)\b"
        r"|\bstatt (?=\w)|\b(?:der|die|das|den|dem|mein\w*|unser\w*) neuen?\b"
    )
    spanish = (
        r"\b(?:ahora|ya no|en vez|en lugar|a partir de hoy|correccion|(?:se|lo|la) cambi[oa]|cambi(?:ado|amos|aron)"
        r"|(?:aplaza|cancela|anula|traslada|muda|sustitui)d[oa]|pospuest[oa]|(?:el|la|mi|nuestr[oa]) nuev[oa])\b"
    )
    french = (
        r"\b(?:maintenant|desormais|dorenavant|au lieu|(?:le|la|mon|ma|notre) nouve\w+)\b"
        r"|\bn(?:e |['\u2019](?:y |en )?)\w+ plus\b"
        r"|\b(?:a|ai|ont|avons|avez|est|ete|sont) (?:ete )?(?:change|demenage|reporte|annule|deplace|remplace)e?s?\b"
    )
    return re.compile(f"{english}|{german}|{spanish}|{french}")

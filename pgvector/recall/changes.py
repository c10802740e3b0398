"""Tells which statements say of themselves that something holds no longer, and what of a question a text is about."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, lru_cache

from ..domain.function_words import language_of, plain, stem_of, telling_words
from ..domain.patterns import late_pattern
from ..domain.time_words import WEEKDAYS

TEXT_MAX_CHARS = 600  # a longer text says several things
_READ_CHARS = 2000
_QUESTION_MAX_CHARS = 250  # a longer message names many things
_WORD = late_pattern(r"\w+")
_SENTENCE_ENDS = late_pattern(r"(?<=\w\w[.!?])\s+|\n+")  # not after "7." and "a."
# In capitals within a sentence; not in German.
_NAME = late_pattern(r"(?<=\w )[A-Z\u00c0-\u00d6\u00d8-\u00de][^\W\d_]+")
# Between words of which the first tells which is meant by the second: in English, and in others.
_CLOSE = (frozenset((" ", "-", "'", "\u2019")), frozenset("-"))
_OF = late_pattern(
    r"\b(\w+)(?= (?:of|for|von|vom|fur|del?|du|des|para|pour)"
    r" (?:(?:the|my|our|dem|den|der|das|mein\w*|el|la|mi|le|ma|mon) )?(\w+))"
)
_TELLS_NOT_WHICH = late_pattern(r"new|old|\w+(?:ed|ing)|[a-z]*day|\d\w*")
# In lower case and without accents.
_IF = late_pattern(r"(?:if|unless|whenever|wenn|falls|si)\b(?!,)")
_PAST = late_pattern(
    r"\b(?:did|were|had|used to|before|earlier|previous(?:ly)?|former(?:ly)?|old|original(?:ly)?|initial(?:ly)?"
    r"|first|ever|war|waren|wurden?|hatten?|fruher\w*|vorher\w*|ursprunglich\w*|alten?|damals|erst"
    r"|fue|fueron|fui|era|eran|hice|hicimos|antes|anterior|antigu[oa]|primer[oa]?"
    r"|etai(?:s|t|ent)|avai(?:s|t|ent)|avant|ancien(?:ne)?|premiere?)\b"
    r"|\bha(?:be|ben|st|t|bt)\b.*\b(?:ge|be|ver|er|ent)\w+(?:t|en)\W*$"
)
# With what holds now: "updated the script" and "corrected" tell of work that was done.
_CONFIRMS = late_pattern(
    r"(?:(?:ok(?:ay)?|done|noted|understood|notiert|gut|apuntado|hecho|note)[,.:;!]? )?(?:i(?:['\u2019]ve| have)? )?"
    r"(?:updated|changed|corrected|moved|geandert|aktualisiert|korrigiert|cambiad[oa]|actualizad[oa]|corregid[oa]"
    r"|modifie|mis a jour|corrige)(?:\s*[:,\u2013\u2014]|(?: [^\s:,.;]+){0,4} (?:to|auf|al?|au)) \w"
)
# What is asked for is a number or a time. In lower case and without accents.
_FOR_VALUE = late_pattern(
    r"\b(?:how (?:many|much|long|often|old|far|big|large|high|late|early)|(?:what|which) (?:times?|days?|dates?)"
    r"|when(?:['\u2019]s| (?:is|are|do|does|will|must|should|can))|costs?|price"
    r"|(?:what|which|the)(?:['\u2019]s)? (?:\S+ ){0,3}?(?:code|number|version)"
    r"(?=\W*$|[?.!,]| (?:of|for|to|do|does|is|in|on|at|we|i)\b)"
    r"|wie ?(?:viele?|lange|oft|alt|weit|gross|hoch|spat)|wann|welche[nmrs]? (?:uhrzeit|tage?n?|datum)|kostet|kosten"
    r"|preis|nummer|combien|quels? jours?|quelle (?:heure|date)|coute\w*|prix|numero|cuant[oa]s?|que (?:hora|dias?)"
    r"|cuestan?|precio|clave)\b|^\W*(?:et |y )?(?:quand|cuando)\b"
)
# That something holds no longer. Of "kein Auto mehr" and "n'est plus" only the beginning, so that the rest can be read.
NO_LONGER = (
    r"\b(?:no longer(?! than\b)|anymore|any more(?=\s*(?:[.,;:!]|$)| (?:and|because|but|for|in|on|since|so)\b)"
    r"|nicht mehr(?! als\b)|keine?[mnrs]? (?=\S+ mehr\b(?! als\b))|ya no)\b"
    r"|\bn(?:e |['\u2019](?:y |en )?)(?=\w+ plus\b)"
)
_WAS = late_pattern(r"\bwas\b")  # in German it is "what"


@lru_cache(maxsize=512)  # each row of a block, several times
def what_changed(text: str) -> str:
    """Return the sentences that say that something is another way than before: "The lesson has moved", "it is 8 now".

    In English, German, Spanish and French.
    """
    sentences = _SENTENCE_ENDS.split(text) if len(text) <= TEXT_MAX_CHARS else ()
    stated = ((sentence, plain(sentence)) for sentence in sentences if not sentence.rstrip().endswith("?"))
    return " ".join(sentence for sentence, said in stated if not _IF.match(said) and _changes().search(said))


def confirmed_change(said: str, reply: str) -> str:
    """Return what somebody said, with the reply, if that notes it as a change: "Updated: Friday at 6"."""
    return f"{said} {reply}" if len(said) <= TEXT_MAX_CHARS and _CONFIRMS.match(plain(reply)) else ""


def asks_for_past(question: str) -> bool:
    """Return whether a question asks what happened or held before: "What did I pay?", "Who was my tutor before?"."""
    asked = plain(question[:_READ_CHARS])
    if _PAST.search(asked):
        return True
    return _WAS.search(asked) is not None and language_of(question) != "de"


def asks_for_value(question: str) -> bool:
    """Return whether a question asks for a number, a price or a time, of which the one said last holds."""
    return _FOR_VALUE.search(plain(question[:_READ_CHARS])) is not None


def told_in(text: str) -> frozenset[str]:
    """Return the beginnings of the words of a short text that tell what it is about, without names and weekdays."""
    return frozenset(stem for stem in _stems(text) if not any(day.startswith(stem) for day in WEEKDAYS))


def asked_in(text: str, question: str) -> frozenset[str]:
    """Return the beginnings of those words of a question that a text has and that tell what is asked for.

    A name is none: "What does Ada drink?" does not ask for whatever is said of Ada. In "what does ada drink" the text
    tells that it is one.
    """
    language, read = language_of(question), text[:_READ_CHARS]
    told = plain(read if language == "de" else _NAME.sub(" ", read))
    others = _of_others(plain(read), plain(question[:_READ_CHARS]), _CLOSE[bool(language)])
    words = frozenset(_WORD.findall(told)) - others
    return frozenset(stem for stem in _stems(question) if any(word.startswith(stem) for word in words))


def _of_others(text: str, question: str, close: frozenset[str]) -> frozenset[str]:
    """Return the words that a text has of something else: of the "garage door code" where the office's is asked for."""
    asked: defaultdict[str, set[str]] = defaultdict(set)
    for word, which in _told_apart(question, close):
        asked[word].add(which)
    said: defaultdict[str, set[str]] = defaultdict(set)
    others: set[str] = set()
    for word, which in _told_apart(text, close):
        said[word].add(which)
        if word in asked and not asked[word].intersection(said[word] - others):
            others.add(word)
        else:
            others.discard(word)
    return frozenset(others)


def _told_apart(text: str, close: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield words, each with one that tells which is meant: "garage" in "garage code", and in "code of the garage"."""
    end, last = -1, ""
    for found in _WORD.finditer(text):
        if text[end : found.start()] in close and _tells_which(last):
            yield found[0], last
        if found[0] != "s":
            last = found[0]
        end = found.end()
    # What tells of another word is looked at first: "passe" with "wifi" in "mot de passe du wifi".
    yield from ((found[1], found[2]) for found in reversed(list(_OF.finditer(text))) if _tells_which(found[2]))


def _tells_which(word: str) -> bool:
    return _TELLS_NOT_WHICH.fullmatch(word) is None and any(telling_words(word))


@lru_cache(maxsize=64)
def _stems(question: str) -> frozenset[str]:
    """Return the beginnings of the words that tell what a short question asks for. German ones may be names."""
    if len(question) > _QUESTION_MAX_CHARS:
        return frozenset()
    capital = (word for word in _WORD.findall(question)[1:] if word[0].isupper() and language_of(question) != "de")
    told = set(_WORD.findall(" ".join(telling_words(question)))).difference(map(plain, capital))
    return frozenset(stem_of(word) for word in told if len(word) > 1)


@cache
def _changes() -> re.Pattern[str]:
    """Return the pattern for what says of a change, in lower case and without accents.

    None is "I am making tea right now", "for now", "now that" or "findet am Montag statt".
    """
    done = (
        r"(?:changed|moved|switched|postponed|rescheduled|cancell?ed|replaced|raised|lowered|increased|reduced|upgraded"
        r"|renamed|extended|updated|called off)"
    )
    had = r"(?<!\bnothing )(?:has|have|had|was|were|is|are|been|got|we|i|they|he|she|it)(?:['\u2019](?:s|ve))?"
    its = r"(?:it|the|my|our|your|his|her|their|its)"
    time = r"(?:second|minute|hour|day|night|week|month|year)s?"
    english = (
        r"(?<!\bright )(?<!\bjust )(?<!\buntil )(?<!\bup to )(?<!\bby )(?<!\bfor )\bnow\b"
        r"(?! that\b| and (?:then|again)\b)"
        r"|\b(?:instead|correction|from today)\b"
        rf"|\bt(?:akes|ook) over\b(?! (?:\S+ ){{1,2}}{time}\b(?! ago\b))"
        r"|\bnot (?!(?:only|just|merely|sure|bad)\b)\S+(?: \S+){0,2},? (?:but|it['\u2019]?s|it is)\b"
        rf"|\b{had} (?:(?:just|now|been) )*{done}\b|\b{done}(?: {its}(?: [^\s.,:;?!]+){{0,3}}?)? (?:to|from)\b"
        r"|\b(?:switching|moving|changing) (?:\w+ ){0,3}(?:to|from)\b|\b(?:is|are|was|were|went) back to\b"
        r"|\b(?:the|my|our|his|her|their) new (?!(?:york|zealand|jersey|orleans|delhi|mexico|years?)\b)\w"
    )
    german = (
        r"\b(?<!\bbis )(?<!\bgerade )jetzt\b(?! gerade\b)|\bkein\w* mehr\b(?! als\b)"
        r"|\b(?:inzwischen|mittlerweile|neuerdings|ab sofort|stattdessen|korrektur)\b"
        r"|\b(?<!\bnicht )(?<!\bnichts )(?:verschoben|geandert|umgezogen|gewechselt|abgesagt|storniert|verlegt|ersetzt"
        r"|erhoht|gesenkt|umbenannt)\b|\bstatt (?=\w)"
        r"|\b(?:der|die|das|den|dem|mein\w*|unser\w*) neue[mnrs]?\b(?! jahre?s?\b)"
    )
    spanish = (
        r"\b(?<!\bpor )(?<!\bhasta )ahora\b(?! mismo\b)"
        r"|\b(?<!\bno ha )(?<!\bnada ha )(?<!\bno han )(?<!\bno se ha )(?:cambi|aplaz|cancel|anul|traslad)ad[oa]s?\b"
        r"|\b(?:en vez|en lugar|a partir de hoy|correccion|(?<!\bno )(?:se|lo|la) cambi[oa]|cambi(?:amos|aron)"
        r"|(?:muda|sustitui)d[oa]|pospuest[oa]|(?:el|la|mi|nuestr[oa]) nuev[oa])\b"
    )
    french = (
        r"\b(?<!\bjusqu['\u2019]a )(?<!\bpour )maintenant\b"
        r"|\b(?:desormais|dorenavant|au lieu|(?:le|la|mon|ma|notre) nouve\w+)\b"
        r"|\b(?<!\brien n['\u2019])(?:a|ai|ont|avons|avez|est|ete|sont) (?:ete )?"
        r"(?:change|demenage|reporte|annule|deplace|remplace)e?s?\b"
    )
    return re.compile(f"{NO_LONGER}|{english}|{german}|{spanish}|{french}")

"""Tells messages that ask or order something from those that state it, also where no question mark is typed."""

from __future__ import annotations

import re
from functools import cache, lru_cache

_HEAD_CHARS = 800  # of a message, in which a question above what was pasted is looked for
_END_CHARS = 200  # in which its last sentence is
_BEGINNING_CHARS = 120
_PASTED_LINES = 3  # fewest lines below a first one that asks about them, as about a log
# The Greek question mark is typed as a semicolon; polite Japanese asks by a final syllable, and Chinese may.
_MARKED = re.compile(
    r"(?:[?\uff1f\u061f\u037e]|[\u0370-\u03ff\u1f00-\u1fff];|[吗嗎]|(?:です|でした|ます|ました|ません|でしょう|だろう)か)\W*$"
)
_SENTENCE_ENDS = re.compile(r"[.!?:;\u2026]\s+|\n|\s[-\u2013\u2014]\s")
# Whoever gives a rule to keep to states it: "Write short answers from now on."
_STANDING = re.compile(
    r"\b(?:from now on|in future|always|never|every time|whenever|remember|remind|note|ab jetzt|ab sofort|künftig|immer"
    r"|nie|niemals|merk|merke|erinner|erinnere|siempre|nunca|toujours|jamais)\b"
)
_BE = r"(?:is|are|was|were|am|do|does|did|can|could|should|would|will|has|have|had|may|might)"
_THEY = r"(?:i|you|we|he|she|it|they|there)"
_OURS = rf"(?:{_THEY}|this|that|these|those|the|my|your|our|his|her|their)"
_IST = (
    r"(?:ist|sind|war|waren|bin|hat|haben|habe|hatte|hatten|kann|können|kannst|konnte|soll|sollen|muss|müssen|wird|werden"
    r"|wurde|wurden|darf|dürfen|mache|macht|machen|heisst|heissen|kostet|kosten|kommt|kommen|geht|gehen|gibt|gab|brauche"
    r"|brauchen|braucht|brauch|mach|hab|hilft|bedeutet|nimmt|liegt|steht|läuft)"
)
_PLEASE = r"(?:(?:hi|hello|hey|ok|okay|so|now|and|please|hallo|also|und|bitte)[,!.]?\s+)*"


def asks(text: str, *, of_a_turn: bool) -> bool:
    """Return whether a text asks, by its question mark or, `of_a_turn`, by its words; also above what was pasted.

    The words are English, German, Spanish, and in part French, Turkish and Chinese. A memory that says "Write short
    answers" orders nothing.
    """
    if _MARKED.search(text[-80:]):
        return True
    return of_a_turn and _asks_by_words(text[:_HEAD_CHARS], text[-_END_CHARS:])


@lru_cache(maxsize=1024)  # hundreds of rows are asked about, several times each
def _asks_by_words(head: str, end: str) -> bool:
    beginning = head[:_BEGINNING_CHARS].strip().casefold()
    if _request().match(beginning):
        return not _STANDING.search(f"{beginning} {end.casefold()}")
    *before, last = _SENTENCE_ENDS.split(end.strip().rstrip(".!\u2026").casefold())
    if ((before or head == end) and _unmarked().match(last.strip())) or _anywhere().search(last):
        return True
    first, *below = head.strip().splitlines() or [""]
    return len(below) >= _PASTED_LINES and bool(_MARKED.search(first[-80:]))


@cache
def _unmarked() -> re.Pattern[str]:
    """Return the pattern for the beginning of a question.

    None is "what we need is", "what was best is", "did the dishes", "do it today" or "habe ich bezahlt".
    """
    return re.compile(
        rf"{_PLEASE}(?:"
        rf"(?:who|whom|whose|where|when|why|how)(?:'s|s|\s+{_BE})\b"
        rf"|what(?:'s|s|\s+{_BE})\b(?!.*\b(?:is|was|are|were)\b)"
        r"|how\s+(?:many|much|long|often|old|far|big|high|late)\b(?!\s+(?:i|we|you|he|she|it|they)\b)"
        r"|which\s+(?!(?:is|are|was|were|means|makes|reminds|i|we|you|he|she|it|they)\b)|whose\s"
        rf"|what\s+(?:[\w.-]+\s+){{1,3}}(?:do|does|did)\s+{_OURS}\b"
        rf"|(?:is|are|can|could|will|would|does|shall|may)\s+{_OURS}\b|(?:was|were|has)\s+{_THEY}\b"
        r"|(?:do|did|have|had)\s+(?:i|you|we|he|she|they)\b"
        rf"|should\s+(?:i|we|he|she|it|they|the|my|our)\b"
        rf"|(?:was|wer|wem|wen|wann|wo|woher|wohin|womit|worüber|wofür|warum|wieso|wie)\s+{_IST}\b"
        rf"|wie\s?(?:viel|viele|lange|oft|alt|weit|hoch|spät)\b|welche[rsnm]?\s"
        r"|(?:kannst|könntest|hast|bist|weisst|willst|sollst|darfst|könnt|könntet|habt|seid|wisst)\s+(?:du|ihr)\b"
        r"|(?:(?:por|para|de|a|en|con)\s+)?(?:qué(?!\s+(?:bien|bueno|buena|rico|pena|lástima))|cuánt[oa]s?|cuándo|dónde|cómo|quién"
        r"|quiénes|cuál|cuáles)\s"
        r"|(?:est-ce\s+qu|qu['\u2019]est-ce|combien\s|pourquoi\s|comment\s+(?:faire|on|je|ça|dit|se)\b|quel(?:le)?s?\s+(?:est|sont)\b)"
        ")"
    )


@cache
def _anywhere() -> re.Pattern[str]:
    """Return the pattern for what asks wherever it stands, also in dictated words without any stops."""
    return re.compile(
        r"\b(?:what|whom?|where|when|why|how)\s+(?:do|does|did|can|could|should|shall)\s+(?:i|we|you|they)\b"
        r"|\b(?:was|wen|wem|wo|warum|wie)\s+(?:soll|sollen|kann|können|muss|müssen|mache|machen)\s+(?:ich|wir)\b"
        r"|(?<!\bher\s)\bne\s+(?:zaman|kadar)\b|\bm[ıiuü](?:s[ıiuü]n(?:[ıiuü]z)?|y[ıiuü][mz]|yd[ıiuü])?$"
        r"|\bqué\s+(?:hago|hacemos|puedo|podemos|debo|debemos)\b|\b(?:nedir|neydi|nerede|nasıl)$|(?:怎么办|怎么做|怎么样|怎么回事|多少钱)$"
    )


@cache
def _request() -> re.Pattern[str]:
    """Return the pattern for the beginning of an order for a text, whose answer is what counts."""
    some = r"(?:an?|the|some|me|us|another|my|our|this|that|\d+|two|three|four|five|ten)"
    return re.compile(
        rf"{_PLEASE}(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?)?(?:"
        rf"(?:draft|compose|sketch|suggest|list|describe|rewrite|rephrase|proofread|outline)\s+{some}\b"
        r"|write\s+(?:me|us|an?|the|some|another|two|three|four|five|\d+)\b"
        r"|(?:translate|explain|summari[sz]e|paraphrase)\s"
        r"|(?:give|show|tell)\s+(?:me|us)\s+(?:an?|the|some|another|about|how|why|what|two|three|four|five|ten|\d+)\b"
        r"|(?:schreib|schreibe|entwirf|formuliere|erstelle|nenn|nenne|zeig|zeige|gib|erklär|erkläre|übersetz|übersetze"
        r"|erzähl|erzähle)\s+(?:(?:mir|uns|bitte|mal|doch)\s+)*(?:ein|eine|einen|den|die|das|drei|zwei|fünf|\d+|wie|was"
        r"|warum)\b"
        r"|(?:escribe|escríbeme|escríbenos|redacta|redáctame|traduce|tradúceme|explica|explícame|resume|resúmeme|dame)\s+"
        r"(?:un|una|el|la|los|las|lo|este|esta|otro|otra|dos|tres|\d+|qué|cómo|por)\b"
        r"|(?:écris|écrivez|rédige|rédigez|traduis|traduisez|explique|expliquez|résume|résumez)(?:-moi|-nous)?\s+"
        r"(?:un|une|le|la|les|ce|cette|comment|pourquoi)\b"
        r"|(?:请|麻烦)?(?:帮我|给我|替我|请)(?:写|翻译|总结|列|起草)"
        ")"
    )

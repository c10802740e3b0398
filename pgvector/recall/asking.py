"""Tells messages that ask or order something from those that state it, also where no question mark is typed."""

from __future__ import annotations

import re
from functools import cache, lru_cache

from ..domain.patterns import late_pattern

_HEAD_CHARS = 800  # of a message, in which a question above what was pasted is looked for
_END_CHARS = 200  # in which its last sentence is
_BEGINNING_CHARS = 120
_BELOW_CHARS = 8000  # of a message that begins with an error, in which somebody's own words begin below it
_PASTED_LINES = 3  # fewest lines below a first one that asks about them, as about a log
# The Greek question mark is typed as a semicolon; polite Japanese asks by a final syllable, and Chinese may.
_MARKED = late_pattern(
    r"(?:[?\uff1f\u061f\u037e]|[\u0370-\u03ff\u1f00-\u1fff];|[吗嗎]|(?:です|でした|ます|ました|ません|でしょう|だろう)か)\W*$"
)
_SENTENCE_ENDS = late_pattern(r"[.!?:;\u2026]\s+|\n|\s[-\u2013\u2014]\s")
# Whoever gives a rule to keep to states it: "Write short answers from now on."
_STANDING = late_pattern(
    r"\b(?:from now on|in future|always|never|every time|whenever|remember|remind|note|ab jetzt|ab sofort|künftig|immer"
    r"|nie|niemals|merk|merke|erinner|erinnere|siempre|nunca|toujours|jamais)\b"
)
_BE = r"(?:is|are|was|were|am|do|does|did|can|could|should|would|will|has|have|had|may|might)"
_THEY = r"(?:i|you|we|he|she|it|they|there)"
_ANYONE = r"(?:any(?:one|body|thing)?|some(?:one|body)|every(?:one|body))"
_OURS = rf"(?:{_THEY}|this|that|these|those|the|my|your|our|his|her|their)"
_IST = (
    r"(?:ist|sind|war|waren|bin|hat|haben|habe|hatte|hatten|kann|können|kannst|konnte|soll|sollen|muss|müssen|wird|werden"
    r"|wurde|wurden|darf|dürfen|mache|macht|machen|heisst|heissen|kostet|kosten|kommt|kommen|geht|gehen|gibt|gab|brauche"
    r"|brauchen|braucht|brauch|mach|hab|hilft|bedeutet|nimmt|liegt|steht|läuft)"
)
_PARAGRAPH_ENDS = late_pattern(r"\n[^\S\n]*\n\s*")
_PLEASE = r"(?:(?:hi|hello|hey|ok|okay|so|now|and|please|hallo|also|und|bitte)[,!.]?\s+)*"


def asks(text: str, *, of_a_turn: bool) -> bool:
    """Return whether a text asks, by its question mark or, `of_a_turn`, by its words; also above what was pasted.

    The words are English, German, Spanish, and in part French, Turkish and Chinese. A memory that says "Write short
    answers" orders nothing.
    """
    if _MARKED.search(text[-80:]):
        return True
    return of_a_turn and _asks_by_words(text[:_HEAD_CHARS], text[-_END_CHARS:])


def pastes_error(text: str) -> bool:
    """Return whether a message is nothing but a program's error. Its reply says what helps, though nobody has asked."""
    if not _error().match(text[:_HEAD_CHARS].lstrip()):
        return False
    *before, last = _PARAGRAPH_ENDS.split(text[-_BELOW_CHARS:].rstrip())
    return not before or _error().match(last) is not None


def asks_for_reply(text: str) -> bool:
    """Return whether a text asks what the assistant has said, also as what helped: "How did we fix the noise?"."""
    folded = text[:_HEAD_CHARS].casefold()
    return _said_by_you().search(folded) is not None or _what_helped().search(folded) is not None


def asks_what_we_did(text: str) -> bool:
    """Return whether a text begins by asking what its speaker did or was: "Where did I go on Monday?"."""
    return _by_us().match(text[:_BEGINNING_CHARS].strip().casefold()) is not None


@cache
def _by_us() -> re.Pattern[str]:
    did = (
        r"(?:(?:did|had|have|was|were)\s+(?:i|we)|(?:hab(?:e|en)?|hatten?|war(?:en)?)\s+(?:ich|wir)|ai-je|avons-nous"
        r"|j['\u2019]ai|nous\s+avons|on\s+a|(?<=qué\s|nde\s|ndo\s|uál\s|ién\s)(?:\w{2,}(?:é|[ai]mos)|hice|fui|dije))\b"
    )
    asked = (
        r"(?:what|which|whom?|whose|where|when|why|how|was|welche[rsnm]?|we[rmn]|wann|wo\w{0,5}|warum|wie"
        r"|quel\w*|quoi|qu['\u2019]|qui|où|quand|combien|comment|qué|dónde|cuándo|cuál|quién)"
    )
    return re.compile(rf"\W*{_PLEASE}(?:{did}|{asked}\b[^.?!\n]*?\b{did})")


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
def _error() -> re.Pattern[str]:
    """Return the pattern for the beginning of what a program writes when it fails.

    Whoever adds words of their own below it leaves a line free.
    """
    return re.compile(
        r"traceback \(most recent call last\)|exception in thread\b|npm err!|panic:"
        r"|(?:\S+[:>] +){0,2}\[?(?:error|fatal|critical|[\w.]+(?:error|exception))\]?[:(]"
        r"|\W?\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*\s[^\n]{0,40}?\b(?:error|fatal|critical)\b"
        r"|\{[^\n]{0,200}\"(?:level|severity)\" ?: ?\"(?:error|fatal|critical)\""
        r"|during handling of the above exception\b",
        re.IGNORECASE,
    )


@cache
def _said_by_you() -> re.Pattern[str]:
    """Return the pattern for what somebody says of the assistant's words, in English, German, Spanish and French."""
    say = r"(?:say|tell|suggest|recommend|propose|advise|explain|mention|think|mean|write|answer|reply|come up with)"
    said = (
        r"(?:said|told|suggested|recommended|proposed|advised|explained|mentioned|thought|meant|wrote|written|answered"
        r"|replied|come up with|came up with)"
    )
    noun = r"(?:advice|suggestions?|recommendations?|proposals?|opinion|answer|reply|explanation|tips?)"
    return re.compile(
        rf"\bdid\s+you\s+(?:\w+\s+)?{say}\b|\byou(?:['\u2019]ve|['\u2019]d|\s+have|\s+had)?\s+{said}\b"
        rf"|\byour\s+(?:\w+\s+)?{noun}\b"
        r"|\bhast\s+du\b.*\b(?:gesagt|gemeint|geraten|empfohlen|vorgeschlagen|erklärt|geschrieben|erwähnt|geantwortet)\b"
        r"|\bdein(?:e|en|er|em)?\s+(?:rat|vorschlag|vorschläge|tipps?|empfehlung(?:en)?|antwort|meinung|erklärung)\b"
        r"|\b(?:dijiste|recomendaste|sugeriste|aconsejaste|propusiste|explicaste)\b|\btus?\s+(?:consejos?|sugerencias?"
        r"|recomendaci(?:ón|ones)|propuestas?|respuestas?)\b"
        r"|\b(?:as-tu|tu\s+(?:as|m['\u2019]as)|m['\u2019]as-tu)\s+(?:dit|conseillé|proposé|recommandé|suggéré|expliqué)\b"
        r"|\b(?:ton|tes)\s+(?:conseils?|avis|propositions?|réponses?)\b"
    )


@cache
def _what_helped() -> re.Pattern[str]:
    """Return the pattern for questions about what was done or answered, in the same languages.

    Whoever reports that something fails gets to know in the reply what helps.
    """
    said = r"(?:answer|reply|response)(?=\s+(?:to|for|about|when)\b|\W*$)"  # not "our response time"
    solution = r"(?:fix|solution|workaround|work-around|remedy)"
    return re.compile(
        r"\bhow\s+(?:did|do)\s+(?:we|you|i)\s+(?:\w+\s+)?(?:fix|solve|resolve|repair|debug|cure|stop"
        r"|sort out|get rid of)\b"
        r"|\bhow\s+did\s+(?:we|you|i)\s+(?:answer|reply\s+to|respond\s+to)\b"
        r"|\bhow\s+(?:was|were|is)\b[^.?!\n]*\b(?:fixed|solved|resolved|answered)\b"
        r"|\bwhat\s+(?:had\s+)?(?:fixed|solved|resolved|helped|cured|sorted|worked|stopped)\b"
        r"|[,.:;]\s*what\s+(?:was\s+it|did\s+(?:we|i|you)\s+do)"
        r"(?:\s+(?:about\s+it|against\s+it|(?:the\s+)?last\s+time|then))?\W*$"
        rf"|\bwhat(?:['\u2019]s|\s+was|\s+is)\s+(?:the|our)\s+(?:\w+\s+)?{solution}\b"
        rf"|\bwhat(?:['\u2019]s|\s+was|\s+is)\s+our\s+(?:\w+\s+)?{said}"
        r"|\bwie\s+(?:haben\s+wir|habe?\s+ich|wurde)\b[^.?!\n]*\b(?:gelöst|behoben|repariert|gefixt|beantwortet)\b"
        r"|\bwas\s+(?:war|ist)\s+(?:(?:die|unsere)\s+(?:\w+\s+)?lösung|unsere\s+antwort)\b"
        r"|\bwas\s+hat(?:te)?\b[^.?!\n]*\bgeholfen\b"
        r"|[,.:;]\s*was\s+war\s+(?:das|es)(?:\s+(?:letztes\s+mal|beim\s+letzten\s+mal|damals|noch(?:\s?mal)?))\W*$"
        r"|\bqué\s+(?:ayudó|funcionó|sirvió)\b|,\s*qué\s+era\W*$|\bqu['\u2019]est-ce\s+qui\s+a\s+(?:aidé|marché|suffi)\b"
        r"|\bcómo\s+(?:\w+\s+)?(?:arreglamos|solucionamos|resolvimos|respondimos)\b"
        r"|\bcuál\s+(?:es|era|fue)\s+(?:la|nuestra)\s+solución\b"
        r"|\bcomment\b[^.?!\n]*\b(?:résolu|réparé|corrigé|répondu)\b"
        r"|\bquelle\s+(?:est|était|fut)\s+(?:la|notre)\s+solution\b"
    )


@cache
def _unmarked() -> re.Pattern[str]:
    """Return the pattern for the beginning of a question.

    None is "what we need is", "what was best is", "did the dishes", "do it today", "who comes first is", "had somebody
    look at it", "habe ich bezahlt" or "wer zuerst kommt, mahlt zuerst".
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
        rf"|(?:is|are|can|could|will|would|does|did|has|was|were|should)\s+{_ANYONE}\b|do\s+any(?:one|body)?\b"
        r"|(?:who\s+(?!knows\b)(?:\w+s|\w+ed|won|made|got|took|went|came|wrote|said|sent|told|left|bought|paid)"
        r"|what\s+(?:happened|changed|went|came|broke)\b(?!.*(?:,|\b(?:\w+ed|cost|made|got|became)\b)))\b"
        r"(?!.*\b(?:is|was|are|were|will|can|must|should|would)\b)|(?:how|what)\s+about\b|how\s+come\b"
        r"|any\s+(?:news|updates?|word|luck|progress)\b|any\s+ideas?\s+(?:who|what|when|where|why|how|if|whether)\b"
        rf"|(?:was|wer|wem|wen|wann|wo|woher|wohin|womit|worüber|wofür|warum|wieso|wie)\s+{_IST}\b"
        r"|(?:wer|wem|wen|wann|wohin|woher|womit|wofür|warum|wieso|weshalb)\s+\w+(?:t|te|en)\b(?!.*,)"
        r"|gibt(?:\s+es|['\u2019]?s)\b(?!.*\b(?:nicht|nichts|kein\w*)\b)"
        rf"|wie\s?(?:viel|viele|lange|oft|alt|weit|hoch|spät)\b|welche[rsnm]?\s"
        r"|(?:kannst|könntest|hast|bist|weisst|willst|sollst|darfst|könnt|könntet|habt|seid|wisst)\s+(?:du|ihr)\b"
        r"|(?:(?:por|para|de|a|en|con)\s+)?(?:qué(?!\s+(?:bien|bueno|buena|rico|pena|lástima))|cuánt[oa]s?|cuándo|dónde|cómo|quién"
        r"|quiénes|cuál|cuáles)\s"
        r"|(?:puedes|podrías)\s+(?:decir|hacer|escribir|explicar|dar|\w+r(?:me|nos))\b"
        r"|(?:où|quand)\s+(?:est|sont|était)\b|qui\s+(?:est|sont|s['\u2019]occupe)\b|y\s+a-t-il\b"
        r"|(?:peux|pourrais|sais|as|es|veux)-tu\b|(?:pouvez|pourriez|savez|avez|êtes|voulez)-vous\b"
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
        r"|\bqué\s+(?:hago|hacemos|puedo|podemos|debo|debemos)\b|\b(?:nedir|neydi|nerede|nasıl|kaç(?:ta|a)?)$"
        r"|^(?:谁|哪[里儿个位天]|为什么|什么时候|几点)(?!.*[都也])|(?:几点|什么时候)(?:开始|结束|到|来|去|开门|关门)$|(?:怎么办|怎么做|怎么样|怎么回事|多少钱)$"
    )


@cache
def _request() -> re.Pattern[str]:
    """Return the pattern for the beginning of an order for a text or to play a part, whose answer is what counts."""
    kinds = r"(?:table|list|checklist|summary|plan|outline|poem|story|text|letter|e?-?mail|template|chart|quiz|agenda)"
    some = r"(?:an?|the|some|me|us|another|my|our|this|that|\d+|two|three|four|five|ten)"
    return re.compile(
        rf"{_PLEASE}(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?)?(?:"
        rf"(?:draft|compose|sketch|suggest|list|describe|rewrite|rephrase|proofread|outline)\s+{some}\b"
        rf"|(?:calculate|compute|convert)\s+{some}\b"
        rf"|(?:make|create|generate)\s+(?:(?:me|us)\s+)?(?:an?|the|another|two|three|\d+)\s+(?:[\w-]+\s+)?{kinds}s?\b"
        r"|help\s+(?:me|us)\s+(?:to\s+)?(?:write|draft|phrase|word|compose|translate|explain)\b"
        r"|(?:speak|talk|answer|reply|respond|act)\s+(?:as|like)\s+(?!if\b|usual|soon|before|always|well\b|long\b)"
        r"|pretend\s+(?:to\s+be|(?:that\s+)?you)\b|(?:sprich|antworte|rede)\s+(?:als|wie)\s+(?!ob\b|immer|bisher|gehabt)"
        r"|(?:habla|responde|actúa)\s+como\s+(?!si\b|siempre)|(?:parle|parlez|réponds|répondez)\s+comme\s+(?!si\b|toujours)"
        r"|write\s+(?:me|us|an?|the|some|another|two|three|four|five|\d+)\b"
        r"|(?:translate|explain|summari[sz]e|paraphrase)\s"
        r"|(?:give|show|tell)\s+(?:me|us)\s+"
        r"(?:an?|the|some|another|about|again|who|when|where|which|how|why|what|two|three|four|five|ten|\d+)\b"
        r"|(?:schreib|schreibe|entwirf|formuliere|erstelle|nenn|nenne|zeig|zeige|gib|erklär|erkläre|übersetz|übersetze"
        r"|erzähl|erzähle|sage?\s+(?:mir|uns)|berechne|vergleich|vergleiche|kürz|kürze|korrigier|korrigiere)\s+"
        r"(?:(?:mir|uns|bitte|mal|doch|noch|nochmal)\s+)*(?:ein|eine|einen|den|die|das|drei|zwei|fünf|\d+|wie|was"
        r"|warum|wer|wann|wo)\b|mach(?:e)?\s+(?:mir|uns)\s+(?:bitte\s+)?(?:ein|eine|einen)\b|rechne\s+\d"
        r"|(?:escribe|escríbeme|escríbenos|redacta|redáctame|traduce|tradúceme|explica|explícame|resume|resúmeme|dame)\s+"
        r"(?:un|una|el|la|los|las|lo|este|esta|otro|otra|dos|tres|\d+|qué|cómo|por)\b"
        r"|(?:écris|écrivez|rédige|rédigez|traduis|traduisez|explique|expliquez|résume|résumez)(?:-moi|-nous)?\s+"
        r"(?:un|une|le|la|les|ce|cette|comment|pourquoi)\b"
        r"|(?:请|麻烦)?(?:帮我|给我|替我|请)(?:写|翻译|总结|列|起草)"
        ")"
    )

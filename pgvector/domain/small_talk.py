"""What people say around a question: greetings, thanks, "can you remind me".

Nobody looks for it among what was remembered. It makes the vector of a message more like that of any other message:
more comes near that does not answer, and less that does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from .patterns import late_pattern
from .text import has_cjk

_WORD = late_pattern(r"\w+")
CJK_LEAST = 4  # so many signs of Chinese, Japanese or Korean say something
_EMPTY = """
    a about advance again ahead all alright also am and any anything appreciate appreciated are be can cheers come
    could did do does doing done else feel for from get give go going good got great have having he hello help
    helpful her hey hi him his how i idea ideas if in is it its just know let like look lot make many may maybe me
    mean much my nice no not now of off ok okay on one or out please pls question questions quick quickly ready
    really remember right say see sense seriously she should so some something sorry sound sounds start still sure
    tackle tell than thank thanks that the them there they thing things think this to too try um understand up us
    very wait want was we welcome well what when where which who why will with would yeah yes you your
    alles auch bei bin bist bitte da dafür danke dank dann das denkst denn dir doch du eigentlich ein eine es etwas
    euch frage für geht gehts gut habe haben hallo hast helfen hi hilfe ich ihnen im ist ja jetzt kann kannst klar
    kurz kurze können könnte könntest lauft läuft machen mal mein meinst mich mir moin na nicht nun
    oder richtig s sag sagst schon servus sicher sie sind so soll sollen sollte stimmt und verstehst viele
    vielen vielleicht voraus warum was weisst weiter weißt wie wieso wir wirklich wo zu
    buenas buenos favor gracias hola muchas por dias días tardes
    bonjour merci salut beaucoup plaît plait il te vous
    ciao grazie ola olá obrigada obrigado dank je wel
"""
# After these "may" is no verb.
_MONTH = late_pattern(r"\b(?:(?:in|of|for|from|to) may\b|(?:this|last|next|about|and|or|was|is) may\W*$)")
# Any other single word may be what is looked for, as in "plan, budget".
_INTERJECTIONS = """
    alright also and anyway bonjour bitte but ciao danke good gracias grazie great gut hallo hello hey hi hmm hola ja
    klar merci moin na nein nice no now oh ok okay olá please pls really right salut seriously servus so sorry sure
    thanks uh um well yeah yes
"""
# A greeting may have a name: "Hi Hermes,".
_GREETING = late_pattern(
    r"\s*(?:hi|hello|hey|hallo|dear|good (?:morning|afternoon|evening)|guten (?:morgen|tag|abend)|moin|servus|hola"
    r"|bonjour|salut|ciao|olá|привет|здравствуйте)\b(?:[ ][\w'-]+)?[,.!]\s+",
    re.IGNORECASE,
)
_WISHES = late_pattern(
    r"(?:\bi )?\bhope (?:you(?: are| had| have| slept| enjoyed| feel|['\u2019]re)|all (?:is|goes|went)"
    r"|everything(?: is|['\u2019]s)|this (?:finds|mail|e-?mail|message)"
    r"|your (?:day|week|weekend|morning|evening|trip|holidays?))\b[^.!?\n]*[.!]\s*",
    re.IGNORECASE,
)
_CLAUSE_ENDS = late_pattern(r"(?<=[.!?\u061f\u2026])\s+|(?<=[,:;])\s+|(?<=[\u3002\uff01\uff0c\uff1a\uff1f])|\n+")
_BEFORE = late_pattern(
    r"(?:(?:hey|so|ok|okay|u[hm]+|hmm+|oh|and|but|also|anyway|please|actually|you know|btw|by the way)[,:]?\s+"
    r"|well[,:]\s+"
    r"|(?:can|could|would|will) you (?:please |kindly |maybe |quickly )?(?:remind|tell|show) me(?: again| please)*"
    r"(?: about| of)?[,:]?\s+"
    r"|(?:do|did) you (?:still |happen to |by any chance )?(?:remember|know|recall)[,:]?\s+"
    r"|(?:i(?: was| am|['\u2019]m) |just )?(?:just )?wondering(?: you know)?[,:]?\s+(?:if |whether )?"
    r"|i (?:forgot|forget|can(?:no|['\u2019])?t remember|do(?:n['\u2019]t| not) remember|(?:would like|want|need) to"
    r" know)(?: again)?[,:]?\s+"
    r"|(?:please )?(?:remind|tell) me(?: again| please)*(?: about| of)?[,:]?\s+"
    r"|(?:sag mal|sag mir|also|bitte|übrigens|(?:wei(?:ß|ss)t du|erinnerst du dich)(?: noch| eigentlich)*"
    r"|(?:kannst|könntest) du mir (?:bitte |noch ?mal |kurz )*sagen|ich (?:wollte|möchte) wissen|ich habe vergessen)"
    r"[,:]?\s+"
    r"|(?:por favor|oye|dime|¿?(?:me puedes|puedes) decir(?:me)?|¿?sabes)[,:]?\s+"
    r"|(?:dis[- ]moi|peux[- ]tu me (?:dire|rappeler)|rappelle[- ]moi|tu te souviens|s[’']il te pla[iî]t)[,:]?\s+"
    r"|(?:请问|請問|你?还记得|你?還記得|能不能告诉我|请?告诉我|請?告訴我|我想问一下|我想知道)[，,]?)+",
    re.IGNORECASE,
)
_BEHIND = late_pattern(
    r"[,;]?\s+(?:please|pls|thanks|thank you|bitte|danke|by any chance|do you (?:still )?(?:remember|know)(?: that)?"
    r"|s[’']il te pla[iî]t|por favor)(?=\s*[?.!\u2026]*\s*$)",
    re.IGNORECASE,
)


def says_something(text: str) -> bool:
    """Return whether a text names something that could be looked for."""
    folded = text.casefold()
    if has_cjk(text, CJK_LEAST) or not _words(_EMPTY).issuperset(_WORD.findall(folded)):
        return True
    return _MONTH.search(folded) is not None


def without_small_talk(text: str) -> str:
    """Return a message without what says nothing before and behind the rest; a message of nothing else is unchanged."""
    bare = _WISHES.sub("", _GREETING.sub("", text, count=1))
    clauses = _without_ends([clause for clause in _CLAUSE_ENDS.split(bare) if clause])
    if not clauses:
        return text
    found = bare[bare.index(clauses[0]) : bare.rindex(clauses[-1]) + len(clauses[-1])]
    found = _BEHIND.sub("", found).rstrip(" ,:;")
    shorter = found[match.end() :] if (match := _BEFORE.match(found)) else found
    return shorter if says_something(shorter) else found


def _without_ends(clauses: Sequence[str]) -> Sequence[str]:
    """Return the clauses from the first to the last one that says something."""
    kept = [place for place, clause in enumerate(clauses) if not _is_idle(clause)]
    return clauses[kept[0] : kept[-1] + 1] if kept else ()


def _is_idle(clause: str) -> bool:
    words = _WORD.findall(clause.casefold())
    return words[0] in _words(_INTERJECTIONS) if len(words) == 1 else not says_something(clause)


@cache
def _words(written: str) -> frozenset[str]:
    return frozenset(written.split())

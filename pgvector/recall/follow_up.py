"""Messages that are about what an earlier one names: "And how large is its budget?", "What about Sundays?".

What is searched for is then the earlier message and this one together. Alone it is near to whatever has such a budget.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from itertools import islice

from ..domain.function_words import plain, telling_words
from ..domain.named_times import at_another_time, named_periods
from ..domain.patterns import late_pattern
from ..domain.small_talk import CJK_LEAST, says_something
from ..domain.text import has_cjk
from ..domain.time_words import split
from .asking import asks
from .questions import MAX_CHARS, has_name, questions_in

_MOST_CHARS = 120  # of a message that needs an earlier one
_CONTENT_MOST = 2  # words before the pronoun that may be what it is about
_CONTENT_LEAST = 3  # words of a statement that others can be about
_STATED_MOST_CHARS = 250  # of a statement that goes on about what was said right before it
_STEM_CHARS = 6  # enough to tell words apart, few enough that "rescanning" takes up "rescan"
_ADVICE_MAX_CHARS = 2000  # of a reply; in more there is any word
_TAKEN_UP_LEAST = 4  # letters of a word that a statement takes up from a reply
_NAMES_MOST = 4  # of a reply; a longer list is not what one pronoun stands for
_REPLY_CHARS = 400  # of a reply, in which its first sentence that says something is
# Not after "Dr." or "Mrs.".
_SENTENCE_ENDS = late_pattern(
    r"(?<!\b[A-Z]\w\.)(?<!\b[A-Z]\w\w\.)(?<=[.!?\u3002\uff01\uff1f])(?=\s|[\u3400-\u9fff])|\n+"
)
_WORD = late_pattern(r"[\w'\u2019]+")
_ORDINAL = "other|next|last|first|second|third|previous|same|older|newer"
_PRONOUN = late_pattern(
    r"\b(?:he|she|him|her|his|hers|they|them|their|theirs|its?"
    r"|er|ihm|ihn|sein(?:e[nmrs]?)?|dessen|deren|davon|damit|dafür|dazu|darüber|danach|davor|daran|darauf|dort"
    r"|ellas?|ellos?|suyos?|elles?|ils|lui|leurs?|(?<!por )eso|aquello|cela|ça(?! va\b))\b"
    rf"|\b(?:that|those|das|the (?:{_ORDINAL}) ones?(?! (?:of|that|who)\b))(?=\s*(?:[?.!,]|$))"
    r"|\bwhich ones?\b(?! (?:of|from|to)\b)|\b(?:kostet|dauert|liegt|steht|gehört) es(?=\s*(?:[?.!]|$))"
    r"|\b(?:does|did|is|was|will|would|can|could|has|should) (?:that|those)(?= (?:cost|take|work|happen|start|begin|end"
    r"|expire|open|close|belong|come|go|run|weigh|need|include|in|on|at|again|from|for|with|due|done)\b)"
    r"|\b(?:hat|habe|haben|ist|war|wird) das(?= (?:gemacht|gesagt|passiert|gewesen|geschehen|gekostet|im|am|noch)\b)"
    r"|^(?:那么?|那麼|[还還]有|另外)?[，,]?[它他她]|^[那这這][个個]?(?=多少|什么|什麼|怎么|怎麼|在哪|是谁|几)",
    re.IGNORECASE,
)
# In "Dylan forgot his glasses" whose they are is said before.
_OWN = late_pattern(r"(?:his|her|their|its|sein\w*|leurs?)(?=\s+\w)", re.IGNORECASE)
# Words with which somebody only agrees, declines or likes what was said.
_ASSENT = frozenset(split("fine perfect lovely love loved bad nein yet bon c'est c\u2019est cool awesome"))
_PERSON = late_pattern(r"s?he|they|er|ellas?|ellos?|elles?|ils", re.IGNORECASE)
# "It" that stands for nothing: "Is it going to rain?", "How long does it take?".
_NOTHING = late_pattern(
    r"\bit(?:['\u2019]s)?\s+(?:(?:still|really|also|now|ever)\s+)*(?:takes?|been|possible|safe|true|ok|okay|worth|better|necessary"
    r"|normal|time|going to|rain\w*|snow\w*|makes? sense|matters?|seems?|sounds?|means?|turns? out|a good idea)\b"
    r"|\b(?:what (?:time|day|date|year)|how (?:late|far|cold|warm|hot)) (?:is|was) it\b",
    re.IGNORECASE,
)
# What a sentence names before a pronoun is what that stands for: "Where did my brother park his car?".
_NAMED = late_pattern(
    r"\b(?:my|our|your|the|an?|this|that|these|those|every|each|some|any|all|no|both|mein\w*|unser\w*|dein\w*|der|die"
    r"|das|den|dem|ein\w*|el|la|los|las|un|una|mi|nuestr\w*|le|les|une|mon|ma|mes|notre|nos)\s+\w",
    re.IGNORECASE,
)
_PART_OF = late_pattern(r"\b(?:the|an?|die|der|das|den|dem)\s+(?:\w+\s+){1,3}(?:of|von)\s+$", re.IGNORECASE)
_JOINED = late_pattern(
    r"[,;:]|\b(?:and|or|but|if|when|because|und|oder|aber|wenn|weil|y|o|pero|si|et|ou|mais)\b", re.IGNORECASE
)
_AND = late_pattern(r"\b(?:and|or|so|also|und|oder|y|et|e)[, ]+$", re.IGNORECASE)
_WHAT_ABOUT = r"¿?(?:(?:and )?(?:what|how) about|(?:und )?was ist mit|(?:y )?qué hay de|et pour)\b"
_PREPOSITION = r"(?:on|at|in|for|with|from|to|by|since|until|am|im|um|mit|für|seit|bis|en|el|con|para|pour|avec|à|au)"
# "And the tour?" may begin with another thing, "and the next one?" does not.
_LATER = (
    r"(?:nächst|letzt|erst|zweit|ander|vorig|primer|premi)\w*|siguiente|anterior|otr[oa]|segund[oa]|suivante?"
    r"|précédente?|autre|deuxième|derni[eè]re?"
)
_AND_THE = (
    r"¿?(?:and|und|y|et|e) (?:the|my|our|der|die|das|mein\w*|unser\w*|el|la|los|las|mi|nuestr\w*|le|les|mon|ma|mes"
    rf"|notre) (?!(?:ones?|{_ORDINAL}|{_LATER})\b)\w"
)
# "价格呢？" asks for another thing, "然后呢？" goes on.
_NE = r"[^，,。？?]{0,8}[^，,。？?后後前然有么麼]呢[？?]?$"
_ASKS_ZH = "如果|要是|万一|什么|什麼|怎么|怎麼|谁|誰|哪|几|多少|为何|是不是"
_ANOTHER = late_pattern(
    rf"{_WHAT_ABOUT}(?! {_PREPOSITION}\b)|{_AND_THE}|(?:那么?|那麼)?(?!.{{0,10}}(?:{_ASKS_ZH})){_NE}", re.IGNORECASE
)
# So may "And Kyoto?", unlike "and then?", "and mine?" and "And in Kyoto?".
_NAMES_NOTHING = (
    "both|another|mine|yours|theirs|hers|ours|here|elsewhere|everyone|everybody|nothing|nobody|besides|honestly|woher|wohin"
    "|today|tomorrow|tonight|yesterday|soon|often|later|earlier|afterwards?|heute|morgen|gestern|später|ahora|hoy|mañana"
    "|ayer|luego|después|maintenant|aujourd['\u2019]hui|demain|hier|ensuite|adesso|oggi|domani|ieri|agora|hoje|amanhã|ontem"
)
_AND_THIS = late_pattern(
    rf"¿?(?:and|und|y|et|e)[, ]+(?!(?:ones?|{_ORDINAL}|{_LATER}|{_NAMES_NOTHING})\b)((\S+)(?: \S+){{0,2}}?)\s*\?$",
    re.IGNORECASE,
)
_GOES_ON = late_pattern(
    rf"¿?(?:and|or|so|also|und|oder|y|et|e)[, ]+\S|{_WHAT_ABOUT}|(?:what|who|where|anything|was|wer) (?:else|noch)\b"
    rf"|(?={_PREPOSITION} \S+(?: \S+){{0,2}}\s*\?$)|(?!.{{0,10}}(?:{_ASKS_ZH}))[^，,。？?]{{1,10}}呢[？?]?$",
    re.IGNORECASE,
)
# "And on Tuesday?" asks the same of another time.
_BEFORE_TIME = late_pattern(rf"^(?:{_WHAT_ABOUT} |(?:and|or|so|und|oder|y|et|e)[, ]+|那么?)", re.IGNORECASE)
_LEADS_TO_TIME = late_pattern(r"^(?:on|in|at|am|im|el|en|le|la|the) ", re.IGNORECASE)
_REST_WORDS = 6  # of a message that goes on without a verb
_AUXILIARY = (
    r"(?:is|are|was|were|do|does|did|can|could|should|would|will|has|have|had|may|ist|sind|war|hat|haben|kann|wird)"
)
_VERB = late_pattern(rf"\b(?!may\W*$){_AUXILIARY}\b", re.IGNORECASE)  # "And in May?"
_SUBJECT = late_pattern(rf"\b{_AUXILIARY}\s+(\w+)", re.IGNORECASE)
# "What did we do before that?", "Was kostet das?"
_NO_SUBJECT = frozenset(("before", "after", "kostet", "war", "hat", "macht", "machen", "bedeutet", "passiert", "folgt"))


def is_follow_up(text: str) -> bool:
    """Return whether a text is about what an earlier message names, because it names nothing itself."""
    if not 0 < len(text) <= _MOST_CHARS or not asks(text, of_a_turn=True):
        return False
    on = _GOES_ON.match(text)
    if on is not None and len(_WORD.findall(text)) <= _REST_WORDS and not _VERB.search(text, on.end()):
        return True
    return _stands_for_something(text)


def goes_on(text: str) -> bool:
    """Return whether a statement is about what was said right before it: "No, I meant 648", "We raised it to 9,500"."""
    if not _tells_something(text):
        return False
    if _corrects().match(text.strip()) or _helped().search(text.strip()):
        return True
    plain = _nothing_stated().sub(" ", _NOTHING.sub(" ", text))
    pronoun = _points_back().search(plain) or _PRONOUN.search(plain)
    if pronoun is None:
        return False
    before = plain[: pronoun.start()]
    if has_name(before) or _NAMED.search(before):
        return False
    named = len(set(telling_words(before)))
    if _OWN.match(plain, pronoun.start()):
        return named == 0
    return named < _CONTENT_MOST if _PERSON.fullmatch(pronoun[0]) else named <= _CONTENT_MOST


def takes_up(text: str, said: str, reply: str) -> bool:
    """Return whether a short statement has a word that a reply brought up, and not what it replied to.

    "Upside down, thanks" takes up "The labels are in upside down, or the sensor is dirty".
    """
    if not _tells_something(text):
        return False
    taken = _stems(text) & _stems(reply[:_ADVICE_MAX_CHARS])
    if not taken:
        return False
    known = plain(said)  # which takes no longer where a log was pasted, unlike its words
    return any(stem not in known for stem in taken)


def _stems(text: str) -> set[str]:
    """Return the beginnings of the words of a text that tell something."""
    return {word[:_STEM_CHARS] for word in telling_words(text) if len(word) >= _TAKEN_UP_LEAST or word.isdecimal()}


def in_context(text: str, subject: str, reply: str = "") -> tuple[str, ...]:
    """Return the questions of a message, see `questions_in`, the first one with its `subject` if it names none.

    "What about the spare key?" may ask the same of something else, or be a new subject, and is searched as both. What a
    pronoun stands for may be named in the `reply`: "Who told me?", "Samira did.", "Where does she work next?". It is
    searched without that as well, since a reply also begins with "According to" or names what is beside the point.
    """
    first, *others = questions_in(text)
    asked = _with_and(text, first)
    if not subject or not is_follow_up(asked):
        return first, *others
    if other := _at_another_time(asked, subject):
        return other, *others
    if _may_be_another(asked):
        return f"{subject} {first}", first, *others
    alone = (f"{subject} {first}", *others)
    return (f"{subject} {reply} {first}", *alone) if reply and _stands_for_something(asked) else alone


def subject_of(text: str, before: str) -> str:
    """Return what a conversation is about after a message; `before` it was that subject.

    It is the last question that needs no other one, or statement of several words, or both of "What about this?" and
    the subject before it; nothing after a message so long that it has many subjects.
    """
    subject = before
    for each in filter(_names_something, questions_in(text)):
        asked = _with_and(text, each)
        if not is_follow_up(asked):
            subject = each
        elif other := _at_another_time(asked, before):
            subject = other
        elif _may_be_another(asked):
            subject = f"{before} {each}".strip() if len(before) + len(each) < MAX_CHARS else each
    return subject if len(subject) <= MAX_CHARS else ""


def names_answered(message: str, reply: str, before: str) -> str:
    """Return the names in the first sentence of the `reply` to a message that asks, without those that it names itself.

    Return those of `before` after small talk and where a follow-up is answered without any, and "" after any other
    message. A whole sentence would be near to whatever says the like of something else.
    """
    if not _names_something(message):
        return before
    if not asks(message, of_a_turn=True):
        return ""
    first = next(filter(says_something, _SENTENCE_ENDS.split(reply.strip()[:_REPLY_CHARS])), "")
    known = set(_WORD.findall(message.casefold()))
    capital = (word for word in _WORD.findall(first) if word[0].isupper() and word.casefold() not in known)
    named = dict.fromkeys(word for word in capital if any(telling_words(word)))
    answered = " ".join(named) if len(named) <= _NAMES_MOST else ""
    return answered or (before if is_follow_up(message) else "")


def _tells_something(text: str) -> bool:
    """Return whether a text is a short statement that tells more than "No, that's fine, thanks" does."""
    if len(text) > _STATED_MOST_CHARS or asks(text, of_a_turn=True):
        return False
    return not _ASSENT.issuperset(telling_words(text)) or "that did it" in text.casefold()


@cache
def _corrects() -> re.Pattern[str]:
    """Return the pattern for statements that correct what was said right before them, and do not repeat it."""
    sorry = r"(?:oh|ah|hm+|oops|ups|sorry|wait|well|so|but|perd[oó]n|pardon|entschuldigung)"
    meant = (
        r"(?:make (?:that|it(?= \d))|i (?:really |actually )?(?:meant(?! (?:well|to (?!say|write|type|put)\w))"
        r"|misspoke|mistyped)|ich mein(?:t)?e|(?:quise|quer[ií]a) decir)\b"
    )
    ends = r"(?=\W|$)(?! \w)"
    return re.compile(
        rf"(?:{sorry}[,.!]? )*(?:(?:(?:no|actually|nein|non)[,.]? )?(?:{meant}|je voulais dire\b)"
        r"|(?:scratch|strike) that\b"
        r"|no[,.]? (?:not|i mean|wait|sorry|it['\u2019]?s|it is|that['\u2019]s|era|es|son)\b"
        r"|nein[,.]? (?:nicht|doch|quatsch|es ist|das ist)\b|non[,.]? (?:c['\u2019]est|pas)\b"
        rf"|(?:correction|korrektur|correcci[oó]n|erratum|typo|tippfehler|wrong|falsch|(?:ach )?quatsch){ends}"
        r"|(?:change(?: of plans?)?|update|änderung|planänderung|cambio(?: de planes)?|changement(?: de programme)?) ?:"
        r"|(?:(?:i|we)(?:['\u2019]ve)? )?changed (?:my|our) minds?\b|(?:ich )?habe? es mir anders überlegt\b"
        r"|(?:he|hemos) cambiado de (?:idea|opinión)\b|(?:j['\u2019]ai|on a) changé d['\u2019]avis\b"
        r"|doch (?:erst|nicht|lieber)\b|finalement\b|al final (?!del?\b)"
        r"|sorry[,.:]? (?=\d\S*(?: [^\W\d]+)?(?:\W*$|[,.;:!]))"
        r"|(?:that['\u2019]s|that was|(?:you|i) got that|i was) wrong\b"
        rf"|my (?:mistake|bad){ends}"
        r"|das (?:stimmt nicht|war falsch)\b"
        r"|not (?!(?:bad|my|sure|yet|now|much|urgent|really|necessary|too)\b)\S+(?: \S+)?, \S+(?: \S+){0,3}$"
        r"|ich habe? mich (?:vertan|verschrieben|geirrt)\b|me equivoqu[eé]\b|mejor dicho\b|je me suis tromp[eé]e?\b)"
        rf"|.*[,.;(-] *(?:{meant}|(?:(?:my|that was a) )?(?:typo|tippfehler)\W*$)",
        re.IGNORECASE | re.DOTALL,
    )


@cache
def _helped() -> re.Pattern[str]:
    """Return the pattern for what somebody says of a remedy, naming it but not the trouble: "the new fuse did it".

    With that the clause ends: "Anna geht wieder zur Schule" and "no rain since June" are about something else.
    """
    again = r"(?:geht|läuft|funktioniert|klappt)"
    ends = r"(?=\W*$|\s*[,.;:!()\u2013\u2014-]|\s+(?:after|again|and|but|for me|now|once|so|thanks?|then|when|with)\b)"
    beside = r"(?=\W*$|\s*[,.;:!()\u2013\u2014-]|\s+(?:aber|danke|et|gracias|jetzt|merci|mit|seit|und|wieder|y)\b)"
    return re.compile(
        rf"\bdid (?:it(?=\W*$|[,.;:!])|the (?:trick|job){ends})"
        rf"|\bwork(?:s|ed) (?:a treat|like a charm|now|fine|perfectly|wonders){ends}|\b(?:has|have)? ?helped\W*$"
        rf"|\b(?:is|are) (?:gone|back to normal){ends}|\bback to normal\W*$|\bno (?:more )?\w+ since(?=\W*$|[,.;:!])"
        rf"|\bhat (?:\w+ ){{0,3}}(?:geholfen|geklappt|funktioniert|gereicht){beside}"
        r"|\bhat (?:nur |wohl )?an\b[^.?!]* gelegen\b|(?:^|[,;] )(?:es )?lag an\b|\bwar schuld\W*$"
        rf"|\b{again} (?:\w+ )?wieder{beside}|\bjetzt {again} (?:es|er|sie|alles){beside}"
        rf"|\b(?:funcionó|sirvió|ayudó){beside}|\bya (?:funciona|va|anda){beside}|^(?:sí,? )?era eso\b"
        rf"|\b(?:a|ont) (?:suffi|marché|aidé|fonctionné|tout réglé){beside}|\b(?:ça|tout) (?:re)?marche{beside}",
        re.IGNORECASE,
    )


@cache
def _points_back() -> re.Pattern[str]:
    """Return the pattern for what points back in a statement, besides pronouns: "that worked", "es lag an"."""
    return re.compile(
        r"\bthat (?:did|was|is|works|worked|fixed|helped|solved)\b|\b(?:das|es) (?:war|lag|hat geholfen)\b"
        r"|(?:\beso|^) ?(?:era|fue)\b|^l[oa]s? \w+(?:amos|imos|aron|é|ó)\b|\bc['\u2019]était\b",
        re.IGNORECASE,
    )


@cache
def _nothing_stated() -> re.Pattern[str]:
    """Return the pattern for an "it" of statements that stands for nothing: "It's Lena who decides", "It was cold"."""
    weather = r"(?:\w+ )?(?:rain|snow|cold|hot|warm|late|early|\w+day\b|\d)"
    return re.compile(rf"\bit(?:['\u2019]s| is| was) (?:(?:\S+ ){{1,4}}(?:who|that)\b|{weather})", re.IGNORECASE)


def _stands_for_something(text: str) -> bool:
    """Return whether a text has a pronoun for what it does not name."""
    plain = _NOTHING.sub(" ", text)
    pronoun = _PRONOUN.search(plain)
    return pronoun is not None and not _is_named(_PART_OF.sub("", plain[: pronoun.start()]))


def _may_be_another(text: str) -> bool:
    """Return whether a follow-up names something of its own: "What about the spare key?", "And Kyoto?"."""
    if _ANOTHER.match(text):
        return True
    this, now = _AND_THIS.match(text), datetime.now(UTC)
    if this is None or not any(telling_words(this[2])) or _PRONOUN.search(this[1]):
        return False
    return not any(named_periods(f"{lead}{this[1]}", now) for lead in ("", "on ", "am ", "el ", "le "))


def _at_another_time(text: str, subject: str) -> str:
    """Return the subject with the time that a text asks for instead, "" if that names another thing."""
    now, rest = datetime.now(UTC), _BEFORE_TIME.sub("", text.strip(" ?\uff1f\xbf!."))
    times = dict.fromkeys((_LEADS_TO_TIME.sub("", rest), rest))
    return next(filter(None, (at_another_time(subject, time.removesuffix("呢"), now) for time in times)), "")


def _names_something(text: str) -> bool:
    """Return whether a text has something to speak of, which "Great, that helped a lot!" has not."""
    if asks(text, of_a_turn=True):
        return says_something(text)
    return has_cjk(text, CJK_LEAST) or _has_content(text, _CONTENT_LEAST)


def _has_content(text: str, least: int) -> bool:
    """Return whether at least so many words of a text say something."""
    said = filter(says_something, (word[0] for word in _WORD.finditer(text)))
    return sum(1 for _ in islice(said, least)) == least


def _with_and(text: str, question: str) -> str:
    """Return a question of a message with the "and" before it that is not searched for."""
    before = _AND.search(text, 0, max(0, text.find(question)))
    return f"{before[0]}{question}" if before else question


def _is_named(before: str) -> bool:
    """Return whether the text before a pronoun has what that stands for."""
    if has_name(before) or _NAMED.search(before):
        return True
    # "How long do suppliers wait for their money?"
    if any(says_something(verb[1]) for verb in _SUBJECT.finditer(before) if verb[1].casefold() not in _NO_SUBJECT):
        return True
    joined = _JOINED.search(before, before.find(" "))
    return joined is not None or _has_content(before, _CONTENT_MOST + 1)

"""Days ahead that a question asks about: "tomorrow", "am Mittwoch", "next week", "el fin de semana"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from functools import cache, lru_cache

from . import time_words as words
from .coming_days import AFTER_TOMORROW, BEHIND, COMING, TOMORROW
from .function_words import language_of, plain
from .patterns import late_pattern
from .time_patterns import past_languages
from .time_words import split

_MAX_CHARS = 200  # a longer message says what it is about
_FEW = 4  # days from tomorrow on that "the next few days" are
_SATURDAY = 5
_FARTHEST = 21  # days, as "next" may be the week after this one
_NEXT_WEEK = (
    r"(?:next|coming|nachste[rn]?|kommende[rn]?|proxima|prossima|volgende|komende) (?:week|woche|semana|settimana)"
    r"|semana (?:que viene|que vem|proxima)|semaine prochaine|settimana prossima|следующеи неделе"
)
_THIS_WEEK = r"(?:this|diese[rn]?|esta|cette|questa|deze) (?:week|woche|semana|semaine|settimana)|этои неделе"
_FEW_DAYS = (
    r"(?:next|coming) (?:few |couple of )?days|(?:nachsten|kommenden) (?:paar )?tagen?|proximos dias|prochains jours"
    r"|prossimi giorni|komende dagen|ближаишие дни"
)
# By language: what such a question begins with, and what else it may say besides the time.
_ASKING = {
    "": (
        "what whats what's anything any do have is are which when show list tell remind got am plans appointments",
        """
        a about again agenda all at anybody anyone appointment appointments be booked busy calendar come comes coming
        dates deadline deadlines diary due else event events everything for free get go going happen happening happens
        i in like ll look looking looks m me meeting meetings must my need of on our plan planned plans please re s
        schedule scheduled should so something the there to up ve we will with
        """,
    ),
    "de": (
        "was wer wann welche gibt gibts habe hab haben steht stehen liegt ist sind zeig sag erinner irgendwas etwas",
        """
        alles am an anstehend auf bei da das dem den denn der des die eigentlich ein eine es fallig frei frist fristen
        fur geplant ich im in irgendetwas kalender kommt kommen los mache machen mal mein meine mich mir muss mussen
        noch nochmal passiert plan plane plant programm so soll sollen termin termine tun unser unsere vor vorhaben wir
        zu
        """,
    ),
    "es": (
        "que tengo tenemos hay cual cuales algo alguna algun dime recuerdame",
        """
        a agenda alguna algun cita citas de debo el en esta este evento eventos hacemos hacer hago la las los me mi mis
        nada nos nuestra nuestro para pasa pendiente pendientes plan planes por prevista previsto programado reunion
        reuniones toca tocan vence y
        """,
    ),
    "fr": (
        "qu que quoi j'ai ai on avons y est-ce quels quelles qu'est-ce qu'avons rappelle dis c'est qu'y",
        """
        a agenda ai au avons c ce chose dans de des dois du est faire fais faisons faut il j j'ai je l la le les ma mes
        moi mon nos notre nous on planning pour prevu prevue prevus programme qu qu'il qu'on quelque qui quoi rendez
        reunion reunions sont t vous y
        """,
    ),
    "it": (
        "cosa che ho abbiamo c'e quali ricordami",
        """
        a abbiamo agenda appuntamenti appuntamento c c'e ci cosa da di devo e fare ho i il impegni in la le lo mi miei
        per previsto programma qualcosa sono
        """,
    ),
    "pt": (
        "o que tenho temos ha quais algo",
        "a agenda algo as compromisso compromissos de devo em fazer ha me meu minha na no os para planos previsto que",
    ),
    "nl": (
        "wat heb hebben staat is zijn welke iets",
        "aan afspraak afspraken agenda de doen een er gepland het iets ik in mijn moet op onze plannen staan te we",
    ),
}
# With one of these a text asks only if who does or has it, or whatever there is, stands right behind: "do we have", but
# not "do it tomorrow"; or else if it ends as a question.
_VERBS = frozenset(
    split(
        "am are do got have is hab habe haben ist sind steht stehen liegt hay tengo tenemos ai avons c'est j'ai on y ho"
        " abbiamo ha tenho temos heb hebben staat zijn"
    )
)
_SUBJECTS = frozenset(
    split(
        "any anything something i my our plans there we etwas ich irgendwas irgendetwas was wir algo alguna algun"
        " quelque quoi cosa qualcosa er iets ik"
    )
)
# An order to tell says what of; "remind me tomorrow" is one to wait.
_TELLING = frozenset(split("remind tell erinner zeig dime recuerdame dis rappelle ricordami"))
_NOT_TOLD = frozenset(split("at for in me please something the to das etwas mal mich mir noch nochmal algo me ce moi"))
_GREETINGS = frozenset(split("hey hi hello ok okay so and und also hallo moin hola y oye et salut ciao e"))
# Without one of these a text needs no pattern.
_SIGNS = frozenset(
    split(
        """
        tomorrow ubermorgen morgen manana demain dopodomani domani amanha today tonight morning afternoon
        evening heute heut hui soir midi hoy noche tarde oggi stasera hoje vandaag vanavond сегодня week woche
        semana semaine settimana неделе days tage tagen dias jours giorni dagen дни
        """
    )
) | {
    re.findall(r"\w+", name)[-1]
    for names in (words.WEEKDAYS, words.ENGLISH_SHORT_WEEKDAYS, words.GERMAN_EVENINGS, words.WEEKENDS)
    for name in names
}
_WORD = late_pattern(r"[\w'\u2019-]+")


def days_ahead(text: str, today: date) -> Sequence[date]:
    """Return the days from today on that a question of the day `today` names; none where it asks what was.

    "Next Friday" may be meant of this week or of the one after, so it is both.
    """
    if len(text) > _MAX_CHARS or (date.max - today).days < _FARTHEST:
        return ()
    return _days_ahead(text, today)


@lru_cache(maxsize=64)  # several steps of a recall ask it of one question
def _days_ahead(text: str, today: date) -> Sequence[date]:
    folded = _folded(text)
    said = set(re.findall(r"\w+", folded))
    found = [] if said.isdisjoint(_SIGNS) else list(_pattern().finditer(folded))
    if not found or (not _asks_only(folded) and (language_of(text) or "en") in past_languages(folded, said)):
        return ()
    return tuple(sorted({day for match in found for day in _meant(match, today)}))


def only_what_comes(text: str) -> bool:
    """Return whether a question asks what there is at a time ahead, and names nothing else: "What's on tomorrow?"."""
    return len(text) <= _MAX_CHARS and _only_what_comes(text)


@lru_cache(maxsize=64)
def _only_what_comes(text: str) -> bool:
    return _asks_only(_folded(text))


def _folded(text: str) -> str:
    return plain(text).replace("\u2019", "'")


def with_names(text: str, today: date) -> str:
    """Return a question of the day `today` for what comes with the names of the days it means, any other unchanged.

    What was noted for "tomorrow" has the day's name, and not this word.
    """
    return f"{text}\n{names_of(days_ahead(text, today), text)}" if only_what_comes(text) else text


def names_of(days: Iterable[date], text: str) -> str:
    """Return the names of the days, as a text in the language of `text` may have them."""
    place = {"de": 1, "fr": 2, "es": 3, "it": 4, "pt": 5, "nl": 6}.get(language_of(text), 0)
    months = [month.split()[0] for month in words.LANGUAGES[place][0]]
    weekdays = [*_weekday_names().get(place, [""] * 7)]
    return " ".join(f"{weekdays[day.weekday()]} {day.day} {months[day.month - 1]}" for day in days)


@cache
def _weekday_names() -> dict[int, list[str]]:
    tables = (words.ENGLISH_WEEKDAYS, words.GERMAN_WEEKDAYS, words.FRENCH_WEEKDAYS, words.SPANISH_WEEKDAYS)
    return {
        place: list({number: name for name, number in table.items()}.values()) for place, table in enumerate(tables)
    }


def _asks_only(folded: str) -> bool:
    if _SIGNS.isdisjoint(re.findall(r"\w+", folded)) or _pattern().search(folded) is None:
        return False
    said = _WORD.findall(_pattern().sub(" ", folded))
    while said and said[0] in _GREETINGS and len(said) > 1:
        del said[0]
    known = any(said[0] in begins and begins | others >= set(said) for begins, others in _vocabularies() if said)
    return known and _asks_for_some(said, folded)


def _asks_for_some(said: Sequence[str], folded: str) -> bool:
    """Return whether words ask for what there is, and do not order to do or tell an unnamed thing."""
    if said[0] in _TELLING:
        return not _NOT_TOLD.issuperset(said[1:])
    if said[0] not in _VERBS:
        return True
    return not _SUBJECTS.isdisjoint(said[1:3]) or (len(said) > 1 and folded.rstrip().endswith("?"))


@cache
def _vocabularies() -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    return tuple((frozenset(begins.split()), frozenset(others.split())) for begins, others in _ASKING.values())


def _meant(match: re.Match[str], today: date) -> Iterator[date]:
    """Yield the days that a match of the pattern means."""
    kind = match.lastgroup
    if kind in ("today", "tomorrow", "after"):
        yield today + timedelta(days=("today", "tomorrow", "after").index(kind))
    elif kind == "few":
        yield from _run(today, 1, _FEW)
    elif kind == "next_week":
        yield from _run(today, 7 - today.weekday(), 7)
    elif kind == "this_week":
        # At the weekend the week that begins is more likely meant.
        yield from _run(today, 0, 7 - today.weekday() + (7 if today.weekday() >= _SATURDAY else 0))
    elif kind == "weekend":
        yield from _weekend(today, may_be_later=_is_next(match["leads_weekend"]) or match["behind_weekend"] is not None)
    else:
        yield from _weekday(match, today)


def _weekday(match: re.Match[str], today: date) -> Iterator[date]:
    ahead = (words.WEEKDAYS | words.ENGLISH_SHORT_WEEKDAYS)[match["weekday"] or match["short"]] - today.weekday()
    yield today + timedelta(days=ahead % 7)
    if ahead == 0 or _is_next(match["leads"]) or match["behind"]:
        yield today + timedelta(days=ahead % 7 + 7)


def _weekend(today: date, *, may_be_later: bool) -> Iterator[date]:
    """Yield the weekend of this week, and the one after where that may be meant, or is on a Sunday."""
    to_saturday = _SATURDAY - today.weekday()
    if not (may_be_later and to_saturday <= 0):
        yield from _run(today, to_saturday, 2)
    if may_be_later or to_saturday < 0:
        yield from _run(today, to_saturday + 7, 2)


def _is_next(lead: str | None) -> bool:
    return lead is not None and lead.startswith(("next", "nachst", "el prox", "prox"))


def _run(today: date, first: int, count: int) -> Iterator[date]:
    return (day for n in range(count) if (day := today + timedelta(days=first + n)) >= today)


@cache
def _pattern() -> re.Pattern[str]:
    days = words.either(words.WEEKDAYS)
    weekends = words.either(words.WEEKENDS)
    short = "|".join(words.ENGLISH_SHORT_WEEKDAYS)
    leads = r"(?:on|at|over|am|an|im|in|le|la|el|ce|este|cette|esta|the|for|fur|pour|para|du|de|op|il|nel|no|na) "
    return re.compile(
        rf"\b(?:(?:{leads})*(?:(?P<leads_weekend>{COMING}|proximo) )?(?P<weekend>{weekends})"
        rf"(?P<behind_weekend> (?:{BEHIND}))?"
        rf"|(?:{leads})*(?P<next_week>{_NEXT_WEEK})|(?:{leads})*(?P<this_week>{_THIS_WEEK})"
        rf"|(?:{leads})*(?P<few>{_FEW_DAYS})|(?P<after>{AFTER_TOMORROW})|(?P<tomorrow>{TOMORROW})|(?P<today>{words.TODAY})"
        rf"|(?<!last )(?<!every )(?<!each )(?<!letzten )(?<!jeden )(?:{leads})*(?:(?P<leads>{COMING}) )?"
        rf"(?:(?P<weekday>{days}){words.MAYBE_DAYTIME}|(?<=on )(?P<short>{short}))(?P<behind> (?:{BEHIND}))?"
        r"(?! (?:dernier|pasado))"
        r")(?: (?:morning|afternoon|evening|night|fruh|abend|nachmittag|vormittag|morgen|soir|matin))?\b"
    )

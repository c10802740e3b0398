"""Days that a statement announces: "tomorrow", "übermorgen", "next Friday", "on Monday", "el próximo lunes"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache

from . import time_words as words
from .function_words import plain

_FARTHEST = 40  # days from today to a day that is named
AFTER_TOMORROW = r"day after tomorrow|ubermorgen|pasado manana|apres[- ]demain|dopodomani|depois de amanha"
# "Morgen" and "mañana" are also the morning.
TOMORROW = (
    r"tomorrow|(?<!guten )(?<!jeden )(?<!diesen )(?<!heute )(?<!gestern )(?<!am )(?<!tag )(?<!woch )"
    r"(?<!nachsten )(?<!ganzen )(?<!der )(?<!den )(?<!dem )(?<!zum )(?<!vom )morgen"
    r"|(?<!\bla )(?<!\besta )(?<!\bcada )manana|demain|domani|amanha"
)
COMING = r"this coming|next|this|coming|nachste[nrs]?|kommende[nrs]?|diese[nrs]?|el proximo|este|ce"
BEHIND = r"que viene|proximo|prochain"
# Before a weekday, words with which it is no single day, or one that was.
_NOT_COMING = (
    r"every(?: other| second)?|each|last|past|since|jede[nrs]?|letzte[nrs]?|vorige[nrs]?|seit|cada|chaque|desde|depuis"
)
_TO = r"to|for|until|till|by|auf|bis|fur|para|hasta|pour|jusqu'a"  # with these also what was put off is ahead


def announced_days(text: str, today: date) -> Iterator[date]:
    """Yield the days that a text of the day `today` names as coming.

    "Next Friday" may be meant of this week or of the one after, so it is both. A weekday alone is the next one, unless
    the text tells what was.
    """
    if (date.max - today).days < _FARTHEST:
        return  # the calendar ends
    folded = plain(text)
    for found in _pattern().finditer(folded):
        yield from _announced(found, today)


def _announced(found: re.Match[str], today: date) -> Iterator[date]:
    """Yield the days that a match of the pattern announces."""
    kind = found.lastgroup
    if kind in ("after", "tomorrow"):
        yield today + timedelta(days=2 if kind == "after" else 1)
    elif kind == "number":
        yield from _next_of_number(int(found["number"]), today)
    elif kind != "day" or _is_coming(found):
        weekday = words.WEEKDAYS[found["coming"] or found["behind"] or found["week"] or found["day"]]
        ahead = (weekday - today.weekday() - 1) % 7 + 1
        weeks = {"week": (1,), "day": (0,)}.get(kind or "", (0, 1))
        yield from (today + timedelta(days=ahead + 7 * week) for week in weeks)


def _next_of_number(number: int, today: date) -> Iterator[date]:
    """Yield the next day of a month that has this number, as "the 30th" has."""
    days = (today + timedelta(days=ahead) for ahead in range(1, 32))
    yield from (day for day in days if day.day == number)


def _is_coming(found: re.Match[str]) -> bool:
    """Return whether a weekday alone is the next one, and neither each such day nor one of which a text tells."""
    return not found["not"] and (found["to"] is not None or _past().search(found.string) is None)


@cache
def _past() -> re.Pattern[str]:
    """Return the pattern for what somebody did, in English, German, Spanish and French."""
    did = rf"(?:(?!\w*need\b)\w{{2,20}}ed|{words.IRREGULAR})"
    return re.compile(
        rf"\b(?:i|we|he|she|they|it|you|there|who)(?: \w+ly| just| also)? {did}\b"
        r"|\b(?:war|waren|wurde|wurden|hatte|hatten|gab|ging|kam)\b"
        r"|\b(?:hab|habe|haben|hat)\b[^.?!]{0,60}\bge\w{2,20}(?:t|en)\b"
        r"|\b(?:fui|fuimos|fue|fueron|hice|hicimos|hizo|estuve|estuvimos|estuvo|tuve|tuvimos|tuvo|vi|vimos|hubo)\b"
        r"|\b(?:j'ai|nous avons|on a|ils ont|elles ont|il a|elle a) (?!rendez)\w+(?:e|i|u|it|is|ert)\b"
        r"|\b(?:etait|etaient)\b"
    )


@cache
def _pattern() -> re.Pattern[str]:
    days = words.either(words.WEEKDAYS)
    # "Tuesday 24 November" and "Tuesday the 24th" are that day, "Tuesday 14:00" and "Tuesday 8 am" are not.
    dated = r"(?:,? (?:the|den|dem|el|le))?,? \d{1,2}(?![:.h]\d|\d|h\b| ?(?:am|pm|uhr|o'clock)\b)"
    # Which was "moved" or "confirmed" may still come.
    went = r"(?:'s)?(?: \w+)? (?:went|(?:was|were)(?! \w+ed\b))\b"
    months = words.either(words.MONTHS)
    return re.compile(
        rf"\b(?:(?P<after>{AFTER_TOMORROW})|(?P<tomorrow>{TOMORROW})|(?P<week>{days}) week"
        rf"|(?:{COMING}) (?P<coming>{days})|(?P<behind>{days}) (?:{BEHIND})"
        rf"|the (?P<number>[1-9]|[12]\d|3[01])(?:st|nd|rd|th)(?! (?:of|{months}|\w+ (?:of|time)))"
        rf"|(?:(?P<not>{_NOT_COMING}) |(?P<to>{_TO}) (?:the |den |el |le )?)?(?P<day>{days})"
        rf"{words.MAYBE_DAYTIME}(?!{dated})(?! (?:pasado|dernier|passe))(?!{went})"
        r")\b"
    )

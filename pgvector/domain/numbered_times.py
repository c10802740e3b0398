"""Times that only a number tells: "week 46", "KW 12", "on the 14th", "am 14.".

The languages are those of `time_words`; texts are in lower case and without accents.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from datetime import date
from functools import cache

from . import time_words as words
from .counted_days import Days, of_last_month
from .patterns import late_pattern
from .time_ranges import NamedDays, is_since, named_at
from .time_words import YEAR, either

_SIGN = late_pattern(
    r"\b(?:on the|am|el|dia|le|kws?|cw|weeks?|woche|kalenderwochen?|semaine|semana|settimana)[\s.:#]{0,3}\d"
    r"|\d\.\s?(?:kw|kalenderwoche|woche)\b"
)
_OF_YEAR = rf"(?:(?:,?\s|\s?/\s?)(?:(?:of|de|des jahres|von)\s)?(?P<y>{YEAR}))?\b"
_WEEKS_MOST = 53
_MONTHS_BACK = 2
_END = r"(?=\s*(?:$|[,;?!)]|\.\s*$))"


@cache
def calendar_week() -> re.Pattern[str]:
    """Return the pattern for a week of the calendar by its number, in the group w or v, and y if its year is named.

    "12 kW" is a power, "12. KW" a week.
    """
    name = r"(?:calendar week|iso week|week number|cw|kw|kalenderwoche)"
    return re.compile(
        rf"\b(?:{name}[\s.:#]{{0,3}}(?P<w>\d{{1,2}})|(?P<v>\d{{1,2}})\.\s?(?:kw|kalenderwoche))(?![\d.,:]\d){_OF_YEAR}"
    )


@cache
def week() -> re.Pattern[str]:
    """Return the pattern for what may be such a week, or one of a course or a plan, with the same groups."""
    return re.compile(
        r"\b(?:(?:week|woche|semaine|semana|settimana)\s+(?P<w>\d{1,2})|(?P<v>\d{1,2})\.\s?woche)(?![\d.,:]\d)"
        rf"{_OF_YEAR}(?!\s+(?:of|from|von|vom|der|des|de|del|du|di|in)\b)"
    )


def _english_day(group: str) -> str:
    """Return the pattern for a number that is no "3rd floor"."""
    return rf"(?P<{group}>\d{{1,2}})(?:st|nd|rd|th)\b(?:{_END}|(?=\s+(?:{either(words.BEHIND_TIMES)})\b))"


def _german_day(group: str) -> str:
    """Return the pattern for a number that is no "3. Stock"."""
    done = (
        r"ge\w{2,20}(?:t|en)|bezahlt|besprochen|beschlossen|vereinbart|erzahlt|entschieden|passiert|notiert|hab\w{0,2}"
        r"|hat\w{0,3}|war\w{0,2}|ich|wir|du|ihr|er|sie|mir|uns"
    )
    return rf"(?P<{group}>\d{{1,2}})\.(?:{_END}|(?=\s+(?:{done})\b))"


@cache
def _day_alone() -> Sequence[tuple[str, re.Pattern[str]]]:
    """Return the patterns for a day of a month that is not named, in the group d, by language."""
    return (
        ("en", re.compile(rf"\bon the {_english_day('d')}")),
        ("de", re.compile(rf"\bam {_german_day('d')}")),
        ("fr", re.compile(rf"\ble (?P<d>\d{{1,2}}){_END}")),
        ("es", re.compile(rf"\bel (?:dia )?(?P<d>\d{{1,2}}){_END}")),
    )


@cache
def _day_of_last_month() -> re.Pattern[str]:
    """Return the pattern for a day of the last month, in the group d, e or f."""
    month = (
        r"(?:des )?(?:letzten|vorigen|vergangenen) monats|del mes pasado|du mois dernier|del mese scorso|do mes passado"
    )
    return re.compile(
        rf"\b(?P<d>\d{{1,2}})(?:(?:st|nd|rd|th) of last month|\.? (?:{month}))\b"
        rf"|\b(?:last month on the {_english_day('e')}|letzten monat am {_german_day('f')})"
    )


def names_a_number(plain: str) -> bool:
    """Return whether a text may name such a time."""
    return _SIGN.search(plain) is not None


def numbered_times(plain: str, past: Set[str], today: date, *, only_said: bool) -> Iterator[NamedDays]:
    """Yield the weeks and days of a text: days where it asks what was, in one of the languages `past`.

    `only_said`: it names nothing else, see `said_words`.
    """
    for pattern in (calendar_week(), week()) if only_said else (calendar_week(),):
        for match in pattern.finditer(plain):
            yield named_at(match, _week(int(match["w"] or match["v"]), match["y"], today))
    yield from _days_of_last_month(plain, today)
    for language, pattern in _day_alone():
        if language in past or (only_said and language == "en"):
            for match in pattern.finditer(plain):
                yield named_at(match, _last_days(int(match["d"]), today))


def _days_of_last_month(plain: str, today: date) -> Iterator[NamedDays]:
    for match in _day_of_last_month().finditer(plain):
        days = of_last_month(int(match["d"] or match["e"] or match["f"]), today)
        since = is_since(plain, match.start())
        yield NamedDays(*match.span(), [(first, today if since else last) for first, last in days], reaches=True)


def _week(number: int, year: str | None, today: date) -> Iterator[Days]:
    """Yield the week of a number that began last, or that of a year."""
    if not 1 <= number <= _WEEKS_MOST:
        return
    for each in [int(year)] if year else range(today.year, today.year - 8, -1):
        with suppress(ValueError):  # most years have no week 53
            monday = date.fromisocalendar(each, number, 1)
            if year or monday <= today:
                yield monday, date.fromisocalendar(each, number, 7)
                return


def _last_days(day: int, today: date) -> Iterator[Days]:
    """Yield the last such day of a month that is not ahead; if it is today, also the one before."""
    for back in range(_MONTHS_BACK + 1):
        months = today.year * 12 + today.month - 1 - back
        year, month = divmod(months, 12)
        if 1 <= day <= monthrange(year, month + 1)[1] and (found := date(year, month + 1, day)) <= today:
            yield found, found
            if found < today:
                return

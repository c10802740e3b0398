"""Times that reach from one to another: "from May to June", "3-5 May", "since Monday", "this week".

The languages are those of `time_words`; texts are in lower case and without accents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import date
from functools import cache
from typing import NamedTuple

from . import time_patterns as patterns
from . import time_words as words
from .counted_days import UNIT_NAMES, Days, from_weekday, part_of, since_first
from .dates import whole_unit
from .patterns import late_pattern
from .time_patterns import LEADING, leading

_UP_TO = (
    r"-|\u2013|\u2014|~|\u301c|\uff5e|(?:up )?to|until|till|through|bis(?: zu[mr])?|jusqu'?(?: ?a| ?au| ?en)|au|al?"
    r"|hasta|ate|tot(?: en met)?|t/m|по|до|到|至|から|부터|まで"
)
_AND = r",|&|and|or|und|oder|et|ou|y|e|o|en|of|и|или|和|与|及|と|와|과|하고"
_ARTICLE = r"(?:the|den|dem|der|le|el|il|in|im|on|am|em|en|o)"
_JOINT = rf"\s*(?:(?P<to>{_UP_TO})|(?P<and>{_AND}))\s*(?:{_ARTICLE}\s+)?"
_BETWEEN = late_pattern(r"\b(?:between|zwischen|entre|tra|fra|tussen|между)\s+(?:\w+\s+){0,2}$")
_SINCE = late_pattern(
    r"(?:\b(?:since|seit|depuis|desde|dal|dalla|sinds|vanaf|с|со)\s+(?:(?:the|dem|der|le|la|el|il|a|o|de|het)\s+|l')?"
    r"|\bdall'|自[从從]?\s*)$"
)
_UNTIL_NOW = late_pattern(
    rf"\s*(?:{_UP_TO})\s+(?:now|today|heute|jetzt|aujourd'hui|maintenant|hoy|ahora|oggi|ora|hoje|agora|vandaag|nu)\b"
    r"|\s*(?:以[来來後后降]|至今|到现在|到現在|から(?!\S{0,3}\d)|부터)"
)
_WEEK_OF = late_pattern(
    r"\b(?:week|woche|semaine|semana|settimana)\s+(?:of|from|vom|von|ab|um|del?|du|dal?)\s+(?:(?:the|dem|den|el|le|il)\s+)?$"
)
_DAY = r"(\d{1,2})(?:st|nd|rd|th|er|\.|°|º)?"
_DAY_BEFORE = late_pattern(rf"(?<![\w.,:/-]){_DAY}\s*({_UP_TO}|{_AND})\s*(?:{_ARTICLE}\s+)?$")
_ENDS = r"(?P<ends>(?:st|nd|rd|th)\b|(?=\s*(?:[,;?!)]|\.(?!\d)|$)))"
_NO_HOUR = r"\b(?!\s*(?:[:.]\d|am|pm|o'clock|h\b))"
# "May 3 and 5" may go on with what there are five of.
_DAY_AFTER = late_pattern(
    rf"\s*(?:(?P<to>{_UP_TO})|(?:{_AND}))\s*(?:the\s+)?(?P<day>\d{{1,2}})(?:{_ENDS}|(?(to){_NO_HOUR}|(?!)))"
)


class NamedDays(NamedTuple):
    """What `start` to `stop` of a text names: several days or months if it does not say of which year, latest first.

    `reaches`: from one named time to another.
    """

    start: int
    stop: int
    days: Sequence[Days]
    reaches: bool = False


def named_at(match: re.Match[str], days: Iterable[Days]) -> NamedDays:
    """Return days with the place in a text where a match names them."""
    return NamedDays(*match.span(), list(days))


def spoken_times(plain: str) -> Iterator[re.Match[str]]:
    """Yield the matches of `spoken_date` that are days and months, and not names or other words.

    In "in May and June", "between May and June" and "May to June" the one month says what the other one is.
    """
    before: re.Match[str] | None = None
    for match in patterns.spoken_date().finditer(plain):
        if (
            patterns.names_a_time(match)
            or _is_listed(before, match)
            or _leads_to_a_month(match)
            or _has_more_days(match)
        ):
            before = match
            yield match


def _is_listed(before: re.Match[str] | None, match: re.Match[str]) -> bool:
    """Return whether a match follows another one in a list; a comma may as well end a clause: "in May, may I"."""
    joint = _joint(match.string[before.end() : match.start()]) if before else None
    return joint is not None and not (joint["and"] == "," and match["month"] in words.OTHER_WORDS)


def _leads_to_a_month(match: re.Match[str]) -> bool:
    joint = _joint_to_a_month().match(match.string, match.end())
    return joint is not None and _spans(joint, leading(match.string, match.start()))


@cache
def _joint_to_a_month() -> re.Pattern[str]:
    return re.compile(rf"{_JOINT}(?:{words.either(words.MONTHS)})\b")


def _has_more_days(match: re.Match[str]) -> bool:
    """Return whether a sentence ends with a month and several days of it."""
    more = _DAY_AFTER.match(match.string, match.end()) if match["after"] else None
    return more is not None and more["ends"] is not None


def _joint(between: str) -> re.Match[str] | None:
    """Return what joins two times with this text between them, in the group `to` or `and`; None if nothing does."""
    return _whole_joint().fullmatch(between) if len(between) <= LEADING else None


@cache
def _whole_joint() -> re.Pattern[str]:
    return re.compile(_JOINT)


def _spans(joint: re.Match[str], lead: str) -> bool:
    """Return whether all between two times is meant."""
    return joint["to"] is not None or _BETWEEN.search(lead) is not None


def day_numbers(match: re.Match[str]) -> tuple[Sequence[int | None], str | None]:
    """Return the first and last day that a match of `spoken_date` names, or the one day, and the year.

    The day is None for the whole month.
    """
    day, year = patterns.day_of(match), match["year"]
    if day is None:
        return (None,), year
    if match["before"]:
        other = _DAY_BEFORE.search(leading(match.string, match.start()))
        return ((int(day),) if other is None else _in_order(int(other[1]), int(day))), year
    other = None if year else _DAY_AFTER.match(match.string, match.end())
    if other is None:
        return (int(day),), year
    later = _year_behind().match(match.string, other.end())
    return _in_order(int(day), int(other["day"])), later[1] if later else None


def _in_order(first: int, last: int) -> Sequence[int]:
    return (first, last) if first < last else (last,)


@cache
def _year_behind() -> re.Pattern[str]:
    return re.compile(rf",?\s+(?:(?:of|in)\s+)?({words.YEAR})\b")


def joined(text: str, named: Iterable[NamedDays], today: date) -> list[Days]:
    """Return the times that `named` are together, where one reaches to the next or until today."""
    found: list[NamedDays] = []
    for each in sorted((_parted(text, each) for each in named), key=lambda named: named.start):
        last = found[-1] if found else each
        if last.reaches and last is not each and each.start < last.stop:
            continue  # the end of what is named as a whole
        if _leads_to(text, last, each):
            found[-1] = NamedDays(last.start, each.stop, _from_to(last.days, each.days), reaches=True)
        else:
            found.append(each)
    return [days for each in found for days in _until(text, each, today)]


def _parted(text: str, named: NamedDays) -> NamedDays:
    """Return a time with what tells before it how much is meant: "early May", "the week of 9 May"."""
    if named.reaches:
        return named
    if all(first == last for first, last in named.days) and (week := _WEEK_OF.search(leading(text, named.start))):
        start = max(0, named.start - LEADING) + week.start()
        return NamedDays(start, named.stop, [_whole("week", first) for first, _ in named.days])
    part = patterns.share_before(text, named.start)
    if part is None:
        return named
    start, share = part
    return NamedDays(start, named.stop, [part_of(each, share) for each in named.days])


def parted_span(text: str, named: NamedDays) -> tuple[int, int]:
    """Return where a time begins and ends, with what tells which part of it is meant."""
    part = patterns.share_before(text, named.start)
    return (part[0] if part else named.start), named.stop


def _leads_to(text: str, one: NamedDays, next_one: NamedDays) -> bool:
    """Return whether two times are the ends of one, as in "from Monday to Wednesday"."""
    joint = _joint(text[one.stop : next_one.start]) if one.stop <= next_one.start else None
    return bool(joint and _spans(joint, leading(text, one.start)))


def is_since(text: str, place: int) -> bool:
    """Return whether what is meant began with the time at a place of a text: "since Christmas"."""
    return _SINCE.search(leading(text, place)) is not None


def _until(text: str, named: NamedDays, today: date) -> Sequence[Days]:
    """Return the days; those of a time since which something is meant are up to today."""
    if named.reaches or not (is_since(text, named.start) or _UNTIL_NOW.match(text, named.stop)):
        return named.days
    return [(max(past), today)] if (past := [first for first, _ in named.days if first <= today]) else []


def _from_to(firsts: Sequence[Days], lasts: Sequence[Days]) -> Sequence[Days]:
    """Return the times from one of the first days to the next of the last days."""
    ends: dict[date, date] = {}
    for last in sorted(lasts):
        begun = [first for first, _ in firsts if first <= last[0]]
        if begun:
            ends.setdefault(max(begun), last[1])
    return sorted(ends.items(), reverse=True)


def between_weekdays(plain: str, past: Set[str], today: date) -> Iterator[NamedDays]:
    """Yield the last days from one weekday to another where a text asks what was, in one of the languages `past`."""
    for language, pattern in patterns.weekday_to_weekday():
        if language in past:
            for match in pattern.finditer(plain):
                first, last = (words.WEEKDAYS[day] for day in match.groups() if day)
                yield NamedDays(*match.span(), [from_weekday(first, last, today)], reaches=True)


def present(plain: str, past: Set[str], today: date, *, only_said: bool) -> Iterator[NamedDays]:
    """Yield this week, month or year where a text asks what was: "this week" alone is more often about plans.

    Of "the start of the week" this is the whole week, see `joined`.

    `past`: the languages in which it asks that. `only_said`: it names nothing else, see `said_words`.
    """
    for language, pattern in patterns.this_unit():
        if only_said or not language or language in past:
            for match in pattern.finditer(plain):
                unit = UNIT_NAMES[words.UNITS[next(filter(None, match.groups()))]]
                parted = patterns.share_before(plain, match.start())
                yield NamedDays(*match.span(), [_whole(unit, today) if parted else since_first(unit, today)])
    if only_said or past:
        for match in patterns.part_of_present().finditer(plain):
            yield NamedDays(*match.span("time"), [_whole(UNIT_NAMES[words.UNITS[match["unit"]]], today)])


def _whole(unit: str, today: date) -> Days:
    return whole_unit(today, unit, last=False)

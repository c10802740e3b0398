"""The times that a question names: "on 13 October 2023", "letzte Woche", "il y a deux mois", "5月4日"."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Set
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from . import east_asian_times as east_asian
from . import function_words
from . import time_patterns as patterns
from . import time_words as words
from .counted_days import YEARS, Days, around, before_last, is_unit, last_few, last_of, of_month, weekdays_ago
from .dates import Zone, in_zone, midnight, whole_unit
from .numbered_times import names_a_number, numbered_times
from .patterns import late_pattern
from .said_words import SAID_MAX_CHARS, asks_for_a_kind, names_today, only_a_time, only_said, session_named
from .text import QUOTES, has_cjk
from .time_hours import day_awake, hours_ago, last_nights
from .time_ranges import NamedDays, between_weekdays, day_numbers, joined, named_at, parted_span, present, spoken_times
from .times_of_year import counted_parts_of_year, parts_of_year, signs

MAX_PERIODS = 40  # of one question; a pasted log would name hundreds
_WORD = late_pattern(r"\w+")
_OWN_NAMES = {name: name for name in (*words.WEEKDAYS, *words.WEEKENDS)}
_NUMERIC = late_pattern(r"\d[-/.]\s?\d")
# A moment where programs write it: at the beginning of a line, in a field, in a header, in a list of files.
_STAMP = late_pattern(
    rf"(?:^|[=:\"'\[(|>])[\s\"'\[]{{0,8}}+(?:[a-z]{{3}},?\s)?(?:{words.YEAR}([-/.])\d\d\1\d\d[t\s]"
    r"|[a-z]{3}\s{1,2}\d{1,2}\s|\d{1,2}\s[a-z]{3}\s\d{4}\s)\d{1,2}:\d\d:\d\d"
    r"|\d\s[a-z]{3}\s{1,2}\d{1,2}\s{1,2}(?:\d\d:\d\d|\d{4}\s)",
    re.MULTILINE,
)
# At the end of the text before a time, the words that lead to it.
_LEADS = late_pattern(
    r"\s*(?:\b(?:in|on|at|over|of|from|since|during|around|until|by|for|and|to|the|this|that|im|am|an|zu|zum|seit|vom|von|bis"
    r"|der|dem|den|en|au|a|le|la|les|l|depuis|pendant|el|los|las|desde|durante|nel|il|da|na|no|em|het|de)\b\W*)*$",
    re.IGNORECASE,
)


class TimeSpan(NamedTuple):
    """From `start` to before `end`."""

    start: datetime
    end: datetime


def named_periods(text: str, now: datetime, zone: Zone = UTC, *, ahead: bool = False) -> list[TimeSpan]:
    """Return the times that `text` names, at most MAX_PERIODS; none in most texts. Days begin as in `zone`.

    Without `ahead` only those that have begun.

    A time without a year means that time in each of the last years, or beside "last year" in that one only.
    "2026" alone names no time: it is more often a part of a name. Neither does a "Monday" that may as well be the next
    one.
    """
    local, plain = in_zone(now, zone), _plain(text)
    today = local.date()
    said = set(_WORD.findall(plain))
    hours = [TimeSpan(now - far, now - near) for far, near in islice(hours_ago(plain, said), MAX_PERIODS)]
    only = asks_what_was_said(text)
    asian = east_asian.named_days(text, today, only_said=only) if has_cjk(text) else ()
    western = _western(plain, said, today, only_said=only)
    days = [*_begun(plain, western, today, ahead=ahead), *_begun(text, asian, today, ahead=ahead)]
    found = _narrowest(days[:MAX_PERIODS], today)
    if not found and not hours and only and names_today(plain):  # other texts with such a word are about plans
        found = [(day_awake(local), today)]
    if (yesterday := (today - timedelta(days=1),) * 2) in found and _names_a_night(plain):
        found.remove(yesterday)
        hours += [TimeSpan(start.astimezone(UTC), end.astimezone(UTC)) for start, end in last_nights(local)]
    in_days = [
        TimeSpan(midnight(first, zone), midnight(last + timedelta(days=1), zone))
        for first, last in dict.fromkeys(found)
    ]
    return (hours + in_days)[:MAX_PERIODS]


def _names_a_night(plain: str) -> bool:
    western = patterns.days_ago(french=True).finditer(plain)
    return any(match[1] in words.NIGHTS for match in western) or east_asian.names_a_night(plain)


def at_another_time(question: str, time: str, now: datetime) -> str:
    """Return a question that names a time with `time` in its place, "" if it names none or `time` is none.

    "What did we do on Monday?" and "Tuesday" make "What did we do on Tuesday?".
    """
    if not time or len(question) > SAID_MAX_CHARS or not only_a_time(_plain(time)):
        return ""
    if not (spans := _times_in(question, now.date())):
        return ""
    start, stop = min(start for start, _ in spans), max(stop for _, stop in spans)
    before, known = question[:start], named_periods(question, now)
    alone = f"{_LEADS.sub('', before)} ".lstrip()
    for lead in (alone, before) if _LEADS.fullmatch(time.partition(" ")[0]) else (before, alone):
        other = f"{lead}{time}{question[stop:]}"
        if (periods := named_periods(other, now)) and periods != known:
            return other
    return ""


def _times_in(question: str, today: date) -> list[tuple[int, int]]:
    """Return where a question names times, each with the part of it that is meant."""
    plain = _letter_by_letter(question)
    named = [*_western(plain, set(_WORD.findall(plain)), today, only_said=True)]
    named += east_asian.named_days(question, today, only_said=True) if has_cjk(question) else ()
    return [parted_span(plain, each) for each in named]


def asks_what_was_said(text: str, *, limited: bool = False) -> bool:
    """Return whether a text asks only what was said or done, at whatever time: it has no word of a subject.

    `limited`: the time is limited by other means, see `only_said`.
    """
    return len(text) <= SAID_MAX_CHARS and _only_said(text, limited=limited)


@lru_cache(maxsize=64)  # several steps of a recall ask it of one question
def _only_said(text: str, *, limited: bool) -> bool:
    return only_said(_plain(text), limited=limited)


def session_asked(text: str) -> str:
    """Return which session a question for what was said means, see `session_named`; "" if it names a subject."""
    return session_named(_plain(text)) if asks_what_was_said(text) else ""


def asks_for_all(text: str) -> bool:
    """Return whether a question for what was said asks for all of it, and not for what was decided, say."""
    return not asks_for_a_kind(_plain(text))


def without_counted_times(text: str) -> str:
    """Return `text` without the times that are counted back from today, such as "two weeks ago" or "last Friday".

    Nor has it "the end of" before a month. What was said then does not hold these words. A text with a quoted phrase is
    returned unchanged.
    """
    if QUOTES.search(text):
        return text
    if has_cjk(text):
        for pattern in east_asian.counted_times():
            text = pattern.sub(" ", text)
    said = set(_WORD.findall(_plain(text)))
    if not (words.SIGNS | words.HOUR_SIGNS | signs()) & said:
        return text
    plain = _letter_by_letter(text)
    found = [match.span() for pattern in _counted_times(said) for match in pattern.finditer(plain)]
    found += counted_parts_of_year(plain, patterns.past_languages(plain, said))
    found += [
        (part[0], match.start())
        for match in spoken_times(plain)
        if (part := patterns.share_before(plain, match.start()))
    ]
    kept, end = "", 0
    for start, stop in sorted(found):
        kept, end = f"{kept}{text[end:start]} ", max(end, stop)
    return kept + text[end:]


def without_times(text: str, now: datetime) -> str:
    """Return `text` without the times that it names in languages with letters, and the words that lead to them.

    "What did we plant in spring?" makes "What did we plant?". A text that names nothing else is returned unchanged.
    """
    plain = _letter_by_letter(text)
    named = list(_western(plain, set(_WORD.findall(plain)), now.date(), only_said=False))
    kept, end = "", 0
    for start, stop in sorted(parted_span(plain, each) for each in named):
        kept, end = _LEADS.sub("", kept + text[end:start]), max(end, stop)
    rest = without_counted_times(kept + text[end:]).lstrip(" ,")
    return rest if _WORD.search(rest) and not only_a_time(_plain(rest)) else text


def _letter_by_letter(text: str) -> str:
    """Return `text` like `_plain`, but with each letter in its place."""
    return "".join(folded if len(folded := _plain(char)) == 1 else char for char in text)


def _counted_times(said: Set[str]) -> Iterator[re.Pattern[str]]:
    """Yield the patterns of times that are counted back, for a text with these words."""
    yield from (patterns.days_ago(french=bool(said & words.FRENCH)), patterns.ago(), patterns.within())
    yield from (patterns.last(), patterns.before_last(), patterns.weekdays_ago(), patterns.part_of_present())
    if said & words.HOUR_SIGNS:
        yield from (patterns.ago(hours=True), patterns.within(hours=True))


def _narrowest(spans: list[Days], today: date) -> list[Days]:
    """Return the times without others than those within the week, month or year that is named as well.

    Such are "in May last year", which is no other May, and "on Monday this week".
    """
    for outer in spans:
        if is_unit(outer, today):
            inside = [each for each in spans if each != outer and _is_within(each, outer, today)]
            if inside:
                return inside
    return spans


def _is_within(one: Days, outer: Days, today: date) -> bool:
    """Return whether a time is one of another, at least its beginning: a winter is of the year in which it began."""
    return outer[0] <= one[0] <= outer[1] and (one[0] > outer[0] or min(one[1], today) <= outer[1])


def _begun(text: str, named: Iterable[NamedDays], today: date, *, ahead: bool) -> list[Days]:
    """Return the times of a text, without those that are ahead unless they are wanted."""
    return [days for days in joined(text, islice(named, MAX_PERIODS), today) if ahead or days[0] <= today]


def _western(plain: str, said: Set[str], today: date, *, only_said: bool) -> Iterator[NamedDays]:
    """Yield the times that are named in digits, or in a language with letters, but by no line of a pasted log."""
    if ":" in plain:
        plain = _STAMP.sub(lambda stamp: " " * len(stamp[0]), plain)
    if _NUMERIC.search(plain):
        for pattern in patterns.numeric_dates():
            for match in pattern.finditer(plain):
                yield named_at(match, _dated(match, today))
    named_part = not signs().isdisjoint(said)
    if not named_part and words.SIGNS.isdisjoint(said) and not names_a_number(plain):
        return
    past = patterns.past_languages(plain, said)
    yield from numbered_times(plain, past, today, only_said=only_said)
    on_days = past if words.HABITS.isdisjoint(said) else frozenset[str]()
    if named_part:
        yield from parts_of_year(plain, on_days, today, only_said=only_said)
    if said & words.SIGNS:
        for match in spoken_times(plain):
            days, year = day_numbers(match)
            yield named_at(match, of_month(year, words.MONTHS[match["month"]], days, today))
        yield from _relative(plain, today, french=bool(said & words.FRENCH))
        yield from _on_weekdays(plain, on_days, today)
        yield from between_weekdays(plain, on_days, today)
        yield from present(plain, past, today, only_said=only_said)


def _plain(text: str) -> str:
    """Return `text` in lower case and without accents, like the words it is compared with."""
    text = text.casefold()
    if text.isascii():
        return text
    text = text.replace("\u2019", "'")
    text = text.replace("há ", "hace ")  # Portuguese; without its accent it is Italian for "has"
    return unicodedata.normalize("NFC", function_words.plain(text))


def _relative(plain: str, today: date, *, french: bool) -> Iterator[NamedDays]:
    """Yield the times that are counted back from today."""
    for match in patterns.days_ago(french=french).finditer(plain):
        least, most = words.DAYS_AGO[match[1]]
        yield named_at(match, [(today - timedelta(days=most), today - timedelta(days=least))])
    for match in patterns.ago().finditer(plain):
        yield named_at(match, around(today, *patterns.counted(match, words.UNITS | words.SHORT_UNITS)))
    within: set[int] = set()
    for match in patterns.within().finditer(plain):
        within.add(match.end())
        _, most_units, unit_days = patterns.counted(match, words.UNITS | words.SHORT_UNITS)
        yield named_at(match, last_few(today, most_units, unit_days))
    for match in patterns.last().finditer(plain):
        if match.end() not in within:
            yield named_at(match, last_of(match[1] or match[2], today))
    for match in patterns.weekdays_ago().finditer(plain):
        count, _, name = patterns.counted(match, _OWN_NAMES)
        yield named_at(match, weekdays_ago(name, count, today))
    for match in patterns.before_last().finditer(plain):
        yield named_at(match, before_last(match[1] or match[2], today))


def _on_weekdays(plain: str, past: Set[str], today: date) -> Iterator[NamedDays]:
    """Yield the last weekday of a name where a text asks what was, in one of the languages `past`, or since when."""
    before = _end_of_named_week(plain, today)
    for language, pattern in patterns.on_weekday():
        if not language or language in past:
            for match in pattern.finditer(plain):
                for place, name in enumerate(match.groups(), 1):
                    if name is not None:
                        yield NamedDays(*match.span(place), [next(last_of(name, before))])


def _end_of_named_week(plain: str, today: date) -> date:
    """Return the day before which a weekday is meant: today, or the end of last week if that is named as well."""
    if any(words.UNITS.get(match[1] or match[2]) == 7 for match in patterns.last().finditer(plain)):
        return whole_unit(today, "week", last=False)[0]
    return today


def _dated(match: re.Match[str], today: date) -> Iterator[Days]:
    groups = match.groupdict()
    day, year = groups["d"], groups.get("y")
    if year and len(year) == 2:
        year = f"20{year}"
        if abs(int(year) - today.year) >= YEARS:  # "3.10.12" is a version of some program
            return
    yield from of_month(year, int(groups["m"]), (int(day) if day else None,), today)

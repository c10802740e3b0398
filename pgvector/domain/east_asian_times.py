"""Times in Chinese, Japanese and Korean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import cache

from .counted_days import (
    Days,
    around,
    before_last,
    from_weekday,
    last_few,
    last_of,
    of_last_month,
    of_month,
    part_of,
    since_first,
)
from .dates import whole_unit
from .time_ranges import NamedDays, named_at
from .time_words import YEAR, numbered
from .times_of_year import asian_parts_of_year

_DIGITS = numbered("一二三四五六七八九十", 1) | numbered("한두세네", 1) | {"两": 2, "兩": 2}
_NUMBER = r"\d{1,2}|[一二三四五六七八九十两兩]{1,3}"
_NOT_AFTER_AGO = "(?![端期後后台쟁선])"  # "前端" is the front end, "前後" about
_WEEKDAYS = {
    sign: number
    for signs in ("一二三四五六日", "月火水木金土天", "월화수목금토일")
    for number, sign in enumerate(signs)
}
_WEEK = "(?:周|週|星期|礼拜|禮拜)"
# Behind a time, it tells that a text asks what was; "今年多大了" does not.
_DONE = (
    r"(?=[^。？?！!]{0,20}(?:[了过過](?!\s*(?:[，,。？?！!呢吧生年节節来來去程]|$))|[しっい]た|했"
    r"|(?:[谁誰哪]|什[么麼])[^。？?！!]{0,10}了\s*(?:[？?]|$)))"
)
_SOMEONE = "(?=[我你您咱他她大谁誰])"
_PARTS = {"first": (0, 1 / 3), "middle": (1 / 3, 2 / 3), "end": (2 / 3, 1)}
_PART = (
    "(?:(?P<first>初(?!一)|上旬|の?(?:初め|はじめ)|초)|(?P<middle>中旬|半ば|중순)"
    "|(?P<end>底|末|下旬|の?(?:終わり|おわり)|말))"
)
_UNITS = (("day", 1), ("week", 7), ("month", 30), ("quarter", 91), ("year", 365))
# By the group of `last`: the least and the greatest number of days ago.
_DAYS_AGO = {"some": (2, 6), "three": (3, 3), "two": (2, 2), "one": (1, 1), "none": (0, 0)}
_UNIT = (
    r"(?:(?P<day>[天日일])|(?P<week>[个個]?(?P<half_week>半)?(?:星期|礼拜)|周|週|주)"
    r"|(?P<quarter>[个個か]?(?:季度|四半期)|분기)|(?P<month>[个個か月ヶカヵ](?P<half_month>半)?月|달|개월)|(?P<year>年(?P<half_year>半)?|년))"
)


@cache
def dates() -> re.Pattern[str]:
    """Return the pattern for a month, with the group m, and y and d if present."""
    year = rf"(?:(?P<y>{YEAR})\s*[年년]\s*)?"
    return re.compile(
        rf"{year}(?P<m>{_NUMBER})\s*[月월](?!曜|天(?!气|氣))(?:\s*(?P<d>{_NUMBER})\s*[日号號일]|\s*{_PART})?"
    )


@cache
def ago() -> re.Pattern[str]:
    """Return the pattern for how long ago, for `counted`."""
    return re.compile(
        rf"(?<![月\d])(?P<count>{_NUMBER}|[几幾数몇한두세네半])\s*{_UNIT}[之以間间일]?\s*[前전]{_NOT_AFTER_AGO}"
    )


@cache
def within() -> re.Pattern[str]:
    """Return the pattern for how far back, for `counted`: "最近三天", "过去一周"."""
    return re.compile(
        rf"(?:最近|[过過]去|[这這](?=[几幾两兩]天)|この|ここ|直近|지난|최근)的?\s*(?P<count>{_NUMBER}|[几幾数몇])\s*{_UNIT}"
        r"(?!曜|\s*[前전後后])"
    )


@cache
def hours() -> re.Pattern[str]:
    """Return the pattern for how many hours or minutes ago, or how many last ones, for `counted`."""
    count = rf"(?P<count>\d{{1,2}}\.\d|{_NUMBER}|半)\s*[个個]?(?P<half>半)?"
    unit = r"(?:(?P<hour>小[时時]|[钟鐘][头頭]|時間|시간)|(?P<minute>分[钟鐘]?|분))(?P<more>半)?"
    before = r"(?P<last>(?:最近|[过過]去|この|ここ|直近|지난|최근)的?\s*)?"
    return re.compile(rf"{before}(?<![月\d.]){count}{unit}(?(last)|[之以間间]?\s*[前전]{_NOT_AFTER_AGO})")


@cache
def last() -> re.Pattern[str]:
    """Return the pattern for the last week, month or year, a day of that week, the ones before, and last days."""
    return re.compile(
        r"(?P<before>(?:上上[个個]?|先々|先先)(?:(?P<week_before>周|週|星期|礼拜|禮拜)(?![一二三四五六日天末])|(?P<month_before>月))"
        r"|(?<![之以目])(?P<year_before>前年))|"
        r"(?:(?<![上晚早网身])上[个個]?(?:周|週|星期|礼拜|禮拜)|(?<!首)先週の?)(?:(?P<weekday>[一二三四五六日天月火水木金土])"
        r"(?:[到至和](?:周|週|星期|礼拜|禮拜)?(?P<stop>[一二三四五六日天]))?|(?P<weekend>末))?|"
        r"(?<!지)(?:지난|저번)\s*(?:주(?:(?P<weekend_ko>말)|의?\s*(?P<of_week_ko>[월화수목금토일])요일)?"
        r"|(?P<weekday_ko>[월화수목금토일])요일)|"
        r"(?P<month>(?<![上晚早网身])上[个個]?月|(?<!先)先月|(?<!지)(?:지난|저번)\s*달)"
        rf"(?:[的の의]?\s*(?P<day_of_month>{_NUMBER})\s*(?:日(?![间間遊游目連连])|[号號](?![线線楼樓机機店门門房])|일(?!\s*동안|[간째치])))?|"
        r"(?P<quarter>(?<![晚早网身])上[个個]?季度|前四半期|(?<!지)(?:지난|저번)\s*분기)|"
        r"(?P<year>(?<![过過])去年|(?<!一)昨年|(?<!재)작년)|"
        r"(?P<some>(?<![目以之])前(?:几|幾|两|兩|些)天)|(?P<three>大前天)|"
        r"(?P<two>(?<![目以之大])前天|一昨日|おととい|그저께|그제(?![야서]))|(?P<one>昨天|昨日|昨晚|昨夜|きのう|어제)|"
        r"(?P<none>今早|今天早上|今天上午|今朝)"
    )


@cache
def _on_weekday(done: str = "") -> re.Pattern[str]:
    """Return the pattern for a weekday, or one to another, on which someone did something; `done` has to follow."""
    day = r"[一二三四五六日天]"
    return re.compile(
        rf"(?<![上下每到至和])(?:[从從])?{_WEEK}(?P<first>{day})(?:[到至和]{_WEEK}?(?P<stop>{day}))?"
        rf"(?:之间|之間|期间|期間|早上|上午|中午|下午|晚上)?[，,]?都?{_SOMEONE}{done}"
    )


@cache
def _present(done: str = "") -> re.Pattern[str]:
    """Return the pattern for the present week, month or year, which `done` has to follow."""
    return re.compile(
        rf"(?:(?P<week>(?:[这這][个個]?|本){_WEEK}(?![一二三四五六日天末])|今週|이번\s*주)"
        rf"|(?P<month>[这這][个個]月|本月|今月|이번\s*달)|(?P<year>今年|올해)){done}"
    )


def counted_times() -> Sequence[re.Pattern[str]]:
    """Return the patterns of the times that are counted back."""
    return hours(), ago(), within(), last()


def every_time() -> Sequence[re.Pattern[str]]:
    """Return the patterns of all times."""
    return dates(), *counted_times(), _on_weekday(), _present()


def without_weekdays(text: str) -> str:
    """Return a text without names of weekdays, whatever they mean."""
    return re.sub(rf"{_WEEK}[一二三四五六日天]", " ", text)


def number(signs: str) -> int:
    """Return the number, up to 99, written in digits, Chinese numerals or a Korean word; 0 if it is none."""
    if signs.isdecimal():
        return int(signs)
    tens, ten, ones = signs.rpartition("十")
    return 10 * (_DIGITS.get(tens, 1) if ten else 0) + _DIGITS.get(ones, 0)


def counted(match: re.Match[str]) -> tuple[float, float]:
    """Return the least and the greatest count that a match means: "半", "几", "两个半"."""
    groups = match.groupdict()
    signs = groups["count"]
    if signs in "几幾数몇":
        return 2, 6
    if signs == "半":
        return 0.25, 0.75
    more = 0.5 if any(groups.get(name) for name in ("half", "more", "half_week", "half_month", "half_year")) else 0
    count = (float(signs) if "." in signs else number(signs)) + more
    return count, count


def named_days(text: str, today: date, *, only_said: bool) -> Iterator[NamedDays]:
    """Yield the times that a text names; `only_said`: it names nothing else, see `said_words`."""
    for match in dates().finditer(text):
        day = number(match["d"] or "")
        days = of_month(match["y"], number(match["m"]), (day or None,), today)
        share = next((share for name, share in _PARTS.items() if match[name]), (0, 1))
        yield named_at(match, (part_of(each, share) for each in days))
    for match in ago().finditer(text):
        yield named_at(match, around(today, *counted(match), _unit_days(match)))
    for match in within().finditer(text):
        yield named_at(match, last_few(today, counted(match)[1], _unit_days(match)))
    for match in last().finditer(text):
        yield named_at(match, _last(match, today))
    yield from _in_the_past(text, today, "" if only_said else _DONE)


def names_a_night(text: str) -> bool:
    """Return whether a text names last night."""
    return re.search("昨[晚夜]", text) is not None


def _unit_days(match: re.Match[str]) -> int:
    return next(days for unit, days in _UNITS if match[unit])


def _in_the_past(text: str, today: date, done: str) -> Iterator[NamedDays]:
    """Yield weekdays and the present week, month or year that `done` follows, if any."""
    for match in _on_weekday(done).finditer(text):
        first = _WEEKDAYS[match["first"]]
        days = from_weekday(first, _WEEKDAYS[match["stop"]] if match["stop"] else first, today)
        yield NamedDays(*match.span(), [days], reaches=True)
    for match in _present(done).finditer(text):
        unit = match.lastgroup or "week"
        yield NamedDays(*match.span(), [since_first(unit, today)])
    yield from asian_parts_of_year(text, done, today)


def _last(match: re.Match[str], today: date) -> Iterator[Days]:
    """Yield the days that a match of `last` means."""
    said = {name for name, text in match.groupdict().items() if text}
    if some := said & _DAYS_AGO.keys():
        least, most = _DAYS_AGO[some.pop()]
        yield today - timedelta(days=most), today - timedelta(days=least)
    elif "before" in said:
        yield from before_last(next(unit for unit in ("week", "month", "year") if f"{unit}_before" in said), today)
    elif "day_of_month" in said:
        yield from of_last_month(number(match["day_of_month"]), today)
    elif units := said & {"month", "quarter", "year"}:
        yield whole_unit(today, units.pop(), last=True)
    elif said & {"weekend", "weekend_ko"}:
        yield from last_of("weekend", today)
    else:
        yield _of_last_week(match, today)


def _of_last_week(match: re.Match[str], today: date) -> Days:
    """Return the last week, or of it the day or the days that a match names."""
    monday, sunday = whole_unit(today, "week", last=True)
    weekday = match["weekday"] or match["weekday_ko"] or match["of_week_ko"]
    if weekday is None:
        return monday, sunday
    first, last = _WEEKDAYS[weekday], _WEEKDAYS[match["stop"] or weekday]
    return monday + timedelta(days=first), monday + timedelta(days=max(first, last))

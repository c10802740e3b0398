"""The days of feasts that move from year to year, such as Easter, Thanksgiving, Ramadan and 中秋节.

Those of the moon are computed to within a day, which is how far people's calendars differ as well.
"""

from __future__ import annotations

import math
from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import lru_cache

from .counted_days import Days

Feast = Callable[[int], Sequence[Days]]  # the days of a feast that begin in a year

_NEW_MOON = 2451550.431  # Julian day of the mean new moon of 6 January 2000, in the time of Beijing
_MONTH_DAYS = 29.530588861
_JULIAN = 1721424.5  # of the day before 1 January of year 1, which has the ordinal 0
_HIJRI = 227_014  # ordinal of the day before the Islamic calendar began, by what is seen of the moon
_HIJRI_CYCLE = 30  # years, of which eleven have a day more
# The day in each Chinese month on which the sun stands where the month is told by it: 雨水, 夏至, 处暑, 秋分, 霜降.
_TERMS = {1: (2, 19), 5: (6, 21), 7: (8, 23), 8: (9, 23), 9: (10, 23)}


def _easter(first: int, last: int) -> Feast:
    """Return the feast from so many days after Easter Sunday to so many."""

    def days(year: int) -> Sequence[Days]:
        sunday = _easter_sunday(year)
        return [(sunday + timedelta(days=first), sunday + timedelta(days=last))]

    return days


def _weekday(month: int, number: int, of_week: int, first: int = 0, last: int = 0) -> Feast:
    """Return the feast from so many days after a month's weekday of a number (0 is Monday) to so many.

    `of_week`: the first is 1, the last one -1.
    """

    def days(year: int) -> Sequence[Days]:
        if of_week > 0:
            begun = date(year, month, 1)
            day = begun + timedelta(days=(number - begun.weekday()) % 7 + 7 * (of_week - 1))
        else:
            end = date(year, month, monthrange(year, month)[1])
            day = end - timedelta(days=(end.weekday() - number) % 7 - 7 * (of_week + 1))
        return [(day + timedelta(days=first), day + timedelta(days=last))]

    return days


def _advent(year: int) -> Sequence[Days]:
    """Return the days from the first Sunday in Advent to the one before Christmas."""
    christmas = date(year, 12, 25)
    fourth = christmas - timedelta(days=christmas.isoweekday())
    return [(fourth - timedelta(days=21), christmas - timedelta(days=1))]


def _lunar(month: int, day: int, first: int = 0, last: int = 0) -> Feast:
    """Return the feast around a day of a Chinese month, from `first` to `last` days after it.

    The month begins with the last new moon before its term of the sun or on that day.
    """

    def days(year: int) -> Sequence[Days]:
        begun = _last_new_moon(date(year, *_TERMS[month])) + timedelta(days=day - 1)
        return [(begun + timedelta(days=first), begun + timedelta(days=last))]

    return days


def _diwali(year: int) -> Sequence[Days]:
    new_moon = _last_new_moon(date(year, 11, 15))
    return [(new_moon - timedelta(days=1), new_moon)]


def _hijri(month: int, first: int, last: int) -> Feast:
    """Return the feast from one day of an Islamic month to another, which may be that of a later month."""

    def days(year: int) -> Sequence[Days]:
        about = int((year - 622) * 33 / 32)
        begun = [_hijri_day(each, month, first) for each in range(about - 1, about + 3)]
        return [(day, day + timedelta(days=last - first)) for day in begun if day.year == year]

    return days


def _easter_sunday(year: int) -> date:
    """Return Easter Sunday of the Gregorian calendar, by the rule of Gauss with the corrections of its centuries."""
    century = year // 100
    moon = (19 * (year % 19) + century - century // 4 - (8 * century + 13) // 25 + 15) % 30
    moon -= moon // 28 * (1 - 29 // (moon + 1) * ((21 - year % 19) // 11))
    sunday = (year + year // 4 + moon + 2 - century + century // 4) % 7
    return date(year, 3, 28) + timedelta(days=moon - sunday)


def _hijri_day(year: int, month: int, day: int) -> date:
    leap = (11 * year + 3) // _HIJRI_CYCLE
    return date.fromordinal(_HIJRI + 354 * (year - 1) + leap + 29 * (month - 1) + month // 2 + day)


@lru_cache(maxsize=64)
def _last_new_moon(day: date) -> date:
    """Return the day of the last new moon before or on a day, in the time of Beijing."""
    about = round((day.toordinal() + _JULIAN - _NEW_MOON) / _MONTH_DAYS)
    moons = (_new_moon(about + each) for each in (1, 0, -1, -2))
    return next(moon for moon in moons if moon <= day)


def _new_moon(number: int) -> date:
    """Return the day of a new moon, counted from January 2000, with the largest terms of sun and moon."""
    sun = math.radians(2.5534 + 29.1053567 * number)
    moon = math.radians(201.5643 + 385.8169353 * number)
    node = math.radians(160.7108 + 390.6705028 * number)
    moved = -0.4072 * math.sin(moon) + 0.1724 * math.sin(sun) + 0.0161 * math.sin(2 * moon)
    moved += 0.0104 * math.sin(2 * node) + 0.0074 * math.sin(moon - sun) - 0.0051 * math.sin(moon + sun)
    return date.fromordinal(math.floor(_NEW_MOON + _MONTH_DAYS * number + moved - _JULIAN))


# By phrases in lower case and without accents.
NAMES: dict[str, Feast] = {
    name: feast
    for feast, names in (
        (_easter(-2, 1), "easter,easter weekend,ostern,osterwochenende,paques,pascua,pasqua,pascoa,pasen,пасху"),
        (_easter(-7, 0), "holy week,karwoche,semana santa,settimana santa"),
        (_easter(-3, -3), "maundy thursday,grundonnerstag,jueves santo"),
        (_easter(-2, -2), "good friday,karfreitag,vendredi saint,viernes santo,venerdi santo,goede vrijdag"),
        (_easter(0, 0), "easter sunday,ostersonntag,domingo de pascua"),
        (_easter(1, 1), "easter monday,ostermontag,lundi de paques,pasquetta,paasmaandag"),
        (_easter(-52, -46), "karneval,fasching,carnaval,carnevale"),
        (_easter(-48, -48), "rosenmontag"),
        (_easter(-47, -47), "mardi gras,shrove tuesday"),
        (_easter(-46, -46), "ash wednesday,aschermittwoch,miercoles de ceniza"),
        (_easter(-46, -1), "fastenzeit,cuaresma"),
        (_easter(39, 39), "ascension day,himmelfahrt,christi himmelfahrt,vatertag,ascension,hemelvaart"),
        (_easter(49, 50), "pentecost,whitsun,pfingsten,pentecote,pentecostes,pentecoste,pinksteren"),
        (_easter(60, 60), "fronleichnam"),
        (_weekday(5, 6, 2), "mother's day,mothers day,muttertag,moederdag,festa della mamma,dia das maes"),
        (_weekday(5, 6, -1), "fete des meres"),
        (_weekday(5, 0, -1), "memorial day"),
        (_weekday(6, 6, 3), "father's day,fathers day,fete des peres,vaderdag"),
        (_weekday(9, 0, 1), "labor day"),
        (_weekday(11, 3, 4), "thanksgiving,thanksgiving day"),
        (_weekday(11, 3, 4, 1, 1), "black friday,viernes negro"),
        (_advent, "advent,adventszeit,avent,adviento,avvento"),
        (_hijri(9, 1, 30), "ramadan,ramadhan,ramazan"),
        (_hijri(10, 1, 3), "eid,eid al-fitr,eid ul-fitr,zuckerfest"),
        (_hijri(12, 9, 13), "eid al-adha,eid ul-adha,opferfest"),
        (_lunar(1, 1, -1, 6), "chinese new year,lunar new year"),
        (_lunar(5, 5), "dragon boat festival"),
        (_lunar(8, 15), "mid-autumn festival"),
        (_diwali, "diwali,deepavali"),
    )
    for name in names.split(",")
}
EAST_ASIAN_NAMES: dict[str, Feast] = {
    name: feast
    for feast, names in (
        (_lunar(1, 1, -1, 6), "春节 春節 설날"),
        (_lunar(1, 1, -1, -1), "除夕 年三十"),
        (_lunar(1, 1), "大年初一"),
        (_lunar(1, 15), "元宵节 元宵節"),
        (_lunar(5, 5), "端午节 端午節 端午"),
        (_lunar(7, 7), "七夕"),
        (_lunar(8, 15), "中秋节 中秋節 中秋"),
        (_lunar(8, 15, -1, 1), "추석"),
        (_lunar(9, 9), "重阳节 重陽節"),
        (_weekday(5, 6, 2), "母亲节 母親節 母の日"),
    )
    for name in names.split()
}

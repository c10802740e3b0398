"""Words for times in the languages people ask in, and the patterns made of them.

English, German, French, Spanish, Italian, Portuguese, Dutch and Russian share one set of patterns, in small letters and
without accents; Chinese, Japanese and Korean another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache


def _split(words: str) -> list[str]:
    return words.split(",") if "," in words else words.split()


def _numbered(groups: Iterable[str], first: int = 0) -> dict[str, int]:
    return {word: number for number, words in enumerate(groups, first) for word in _split(words)}


def _either(words: Iterable[str]) -> str:
    """Return a pattern for any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(set(words), key=lambda word: (-len(word), word)))


_ENGLISH_MONTHS = (
    "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
    "september sept sep", "october oct", "november nov", "december dec",
)  # fmt: skip
_OTHER_MONTHS = (
    "januar janner janvier enero gennaio janeiro januari января январе",
    "februar fevrier febrero febbraio fevereiro februari февраля феврале",
    "marz mars marzo marco maart марта марте",
    "avril abril aprile апреля апреле",
    "mai mayo maggio maio mei мая мае",
    "juni juin junio giugno junho июня июне",
    "juli juillet julio luglio julho июля июле",
    "aout agosto augustus августа августе",
    "septembre septiembre settembre setembro сентября сентябре",
    "oktober octobre octubre ottobre outubro октября октябре okt",
    "novembre noviembre novembro ноября ноябре",
    "dezember decembre diciembre dicembre dezembro декабря декабре dez",
)
ENGLISH_MONTHS = _numbered(_ENGLISH_MONTHS, 1)
MONTHS = ENGLISH_MONTHS | _numbered(_OTHER_MONTHS, 1)
# A month alone is one only after such a word: "march" and "may" are verbs, "June" is a person, Mars a planet.
_BEFORE_MONTH = (
    "in of since during last this until before after by from early late mid to im seit vom bis ab anfang mitte ende van"
)
_BEFORE_OTHER_MONTH = (
    "en de du depuis debut fin mi desde hasta em ate a di del dal do da letzten sinds vorige в с до начале конце"
)
_NEVER_BEFORE = {"mars": "in of to from by this before after", "may": "this to", "march": "this to", "janeiro": "de"}

ENGLISH_WEEKDAYS = _numbered(_split("monday tuesday wednesday thursday friday saturday sunday"))
WEEKDAYS = ENGLISH_WEEKDAYS | _numbered(
    (
        "montag lundi lunes lunedi segunda segunda-feira maandag понедельник",
        "dienstag mardi martes martedi terca terca-feira dinsdag вторник",
        "mittwoch mercredi miercoles mercoledi quarta quarta-feira woensdag среду",
        "donnerstag jeudi jueves giovedi quinta quinta-feira donderdag четверг",
        "freitag vendredi viernes venerdi sexta sexta-feira vrijdag пятницу",
        "samstag sonnabend samedi sabado sabato zaterdag субботу",
        "sonntag dimanche domingo domenica zondag воскресенье",
    )
)
WEEKENDS = frozenset(_split("weekend,week-end,wochenende,fin de semana,fim de semana,fine settimana"))
# By the word for it the days that a day, a week, a month or a year has.
UNITS = {
    word: days
    for days, words in {
        1: "day days tag tage tagen jour jours dia dias giorno giorni dag dagen день дня днеи",
        7: "week weeks woche wochen semaine semaines semana semanas settimana settimane weken неделю недели "
        "недель неделе",
        30: "month months monat monate monaten mois mes meses mese mesi maand maanden месяц месяца месяцев месяце",
        365: "year years jahr jahre jahren an ans annee annees ano anos anno anni jaar год года году лет",
    }.items()
    for word in words.split()
}
# By the word for it how many are meant, at least and at most.
COUNTS: dict[str, tuple[float, float]] = (
    {
        word: (number, number)
        for word, number in _numbered(
            (
                "a an one ein eine einem einer un une una uno um uma een один одну",
                "two,a couple of,couple of,zwei,deux,dos,due,dois,duas,twee,два,две",
                "three drei trois tres tre drie три",
                "four vier quatre cuatro quattro quatro четыре",
                "five funf cinq cinco cinque vijf пять",
                "six sechs seis sei zes шесть",
                "seven sieben sept siete sette sete zeven семь",
                "eight acht huit ocho otto oito восемь",
                "nine neun neuf nueve nove negen девять",
                "ten zehn dix diez dieci dez tien десять",
            ),
            1,
        ).items()
    }
    | dict.fromkeys(
        _split(
            "a few,few,several,some,einigen,einige,ein paar,wenigen,quelques,unos,unas,algunos,algunas,pocos,pocas,"
            "pochi,poche,alcuni,alcune,qualche,alguns,algumas,poucos,poucas,enkele,een paar,несколько"
        ),
        (2.0, 6.0),
    )
    | dict.fromkeys(_split("half a,half an,einem halben,un demi,medio,mezzo,meio,een half"), (0.25, 0.75))
)
DAYS_AGO = _numbered(
    (
        "this morning,earlier today,heute morgen,heute fruh,ce matin,esta manana,stamattina,esta manha,vanmorgen",
        "yesterday,last night,last evening,gestern,hier soir,d'hier,ayer,anoche,ieri,ontem,gisteren,вчера",
        "day before yesterday,vorgestern,avant-hier,anteayer,antes de ayer,l'altro ieri,anteontem,eergisteren,"
        "позавчера",
    )
)
_LAST_BEFORE = _split(
    "last letzten letzte letztes letztem vergangenen vergangene vergangenes vorigen vorige voriges vorig afgelopen "
    "pasado pasada scorso scorsa прошлои прошлом прошлыи прошлую прошлое"
)
_LAST_AFTER = _split("dernier derniere passe passee pasado pasada scorso scorsa passato passata passado passada")
_WITHIN = _split(
    "last past letzten vergangenen afgelopen laatste ultimos ultimas ultimi ultime последние последних derniers "
    "dernieres"
)

_YEAR = r"(?:19|20)\d\d"
# Without one of these a text needs no pattern.
SIGNS = frozenset(
    re.findall(r"\w+", phrase)[-1] for words in (MONTHS, WEEKDAYS, WEEKENDS, UNITS, DAYS_AGO) for phrase in words
)
# With one of these it asks of what was: "on Monday" alone may as well be the next one.
WAS = frozenset(_split("did was were had said told discussed talked mentioned asked decided agreed"))


_CJK_DIGITS = _numbered("一二三四五六七八九十", 1) | _numbered("한두세네", 1) | {"两": 2, "兩": 2}
_CJK_NUMBER = r"\d{1,2}|[一二三四五六七八九十两兩]{1,3}"
CJK_WEEKDAYS = {
    sign: number
    for signs in ("一二三四五六日", "月火水木金土天", "월화수목금토일")
    for number, sign in enumerate(signs)
}


@cache
def spoken_date() -> re.Pattern[str]:
    """Return what finds a month: the day before it, its name, the day after it, the year."""
    before = r"(?:\b(\d{1,2})(?:st|nd|rd|th|er|\.)?(?:\s+(?:of|de|di|do))?[\s-]+)?"
    after = rf"(?:\s+(\d{{1,2}})(?:st|nd|rd|th)?\b)?(?:,?\s+(?:(?:of|in|de|del|di)\s+)?({_YEAR})\b)?"
    return re.compile(rf"{before}\b({_either(MONTHS)})\b\.?{after}")


@cache
def leads_to(month: str) -> re.Pattern[str]:
    """Return what finds, at the end of the text before a name, a word after which it is that of the month."""
    words = {*_split(_BEFORE_MONTH), *(() if month in ENGLISH_MONTHS else _split(_BEFORE_OTHER_MONTH))}
    return re.compile(rf"\b(?:{_either(words - set(_split(_NEVER_BEFORE.get(month, ''))))})[\s-]+$")


@cache
def ago() -> re.Pattern[str]:
    """Return what finds how long ago: a count and a unit, or a unit alone, in one of three pairs of groups."""
    many = rf"(\d{{1,3}}|{_either(COUNTS)})\s+({_either(UNITS)})"
    return re.compile(
        rf"\b(?:{many}\s+(?:ago|fa|geleden|atras|назад)|()(неделю|месяц|год)\s+назад|(?:vor|il y a|hace)\s+{many})\b"
    )


@cache
def within() -> re.Pattern[str]:
    """Return what finds how long it reaches back: a count and a unit, in one of three pairs of groups."""
    count, unit = rf"(\d{{1,3}}|{_either(COUNTS)})", rf"({_either(UNITS)})"
    alone = rf"()(?:past|ultima|ultimo|laatste)\s+{unit}"
    return re.compile(rf"\b(?:(?:{_either(_WITHIN)})\s+{count}\s+{unit}|{count}\s+derni(?:er|ere)s\s+{unit}|{alone})\b")


@cache
def last() -> re.Pattern[str]:
    """Return what finds the last week, month or year, weekday or weekend, in one of two groups."""
    thing = f"({_either([*(word for word, days in UNITS.items() if days > 1), *WEEKDAYS, *WEEKENDS])})"
    return re.compile(rf"\b(?:(?:{_either(_LAST_BEFORE)})\s+{thing}|{thing}\s+(?:{_either(_LAST_AFTER)}))\b")


@cache
def on_weekday() -> re.Pattern[str]:
    """Return what finds the weekday or weekend on which something was or will be."""
    return re.compile(rf"\b(?:on|over|at)\s+(?:the\s+)?({_either([*ENGLISH_WEEKDAYS, 'weekend'])})\b")


@cache
def days_ago() -> re.Pattern[str]:
    """Return what finds yesterday and its like."""
    return re.compile(rf"(?<!\w)({_either(DAYS_AGO)})\b")


@cache
def numeric_dates() -> tuple[re.Pattern[str], ...]:
    """Return what finds a date in digits, with the groups m, and y and d where these are there."""
    patterns = (
        rf"\b(?P<y>{_YEAR})-(?P<m>\d\d)(?:-(?P<d>\d\d))?\b",
        rf"\b(?P<y>{_YEAR})(?P<sign>[/.])(?P<m>\d\d?)(?P=sign)(?P<d>\d\d?)\b",
        rf"\b(?P<d>\d\d?)(?P<sign>[/.])\s?(?P<m>\d\d?)(?P=sign)\s?(?P<y>{_YEAR})\b",
        rf"\b(?P<m>\d\d?)/(?P<d>\d\d?)/(?P<y>{_YEAR})\b",
        r"\b(?:am|vom|seit|bis|den|dem|ab)\s(?P<d>\d\d?)\.\s?(?P<m>\d\d?)\.(?!\s?\d)",
    )
    return tuple(re.compile(pattern) for pattern in patterns)


@cache
def cjk_date() -> re.Pattern[str]:
    """Return what finds a month in Chinese, Japanese or Korean, with the groups m, and y and d where they are there."""
    year = rf"(?:(?P<y>{_YEAR})\s*[年년]\s*)?"
    return re.compile(rf"{year}(?P<m>{_CJK_NUMBER})\s*[月월](?!曜)(?:\s*(?P<d>{_CJK_NUMBER})\s*[日号號일])?")


@cache
def cjk_ago() -> re.Pattern[str]:
    """Return what finds how long ago, for `cjk_count`."""
    return re.compile(
        rf"(?<![月\d])(?P<count>{_CJK_NUMBER}|[几幾数몇한두세네])\s*(?:(?P<day>[天日일])|(?P<week>[个個]?星期|周|週|주)|"
        r"(?P<month>[个個か月ヶカヵ]月|달|개월)|(?P<year>年|년))[之以間间일]?\s*[前전]"
    )


@cache
def cjk_last() -> re.Pattern[str]:
    """Return what finds the last week or a day of it, the last month or year, yesterday, or the day before that."""
    return re.compile(
        r"(?<!上)(?:上[个個]?|先)(?:周|週|星期|礼拜|禮拜)の?(?P<weekday>[一二三四五六日天月火水木金土])?|"
        r"(?:지난|저번)\s*(?:주|(?P<weekday_ko>[월화수목금토일])요일)|"
        r"(?P<month>(?<!上)上[个個]?月|先月|(?:지난|저번)\s*달)|(?P<year>去年|昨年|작년)|"
        r"(?P<two>前天|一昨日|おととい|그저께|그제)|(?P<one>昨天|昨日|昨晚|昨夜|きのう|어제)"
    )


def cjk_number(signs: str) -> int:
    """Return the number, up to 99, that digits, Chinese signs or a Korean word say; 0 where they say none."""
    if signs.isdecimal():
        return int(signs)
    tens, ten, ones = signs.rpartition("十")
    return 10 * (_CJK_DIGITS.get(tens, 1) if ten else 0) + _CJK_DIGITS.get(ones, 0)


def cjk_count(match: re.Match[str]) -> tuple[float, float, int]:
    """Return how many of a unit a match of `cjk_ago` means, at least and at most, and the days of one."""
    days = next(days for unit, days in (("day", 1), ("week", 7), ("month", 30), ("year", 365)) if match[unit])
    if match["count"] in "几幾数몇":
        return 2, 6, days
    number = cjk_number(match["count"])
    return number, number, days

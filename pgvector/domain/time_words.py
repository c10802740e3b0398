"""Words for times in the languages people ask in, and the patterns made of them.

English, German, French, Spanish, Italian, Portuguese, Dutch and Russian share one set of patterns, in lower case and
without accents; Chinese, Japanese and Korean share another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import cache
from itertools import chain
from typing import TypeVar

_Unit = TypeVar("_Unit")


def _split(words: str) -> list[str]:
    return words.split(",") if "," in words else words.split()


def _numbered(groups: Iterable[str], first: int = 0) -> dict[str, int]:
    return {word: number for number, words in enumerate(groups, first) for word in _split(words)}


def either(words: Iterable[str]) -> str:
    """Return a pattern for any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(set(words), key=lambda word: (-len(word), word)))


# For each language, the names of the months, and the words after which such a name means the month even without a day:
# "march" and "may" are verbs, "June", "Jan" and "Julio" people, Mars a planet.
_LANGUAGES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sept sep", "october oct", "november nov", "december dec",
        ),
        "in of since during last this until before after by from early late mid to",
    ),
    (
        (
            "januar janner", "februar", "marz", "april", "mai", "juni", "juli", "august", "september", "oktober okt",
            "november", "dezember",
        ),
        "im seit vom bis ab anfang mitte ende letzten",
    ),
    (
        (
            "janvier", "fevrier", "mars", "avril", "mai", "juin", "juillet", "aout", "septembre", "octobre", "novembre",
            "decembre",
        ),
        "en depuis debut fin mi",
    ),
    (
        (
            "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre setiembre", "octubre",
            "noviembre", "diciembre",
        ),
        "en desde hasta",
    ),
    (
        (
            "gennaio", "febbraio", "marzo", "aprile", "maggio", "giugno", "luglio", "agosto", "settembre", "ottobre",
            "novembre", "dicembre",
        ),
        "a in da dal",
    ),
    (
        (
            "janeiro", "fevereiro", "marco", "abril", "maio", "junho", "julho", "agosto", "setembro", "outubro",
            "novembro", "dezembro",
        ),
        "em desde ate",
    ),
    (
        (
            "januari", "februari", "maart", "april", "mei", "juni", "juli", "augustus", "september", "oktober",
            "november", "december",
        ),
        "in sinds vanaf begin eind",
    ),
    (
        (
            "января январь январе", "февраля февраль феврале", "марта март марте",
            "апреля апрель апреле", "мая маи мае", "июня июнь июне",
            "июля июль июле", "августа август августе", "сентября сентябрь сентябре",
            "октября октябрь октябре", "ноября ноябрь ноябре", "декабря декабрь декабре",
        ),
        "в с до по начале конце",
    ),
)  # fmt: skip
MONTHS = {word: number for months, _ in _LANGUAGES for word, number in _numbered(months, 1).items()}
ENGLISH_MONTHS = frozenset(_numbered(_LANGUAGES[0][0]))
# Other words as well: beside a number they are months only if the context says so, see `means_a_day`.
OTHER_WORDS = frozenset(_split("may march mar mai mars marco"))
_NEVER_BEFORE = {"may": "this to", "march": "this to", "jan": "of by from to", "mar": "of by from to", "april": "by"}
_BEFORE_DAY = frozenset(
    _split(
        "on since until till before after from by between and am vom seit bis ab zum den dem le du au depuis avant "
        "apres el desde hasta il dal em op sinds"
    )
)

ENGLISH_WEEKDAYS = _numbered(_split("monday tuesday wednesday thursday friday saturday sunday"))
_GERMAN_WEEKDAYS = _split("montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag")
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
# The number of days in a day, a week, a month or a year, by the word for it.
UNITS = {
    word: days
    for days, words in {
        1: "day days tag tage tagen jour jours dia dias giorno giorni dag dagen день дня днеи",
        7: "week weeks woche wochen semaine semaines semana semanas settimana settimane weken неделю недели "
        "недель неделе",
        30: "month months monat monate monaten monats mois mes meses mese mesi maand maanden месяц месяца месяцев "
        "месяце",
        365: "year years jahr jahre jahren jahres an ans annee annees ano anos anno anni jaar год года году лет",
    }.items()
    for word in words.split()
}
_HOURS = "hour hours hr hrs h stunde stunden heure heures hora horas ora ore uur uren час часа часов"
_MINUTES = "minute minutes min mins minuten minuto minutos minuti minuut минуту минуты минут"
HOUR_UNITS = dict.fromkeys(_HOURS.split(), timedelta(hours=1)) | dict.fromkeys(_MINUTES.split(), timedelta(minutes=1))
# The least and the greatest count that a word means.
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
        "yesterday,last night,last evening,gestern,hier,hier soir,hier matin,d'hier,ayer,anoche,ieri,ontem,"
        "gisteren,вчера",
        "day before yesterday,vorgestern,avant-hier,anteayer,antes de ayer,l'altro ieri,anteontem,eergisteren,"
        "позавчера",
    )
)
_HIER = "hier"  # "here" in German and Dutch, and yesterday beside one of these words
FRENCH = frozenset(
    _split(
        "nous vous il elle ils j quoi qu que qui quel quelle quels quelles avons avez avions avait avaient est etait "
        "etaient sont suis ete parle discute pourquoi quand combien cette notre votre une pour avec sur chez"
    )
)
_LAST_BEFORE = _split(
    "last letzten letzter letzte letztes letztem vergangenen vergangener vergangene vergangenes vorigen vorige voriges "
    "vorig afgelopen "
    "pasado pasada scorso scorsa прошлои прошлом прошлыи прошлую прошлое прошлого"
)
_LAST_AFTER = _split("dernier derniere passe passee pasado pasada scorso scorsa passato passata passado passada")
_WITHIN = _split(
    "last past letzten vergangenen afgelopen laatste ultimos ultimas ultimi ultime последние последних derniers "
    "dernieres"
)

YEAR = r"(?:19|20)\d\d"


def phrases() -> Iterable[str]:
    """Return the words and phrases that times are named with, besides numbers and months, which are names as well."""
    parts = (WEEKDAYS, WEEKENDS, UNITS, HOUR_UNITS, COUNTS, DAYS_AGO, _LAST_BEFORE, _LAST_AFTER, _WITHIN, _BEFORE_DAY)
    return chain.from_iterable(parts)


# Without one of these a text needs no pattern.
SIGNS = frozenset(
    re.findall(r"\w+", phrase)[-1] for words in (MONTHS, WEEKDAYS, WEEKENDS, UNITS, DAYS_AGO) for phrase in words
)
HOUR_SIGNS = HOUR_UNITS.keys() | {"ago", *_WITHIN}  # "2h" is one word
CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# With one of these a question is about the past: "on Monday" alone may as well be the next one.
# "Was" is German for "what".
WAS = frozenset(_split("did was were had said told discussed talked mentioned asked decided agreed happened spoke"))
WAR = frozenset(
    _split(
        "war waren wurde wurden hatte hatten gab gesagt besprochen gesprochen erzahlt erwahnt notiert gefragt gemacht "
        "passiert beschlossen entschieden vereinbart"
    )
)


_CJK_DIGITS = _numbered("一二三四五六七八九十", 1) | _numbered("한두세네", 1) | {"两": 2, "兩": 2}
_CJK_NUMBER = r"\d{1,2}|[一二三四五六七八九十两兩]{1,3}"
_NOT_AFTER_AGO = "(?![端期後后台쟁선])"  # "前端" is the front end, "前後" about
CJK_WEEKDAYS = {
    sign: number
    for signs in ("一二三四五六日", "月火水木金土天", "월화수목금토일")
    for number, sign in enumerate(signs)
}


@cache
def spoken_date() -> re.Pattern[str]:
    """Return the pattern for a month, with the day before or after it, the day's ending, and the year."""
    before = r"(?:(?<![\w.,/])(?P<before>\d{1,2})(?P<ends>st|nd|rd|th|er|°|º|\.|)(?:\s+(?P<of>of|de))?[\s-]+)?"
    after = r"(?:\s+(?P<after>\d{1,2})(?P<after_ends>st|nd|rd|th|)\b)?"
    year = rf"(?:,?\s+(?:(?:of|in|de|del|di)\s+)?(?P<year>{YEAR})\b)?"
    return re.compile(rf"{before}\b(?P<month>{either(MONTHS)})\b\.?{after}{year}")


@cache
def leads_to(month: str) -> re.Pattern[str]:
    """Return the pattern for a word, at the end of the text before a name, after which the name means the month."""
    words = {lead for months, leads in _LANGUAGES if month in _numbered(months) for lead in _split(leads)}
    return re.compile(rf"\b(?:{either(words - set(_split(_NEVER_BEFORE.get(month, ''))))})[\s-]+$")


def leading(match: re.Match[str]) -> str:
    """Return the end of the text before a match."""
    return match.string[max(0, match.start() - 12) : match.start()]


def day_of(match: re.Match[str]) -> str | None:
    """Return the number in a match of `spoken_date` that may be a day, None if there is none."""
    return match["before"] or (match["after"] if match["month"] in ENGLISH_MONTHS else None)


def names_a_time(match: re.Match[str]) -> bool:
    """Return whether a match of `spoken_date` is a day or a month, and not a name or another word."""
    if day_of(match):
        return means_a_day(match)
    return bool(match["year"] or leads_to(match["month"]).search(leading(match)))


def means_a_day(match: re.Match[str]) -> bool:
    """Return whether the number in a match of `spoken_date` is a day, judging by what is with it and around it.

    "22 may be closed", "march 4 miles", "3 mars bars" are not, "on 22 May", "March 4th" and "Is it 3 May?" are.
    """
    said = match["ends"] or match["of"] or match["after_ends"] or match["year"]
    if said or match["month"] not in OTHER_WORDS:
        return True
    *_, lead = ["", *leading(match).split()]
    following = match.string[match.end() : match.end() + 3].lstrip()
    return lead in _BEFORE_DAY or not following or following[0] in ",;:.?!)"


@cache
def ago(*, hours: bool = False) -> re.Pattern[str]:
    """Return the pattern for how long ago: a count and a unit, or a unit alone, in one of three pairs of groups."""
    many = rf"(\d{{1,3}}|(?:{either(COUNTS)})(?=\s))\s*({either(HOUR_UNITS if hours else UNITS)})"
    alone = "час|минуту" if hours else "неделю|месяц|год"
    return re.compile(
        rf"\b(?:{many}\s+(?:ago|fa|geleden|atras|назад)|()({alone})\s+назад|(?:vor|il y a|hace)\s+{many})\b"
    )


@cache
def within(*, hours: bool = False) -> re.Pattern[str]:
    """Return the pattern for how far back: a count and a unit, or a unit alone, in one of the pairs of groups."""
    several = [word for word, (least, _) in COUNTS.items() if least > 1 or (hours and word.startswith("half"))]
    count, unit = rf"(\d{{1,3}}|(?:{either(several)})(?=\s))", rf"({either(HOUR_UNITS if hours else UNITS)})"
    before, after = rf"(?:{either(_WITHIN)})\s+{count}\s*{unit}", rf"{count}\s+derni(?:er|ere)s\s+{unit}"
    alone = r"(?:in the last|past|in der letzten)\s+()(hour|stunde)"
    if not hours:  # "last week" alone is that of the calendar
        alone = r"(?:(?:in|over|during|within|for) the last|past)\s+()(day|week|month|year)(?!\s+of\b)"
    return re.compile(rf"\b(?:{before}|{after}|{alone})\b")


def counted(match: re.Match[str], units: Mapping[str, _Unit]) -> tuple[float, float, _Unit]:
    """Return the least and the greatest count that a match of `ago` or `within` means, and the unit."""
    count, unit = (each for each in match.groups() if each is not None)
    least, most = (int(count),) * 2 if count.isdecimal() else COUNTS.get(count, (1, 1))
    return least, most, units[unit]


@cache
def last() -> re.Pattern[str]:
    """Return the pattern for the last week, month or year, weekday or weekend, in one of two groups."""
    things = {*(word for word, days in UNITS.items() if days > 1), *WEEKDAYS, *WEEKENDS}
    before, after = f"({either(things - {'an', 'ans'})})", f"({either(things)})"  # "to last an hour"
    return re.compile(rf"\b(?:(?:{either(_LAST_BEFORE)})\s+{before}|{after}\s+(?:{either(_LAST_AFTER)}))\b")


@cache
def on_weekday() -> tuple[tuple[frozenset[str], re.Pattern[str]], ...]:
    """Return words of the past, and the pattern for the weekday or weekend on which something was then, by language.

    Since a weekday something was without such a word.
    """
    english, german = [*ENGLISH_WEEKDAYS, "weekend"], [*_GERMAN_WEEKDAYS, "wochenende"]
    since = rf"\b(?:since|seit|depuis|desde(?: el)?|sinds)\s+(?:the\s+)?({either((*WEEKDAYS, *WEEKENDS))})\b"
    return (
        (frozenset(), re.compile(since)),
        (WAS, re.compile(rf"\b(?:on|over|at)\s+(?:the\s+)?({either(english)})\b")),
        (WAR, re.compile(rf"\bam\s+({either(german)})\b")),
    )


@cache
def days_ago(*, french: bool) -> re.Pattern[str]:
    """Return the pattern for yesterday and the like, for a text with one of the words FRENCH or without."""
    return re.compile(rf"(?<!\w)({either(DAYS_AGO.keys() - (() if french else {_HIER}))})\b")


@cache
def numeric_dates() -> tuple[re.Pattern[str], ...]:
    """Return the patterns for a date in digits, with the group m, and y and d if they are present."""
    patterns = (
        # Also the day of a moment such as 2026-05-04T10:22.
        rf"\b(?P<y>{YEAR})-(?P<m>\d\d)(?:-(?P<d>\d\d)(?:\b|(?=t\d))|\b(?!-\d))",
        rf"\b(?P<y>{YEAR})(?P<sign>[/.])(?P<m>\d\d?)(?P=sign)(?P<d>\d\d?)\b",
        rf"\b(?P<d>\d\d?)(?P<sign>[/.])\s?(?P<m>\d\d?)(?P=sign)\s?(?P<y>{YEAR})\b",
        rf"\b(?P<m>\d\d?)/(?P<d>\d\d?)/(?P<y>{YEAR})\b",
        r"\b(?:am|vom|seit|bis|den|dem|ab)\s(?P<d>\d\d?)\.\s?(?P<m>\d\d?)\.(?!\s?\d)",
    )
    return tuple(re.compile(pattern) for pattern in patterns)


@cache
def cjk_date() -> re.Pattern[str]:
    """Return the pattern for a month in Chinese, Japanese or Korean, with the group m, and y and d if present."""
    year = rf"(?:(?P<y>{YEAR})\s*[年년]\s*)?"
    return re.compile(
        rf"{year}(?P<m>{_CJK_NUMBER})\s*[月월](?!曜|天(?!气|氣))(?:\s*(?P<d>{_CJK_NUMBER})\s*[日号號일])?"
    )


@cache
def cjk_ago() -> re.Pattern[str]:
    """Return the pattern for how long ago, for `cjk_count`."""
    return re.compile(
        rf"(?<![月\d])(?P<count>{_CJK_NUMBER}|[几幾数몇한두세네])\s*(?:(?P<day>[天日일])|(?P<week>[个個]?星期|周|週|주)|"
        rf"(?P<month>[个個か月ヶカヵ]月|달|개월)|(?P<year>年|년))[之以間间일]?\s*[前전]{_NOT_AFTER_AGO}"
    )


@cache
def cjk_hours() -> re.Pattern[str]:
    """Return the pattern for how many hours or minutes ago, or how many last ones."""
    count = rf"(?P<count>{_CJK_NUMBER}|半)\s*[个個]?"
    unit = r"(?:(?P<hour>小[时時]|[钟鐘][头頭]|時間|시간)|(?P<minute>分[钟鐘]?|분))"
    before = r"(?P<last>(?:最近|[过過]去|この|ここ|直近|지난|최근)的?\s*)?"
    return re.compile(rf"{before}(?<![月\d]){count}{unit}(?(last)|[之以間间]?\s*[前전]{_NOT_AFTER_AGO})")


@cache
def cjk_last() -> re.Pattern[str]:
    """Return the pattern for the last week or a day of it, the last month or year, yesterday, or the day before."""
    return re.compile(
        r"(?:(?<![上晚早网身])上[个個]?(?:周|週|星期|礼拜|禮拜)|(?<!首)先週の?)(?P<weekday>[一二三四五六日天月火水木金土])?|"
        r"(?<!지)(?:지난|저번)\s*(?:주|(?P<weekday_ko>[월화수목금토일])요일)|"
        r"(?P<month>(?<![上晚早网身])上[个個]?月|(?<!先)先月|(?<!지)(?:지난|저번)\s*달)|"
        r"(?P<year>(?<![过過])去年|(?<!一)昨年|(?<!재)작년)|"
        r"(?P<two>(?<![目以之大])前天|一昨日|おととい|그저께|그제(?![야서]))|(?P<one>昨天|昨日|昨晚|昨夜|きのう|어제)"
    )


def cjk_number(signs: str) -> int:
    """Return the number, up to 99, written in digits, Chinese numerals or a Korean word; 0 if it is none."""
    if signs.isdecimal():
        return int(signs)
    tens, ten, ones = signs.rpartition("十")
    return 10 * (_CJK_DIGITS.get(tens, 1) if ten else 0) + _CJK_DIGITS.get(ones, 0)


def cjk_count(match: re.Match[str]) -> tuple[float, float, int]:
    """Return the least and the greatest count that a match of `cjk_ago` means, and the days in one unit."""
    days = next(days for unit, days in (("day", 1), ("week", 7), ("month", 30), ("year", 365)) if match[unit])
    if match["count"] in "几幾数몇":
        return 2, 6, days
    number = cjk_number(match["count"])
    return number, number, days

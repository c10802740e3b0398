"""The patterns of times in the languages of `time_words`, for texts in lower case and without accents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache
from typing import TypeVar

from . import time_words as words
from .time_words import YEAR, either

UNIT_LENGTHS = (7, 30, 91, 365)  # of the units that have a beginning and an end
LEADING = 32  # characters before a time that tell how it is meant
_Unit = TypeVar("_Unit")


@cache
def spoken_date() -> re.Pattern[str]:
    """Return the pattern for a month, with the day before or after it, the day's ending, and the year."""
    before = r"(?:(?<![\w.,/])(?P<before>\d{1,2})(?P<ends>st|nd|rd|th|er|°|º|\.|)(?:\s+(?P<of>of|de))?[\s-]+)?"
    after = r"(?:\s+(?P<after>\d{1,2})(?P<after_ends>st|nd|rd|th|)\b)?"
    year = rf"(?:,?\s+(?:(?:of|in|de|del|di)\s+)?(?P<year>{YEAR})\b)?"
    return re.compile(rf"{before}\b(?P<month>{either(words.MONTHS)})\b\.?{after}{year}")


@cache
def leads_to(month: str) -> re.Pattern[str]:
    """Return the pattern for a word, at the end of the text before a name, after which the name means the month."""
    leads = {lead for months, before in words.LANGUAGES if month in words.numbered(months) for lead in before.split()}
    lead = either(leads.difference(words.NEVER_BEFORE.get(month, "").split()))
    return re.compile(rf"\b(?:{lead})[\s-]+$|{_PART}\s+{_PART_OF}$")


_PART = rf"\b(?P<part>{either(words.PARTS)})"
_PART_OF = r"(?:of|de|del|des|der|du|di|do|da|van|d)[\s']+(?:(?:mes|mois|month) (?:of|de|d)[\s']+)?"
_ARTICLE = r"(?:the|this|der|des|dieser|dieses|le|la|les|du|el|del|il|lo|della|do|de|het|этого|этои)\s+"


@cache
def _part_before() -> re.Pattern[str]:
    alone = rf"\b(?P<alone>{either(words.PARTS_ALONE)})[\s-]+"
    return re.compile(rf"(?:{_PART}\s+{_PART_OF}|{alone})(?:{_ARTICLE})?$")


def share_before(text: str, place: int) -> tuple[int, tuple[float, float]] | None:
    """Return where what tells which part of a time at a place is meant begins, and the share; None if nothing does."""
    lead = leading(text, place)
    part = _part_before().search(lead)
    if part is None:
        return None
    return place - len(lead) + part.start(), words.PARTS[part["part"] or part["alone"]]


@cache
def part_of_present() -> re.Pattern[str]:
    """Return the pattern for a part of the present week, month or the like, which is in the group `time`."""
    units = either(word for word, days in words.UNITS.items() if days in UNIT_LENGTHS)
    return re.compile(
        rf"{_PART}\s+(?:{_PART_OF})?(?P<time>{_ARTICLE}(?P<unit>{units}))\b(?!\s+(?:of|before|{either(words.LAST_AFTER)})\b)"
    )


def leading(text: str, place: int) -> str:
    """Return the end of a text before a place, as much of it as tells how a time there is meant."""
    return text[max(0, place - LEADING) : place]


def day_of(match: re.Match[str]) -> str | None:
    """Return the number in a match of `spoken_date` that may be a day, None if there is none."""
    return match["before"] or (match["after"] if match["month"] in words.ENGLISH_MONTHS else None)


def names_a_time(match: re.Match[str]) -> bool:
    """Return whether a match of `spoken_date` is a day or a month, and not a name or another word."""
    if day_of(match):
        return means_a_day(match)
    return bool(match["year"] or leads_to(match["month"]).search(leading(match.string, match.start())))


def means_a_day(match: re.Match[str]) -> bool:
    """Return whether the number in a match of `spoken_date` is a day, judging by what is with it and around it.

    "22 may be closed", "march 4 miles", "3 mars bars" are not, "on 22 May", "March 4th" and "Is it 3 May?" are.
    """
    said = match["ends"] or match["of"] or match["after_ends"] or match["year"]
    if said or match["month"] not in words.OTHER_WORDS:
        return True
    *_, lead = ["", *leading(match.string, match.start()).split()]
    following = match.string[match.end() : match.end() + 3].lstrip()
    return lead in words.BEFORE_DAY or not following or following[0] in ",;:.?!)"


@cache
def ago(*, hours: bool = False) -> re.Pattern[str]:
    """Return the pattern for how long ago: a count and a unit, or a unit alone, in one of three pairs of groups."""
    long = words.HOUR_UNITS if hours else words.UNITS
    before = _many(words.COUNTS, long if hours else long | words.SHORT_UNITS)
    alone = "час|минуту" if hours else "неделю|месяц|год"
    after = r"ago|back(?!\s+(?:to|and|pay|in|at|from|home|on|with)\b|-)|fa|geleden|atras|назад"
    return re.compile(
        rf"(?:(?<!\d[.,])\b{before}\s+(?:{after})|()\b({alone})\s+назад"
        rf"|\b(?:vor|(?:il )?y a|hace)\s+{_many(words.COUNTS, long)})\b"
    )


# For `within`. "Last week" alone is that of the calendar.
_ONE_HOUR = r"(?:in the last|past|in der letzten)\s+()(hour|stunde)"
_ONE_UNIT = (
    r"(?:(?:in|over|during|within|for) the last|past)\s+()(day|week|month|year)(?!\s+of\b)"
    r"|(?:last|past)\s+()(fortnight)"
)


@cache
def within(*, hours: bool = False) -> re.Pattern[str]:
    """Return the pattern for how far back: a count and a unit, or a unit alone, in one of the pairs of groups."""
    several = [word for word, (least, _) in words.COUNTS.items() if least > 1 or (hours and word.startswith("half"))]
    long = words.HOUR_UNITS if hours else words.UNITS
    short = "(?!)" if hours else rf"(?:{either(words.SHORT_UNITS)})(?=\s*(?:[,.;:?!)]|$))"  # "the last 3D print"
    before = rf"(?:{either(words.WITHIN)})\s+{_many(several, long, short)}(?!\s+of\b)"
    after = rf"(\d{{1,3}}|(?:{either(several)})(?=\s))\s+derni(?:er|ere)s\s+({either(long)})"
    few = rf"({either(words.LAST_FEW)})\s+({either(_lately(long))})(?!\s+(?:of|der|des|von|vor|de|du|del)\b)"
    return re.compile(rf"\b(?:{before}|{after}|{few}|{_ONE_HOUR if hours else _ONE_UNIT})\b")


def _lately(units: Mapping[str, _Unit]) -> list[str]:
    """Return the words for `units` but years: "in recent years" is no time of a talk."""
    return [unit for unit, length in units.items() if length != 365]


def _many(counts: Iterable[str], units: Iterable[str], others: str = "(?!)") -> str:
    """Return the pattern for a count and a unit, or one of other units, in two groups: "two and a half weeks"."""
    half = rf"(?:\s+(?:{either(words.AND_A_HALF)}))?"
    return rf"(\d{{1,3}}(?:[.,]\d)?|(?:{either(counts)})(?=[\s-])){half}[\s-]*({either(units)}|{others})\b{half}"


def counted(match: re.Match[str], units: Mapping[str, _Unit]) -> tuple[float, float, _Unit]:
    """Return the least and the greatest count that a match of `ago` or `within` means, and the unit."""
    *_, count, unit = (each for each in match.groups() if each is not None)
    least, most = (float(count.replace(",", ".")),) * 2 if count[:1].isdecimal() else _COUNTS.get(count, (1, 1))
    more = 0.5 if _and_a_half().search(match[0]) else 0
    return least + more, most + more, units[unit]


_COUNTS = words.COUNTS | words.LAST_FEW


@cache
def _and_a_half() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{either(words.AND_A_HALF)})\b")


@cache
def last() -> re.Pattern[str]:
    """Return the pattern for the last week, month or year, weekday or weekend, in one of two groups."""
    after = f"({either(_lasting())})"
    before = f"({either(_lasting() - {'an', 'ans'})}|{_short_weekday()})"  # "to last an hour"
    return re.compile(
        rf"\b(?:(?:{either(words.LAST_BEFORE)})\s+{before}(?!\s+(?:before\s+last|of|des)\b)"
        rf"|{after}\s+(?:{either(words.LAST_AFTER)}))\b"
    )


@cache
def weekdays_ago() -> re.Pattern[str]:
    """Return the pattern for a weekday or weekend counted back: what leads to it if anything does, a count, a name."""
    names = either([*words.WEEKDAYS, *words.WEEKENDS])
    # Once for all languages: the counts are long, and a pattern is compiled before the first question of a process.
    counted_days = rf"(\d{{1,2}}|(?:{either(words.COUNTS)})(?=\s))\s+({names})(?:s|e?n)?"
    return re.compile(rf"\b(vor\s+|il y a\s+|hace\s+)?{counted_days}(?(1)|\s+ago)\b")


@cache
def before_last() -> re.Pattern[str]:
    """Return the pattern for the week, month, year, weekday or weekend before the last one, in one of two groups."""
    thing = f"({either(_lasting())})"
    before, after = either(words.BEFORE_LAST_BEFORE), either(words.BEFORE_LAST_AFTER)
    return re.compile(rf"\b(?:(?:{before})\s+{thing}|{thing}\s+(?:{after}))\b")


def _short_weekday() -> str:
    """Return the pattern for a short weekday behind "last"; "the last sat nav" and "where we last sat in" have none."""
    english, verbs = either(words.ENGLISH_SHORT_WEEKDAYS), "sat|sun|wed"
    return (
        rf"(?:{english})\b(?={_CLAUSE_ENDS})|(?!{verbs})(?:{english})\b(?=\s+(?:{either(words.BEHIND_TIMES)})\b)"
        rf"|(?<=en )(?:{either(words.GERMAN_SHORT_WEEKDAYS)})\b"
    )


def _lasting() -> set[str]:
    return {*(word for word, days in words.UNITS.items() if days in UNIT_LENGTHS), *words.WEEKDAYS, *words.WEEKENDS}


# A language in which a text has to ask what was, "" for none, and the pattern of a time.
_Rows = Sequence[tuple[str, re.Pattern[str]]]


def past_languages(plain: str, said: Set[str]) -> Set[str]:
    """Return the languages in which a text with the words `said` may ask what was."""
    if asks_for_a_plan(plain):
        return frozenset()
    by_words = {language for language, past in words.PAST.items() if said & past}
    return by_words | {language for language, pattern in _past_verbs() if pattern.search(plain)}


def asks_for_a_plan(plain: str) -> bool:
    """Return whether a text asks for what was said of another time: "What did I say I have to do on Monday?"."""
    return _plan().search(plain) is not None


@cache
def _plan() -> re.Pattern[str]:
    english = "say|said|tell|told|mention|mentioned|decide|decided|agree|agreed|promise|promised|note|noted"
    someone = "(?:i|we|you|he|she|they|it|there)"
    verb = r"(?:have to|need|will|am|are|is|should|can|must|want|do|go|be)\b"
    german = "gesagt|erzahlt|erwahnt|notiert|beschlossen|entschieden|vereinbart|besprochen"
    muss = "muss|mussen|soll|sollen|will|wollen|kann|konnen|werde|werden|wird|mache|machen|bin|ist|sind|gehe|gehen|habe"
    return re.compile(
        rf"\b(?:{english})(?: (?:that|you|me|us|what|when|where|who))?(?: (?:that|what|when|where|who))? "
        rf"(?:{someone}(?:'(?:ll|m|re|s)\b| {verb})|(?:is|are|will)\b)"
        r"|\bdid \w{1,20} (?:agree|decide|promise|plan|want|need) to (?!know\b)"
        rf"|\b(?:{german}),? (?:dass|was|wann|wo|wer|wie)\b[^.?!]{{0,60}}\b(?:{muss})\b"
    )


@cache
def _past_verbs() -> _Rows:
    """Return the patterns of the verb right behind who did it, and of what was done with a German auxiliary."""
    english = rf"(?!\w*eed\b|used to\b)(?:\w{{2,20}}ed|{words.IRREGULAR})"
    return (
        ("en", re.compile(rf"\b(?:who|what|which \w+)\s+{english}\b")),
        ("fr", re.compile(r"\bon (?:en |y |nous |vous )?(?:a|s'est)\b")),
        ("de", re.compile(r"\b(?:hat|hab|habe|haben|habt|hast)\b[^.?!]{0,60}\bge\w{2,20}t\b")),
    )


@cache
def on_weekday() -> _Rows:
    """Return the patterns for the weekday or weekend on which, or since which, something was, by language.

    A weekday alone is often no time: "about Tuesday", "Taco Tuesday".
    """
    english, german = either(words.ENGLISH_WEEKDAYS), either(words.GERMAN_WEEKDAYS)
    french, spanish = either(words.FRENCH_WEEKDAYS), either(words.SPANISH_WEEKDAYS)
    every = either((*words.WEEKDAYS, *words.WEEKENDS))
    said = "say|do|discuss|decide|agree|mention|promise|note|learn|work on|(?:tell|ask)(?: you| me| us)?"
    did = rf"[^.,?!]{{0,40}}?\bdid (?:\w{{1,20}} ){{1,2}}(?:{said}|(?:talk|speak|chat) about)"
    what = rf"\b(?:what|who|whom|where|how|why)\b(?:{did}| happened)"
    at_end = rf"(?: (?:{either(words.DAYTIMES)}))?(?=\s*(?:[,.?!]|$))"
    who = r"\b(?:wir|ich|du|ihr|sie|er|mir|dir|uns|euch|war|waren|ist)"
    was = rf"(?:^|[.!?] )\W?(?!wann)w\w{{1,6}}\b[^.,?!]{{0,40}}?{who}"
    dit = "(?:quoi|dit|parle|discute|decide|fait|raconte|mentionne|convenu|note|demande|promis|passe)"
    # Not "dijiste que hacemos el lunes".
    dijo = rf"\b(?:{either(words.PAST['es'])})\b(?:(?!\bque\b)[^.,?!]){{0,60}}?"
    letzte = "(?:letzte|vergangene|vorige)[rn]?"
    no_spanish = _not_after("para", "sobre", "hasta", "cada", "por", "de", "con")
    patterns = (
        ("", rf"\b(?:since|seit|depuis|desde(?: el)?|sinds)\s+(?:the\s+)?({every})\b"),
        ("", rf"\b{letzte} woche(?: am)? ({german}){words.MAYBE_DAYTIME}\b"),
        ("", rf"\b({german}){words.MAYBE_DAYTIME} {letzte} woche\b"),
        ("", rf"\blast week(?: on)? ({english})\b(?!')|\b({english}) (?:of )?last week\b"),
        ("", rf"\b({french}) (?:de )?la semaine (?:derniere|passee)\b"),
        ("", rf"\b({spanish}) (?:de )?la semana pasada\b"),
        ("en", rf"\b(?:on|over|at)\s+(?:({english})|(?:the\s+)?(weekend))\b(?!')(?:{_AND}(?: on)? ({english})\b)?"),
        ("en", rf"\bon ({either(words.ENGLISH_SHORT_WEEKDAYS)})\b(?={_CLAUSE_ENDS})"),
        ("de", rf"\bam ({either(words.GERMAN_SHORT_WEEKDAYS)})\b(?={_CLAUSE_ENDS})"),
        ("en", rf"\b(?:on|over) the ({english}){at_end}"),  # "on the Monday newsletter"
        ("en", rf"{what} ({english})(?:{_AND} ({english}))?{at_end}"),
        ("de", rf"\b(?:am|ubers)\s+({german}|wochenende){words.MAYBE_DAYTIME}\b(?:{_AND}(?: am)? ({german})\b)?"),
        ("de", rf"{was} ({german}){words.MAYBE_DAYTIME}\b"),
        ("fr", rf"(?:^\W*|\b{dit} )({french})\b(?!\s+(?:prochain|dernier)|-)"),
        (
            "es",
            rf"(?:^\W*|{dijo}{no_spanish}\b)el ({spanish}|fin de semana|finde)\b(?!\s+(?:que viene|proximo|pasado))",
        ),
    )
    return tuple((language, re.compile(pattern)) for language, pattern in patterns)


_CLAUSE_ENDS = r"\.?\s*(?:[,;?!)]|$)"
_AND = "(?:,| and| or| und| oder)"


def _not_after(*leads: str) -> str:
    """Return the pattern for a place that is not behind one of the words."""
    return "".join(rf"(?<!\b{lead} )" for lead in leads)


def not_about() -> str:
    """Return the pattern for a place before "this week" where it is a time: not in "about this week" or "for" it."""
    talk_about = "|".join(rf"(?<=\b{talk} about )" for talk in ("talk", "talked", "speak", "spoke", "spoken", "chat"))
    return rf"{_not_after('for', 'of')}(?:{_not_after('about')}|{talk_about})"


@cache
def weekday_to_weekday() -> _Rows:
    """Return the patterns from one weekday to another, in two of its groups, by language."""
    english, german = either(words.ENGLISH_WEEKDAYS), either(words.GERMAN_WEEKDAYS)
    french, spanish = either(words.FRENCH_WEEKDAYS), either(words.SPANISH_WEEKDAYS)
    end = r"\b(?!'s|-)"  # "between Monday and Wednesday's team"
    return tuple(
        (
            language,
            re.compile(rf"\b(?:(?:{between}) ({days}) {both} ({days})|(?:{since}) ({days}) (?:{until}) ({days})){end}"),
        )
        for language, days, between, both, since, until in (
            ("en", english, "between", "and", "from", "to|until|till|through"),
            ("de", german, "zwischen(?: dem)?", "und(?: dem)?", "von|vom", "bis(?: zum)?"),
            ("fr", french, "entre", "et", "de|du", "a|au|jusqu'a"),
            ("es", spanish, "entre(?: el)?", "y(?: el)?", "de|del|desde el", "al?|hasta el"),
        )
    )


@cache
def this_unit() -> _Rows:
    """Return the patterns for the present week, month or year in a group, by language.

    Without words of the past, these are times only where a question names nothing else.
    """
    english = r"\bthis (week|month|quarter|year)\b"
    return (
        ("en", re.compile(rf"{not_about()}{english}")),
        ("", re.compile(rf"(?:earlier|so far) {english}|{english} so far")),
        ("de", re.compile(rf"{_not_after('fur', 'uber', 'von')}\bdiese[rnms]? (woche|monat|quartal|jahr)\b")),
        ("fr", re.compile(rf"{_not_after('pour', 'sur', 'de')}\b(?:cette (semaine|annee)|ce (mois))\b")),
        ("es", re.compile(rf"{_not_after('para', 'sobre', 'de')}\b(?:esta (semana)|este (mes|ano))\b")),
        ("it", re.compile(r"\b(?:questa (settimana)|questo (mese|anno))\b")),
        ("nl", re.compile(r"\b(?:deze (week|maand)|dit (jaar))\b")),
        ("ru", re.compile(r"\b(?:этои (неделе)|этом (месяце|году))\b")),
    )


@cache
def days_ago(*, french: bool) -> re.Pattern[str]:
    """Return the pattern for yesterday and the like, for a text with one of the words FRENCH or without."""
    known = either(words.DAYS_AGO.keys() - (() if french else {words.HIER}))
    # "The other day shift" is none; "the last night" is that of something.
    shift = rf"(?!(?<=the other day) (?!(?:{either(words.BEHIND_TIMES)})\b)\w)"
    return re.compile(rf"(?<!\w)(?!(?<=\bthe )last|(?<=\bdie )letzte)({known})\b{shift}")


_BEHIND = r"(?<=\b{}\s)"


def _behind(leads: str) -> str:
    """Return what matches behind each of these words, which so stay outside of the match: they may mean a range."""
    return f"(?:{'|'.join(map(_BEHIND.format, leads.split()))})"


@cache
def numeric_dates() -> tuple[re.Pattern[str], ...]:
    """Return the patterns for a date in digits, with the group m, and y and d if they are present."""
    patterns = (
        # Also the day of a moment such as 2026-05-04T10:22.
        rf"\b(?P<y>{YEAR})-(?P<m>\d\d)(?:-(?P<d>\d\d)(?:\b|(?=t\d))|\b(?!-\d))",
        rf"\b(?P<y>{YEAR})(?P<sign>[/.])(?P<m>\d\d?)(?P=sign)(?P<d>\d\d?)\b",
        rf"\b(?P<d>\d\d?)(?P<sign>[/.])\s?(?P<m>\d\d?)(?P=sign)\s?(?P<y>{YEAR})\b",
        rf"\b(?P<m>\d\d?)/(?P<d>\d\d?)/(?P<y>{YEAR})\b",
        rf"{_behind('am vom seit bis zum den dem ab')}(?P<d>\d\d?)\.\s?(?P<m>\d\d?)\.(?!\s?\d)",
        # With two digits of the year, as of few other things behind these words; "ab 3.10.12" is a version.
        rf"{_behind('am vom seit bis zum den dem le du au el del il dal op em')}"
        r"(?P<d>\d\d?)(?P<sign>[/.])\s?(?P<m>\d\d?)(?P=sign)\s?(?P<y>\d\d)\b(?![./]?\d)",
    )
    return tuple(re.compile(pattern) for pattern in patterns)

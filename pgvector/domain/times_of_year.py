"""Parts of a year that have a name: "last summer", "over Christmas", "in Q3", "im dritten Quartal", "春天".

The languages are those of `time_words`, and Chinese, Japanese and Korean. Seasons are those of the northern half of the
earth, in whole months. Feasts may move from year to year, see `moving_feasts`.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence, Set
from datetime import date, timedelta
from functools import cache

from .counted_days import YEARS, Days
from .moving_feasts import EAST_ASIAN_NAMES, NAMES, Feast
from .text import has_cjk
from .time_patterns import not_about, share_before
from .time_ranges import NamedDays, is_since, named_at
from .time_words import BEHIND_TIMES, LAST_AFTER, LAST_BEFORE, YEAR, either, numbered, split

_Fixed = tuple[tuple[int, int], tuple[int, int]]  # the month and day of the first and of the last day
_Part = _Fixed | Feast

_SEASONS: tuple[_Fixed, ...] = (((3, 1), (5, 31)), ((6, 1), (8, 31)), ((9, 1), (11, 30)), ((12, 1), (2, 29)))
_QUARTERS: tuple[_Fixed, ...] = (((1, 1), (3, 31)), ((4, 1), (6, 30)), ((7, 1), (9, 30)), ((10, 1), (12, 31)))
# For each language, before what a name is a time, the seasons from spring on, and the quarters.
_LANGUAGES = (
    (
        "en",
        r"(?:in|during|over|throughout|at|on|around)\s+(?:the\s+)?"
        rf"|{not_about()}(?:this|that)\s+",
        ("spring", "summer", "autumn fall", "winter"),
        ("first quarter,1st quarter", "second quarter,2nd quarter", "third quarter,3rd quarter",
         "fourth quarter,4th quarter"),
    ),
    (
        "de",  # "über Weihnachten" is as often "about" it
        r"(?:im|in|in den|an|am|zu|zum|um|diesen|diesem|wahrend\s+des)\s+"
        r"|(?<=\bwar )|(?<=\bwir )|(?<=\bich )|(?<=\bihr )|(?<=\bdu )",
        ("fruhling fruhlings fruhjahr fruhjahrs", "sommer sommers sommerferien", "herbst herbstes herbstferien",
         "winter winters"),
        ("ersten quartal,1. quartal", "zweiten quartal,2. quartal", "dritten quartal,3. quartal",
         "vierten quartal,4. quartal"),
    ),
    (
        "fr",
        r"(?:au|en|ce|cet|a|du|(?:a|pendant|durant)\s+(?:le|la))\s+|(?:a|pendant|durant)\s+l'",
        ("printemps", "ete", "automne", "hiver"),
        ("premier trimestre,1er trimestre", "deuxieme trimestre,second trimestre", "troisieme trimestre,3e trimestre",
         "quatrieme trimestre,4e trimestre"),
    ),
    (
        "es",
        r"(?:en|por|durante|este|esta)\s+(?:el\s+|la\s+)?",
        ("primavera", "verano", "otono", "invierno"),
        ("primer trimestre,", "segundo trimestre,", "tercer trimestre,", "cuarto trimestre,"),
    ),
    (
        "it",
        r"(?:in|nel|a|questa|questo|durante il)\s+|(?:d|quest|nell|durante l)'",
        ("primavera", "estate", "autunno", "inverno"),
        ("primo trimestre,", "secondo trimestre,", "terzo trimestre,", "quarto trimestre,"),
    ),
    (
        "pt",
        r"(?:na|no|em|nesta|neste|durante o)\s+",
        ("primavera", "verao", "outono", "inverno"),
        ("primeiro trimestre,", "segundo trimestre,", "terceiro trimestre,", "quarto trimestre,"),
    ),
    (
        "nl",
        r"(?:in|met|op|tijdens|rond|deze|dit)\s+(?:de\s+|het\s+)?",
        ("lente voorjaar", "zomer", "herfst najaar", "winter"),
        ("eerste kwartaal,", "tweede kwartaal,", "derde kwartaal,", "vierde kwartaal,"),
    ),
    (
        "ru",
        r"(?:на|в)\s+|(?=веснои|летом|осенью|зимои)",  # these cases need no word before them
        ("веснои", "летом", "осенью", "зимои"),
        ("первом квартале,", "втором квартале,", "третьем квартале,", "четвертом квартале,"),
    ),
)  # fmt: skip
_HOLIDAYS: dict[str, _Part] = dict[str, _Part](NAMES) | {
    name: (first, last)
    for first, last, names in (
        ((12, 24), (12, 26), "christmas xmas weihnachten noel navidad navidades natale natal kerst kerstmis рождество"),
        ((12, 24), (12, 24), "christmas eve,heiligabend,heiligen abend,nochebuena,kerstavond"),
        ((12, 25), (12, 25), "christmas day,"),
        ((12, 26), (12, 26), "boxing day,"),
        (
            (12, 31),
            (12, 31),
            "new year's eve,new years eve,silvester,saint-sylvestre,nochevieja,oudejaarsavond,oudjaar",
        ),
        ((1, 1), (1, 1), "new year's day,new years day,neujahr"),
        ((12, 31), (1, 1), "new year,new year's,new years,nouvel an,ano nuevo,ano novo,capodanno,новыи год"),
        ((2, 14), (2, 14), "valentine's day,valentine's,valentinstag,saint-valentin,san valentin,san valentino"),
        ((8, 15), (8, 15), "ferragosto,"),
        ((10, 31), (10, 31), "halloween,"),
        ((11, 1), (11, 1), "allerheiligen toussaint"),
    )
    for name in filter(None, split(names))
}
_ASIAN: dict[str, _Part] = dict[str, _Part](EAST_ASIAN_NAMES) | {
    name: (first, last)
    for first, last, names in (
        *((*part, f"{zh}天 {zh}季 {zh}に {zh}休みに の{zh} {ko}에 {ko}방학") for part, zh, ko in zip(
            _SEASONS, "春夏秋冬", ("봄", "여름", "가을", "겨울"), strict=True)),
        *((*part, f"第{zh}季度 第{n}季度 第{zh}四半期 第{n}四半期 {n}분기") for part, zh, n in zip(
            _QUARTERS, "一二三四", "1234", strict=True)),
        ((12, 24), (12, 26), "圣诞节 聖誕節 圣诞 聖誕 クリスマス 크리스마스"),
        ((12, 24), (12, 24), "平安夜 クリスマスイブ 크리스마스이브"),
        ((12, 31), (12, 31), "大晦日"),
        ((12, 31), (1, 1), "跨年"),
        ((1, 1), (1, 3), "元旦 お正月 正月"),
        ((2, 14), (2, 14), "情人节 情人節 バレンタイン 밸런타인데이"),
        ((4, 4), (4, 6), "清明节 清明節 清明"),
        ((4, 29), (5, 6), "ゴールデンウィーク"),
        ((5, 1), (5, 5), "劳动节 勞動節 五一"),
        ((8, 13), (8, 16), "お盆"),
        ((10, 1), (10, 7), "国庆节 国庆"),
        ((12, 28), (1, 4), "年末年始"),
        ((10, 31), (10, 31), "万圣节 萬聖節 ハロウィン 핼러윈"),
    )
    for name in names.split()
}  # fmt: skip
_NOT_SINCE = r"(?<!\bsince )(?<!\bsince the )"
_NEXT_DOOR = timedelta(days=92)  # "last summer", said in autumn, may be that of the year before


@cache
def _named() -> tuple[tuple[str, str, dict[str, _Part]], ...]:
    """Return for each language the pattern of what leads to a part of the year, and the parts by name."""
    rows = []
    for language, leads, seasons, quarters in _LANGUAGES:
        parts: dict[str, _Part] = {name: _SEASONS[number] for name, number in numbered(seasons).items()}
        parts |= {name: _QUARTERS[number] for name, number in numbered(quarters).items() if name}
        parts |= {f"q{number}": part for number, part in enumerate(_QUARTERS, 1)}
        rows.append((language, leads, parts | _HOLIDAYS))
    return tuple(rows)


@cache
def _rows() -> tuple[tuple[str, re.Pattern[str], dict[str, _Part]], ...]:
    """Return for each language the pattern of a part, in the groups lead, last, name, after and year, and the parts."""
    rows = []
    year = rf"(?:,?\s+(?:(?:of|de|del|di|des jahres)\s+)?(?P<year>{YEAR})\b)?"
    after = rf"(?:\s+(?P<after>{either(LAST_AFTER)})\b)?"
    for language, leads, parts in _named():
        last = rf"(?<!\bthe )(?<!\bdie )\b(?P<last>{either(LAST_BEFORE)})\s+|\b(?P<lead>{leads})"
        # In English a noun may follow: "in spring boot", "at Christmas markets", "the third quarter of the game".
        behind = rf"\W*$|\s*[,.;:?!)]|\s+(?:{either(BEHIND_TIMES)}|of\s+(?:last|this|the)\s+year)\b"
        end = rf"(?:\s+(?:holidays?|vacation|break)\b)?(?!')(?={behind})" if language == "en" else r"\b"
        # Holidays have their English names in every row, and "since Easter is near" is no time.
        name = rf"{'' if language == 'en' else _NOT_SINCE}\b(?P<name>{either(parts)})\b"
        rows.append((language, re.compile(rf"(?:{last})?{name}{after}{year}{end}"), parts))
    return tuple(rows)


@cache
def _asian(done: str) -> re.Pattern[str]:
    # A Japanese or Korean name may be the end of a longer word, such as 青春に.
    bounded = r"(?<![\u4e00-\u9fff가-힣](?=[春夏秋冬]に|봄|여름|가을|겨울))(?<![个個](?=[春夏秋冬]))"
    bounded += "(?<![^年](?=の))(?<!毎年(?=の))"  # "日本の夏" is of every year
    # "春季运动会" is an event, "彼女の夏服" a thing.
    season = r"(?!(?<=[春夏秋冬]季)[^我你您咱他她大谁誰，,])(?!(?<=の[春夏秋冬])[\u4e00-\u9fff])"
    return re.compile(rf"{bounded}(?P<name>{either(_ASIAN)}){season}{done}")


@cache
def signs() -> Set[str]:
    """Return words without one of which a text in letters names no part of a year."""
    return frozenset(re.findall(r"\w+", name)[-1] for _, _, parts in _named() for name in parts)


def parts_of_year(plain: str, past: Set[str], today: date, *, only_said: bool) -> Iterator[NamedDays]:
    """Yield the parts of a year of a text with letters, where a text asks what was, in one of the languages `past`.

    Elsewhere they are more often about a plan or what is so each year, but for "last summer" and "Christmas 2025".
    `only_said`: it names nothing else, see `said_words`.
    """
    for match, part in _times(plain, past, only_said=only_said):
        last = bool(match["last"] or match["after"])
        yield named_at(match, _days(part, today, match["year"], last=last))


def _times(plain: str, past: Set[str], *, only_said: bool) -> Iterator[tuple[re.Match[str], _Part]]:
    for language, pattern, parts in _rows():
        for match in pattern.finditer(plain):
            if _is_over(match) or ((only_said or language in past) and _may_be_a_time(match)):
                yield match, parts[match["name"]]


def counted_parts_of_year(plain: str, past: Set[str]) -> Iterator[tuple[int, int]]:
    """Yield where a text with letters names a quarter, or the last one of another part: nobody calls it so then."""
    for match, part in _times(plain, past, only_said=False):
        if part in _QUARTERS or match["last"] or match["after"]:
            yield match.span()


def asian_parts_of_year(text: str, done: str, today: date) -> Iterator[NamedDays]:
    """Yield the parts of a year of a Chinese, Japanese or Korean text that the pattern `done` follows, if it is any."""
    for match in _asian(done).finditer(text):
        yield named_at(match, _days(_ASIAN[match["name"]], today, None, last=False))


def without_parts_of_year(plain: str) -> str:
    """Return a text without the parts of a year that may be times, and "early" and the like before them."""
    for _, pattern, _ in () if signs().isdisjoint(re.findall(r"\w+", plain)) else _rows():
        for match in reversed([*filter(_may_be_a_time, pattern.finditer(plain))]):
            part = share_before(plain, match.start())
            plain = f"{plain[: part[0] if part else match.start()]} {plain[match.end() :]}"
    return _asian("").sub(" ", plain) if has_cjk(plain) else plain


def _is_over(match: re.Match[str]) -> bool:
    """Return whether a match says which one of a part is meant."""
    return bool(match["last"] or match["after"] or match["year"]) or is_since(match.string, match.start())


def _may_be_a_time(match: re.Match[str]) -> bool:
    return match["lead"] is not None or _is_over(match) or share_before(match.string, match.start()) is not None


def _days(part: _Part, today: date, year: str | None, *, last: bool) -> Iterator[Days]:
    """Yield the part in a year, the last one that is over, or that of each of the last years, latest first."""
    if year:
        found = _latest_first(part, int(year), 2)
        yield from (days for days in found if int(year) in (days[0].year, days[1].year))
        return
    each_year = _latest_first(part, today.year, YEARS)
    if not last:
        yield from each_year
        return
    over = [days for days in each_year if days[1] < today]
    yield from over[: 2 if today - over[0][1] < _NEXT_DOOR else 1]


def _latest_first(part: _Part, year: int, years: int) -> list[Days]:
    """Return the part in a year and in those before it, so many `years` in all."""
    return [days for before in range(years) for days in reversed(_in_year(part, year - before))]


def _in_year(part: _Part, year: int) -> Sequence[Days]:
    """Return the first and last day of a part that begins in a year; a 29 February that does not exist is the 28th."""
    if callable(part):
        return part(year)
    first, last = part
    end, (month, day) = year + (last < first), last
    return [(date(year, *first), date(end, month, min(day, monthrange(end, month)[1])))]

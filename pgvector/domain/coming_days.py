"""Days that a statement announces: "tomorrow", "übermorgen", "next Friday", "el próximo lunes"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache

from . import time_words as words
from .function_words import plain

_FARTHEST = 14  # days from today to a day that is named
_AFTER_TOMORROW = r"day after tomorrow|ubermorgen|pasado manana|apres[- ]demain|dopodomani|depois de amanha"
# "Morgen" and "mañana" are also the morning.
_TOMORROW = (
    r"tomorrow|(?<!guten )(?<!jeden )(?<!diesen )(?<!heute )(?<!gestern )(?<!am )(?<!tag )(?<!woch )"
    r"(?<!nachsten )(?<!ganzen )(?<!der )(?<!den )(?<!dem )(?<!zum )(?<!vom )morgen"
    r"|(?<!\bla )(?<!\besta )(?<!\bcada )manana|demain|domani|amanha"
)
_COMING = r"this coming|next|this|coming|nachste[nr]?|kommende[nr]?|diese[nr]?|el proximo|este|ce"
_BEHIND = r"que viene|proximo|prochain"


def announced_days(text: str, today: date) -> Iterator[date]:
    """Yield the days that a text of the day `today` names as coming.

    "Next Friday" may be meant of this week or of the one after, so it is both.
    """
    if (date.max - today).days < _FARTHEST:
        return  # the calendar ends
    for found in _pattern().finditer(plain(text)):
        kind = found.lastgroup
        if kind in ("after", "tomorrow"):
            yield today + timedelta(days=2 if kind == "after" else 1)
            continue
        weekday = words.WEEKDAYS[found["coming"] or found["behind"]]
        ahead = (weekday - today.weekday() - 1) % 7 + 1
        yield today + timedelta(days=ahead)
        yield today + timedelta(days=ahead + 7)


@cache
def _pattern() -> re.Pattern[str]:
    days = "|".join(sorted(map(re.escape, words.WEEKDAYS), key=len, reverse=True))
    return re.compile(
        rf"\b(?:(?P<after>{_AFTER_TOMORROW})|(?P<tomorrow>{_TOMORROW})|(?:{_COMING}) (?P<coming>{days})"
        rf"|(?P<behind>{days}) (?:{_BEHIND}))\b"
    )

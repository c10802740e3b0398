"""The part of a long text that answers."""

from __future__ import annotations

import re
from bisect import bisect_left

_WORD = re.compile(r"\w{3,}|[^\x00-\x7f]")
_CUT = "…"


def excerpt(text: str, question: str, max_chars: int) -> str:
    """At most `max_chars` of `text`: the stretch that holds most different words of `question`, cut at blanks.

    The beginning where no word of it occurs; the whole text where it fits.
    """
    if len(text) <= max_chars:
        return text
    start = _best_start(text, question, max_chars)
    if start > 0:
        blank = text.find(" ", start, start + 40)
        start = blank + 1 if blank >= 0 else start
    piece = text[start : start + max_chars - 2]
    if start + len(piece) < len(text):
        piece = piece.rsplit(" ", 1)[0] if " " in piece[-40:] else piece
        piece += _CUT
    return (_CUT if start > 0 else "") + piece


def _best_start(text: str, question: str, max_chars: int) -> int:
    wanted = {word.casefold() for word in _WORD.findall(question)}
    if not wanted:
        return 0
    found = [
        (match.start(), match.group().casefold())
        for match in re.finditer("|".join(sorted(map(re.escape, wanted), key=len, reverse=True)), text, re.IGNORECASE)
    ]
    if not found:
        return 0
    places = [place for place, _ in found]
    margin = max_chars // 6  # what leads up to the first word

    def worth(index: int) -> tuple[int, int]:
        last = bisect_left(places, places[index] - margin + max_chars)
        return len({word for _, word in found[index:last]}), last - index

    # Every start is tried in short texts, evenly spread ones in long texts.
    step = max(1, len(found) // 400)
    best = max(range(0, len(found), step), key=worth)
    return max(0, min(places[best] - margin, len(text) - max_chars))

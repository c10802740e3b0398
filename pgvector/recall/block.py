"""Makes lines of hits: an exchange is one, an answer stands before a question, the newest before what it replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..domain.types import Hit
from .ranking import newest_of_near_equals
from .replacements import replaced_part

_ASKED_ALIKE = 0.6  # share of all words of two questions, numbers left out, from which they ask the same
_WORD = re.compile(r"\w+")
_ENDS_ASKING = re.compile(r"[?\uff1f\u061f\u037e]\W*$")


@dataclass(frozen=True, slots=True)
class Line:
    """What is told in its words, and the other half of the exchange in brief, where that belongs to it.

    `replaced`: the part of an older text that no longer holds, and that text. `yields`: to every other line, as a
    question of which only itself was found, or one that is like another.
    """

    told: Hit
    beside: Hit | None = None
    replaced: tuple[str, Hit] | None = None
    yields: bool = False

    @property
    def question(self) -> Hit | None:
        """Return the question that was asked, if one was."""
        return next((hit for hit in (self.told, self.beside) if hit is not None and is_question(hit)), None)


def is_question(hit: Hit) -> bool:
    """Return whether the text asks, and an assistant did not."""
    return hit.kind != "assistant" and _ENDS_ASKING.search(hit.content[-80:]) is not None


def lines_of(hits: Sequence[Hit]) -> list[Line]:
    """Return the lines that `hits` make, in their order, but those that yield last."""
    lines = [replace(_line(found), yields=all(map(is_question, found))) for found in exchanges_in(hits)]
    lines.sort(key=lambda line: line.yields)
    return _folded(_newest(_current(lines)))


def exchanges_in(hits: Sequence[Hit]) -> list[list[Hit]]:
    """Return what was found of each exchange, in the order of the first; what has nothing around it stands alone."""
    exchanges: dict[tuple[str, int], list[Hit]] = {}
    for hit in {(hit.store, hit.id): hit for hit in hits}.values():
        exchanges.setdefault(_exchange_of(hit), []).append(hit)
    return list(exchanges.values())


def ask_alike(one: str, other: str) -> bool:
    """Return whether two questions are the same but for numbers and a few words."""
    return _alike(_words(one), _words(other))


def _exchange_of(hit: Hit) -> tuple[str, int]:
    """Return what both halves of an exchange have in common: the row of the first."""
    if hit.kind == "assistant" and (asked := other_half(hit)) is not None:
        return hit.store, asked.id
    return hit.store, hit.id


def other_half(hit: Hit) -> Hit | None:
    """Return the answer to a message of the user's, or the message that an assistant answered."""
    wanted = {"user": "assistant", "assistant": "user"}.get(hit.kind) if hit.store == "turns" else None
    for turn in hit.around:
        if turn.kind == wanted and ((turn.at, turn.id) > (hit.at, hit.id)) == (hit.kind == "user"):
            return turn
    return None


def _line(found: Sequence[Hit]) -> Line:
    """Return the line of an exchange: of a question the answer, else what fits best."""
    first = found[0]
    other = found[1] if len(found) > 1 else other_half(first)
    if other is None:
        return Line(first)
    if is_question(first):
        return Line(other, first)
    # An answer is not understood without what it answers; a statement is without what was replied.
    return Line(first, other if len(found) > 1 or first.kind == "assistant" else None)


def _newest(lines: Sequence[Line]) -> list[Line]:
    """Return the lines without those that say nearly what a newer one says."""
    by_row = {(line.told.store, line.told.id): line for line in lines}
    return [by_row[hit.store, hit.id] for hit in newest_of_near_equals([line.told for line in lines])]


def _current(lines: Sequence[Line]) -> list[Line]:
    """Return the lines, of two that contradict each other the newer one in the first one's place."""
    kept: list[Line] = []
    for line in lines:
        for place, other in enumerate(kept):
            newer, older = (line, other) if line.told.at > other.told.at else (other, line)
            part = replaced_part(older.told, newer.told)
            if part:
                kept[place] = replace(newer, replaced=(part, older.told))
                break
        else:
            kept.append(line)
    return kept


def _folded(lines: Sequence[Line]) -> list[Line]:
    """Return the lines, and behind them what was answered to questions like those that stand there already."""
    first: list[Line] = []
    repeated: list[Line] = []
    asked: list[frozenset[str]] = []
    for line in lines:
        words = _words(line.question.content) if line.question is not None else frozenset()
        if words and any(_alike(words, other) for other in asked):
            if line.told is not line.question:
                repeated.append(replace(line, yields=True))
            continue
        asked.append(words)
        first.append(line)
    return first + repeated


def _words(question: str) -> frozenset[str]:
    """Return the words by which a question is told from another: numbers are not among them."""
    return frozenset(word for word in _WORD.findall(question.casefold()) if not any(map(str.isdigit, word)))


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    shared = len(one & other)
    return shared > 0 and shared >= _ASKED_ALIKE * len(one | other)

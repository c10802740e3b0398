"""Splits a message that asks several things, each of which is searched by itself, and leaves out small talk.

The vector of two questions lies between their answers and is near to neither, and of their words the longer question
has more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, zip_longest

from ..domain.pasted_lines import what_stands_out
from ..domain.patterns import late_pattern
from ..domain.small_talk import CJK_LEAST, says_something, without_small_talk
from ..domain.text import has_cjk
from ..domain.types import Answer, Hit
from .asking import asks
from .ranking import statement_of

_READ_CHARS = 600  # of a message; in longer ones small talk is a small part of the words
MAX_CHARS = 250  # of a message that is split; in longer ones, questions are mostly about what stands around them
MOST = 3  # questions of a message that are searched one by one, each of which takes as long as a search
_AFTER_A_QUESTION = late_pattern(r"(?<=[?\u061f])!*\s+|(?<=\uff1f)[!\uff01]*\s*")
_AFTER_A_STATEMENT = late_pattern(r"(?<=[.!\u2026:])\s+|(?<=[\u3002\uff01])|\n+")
_WORDS_LEAST = 4  # of a question that begins with no word for asking
_WORD = late_pattern(r"\w+")
# A question with one of these words may be about what the one before it names.
_BACK = late_pattern(
    r"\b(?:it|its|this|these|those|that(?! (?:i|we|you|my)\b)|they|them|their|he|she|him|her|his|hers|ones?|both"
    r"|neither|er|sie|(?<!gibt )es|ihn|ihm|ihr\w*|sein\w*|dort|davon|damit|dabei|dafür|beide\w*|eso|ellas?|ellos"
    r"|allí|ça|cela|elles?|ils|lui|leur|eux)\b|[它他她]|[那这這][个個]?[呢吗嗎\uff1f]",
    re.IGNORECASE,
)


def questions_in(text: str) -> tuple[str, ...]:
    """Return the questions of a message, or the whole if it does not ask two or three things; without small talk.

    Of a pasted log they have only what stands out. A question that refers to the one before it is part of it. If the
    message says something besides, the whole is the first of its questions.
    """
    text = what_stands_out(text) or text
    return _questions_in(text) if len(text) <= _READ_CHARS else (text,)


@lru_cache(maxsize=64)  # asked at each step of a recall
def _questions_in(text: str) -> tuple[str, ...]:
    whole = without_small_talk(text)
    if len(whole) > MAX_CHARS:
        return (whole,)
    asked, besides = _parts(whole)
    questions: list[str] = []
    for question in asked:
        if questions and (_refers_back(question) or _is_a_rest(question)):
            questions[-1] += f" {question}"
        elif says_something(question):
            questions.append(without_small_talk(question))
    if not 1 < len(questions) <= MOST:
        return (whole,)
    return (whole, *questions) if any(map(says_something, besides)) else tuple(questions)


def _parts(text: str) -> tuple[list[str], list[str]]:
    """Return the sentences with a question mark, and the others."""
    *asked, rest = _AFTER_A_QUESTION.split(text.strip())
    if rest.rstrip("!").endswith(("?", "\u061f")):
        asked, rest = [*asked, rest], ""
    split = [_AFTER_A_STATEMENT.split(piece) for piece in asked]
    return [each[-1] for each in split], [rest, *chain.from_iterable(each[:-1] for each in split)]


def _refers_back(question: str) -> bool:
    """Return whether a question is about what the one before it names, and has no name of its own before that."""
    back = _BACK.search(question)
    if back is None:
        return False
    return not has_name(question[: back.start()])


def has_name(text: str) -> bool:
    """Return whether a text that begins a sentence has a word in capitals besides the first one."""
    return any(len(word) > 1 and word[0].isupper() for word in _WORD.findall(text)[1:])


def _is_a_rest(question: str) -> bool:
    """Return whether a question is the rest of the one before it, as in "Where is the key? In the drawer?"."""
    few = len(_WORD.findall(question)) < _WORDS_LEAST and not has_cjk(question, CJK_LEAST)
    return few and not asks(question.rstrip("?!\u061f\uff1f\uff01 "), of_a_turn=True)


def found_by(question: str, answer: Answer) -> Answer:
    """Return the answer with the question noted at each row that has none."""
    hits, held = (
        tuple(hit._replace(asked=hit.asked or question) for hit in rows) for rows in (answer.hits, answer.held)
    )
    return answer._replace(hits=hits, held=held)


def in_turn(every: Sequence[Answer]) -> Answer:
    """Return several answers as one: their rows in turn, each once, with scores that never rise."""
    found = [answer.hits for answer in every]
    return Answer(
        tuple(_falling(filter(None, chain.from_iterable(zip_longest(*found))))),
        next((answer.mode for answer in every if answer.mode == "hybrid"), every[0].mode),
        reranked=any(answer.reranked for answer in every),
        procedures=_fullest(hit for answer in every for hit in answer.procedures),
        held=tuple(hit for answer in every for hit in answer.held),
    )


def _falling(hits: Iterable[Hit]) -> Iterator[Hit]:
    """Yield each statement where it was found first, as the question it is nearest to found it, with falling scores."""
    found: dict[object, Hit] = {}
    for hit in hits:
        first = found.setdefault(statement_of(hit), hit)
        if _is_nearer(hit, first):
            found[statement_of(hit)] = hit._replace(score=first.score)
    least = float("inf")
    for hit in found.values():
        least = min(least, hit.score)
        yield hit._replace(score=least)


def _is_nearer(hit: Hit, other: Hit) -> bool:
    """Return whether a row is nearer to the question of `hit`, holds as much of it, and is as likely to answer it."""
    if hit.id != other.id or hit.similarity is None or other.similarity is None:
        return False
    as_likely = (hit.relevance or 0.0) >= (other.relevance or 0.0)
    return hit.similarity > other.similarity and hit.coverage >= other.coverage and as_likely


def _fullest(procedures: Iterator[Hit]) -> tuple[Hit, ...]:
    """Return each procedure once, with the share of its situation's words that the best question has."""
    best: dict[int, Hit] = {}
    for hit in procedures:
        if hit.id not in best or hit.coverage > best[hit.id].coverage:
            best[hit.id] = hit
    return tuple(best.values())

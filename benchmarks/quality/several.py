"""Messages that ask two things: is each of both answers put before the turn?

The questions of threshold.py are asked two at a time, as one message: "Where does a cat like to rest? Also, who has the
key?" `answered`: the share of questions whose answer is among the lines shown. `false`: the share of messages of which
any line is shown though the theme answers neither. `alone`: each question is a message of its own, and a pair is false
if either is. `as one text`: the message is searched as a whole. `each`: as shipped.

    python several.py --data DIR [--model-dir DIR | --no-model] [--every N] [--rerank]
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
from corpora import LOCOMO
from recall import options, themes_of
from threshold import EVERY, SHOWN, Case, cases, store

from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.types import Question, Scope
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall import follow_up, prefetch, relevance
from hermes_memory_pgvector.recall.block import lines_of

_SINGLE = ("requests", "a word in common")  # groups that have no question to pair with
_PATIENCE_S = 120.0

Pair = tuple[Case, Case]


def pairs(asked: Sequence[Case]) -> Iterator[Pair]:
    """Two questions at a time, of one theme and group, both with or both without an answer there."""
    groups: dict[tuple[str, str, bool], list[Case]] = {}
    for case in asked:
        if not case.group.startswith(_SINGLE):
            groups.setdefault((case.group, case.theme, bool(case.answers)), []).append(case)
    for each in groups.values():
        yield from zip(each[::2], each[1::2], strict=False)


def together(pair: Pair) -> str:
    """Both questions as one message."""
    one, other = (case.question.rstrip(".? ") + "?" for case in pair)
    return f"{one} Also, {other[0].lower()}{other[1:]}"


def shown(provider: PgvectorMemoryProvider, theme: str, message: str) -> set[str]:
    """The texts that are put before a turn."""
    assert provider.runtime is not None
    searching = provider.runtime.searcher
    scope, limit, rerank = Scope("theme", theme), SHOWN * prefetch._SPARE, searching.reranks_prefetch
    question = Question(message, scope, limit, _PATIENCE_S, around=True, rerank=rerank)
    found = searching.recall(["memories", "turns"], question).hits
    until = time.monotonic() + _PATIENCE_S
    lines = lines_of(relevance.worth_showing(searching, found, message, Settings(), until), message)[:SHOWN]
    return {hit.content for line in lines for hit in (line.told, line.beside) if hit is not None}


def rates(asked: Sequence[Pair], show: Callable[[Pair], tuple[set[str], set[str]]]) -> dict[str, str]:
    """A column for each group and whether its questions have an answer."""
    counted: dict[str, list[bool]] = {}
    for pair in asked:
        texts = show(pair)
        if not pair[0].answers:
            counted.setdefault(f"false: {pair[0].group}", []).append(any(texts))
            continue
        for case, found in zip(pair, texts, strict=True):
            counted.setdefault(f"answered: {case.group}", []).append(not case.answers.isdisjoint(found))
    return {name: f"{statistics.fmean(values):.3f} of {len(values)}" for name, values in sorted(counted.items())}


def table(provider: PgvectorMemoryProvider, asked: Sequence[Pair]) -> list[dict[str, Any]]:
    """A row for each way to ask."""

    def alone(pair: Pair) -> tuple[set[str], set[str]]:
        one, other = (shown(provider, case.theme, case.question) for case in pair)
        return one, other

    def both(pair: Pair) -> tuple[set[str], set[str]]:
        texts = shown(provider, pair[0].theme, together(pair))
        return texts, texts

    rows = [{"asked": "alone"} | rates(asked, alone)]
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(follow_up, "questions_in", lambda text: (text,)))
        stack.enter_context(mock.patch.object(relevance, "questions_in", lambda text: (text,)))
        rows.append({"asked": "as one text"} | rates(asked, both))
    return [*rows, {"asked": "each"} | rates(asked, both)]


def main() -> None:
    """Load, ask, print."""
    parser = options(__doc__)
    parser.add_argument("--every", type=int, default=EVERY, help="of the questions about conversations one is asked")
    parser.add_argument("--rerank", action="store_true", help="let the bundled cross-encoder score what is found")
    args = parser.parse_args()
    args.corpus, args.embed_url, args.scale = [LOCOMO], None, 0.0
    themes = themes_of(args)
    asked = list(pairs(list(cases(themes, args.every))))
    with store(args, themes) as provider:
        rows = table(provider, asked)
    common.report("quality/several", {"model": None if args.no_model else args.model_name}, rows, args.json)


if __name__ == "__main__":
    main()

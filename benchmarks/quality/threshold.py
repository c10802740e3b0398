"""What is near enough to be put before a turn: how often nothing is the answer when nothing is known, and the reverse.

Asks as the provider does for each turn, of four kinds of themes: conversations (LoCoMo), 120 made-up facts (facts.py),
15 memories of a person and 15 of a team (standalone.py). With `--messages` instead: what people write to an assistant,
of their own earlier sessions and of another person's (realmem); with `--as-talk`: questions about conversations within
what people say around one; with `--turns`: of conversations cut into themes of so many turns. `answered`: share of the
questions that the theme can answer whose answer is among the lines shown. `false`: share of those that it cannot of
which any line is shown.
Lines are made as the provider makes them. With `--rerank` the bundled cross-encoder scores what it does before a turn,
without a deadline. Bars are moved in the shipped code: `above` are the spreads above what is unrelated to the question,
`above talk` those above talk about something else, other bars are fixed ones. `words`: those shared count `near` the
bar of meaning only, as shipped; `anyhow`; or not at all (`no`). They are to be chosen without the half of the
conversations that is held out. `--scale` makes another model of the one given, as far as the similarity of unrelated
texts goes.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
import facts
from corpora import LOCOMO, REALMEM, Theme
from recall import options, themes_of
from recall import write as write_theme
from standalone import PERSON, REQUESTS, TEAM, Statement
from vectors import CachedModel

from hermes_memory_pgvector.domain.operations import RememberMemory
from hermes_memory_pgvector.domain.types import Filters, Hit, Question, Scope
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall import bars, prefetch, relevance
from hermes_memory_pgvector.recall.bars import MEMORIES_ABOVE, TURNS_ABOVE, MinSimilarity
from hermes_memory_pgvector.recall.block import lines_of
from hermes_memory_pgvector.recall.questions import questions_in
from tests.support.embedding_server import EmbeddingServer, Model
from tests.support.local_models import link_reranker
from tests.support.model_files import model_dir
from tests.support.rescaled import Rescaled

EVERY = 4  # of the questions about conversations one is asked; of the requests to them, all
SAMPLE = 300  # questions, and turns of other conversations, for the distribution; requests to many conversations
BARS = [round(0.30 + 0.025 * step, 3) for step in range(19)]
WORD_BARS = (0.25, 0.30, 0.35, 0.40, 0.45, 0.50, 0.55, 0.60, 0.65, 0.70, 0.80)
PERCENTILES = (1, 5, 25, 50, 75, 95, 99)
STEPS = (-0.4, -0.2, 0.2, 0.4)  # spreads, by which the shipped bars are moved
MANY = (1, 350, 600)  # turns, fewer of which have a lower bar
MEMORIES_EVIDENCE = (-11.0, -10.0, -9.5, -9.0)
TURNS_EVIDENCE = (-9.0, -8.0, -7.0)
SURE_LOGITS = (-8.0, -6.0, -5.0, -4.0, -2.0, 100.0)  # from which a row with most of the words is shown; the last: none
TALK = (-100.0, 2.0, 2.5, 3.5, 4.0)  # the first leaves it out
# A question within what people say around one.
AS_TALK = (
    "Hi again, hope you had a good weekend! {} Thanks a lot, that would really help me.",
    "Good morning. I am putting together a few notes for later and there is one thing that I cannot remember any more. "
    "{} If you know, please tell me in a sentence or two, and then we can go on with the rest.",
)
NEVER = 2.0  # a bar that nothing passes
SHOWN = 5  # lines, the default of prefetch_limit


@dataclass(frozen=True, slots=True)
class Case:
    """A question asked of a theme, and the texts there that answer it: none, where nothing does.

    `until`: what was said from then on is left out.
    """

    group: str
    theme: str
    question: str
    answers: frozenset[str] = frozenset()
    until: datetime | None = None


# The bars by question, of which a message may have several; None without a model.
Near = dict[str, MinSimilarity | None]


@dataclass(frozen=True, slots=True)
class Found:
    """What the provider looks at before it decides what to show, and the bars it has.

    `beside_talk`: the bars if turns had to be that many spreads above talk about something else.
    """

    case: Case
    hits: list[Hit]
    near: Near
    beside_talk: dict[float, Near]


def cases(conversations: Sequence[Theme], every: int) -> Iterator[Case]:
    """Everything that is asked, each group in the order of the columns."""
    for name, first in (("chosen on", 0), ("held out", 1)):
        ours = conversations[first::2]
        for about, other in zip(ours, [*ours[1:], ours[0]], strict=True):
            for asked in about.questions[::every]:
                gold = frozenset(turn.text for turn in about.turns if turn.name in asked.gold)
                yield Case(f"conversations, {name}", about.name, asked.text, gold)
                yield Case(f"conversations, {name}", other.name, asked.text)
    for fact, question in facts.facts():
        yield Case("facts", facts.THEME, question, frozenset([fact]))
        yield Case("facts", "team", question)
    for theme, other_theme, statements in (("person", "team", PERSON), ("team", "person", TEAM)):
        for each in statements:
            yield Case("memories", theme, each.question, frozenset([each.memory]))
            yield Case("memories", other_theme, each.question)
            yield Case("a word in common", theme, each.aside)
    for request in REQUESTS:
        for theme in ("person", "team", facts.THEME):
            yield Case("requests, memories", theme, request)
    everywhere = [(request, each_of) for request in REQUESTS for each_of in conversations]
    for request, each_of in everywhere[:: max(-(-every // EVERY), len(everywhere) // SAMPLE)]:
        yield Case("requests, conversations", each_of.name, request)


def asked_of(provider: PgvectorMemoryProvider, case: Case) -> Found:
    """Ask as the provider does."""
    assert provider.runtime is not None
    searcher, limit = provider.runtime.searcher, SHOWN * prefetch._SPARE
    scope = Scope("theme", case.theme)
    filters, rerank = Filters(until=case.until), searcher.reranks_prefetch
    question = Question(case.question, scope, limit, 120.0, filters, around=True, rerank=rerank)
    hits = list(searcher.recall(["memories", "turns"], question).hits)
    beside_talk = {}
    for above in TALK:
        with mock.patch.object(bars, "TALK_ABOVE", above):
            beside_talk[above] = near_of(provider, case)
    return Found(case, hits, near_of(provider, case), beside_talk)


def near_of(provider: PgvectorMemoryProvider, case: Case) -> Near:
    """The bars of each question of a message."""
    assert provider.runtime is not None
    until = time.monotonic() + 60.0
    return {question: provider.runtime.searcher.bars(question, until) for question in questions_in(case.question)}


def rates(
    found: Iterable[Found], near: Callable[[MinSimilarity | None], MinSimilarity | None], **constants: float
) -> dict[str, str]:
    """A column for each group and whether its questions have an answer. `constants` are those of relevance.py."""
    counted: dict[str, list[bool]] = {}
    with mock.patch.dict(vars(relevance), constants):
        for each in found:
            case, limits = each.case, {question: near(bar) for question, bar in each.near.items()}
            worth = [hit for hit in each.hits if relevance.is_worth_showing(hit, limits[hit.asked or case.question])]
            lines = lines_of(worth)[:SHOWN]
            shown = [hit.content for line in lines for hit in (line.told, line.beside) if hit is not None]
            good = bool(case.answers.intersection(shown)) if case.answers else bool(shown)
            counted.setdefault(f"{'answered' if case.answers else 'false'}: {case.group}", []).append(good)
    return {name: f"{statistics.fmean(values):.3f}" for name, values in sorted(counted.items())}


def same(near: MinSimilarity | None) -> MinSimilarity | None:
    """The bars as they are."""
    return near


def moved(near: MinSimilarity | None, memories: float, turns: float) -> MinSimilarity | None:
    """The bars so many spreads higher."""
    if near is None:
        return None
    return near._replace(memories=near.memories + memories * near.spread, turns=near.turns + turns * near.spread)


def table(found: list[Found], *, meaning: bool) -> list[dict[str, Any]]:
    """As shipped, then meaning alone, words alone, and both, at every bar."""
    above = (f"{MEMORIES_ABOVE} above", f"{TURNS_ABOVE} above") if meaning else ("-", "-")
    rows = [{"memories": above[0], "turns": above[1], "words": "as shipped"} | rates(found, same)]
    if any(hit.relevance is not None for each in found for hit in each.hits):
        rows += [
            {"memories": above[0], "turns": above[1], "words": f"from {logit} on"}
            | rates(found, same, SURE_LOGIT=logit)
            for logit in SURE_LOGITS
        ]
        return rows + [
            {"memories": memories, "turns": turns, "words": "evidence"}
            | rates(found, same, MEMORIES_EVIDENCE=memories, TURNS_EVIDENCE=turns)
            for memories, turns in itertools.product(MEMORIES_EVIDENCE, TURNS_EVIDENCE)
        ]
    rows += [
        {"memories": "-", "turns": "-", "words": bar} | rates(found, lambda _: None, MIN_COVERAGE=bar)
        for bar in WORD_BARS
    ]
    anyhow = relevance.MIN_COVERAGE
    ways: dict[str, dict[str, float]] = {
        "no": {"MIN_COVERAGE": NEVER, "SURE_COVERAGE": NEVER},
        "anyhow": {"SURE_COVERAGE": anyhow},
        "near": {},
    }
    if not meaning:
        return rows
    rows += [
        {"memories": f"{MEMORIES_ABOVE + step:.1f} above", "turns": f"{TURNS_ABOVE + step:.1f} above", "words": "near"}
        | rates(found, partial(moved, memories=step, turns=step))
        for step in STEPS
    ]
    return rows + [
        {"memories": bar, "turns": bar, "words": name} | rates(found, partial(_fixed, bar), **constants)
        for name, constants in ways.items()
        for bar in BARS
    ]


def _fixed(bar: float, near: MinSimilarity | None) -> MinSimilarity:
    return MinSimilarity(bar, bar)


def distribution(provider: PgvectorMemoryProvider, conversations: Sequence[Theme]) -> list[dict[str, Any]]:
    """Percentiles of the similarity of single pairs: a question and a turn that answers it, or one of others' talk."""
    assert provider.runtime is not None and provider.runtime.embedder is not None
    embedder, generator = provider.runtime.embedder, random.Random(common.SEED)
    questions = [(about, asked) for about in conversations for asked in about.questions]
    turns = [(each.name, turn.text) for each in conversations for turn in each.turns]
    strangers = generator.sample(turns, SAMPLE)
    stored = embedder.embed_documents([text for _, text in strangers], timeout_s=600)
    values: dict[str, list[float]] = {"answering": [], "unrelated": []}
    for about, asked in generator.sample(questions, SAMPLE):
        vector = embedder.embed_query(asked.text, timeout_s=60)
        gold = [turn.text for turn in about.turns if turn.name in asked.gold]
        values["answering"] += [_dot(vector, each) for each in embedder.embed_documents(gold, timeout_s=60)]
        values["unrelated"] += [
            _dot(vector, each) for (theme, _), each in zip(strangers, stored, strict=True) if theme != about.name
        ]
    rows = []
    for name, each in values.items():
        cut = statistics.quantiles(each, n=100)
        rows.append({"pair": name, "n": len(each), **{f"p{p}": f"{cut[p - 1]:.2f}" for p in PERCENTILES}})
    return rows


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def messages(people: Sequence[Theme], every: int) -> Iterator[Case]:
    """What people write to an assistant, asked of what they said before, and of what somebody else did."""
    for name, held in (("chosen on", False), ("held out", True)):
        ours = [each for each in people if all(asked.held == held for asked in each.questions)]
        for about, other in zip(ours, [*ours[1:], *ours[:1]], strict=True):
            for asked in about.questions[::every]:
                gold = frozenset(turn.text for turn in about.turns if turn.name in asked.gold)
                yield Case(f"messages, {name}", about.name, asked.text, gold, asked.until)
                yield Case(f"messages, {name}", other.name, asked.text)


def as_talk(asked: Iterable[Case]) -> Iterator[Case]:
    """The questions about conversations, each within other words."""
    for case in asked:
        if case.group.startswith("conversations"):
            yield from (replace(case, question=words.format(case.question)) for words in AS_TALK)


def parts_of(conversations: Sequence[Theme], turns: int) -> list[Theme]:
    """Return themes of so many turns, with the questions that each answers, neighbours from different conversations."""
    cut = [[_part(each, at, turns) for at in range(0, len(each.turns) - turns // 2, turns)] for each in conversations]
    return [part for parts in itertools.zip_longest(*cut) for part in parts if part is not None]


def _part(conversation: Theme, at: int, turns: int) -> Theme:
    part = conversation.turns[at : at + turns]
    names = {turn.name for turn in part}
    asked = tuple(each for each in conversation.questions if each.gold and names.issuperset(each.gold))
    return replace(conversation, name=f"{conversation.name}-{at}", turns=part, questions=asked)


def write(provider: PgvectorMemoryProvider, conversations: Sequence[Theme]) -> None:
    """Store every theme."""
    assert provider.runtime is not None
    for conversation in conversations:
        write_theme(provider, conversation)
    plain: list[tuple[str, Sequence[str]]] = [(facts.THEME, [fact for fact, _ in facts.facts()])]
    sets: tuple[tuple[str, list[Statement]], ...] = (("person", PERSON), ("team", TEAM))
    plain += [(theme, [each.memory for each in statements]) for theme, statements in sets]
    for theme, texts in plain:
        for number, text in enumerate(texts):
            op = RememberMemory(theme=theme, at=1_700_000_000 + number, target="memory", content=text)
            provider.runtime.writer.submit(op)
    assert provider.runtime.writer.flush(3600)


@contextlib.contextmanager
def store(args: argparse.Namespace, conversations: Sequence[Theme]) -> Iterator[PgvectorMemoryProvider]:
    """A provider over a store with every theme, embedded unless `--no-model`."""
    with contextlib.ExitStack() as stack:
        config: dict[str, Any] = {"dims": args.dims, "spool_max_mb": 2000, "embed_model": args.model_name}
        config["dsn"] = args.dsn or stack.enter_context(common.postgres()).database(args.dims)
        if args.embed_url:
            config["embed_url"] = args.embed_url
        elif not args.no_model:
            model: Model = CachedModel(args.model_dir or model_dir(), args.cache)
            if args.scale:
                model = Rescaled(model, [each.memory for each in (*PERSON, *TEAM)], args.scale)
            config["embed_url"] = stack.enter_context(EmbeddingServer(model)).url
        config |= {"rerank": "auto", "rerank_deadline_s": 60} if args.rerank else {"rerank": "off"}
        provider = stack.enter_context(common.provider(config))
        assert provider.runtime is not None
        if args.rerank:
            link_reranker(provider.runtime.home)
            provider.runtime.searcher.load_reranker()
        provider.runtime.backend.bring_up()
        if not provider.runtime.backend.counts()["turns"]:
            write(provider, conversations)
        yield provider


def main() -> None:
    """Load, ask, print."""
    parser = options(__doc__)
    parser.add_argument("--embed-url", metavar="URL", help="an endpoint that has the model, instead of --model-dir")
    parser.add_argument(
        "--scale", type=float, default=0.0, help="so much more of what the model's vectors have in common"
    )
    parser.add_argument("--every", type=int, default=EVERY, help="of the questions about conversations one is asked")
    parser.add_argument("--messages", action="store_true", help="what people write to an assistant, of --data/realmem")
    parser.add_argument("--as-talk", action="store_true", help="questions about conversations, said as people talk")
    parser.add_argument("--turns", type=int, metavar="N", help="cut conversations into themes of so many turns")
    parser.add_argument("--rerank", action="store_true", help="let the bundled cross-encoder score what is found")
    args = parser.parse_args()
    args.corpus = [REALMEM if args.messages else LOCOMO]
    themes = themes_of(args)
    if args.turns:
        themes = parts_of(themes, args.turns)
    asked = messages(themes, args.every) if args.messages else cases(themes, args.every)
    if args.as_talk:
        asked = as_talk(asked)
    with store(args, themes) as provider:
        pairs = [] if args.no_model else distribution(provider, themes)
        found = [asked_of(provider, case) for case in asked]
    rows = table(found, meaning=not args.no_model)
    if not args.no_model:
        for above in TALK:
            moved_so = [replace(each, near=each.beside_talk[above]) for each in found]
            rows.append({"turns": f"{above} above talk"} | rates(moved_so, same))
        for many in MANY:
            with mock.patch.object(bars, "MANY_TURNS", many):
                rows.append({"turns": f"lower below {many} turns"} | rates(found, same))
    parameters = {
        "model": None if args.no_model else args.model_name,
        "pairs": pairs,
        "asked": len(found),
        "scale": args.scale,
    }
    if pairs:
        common.report("quality/threshold, pairs", {}, pairs, None)
    common.report("quality/threshold", parameters, rows, args.json)


if __name__ == "__main__":
    main()

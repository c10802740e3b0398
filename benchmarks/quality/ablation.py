"""What each part of the order of results is worth on LoCoMo, and what was tried instead of it.

Words as the database splits them, vectors from the model, everything else recomputed here for every turn at once, so
that a variant costs a second. The first line is the shipped recipe; `locomo.py` measures the same through the provider.
Each further line changes one thing: recall@5 / @10 on the half of the conversations the constants were chosen on and on
the held-out half, and the difference to the shipped recipe there with a paired bootstrap interval.

    python ablation.py --data locomo10.json [--no-model | --model-dir DIR --model-name NAME --dims N] [--cache FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy
import psycopg

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
from corpus import Conversation, halves, read_conversations
from locomo import options
from vectors import CachedModel, in_context

from hermes_memory_pgvector.domain.periods import named_periods
from hermes_memory_pgvector.embed.instructions import Instructions, instructions_for
from hermes_memory_pgvector.recall.fuse import DATED_SHARE, LENDERS, LENT_SHARES, SHARPNESS, VECTOR_WEIGHT
from hermes_memory_pgvector.recall.search import CANDIDATES
from hermes_memory_pgvector.store.lexical import MIN_ROWS
from tests.support.model_files import model_dir

Array = numpy.ndarray[Any, numpy.dtype[numpy.float64]]
Lexemes = dict[str, int]  # how often each stands in a text
_ROUNDS = 1000  # of the bootstrap


@dataclass(frozen=True, slots=True)
class Recipe:
    """How scores become an order; the defaults are the shipped ones."""

    vector_weight: float = VECTOR_WEIGHT
    sharpness: float = SHARPNESS
    forward: tuple[float, ...] = LENT_SHARES
    backward: tuple[float, ...] = LENT_SHARES
    lenders: int = LENDERS
    added_up: bool = False  # what is lent; else a noisy or
    dated: float = DATED_SHARE
    depth: int = CANDIDATES
    norm: str = "min-max"
    bm25: tuple[float, float] | None = None  # k1 and b; None: a word counts once
    speaker: float = 0.0  # of its score, that a turn of the one person named in the question gains
    extra_terms: tuple[int, int, float] | None = None  # pseudo-relevance feedback by words: turns, terms, weight
    extra_vector: tuple[int, float] | None = None  # Rocchio: turns, weight
    diversity: float = 0.0  # MMR-like, from a cosine of 0.6 on
    context: bool = False  # each turn embedded together with the one before it


class Study:
    """One conversation with everything a recipe may want; arrays are `(questions, turns)`."""

    def __init__(self, conversation: Conversation, lexemes: dict[str, Lexemes], model: CachedModel | None, name: str):
        self.conversation = conversation
        self.turns, self.questions = conversation.turns, conversation.questions
        self._lexemes = [lexemes[turn.text] for turn in self.turns]
        self.asked = [lexemes[asked.text] for asked in self.questions]
        self.holding: dict[str, list[int]] = {}
        for number, held in enumerate(self._lexemes):
            for lexeme in held:
                self.holding.setdefault(lexeme, []).append(number)
        names = {turn.name: number for number, turn in enumerate(self.turns)}
        self.gold = numpy.zeros((len(self.questions), len(self.turns)))
        for row, asked in enumerate(self.questions):
            self.gold[row, [names[each] for each in asked.gold]] = 1
        session = numpy.array([hash(turn.session) for turn in self.turns])
        place = numpy.arange(len(self.turns))
        self._offset = numpy.where(session[:, None] == session[None, :], place[None, :] - place[:, None], 10**6)
        self.in_period = self._in_periods()
        self.vectors = self.question_vectors = self.in_context = None
        if model is not None:
            self._embed(model, instructions_for(name))

    def _embed(self, model: CachedModel, instructions: Instructions) -> None:
        self.vectors = numpy.array(model.embed_all([instructions.document + turn.text for turn in self.turns]))
        self.question_vectors = numpy.array(model.embed_all([instructions.query + q.text for q in self.questions]))
        texts = [instructions.document + text for text in in_context(self.turns)]
        if not model.missing(texts):
            self.in_context = numpy.array(model.embed_all(texts))

    def idf(self, lexeme: str) -> float:
        """The weight of a word, as the lexical statements have it."""
        holding = len(self.holding.get(lexeme, ()))
        return math.log(1 + (max(len(self.turns), MIN_ROWS) - holding + 0.5) / (holding + 0.5))

    def words(self, asked: Sequence[dict[str, float]], bm25: tuple[float, float] | None) -> Array:
        """The sum of the weights of the question's words that a turn holds."""
        lengths = numpy.array([sum(held.values()) for held in self._lexemes])
        scores = numpy.zeros((len(asked), len(self.turns)))
        for row, wanted in enumerate(asked):
            for lexeme, weight in wanted.items():
                for turn in self.holding.get(lexeme, ()):
                    often, share = self._lexemes[turn][lexeme], 1.0
                    if bm25 is not None:
                        k1, b = bm25
                        share = often * (k1 + 1) / (often + k1 * (1 - b + b * lengths[turn] / lengths.mean()))
                    scores[row, turn] += weight * self.idf(lexeme) * share
        return scores

    def kernel(self, forward: Sequence[float], backward: Sequence[float]) -> Array:
        """`(turns, turns)`: what share of each turn's score each other one gets."""
        made = numpy.eye(len(self.turns))
        for distance, (after, before) in enumerate(zip(forward, backward, strict=True), 1):
            made += after * (self._offset == distance) + before * (self._offset == -distance)
        return made

    def named(self) -> Array:
        """1 for turns of the one speaker whom the question names."""
        speakers = {turn.speaker for turn in self.turns}
        found = numpy.zeros_like(self.gold)
        for row, asked in enumerate(self.questions):
            if len(who := [each for each in speakers if each in asked.text]) == 1:
                found[row] = [turn.speaker == who[0] for turn in self.turns]
        return found

    def likely_terms(self, scores: Array, turns: int, terms: int, weight: float) -> list[dict[str, float]]:
        """The questions' words and those that mark their best turns."""
        asked: list[dict[str, float]] = []
        for row, wanted in enumerate(self.asked):
            found: dict[str, float] = {}
            for turn in numpy.argsort(-scores[row])[:turns]:
                for lexeme in self._lexemes[turn]:
                    found[lexeme] = found.get(lexeme, 0.0) + scores[row, turn]
            usable = [each for each in found if each not in wanted and len(self.holding[each]) > 1]
            best = sorted(usable, key=lambda each: -found[each] * self.idf(each))[:terms]
            most = max((found[each] for each in best), default=1.0) or 1.0
            asked.append(dict.fromkeys(wanted, 1.0) | {each: weight * found[each] / most for each in best})
        return asked

    def _in_periods(self) -> Array:
        at = numpy.array([turn.at.timestamp() for turn in self.turns])
        found = numpy.zeros((len(self.questions), len(self.turns)))
        for row, asked in enumerate(self.questions):
            for period in named_periods(asked.text, datetime.now(UTC)):
                found[row, (at >= period.start.timestamp()) & (at < period.end.timestamp())] = 1
        return found


def order(study: Study, recipe: Recipe) -> Array:
    """The final scores of a recipe."""
    if recipe.extra_terms:
        asked = study.likely_terms(order(study, replace(recipe, extra_terms=None)), *recipe.extra_terms)
    else:
        asked = [dict.fromkeys(words, 1.0) for words in study.asked]
    scores = leg(study.words(asked, recipe.bm25), recipe, proposed_above=0.0)
    if study.vectors is not None and study.question_vectors is not None:
        vectors, questions = study.vectors, study.question_vectors
        if recipe.context and study.in_context is not None:
            vectors = study.in_context
        if recipe.extra_vector:
            turns, weight = recipe.extra_vector
            best = numpy.argsort(-order(study, replace(recipe, extra_vector=None)), axis=1)[:, :turns]
            questions = questions + weight * vectors[best].mean(axis=1)
            questions /= numpy.linalg.norm(questions, axis=1, keepdims=True)
        dense = leg(questions @ vectors.T, recipe, proposed_above=-2.0)
        both = recipe.vector_weight * dense + (1 - recipe.vector_weight) * scores
        scores = numpy.where(scores.any(axis=1, keepdims=True), both, dense)
    lent = numpy.where(ranked(scores) < recipe.lenders, scores, 0)
    kernel = study.kernel(recipe.forward, recipe.backward)
    if recipe.added_up:
        scores = scores - lent + lent @ kernel
    else:
        numpy.fill_diagonal(kernel, 0.0)
        scores = 1 - (1 - scores) * numpy.exp(doubt(lent, kernel))
    scores = scores * (1 + recipe.speaker * study.named())
    gain = recipe.dated * scores.max(axis=1, keepdims=True) * study.in_period
    scores = numpy.where(scores > 0, scores + gain, 0)
    return diverse(study, scores, recipe.diversity) if recipe.diversity else scores


def doubt(lent: Array, kernel: Array) -> Array:
    """For each turn the logarithm of the chance that nothing lent to it is right."""
    logarithms = numpy.zeros_like(lent)
    for share in numpy.unique(kernel[kernel > 0]):
        logarithms += numpy.log1p(-numpy.minimum(share * lent, 1 - 1e-12)) @ (kernel == share)
    return logarithms


def leg(raw: Array, recipe: Recipe, proposed_above: float) -> Array:
    """One leg's best rows on a scale that can be added to the other's."""
    ranks = ranked(raw)
    proposed = (ranks < recipe.depth) & (raw > proposed_above)
    values = numpy.where(proposed, raw, numpy.nan)
    with numpy.errstate(all="ignore"):
        some = proposed.any(axis=1, keepdims=True)
        values = numpy.where(some, values, 0)
        low, high = numpy.nanmin(values, axis=1, keepdims=True), numpy.nanmax(values, axis=1, keepdims=True)
        mean, spread = numpy.nanmean(values, axis=1, keepdims=True), numpy.nanstd(values, axis=1, keepdims=True)
        scales: dict[str, Callable[[], Array]] = {
            "min-max": lambda: numpy.where(high - low < 1e-9, 1.0, (values - low) / (high - low)),
            "max": lambda: values / high,
            "mean and 3 deviations": lambda: numpy.clip((values - mean + 3 * spread) / (6 * spread + 1e-9), 0, 1),
            "reciprocal rank, 60": lambda: 61 / (61 + ranks),
            "reciprocal rank, 10": lambda: 11 / (11 + ranks),
        }
        scaled = scales[recipe.norm]()
    return numpy.where(proposed, numpy.nan_to_num(scaled), 0) ** recipe.sharpness


def ranked(scores: Array) -> Array:
    """The rank of each turn, from 0; of equals the newer first."""
    newest_first = numpy.argsort(-scores[:, ::-1], axis=1, kind="stable")
    ranks = numpy.empty_like(newest_first)
    numpy.put_along_axis(ranks, newest_first, numpy.arange(scores.shape[1])[None, :], axis=1)
    return ranks[:, ::-1]


def diverse(study: Study, scores: Array, weight: float) -> Array:
    """Ten rows of the best forty, each chosen for its score less its likeness to those chosen before."""
    assert study.vectors is not None
    alike = numpy.maximum(study.vectors @ study.vectors.T - 0.6, 0)
    chosen = numpy.zeros_like(scores)
    for row, values in enumerate(scores / scores.max(axis=1, keepdims=True)):
        left, taken = list(numpy.argsort(-values)[:40]), []
        for place in range(10):
            best = max(
                left, key=lambda each: values[each] - weight * max([alike[each, other] for other in taken] or [0])
            )
            left.remove(best)
            taken.append(best)
            chosen[row, best] = 10 - place
    return chosen


def recalls(study: Study, scores: Array) -> Array:
    """`(questions, 2)`: evidence recall at 5 and at 10."""
    ranks = ranked(scores)
    found = [((ranks < k) & (scores > 0)) * study.gold for k in (5, 10)]
    return numpy.stack([each.sum(axis=1) / study.gold.sum(axis=1) for each in found], axis=1)


def variants(with_model: bool) -> dict[str, Recipe]:
    """By name; each differs from the shipped recipe in one thing."""
    ship = Recipe()
    made = {"as shipped": ship}
    pairs: list[tuple[float, ...]] = [(), (0.35,), (0.35, 0.35), (0.4, 0.5), (0.6, 0.6), (0.5, 0.4, 0.2), (0.3,) * 5]
    made |= {f"lent {each or 'nothing'}": replace(ship, forward=each, backward=each) for each in pairs}
    made["lent forward .5 .5, back .4 .4"] = replace(ship, backward=(0.4, 0.4))
    made |= {f"dated share {each}": replace(ship, dated=each) for each in (0.0, 0.2, 0.3, 0.8)}
    made |= {f"sharpness {each}": replace(ship, sharpness=each) for each in (1.0, 2.0, 3.0)}
    made |= {f"depth {each}": replace(ship, depth=each) for each in (40, 60, 200)}
    made["lent shares added up"] = replace(ship, added_up=True)
    made |= {f"lenders {each}": replace(ship, lenders=each) for each in (20, 60, 200)}
    norms = ("max", "mean and 3 deviations", "reciprocal rank, 60", "reciprocal rank, 10")
    made |= {f"scale: {each}": replace(ship, norm=each) for each in norms}
    made |= {f"bm25 k1 {k1}, b {b}": replace(ship, bm25=(k1, b)) for k1, b in ((0.4, 0.3), (0.9, 0.4), (1.2, 0.75))}
    made |= {
        f"words of the best {n[0]} turns: {n[1:]}": replace(ship, extra_terms=n) for n in ((5, 5, 0.2), (10, 10, 0.1))
    }
    made |= {f"speaker named, {each} (this data only)": replace(ship, speaker=each) for each in (0.2, 0.4)}
    if with_model:
        made |= {f"vector weight {each}": replace(ship, vector_weight=each) for each in (0.3, 0.35, 0.45, 0.5, 0.6)}
        made |= {
            f"vector of the best {n[0]} turns: {n[1]}": replace(ship, extra_vector=n) for n in ((5, 0.3), (10, 0.3))
        }
        made |= {f"diversity {each}": replace(ship, diversity=each) for each in (0.2, 0.5)}
        made["embedded with the turn before"] = replace(ship, context=True)
    before = replace(
        ship, forward=(0.35,), backward=(0.35,), dated=0, sharpness=1, depth=40, vector_weight=0.5, added_up=True
    )
    return made | {"all as before: one neighbour .35, depth 40, even": before}


def report_on(studies: Sequence[Study], recipes: dict[str, Recipe]) -> list[dict[str, Any]]:
    """A row a recipe."""
    chosen_on, _ = halves([study.conversation for study in studies])
    held_out = numpy.concatenate([[s.conversation.theme not in chosen_on] * len(s.questions) for s in studies])
    generator = numpy.random.default_rng(common.SEED)
    draws = generator.integers(0, held_out.sum(), (_ROUNDS, held_out.sum()))
    reference, table = None, []
    for name, recipe in recipes.items():
        if recipe.context and any(study.in_context is None for study in studies):
            continue
        values = numpy.concatenate([recalls(study, order(study, recipe)) for study in studies])
        reference = values if reference is None else reference
        change = (values - reference)[held_out]
        low, high = numpy.percentile(change[draws].mean(axis=1), [2.5, 97.5], axis=0)
        line = {"variant": name}
        for label, rows in (("chosen on", ~held_out), ("held out", held_out)):
            line[label] = " / ".join(f"{each:.3f}" for each in values[rows].mean(axis=0))
        for at, k in enumerate((5, 10)):
            line[f"change @{k}"] = f"{change[:, at].mean():+.3f} ({low[at]:+.3f} {high[at]:+.3f})"
        table.append(line)
        print(json.dumps(line), file=sys.stderr, flush=True)
    return table


def lexemes_of(dsn: str, texts: Sequence[str]) -> dict[str, Lexemes]:
    """How often each lexeme stands in each text, by the schema's own function."""
    counted = "SELECT lexeme, coalesce(cardinality(positions), 1) FROM unnest(hermes_lexemes(%s, 'english'))"
    with psycopg.connect(dsn) as connection:
        return {text: dict(connection.execute(counted, (text,)).fetchall()) for text in texts}


def main() -> None:
    """Read, try, print."""
    args: argparse.Namespace = options(__doc__).parse_args()
    conversations = read_conversations(args.data)
    with contextlib.ExitStack() as stack:
        dsn = args.dsn or stack.enter_context(common.postgres()).database(args.dims)
        texts = [each.text for one in conversations for each in (*one.turns, *one.questions)]
        lexemes = lexemes_of(dsn, texts)
    model = None if args.no_model else CachedModel(args.model_dir or model_dir(), args.cache)
    studies = [Study(each, lexemes, model, args.model_name) for each in conversations]
    rows = report_on(studies, variants(model is not None))
    common.report("quality/ablation", {"model": None if args.no_model else args.model_name}, rows, args.json)


if __name__ == "__main__":
    main()

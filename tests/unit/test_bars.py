"""The similarity from which a row is shown unasked: measured on the model, once, and in its own units."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Iterator, Sequence
from operator import mul

import pytest

from hermes_memory_pgvector.embed.cache import CachedEmbedder
from hermes_memory_pgvector.embed.embedder import Vector
from hermes_memory_pgvector.embed.http_embedder import HttpEmbedder
from hermes_memory_pgvector.recall.bars import (
    FEW_TURNS,
    MANY_TURNS,
    MEMORIES_ABOVE,
    TALK_ABOVE,
    TURNS_ABOVE,
    Bars,
    MinSimilarity,
    Unrelated,
)
from tests.support.scripted_embedder import ScriptedEmbedder

DIMS = 64
WAIT_S = 20.0


def unit(vector: Sequence[float]) -> Vector:
    norm = math.hypot(*vector)
    return [value / norm for value in vector]


def vectors(number: int, *, common: float) -> list[Vector]:
    """Unit vectors that have nothing in common but a direction, of which each holds `common`."""
    generator = random.Random(number)
    own = [unit([generator.gauss(0, 1) for _ in range(DIMS)]) for _ in range(number)]
    return [unit([common + each[0], *each[1:]]) for each in own]


@pytest.mark.parametrize("common", [0.0, 0.5, 2.0])
def test_bars_stand_as_many_spreads_above_what_is_unrelated_whatever_the_model(common: float) -> None:
    questions, texts = vectors(150, common=common), vectors(151, common=common)
    measured = Unrelated.of(questions, texts, texts)
    unrelated = [sum(map(mul, question, text)) for question in questions for text in texts]
    assert measured.usual == pytest.approx(sum(unrelated) / len(unrelated))
    shown = [similarity >= measured.bars(questions[0]).memories for similarity in unrelated]
    assert sum(shown) / len(shown) < 0.01
    bars = measured.bars(questions[0])
    own = sum(unrelated[: len(texts)]) / len(texts)
    low, high = sorted((own, measured.usual))
    assert low <= bars.memories - MEMORIES_ABOVE * bars.spread <= high
    assert low <= bars.turns - TURNS_ABOVE * bars.spread <= high


def test_a_question_that_is_near_to_everything_has_a_higher_bar() -> None:
    texts = vectors(100, common=1.0)
    measured = Unrelated.of(vectors(101, common=1.0), texts, texts)
    special, general = measured.bars(vectors(1, common=0.0)[0]), measured.bars(unit([1.0] + [0.0] * (DIMS - 1)))
    assert general.turns > special.turns
    assert general.memories > special.memories


def test_a_message_said_as_people_talk_must_be_nearer_to_turns_than_talk_is() -> None:
    texts = vectors(100, common=0.0)
    talk = [unit([*each[:-1], each[-1] + 2.0]) for each in vectors(16, common=0.0)]
    measured = Unrelated.of(vectors(101, common=0.0), texts, talk)
    plain, talking = unit([1.0] + [0.0] * (DIMS - 1)), unit([1.0] + [0.0] * (DIMS - 2) + [2.0])
    nearness = sum(sum(map(mul, talking, each)) for each in talk) / len(talk)
    assert measured.bars(talking).turns == pytest.approx(nearness + TALK_ABOVE * measured.spread)
    assert measured.bars(talking).turns > measured.bars(plain).turns
    assert measured.bars(talking).memories == pytest.approx(measured.bars(plain).memories, abs=measured.spread)


def test_among_few_turns_one_need_not_be_as_near_as_among_many() -> None:
    bars = MinSimilarity(memories=0.5, turns=0.6, spread=0.05)
    few, some, many = (bars.turns_of(rows) for rows in (FEW_TURNS, (FEW_TURNS + MANY_TURNS) // 2, MANY_TURNS))
    assert 0.5 < few < some < many == bars.turns_of(10 * MANY_TURNS) == bars.turns
    assert bars.turns_of(0) == bars.turns, "how many there are is not known"
    assert bars.turns_of(1) == few
    assert bars._replace(memories=0.59).turns_of(FEW_TURNS) == 0.59
    fixed, foreign = MinSimilarity(0.6, 0.6), bars.of_other_question
    assert fixed.turns_of(FEW_TURNS) == 0.6
    assert foreign.turns_of(FEW_TURNS) == foreign.turns > bars.turns


@pytest.fixture
def endpoint() -> Iterator[ScriptedEmbedder]:
    """An embedding endpoint."""
    with ScriptedEmbedder(dims=DIMS) as server:
        yield server


@pytest.fixture
def cached(endpoint: ScriptedEmbedder) -> Iterator[CachedEmbedder]:
    """An embedder for the endpoint."""
    embedder = CachedEmbedder(HttpEmbedder(url=endpoint.url, model="any", dims=endpoint.dims), name="endpoint")
    yield embedder
    embedder.close()


def test_a_model_is_measured_once_however_many_ask(endpoint: ScriptedEmbedder, cached: CachedEmbedder) -> None:
    question = cached.embed_query("Where is the crane?", timeout_s=WAIT_S)
    before = endpoint.requests
    bars, found = Bars(cached), []
    threads = [
        threading.Thread(target=lambda: found.append(bars.of(question, time.monotonic() + WAIT_S))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert found[0] is not None
    assert endpoint.requests == before + 2, "texts and questions"


def test_nobody_waits_longer_than_the_question_has(endpoint: ScriptedEmbedder, cached: CachedEmbedder) -> None:
    question = cached.embed_query("Where is the crane?", timeout_s=WAIT_S)
    endpoint.mode = "hanging"
    bars = Bars(cached)
    assert bars.of(question, time.monotonic() + 0.05) is None


def test_after_a_failure_the_next_question_measures_again(endpoint: ScriptedEmbedder, cached: CachedEmbedder) -> None:
    question = cached.embed_query("Where is the crane?", timeout_s=WAIT_S)
    endpoint.mode = "wrong_count"
    bars = Bars(cached)
    assert bars.of(question, time.monotonic() + WAIT_S) is None
    endpoint.mode = "ok"
    assert bars.of(question, time.monotonic() + WAIT_S) is not None


def test_a_measurement_that_was_begun_ahead_is_not_waited_for(
    endpoint: ScriptedEmbedder, cached: CachedEmbedder
) -> None:
    question = cached.embed_query("Where is the crane?", timeout_s=WAIT_S)
    bars = Bars(cached)
    measured = bars.begin()
    assert measured is not None
    measured.result(timeout=WAIT_S)
    asked = endpoint.requests
    assert bars.of(question, time.monotonic()) is not None
    assert endpoint.requests == asked

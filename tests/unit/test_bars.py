"""The similarity from which a row is shown unasked: measured on the model, once, and in its own units."""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from operator import mul
from pathlib import Path

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
)
from hermes_memory_pgvector.recall.unrelated import Unrelated
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
    shown = [similarity >= MinSimilarity.of(questions[0], measured).memories for similarity in unrelated]
    assert sum(shown) / len(shown) < 0.01
    bars = MinSimilarity.of(questions[0], measured)
    own = sum(unrelated[: len(texts)]) / len(texts)
    low, high = sorted((own, measured.usual))
    assert low <= bars.memories - MEMORIES_ABOVE * bars.spread <= high
    assert low <= bars.turns - TURNS_ABOVE * bars.spread <= high


def test_a_question_that_is_near_to_everything_has_a_higher_bar() -> None:
    texts = vectors(100, common=1.0)
    measured = Unrelated.of(vectors(101, common=1.0), texts, texts)
    special, general = (
        MinSimilarity.of(vectors(1, common=0.0)[0], measured),
        MinSimilarity.of(unit([1.0] + [0.0] * (DIMS - 1)), measured),
    )
    assert general.turns > special.turns
    assert general.memories > special.memories


def test_a_message_said_as_people_talk_must_be_nearer_to_turns_than_talk_is() -> None:
    texts = vectors(100, common=0.0)
    talk = [unit([*each[:-1], each[-1] + 2.0]) for each in vectors(16, common=0.0)]
    measured = Unrelated.of(vectors(101, common=0.0), texts, talk)
    plain, talking = unit([1.0] + [0.0] * (DIMS - 1)), unit([1.0] + [0.0] * (DIMS - 2) + [2.0])
    nearness = sum(sum(map(mul, talking, each)) for each in talk) / len(talk)
    assert MinSimilarity.of(talking, measured).turns == pytest.approx(nearness + TALK_ABOVE * measured.spread)
    assert MinSimilarity.of(talking, measured).turns > MinSimilarity.of(plain, measured).turns
    assert MinSimilarity.of(talking, measured).memories == pytest.approx(
        MinSimilarity.of(plain, measured).memories, abs=measured.spread
    )


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


def embedded(endpoint: ScriptedEmbedder, path: Path, *, model: str = "any") -> tuple[MinSimilarity | None, int]:
    """Return the bars that a new process has for a question, and how many texts it embedded beside that one."""
    embedder = CachedEmbedder(HttpEmbedder(url=endpoint.url, model=model, dims=endpoint.dims), name="endpoint")
    try:
        question = embedder.embed_query("Where is the crane?", timeout_s=WAIT_S)
        before = len(endpoint.texts)
        bars = Bars(embedder, path).of(question, time.monotonic() + WAIT_S)
        return bars, len(endpoint.texts) - before
    finally:
        embedder.close()


def test_the_next_process_knows_what_was_measured_and_embeds_one_text(
    endpoint: ScriptedEmbedder, tmp_path: Path
) -> None:
    path = tmp_path / "measured.json"
    measured, texts = embedded(endpoint, path)
    assert measured is not None and texts > 48
    assert embedded(endpoint, path) == (measured, 1)
    assert path.stat().st_mode & 0o077 == 0


def test_another_model_is_measured_anew_also_under_the_same_name(endpoint: ScriptedEmbedder, tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    measured, texts = embedded(endpoint, path)
    assert embedded(endpoint, path, model="other") == (measured, texts), "that these are one model, nobody can know"
    endpoint.backwards = True
    other, more = embedded(endpoint, path, model="other")
    assert other not in (measured, None) and more == texts + 1
    assert embedded(endpoint, path, model="other") == (other, 1)


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: "",
        lambda kept: "[" * 100_000,
        lambda kept: "null",
        lambda kept: "{}",
        lambda kept: kept[: len(kept) // 2],
        lambda kept: json.dumps(json.loads(kept) | {"centre": [0.0] * (DIMS - 1)}),
        lambda kept: json.dumps(json.loads(kept) | {"talk": ["0.1"] * DIMS}),
        lambda kept: json.dumps(json.loads(kept) | {"first": [math.nan] * DIMS}),
        lambda kept: json.dumps(json.loads(kept) | {"usual": None}),
        lambda kept: json.dumps(json.loads(kept) | {"spread": math.inf}),
        lambda kept: json.dumps(json.loads(kept) | {"spread": -1.0}),
        lambda kept: json.dumps(json.loads(kept) | {"usual": 5.0}),
        lambda kept: json.dumps(json.loads(kept) | {"centre": [1e308] * DIMS}),
        lambda kept: json.dumps(json.loads(kept) | {"talk": [10**400] * DIMS}),
        lambda kept: json.dumps(json.loads(kept) | {"first": [50 * number for number in json.loads(kept)["first"]]}),
    ],
)
def test_a_damaged_file_is_measured_anew(
    endpoint: ScriptedEmbedder, tmp_path: Path, damage: Callable[[str], str]
) -> None:
    path = tmp_path / "measured.json"
    measured, _ = embedded(endpoint, path)
    path.write_text(damage(path.read_text()))
    bars, texts = embedded(endpoint, path)
    assert bars == measured and texts > 48
    assert embedded(endpoint, path) == (measured, 1)


def test_without_a_place_to_keep_it_a_model_is_measured_each_time(endpoint: ScriptedEmbedder, tmp_path: Path) -> None:
    missing, folder = tmp_path / "none" / "measured.json", tmp_path / "measured.json"
    folder.mkdir()
    measured, texts = embedded(endpoint, missing)
    assert measured is not None
    assert embedded(endpoint, missing) == embedded(endpoint, folder) == (measured, texts)
    assert not missing.parent.exists() and list(folder.iterdir()) == []

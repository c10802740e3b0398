"""Turns with vectors for a table that a fleet shares: themes of very different size, and questions about them."""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector.psycopg import register_vector

SEED = 20260101
Vectors = NDArray[np.float32]

SMALL_THEMES = 40  # the last ones, of 10 to 150 rows; the law of Zipf alone ends at about 200
ZIPF = 1.1
MEMORY_SHARE = 50  # one row in so many is an entry of memory as well
BUCKETS = (10, 100, 500, 2_000, 10_000, 50_000, 1_000_000)  # theme sizes, each bucket up to the next one
START = datetime(2022, 1, 1, tzinfo=UTC)
TOPICS, _INNER = 2_000, 48
_CHUNK = 20_000
COPY = "COPY conversations (session_id, agent_identity, role, content, ts, embedding) FROM STDIN (FORMAT binary)"
COPY_TYPES = ["text", "text", "text", "text", "timestamptz", "vector"]
_SYLLABLES = ("ba", "co", "di", "fu", "ga", "ho", "ki", "lu", "me", "no", "pa", "ru", "si", "to", "va", "we", "zo")
VOCABULARY = ["".join(parts) for parts in itertools.islice(itertools.product(_SYLLABLES, repeat=4), 7, None, 5)]
_WEIGHTS = list(itertools.accumulate(1 / rank for rank in range(1, len(VOCABULARY) + 1)))


def theme_sizes(rows: int, themes: int) -> dict[str, int]:
    """How many rows each theme has: the largest about 19 % of all, the smallest 10."""
    small = [int(size) for size in np.geomspace(150, 10, min(SMALL_THEMES, themes // 5))]
    shares = np.arange(1, themes - len(small) + 1, dtype=float) ** -ZIPF
    large = np.maximum(10, shares / shares.sum() * (rows - sum(small))).astype(int)
    large[0] += rows - sum(small) - int(large.sum())
    return {f"theme-{number}": int(size) for number, size in enumerate([*large, *small], 1)}


def bucket_of(size: int) -> str:
    """The name of the bucket a theme of `size` rows falls into."""
    low, high = next((low, high) for low, high in itertools.pairwise(BUCKETS) if low <= size < high)
    return f"{low:,}-{high:,}" if high < BUCKETS[-1] else f"{low:,} and more"


class Mixture:
    """Unit vectors like those of sentences: all lean to one side, gather around topics and spread within each.

    The spread has 48 directions, which all topics share, and a remainder in every direction.
    """

    def __init__(self, dims: int) -> None:
        dice = np.random.default_rng(SEED)
        self._lean = _unit(dice.standard_normal((1, dims), dtype=np.float32))
        self._topics = _unit(dice.standard_normal((TOPICS, dims), dtype=np.float32))
        self._spread = _unit(dice.standard_normal((_INNER, dims), dtype=np.float32)) / np.sqrt(np.float32(_INNER))
        self._dims = dims

    def sample(self, topics: NDArray[Any], dice: np.random.Generator) -> Vectors:
        """A vector for each topic given by its number."""
        inner = dice.standard_normal((len(topics), _INNER), dtype=np.float32) @ self._spread
        rest = dice.standard_normal((len(topics), self._dims), dtype=np.float32) / np.sqrt(np.float32(self._dims))
        return _unit(0.5 * self._lean + 0.7 * self._topics[topics] + 0.6 * inner + 0.3 * rest)

    @staticmethod
    def topics_of(theme: int, size: int, dice: np.random.Generator) -> NDArray[Any]:
        """`size` topics a theme speaks about: a handful in a small one, 200 in the largest; a few take most of it."""
        own = np.random.default_rng((SEED, theme)).choice(TOPICS, size=200, replace=False)
        count = int(min(200, max(3, size**0.45)))
        rank = np.minimum((count * dice.random(size) ** 1.5).astype(int), count - 1)
        return np.asarray(own[rank])


def _unit(vectors: Vectors) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def sentence(dice: random.Random) -> str:
    """5 to 20 words, some common and some rare."""
    return " ".join(dice.choices(VOCABULARY, cum_weights=_WEIGHTS, k=dice.randint(5, 20)))


def rows(sizes: dict[str, int], dims: int) -> Iterator[tuple[int, str, str, Any]]:
    """(number, theme, text, vector) of every row, the themes mixed as in a fleet at work."""
    order = np.repeat(np.arange(1, len(sizes) + 1), list(sizes.values()))
    dice, words = np.random.default_rng(SEED + 1), random.Random(SEED)
    dice.shuffle(order)
    by_number = dict(enumerate(sizes.items(), 1))
    mixture = Mixture(dims)
    for first in range(0, len(order), _CHUNK):
        part = order[first : first + _CHUNK]
        topics = np.empty(len(part), dtype=int)
        for number in np.unique(part):
            here = part == number
            # As many draws as rows, of the theme's own distribution.
            topics[here] = _topics(int(number), by_number[int(number)][1], int(here.sum()), dice)
        for row, vector in enumerate(mixture.sample(topics, dice)):
            yield first + row, by_number[int(part[row])][0], sentence(words), vector


def _topics(theme: int, size: int, count: int, dice: np.random.Generator) -> NDArray[Any]:
    drawn = Mixture.topics_of(theme, size, dice)
    return dice.choice(drawn, size=count)


def questions(sizes: dict[str, int], dims: int, each: int) -> Iterator[tuple[str, Vectors]]:
    """`each` vectors about the topics of every theme, none of them stored."""
    mixture = Mixture(dims)
    for number, (theme, size) in enumerate(sizes.items(), 1):
        dice = np.random.default_rng((SEED + 2, number))
        yield theme, mixture.sample(_topics(number, size, each, dice), dice)


def load(
    admin: str,
    given: Iterable[tuple[int, str, str, Any]],
    *,
    memory: str,
    memory_share: int = MEMORY_SHARE,
    graphs: bool = True,
) -> None:
    """Fill the migrated, empty database: binary COPY without indexes, then the indexes, each from all rows at once.

    `given` is as `rows` gives it; `memory` is maintenance_work_mem of the index builds. Without `graphs` the HNSW
    indexes stay away, which take most of the time.
    """

    def done(what: str) -> None:
        print(f"{time.monotonic() - started:8.0f} s  {what}", file=sys.stderr, flush=True)

    started = time.monotonic()
    with psycopg.connect(admin, autocommit=True) as conn:
        register_vector(conn)
        dropped = _drop_indexes(conn)
        with conn.cursor().copy(COPY) as copy:
            copy.set_types(COPY_TYPES)
            for number, theme, text, vector in given:
                at = START + timedelta(minutes=number)
                session = f"{theme}/{number // 50_000}"
                copy.write_row((session, theme, "assistant" if number % 2 else "user", text, at, vector))
        done("turns")
        conn.execute(
            b"INSERT INTO memory_entries (agent_identity, target, content, embedding, created_at, updated_at) "
            b"SELECT agent_identity, 'memory', content, embedding, ts, ts FROM conversations WHERE id %% %s = 0",
            (memory_share,),
        )
        conn.execute("SELECT set_config('maintenance_work_mem', %s, false)", (memory,))
        conn.execute("SET max_parallel_maintenance_workers = 2")
        for definition in sorted(dropped, key=lambda one: "hnsw" in one):
            if "hnsw" in definition and not graphs:
                continue
            conn.execute(definition.encode())
            done(definition)
        conn.execute("VACUUM ANALYZE")
        done("vacuum")


def _drop_indexes(conn: psycopg.Connection[Any]) -> list[str]:
    """Drop what is not a constraint; the definitions to make it again."""
    found = conn.execute(
        "SELECT i.indexname, i.indexdef FROM pg_indexes AS i"
        " WHERE i.tablename IN ('conversations', 'memory_entries') AND NOT EXISTS"
        "       (SELECT FROM pg_constraint AS c WHERE c.conname = i.indexname)"
    ).fetchall()
    for name, _ in found:
        conn.execute(f"DROP INDEX {name}".encode())
    return [definition for _, definition in found]

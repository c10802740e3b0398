"""The table that grows: generated turns of themes of very different size, their bulk load, and the HNSW index."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "scale")]
import numpy as np
import population
import psycopg
from pgvector.psycopg import register_vector

SEED = 20260101
CHUNK = 5_000  # rows that are made from one seed: a load goes on at a multiple of it
SMALL_ROWS = 200  # of the theme that does not grow
SMALL, PERCENT, LARGEST, DRAIN = "small", "percent", "largest", "drain"
_FULL = 1_000_000  # rows at which a theme's share says how many topics it speaks about
_SESSION = 40  # turns
_COPY = 50_000  # rows a COPY and transaction
# As Zipf's law goes on below the words without a meaning of their own, which no search looks for.
_WORDS = list(itertools.accumulate(1 / (rank + 30) for rank in range(1, len(population.VOCABULARY) + 1)))
_START = datetime(2024, 1, 1, tzinfo=UTC)


def sentence(dice: random.Random, words: int) -> str:
    """So many words, common and rare ones."""
    return " ".join(dice.choices(population.VOCABULARY, cum_weights=_WORDS, k=words))


class Rows:
    """Always the same turns for given themes and dimensions; the small theme is whole in the first chunk."""

    def __init__(self, themes: int, dims: int) -> None:
        shares = np.arange(1, themes - 1, dtype=float) ** -population.ZIPF
        self._names = [PERCENT, LARGEST, *(f"theme-{number}" for number in range(2, themes - 1))]
        self._shares = np.concatenate([[0.01], 0.99 * shares / shares.sum()])
        dice = np.random.default_rng(SEED)
        sizes = [int(share * _FULL) for share in self._shares]
        self._topics = [population.Mixture.topics_of(number, size, dice) for number, size in enumerate(sizes, 1)]
        self._small = population.Mixture.topics_of(0, SMALL_ROWS, dice)
        self.mixture = population.Mixture(dims)

    def between(self, first: int, last: int) -> Iterator[tuple[str, str, str, str, datetime, Any]]:
        """(session, theme, role, text, time, vector) of the rows from `first` up to `last`, multiples of CHUNK."""
        for start in range(first, last, CHUNK):
            yield from self._chunk(start)

    def _chunk(self, start: int) -> Iterator[tuple[str, str, str, str, datetime, Any]]:
        dice, words = np.random.default_rng((SEED, start)), random.Random(SEED + start)
        of = dice.choice(len(self._names), size=CHUNK, p=self._shares)
        if start == 0:
            of[:SMALL_ROWS] = -1
            dice.shuffle(of)
        topics = np.empty(CHUNK, dtype=int)
        for theme in np.unique(of):
            here = of == theme
            topics[here] = dice.choice(self.topics(int(theme)), int(here.sum()))
        lengths = np.clip(dice.lognormal(np.log(25), 0.7, CHUNK), 4, 200).astype(int)
        said: dict[str, int] = {}
        for row, vector in enumerate(self.mixture.sample(topics, dice)):
            number, name = start + row, SMALL if of[row] < 0 else self._names[of[row]]
            said[name] = said.get(name, -1) + 1
            text = sentence(words, int(lengths[row])) + (f" JOB-{number}" if number % 10 == 0 else "")
            session = f"{name}/{start // CHUNK}-{said[name] // _SESSION}"
            at = _START + timedelta(seconds=number)
            yield session, name, "assistant" if number % 2 else "user", text, at, vector

    def topics(self, theme: int) -> Any:
        """What a theme speaks about, given by its place in the list of themes; the small one is -1."""
        return self._small if theme < 0 else self._topics[theme]

    def asked(self, theme: str, count: int) -> list[tuple[str, Any]]:
        """Questions of six words about a theme, and vectors none of which is stored."""
        number = -1 if theme == SMALL else self._names.index(theme)
        dice, words = np.random.default_rng((SEED, number + 2, 1)), random.Random(f"{SEED} {theme}")
        vectors = self.mixture.sample(dice.choice(self.topics(number), count), dice)
        return [(sentence(words, 6), vector) for vector in vectors]


def loaded(conn: psycopg.Connection[Any]) -> int:
    """How many rows of the sequence the table holds. Whole COPYs only, so it is a multiple of CHUNK."""
    row = conn.execute("SELECT count(*) FROM conversations WHERE agent_identity <> %s", (DRAIN,)).fetchone()
    assert row is not None
    return int(row[0])


def load(conn: psycopg.Connection[Any], rows: Rows, upto: int) -> tuple[float, float]:
    """Go on with the sequence by COPY, all indexes but the HNSW ones in place; seconds on the clock, and of CPU.

    What it takes to make the rows up is not counted.
    """
    register_vector(conn)
    wall = cpu = 0.0
    columns = "session_id, agent_identity, role, content, ts, embedding"
    for start in range(loaded(conn), upto, _COPY):
        made = list(rows.between(start, min(start + _COPY, upto)))
        statement = f"COPY conversations ({columns}) FROM STDIN (FORMAT binary)".encode()
        with Watcher(postmaster_of(conn)) as watcher, conn.cursor().copy(statement) as copy:
            copy.set_types(["text", "text", "text", "text", "timestamptz", "vector"])
            for row in made:
                copy.write_row(row)
        wall, cpu = wall + watcher.wall_s, cpu + watcher.cpu_s
        print(f"{start + len(made):,} rows, {len(made) / watcher.wall_s:,.0f}/s", file=sys.stderr, flush=True)
    return wall, cpu


@dataclass
class Watcher:
    """What the server takes in the block: seconds of CPU in all, and the memory of its largest process in MB, sampled.

    Seconds of CPU are much the same on a machine that others use as well; those on a clock are not.
    """

    postmaster: int
    cpu_s: float = 0.0
    wall_s: float = 0.0
    own_mb: float = 0.0
    mapped_mb: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Watcher:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        self.cpu_s, self.wall_s = self._cpu(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_s, self.wall_s = self._cpu() - self.cpu_s, time.perf_counter() - self.wall_s
        self._ended.set()
        assert self._thread is not None
        self._thread.join()

    def _children(self) -> Iterator[Path]:
        for listed in Path(f"/proc/{self.postmaster}/task").glob("*/children"):
            yield from (Path(f"/proc/{number}") for number in listed.read_text().split())

    def _cpu(self) -> float:
        ended = Path(f"/proc/{self.postmaster}/stat").read_text().rsplit(")", 1)[1].split()[13:15]
        total = sum(map(int, ended)) / os.sysconf("SC_CLK_TCK")
        for child in self._children():
            with contextlib.suppress(OSError):  # it has ended
                total += int((child / "schedstat").read_text().split()[0]) / 1e9
        return total

    def _look(self) -> None:
        while not self._ended.wait(0.2):
            for child in self._children():
                with contextlib.suppress(OSError):
                    lines = (child / "status").read_text().splitlines()
                    told = dict(line.split(":", 1) for line in lines if line.startswith("Rss"))
                    kb = {name: int(value.split()[0]) for name, value in told.items()}
                    self.own_mb = max(self.own_mb, kb.get("RssAnon", 0) / 1024)
                    self.mapped_mb = max(self.mapped_mb, (kb.get("RssFile", 0) + kb.get("RssShmem", 0)) / 1024)


def postmaster_of(conn: psycopg.Connection[Any]) -> int:
    """The process id of the server."""
    return int(Path(f"/proc/{conn.info.backend_pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

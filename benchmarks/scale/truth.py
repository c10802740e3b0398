"""Questions, and what an exact scan of every stored vector answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import population
import psycopg
from pgvector import Vector
from pgvector.psycopg import register_vector

from hermes_memory_pgvector.store import vector_search

K = 10
_EQUAL = 1e-6  # two ways to compute a cosine differ by less


@dataclass
class Asked:
    """A question, its theme and the size of that, and how near the tenth row is, in the theme and in all."""

    theme: str
    size: int
    text: str
    vector: Any
    here: float = -1.0
    anywhere: float = -1.0
    wanted: int = K

    @property
    def bucket(self) -> str:
        """That of its theme."""
        return population.bucket_of(self.size)

    def row(self) -> dict[str, Any]:
        """The parameters of BARE."""
        depth = vector_search.rerank_depth(self.size)
        return {"theme": self.theme, "vector": Vector(self.vector), "depth": depth, "limit": 40}


def find_truth(admin: str, asked: Sequence[Asked]) -> None:
    """Note for each question how near its tenth row is: one pass over every stored vector."""
    asking = np.array([one.vector for one in asked], dtype=np.float32)
    themes = np.array([one.theme for one in asked])
    best = {scope: np.full((len(asked), K), -1.0, dtype=np.float32) for scope in ("theme", "all")}

    def merge(scope: str, which: Any, near: Any) -> None:
        both = np.concatenate([best[scope][which], near], axis=1)
        best[scope][which] = -np.partition(-both, K - 1, axis=1)[:, :K]

    for names, vectors in _stored(admin):
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        near = asking @ unit.T
        merge("all", np.arange(len(asked)), near)
        for theme in np.unique(themes):
            rows = np.flatnonzero(names == theme)
            if len(rows):
                merge("theme", np.flatnonzero(themes == theme), near[np.ix_(themes == theme, rows)])
    for one, theme, everywhere in zip(asked, best["theme"], best["all"], strict=True):
        one.wanted = int((theme > -1).sum())
        one.here, one.anywhere = float(theme[theme > -1].min()), float(everywhere.min())


def _stored(admin: str) -> Iterator[tuple[Any, Any]]:
    """Every row's theme and vector, in chunks."""
    statement = (
        "COPY (SELECT agent_identity, embedding FROM conversations WHERE embedding IS NOT NULL)"
        " TO STDOUT (FORMAT binary)"
    )
    with psycopg.connect(admin) as conn:
        register_vector(conn)
        with conn.cursor().copy(statement) as copy:
            copy.set_types(["text", "vector"])
            names: list[str] = []
            vectors: list[Any] = []
            for name, vector in copy.rows():
                names.append(name)
                vectors.append(vector.to_numpy() if hasattr(vector, "to_numpy") else vector)
                if len(names) == 20_000:
                    yield np.array(names), np.array(vectors, dtype=np.float32)
                    names, vectors = [], []
            if names:
                yield np.array(names), np.array(vectors, dtype=np.float32)


def share(found: Sequence[Any], least: float, wanted: int) -> float:
    """Of the wanted rows, how many are among the first ten found."""
    return sum(one.score >= least - _EQUAL for one in found[:K]) / wanted

"""The similarity from which a row is worth showing unasked, measured on the embedding model that is in use.

What a cosine similarity means differs between models, and between questions: a general question is near everything. So
a question is compared with unrelated texts, and a row must be nearer than they are by a number of spreads (the spread
of the similarities between unrelated texts and questions). In this unit the same thresholds suit every model.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..domain.errors import EmbedderError
from ..domain.lru import LruDict
from ..domain.types import Hit
from ..embed.embedder import Embedder, Vector
from .background import Background, result_by
from .unrelated import TIMEOUT_S, Unrelated, dot, unrelated_of

# In spreads, chosen with benchmarks/quality/threshold.py. Higher for turns, of which there are many: the more rows, the
# nearer is the nearest unrelated one. With fewer than MANY_TURNS it is lower, by as much as that one is farther.
MEMORIES_ABOVE = 2.8
TURNS_ABOVE = 4.2
MANY_TURNS = 200
FEW_TURNS = 100  # fewer lower it no further: what sounds alike is near however little there is
# Above what is said in other conversations. Messages and answers of some length resemble one another by how people and
# assistants speak, whatever they are about.
TALK_ABOVE = 3.0
# More for a question in a language that the model is not for, to which unrelated texts in that language are nearer;
# chosen with benchmarks/quality/foreign.py.
OTHER_LANGUAGE_ABOVE = 1.0
SITUATIONS_ABOVE = 4.3  # chosen with benchmarks/quality/structure.py
# The weight of a question's own similarity to the texts, the rest being what is usual for the model. A question with a
# rare word is far from everything, and only a memory that shares the word by chance is near it.
_OWN_SHARE_OF_MEMORIES = 0.25
_OWN_SHARE_OF_TURNS = 0.5
_SITUATIONS = 512  # whose vectors are cached
_LEAST_SPREAD = 1e-6  # less than this comes from rounding: every text has the same vector
_USUAL_SPREAD = 0.06  # of the bundled model, for a threshold that a user has set


class MinSimilarity(NamedTuple):
    """Cosine similarities from which a row is worth showing; differences from them are counted in units of `spread`.

    `turns` is for a theme of many; in one of a few it is `turns_of`, but at least `turns_least`.
    """

    memories: float
    turns: float
    spread: float = _USUAL_SPREAD
    turns_least: float = 0.0

    @classmethod
    def of(cls, question: Vector, unrelated: Unrelated) -> MinSimilarity:
        """Return those that a row must reach to be nearer to the question than unrelated texts are."""
        differs, spread = dot(question, unrelated.centre) - unrelated.usual, unrelated.spread
        memories = unrelated.usual + _OWN_SHARE_OF_MEMORIES * differs + MEMORIES_ABOVE * spread
        turns = unrelated.usual + _OWN_SHARE_OF_TURNS * differs + TURNS_ABOVE * spread
        as_they_talk = dot(question, unrelated.talk) + TALK_ABOVE * spread
        return cls(memories, max(turns, as_they_talk), spread)

    def turns_of(self, rows: int) -> float:
        """Return the similarity for a turn among so many, 0 if that is unknown; never less than for a memory."""
        if not 0 < rows < MANY_TURNS:
            return self.turns
        lower = self.turns - (_farthest_of(MANY_TURNS) - _farthest_of(max(rows, FEW_TURNS))) * self.spread
        return min(self.turns, max(lower, self.memories, self.turns_least))

    def of_hit(self, hit: Hit) -> float:
        """Return the similarity for this row."""
        # At the time that the question names few turns were said, as there are few memories: a near one is no chance.
        return self.turns_of(hit.among) if hit.store == "turns" and not hit.told_then else self.memories

    @property
    def of_other_language(self) -> MinSimilarity:
        """Return the same for memories in a language that the model is not for, which it finds more alike."""
        return self._replace(memories=max(self.memories, self.turns))

    @property
    def of_other_question(self) -> MinSimilarity:
        """Return the same for a question in a language that the model is not for, with one bar for turns.

        How near unrelated texts are among a few is not known there: the spread is that of English ones.
        """
        more = OTHER_LANGUAGE_ABOVE * self.spread
        turns = self.turns + more
        return self._replace(memories=self.memories + more, turns=turns, turns_least=turns)

    @property
    def situations(self) -> float:
        """Return the similarity from which a question counts as being about a situation."""
        return self.memories + (SITUATIONS_ABOVE - MEMORIES_ABOVE) * self.spread


class Situations:
    """Computes how similar a question is to situations of a few words each. Safe to call from several threads."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._threads = Background("hermes-pgvector-situations")
        self._lock = threading.Lock()
        self._vectors: LruDict[str, array[float]] = LruDict(_SITUATIONS)

    def similarities(self, question: Vector, whens: Sequence[str], until: float) -> dict[str, float]:
        """Return the similarity of `question` to those of `whens` that are embedded by the moment `until` (monotonic).

        Those that are late are known the next time.
        """
        known = self._known(whens)
        unknown = [when for when in dict.fromkeys(whens) if when not in known]
        embedded = self._threads.submit(partial(self._embed, unknown)) if unknown else None
        if embedded is not None:
            with suppress(TimeoutError, EmbedderError):
                late = result_by(embedded, until)
                known |= late
        return {when: dot(question, vector) for when, vector in known.items()}

    def _known(self, whens: Sequence[str]) -> dict[str, Vector]:
        with self._lock:
            return {when: vector.tolist() for when in whens if (vector := self._vectors.use(when)) is not None}

    def _embed(self, whens: Sequence[str]) -> dict[str, Vector]:
        vectors = self._embedder.embed_documents(whens, timeout_s=TIMEOUT_S)
        with self._lock:
            for when, vector in zip(whens, vectors, strict=True):
                self._vectors[when] = array("d", vector)
        return dict(zip(whens, vectors, strict=True))


class Bars:
    """Measures the thresholds of a model at `begin` or the first question. Safe to call from several threads.

    What was measured is kept in the file `kept` for the next process, if one is given.
    """

    def __init__(self, embedder: Embedder, kept: Path | None = None) -> None:
        self._embedder = embedder
        self._kept = kept
        self._threads = Background("hermes-pgvector-bars")
        self._lock = threading.Lock()
        self._measured: Future[Unrelated] | None = None

    def of(self, question: Vector, until: float) -> MinSimilarity | None:
        """Return the thresholds for the vector of a question, or None if they are unknown.

        They are unknown if the model was not measured by `until` (monotonic), or gives every text the same vector.
        """
        measured = self.begin()
        if measured is None:
            return None
        try:
            unrelated = result_by(measured, until)
        except (TimeoutError, EmbedderError):
            return None
        return MinSimilarity.of(question, unrelated) if unrelated.spread > _LEAST_SPREAD else None

    def begin(self) -> Future[Unrelated] | None:
        """Return the measurement; start it in the background if there is none or it failed. None if too many run."""
        with self._lock:
            if self._measured is None or (self._measured.done() and self._measured.exception() is not None):
                self._measured = self._threads.submit(partial(unrelated_of, self._embedder, self._kept))
            return self._measured


def _farthest_of(rows: int) -> float:
    """Return how many deviations the farthest of so many values lies from their mean, if they are normal."""
    return math.sqrt(2 * math.log(rows))

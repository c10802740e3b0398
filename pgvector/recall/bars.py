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
from operator import mul
from typing import NamedTuple

from ..domain.errors import EmbedderError
from ..domain.gil import yielding_gil
from ..domain.lru import LruDict
from ..domain.types import Hit
from ..embed.embedder import Embedder, Vector
from .background import Background, result_by

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
_TIMEOUT_S = 30.0  # longer than any question waits: the next question benefits
_SITUATIONS = 512  # whose vectors are cached
_LEAST_SPREAD = 1e-6  # less than this comes from rounding: every text has the same vector
_USUAL_SPREAD = 0.06  # of the bundled model, for a threshold that a user has set
# Plain, short, and each about something else. They are not taken from the database: a database about a single subject
# holds nothing that is unrelated to a question about it.
_TEXTS = (
    "The river rose two metres after the storm.",
    "She sold the old bicycle for forty pounds.",
    "The committee postponed its vote until spring.",
    "He forgot the umbrella on the train again.",
    "The museum is closed on Mondays.",
    "Our neighbour paints the fence green.",
    "A violin was found in the attic.",
    "They lost the final by a single goal.",
    "The treaty was signed in 1648.",
    "My uncle repairs clocks.",
    "The build failed because a header is missing.",
    "We moved the cache to another machine.",
    "The invoice lists three items twice.",
    "The meeting was moved to the small room.",
    "Penguins live in the southern hemisphere.",
    "The soup needs more pepper and less salt.",
    "His grandmother grew up on a farm.",
    "The moon has no atmosphere.",
    "The password must have twelve characters.",
    "I watched a film about deep sea divers.",
    "The choir rehearses in the church hall.",
    "The tax form is due in May.",
    "The exam has forty questions.",
    "The battery lasts about nine hours.",
    "It has been a long week, and I am glad that it is over.",
    "That sounds great, thank you for telling me!",
    "I am thinking about taking a course in pottery.",
    "The ferry leaves every two hours.",
    "The judge dismissed the claim.",
    "Most of the glass was recycled.",
    "The new shoes hurt, so she sent them back.",
    "The server answers with an error at midnight.",
)
_TALK = (
    "Hi again. I went through the list you made for the garden yesterday, and most of it looks good. The only "
    "thing I am not sure about is the order. What should I start with this weekend, and what can wait until it is "
    "warmer?",
    "Thanks, that helps a lot! I like the second version better, it sounds more like me. Could you make the "
    "opening a little shorter and take out the part about the prize? Then I think it is ready to be sent.",
    "Okay, perfect. So we have settled on the blue tiles and the smaller basin. Let us move on to the lighting. I "
    "want something warm but not too dim, and please keep in mind that the ceiling is low.",
    "No, that is not what I asked for. I said that the numbers should be grouped by month, not by customer. "
    "Please do it again, and this time check the totals before you send them to me.",
    "Good morning! I slept badly and I feel a bit overwhelmed by everything that is on my plate. Can we look at "
    "what is really urgent today and put off the rest? I just need a clear plan for the next few hours.",
    "Great, I finished the third chapter last night. It was harder than I expected, and I am not sure that I "
    "understood the part about inheritance. What would be the best way to practise it before the exam?",
    "Hello. I am ready to continue where we left off. Last time we agreed on the structure, so the next step "
    "would be to fill in the details, right? What do you need from me to get going?",
    "I talked to my sister about it, and she thinks that it is too risky. I see her point, but I do not want to "
    "give up the idea entirely. Is there a way to try it on a smaller scale first?",
    "That is a great question, and I am glad that you brought it up. There are three things to keep in mind: the "
    "weight, the price and how easy it is to clean. Based on what you told me, I would suggest the second model, "
    "since it fits your budget and needs little care. Would you like me to compare it with the others in a table?",
    "Understood. I have updated the plan accordingly: the interviews move to Tuesday, the report is due on "
    "Thursday, and Friday stays free for corrections. The next step is to inform the others. Shall I draft a "
    "short message for them?",
    "I completely understand how frustrating that must be, and I am sorry for the confusion. You are right that "
    "the earlier figures did not match. Here is the corrected version, with the sources next to each value. "
    "Please let me know if anything still looks wrong to you.",
    "Excellent choice! To get the most out of your visit, I recommend that you begin early, before the crowds "
    "arrive. Here is a possible schedule: the old harbour in the morning, lunch at the market hall, and the "
    "lighthouse in the afternoon. Would you like suggestions for the evening as well?",
    "Certainly! Here is a step-by-step guide. First, soak the beans overnight. Second, boil them for about forty "
    "minutes. Third, mix them with oil, lemon and salt. Finally, let them rest for an hour before you serve them. "
    "Let me know if you would like a variation without lemon.",
    "Great progress! You have completed four of the six exercises, and your answers are getting more precise. For "
    "the next session, I suggest that we focus on the two remaining ones and then review the mistakes together. "
    "How does that sound to you?",
    "To solve this, we have to look at the log of the job first. The error means that the process could not write "
    "to its folder. Please check who owns it, and run the command again. If it still fails, send me the last "
    "twenty lines of the output, and we will go from there.",
    "Thank you for sharing this with me. It takes courage to look at things so honestly. What you describe is a "
    "very common reaction to stress, and there are small steps that can help. We could start with a short routine "
    "in the evening, and see after a week whether anything has changed.",
)
_QUESTIONS = (
    "Which colour did they choose for the gate?",
    "How long does the tunnel stay closed?",
    "Who takes over the night shift?",
    "What did the plumber say about the pipe?",
    "Why was the concert called off?",
    "When is the rent due?",
    "Where did you leave the spare key?",
    "Is there a cheaper flight to Athens?",
    "What does the word threshold mean?",
    "How do I remove a stain of ink?",
    "Which file holds the colours of the theme?",
    "Give me three titles for a poem about the sea.",
    "Explain the difference between a loan and a gift.",
    "Please shorten this paragraph.",
    "How many people came to the fair?",
    "Can you sort this list by date?",
)


class MinSimilarity(NamedTuple):
    """Cosine similarities from which a row is worth showing; differences from them are counted in units of `spread`.

    `turns` is for a theme of many; in one of a few it is `turns_of`, but at least `turns_least`.
    """

    memories: float
    turns: float
    spread: float = _USUAL_SPREAD
    turns_least: float = 0.0

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


class Unrelated(NamedTuple):
    """The similarities of questions and texts that have nothing to do with each other.

    `centre` is the mean vector of the texts, `usual` the mean similarity, and `spread` how far the similarities of a
    question lie from their mean. `talk` is the mean vector of messages and answers of some length.
    """

    centre: Vector
    talk: Vector
    usual: float
    spread: float

    @classmethod
    def of(cls, questions: Sequence[Vector], texts: Sequence[Vector], talk: Sequence[Vector]) -> Unrelated:
        """Measure the similarities of unit vectors."""
        # The distance of unit vectors gives their similarity, and `math` computes it five times as fast.
        others = list(map(tuple, texts))
        near = [[1 - math.dist(one, other) ** 2 / 2 for other in others] for one in yielding_gil(map(tuple, questions))]
        means = list(map(_mean, near))
        variances = [_mean([(value - mean) ** 2 for value in each]) for each, mean in zip(near, means, strict=True)]
        return cls(_centre(texts), _centre(talk), _mean(means), math.sqrt(_mean(variances)))

    def bars(self, question: Vector) -> MinSimilarity:
        """Return the similarities that a row must reach to be nearer to the question than unrelated texts are."""
        differs = _dot(question, self.centre) - self.usual
        memories = self.usual + _OWN_SHARE_OF_MEMORIES * differs + MEMORIES_ABOVE * self.spread
        turns = self.usual + _OWN_SHARE_OF_TURNS * differs + TURNS_ABOVE * self.spread
        as_they_talk = _dot(question, self.talk) + TALK_ABOVE * self.spread
        return MinSimilarity(memories, max(turns, as_they_talk), self.spread)


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
        return {when: _dot(question, vector) for when, vector in known.items()}

    def _known(self, whens: Sequence[str]) -> dict[str, Vector]:
        with self._lock:
            return {when: vector.tolist() for when in whens if (vector := self._vectors.use(when)) is not None}

    def _embed(self, whens: Sequence[str]) -> dict[str, Vector]:
        vectors = self._embedder.embed_documents(whens, timeout_s=_TIMEOUT_S)
        with self._lock:
            for when, vector in zip(whens, vectors, strict=True):
                self._vectors[when] = array("d", vector)
        return dict(zip(whens, vectors, strict=True))


class Bars:
    """Measures the thresholds of a model at `begin` or the first question. Safe to call from several threads."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
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
        return unrelated.bars(question) if unrelated.spread > _LEAST_SPREAD else None

    def begin(self) -> Future[Unrelated] | None:
        """Return the measurement; start it in the background if there is none or it failed. None if too many run."""
        with self._lock:
            if self._measured is None or (self._measured.done() and self._measured.exception() is not None):
                self._measured = self._threads.submit(partial(_measure, self._embedder))
            return self._measured


def _measure(embedder: Embedder) -> Unrelated:
    texts = embedder.embed_documents([*_TEXTS, *_TALK], timeout_s=_TIMEOUT_S)
    questions = embedder.embed_queries(_QUESTIONS, timeout_s=_TIMEOUT_S)
    return Unrelated.of(questions, texts[: len(_TEXTS)], texts[len(_TEXTS) :])


def _farthest_of(rows: int) -> float:
    """Return how many deviations the farthest of so many values lies from their mean, if they are normal."""
    return math.sqrt(2 * math.log(rows))


def _centre(vectors: Sequence[Vector]) -> Vector:
    return list(map(_mean, zip(*vectors, strict=True)))


def _mean(values: Sequence[float]) -> float:  # `statistics` takes longer to import than all this
    return math.fsum(values) / len(values)


def _dot(one: Vector, other: Vector) -> float:
    return math.fsum(map(mul, one, other))

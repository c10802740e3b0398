"""How near texts are that have nothing to do with each other, measured on the embedding model that is in use.

It is measured once for a model, and kept in the home: the next process embeds a single text again, which shows whether
the model is still the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

from ..domain.files import note_text, read_regular_file
from ..domain.gil import yielding_gil
from ..domain.text import digest
from ..embed.embedder import Embedder, Vector

TIMEOUT_S = 30.0  # longer than any question waits: the next question benefits
# Of a text to itself, by the same model on another machine; another quantization of a model is less like it.
_SAME = 0.999
_ROUNDING = 0.001
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


def unrelated_of(embedder: Embedder, kept: Path | None) -> Unrelated:
    """Return what the file `kept` says of the model, if it is still the same, else what is measured, and keep that.

    Raises EmbedderError.
    """
    known = None if kept is None else _kept(kept, embedder)
    if known is not None and dot(known.first, _questions(embedder, _QUESTIONS[:1])[0]) >= _SAME:
        return known.unrelated
    texts = embedder.embed_documents([*_TEXTS, *_TALK], timeout_s=TIMEOUT_S)
    questions = _questions(embedder, _QUESTIONS)
    unrelated = Unrelated.of(questions, texts[: len(_TEXTS)], texts[len(_TEXTS) :])
    if kept is not None and kept.parent.is_dir():  # a question alone does not make a home of a folder
        note_text(kept, json.dumps({"model": _model(embedder), "first": questions[0], **unrelated._asdict()}))
    return unrelated


class _Kept(NamedTuple):
    """What was measured, and the vector of the first question."""

    first: Vector
    unrelated: Unrelated


def _kept(path: Path, embedder: Embedder) -> _Kept | None:
    """Return what a file says of a model of this name, or None if it cannot be read or is not about that one."""
    try:
        kept = json.loads(read_regular_file(path))
        if kept["model"] != _model(embedder):
            return None
        first, centre, talk = (_vector(kept[name], embedder.dims) for name in ("first", "centre", "talk"))
        usual, spread = (float(kept[name]) for name in ("usual", "spread"))
    except (OSError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
        return None
    possible = math.isclose(math.hypot(*first), 1.0, abs_tol=_ROUNDING) and -1 <= usual <= 1 and 0 <= spread <= 1
    return _Kept(first, Unrelated(centre, talk, usual, spread)) if possible else None


def _vector(read: Any, dims: int) -> Vector:
    """Return numbers that can be a unit vector, or the mean of some. Raises ValueError, TypeError, OverflowError."""
    if not isinstance(read, list) or len(read) != dims or not math.hypot(*read) <= 1 + _ROUNDING:
        raise ValueError
    return read


def _model(embedder: Embedder) -> str:
    """Return the digest of what vectors depend on, as far as the program knows, and of what is embedded."""
    prefixes = embedder.instructions
    known = embedder.model, str(embedder.dims), prefixes.document, prefixes.query, *_TEXTS, *_TALK, *_QUESTIONS
    return digest("\0".join(known)).hex()


def _questions(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    return embedder.embed_queries(texts, timeout_s=TIMEOUT_S)


def _centre(vectors: Sequence[Vector]) -> Vector:
    return list(map(_mean, zip(*vectors, strict=True)))


def _mean(values: Sequence[float]) -> float:  # `statistics` takes longer to import than all this
    return math.fsum(values) / len(values)


def dot(one: Vector, other: Vector) -> float:
    """Return the scalar product, which of unit vectors is their cosine similarity."""
    return math.fsum(map(mul, one, other))

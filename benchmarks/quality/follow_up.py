"""Questions that name nothing themselves: is what answers them put before the turn?

Of each of the made-up facts (facts.py) the subject is named in the message before, which asks something else of it:
"How large is the budget of garnet?", then "And on which port can it be reached?". `answered`: the share of the second
messages with whose lines the fact is; `false`: the share with which any line is where the theme, a person's, has no
such thing; `others`: how many lines are about another subject. `alone`: the message is searched for as it is; `in
context`: where the first one got no answer; `after an answer`: where it did; `named`: it names the subject itself.
`taken for one`: the number of messages that would be searched with the one before, of these and of the other corpora,
whose questions name what they are about.

    python follow_up.py --data DIR [--model-dir DIR | --no-model]
"""

from __future__ import annotations

import random
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
import facts
from corpora import LOCOMO
from recall import options, themes_of
from several import shown
from threshold import store

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall.follow_up import in_context, is_follow_up, names_answered

_OTHER_THEME = "person"  # of threshold.py


class Pair(NamedTuple):
    """A question that names its subject, its answer, and another one about it: `named`, and as it follows the first."""

    before: str
    reply: str
    named: str
    follows: str
    fact: str
    subject: str


def pairs() -> Iterator[Pair]:
    """A pair for each fact."""
    chance = random.Random(common.SEED)
    about: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for fact, question in facts.facts():
        subject = next(name for name in (*facts.PEOPLE, *facts.SERVICES) if name in question.rstrip("?").split())
        about[subject].append((fact, question))
    for subject, asked in about.items():
        pronoun = "it" if subject in facts.SERVICES else "she"
        for fact, question in asked:
            reply, before = chance.choice([other for other in asked if other[1] != question])
            follows = re.sub(rf"\b{subject}\b", pronoun, question)
            yield Pair(before, reply, question, f"And {follows[0].lower()}{follows[1:]}", fact, subject)


def after_an_answer(pair: Pair) -> str:
    """What is searched for once the first question was answered."""
    return in_context(pair.follows, pair.before, names_answered(pair.before, pair.reply, ""))[0]


def row(provider: PgvectorMemoryProvider, way: str, asked: list[tuple[str, Pair]]) -> dict[str, Any]:
    """What is shown for the messages."""
    found = [(pair, shown(provider, facts.THEME, text)) for text, pair in asked]
    other = [bool(shown(provider, _OTHER_THEME, text)) for text, _ in asked]
    return {
        "asked": way,
        "n": len(asked),
        "answered": f"{statistics.fmean(pair.fact in lines for pair, lines in found):.3f}",
        "false": f"{statistics.fmean(other):.3f}",
        "others": f"{statistics.fmean(sum(pair.subject not in line for line in lines) for pair, lines in found):.1f}",
    }


def main() -> None:
    """Load, ask, print."""
    parser = options(__doc__)
    args = parser.parse_args()
    corpora, args.corpus = args.corpus, [LOCOMO]
    args.embed_url, args.scale, args.rerank = None, 0.0, False
    asked = list(pairs())
    with store(args, themes_of(args)[:1]) as provider:
        rows = [
            row(provider, "alone", [(pair.follows, pair) for pair in asked]),
            row(provider, "in context", [(in_context(pair.follows, pair.before)[0], pair) for pair in asked]),
            row(provider, "after an answer", [(after_an_answer(pair), pair) for pair in asked]),
            row(provider, "named", [(pair.named, pair) for pair in asked]),
        ]
    common.report("quality/follow_up", {"model": None if args.no_model else args.model_name}, rows, args.json)
    taken = [{"corpus": "these", "n": len(asked), "taken for one": sum(is_follow_up(pair.follows) for pair in asked)}]
    for name in corpora:
        args.corpus = [name]
        texts = [question.text for theme in themes_of(args) for question in theme.questions]
        taken.append({"corpus": name, "n": len(texts), "taken for one": sum(map(is_follow_up, texts))})
    common.report("quality/follow_up, taken for one", {}, taken, None)


if __name__ == "__main__":
    main()

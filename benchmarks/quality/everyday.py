"""How often an everyday request gets a line before a turn though nothing in the theme is meant, on every corpus.

Asks as the provider does for each turn (see threshold.py): each theme's own questions (`answered`: a text that answers
is among the lines), questions about the next theme of the corpus (`others`: any line is shown), and requests that have
nothing to do with any theme (`requests`: any line is shown), without those that the provider never searches for. Any
file of the form of corpora.py is read. With `--no-model` also the bar of words moved.

    python everyday.py --data DIR --no-model [--corpus NAME ...] [--themes N] [--every N] [--held]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
from corpora import Theme
from recall import loaded, options, themes_of
from standalone import REQUESTS
from threshold import Case, asked_of, rates, same

from hermes_memory_pgvector.capture.turn_filter import is_trivial_query

BARS: dict[str, dict[str, float]] = {
    "as shipped": {},
    "35 % of the words": {"WORDS_COVERAGE": 0.35, "WORDS_CERTAINTY": 0.0},
    "40 % of the words": {"WORDS_COVERAGE": 0.40, "WORDS_CERTAINTY": 0.0},
    "certainty .22": {"WORDS_CERTAINTY": 0.22},
    "certainty .24": {"WORDS_CERTAINTY": 0.24},
}
_MORE = """
Write an email that declines a meeting.
Plan a three-day trip to Rome.
Proofread this paragraph for me.
Can you check my spelling?
What time is it in New York?
Make it shorter.
Generate a random password.
How far is the moon?
Who invented the telephone?
Convert 100 dollars to euros.
Recommend a good science fiction book.
Help me plan a birthday party.
What does the word ubiquitous mean?
Write a cover letter for a teaching job.
How do I center a div in CSS?
Sort these numbers: 4, 9, 1, 7.
Create a table with two columns.
What are the symptoms of a cold?
Suggest a name for a bakery.
Which country has the most people?
Turn this list into JSON.
Good morning, how are you?
Please rewrite this in a friendlier tone.
Sounds good, let's do that.
What is the meaning of life?
How many calories are in a banana?
Write a SQL query that counts rows per day.
Give me a workout plan for beginners.
Can you summarize this article?
What's the weather like today?
Explain how a car engine works.
List ten ideas for a blog post.
Tell me a fun fact.
How do I get better at chess?
Who wrote Pride and Prejudice?
What is 15 percent of 80?
Show me an example of a for loop in Java.
Can you make a picture of a dog?
Why do cats purr?
What are some good movies to watch?
How do I tie a tie?
Could you add some comments to the code?
Draw a diagram of the water cycle.
When was the French Revolution?
Remind me to call back later.
Find the bug in this script.
Set a timer for ten minutes.
What languages are spoken in Belgium?
Is a tomato a fruit?
"""


def cases(themes: Sequence[Theme], *, every: int, held: bool) -> Iterator[Case]:
    """Everything that is asked of the themes of one corpus, of one half of the questions and of the requests."""
    requests = [text for text in (*REQUESTS, *_MORE.strip().splitlines()) if not is_trivial_query(text)]
    for about, other in zip(themes, [*themes[1:], themes[0]], strict=True):
        asked = [each for each in about.questions if each.held == held][::every]
        for each in asked:
            gold = frozenset(turn.text for turn in about.turns if turn.name in each.gold)
            yield Case("answered", about.name, each.text, gold)
            if other is not about:
                yield Case("others", other.name, each.text)
        for text in requests[int(held) :: 2]:
            yield Case("requests", about.name, text)


def main() -> None:
    """Load, ask, print."""
    parser = options(__doc__)
    parser.add_argument("--every", type=int, default=2, metavar="N", help="of a half's questions one of N is asked")
    parser.add_argument("--held", action="store_true", help="the half held out, to be looked at once")
    args: argparse.Namespace = parser.parse_args()
    themes, rows = themes_of(args), []
    with loaded(args, themes) as (provider, _):
        for corpus in args.corpus:
            mine = [each for each in themes if each.corpus == corpus]
            found = [asked_of(provider, case) for case in cases(mine, every=args.every, held=args.held)]
            counted = {
                kind: sum(each.case.group == kind for each in found) for kind in ("answered", "others", "requests")
            }
            for name, constants in BARS.items() if args.no_model else [("as shipped", {})]:
                row: dict[str, Any] = {"corpus": corpus, "bar": name, "n": "/".join(map(str, counted.values()))}
                rows.append(row | rates(found, same, **constants))
    common.report("quality/everyday", {"held": args.held, "every": args.every}, rows, args.json)


if __name__ == "__main__":
    main()

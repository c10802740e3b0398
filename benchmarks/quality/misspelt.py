"""Questions with a typing error: is what answers them still put before the turn?

The questions of threshold.py, each with one error in one of its words of six letters or more: two letters swapped, one
left out, one twice, or another one in its place. `answered` and `false` are as there. `mended`: `no`; in `words`,
while the vector is that of the text as it was written; by words of the `theme` alone, as with an endpoint; with the
word that is `meant` alone, as if it could not be right as it was written; in `both`, as shipped with the bundled model.

    python misspelt.py --data DIR [--model-dir DIR | --no-model] [--every N]
"""

from __future__ import annotations

import argparse
import random
import statistics
import string
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
from corpora import LOCOMO
from recall import options, themes_of
from several import shown
from threshold import EVERY, Case, cases, store

from hermes_memory_pgvector.embed.http_embedder import HttpEmbedder
from hermes_memory_pgvector.embed.onnx import OnnxEmbedder
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall import search
from hermes_memory_pgvector.recall.searcher import Searcher
from hermes_memory_pgvector.store.lexical import LexicalSearch
from tests.support.model_files import model_dir

_LEAST = 6  # letters of a word that gets an error; not its first one, nor its last one
_OTHERS = ("requests", "a word in common")  # groups without questions

Error = Callable[[str, int, random.Random], str]
ERRORS: dict[str, Error] = {
    "none": lambda word, at, chance: word,
    "swapped": lambda word, at, chance: word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    "left out": lambda word, at, chance: word[:at] + word[at + 1 :],
    "twice": lambda word, at, chance: word[:at] + word[at] + word[at:],
    "another": lambda word, at, chance: word[:at] + chance.choice(string.ascii_lowercase) + word[at + 1 :],
}


def misspelt(question: str, error: Error) -> str:
    """The question with one error; which word gets it is the same each time, and no name does."""
    chance, words = random.Random(question), question.split()
    long = [at for at, word in enumerate(words) if len(word) >= _LEAST and word[0].islower()]
    if long:
        at = chance.choice(long)
        words[at] = error(words[at], chance.randrange(1, len(words[at]) - 2), chance)
    return " ".join(words)


def rates(provider: PgvectorMemoryProvider, asked: Iterable[Case], error: Error) -> dict[str, str]:
    """A column for each group and whether its questions have an answer."""
    counted: dict[str, list[bool]] = {}
    for case in asked:
        found = shown(provider, case.theme, misspelt(case.question, error))
        if case.answers:
            counted.setdefault(f"answered: {case.group}", []).append(not case.answers.isdisjoint(found))
        else:
            counted.setdefault(f"false: {case.group}", []).append(bool(found))
    return {name: f"{statistics.fmean(values):.3f} of {len(values)}" for name, values in sorted(counted.items())}


def ways() -> dict[str, AbstractContextManager[Any]]:
    """What is mended, and how the program is made to mend only that."""
    return {
        "no": mock.patch.object(LexicalSearch, "look_for_slips", LexicalSearch._take_rows),
        "words": mock.patch.object(search, "respelt", lambda text, meant: text),
        "theme": mock.patch.object(search, "common_words_meant", lambda text, unheld, rank: {}),
        "meant": mock.patch.object(Searcher, "_answer", Searcher._best),
        "both": nullcontext(),
    }


def table(provider: PgvectorMemoryProvider, asked: list[Case]) -> list[dict[str, Any]]:
    """A row for each error, and way to mend it."""
    rows = []
    for name, error in ERRORS.items():
        for mended, way in ways().items():
            if name != "none" or mended in ("no", "both"):
                with way:
                    rows.append({"error": name, "mended": mended} | rates(provider, asked, error))
    return rows


def words_of(args: argparse.Namespace) -> AbstractContextManager[Any]:
    """Let the endpoint, whose vectors are cached, tell what the model in the agent's process tells of words."""
    if args.no_model:
        return nullcontext()
    model = OnnxEmbedder(folder=args.model_dir or model_dir(), dims=args.dims)
    model.embed_query("loads it", timeout_s=600)
    model.model = args.model_name
    return mock.patch.object(HttpEmbedder, "rank_of_word", lambda self, word: model.rank_of_word(word))


def main() -> None:
    """Load, ask, print."""
    parser = options(__doc__)
    parser.add_argument("--every", type=int, default=EVERY, help="of the questions about conversations one is asked")
    args = parser.parse_args()
    args.corpus, args.embed_url, args.scale, args.rerank = [LOCOMO], None, 0.0, False
    themes = themes_of(args)
    asked = [case for case in cases(themes, args.every) if not case.group.startswith(_OTHERS)]
    with common.postgres() as server:
        args.dsn = args.dsn or server.database(args.dims, trigrams=True)
        with words_of(args), store(args, themes) as provider:
            rows = table(provider, asked)
    common.report("quality/misspelt", {"model": None if args.no_model else args.model_name}, rows, args.json)


if __name__ == "__main__":
    main()

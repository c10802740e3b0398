"""How many rows must be compared by their vectors, when what is near is told by bits? With real sentences.

Recall@10 of the exact order among the rows that are nearest by one bit for each number of a vector, and by the three of
`hermes_code`. Own: each corpus' questions against all corpora; foreign: those of LoCoMo against the other corpora. Only
what the cache of vectors.py holds is looked at: fill that first.

    codes.py --data DIR --model-dir DIR [--cache FILE] [--json FILE]      DIR holds beam100k.json and others
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
import numpy as np
from corpora import read_corpus
from vectors import CachedModel

from hermes_memory_pgvector.domain.chunks import chunk_spans, estimate_tokens

CORPORA = ("beam100k", "lifebench_en", "locomo10")
PREFIX = "Represent this sentence for searching relevant passages: "
DEPTHS = (100, 150, 200, 300, 400, 1200)
K, QUESTIONS, PART = 10, 250, 400
WAYS: dict[str, tuple[float, ...]] = {"one bit": (0.0,), "three bits": (0.6, 0.0, -0.6)}


def parts(text: str) -> list[str]:
    """The text as it is embedded."""
    return [text[a:b] for a, b in chunk_spans(text, PART)] if estimate_tokens(text) > PART else [text]


def known(model: CachedModel, texts: Sequence[str]) -> Any:
    """The vectors that the cache holds of `texts`, each once."""
    lacking = set(model.missing(texts))
    found = model.embed_all(sorted(set(texts) - lacking))
    return np.unique(np.array(found, dtype=np.float32), axis=0)


def bits(vectors: Any, thresholds: tuple[float, ...]) -> Any:
    """For each number of each vector whether it is above the thresholds, in units of 1/sqrt(dims)."""
    unit = 1 / np.sqrt(vectors.shape[1])
    return np.concatenate([(vectors > -one * unit) for one in thresholds], axis=1).astype(np.float32)


def recall(rows: Any, questions: Any, thresholds: tuple[float, ...]) -> dict[str, str]:
    """Recall@10 by depth."""
    likeness = questions @ rows.T
    tenth = np.sort(likeness, axis=1)[:, -K]
    asked, stored = bits(questions, thresholds), bits(rows, thresholds)
    differing = asked.sum(1)[:, None] + stored.sum(1)[None] - 2 * asked @ stored.T
    order = np.argsort(differing, axis=1, kind="stable")
    held = np.take_along_axis(likeness, order, axis=1) >= tenth[:, None] - 1e-6
    return {str(depth): f"{min(1.0, held[:, :depth].sum(1).mean() / K):.3f}" for depth in DEPTHS}


def main() -> None:
    """Read, compare, print."""
    options = common.parser(__doc__)
    options.add_argument("--data", type=Path, required=True, metavar="DIR")
    options.add_argument("--model-dir", type=Path, required=True, metavar="DIR")
    options.add_argument("--cache", type=Path, metavar="FILE")
    args = options.parse_args()
    model = CachedModel(args.model_dir, args.cache)
    rows, questions = {}, {}
    for name in CORPORA:
        themes = read_corpus(args.data, name)
        rows[name] = known(model, [part for theme in themes for turn in theme.turns for part in parts(turn.text)])
        questions[name] = known(model, [PREFIX + asked.text for theme in themes for asked in theme.questions])
    dice = np.random.default_rng(common.SEED)
    kinds = {
        "own": (np.concatenate(list(rows.values())), np.concatenate(list(questions.values()))),
        "foreign": (np.concatenate([rows[name] for name in CORPORA[:2]]), questions[CORPORA[2]]),
    }
    table = [
        {"": f"{way}, {kind}"} | recall(stored, asked[dice.permutation(len(asked))[:QUESTIONS]], thresholds)
        for kind, (stored, asked) in kinds.items()
        for way, thresholds in WAYS.items()
    ]
    counted = {f"rows of {name}": len(found) for name, found in rows.items()}
    common.report("quality/codes", counted | {"questions": QUESTIONS}, table, args.json)


if __name__ == "__main__":
    main()

"""Questions in German, Spanish and French to a model for English: what is put before the turn?

Two themes in each language (foreign_texts.py), every other statement said in conversation, the rest remembered.
`answered`: share of the questions whose answer is among the lines shown. `useless`: lines that do not answer such a
question, on average. `false`: share of those with any line, of the same questions to the other theme of their language,
and of messages that no theme answers. `above`: how much nearer than to an English question a row must be, in spreads,
to be chosen without the themes that are held out.

    python foreign.py [--model-dir DIR | --no-model] [--rerank]
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
from corpora import Theme, Turn
from foreign_texts import THEMES
from recall import options
from several import shown
from threshold import store

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall import bars

ABOVE = (0.0, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0)
PARTS = {"chosen on": "-home", "held out": "-work"}
_BEGAN = datetime(2026, 3, 2, 18, tzinfo=UTC)


def themes() -> list[Theme]:
    """The statements as turns and memories of a day each."""
    made = []
    for name, statements in THEMES.items():
        turns = [
            Turn(str(day), str(day), "memory" if day % 2 else "user", "", each.memory, _BEGAN + timedelta(days=day))
            for day, each in enumerate(statements)
        ]
        made.append(Theme("foreign", name, tuple(turns), ()))
    return made


def other_theme(name: str) -> str:
    """The other theme of the same language."""
    language = name.partition("-")[0]
    return next(each for each in THEMES if each != name and each.startswith(f"{language}-"))


def rates(provider: PgvectorMemoryProvider, names: Iterable[str]) -> dict[str, str]:
    """The columns of a table's row for some themes."""
    answered, useless, strange, aside = [], [], [], []
    for name in names:
        for each in THEMES[name]:
            found = shown(provider, name, each.question)
            answered.append(each.memory in found)
            useless.append(len(found - {each.memory}))
            strange.append(bool(shown(provider, other_theme(name), each.question)))
            aside.append(bool(shown(provider, name, each.aside)))
    return {
        "answered": f"{statistics.fmean(answered):.3f} of {len(answered)}",
        "useless": f"{statistics.fmean(useless):.2f}",
        "false: questions of the other theme": f"{statistics.fmean(strange):.3f} of {len(strange)}",
        "false: messages": f"{statistics.fmean(aside):.3f} of {len(aside)}",
    }


def table(provider: PgvectorMemoryProvider) -> list[dict[str, Any]]:
    """A row for each distance, and half of the themes."""
    rows = []
    for part, names in PARTS.items():
        for above in ABOVE:
            with mock.patch.object(bars, "OTHER_LANGUAGE_ABOVE", above):
                found = rates(provider, [name for name in THEMES if name.endswith(names)])
            rows.append({"themes": part, "above": above} | found)
    return rows


def main() -> None:
    """Load, ask, print."""
    parser = options(__doc__, data=False)
    parser.add_argument("--rerank", action="store_true", help="let the bundled cross-encoder score what is found")
    args = parser.parse_args()
    args.embed_url, args.scale = None, 0.0
    with store(args, themes()) as provider:
        rows = table(provider)
    model = None if args.no_model else args.model_name
    common.report("quality/foreign", {"model": model, "rerank": args.rerank}, rows, args.json)


if __name__ == "__main__":
    main()

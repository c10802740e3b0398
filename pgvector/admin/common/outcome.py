"""The result of an operator's verb: one type, printed in one way for people and as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ...domain.format import plural
from ...domain.text import harmless
from .commands import printed
from .console import say

_ONE = {"memories": "memory", "entries": "entry"}
ADD_YES = "nothing was changed: add --yes"


@dataclass
class Outcome:
    """What a verb did or, if `done` is False, what it would do.

    `rows` are the rows concerned; `facts` are further keys of the JSON; `notes` are further remarks, and `hints` those
    that only a person needs.
    """

    verb: str
    done: bool
    counts: dict[str, int]
    rows: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the object that --json prints."""
        told = {"verb": self.verb, "done": self.done, "rows": self.rows, "counts": self.counts, "notes": self.notes}
        return told | self.facts


def print_outcome(args: argparse.Namespace, outcome: Outcome, show: Callable[[], None], summary: str = "") -> int:
    """Print an outcome as `printed` does and return the exit code; for people the notes and the summary follow."""

    def tell() -> None:
        show()
        for note in (*outcome.notes, *outcome.hints):
            say(f"note: {note}")
        if summary:
            say(summary)

    return printed(args, outcome.as_json(), tell)


def counted(counts: Mapping[str, int], *, also_none: bool = False) -> str:
    """Return text such as `1 memory, 2 turns`; zero counts are left out unless `also_none`."""
    told = [plural(count, *_noun(name)) for name, count in counts.items() if count or also_none]
    return ", ".join(told) or "nothing"


def changed_by_others(count: int) -> str:
    """Return a warning about `count` planned rows that were not found again when their turn came."""
    return (
        f"{plural(count, 'planned row')} left out: changed or deleted by somebody else meanwhile, or moved to another "
        "theme; run it again"
    )


def _noun(name: str) -> tuple[str, str]:
    """Return the singular and the plural for the name of a count, such as `turns` or `secrets_masked`."""
    words = "earlier texts" if name == "texts" else name.replace("_", " ")
    what, _, more = words.partition(" ")
    one = "earlier text" if name == "texts" else f"{_ONE.get(what, what.removesuffix('s'))} {more}".strip()
    return one, words


def first_of(names: Sequence[str], most: int) -> str:
    """Return the first `most` names as text; `...` stands for the others."""
    return harmless(", ".join(names[:most])) + (", ..." if len(names) > most else "")


def fit_for_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its times converted to ISO text."""
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in row.items()}

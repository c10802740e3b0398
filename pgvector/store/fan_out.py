"""Questions about all themes where the tables are spread over machines: each theme is asked by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from ..domain.errors import OperationRejected
from ..domain.gil import in_slices
from ..domain.types import Store

MOST_THEMES = 50  # each takes a dozen small statements
_AT_ONCE = 40  # statements in a round trip, few enough that one does not use up what is left of a deadline

Asked = tuple[str, Mapping[str, Any]]  # the name of a statement, and its parameters
Send = Callable[[Sequence[Asked]], Sequence[Iterable[Any]]]


def ask_each_theme(asked: Sequence[Asked], send: Send) -> list[Iterable[Any]]:
    """Return the rows of each statement; those about all themes are sent for every theme that the session may read.

    Their rows come one theme after the other. `send` makes one round trip.

    Raises OperationRejected if there are more than MOST_THEMES.
    """
    wide = {_reach(name, row): (name, row) for name, row in asked if row.get("any_theme")}
    found = send([_themes_asked(name, row) for name, row in wide.values()])
    themes = {reach: [each.theme for each in rows] for reach, rows in zip(wide, found, strict=True)}
    sent = [
        _of_each(name, row, themes[_reach(name, row)]) if row.get("any_theme") else [(name, row)] for name, row in asked
    ]
    listed = list(chain.from_iterable(sent))
    answers = chain.from_iterable(map(send, in_slices(listed, _AT_ONCE)))
    return [chain.from_iterable([next(answers) for _ in each]) for each in sent]


def _reach(name: str, row: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what is the same for statements that the same themes answer."""
    among = (_store(name), *row["ids"]) if "ids" in row else ()
    return row["own"], *row["shared"], among


def _themes_asked(name: str, row: Mapping[str, Any]) -> Asked:
    """Return the statement that finds the themes to ask: those of the given rows, or all that can be read."""
    if "ids" in row:
        return f"themes_holding_{_store(name)}", row
    return "readable_themes", {**row, "most": MOST_THEMES + 1}


def _store(name: str) -> Store:
    return "memories" if name.endswith("memories") else "turns"


def _of_each(name: str, row: Mapping[str, Any], themes: Sequence[str]) -> list[Asked]:
    if len(themes) > MOST_THEMES:
        raise OperationRejected(
            f"more than {MOST_THEMES} themes are spread over machines, where each is asked by itself: name one"
        )
    return [(name.replace("_all", ""), {**row, "theme": theme, "any_theme": False}) for theme in themes]

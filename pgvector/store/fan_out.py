"""Questions about all themes where the tables are spread over machines: each theme is asked by itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from ..domain.errors import OperationRejected

MOST_THEMES = 100  # each takes a dozen small statements

Asked = tuple[str, Mapping[str, Any]]  # the name of a statement, and its parameters
Send = Callable[[Sequence[Asked]], Sequence[Iterable[Any]]]


def ask_each_theme(asked: Sequence[Asked], send: Send) -> list[Iterable[Any]]:
    """Return the rows of each statement; those about all themes are sent for every theme that the session may read.

    Their rows come one theme after the other. `send` makes one round trip; it is called twice.

    Raises OperationRejected if there are more than MOST_THEMES.
    """
    wide = [(name, row) for name, row in asked if row.get("any_theme")]
    themes = iter(send([_themes_asked(name, row) for name, row in wide]))
    sent = [_of_each(name, row, next(themes)) if row.get("any_theme") else [(name, row)] for name, row in asked]
    found = iter(send(list(chain.from_iterable(sent))))
    return [chain.from_iterable([next(found) for _ in each]) for each in sent]


def _themes_asked(name: str, row: Mapping[str, Any]) -> Asked:
    """Return the statement that finds the themes to ask: those of the given rows, or all that can be read."""
    if "ids" in row:
        return f"themes_holding_{'memories' if name.endswith('memories') else 'turns'}", row
    return "readable_themes", {**row, "most": MOST_THEMES + 1}


def _of_each(name: str, row: Mapping[str, Any], themes: Iterable[Any]) -> list[Asked]:
    named: Collection[str] = [found.theme for found in themes]
    if len(named) > MOST_THEMES:
        raise OperationRejected(
            f"more than {MOST_THEMES} themes are spread over machines, where each is asked by itself: name one"
        )
    return [(name.replace("_all", ""), {**row, "theme": theme, "any_theme": False}) for theme in named]

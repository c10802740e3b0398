"""Asks what was told at a time: which rows were, with what sessions began, and which memories are of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..domain.named_times import TimeSpan
from ..domain.types import Filters, Scope, Store
from .pipeline import Pipeline, Rows
from .vector_search import themes_of, where

MOST_TOLD = 500  # the last rows of a period that are searched for beginnings of sessions, or for the newest memories
BEGINNINGS = 20  # rows taken from these
END_TURNS = 6  # turns that are the end of a session


def ask_told(
    pipe: Pipeline, store: Store, scope: Scope, ids: Sequence[int], spans: Sequence[TimeSpan], session: str | None
) -> Rows:
    """Ask which of the rows `ids`, of turns those of `session`, were told in (`told` is 2) or around (1) `spans`."""
    row = {"ids": list(ids), "told_in": session} | _periods(spans)
    return pipe.ask(f"told_{store}", row | themes_of(scope))


def ask_first(
    pipe: Pipeline, store: Store, scope: Scope, filters: Filters, spans: Sequence[TimeSpan], session: str | None
) -> Rows:
    """Ask for the turns with which the theme's sessions, or only `session`, began in `spans`: the firsts first.

    Of memories for those of `spans`, newest first.
    """
    row = {"most": MOST_TOLD, "limit": BEGINNINGS, "told_in": session} | _periods(spans)
    return pipe.ask("beginnings" if store == "turns" else "latest_memories", where(scope, filters) | row)


def ask_session_span(pipe: Pipeline, scope: Scope, which: str, besides: Sequence[str]) -> Rows:
    """Ask for the theme's `first` or `last` session besides some and its period, or that of the last one's `end`."""
    row = {"which": which, "besides": list(besides), "turns": END_TURNS}
    return pipe.ask("session_span", themes_of(scope) | row)


def _periods(spans: Sequence[TimeSpan]) -> dict[str, Any]:
    return {"starts": [span.start for span in spans], "ends": [span.end for span in spans]}

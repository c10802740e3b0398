"""Several look-ups on one connection, each of several statements, in as few round trips as the longest one takes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from psycopg import Cursor

from .connection import DeadlineConnection
from .sql import query

_T = TypeVar("_T")
Ask = tuple[str, dict[str, Any]]  # the name of a statement, and its parameters
# A look-up yields what it asks next, is sent what each of that has found, and returns what it makes of it all.
LookUp = Generator[list[Ask], list[Cursor[Any]], _T]


def together(conn: DeadlineConnection, lookups: Sequence[LookUp[_T]]) -> list[_T]:
    """What each look-up returns. All go on in step: what they ask at a time travels together."""
    results: dict[int, _T] = {}
    found: dict[int, list[Cursor[Any]] | None] = dict.fromkeys(range(len(lookups)))
    while found:
        asked: dict[int, list[Ask]] = {}
        for number, rows in found.items():
            try:
                asked[number] = next(lookups[number]) if rows is None else lookups[number].send(rows)
            except StopIteration as stop:
                results[number] = stop.value
        with nullcontext() if sum(map(len, asked.values())) < 2 else conn.pipeline():
            found = {number: [_ask(conn, each) for each in some] for number, some in asked.items()}
    return [results[number] for number in range(len(lookups))]


def alone(conn: DeadlineConnection, lookup: LookUp[_T]) -> _T:
    """What one look-up returns."""
    return together(conn, [lookup])[0]


def _ask(conn: DeadlineConnection, ask: Ask) -> Cursor[Any]:
    name, parameters = ask
    return conn.execute(query(name, own_themes=conn.own_themes), parameters)

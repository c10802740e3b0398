"""Several look-ups in step on one connection."""

from __future__ import annotations

import pytest

from hermes_memory_pgvector.domain.errors import SchemaNotApplied
from hermes_memory_pgvector.store.connection import translated
from hermes_memory_pgvector.store.pipelining import LookUp, alone, together
from hermes_memory_pgvector.store.pool import connect


def asking(rounds: int, at_once: int = 1) -> LookUp[int]:
    """Ask so many times; returns how many rows came."""
    came = 0
    for _ in range(rounds):
        answers = yield [("read_space", {})] * at_once
        came += sum(len(rows.fetchall()) for rows in answers)
    return came


def test_each_look_up_gets_its_own_answers_in_its_own_time(dsn: str) -> None:
    with connect(dsn) as conn:
        assert together(conn, [asking(2), asking(0), asking(3, at_once=2), asking(1)]) == [2, 0, 6, 1]
        assert alone(conn, asking(1, at_once=3)) == 3
        assert together(conn, list[LookUp[int]]()) == []


def test_what_fails_in_one_is_told_and_leaves_the_connection_usable(dsn: str, admin_dsn: str) -> None:
    with connect(admin_dsn) as owner:
        owner.execute(b"ALTER TABLE hermes_embedding RENAME TO hermes_embedding_away")
    with connect(dsn) as conn:
        with pytest.raises(SchemaNotApplied), translated():
            together(conn, [asking(1), asking(2)])
        assert conn.execute(b"SELECT 1 AS one").fetchone() == (1,)

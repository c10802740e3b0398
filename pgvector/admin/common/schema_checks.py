"""Checks of the tables for operators, beyond what an agent checks: rights, indexes, versions."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...store.connection import DeadlineConnection, translated
from ...store.sql import query
from .fetching import one
from .role_rights import functions_out_of_reach
from .row_security import has_own_themes

OLDEST_POSTGRES, OLDEST_PGVECTOR = 15, (0, 8)
# Where the server's own locale is of another encoding, or C, the database needs one of its own.
CREATE_DATABASE = "CREATE DATABASE hermes_memory ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0"
_query = partial(query, package=__package__)


def invalid_indexes(conn: DeadlineConnection) -> list[str]:
    """Return the names of our indexes that are invalid, as an interrupted concurrent build leaves them."""
    with translated():
        return [row.name for row in conn.execute(_query("invalid_indexes"))]


def excess_rights(conn: DeadlineConnection) -> list[str]:
    """Return what the current role may do beyond reading and writing rows; the runtime role should have nothing."""
    with translated():
        row = one(conn, _query("own_rights"))
    names = ("is a superuser", "may create objects in the schema", "owns the tables")
    return [name for name, has in zip(names, row, strict=True) if has]


def missing_rights(conn: DeadlineConnection) -> list[str]:
    """Return the rights on our tables that the current role lacks; a confined role needs none on the log."""
    with translated():
        asked = {"confined": has_own_themes(conn)}
        lacking = [row.lacking for row in conn.execute(_query("lacking_rights"), asked)]
    functions = [f"functions of {row.extension}" if row.extension else row.name for row in functions_out_of_reach(conn)]
    return lacking + [f"EXECUTE on {name}" for name in dict.fromkeys(functions)]


def functions_astray(conn: DeadlineConnection) -> list[Any]:
    """Return our functions whose search path does not lead to our tables: `name`, `looks_in`, `home`, right `path`."""
    with translated():
        return conn.execute(_query("functions_astray")).fetchall()


def versions(conn: DeadlineConnection) -> tuple[str, str]:
    """Return the versions of Postgres and of pgvector; the latter is empty if the extension is missing."""
    with translated():
        row = one(conn, _query("versions"))
    return row.postgres, row.pgvector


def has_trigrams(conn: DeadlineConnection) -> bool:
    """Return True if the database has pg_trgm, with which a misspelt word can be found."""
    with translated():
        return conn.execute("SELECT to_regprocedure('similarity(text,text)') IS NOT NULL").fetchone() == (True,)

"""The plans with which Postgres runs the product's statements."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import psycopg
from pgvector import Vector

from tests.support.statements import every_statement

# For each question of a connection Postgres makes a plan anew, or takes a generic one after some: it is one of these.
Mode = Literal["custom", "generic"]
MODES: tuple[Mode, ...] = ("custom", "generic")
_TYPES = {
    "theme": "text", "session_id": "text", "target": "text", "vector": "vector", "depth": "bigint", "limit": "bigint",
    "matchers": "text[]", "holding": "float8[]", "match": "text", "recent": "boolean", "exact": "boolean",
    "whole": "boolean", "rows": "float8", "role": "text", "text": "text", "ids": "bigint[]",
    "any_theme": "boolean", "since": "text", "until": "text", "reach": "bigint",
    "pivot": "float8", "signed": "bigint", "walked": "bigint",
    "themes": "text[]", "digests": "bytea[]", "own": "text", "shared": "text[]", "words": "text[]", "kinds": "text[]",
    "lookup": "bigint", "lookups": "bigint[]", "known": "bigint[]",
}  # fmt: skip
_USUAL: Mapping[str, Any] = {
    "depth": 400,
    "signed": 400,
    "limit": 40,
    "lookup": 0,
    "lookups": [],
    "known": [],
    "reach": 2,
    "pivot": 45,
    "since": "-infinity",
    "until": "infinity",
}


def explained(
    connection: psycopg.Connection[Any], name: str, row: Mapping[str, Any], mode: Mode
) -> list[dict[str, Any]]:
    """Every node of the plan with which Postgres ran the statement `name`, prepared as psycopg prepares it.

    Settings made for a transaction count: open one around this call.
    """
    statement = every_statement()[name].replace("%%", "%")
    used = [parameter for parameter in _TYPES if f"%({parameter})s" in statement]
    for number, parameter in enumerate(used, 1):
        statement = statement.replace(f"%({parameter})s", f"${number}")
    known = {**_USUAL, "own": row.get("theme"), "shared": [], **row}
    given = [_literal(known.get(parameter)) for parameter in used]
    with psycopg.ClientCursor(connection) as cursor:
        cursor.execute(f"SET plan_cache_mode = force_{mode}_plan".encode())
        types = ", ".join(_TYPES[parameter] for parameter in used)
        cursor.execute(f"PREPARE hot ({types}) AS {statement}".encode())
        run = f"EXECUTE hot ({', '.join(['%s'] * len(used))})"
        found = cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {run}".encode(), given).fetchone()
        cursor.execute("DEALLOCATE hot")
    assert found is not None
    plan = found[0] if isinstance(found[0], list) else json.loads(found[0])
    return list(_nodes(plan[0]["Plan"]))


def read_whole(nodes: list[dict[str, Any]]) -> list[str]:
    """The tables that the plan read from end to end."""
    return [node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan" and node["Actual Loops"]]


def indexes(nodes: list[dict[str, Any]]) -> set[str]:
    """The indexes that the plan used."""
    return {node["Index Name"] for node in nodes if "Index Name" in node and node["Actual Loops"]}


def _literal(value: Any) -> Any:
    return Vector(value) if isinstance(value, list) and value and isinstance(value[0], float) else value


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)

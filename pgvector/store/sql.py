"""Loads the named statements of the folder queries. No SQL is put together anywhere else."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)

_CONFINED = (
    (
        re.compile(r"FROM (memory_entries|conversations)\s+WHERE tsv @@ (.*?)\),\n", re.DOTALL),
        r"FROM \1 WHERE id = ANY (ARRAY(SELECT hermes_rows_with('\1', \2, current_user)))),\n",
    ),
    (
        re.compile(r"substr\(hermes_digest\(c\.content\), 1, 8\) = substr\(wanted\.digest, 1, 8\)"),
        "c.id = ANY (ARRAY(SELECT hermes_turns_like(wanted.digest, current_user)))",
    ),
    (
        re.compile(
            r"EXPLAIN \(FORMAT JSON\) SELECT FROM (memory_entries|conversations) "
            r"WHERE agent_identity = (%\(theme\)s) OR (%\(any_theme\)s)"
        ),
        r"SELECT hermes_expected_rows('\1', CASE WHEN NOT \3::boolean THEN \2 END, current_user)",
    ),
    (  # From each point of the sample the index is walked to the next row of an own theme, which may be far.
        re.compile(
            r"THEN 300 (ELSE 0 END\) AS k\s+CROSS JOIN LATERAL \([^()]*id >= span\.first \+ span\.width \* k / )301"
        ),
        r"THEN 40 \g<1>41",
    ),
)


@cache
def queries() -> dict[str, str]:
    """Every statement by its name."""
    named: dict[str, str] = {}
    for file in files(__package__).joinpath("queries").iterdir():
        parts = _NAME.split(file.read_text(encoding="utf-8"))
        named |= {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    return named


def query(name: str, *, own_themes: bool = False) -> bytes:
    """The statement `name`; with `own_themes` as a role sends it that row-level security confines."""
    return (_for_own_themes(name) if own_themes else queries()[name]).encode()


@cache
def _for_own_themes(name: str) -> str:
    """The statement, with functions of migrations/optional/row_security.sql where a policy would keep an index out."""
    statement = queries()[name]
    for pattern, instead in _CONFINED:
        statement = pattern.sub(instead, statement)
    return statement

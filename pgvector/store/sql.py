"""Loads the named statements of SQL files: the folder queries, and those beside a feature of the operator's tool."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from ..domain.fork_safety import at_import

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_CONDITION = re.compile(r"^-- condition: (\w+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)
_ROW = re.compile(r"\bt\.")
_CONDITIONS_FILE = "conditions.sql"


def _rows_with_words(found: re.Match[str]) -> str:
    """Rows by their words, from the function that knows which of the index are the role's own."""
    columns, table, words = found.groups()
    function = {"memory_entries": "hermes_memories_with", "conversations": "hermes_turns_with"}[table]
    theme = "%(theme)s" if "%(theme)s" in words else "NULL"
    if "%(any_theme)s" in words:
        theme = f"CASE WHEN NOT %(any_theme)s::boolean THEN {theme} END"
    return f"AS ({columns}FROM {function}({theme}, {words}, current_user)),\n"


_CONFINED: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(
            r"AS MATERIALIZED \((\s+SELECT [\w, ]+ )FROM (memory_entries|conversations)\s+WHERE tsv @@ (.*?)\),\n",
            re.DOTALL,
        ),
        _rows_with_words,
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
            r"generate_series\(1, 300(\) AS k\s+CROSS JOIN LATERAL \([^()]*id >= span\.first \+ span\.width \* k / )301"
        ),
        r"generate_series(1, 40\g<1>41",
    ),
)


@cache
def queries(package: str = "") -> dict[str, str]:
    """Return every statement in the SQL files of `package`, by its name; shared conditions are written out.

    `package` is the `__package__` of a feature of the operator's tool that keeps its SQL beside its code; empty for
    what agents ask, in the folder queries.
    """
    with at_import:  # what reads a package's files is imported when it is first needed
        own = files(__package__).joinpath("queries")
        folder = files(package) if package else own
    conditions = _parts(_CONDITION, own.joinpath(_CONDITIONS_FILE).read_text(encoding="utf-8"))
    used = re.compile(rf"\b({'|'.join(conditions)})\((\w+)\)")

    def written_out(found: re.Match[str]) -> str:
        name, row = found.groups()
        return "(" + _ROW.sub(f"{row}.", _COMMENT.sub("", conditions[name])) + ")"

    named: dict[str, str] = {}
    for file in folder.iterdir():
        if file.name.endswith(".sql") and file.name != _CONDITIONS_FILE:
            found = _parts(_NAME, file.read_text(encoding="utf-8"))
            named |= {name: used.sub(written_out, body) for name, body in found.items()}
    return named


def _parts(begins: re.Pattern[str], text: str) -> dict[str, str]:
    parts = begins.split(text)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def query(name: str, *, own_themes: bool = False, package: str = "") -> bytes:
    """Return the statement `name`; with `own_themes` as a role sends it that row-level security confines."""
    return (_for_own_themes(name, package) if own_themes else queries(package)[name]).encode()


@cache
def _for_own_themes(name: str, package: str) -> str:
    """Return the statement with functions of row_security.sql where a policy would keep an index out."""
    statement = queries(package)[name]
    for pattern, instead in _CONFINED:
        statement = pattern.sub(instead, statement)
    return statement

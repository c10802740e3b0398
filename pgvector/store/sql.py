"""Named statements loaded from SQL files: the folder `queries`, and those beside an operator's feature."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from ..domain.fork_safety import at_import
from ..domain.patterns import late_pattern

_NAME = late_pattern(r"^-- name: (\w+)\s*$", re.MULTILINE)
_FRAGMENT = late_pattern(r"^-- (fragment|own themes): (\w+\([\w; ]*\))\s*$", re.MULTILINE)
_PARAMETER = late_pattern(r"%\((\w+)\)s")
_CALL = late_pattern(r"\b(\w+)\(")
_COMMENT = late_pattern(r"^--.*\n", re.MULTILINE)
_FRAGMENTS_FILE = "fragments.sql"
# Where a statement reads one of the tables that have themes.
_READ = late_pattern(
    r"(?<!DELETE )\b(FROM|JOIN) "
    r"(memory_entries|conversations|memory_chunks|conversation_chunks|memory_history|hermes_tombstones|hermes_mirror)\b"
    r"(?: AS (\w+))?"
)


class _Fragment(NamedTuple):
    parameters: list[str]
    text: str


@cache
def query(name: str, *, own_themes: bool = False, one_theme: bool = False, package: str = "") -> bytes:
    """Return the statement `name`, with the shared fragments expanded.

    `package` is the `__package__` of a feature of the operator's tool that keeps its SQL beside its code; empty for
    the agents' statements, in the folder `queries`. `own_themes` selects the variant for a role that row-level security
    confines. `one_theme` filters each table by the theme, so that a database that is distributed over machines by theme
    knows which one to query. Statements that are exempt from naming a theme stay unchanged.
    """
    statement = _written_out(_bodies(package)[name], _fragments(own_themes=own_themes))
    return (_within_theme(statement) if one_theme else statement).encode()


class Numbered(NamedTuple):
    """A statement whose parameters are numbered, and their names in that order."""

    text: bytes
    names: tuple[str, ...]


@cache
def numbered(name: str, *, own_themes: bool = False, one_theme: bool = False) -> Numbered:
    """Return the statement `name` as `query` does, for a cursor that does not parse it each time.

    psycopg caches no parse of a statement of more than 4,096 characters, so it looks for named parameters each time.
    """
    numbers: dict[str, int] = {}
    statement = query(name, own_themes=own_themes, one_theme=one_theme).decode()
    text = _PARAMETER.sub(lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", statement)
    return Numbered(text.encode(), tuple(numbers))


def queries(package: str = "") -> dict[str, str]:
    """Return every statement in the SQL files of `package` by its name, as `query` gives them."""
    return {name: query(name, package=package).decode() for name in _bodies(package)}


@cache
def _bodies(package: str) -> dict[str, str]:
    """Return the statements by their names, as they stand in the files."""
    with at_import:  # importlib imports its readers of a package on first use
        folder = files(package) if package else files(__package__).joinpath("queries")
    named: dict[str, str] = {}
    for file in folder.iterdir():
        if file.name.endswith(".sql") and file.name != _FRAGMENTS_FILE:
            parts = _NAME.split(file.read_text(encoding="utf-8"))
            named |= zip(parts[1::2], map(str.strip, parts[2::2]), strict=True)
    return named


@cache
def _within_theme(statement: str) -> str:
    if "-- exempt:" in statement:
        return statement
    return _READ.sub(
        lambda read: f"{read[1]} (SELECT * FROM {read[2]} WHERE agent_identity = %(theme)s) AS {read[3] or read[2]}",
        statement,
    )


@cache
def _fragments(*, own_themes: bool) -> dict[str, _Fragment]:
    """Return the fragments by name; with `own_themes`, in the variant for such a role where there is one."""
    text = files(__package__).joinpath("queries", _FRAGMENTS_FILE).read_text(encoding="utf-8")
    found: dict[str, _Fragment] = {}
    parts = _FRAGMENT.split(text)
    for kind, head, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        name, _, parameters = head.rstrip(")").partition("(")
        if kind == "fragment" or own_themes:
            found[name] = _Fragment(_listed(parameters), _COMMENT.sub("", body).strip())
    return found


def _written_out(statement: str, fragments: Mapping[str, _Fragment]) -> str:
    """Return the statement with every fragment expanded, including fragments that fragments use."""
    place = 0
    while found := _CALL.search(statement, place):
        if found[1] not in fragments:
            place = found.end()
            continue
        end = _closing(statement, found.end())
        fragment = fragments[found[1]]
        text = fragment.text
        for parameter, given in zip(fragment.parameters, _listed(statement[found.end() : end]), strict=True):
            text = text.replace(f"{{{parameter}}}", given)
        place = found.start()
        statement = statement[:place] + text + statement[end + 1 :]
    return statement


def _listed(parts: str) -> list[str]:
    """Return the parts between semicolons, except those within parentheses, which belong to another fragment."""
    listed: list[str] = []
    for part in parts.split(";") if parts else []:
        if listed and listed[-1].count("(") > listed[-1].count(")"):
            listed[-1] += f";{part}"
        else:
            listed.append(part)
    return [part.strip() for part in listed]


def _closing(text: str, start: int) -> int:
    """Return the position of the parenthesis that closes the one open at `start`."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError(f"a fragment is not closed: {text[start : start + 40]}")

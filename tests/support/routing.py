"""Which statements a database that is spread by theme can send to one place: those that name the theme of every table.

A reading of the SQL as text, after fragments are written out: of each query block (what stands between SELECT, INSERT,
UPDATE or DELETE and the end of its parentheses, without inner ones) the tables, and the equalities of `agent_identity`
that are conditions of their own. It knows what our statements look like, and takes what it does not know for unbound.
"""

from __future__ import annotations

import re
from typing import NamedTuple

THEMED = (
    "memory_entries", "conversations", "memory_chunks", "conversation_chunks", "memory_history", "hermes_operations",
    "hermes_tombstones", "hermes_mirror", "hermes_retention", "hermes_proposals", "hermes_read_turns",
)  # fmt: skip
_STRING = re.compile(r"'(?:[^']|'')*'")
_COMMENT = re.compile(r"--[^\n]*")
_INNER = re.compile(r"\(([^()]*)\)")
_BLOCK = re.compile(r"\b(?=(?:SELECT|INSERT INTO|UPDATE|DELETE FROM)\b)")
_TABLE = re.compile(
    rf"(?P<how>FROM|JOIN|USING|UPDATE|INSERT INTO|COPY|,)\s+(?P<table>{'|'.join(THEMED)})\b(?!\.)"
    r"(?:\s+(?:AS\s+)?(?!SET|WHERE|ORDER|GROUP|LIMIT|FOR|USING|ON|CROSS|LEFT|JOIN|UNION|SELECT|VALUES|AS)(?P<alias>\w+))?"
)
_EQUAL = re.compile(
    r"(?<!WHEN )(?<!OR )(?:(?P<alias>\w+)\.)?agent_identity = "
    r"(?:%\(theme\)[sb]|%\(into\)s|\w+\.(?:agent_identity|theme))(?! (?:OR|THEN)\b)"
)


class Reading(NamedTuple):
    """What a statement says of the theme: `unbound` are the tables whose rows it does not hold to one."""

    unbound: tuple[str, ...]

    @property
    def is_routed(self) -> bool:
        """Whether every table is held to a theme."""
        return not self.unbound


def read(statement: str) -> Reading:
    """Read one statement, its fragments written out."""
    text = _STRING.sub("''", _COMMENT.sub("", statement))
    text = re.sub(r"%\((\w+)\)([sb])", r"%<\1>\2", text)
    held: list[str] = []

    def put_by(match: re.Match[str]) -> str:
        held.append(match[1])
        return f"§{len(held) - 1}§"

    while _INNER.search(text):
        text = _INNER.sub(put_by, text)
    unbound: list[str] = []
    for part in [*held, text]:
        for block in _BLOCK.split(re.sub(r"%<(\w+)>", r"%(\1)", " ".join(part.split()))):
            unbound += _unbound(block)
    return Reading(tuple(unbound))


def _unbound(block: str) -> list[str]:
    equal = [match["alias"] for match in _EQUAL.finditer(block)]
    tables = list(_TABLE.finditer(block))
    found = []
    for match in tables:
        if match["how"] in ("INSERT INTO", "COPY"):
            continue  # each row that is written says its theme, which is NOT NULL
        names = {match["alias"] or match["table"], *([None] if len(tables) == 1 else [])}
        if not names & set(equal):
            found.append(match["table"])
    return found

"""Writing a single table into a TOML file, or cutting one out, with every other line unchanged.

Callers must parse the result, because lines are recognized only by how they look.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?")
_PART = re.compile(r"\s*(?:\"([^\"\\]*)\"|'([^']*)'|([A-Za-z0-9_-]+))\s*(?:\.|$)")


def written_table(key: Sequence[str], table: Mapping[str, Any]) -> str:
    """Return a table as lines, with the mappings in it as subtables below it."""
    inner = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    lines = [f"[{'.'.join(map(_name, key))}]"]
    lines += [f"{_name(name)} = {_value(value)}" for name, value in table.items() if name not in inner]
    text = "\n".join(lines) + "\n"
    return text + "".join("\n" + written_table((*key, name), value) for name, value in inner.items())


def without_table(text: str, key: Sequence[str]) -> str:
    """Return the text without a table and its subtables; comments above what follows stay."""
    kept: list[str] = []
    held: list[str] = []  # blank lines and comments inside the table, which may belong to what follows
    inside = False
    for line in text.splitlines(keepends=True):
        if header := _HEADER.fullmatch(line.rstrip("\r\n")):
            inside = _parts(header[1])[: len(key)] == list(key)
        elif line.lstrip().startswith("["):
            inside = False
        if not inside:
            kept += [*held, line]
            held = []
        elif not line.strip() or line.lstrip().startswith("#"):
            held.append(line)
        else:
            held = []
    return "".join(kept + held)


def _parts(dotted: str) -> list[str]:
    parts: list[str] = []
    at = 0
    while at < len(dotted) and (found := _PART.match(dotted, at)):
        parts.append(next(part for part in found.groups() if part is not None))
        at = found.end()
    return parts


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_name(name)} = {_value(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)

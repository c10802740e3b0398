"""The lines of the table that answers in one screen, each taken from a table further down the page.

A line says a question, the table, which of its rows, and the column: a name in which `{}` stands for the provider, or
the common beginning of a column that holds all of them (`found, ours / incumbent`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

PROVIDERS = ("ours", "incumbent", "hexus", "holographic")
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Line:
    """A question and where its figures are; `total` adds up the column over all rows that match."""

    question: str
    table: str
    column: str
    where: Mapping[str, str] = field(default_factory=dict)
    total: bool = False


LINES = (
    Line(
        "`sync_turn` holds the agent, p50, us",
        "peers-hooks-write",
        "{}, us",
        {"state": "all is well", "hook": "sync_turn", "of the calls": "p50"},
    ),
    Line(
        "`prefetch` holds the agent, p50, ms",
        "peers-hooks-wait",
        "{}, ms",
        {"state": "all is well", "hook": "prefetch", "of the calls": "p50"},
    ),
    Line(
        "the same while Postgres is down",
        "peers-hooks-wait",
        "{}, ms",
        {"state": "Postgres down", "hook": "prefetch", "of the calls": "p50"},
    ),
    Line(
        "the same while the endpoint hangs",
        "peers-hooks-wait",
        "{}, ms",
        {"state": "endpoint hangs", "hook": "prefetch", "of the calls": "p50"},
    ),
    Line(
        "rows written a second, 8 writers, endpoint of 20 ms",
        "peers-drain",
        "{}, rows/s",
        {"endpoint": "20 ms", "writers": "8"},
    ),
    Line(
        "`recall_memory` in a theme of 100 rows among 10,000, p50, ms",
        "peers-search-10000",
        "{}, p50 ms",
        {"theme": "1.0%, 100", "asked": "recall_memory"},
    ),
    Line(
        "the same in one of 10,000 rows among 100,000",
        "peers-search-100000",
        "{}, p50 ms",
        {"theme": "10.0%, 10,000", "asked": "recall_memory"},
    ),
    Line(
        "share of the ten nearest that it finds there",
        "peers-search-100000",
        "found",
        {"theme": "10.0%, 10,000", "asked": "recall_memory"},
    ),
    Line(
        "the same for a topic of another theme",
        "peers-search-100000",
        "found on others' topics",
        {"theme": "10.0%, 10,000", "asked": "recall_memory"},
    ),
    Line("evidence among ten rows, mean over corpora", "peers-evidence", "{} @10", {"corpus": "mean of the corpora"}),
    Line("rows lost of those accepted, over all faults", "peers-faults", "{}: lost", total=True),
    Line("rows that never get a vector", "peers-faults", "{}: never embedded", total=True),
    Line(
        "connections after 1,000 instances that nobody shut down",
        "peers-footprint",
        "{}",
        {"what": "connections left"},
    ),
)
_SPREAD = re.compile(r" \(.*\)$")


def rows_of(tables: Mapping[str, Rows], lines: Iterable[Line] = LINES) -> Rows:
    """A row for each line that has a figure of ours. Raises: KeyError for a table or column that there is not."""
    found: Rows = []
    for line in lines:
        rows = [row for row in tables[line.table] if all(str(row[name]) == value for name, value in line.where.items())]
        if not rows:
            raise KeyError(f"{line.table}: no row with {dict(line.where)}")
        answers = {name: _figure(rows, line, name) for name in PROVIDERS}
        found.append({"": line.question} | {name: told for name, told in answers.items() if told})
    return found


def _figure(rows: Rows, line: Line, provider: str) -> str:
    """The medians without their spread; a word where the provider has nothing to measure."""
    told = [_SPREAD.sub("", _cell(row, line.column, provider)) for row in rows]
    if not line.total:
        return told[0]
    counts = [int(each.replace(",", "")) for each in told if each.replace(",", "").isdigit()]
    return f"{sum(counts):,}" if counts else told[0]


def _cell(row: Mapping[str, Any], column: str, provider: str) -> str:
    if "{}" in column:
        return str(row.get(column.format(provider), ""))
    whole = next(name for name in row if name.startswith(f"{column}, "))
    names = whole.removeprefix(f"{column}, ").split(" / ")
    return dict(zip(names, str(row[whole]).split(" / "), strict=False)).get(provider, "")

"""Figures of the two products side by side, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OURS, THEIRS = "ours", "theirs"


@dataclass
class Table:
    """A name by which pages know it, a heading, rows in order, and remarks below them."""

    name: str
    title: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def compare(self, row: Mapping[str, Any], measured: Mapping[str, Sequence[float]], unit: str) -> None:
        """Add a row of both medians over the rounds, each with its least and greatest, and their ratio."""
        medians = {name: statistics.median(values) for name, values in measured.items()}
        line = dict(row)
        for name in (OURS, THEIRS):
            line[f"{name}, {unit}" if unit else name] = spread(measured[name])
        line["ours / theirs"] = ratio(medians[OURS], medians[THEIRS])
        self.rows.append(line)

    def markdown(self) -> str:
        """As Markdown."""
        columns = list(dict.fromkeys(key for row in self.rows for key in row))
        lines = [f"### {self.title}", "", f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
        lines += ["| " + " | ".join(str(row.get(column, "")) for column in columns) + " |" for row in self.rows]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes), ""])


def spread(values: Sequence[float]) -> str:
    """The median, and the least and greatest of several rounds in brackets."""
    text = short(statistics.median(values))
    if len(values) > 1:
        text += f" ({short(min(values))}-{short(max(values))})"
    return text


def short(value: float) -> str:
    """Three digits that count."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def ratio(ours: float, theirs: float) -> str:
    """Ours as a multiple of theirs."""
    return "-" if theirs == 0 else f"{short(ours / theirs)}x"


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

"""Figures of several products side by side, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OURS = "ours"
ORDER = (OURS, "incumbent", "hexus", "holographic")  # of the columns

Measured = Mapping[str, Sequence[float] | str]  # by product; a text says why there is no figure


@dataclass
class Table:
    """A name by which pages know it, a heading, rows in order, and remarks below them."""

    name: str
    title: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def compare(self, row: Mapping[str, Any], measured: Measured, unit: str) -> None:
        """Add a row of all medians over the rounds, each with its least and greatest, and ours to each other one."""
        line, medians = dict(row), {}
        for name in in_order(measured):
            values = measured[name]
            if not isinstance(values, str):
                medians[name] = statistics.median(values)
            line[f"{name}, {unit}" if unit else name] = values if isinstance(values, str) else spread(values)
        for name in in_order(measured)[1:]:
            known = OURS in medians and name in medians
            line[f"ours / {name}"] = ratio(medians[OURS], medians[name]) if known else ""
        self.rows.append(line)

    def markdown(self) -> str:
        """As Markdown."""
        columns = list(dict.fromkeys(key for row in self.rows for key in row))
        lines = [f"### {self.title}", "", f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
        lines += ["| " + " | ".join(str(row.get(column, "")) for column in columns) + " |" for row in self.rows]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes), ""])


def in_order(names: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """The products in the order of the columns, ours first."""
    return [name for name in ORDER if name in names]


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

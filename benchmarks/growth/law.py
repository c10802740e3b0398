"""How the figures of growth.py grow: the factor when rows, themes or dimensions double, and an extrapolation.

    law.py rows.json [more.json] [--to 10000000] [--json ../results/growth.json]

What doubling the rows does to a figure is found by least squares over the logarithms, from the three largest sizes
that have it; the same for themes and dimensions, where two tables are alike in all else. The projection goes on in that
way and along a straight line as well, and is an estimate between the two: nothing in it was measured. Only CPU, memory
and disk count: elapsed times also depend on what else the machine was doing.
`benchmarks/page.py` puts what --json writes into the page.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
from common import save

Figures = dict[str, Any]
_LAST = 3  # sizes, whose slope counts
_OF_SIZE = ("themes", "dims")
_OF_GRAPH = ("drain", "all MB", "graph of all", "load average")
PAGE = {
    "load cpu ms/row": "COPY, HNSW dropped: CPU ms a row",
    "vacuum after load cpu s": "`VACUUM ANALYZE` after it: CPU s",
    "build cpu s": "`index build`: CPU s",
    "build mapped MB": "`index build`: memory of the largest process, MB",
    "table MB": "table without what is kept aside, MB",
    "vectors MB": "kept aside (TOAST): vectors, MB",
    "tsv index MB": "index of words, MB",
    "theme code index MB": "index of codes, MB",
    "embedding index MB": "HNSW index over signatures, MB",
    "all MB": "the whole database, MB",
    "bare all MB": "the same without HNSW, MB",
    "recall small cpu ms": "recall, theme of 200 turns: CPU ms",
    "recall percent cpu ms": "recall, theme of 1 %: CPU ms",
    "recall largest cpu ms": "recall, largest theme: CPU ms",
    "recall all cpu ms": "recall, all themes: CPU ms",
    "signatures of all cpu ms": "of that all signatures: CPU ms",
    "graph of all cpu ms": "instead of these the HNSW graph: CPU ms",
    "prefetch small cpu ms": "prefetch, theme of 200 turns: CPU ms",
    "prefetch percent cpu ms": "prefetch, theme of 1 %: CPU ms",
    "prefetch largest cpu ms": "prefetch, largest theme: CPU ms",
    "drain cpu ms/row": "drain with HNSW: CPU ms a row",
    "bare drain cpu ms/row": "drain without HNSW: CPU ms a row",
    "vacuum with graph cpu s": "vacuum of the indexes after 620 deletions, with HNSW: CPU s",
    "vacuum without graph cpu s": "the same without HNSW: CPU s",
    "drain backend MB": "memory of a backend that writes, MB",
    "recall all backend MB": "memory of a backend that answers, MB",
    "verb themes cpu s": "`themes list`: CPU s of the server",
    "verb search cpu s": "`search`, largest theme: CPU s of the server",
    "verb prune cpu s": "`prune --all-themes`, dry run: CPU s of the server",
}


def read(files: Iterable[Path]) -> list[Figures]:
    """Every figure of every size; what two files say of the same table is put together, the later one holds."""
    known: dict[tuple[Any, ...], Figures] = {}
    for file in files:
        for row in json.loads(file.read_text(encoding="utf-8"))["rows"]:
            key = tuple(row[name] for name in (*_OF_SIZE, "rows"))
            bare = not row.get("graph", True)
            # What depends on the HNSW index has a name of its own without it.
            told = {
                f"bare {name}" if bare and name.startswith(_OF_GRAPH) else name: value for name, value in row.items()
            }
            known.setdefault(key, {}).update(told)
    return [known[key] for key in sorted(known)]


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """The exponent by least squares over the logarithms; None where that cannot be told."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


def guessed(points: Sequence[tuple[float, float]], to: int) -> str:
    """Where the power law of the last sizes and the straight line through them lead; one figure where they agree."""
    last = points[-_LAST:]
    exponent = slope(last)
    if exponent is None:
        return ""
    ends = [last[-1][1] * (to / last[-1][0]) ** exponent]
    # By relative distance: the small sizes count as much as the large ones.
    weights = [1 / y**2 if y else 0.0 for _, y in last]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, last, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, last, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, last, strict=True))
    rise = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, last, strict=True)) / spread
    straight = mean_y + rise * (to - mean_x)
    if straight > 0:
        ends.append(straight)
    low, high = min(ends), max(ends)
    return short(high) if high < 1.1 * low else f"{short(low)} to {short(high)}"


def points_of(sizes: Sequence[Figures], name: str, over: str) -> list[tuple[float, float]]:
    """The figure `name` at each size that has it."""
    found = [(float(size[over]), size.get(name)) for size in sizes]
    return [(x, float(y)) for x, y in found if isinstance(y, int | float)]


def by_rows(sizes: Sequence[Figures], to: int) -> list[dict[str, str]]:
    """Each figure at each size, what doubling the rows does to it, and the projection."""
    lines = []
    for name, label in PAGE.items():
        points = points_of(sizes, name, "rows")
        exponent = slope(points[-_LAST:])
        if not points:
            continue
        known = dict(points)
        line = {"rows": label} | {f"{size['rows']:,}": short(known.get(size["rows"])) for size in sizes}
        line["rows doubled"] = "" if exponent is None else f"x {2**exponent:.2f}"
        lines.append(line | {f"{to:,}, extrapolated": guessed(points, to)})
    return lines


def by_other(sizes: Sequence[Figures], over: str) -> dict[str, list[dict[str, str]]]:
    """How each figure goes with the themes or the dimensions, by what the tables compared have in common."""
    others = [name for name in ("rows", *_OF_SIZE) if name != over]
    alike: dict[str, list[Figures]] = {}
    for size in sizes:
        alike.setdefault("-".join(f"{size[name]}-{name}" for name in others), []).append(size)
    tables = {}
    for common, group in alike.items():
        lines = []
        for name, label in PAGE.items():
            points = points_of(group, name, over)
            if len(points) == len(group) > 1 and (exponent := slope(points)) is not None:
                line = {common.replace("-", " "): label} | {f"{x:,.0f} {over}": short(y) for x, y in points}
                lines.append(line | {f"{over} doubled": f"x {2**exponent:.2f}"})
        if lines:
            tables[f"growth-{over}-{common}"] = lines
    return tables


def short(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what growth.py --json has written")
    options.add_argument("--to", type=int, default=10_000_000, metavar="N", help="rows that are projected")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the tables there, for benchmarks/page.py")
    args = options.parse_args()
    sizes = read(args.files)
    families: dict[str, list[Figures]] = {}
    for size in sizes:
        families.setdefault("-".join(f"{size[name]}-{name}" for name in _OF_SIZE), []).append(size)
    tables = {
        f"growth-rows-{name}": by_rows(group, args.to) for name, group in families.items() if len(group) > 1
    } | {name: lines for over in _OF_SIZE for name, lines in by_other(sizes, over).items()}  # fmt: skip
    for name, lines in tables.items():
        columns = list(lines[0])
        print(f"\n{name}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
        print("\n".join(f"| {' | '.join(line[column] for column in columns)} |" for line in lines))
    if args.json:
        written = [{"name": name, "rows": lines, "notes": []} for name, lines in tables.items()]
        save({"benchmark": "growth", "tables": written}, args.json)
    if not tables:
        sys.exit("one size alone shows no law")


if __name__ == "__main__":
    main()

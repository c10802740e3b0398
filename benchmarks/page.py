"""Puts the figures of results/*.json into a page, each table between its markers, and leaves the prose as it is.

    python -P benchmarks/page.py [--results DIR] [PAGE]

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. NAME is that of a table in a file that
`peers/run.py --json` wrote, or that of a benchmark whose file has rows, as `common.report` writes it; the table
`summary` takes its lines from the others (`summary.py`).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parent))
import summary

BENCHMARKS = Path(__file__).resolve().parent
PAGE = BENCHMARKS.parent / "docs" / "benchmarks.md"
_BLOCK = re.compile(r"^<!-- table: ([\w/-]+) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)


class Table(NamedTuple):
    """A table as Markdown, the notes below it, which others may have as well, and of which day it is."""

    text: str
    notes: tuple[str, ...] = ()
    about: tuple[str, ...] = ()


def tables_of(folder: Path) -> dict[str, Table]:
    """Every table of the folder's files, by name. Raises: ValueError when two have one name."""
    found: dict[str, Table] = {}
    rows: dict[str, summary.Rows] = {}
    for path in sorted(folder.glob("*.json")):
        body = json.loads(path.read_text(encoding="utf-8"))
        for table in body.get("tables") or [{"name": body["benchmark"], "rows": body["rows"], "notes": []}]:
            if table["name"] in found:
                raise ValueError(f"{path}: there is another table {table['name']}")
            rows[table["name"]] = table["rows"]
            about = (body["about"],) if "about" in body else ()
            found[table["name"]] = Table(markdown(table["rows"]), tuple(table["notes"]), about)
    return found | {"summary": Table(markdown(summary.rows_of(rows)))}


def markdown(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown table; its columns are those of all rows."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, ["---"] * len(columns), *([str(row.get(column, "")) for column in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def renewed(page: str, tables: dict[str, Table]) -> str:
    """The page with its tables as they are now, and each note once. Raises: KeyError for a table that there is not."""
    said: set[str] = set()

    def block(found: re.Match[str]) -> str:
        table = tables[found[1]]
        new = [note for note in table.notes if note not in said]
        said.update(new)
        body = "\n\n".join([table.text, *new, *table.about])
        return f"<!-- table: {found[1]} -->\n{body}\n<!-- end -->"

    return _BLOCK.sub(block, page)


def main() -> None:
    """Write the page anew."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("page", type=Path, nargs="?", default=PAGE, metavar="PAGE")
    made.add_argument("--results", type=Path, default=BENCHMARKS / "results", metavar="DIR")
    args = made.parse_args()
    page = args.page.read_text(encoding="utf-8")
    try:
        args.page.write_text(renewed(page, tables_of(args.results)), encoding="utf-8")
    except KeyError as exc:
        sys.exit(f"{args.page}: {args.results} has no table {exc}")


if __name__ == "__main__":
    main()

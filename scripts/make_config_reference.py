#!/usr/bin/env python3
"""Writes the table of settings into docs/configuration.md from the settings themselves.

Run it after a setting was added or changed, in an environment that has the package. What stands outside of the two
markers stays as it is. `--check` changes nothing, and exits with 1 when the table is out of date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hermes_memory_pgvector.config.settings import FIELDS, Field

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
BEGIN = (
    "<!-- The table is made by scripts/make_config_reference.py: change pgvector/config/settings.py, then run it. -->"
)
END = "<!-- End of the table. -->"


def table() -> str:
    """The settings as a Markdown table, in the order of the source."""
    lines = ["| Setting, and its environment variable | Default | Value | Meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{field.key}`<br>`{field.env}` | {_default(field)} | {_cell(field.expected)} | {_cell(field.doc)} |"
        for field in FIELDS
    ]
    return "\n".join(lines)


def renewed(page: str) -> str:
    """`page` with the current table between the markers. Raises ValueError when a marker is missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page must hold the lines\n{BEGIN}\n{END}")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def _default(field: Field) -> str:
    return f"`{field.shown_default}`" if field.shown_default else "empty"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Renew the page, or only look; the exit code."""
    parser = argparse.ArgumentParser(description="Write the table of settings into docs/configuration.md.")
    parser.add_argument("--check", action="store_true", help="change nothing, exit with 1 when it is out of date")
    only_look = parser.parse_args().check
    page = PAGE.read_text(encoding="utf-8")
    fresh = renewed(page)
    if fresh == page:
        print(f"{PAGE.name}: up to date")
        return 0
    if only_look:
        print(f"{PAGE.name}: out of date; run scripts/make_config_reference.py", file=sys.stderr)
        return 1
    PAGE.write_text(fresh, encoding="utf-8")
    print(f"{PAGE.name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())

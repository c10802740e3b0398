"""Make pgvector/dashboard/dist/index.js of the page's source files: python scripts/make_dashboard_page.py [--check]."""

from __future__ import annotations

import sys
from pathlib import Path

DASHBOARD = Path(__file__).resolve().parents[1] / "pgvector" / "dashboard"
# In the order in which they are needed: all share one scope.
PARTS = (
    *("core", "parts", "popups", "charts"),
    *("asking", "change", "change_texts", "change_rows", "events"),
    *("overview", "search", "agent", "themes", "theme", "session", "row", "history", "removals", "settings"),
    "start",
)


def page() -> str:
    """Return the whole script."""
    parts = [(DASHBOARD / "page" / f"{name}.js").read_text(encoding="utf-8").strip() for name in PARTS]
    body = "\n\n".join(parts)
    head = "// Made of the files in ../page by scripts/make_dashboard_page.py.\n(() => {\n"
    return f'{head}"use strict";\n\n{body}\n}})();\n'


def main() -> int:
    """Write the file, or with --check say whether it is what it should be."""
    target = DASHBOARD / "dist" / "index.js"
    if "--check" in sys.argv[1:]:
        return 0 if target.read_text(encoding="utf-8") == page() else 1
    target.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

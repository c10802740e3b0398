"""The commands `facts list` and `reflections list`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from ...domain.dates import in_zone
from ...domain.facts import KINDS, STATES, structure_of
from ...domain.format import local_minute
from ...store.connection import DeadlineConnection
from ...store.sql import query
from ..common import stored_rows
from ..common.commands import Argument, Command, argument, positive, printed
from ..common.console import Column, show_table, used
from ..common.fact_options import FACT_KINDS
from ..common.outcome import fit_for_json
from ..common.refs import Ref
from ..common.row_options import PIPED_CHARS, WHOLE, Page, add_page, add_theme, page, reading_theme

_query = partial(query, package=__package__)
_RECALLED = "recalled"
_REFLECTIONS = ("reflection",)
_FOUND = (
    Column("ref", "id", style="bold"),
    Column("kind"),
    Column("subject"),
    Column("scope"),
    Column("shown_state", "state", style="yellow"),
    Column("date", "said", style="dim"),
    Column("when"),
    Column("content", "text", flexible=True),
)


def _list(kinds: Sequence[str], args: argparse.Namespace, home: Path) -> int:
    named = structure_of({"subject": args.subject, "scope": args.scope})  # names in stored form
    wanted = {
        "kinds": [args.kind] if getattr(args, "kind", None) else list(kinds),
        "subject": named.subject,
        "scope": named.scope,
        "state": args.state,
    }
    if args.recent is not None:
        args.limit = args.recent
    bounds, chars = page(args), WHOLE if args.json else PIPED_CHARS + 1
    with reading_theme(args, home) as (conn, theme):
        rows = _found(conn, theme, wanted, bounds, chars)
    return printed(args, rows, lambda: _show(rows, empty=f"the theme {theme!r} has no such memory"))


def _found(
    conn: DeadlineConnection, theme: str, wanted: dict[str, Any], bounds: Page, chars: int
) -> list[dict[str, Any]]:
    asked = wanted | bounds.values() | {"theme": theme, "chars": chars}
    found = conn.execute(_query("facts_of_theme"), asked).fetchall()
    said = stored_rows.structures(conn, [row.id for row in found])
    return [
        {"ref": str(Ref("memories", row.id)), "theme": theme}
        | fit_for_json(row._asdict())
        | stored_rows.structure_as_json(said.get(row.id, {}))
        for row in found
    ]


def _show(rows: Sequence[dict[str, Any]], *, empty: str) -> None:
    shown = [row | {"date": local_minute(row["at"])[:10], "shown_state": _state(row)} for row in rows]
    show_table(used(_FOUND, shown), shown, empty=empty)


def _state(row: dict[str, Any]) -> str:
    """Return the state unless it is active, with what replaced the fact, when it expires, and whether it is pinned."""
    parts = [] if row.get("state", "active") == "active" else [str(row["state"])]
    parts += [f"by {row['replaced_by']}"] if row.get("state") == "superseded" and "replaced_by" in row else []
    ends = "expired" if stored_rows.has_expired(row) else "until"
    parts += [f"{ends} {_last_day(row['expires_at'])}"] if "expires_at" in row else []
    return " ".join([*parts, *(["pinned"] if row.get("pinned") else [])])


def _last_day(expires_at: str) -> str:
    """Return the last day, in this machine's zone, on which a memory that expires at an ISO time is recalled."""
    last = datetime.fromisoformat(expires_at) - timedelta(microseconds=1)
    return in_zone(last, None).strftime("%Y-%m-%d")


def _arguments() -> list[Argument]:
    return [
        argument("--subject NAME", "about this, and about what is below it, such as srv.prod of srv"),
        argument("--scope NAME", "of this project or task"),
        argument(
            "--state",
            "in this state (default: recalled, which is active or closed and not expired)",
            choices=(_RECALLED, *STATES, "all"),
            default=_RECALLED,
        ),
        argument("--recent N", "the newest N, as --limit", type=positive),
        partial(add_page, limit=20, what="what was last written"),
        add_theme,
    ]


LIST = Command(
    "hermes-pgvector facts list --recent 20\n"
    "hermes-pgvector facts list --kind decision --subject auth --state all\n"
    "hermes-pgvector facts list --theme sre --scope migration --json",
    partial(_list, FACT_KINDS),
    [
        argument("--kind", "of this kind (default: all but procedures and reflections)", choices=KINDS),
        *_arguments(),
    ],
)
LIST_REFLECTIONS = Command(
    "hermes-pgvector reflections list\nhermes-pgvector reflections list --theme sre --since 30d",
    partial(_list, _REFLECTIONS),
    _arguments(),
)

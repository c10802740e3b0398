"""The command purge."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...domain.errors import HermesPgvectorError
from ...domain.format import local_minute, plural
from ..common.command_context import context_for
from ..common.commands import Command, add_login, add_yes, argument, filled
from ..common.console import Column, say, show_table, warn
from ..common.outcome import ADD_YES, Outcome, counted, print_outcome
from ..common.row_options import THEME_CHOICE
from ..common.theme_names import ThemeChoice
from .purging import Purging

_ROWS = (
    Column("ref", "id", style="bold"),
    Column("theme"),
    Column("state"),
    Column("kind"),
    Column("subject"),
    Column("date", "since", style="dim"),
    Column("content", "text", flexible=True),
)


def _purge(args: argparse.Namespace, home: Path) -> int:
    themes = ThemeChoice.of(args)
    with context_for(args, home) as (context, rules):
        purging = Purging(context, themes, args.older_than or "", rules, args.yes)
        try:
            done = purging.run()
        except (KeyboardInterrupt, HermesPgvectorError):
            if deleted := purging.done.counts["memories"] * args.yes:
                warn(f"{plural(deleted, 'memory', 'memories')} deleted; run it again to go on")
            raise
    return print_outcome(args, done, lambda: _show(done), _summary(done))


def _show(done: Outcome) -> None:
    if done.done:
        return
    rows = [row | {"date": local_minute(row["hidden_at"])[:10]} for row in done.rows]
    show_table(_ROWS, rows, empty="nothing is superseded, archived or expired")
    if (more := done.counts["memories"] - len(rows)) > 0:
        say(f"... and {more:,} more")


def _summary(done: Outcome) -> str:
    if done.done:
        return f"deleted: {counted(done.counts, also_none=True)}"
    return f"would delete {counted(done.counts)}; {ADD_YES}" if done.counts["memories"] else ""


PURGE = Command(
    "hermes-pgvector purge --theme sre\nhermes-pgvector purge --all-themes --older-than 90d --yes",
    _purge,
    [
        *THEME_CHOICE,
        argument("--older-than WHEN", "not recalled since before: 90d, 26w, 2026-01-01", type=filled),
        add_login,
        add_yes,
    ],
)

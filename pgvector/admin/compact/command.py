"""The command `hermes-pgvector compact`."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...config.settings import Settings
from ...domain.commandline import typed
from ...domain.errors import WrongUsage
from ...domain.format import format_bytes, plural
from ...domain.theme import Languages, ThemeRules
from ...host.session_context import Policy
from ...store.connection import DeadlineConnection
from ..common.admin_login import agents_admin
from ..common.asked_model import model_at
from ..common.commands import (
    EXIT_FAILED,
    EXIT_OK,
    Command,
    add_yes,
    argument,
    between,
    given_admin_dsn,
    print_json,
    printed,
    read_or_not,
)
from ..common.console import Column, say, show_table, warn
from ..common.database import connection, settings_of
from ..common.outcome import ADD_YES, changed_by_others
from ..common.row_options import THEME_CHOICE
from ..common.stopped import said_if_stopped
from ..common.theme_names import ThemeChoice
from .compact_rows import Sizes
from .compaction import (
    Compaction,
    CompactOptions,
    CompactPlan,
    cutoff,
    plan_compaction,
    require_owner,
    vacuum,
)
from .recall_loss import RecallLoss
from .summaries import SessionSummaries, old_sessions

_SHOWN_CHARS = 80
_MOST_ASKED = 10_000


def _sample_size(text: str) -> int:
    number = int(text) if text.isdecimal() else _MOST_ASKED + 1
    if number > _MOST_ASKED:
        raise argparse.ArgumentTypeError(f"write a whole number from 0 to {_MOST_ASKED}")
    return number


def _compact(args: argparse.Namespace, home: Path) -> int:
    if args.yes and args.dry_run:
        raise WrongUsage("give --yes or --dry-run, not both")
    if args.keep_duplicates and args.keep_vectors:
        raise WrongUsage("--keep-duplicates and --keep-vectors leave nothing to do: give one of them")
    if args.summary_url and args.vacuum:
        raise WrongUsage(
            "--summary-url replaces sessions and nothing else: leave out --vacuum, and run it by itself then"
        )
    settings = settings_of(home)
    with contextlib.ExitStack() as stack:
        login = stack.enter_context(agents_admin(settings, given_admin_dsn(args))) if args.vacuum else args.admin_dsn
        conn = stack.enter_context(connection(settings, login))
        if args.vacuum:
            require_owner(conn)
        rules = Policy.of(settings).rules
        if args.summary_url:
            return _summarise(args, conn, rules, settings, home)
        return _make_smaller(args, conn, rules, _languages(settings))


def _languages(settings: Settings) -> Languages:
    return Languages(settings.text_language, settings.text_languages)


def _make_smaller(args: argparse.Namespace, conn: DeadlineConnection, rules: ThemeRules, languages: Languages) -> int:
    options = CompactOptions(
        ThemeChoice.of(args),
        older_than=args.older_than,
        duplicates=not args.keep_duplicates,
        vectors=not args.keep_vectors,
        similar=args.similar,
        sample=args.sample,
    )
    plan = plan_compaction(conn, options, rules, languages)
    if not args.json:
        with read_or_not():
            _show_plan(plan)
    if args.yes:
        return _carry_out(args, conn, plan)
    if args.json:
        print_json(plan.as_json())
    elif plan.themes:
        say(ADD_YES)
    return EXIT_OK


def _carry_out(args: argparse.Namespace, conn: DeadlineConnection, plan: CompactPlan) -> int:
    compaction = Compaction(conn, plan)
    sizes: Sequence[Sizes] = ()
    with said_if_stopped(lambda: f"{_counted(compaction.done)}; run it again to go on"):
        done = compaction.run()
        if args.vacuum:
            sizes = vacuum(conn, full=args.vacuum == "full")
    if (gone := sum(plan.totals()[name] - count for name, count in done.items())) > 0:
        warn(changed_by_others(gone))
    vacuumed = dict(zip(("before", "after"), map(asdict, sizes), strict=False))
    return printed(args, plan.as_json(done) | {"vacuumed": vacuumed}, lambda: _show_done(plan, done, sizes))


def _show_done(plan: CompactPlan, done: dict[str, int], sizes: Sequence[Sizes]) -> None:
    if plan.themes:
        say(f"done: {_counted(done)}")
    if sizes:
        say(f"tables {_change(*(each.table_bytes for each in sizes))}")
        say(f"indexes {_change(*(each.index_bytes for each in sizes))}")
    elif any(done.values()):
        say("new rows take the space once autovacuum has been over the tables; --vacuum full gives it back", "dim")
    if done["vectors"]:
        say(typed("to have the vectors back: hermes-pgvector backfill --cold"), "dim")


def _show_plan(plan: CompactPlan) -> None:
    columns = [
        Column("theme"),
        Column("turns", right=True),
        Column("old_turns", right=True),
        Column("vectors", "vectors to drop", right=True),
        Column("size", right=True),
        Column("duplicates", right=True),
    ]
    rows = [each.as_json() for each in plan.themes]
    rows = [row | {"size": format_bytes(row["vector_bytes"] + row["duplicate_bytes"])} for row in rows]
    show_table(columns, rows, empty="nothing to compact: no turn is that old, or all of them are compacted already")
    if not plan.themes:
        return
    for each in plan.examples:
        say(f"e.g. {_line(each['goes'])}", "dim")
        say(f"     is deleted, as it was said again: {_line(each['stays'])}", "dim")
    totals = plan.totals()
    say(
        f"saves {format_bytes(totals['vector_bytes'])} of vectors and {format_bytes(totals['duplicate_bytes'])} of "
        "turns (exact)"
    )
    say(
        f"and about {format_bytes(totals['index_bytes_about'])} of the {format_bytes(plan.sizes.index_bytes)} of "
        "indexes, by the share of rows (estimated), once they are rebuilt"
    )
    _show_loss(plan.loss)


def _show_loss(loss: RecallLoss | None) -> None:
    if loss is None:
        say("no turns were asked: the loss of recall is not known")
        return
    asked = f"{plural(loss.questions, 'stored turn')} asked"
    say(f"recall@10 by meaning: {loss.before:.3f} now, {loss.after:.3f} after ({asked}, +-{loss.margin:.3f})", "bold")
    say(f"by words and meaning together: {loss.kept:.1%} of the ten found now are found after")


def _summarise(
    args: argparse.Namespace, conn: DeadlineConnection, rules: ThemeRules, settings: Settings, home: Path
) -> int:
    with model_at(args, home, prefix="summary-") as model:
        choice = ThemeChoice.of(args)
        themes = list(choice.held(conn, rules))
        before = cutoff(conn, args.older_than)
        summaries = SessionSummaries(
            conn,
            model,
            old_sessions(conn, themes, before),
            _languages(settings),
            {"theme": "*" if choice.every else ", ".join(themes), "older_than": args.older_than},
            tuple(settings.mask_patterns),
        )
        if not args.json:
            with read_or_not():
                _show_sessions(summaries)
        return _replace_sessions(args, summaries) if args.yes else _preview(args, summaries)


def _show_sessions(summaries: SessionSummaries) -> None:
    columns = [
        Column("theme"), Column("session_id", "session"), Column("turns", right=True), Column("chars", right=True),
        Column("first_at", "first"), Column("last_at", "last"),
    ]  # fmt: skip
    show_table(columns, summaries.as_json(), empty="no session is that old and that long")


def _preview(args: argparse.Namespace, summaries: SessionSummaries) -> int:
    first, expected = "" if args.dry_run else summaries.first(), summaries.estimated_tokens()
    if args.json:
        told = {"done": False, "sessions": summaries.as_json(), "first_summary": first, "estimated_tokens": expected}
        print_json(told | {"tokens": asdict(summaries.model.cost)})
        return EXIT_OK
    if summaries.sessions:
        say(f"the model would read about {expected:,} tokens (estimated)")
    if first:
        say("the first one would become:", "dim")
        say(first)
        say(f"that took {summaries.model.cost}", "dim")
        say(ADD_YES)
    return EXIT_OK


def _replace_sessions(args: argparse.Namespace, summaries: SessionSummaries) -> int:
    cost = summaries.model.cost
    with said_if_stopped(
        lambda: f"{plural(summaries.done['sessions'], 'session')} replaced, with {cost}; run it again to go on"
    ):
        done = summaries.run() if summaries.sessions or args.json else {}
    if args.json:
        print_json(
            {
                "done": True,
                "replaced": done,
                "failed": dict(summaries.failed),
                "tokens": asdict(cost),
            }
        )
    elif done:
        say(f"replaced: {plural(done['turns'], 'turn')} of {plural(done['sessions'], 'session')}, with {cost}")
        for session_id, why in summaries.failed:
            warn(f"session {session_id} stays as it was: {why}")
    return EXIT_FAILED if summaries.failed else EXIT_OK


def _counted(done: dict[str, int]) -> str:
    return f"{plural(done['duplicates'], 'duplicate turn')} deleted, {plural(done['vectors'], 'vector')} dropped"


def _line(turn: dict[str, Any]) -> str:
    text = " ".join(turn["content"].split())
    return f"{turn['at']:%Y-%m-%d} {turn['role']}: {text[:_SHOWN_CHARS]}{'...' if text[_SHOWN_CHARS:] else ''}"


def _change(before: int, after: int) -> str:
    return f"{format_bytes(before)} before, {format_bytes(after)} after"


COMPACT = Command(
    "hermes-pgvector compact --all-themes\n"
    "hermes-pgvector compact --theme marketing --older-than 90d --yes --vacuum\n"
    "hermes-pgvector compact --all-themes --older-than 1000d --keep-vectors --json\n"
    "hermes-pgvector compact --theme coder --summary-url http://localhost:11434/v1 --summary-model qwen3",
    _compact,
    [
        *THEME_CHOICE,
        argument("--older-than WHEN", "said before: 180d, 26w, 2026-01-01 (default: 180d)", default="180d"),
        argument("--keep-duplicates", "keep turns that were said again"),
        argument("--keep-vectors", "keep the vectors of old turns"),
        argument(
            "--similar COSINE",
            "similarity from which turns with the same words are duplicates (default: 0.95)",
            type=between(0.5, 1),
            default=0.95,
        ),
        argument(
            "--sample N",
            "turns to ask to measure the loss of recall, 0 for none (default: 100)",
            type=_sample_size,
            default=100,
        ),
        argument(
            "--vacuum",
            "then free the space for new rows, or return it to the disk with `full`, which locks the tables; "
            "needs their owner",
            nargs="?",
            const="plain",
            choices=("plain", "full"),
        ),
        argument("--summary-url URL", "instead replace old sessions by summaries from this chat endpoint"),
        argument("--summary-model NAME", "the endpoint's model", default=""),
        argument("--summary-key-env NAME", "the environment variable with the endpoint's API key", default=""),
        argument(
            "--dry-run",
            "change nothing; with --summary-url ask the model nothing either, and estimate what it would read",
        ),
        argument(
            "--admin-dsn DSN",
            "connect with this DSN, not as the agents do; for --vacuum also from $HERMES_PGVECTOR_ADMIN_DSN",
        ),
        add_yes,
    ],
)

"""`hermes-pgvector compact`."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...domain.commandline import typed
from ...domain.format import format_bytes, plural
from ..common.commands import (
    EXIT_FAILED,
    EXIT_OK,
    Command,
    add_json,
    add_yes,
    connection,
    given_admin_dsn,
    print_json,
    settings_of,
)
from ..common.console import Column, say, show_table, warn

if TYPE_CHECKING:
    from ...config.settings import Settings
    from ...domain.theme import ThemeRules
    from ...domain.theme_settings import Languages
    from ...store.connection import DeadlineConnection
    from .compact_rows import Sizes
    from .compaction import CompactPlan
    from .recall_loss import RecallLoss
    from .summaries import SessionSummaries

_SHOWN_CHARS = 80


def _cosine(text: str) -> float:
    number = float(text)
    if not 0.5 <= number <= 1:
        raise argparse.ArgumentTypeError("must be 0.5 to 1")
    return number


def _sample_size(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 10_000:
        raise argparse.ArgumentTypeError("must be 0 to 10000")
    return number


def _arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--theme", action="append", default=[], metavar="THEME", help="of this theme; repeatable")
    command.add_argument("--all-themes", action="store_true", help="of every theme")
    command.add_argument(
        "--older-than", default="180d", metavar="WHEN", help="said before: 180d, 26w, 2026-01-01 (default: 180d)"
    )
    command.add_argument("--keep-duplicates", action="store_true", help="keep turns that were said again")
    command.add_argument("--keep-vectors", action="store_true", help="keep the vectors of old turns")
    command.add_argument(
        "--similar", type=_cosine, default=0.95, metavar="COSINE",
        help="similarity from which turns with the same words are duplicates (default: 0.95)",
    )  # fmt: skip
    command.add_argument(
        "--sample", type=_sample_size, default=100, metavar="N",
        help="turns to ask to measure the loss of recall, 0 for none (default: 100)",
    )  # fmt: skip
    command.add_argument(
        "--vacuum", nargs="?", const="plain", choices=("plain", "full"),
        help="then free the space for new rows, or return it to the disk with `full`, which locks the tables; needs "
        "their owner",
    )  # fmt: skip
    command.add_argument(
        "--summary-url", metavar="URL", help="instead replace old sessions by summaries from this chat endpoint"
    )
    command.add_argument("--summary-model", default="", metavar="NAME", help="the endpoint's model")
    command.add_argument(
        "--summary-key-env",
        default="",
        metavar="NAME",
        help="the environment variable with the endpoint's API key",
    )
    command.add_argument(
        "--admin-dsn",
        metavar="DSN",
        help="connect with this DSN, not as the agents do; for --vacuum also from $HERMES_PGVECTOR_ADMIN_DSN",
    )
    add_yes(command)
    add_json(command)


def _compact(args: argparse.Namespace, home: Path) -> int:
    from ...host.session_context import Policy
    from ..common.admin_login import admin_conninfo
    from .compaction import require_owner

    settings = settings_of(home)
    with contextlib.ExitStack() as stack:
        login = stack.enter_context(admin_conninfo(settings, given_admin_dsn(args))) if args.vacuum else args.admin_dsn
        conn = stack.enter_context(connection(settings, login))
        if args.vacuum:
            require_owner(conn)
        rules = Policy.of(settings).rules
        if args.summary_url:
            return _summarise(args, conn, rules, settings, home)
        return _make_smaller(args, conn, rules, _languages(settings))


def _languages(settings: Settings) -> Languages:
    from ...domain.theme_settings import Languages

    return Languages(settings.text_language, settings.text_languages)


def _make_smaller(args: argparse.Namespace, conn: DeadlineConnection, rules: ThemeRules, languages: Languages) -> int:
    from .compaction import CompactOptions, plan_compaction

    options = CompactOptions(
        themes=tuple(args.theme),
        every_theme=args.all_themes,
        older_than=args.older_than,
        duplicates=not args.keep_duplicates,
        vectors=not args.keep_vectors,
        similar=args.similar,
        sample=args.sample,
    )
    plan = plan_compaction(conn, options, rules, languages)
    if not args.json:
        _show_plan(plan)
    if args.yes:
        return _carry_out(args, conn, plan)
    if args.json:
        print_json(plan.as_json())
    elif plan.themes:
        say("nothing was changed: add --yes")
    return EXIT_OK


def _carry_out(args: argparse.Namespace, conn: DeadlineConnection, plan: CompactPlan) -> int:
    from .compaction import Compaction, vacuum

    compaction = Compaction(conn, plan)
    try:
        done = compaction.run()
    except KeyboardInterrupt:
        warn(f"interrupted: {_counted(compaction.done)}; run it again to go on")
        raise
    sizes = vacuum(conn, full=args.vacuum == "full") if args.vacuum else ()
    if args.json:
        vacuumed = dict(zip(("before", "after"), map(asdict, sizes), strict=False))
        print_json(plan.as_json(done) | {"vacuumed": vacuumed})
    else:
        _show_done(plan, done, sizes)
    return EXIT_OK


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
    show_table(columns, rows, empty="there is nothing that old to compact")
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
    from ...domain.errors import WrongUsage
    from ...embed.chat import ChatClient
    from ...host.session_context import environment
    from .compaction import chosen_themes, cutoff
    from .summaries import SessionSummaries, old_sessions

    key = environment(home).get(args.summary_key_env, "") if args.summary_key_env else ""
    if args.summary_key_env and not key:
        raise WrongUsage(f"--summary-key-env: the environment has no {args.summary_key_env}, nor has the home's .env")
    if not args.summary_model.strip():
        raise WrongUsage("name the model that writes the summaries: --summary-model NAME")
    themes = list(chosen_themes(conn, args.theme, every=args.all_themes, rules=rules))
    before, may_log = cutoff(conn, args.older_than)
    with contextlib.closing(ChatClient(url=args.summary_url, model=args.summary_model, api_key=key)) as model:
        summaries = SessionSummaries(
            conn,
            model,
            old_sessions(conn, themes, before),
            _languages(settings),
            {"theme": "*" if args.all_themes else ", ".join(themes), "older_than": args.older_than},
            tuple(settings.mask_patterns),
            may_log,
        )
        if not args.json:
            _show_sessions(summaries)
        return _replace_sessions(args, summaries) if args.yes else _preview(args, summaries)


def _show_sessions(summaries: SessionSummaries) -> None:
    columns = [
        Column("theme"), Column("session_id", "session"), Column("turns", right=True), Column("chars", right=True),
        Column("first_at", "first"), Column("last_at", "last"),
    ]  # fmt: skip
    show_table(columns, summaries.as_json(), empty="no session is that old and that long")


def _preview(args: argparse.Namespace, summaries: SessionSummaries) -> int:
    first = summaries.first()
    if args.json:
        print_json({"done": False, "sessions": summaries.as_json(), "first_summary": first})
    elif first:
        say("the first one would become:", "dim")
        say(first)
        say("nothing was changed: add --yes")
    return EXIT_OK


def _replace_sessions(args: argparse.Namespace, summaries: SessionSummaries) -> int:
    done = summaries.run() if summaries.sessions or args.json else {}
    if args.json:
        print_json({"done": True, "replaced": done, "failed": dict(summaries.failed)})
    elif done:
        say(f"replaced: {plural(done['turns'], 'turn')} of {plural(done['sessions'], 'session')}")
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
    "compact",
    "make old turns smaller: delete duplicates, drop vectors to their signatures; measured before",
    "hermes-pgvector compact --all-themes\n"
    "hermes-pgvector compact --theme marketing --older-than 90d --yes --vacuum\n"
    "hermes-pgvector compact --all-themes --older-than 1000d --keep-vectors --json\n"
    "hermes-pgvector compact --theme coder --summary-url http://localhost:11434/v1 --summary-model qwen3",
    _compact,
    _arguments,
)

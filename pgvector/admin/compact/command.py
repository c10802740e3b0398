"""compact."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...domain.commandline import typed
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
    from ...store.connection import DeadlineConnection
    from .compaction import Plan
    from .summaries import Summaries

_SHOWN_CHARS = 80


def _cosine(text: str) -> float:
    number = float(text)
    if not 0.5 <= number <= 1:
        raise argparse.ArgumentTypeError("must be 0.5 to 1")
    return number


def _count(text: str) -> int:
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
    command.add_argument("--keep-duplicates", action="store_true", help="leave turns that were said again")
    command.add_argument("--keep-vectors", action="store_true", help="leave the vectors of old turns")
    command.add_argument(
        "--similar", type=_cosine, default=0.95, metavar="COSINE",
        help="from which turns with the same words say the same (default: 0.95)",
    )  # fmt: skip
    command.add_argument(
        "--sample", type=_count, default=100, metavar="N",
        help="turns that are asked to measure what gets harder to find, 0 for none (default: 100)",
    )  # fmt: skip
    command.add_argument(
        "--vacuum", nargs="?", const="plain", choices=("plain", "full"),
        help="then free the space for new rows, or give it back with `full`, which locks the tables; needs their owner",
    )  # fmt: skip
    command.add_argument(
        "--summary-url", metavar="URL", help="instead replace old sessions by what this chat endpoint says of them"
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
        help="log in so, rather than as the agents do; for --vacuum may also stand in $HERMES_PGVECTOR_ADMIN_DSN",
    )
    add_yes(command)
    add_json(command)


def _compact(args: argparse.Namespace, home: Path) -> int:
    import contextlib

    from ...domain.languages import Languages
    from ...host.session_context import Policy
    from ..common.admin_login import admin_conninfo
    from .compaction import Wish, plan, require_owner

    settings = settings_of(home)
    languages = Languages(settings.text_language, settings.text_languages)
    rules = Policy.of(settings).rules
    with contextlib.ExitStack() as stack:
        login = stack.enter_context(admin_conninfo(settings, given_admin_dsn(args))) if args.vacuum else args.admin_dsn
        conn = stack.enter_context(connection(settings, login))
        if args.vacuum:
            require_owner(conn)
        if args.summary_url:
            return _summarise(args, conn, rules, languages, settings, home)
        wish = Wish(
            themes=tuple(args.theme),
            every_theme=args.all_themes,
            older_than=args.older_than,
            duplicates=not args.keep_duplicates,
            vectors=not args.keep_vectors,
            similar=args.similar,
            sample=args.sample,
        )
        planned = plan(conn, wish, rules, languages)
        if not args.json:
            _show(planned)
        if args.yes:
            return _carry_out(args, conn, planned)
        if args.json:
            print_json(planned.as_json())
        elif planned.portions:
            say("nothing was changed: add --yes")
        return EXIT_OK


def _carry_out(args: argparse.Namespace, conn: DeadlineConnection, planned: Plan) -> int:
    from .compaction import Compaction, vacuum

    compaction = Compaction(conn, planned)
    try:
        done = compaction.run()
    except KeyboardInterrupt:
        warn(f"interrupted: {_counted(compaction.done)}; run it again to go on")
        raise
    measured = vacuum(conn, full=args.vacuum == "full") if args.vacuum else None
    if args.json:
        from dataclasses import asdict

        sizes = {} if measured is None else dict(zip(("before", "after"), map(asdict, measured), strict=True))
        print_json(planned.as_json(done) | {"vacuumed": sizes})
        return EXIT_OK
    if planned.portions:
        say(f"done: {_counted(done)}")
    if measured is not None:
        say(f"tables {_change(*(each.table_bytes for each in measured))}")
        say(f"indexes {_change(*(each.index_bytes for each in measured))}")
    elif any(done.values()):
        say("new rows take the space once autovacuum has been over the tables; --vacuum full gives it back", "dim")
    if done["vectors"]:
        say(typed("to have the vectors back: hermes-pgvector backfill --cold"), "dim")
    return EXIT_OK


def _show(planned: Plan) -> None:
    columns = [
        Column("theme"),
        Column("turns", right=True),
        Column("old_turns", right=True),
        Column("vectors", "vectors that go", right=True),
        Column("size", right=True),
        Column("duplicates", "said again", right=True),
    ]
    rows = [each.as_json() for each in planned.portions]
    rows = [row | {"size": _size(row["vector_bytes"] + row["duplicate_bytes"])} for row in rows]
    show_table(columns, rows, empty="there is nothing that old to compact")
    if not planned.portions:
        return
    for each in planned.examples:
        say(f"e.g. {_line(each['goes'])}", "dim")
        say(f"     goes, as it was said again: {_line(each['stays'])}", "dim")
    totals = planned.totals()
    say(f"saves {_size(totals['vector_bytes'])} of vectors and {_size(totals['duplicate_bytes'])} of turns (exact)")
    say(
        f"and about {_size(totals['index_bytes_about'])} of the {_size(planned.sizes.index_bytes)} of indexes, by the "
        "share of rows (estimated), once they are built anew"
    )
    if loss := planned.loss:
        asked = f"{loss.questions} stored turns asked"
        say(
            f"recall@10 by meaning: {loss.before:.3f} now, {loss.after:.3f} after ({asked}, +-{loss.margin:.3f})",
            "bold",
        )
        say(f"by words and meaning together: {loss.kept:.1%} of the ten found now are found after")
    else:
        say("nothing was asked: what gets harder to find is not known")


def _summarise(
    args: argparse.Namespace,
    conn: DeadlineConnection,
    rules: ThemeRules,
    languages: Any,
    settings: Settings,
    home: Path,
) -> int:
    from ...domain.errors import WrongUsage
    from ...embed.chat import ChatClient
    from ...host.session_context import environment
    from .compaction import moment, themes_meant
    from .summaries import Summaries, find

    key = environment(home).get(args.summary_key_env, "") if args.summary_key_env else ""
    if args.summary_key_env and not key:
        raise WrongUsage(f"--summary-key-env: the environment has no {args.summary_key_env}, nor has the home's .env")
    if not args.summary_model:
        raise WrongUsage("name the model that writes the summaries: --summary-model NAME")
    themes = list(themes_meant(conn, args.theme, every=args.all_themes, rules=rules))
    before, logged = moment(conn, args.older_than)
    writer = ChatClient(url=args.summary_url, model=args.summary_model, api_key=key)
    arguments = {"theme": "*" if args.all_themes else ", ".join(themes), "older_than": args.older_than}
    summaries = Summaries(
        conn, writer, find(conn, themes, before), languages, arguments, tuple(settings.mask_patterns), logged
    )
    try:
        return _write(args, summaries)
    finally:
        writer.close()


def _write(args: argparse.Namespace, summaries: Summaries) -> int:
    columns = [
        Column("theme"), Column("session_id", "session"), Column("turns", right=True), Column("chars", right=True),
        Column("first_at", "first"), Column("last_at", "last"),
    ]  # fmt: skip
    if not args.json:
        show_table(columns, summaries.as_json(), empty="no session is that old and that long")
    if not args.yes:
        first = summaries.first()
        if args.json:
            print_json({"done": False, "sessions": summaries.as_json(), "first_summary": first})
        elif first:
            say("the first one would become:", "dim")
            say(first)
            say("nothing was changed: add --yes")
        return EXIT_OK
    if not summaries.sessions and not args.json:
        return EXIT_OK
    done = summaries.run()
    if args.json:
        print_json({"done": True, "replaced": done, "failed": dict(summaries.failed)})
    else:
        say(f"replaced: {done['turns']:,} turns of {done['sessions']:,} sessions")
        for session_id, why in summaries.failed:
            warn(f"session {session_id} stays as it was: {why}")
    return EXIT_FAILED if summaries.failed else EXIT_OK


def _counted(done: dict[str, int]) -> str:
    return f"{done['duplicates']:,} turns that were said again deleted, {done['vectors']:,} vectors dropped"


def _line(turn: dict[str, Any]) -> str:
    text = " ".join(turn["content"].split())
    return f"{turn['at']:%Y-%m-%d} {turn['role']}: {text[:_SHOWN_CHARS]}{'...' if text[_SHOWN_CHARS:] else ''}"


def _change(before: int, after: int) -> str:
    return f"{_size(before)} before, {_size(after)} after"


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


COMPACT = Command(
    "compact",
    "make old turns smaller: repetitions collapsed, vectors dropped to their signatures; measured before",
    "hermes-pgvector compact --all-themes\n"
    "hermes-pgvector compact --theme marketing --older-than 90d --yes --vacuum\n"
    "hermes-pgvector compact --all-themes --older-than 1000d --keep-vectors --json\n"
    "hermes-pgvector compact --theme coder --summary-url http://localhost:11434/v1 --summary-model qwen3",
    _compact,
    _arguments,
)

"""The command `facts extract`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...config.settings import Settings
from ...domain.dates import parse_when
from ...domain.errors import WrongUsage
from ...domain.format import plural
from ...domain.redaction import masker
from ...domain.theme import ThemeRules
from ...store.connection import DeadlineConnection
from ..common.asked_model import model_at
from ..common.commands import EXIT_FAILED, EXIT_OK, Command, argument, print_json
from ..common.console import Column, say, show_table, warn
from ..common.database import database
from ..common.outcome import fit_for_json
from ..common.row_options import add_theme, tell_theme
from ..common.stopped import said_if_stopped
from ..common.theme_names import theme_to_read
from ..common.theme_rows import every_theme
from .extraction import Extraction, Unread
from .proposal_rows import unread_sessions

_LEAST_TOKENS, _MOST_TOKENS = 500, 100_000
_NONE = "no turn of that time is unread"
_SESSIONS = (
    Column("theme"), Column("session_id", "session"), Column("turns", right=True), Column("first_at", "first"),
    Column("last_at", "last"),
)  # fmt: skip


def _extract(args: argparse.Namespace, home: Path) -> int:
    if not (args.url or args.dry_run):
        raise WrongUsage("name the endpoint of the model that reads: --url URL; or --dry-run, which asks none")
    if not _LEAST_TOKENS <= args.batch_tokens <= _MOST_TOKENS:
        raise WrongUsage(f"--batch-tokens must be {_LEAST_TOKENS} to {_MOST_TOKENS}")
    with database(args, home) as (conn, settings, rules):
        unread = _unread(args, conn, settings, rules, home)
        if args.dry_run:
            return _preview(args, unread)
        with model_at(args, home, prefix="") as model:
            themes = sorted({session.theme for session in unread.sessions})
            return _read(args, Extraction(unread, model, {"theme": ", ".join(themes), "since": args.since}))


def _unread(
    args: argparse.Namespace, conn: DeadlineConnection, settings: Settings, rules: ThemeRules, home: Path
) -> Unread:
    if args.all_themes and args.theme is not None:
        raise WrongUsage("give --theme or --all-themes, not both")
    since = parse_when(args.since, "--since", zone=None)
    if since is None:
        raise WrongUsage("--since must be a time, like 7d or 2026-05-03")
    if args.all_themes:
        themes = [str(row["theme"]) for row in every_theme(conn)]
    else:
        themes = [theme_to_read(conn, args.theme, rules, home)]
        tell_theme(args, conn, themes[0])
    sessions = [session for theme in themes for session in unread_sessions(conn, theme, since)]
    return Unread(conn, sessions, since, masker(tuple(settings.mask_patterns)), args.batch_tokens)


def _preview(args: argparse.Namespace, unread: Unread) -> int:
    sessions = [asdict(session) for session in unread.sessions]
    expected = unread.estimated_tokens()
    if args.json:
        rows = [fit_for_json(row) for row in sessions]
        print_json({"done": False, "sessions": rows, "estimated_tokens": expected})
        return EXIT_OK
    show_table(_SESSIONS, sessions, empty=_NONE)
    if sessions:
        turns = sum(session.turns for session in unread.sessions)
        say(f"the model would read {plural(turns, 'turn')}, about {expected:,} tokens (estimated); nothing was asked")
    return EXIT_OK


def _read(args: argparse.Namespace, extraction: Extraction) -> int:
    with said_if_stopped(lambda: f"{_told(extraction)}; run it again to go on"):
        extraction.run()
    if args.json:
        print_json(_as_json(extraction))
    else:
        say(_told(extraction))
        for each in extraction.failed:
            warn(f"turns of the session {each['session_id']} in {each['theme']!r} stay unread: {each['why']}")
        if extraction.done["proposals"]:
            say("to decide on them: hermes-pgvector facts review", "dim")
    return EXIT_FAILED if extraction.failed else EXIT_OK


def _told(extraction: Extraction) -> str:
    if not extraction.unread.sessions:
        return _NONE
    done = extraction.done
    more = [f"{done['known']:,} known already"] if done["known"] else []
    more += [f"{done['malformed']:,} malformed and left out"] if done["malformed"] else []
    also = f" ({', '.join(more)})" if more else ""
    return (
        f"{plural(done['turns'], 'turn')} read, {plural(done['proposals'], 'memory', 'memories')} proposed{also}; "
        f"{extraction.model.cost}"
    )


def _as_json(extraction: Extraction) -> dict[str, Any]:
    return {
        "done": True,
        **extraction.done,
        "failed": extraction.failed,
        "tokens": asdict(extraction.model.cost),
    }


EXTRACT = Command(
    "hermes-pgvector facts extract --since 7d --dry-run\n"
    "hermes-pgvector facts extract --theme coder --url http://localhost:11434/v1 --model qwen3\n"
    "hermes-pgvector facts extract --all-themes --url https://api.example.com/v1 --model small --key-env EXTRACT_KEY",
    _extract,
    [
        argument("--since WHEN", "turns said from then on: 7d, 2026-05-03 (default: 7d)", default="7d"),
        add_theme,
        argument("--all-themes", "of every theme, chats among them"),
        argument("--url URL", "the chat endpoint (OpenAI-compatible)"),
        argument("--model NAME", "the endpoint's model", default=""),
        argument("--key-env NAME", "the environment variable with the endpoint's API key", default=""),
        argument(
            "--batch-tokens N",
            f"about how many tokens of turns one request holds, {_LEAST_TOKENS} to {_MOST_TOKENS} (default: 6000)",
            type=int,
            default=6000,
        ),
        argument("--dry-run", "show what would be read and about what it costs; ask nothing"),
    ],
)

"""The commands edit and forget."""

from __future__ import annotations

import argparse
import shlex
import tempfile
import time
from pathlib import Path
from typing import Any

from ...domain.commandline import typed
from ...domain.errors import HermesPgvectorError, WrongUsage
from ...domain.format import local_minute, plural
from ...domain.theme import ThemeRules
from ...domain.types import Filters, Question, Scope, Store
from ...recall.relevance import worth_showing
from ...store.backend import WRITE_TIMEOUT_S
from ...store.vectors import STORES
from ..common.command_context import CommandContext, context_for
from ..common.commands import Command, add_login, add_yes, argument
from ..common.console import Column, say, say_line, show_table, warn
from ..common.fact_options import EDIT_OPTIONS, said_in
from ..common.outcome import ADD_YES, Outcome, counted, print_outcome
from ..common.refs import Ref, parse_refs
from ..common.row_options import PATIENCE_S, one_line, question_text, theme_option
from ..common.theme_names import theme_of_session, theme_to_read
from . import forget_rows
from .add_command import given_text, vector_follows
from .editing import edit, memory
from .editor import edited

_QUERY_DEFAULT, _QUERY_MOST = 5, 50
_SHOWN = 20  # of the rows that would be deleted

_ROWS = (
    Column("ref", "id", style="bold"),
    Column("theme"),
    Column("who", "kind"),
    Column("at", "date", style="dim"),
    Column("content", "text", flexible=True),
)


# -- edit


def _edit(args: argparse.Namespace, home: Path) -> int:
    refs = parse_refs([args.id])
    if len(refs) != 1:
        raise WrongUsage("edit takes one memory at a time")
    with context_for(args, home) as (context, _):
        changes = said_in(args, context.keep)
        if args.text is None and not changes:
            done = _edit_in_editor(context, refs[0], really=args.yes)
        else:
            text = None if args.text is None else given_text(args.text)
            done = edit(context, refs[0], text, changes, really=args.yes)
        done.hints += vector_follows(done, context)
    unchanged = ADD_YES if done.counts["memories"] else "nothing was changed"
    return print_outcome(args, done, lambda: _show_edited(done), "done" if done.done else unchanged)


def _edit_in_editor(context: CommandContext, ref: Ref, *, really: bool) -> Outcome:
    """Let a person edit the text; if it is not stored, what they wrote is kept in a file. Raises as `edit`."""
    with context.backend.connection(PATIENCE_S) as conn:
        opened = memory(conn, ref).content
    text = edited(opened)
    try:
        done = edit(context, ref, text, {}, really=really, expected=opened)
    except (HermesPgvectorError, KeyboardInterrupt):
        warn(f"what you wrote is in {_kept(ref, text)}")
        raise
    if done.counts["memories"] and not done.done:
        path = _kept(ref, text)
        done.notes.append(
            typed(f"what you wrote is in {path}: hermes-pgvector edit {ref} - --yes < {shlex.quote(path)}")
        )
    return done


def _kept(ref: Ref, text: str) -> str:
    """Write what a person wrote into a file that only this user can read; return its name."""
    handle, path = tempfile.mkstemp(prefix=f"hermes-pgvector-{ref}-", suffix=".txt")
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def _show_edited(done: Outcome) -> None:
    (row,) = done.rows
    say(f"{row['ref']} in the theme {row['theme']!r}")
    if row["was"] != row["content"]:
        say(f"  was  {one_line(row['was'], lines=3, indent=7)}", "dim")
        say(f"  now  {one_line(row['content'], lines=3, indent=7)}")
    else:
        say(f"       {one_line(row['content'], lines=3, indent=7)}", "dim")
    for name, (was, now) in row.get("changes", {}).items():
        say_line(f"  {name.replace('_', ' ')}: {_told(name, was)} -> {_told(name, now)}")


def _told(name: str, value: Any) -> str:
    if value in (None, False, []):
        return "none"
    if name == "expires_at":
        return local_minute(value)
    return ", ".join(value) if isinstance(value, list) else str(value)


# -- forget


def _forget(args: argparse.Namespace, home: Path) -> int:
    _check_forget(args)
    refs = parse_refs(args.id)
    with context_for(args, home) as (context, rules):
        notes: list[str] = []
        if args.query:
            refs, unlike = _found(args, context, rules, args.store)
            if unlike:
                others = plural(unlike, "other result fits", "other results fit")
                notes.append(f"{others} too little: name by id what is meant as well")
            notes += _turns_left(args, context, rules) + _out_of_recall(args, context, rules, refs)
        done = _forgotten(args, context, rules, refs)
        done.notes += notes
    return print_outcome(args, done, lambda: _show_forgotten(done), _forget_summary(args, done, refs))


def _check_forget(args: argparse.Namespace) -> None:
    if sum(map(bool, (args.id, args.query, args.session))) != 1:
        raise WrongUsage("say what to forget: ids (m123, t123), or --query TEXT, or --session SESSION")
    if args.versions and not args.id:
        raise WrongUsage("--versions goes with ids of memories")
    if args.query and not 1 <= args.limit <= _QUERY_MOST:
        raise WrongUsage(f"--limit must be 1 to {_QUERY_MOST}")
    if args.query and args.target and args.store == "turns":
        raise WrongUsage("--target is for memories")


def _forgotten(args: argparse.Namespace, context: CommandContext, rules: ThemeRules, refs: list[Ref]) -> Outcome:
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        if args.versions:
            return forget_rows.forget_versions(conn, refs, really=args.yes)
        if args.session:
            forget_rows.require_stored(conn, context.home, args.session, args.theme)
            theme = theme_of_session(conn, args.session, args.theme, rules)
            done = forget_rows.forget_session(conn, theme, args.session, really=args.yes)
        else:
            meant = theme_to_read(conn, args.theme, rules, context.home) if args.theme or args.query else None
            done = forget_rows.forget(conn, context, refs, theme=meant, really=args.yes)
    # Copies in the spool are dropped after the rows.
    if args.session:
        done.notes += forget_rows.drop_spooled_session(context.home, theme, args.session, really=args.yes)
    else:
        done.notes += forget_rows.drop_spooled(context, done, really=args.yes)
    return done


def _turns_left(args: argparse.Namespace, context: CommandContext, rules: ThemeRules) -> list[str]:
    """Return a note on turns that match the question too, if only memories are searched."""
    if args.store != "memories" or args.target:
        return []
    turns, _ = _found(args, context, rules, "turns")
    if not turns:
        return []
    command = typed(f"hermes-pgvector forget --query {shlex.quote(args.query)} --store turns")
    theme = f" --theme {shlex.quote(args.theme)}" if args.theme else ""
    fit = plural(len(turns), "turn fits as well and stays", "turns fit as well and stay")
    return [f"{fit}: {command}{theme}"]


def _out_of_recall(
    args: argparse.Namespace, context: CommandContext, rules: ThemeRules, chosen: list[Ref]
) -> list[str]:
    if args.store != "memories":
        return []
    with context.backend.connection(PATIENCE_S) as conn:
        theme = theme_to_read(conn, args.theme, rules, context.home)
        return forget_rows.out_of_recall(conn, theme, args.query, args.target, chosen)


def _found(args: argparse.Namespace, context: CommandContext, rules: ThemeRules, store: Store) -> tuple[list[Ref], int]:
    """Return the rows that match the question, and how many of those found do not."""
    with context.backend.connection(PATIENCE_S) as conn:
        scope = Scope("theme", theme_to_read(conn, args.theme, rules, context.home))
    text = question_text(args.query)
    found = context.searcher.recall(
        [store], Question(text, scope, args.limit, PATIENCE_S, Filters(target=args.target))
    ).hits
    fits = worth_showing(context.searcher, found, text, context.settings, time.monotonic() + PATIENCE_S)
    return [Ref(store, hit.id) for hit in fits], len(found) - len(fits)


def _show_forgotten(done: Outcome) -> None:
    rows = [
        row | {"who": row.get("target") or row.get("role"), "at": local_minute(row["at"])[:10] if "at" in row else ""}
        for row in done.rows[:_SHOWN]
    ]
    show_table(_ROWS if rows and rows[0]["at"] else [each for each in _ROWS if each.key != "at"], rows)
    if (more := max(len(done.rows), sum(done.counts.values())) - len(rows)) > 0 and not done.counts.get("texts"):
        say(f"... and {more:,} more")


def _forget_summary(args: argparse.Namespace, done: Outcome, refs: list[Ref]) -> str:
    if args.query and not refs:
        return "nothing fits that; nothing was changed"
    if args.versions and not done.counts["texts"]:
        return "no earlier text is kept; nothing was changed"
    if done.done:
        return f"forgotten: {counted(done.counts)}"
    lines = [f"would forget {counted(done.counts)}; {ADD_YES}"] if any(done.counts.values()) else []
    if args.query and refs:
        lines.append(typed("exactly these: hermes-pgvector forget ") + " ".join(map(str, refs)) + " --yes")
    return "\n".join(lines)


EDIT = Command(
    'hermes-pgvector edit m12 "The staging database is rebuilt every Monday"\n'
    "hermes-pgvector edit m12 --yes          # opens $EDITOR\n"
    "hermes-pgvector edit m12 --subject staging.db --kind value --yes\n"
    "hermes-pgvector edit m12 --state archived --yes",
    _edit,
    [
        argument("id ID", "the memory: m123, or 123"),
        argument("text TEXT", "what it shall say; - reads it from stdin (default: opens $EDITOR)", nargs="?"),
        *EDIT_OPTIONS,
        add_yes,
        add_login,
    ],
)
FORGET = Command(
    'hermes-pgvector forget m12 m17 t345\nhermes-pgvector forget --query "the old price list" --theme sales\n'
    "hermes-pgvector forget --session 20260503_140211_a1b2c3 --yes",
    _forget,
    [
        argument("id ID", "m123 (or 123) a memory, t123 a turn", nargs="*"),
        argument("--query TEXT", "what is found for this, instead of ids"),
        argument("--store", "--query: where to look (default: memories)", choices=STORES, default="memories"),
        argument("--target", "--query: only notes, or only facts of the user", choices=("memory", "user")),
        argument(
            "--limit N",
            f"--query: how many at most, 1 to {_QUERY_MOST} (default: {_QUERY_DEFAULT})",
            type=int,
            default=_QUERY_DEFAULT,
        ),
        argument("--session SESSION", "all turns of this session, instead of ids"),
        argument("--versions", "only what the memories said before they were replaced"),
        add_yes,
        theme_option(
            "the theme (default: of ids and of a session any; of --query that of this home's sessions, or the only one)"
        ),
    ],
)

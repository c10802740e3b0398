"""add, edit, forget."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...domain.commandline import typed
from ..common.commands import EXIT_OK, Command, add_json, add_login, add_yes, print_json
from ..common.console import Column, say, show_table
from ..common.row_options import PATIENCE_S, STORES, add_theme, at_bench, minute, one_line

if TYPE_CHECKING:
    from ..common.command_context import Bench
    from ..common.refs import Ref
    from .corrections import Correction

_QUERY_DEFAULT, _QUERY_MOST = 5, 50
_SHOWN = 20  # rows of what would go

_ROWS = (
    Column("ref", "id", style="bold"),
    Column("theme"),
    Column("kind"),
    Column("at", "date", style="dim"),
    Column("content", "text", flexible=True),
)


def _text(given: str) -> str:
    """The text of an argument, or with `-` what stands on stdin."""
    return sys.stdin.read() if given == "-" else given


# -- add


def _add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("text", metavar="TEXT", help="what to remember; - reads it from stdin")
    command.add_argument(
        "--target",
        choices=("memory", "user"),
        default="memory",
        help="a note (the default), or a fact about the user",
    )
    command.add_argument("--metadata", metavar="JSON", help="an object to keep beside it")
    add_theme(command)
    add_json(command)


def _add(args: argparse.Namespace, home: Path) -> int:
    from ..browse.browsing import theme_to_write
    from . import corrections

    metadata = _metadata(args.metadata)
    text = _text(args.text)
    with at_bench(args, home) as (made, rules):
        theme, note = theme_to_write(args.theme, rules, home)
        done = corrections.add(made.hand, theme, args.target, text, metadata)
    if note:
        done.notes.append(note)
    if args.json:
        print_json(done.as_json())
        return EXIT_OK
    (row,) = done.rows
    say(f"{row['state']} {row['ref']} in the theme {theme!r}: {one_line(row['content'])}")
    _say_notes(done, made)
    return EXIT_OK


def _metadata(given: str | None) -> dict[str, Any]:
    from ...domain.errors import WrongUsage

    try:
        value = json.loads(given) if given is not None else {}
    except ValueError as exc:
        raise WrongUsage(f"--metadata is no JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise WrongUsage('--metadata must be an object of names and values: {"ticket": "OPS-12"}')
    return value


def _say_notes(done: Correction, made: Bench) -> None:
    for note in done.notes:
        say(f"note: {note}")
    if made.embedder is not None and any(row.get("embedded") is False for row in done.rows):
        say(typed("note: it is found by words; its vector follows with the next agent, or hermes-pgvector backfill"))


# -- edit


def _edit_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("id", metavar="ID", help="the memory: m123, or 123")
    command.add_argument(
        "text", nargs="?", metavar="TEXT", help="what it shall say; - reads it from stdin (default: opens $EDITOR)"
    )
    add_yes(command)
    add_login(command)
    add_json(command)


def _edit(args: argparse.Namespace, home: Path) -> int:
    from ...domain.errors import WrongUsage
    from ..common.refs import parse_refs
    from . import corrections

    refs = parse_refs([args.id])
    if len(refs) != 1:
        raise WrongUsage("edit takes one memory at a time")
    with at_bench(args, home) as (made, _):
        if args.text is None:
            with made.backend.connection(PATIENCE_S) as conn:
                now = corrections.memory(conn, refs[0]).content
            text = _edited(now)
        else:
            text = _text(args.text)
        done = corrections.edit(made.hand, refs[0], text, really=args.yes)
    if args.json:
        print_json(done.as_json())
        return EXIT_OK
    (row,) = done.rows
    say(f"{row['ref']} in the theme {row['theme']!r}")
    say(f"  was  {one_line(row['was'], lines=3, indent=7)}", "dim")
    say(f"  now  {one_line(row['content'], lines=3, indent=7)}")
    _say_notes(done, made)
    say(
        "done"
        if done.done
        else "nothing was changed"
        if not done.counts["memories"]
        else "nothing was changed: add --yes"
    )
    return EXIT_OK


def _edited(text: str) -> str:
    """What a person made of a text in their editor. Raises WrongUsage without one, InvalidArgument where it fails."""
    from ...domain.errors import InvalidArgument, WrongUsage

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise WrongUsage("give the new text, or - to read it from stdin, or set $EDITOR")
    with tempfile.TemporaryDirectory(prefix="hermes-pgvector-") as folder:
        file = Path(folder) / "memory.txt"  # in a folder that only this user may enter
        file.write_text(text + "\n", encoding="utf-8")
        try:
            code = subprocess.run([*shlex.split(editor), str(file)], check=False).returncode
        except OSError as exc:
            raise InvalidArgument(f"the editor {editor!r} cannot be run: {exc.strerror or exc}") from exc
        if code:
            raise InvalidArgument(f"the editor {editor!r} ended with code {code}: nothing was changed")
        return file.read_text(encoding="utf-8")


# -- forget


def _forget_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("id", nargs="*", metavar="ID", help="m123 (or 123) a memory, t123 a turn")
    command.add_argument("--query", metavar="TEXT", help="what is found for this, instead of ids")
    command.add_argument(
        "--store", choices=STORES, default="memories", help="--query: where to look (default: memories)"
    )
    command.add_argument("--target", choices=("memory", "user"), help="--query: only notes, or only facts of the user")
    command.add_argument(
        "--limit", type=int, default=_QUERY_DEFAULT, metavar="N",
        help=f"--query: how many at most, 1 to {_QUERY_MOST} (default: {_QUERY_DEFAULT})",
    )  # fmt: skip
    command.add_argument("--session", metavar="SESSION", help="all turns of this session, instead of ids")
    command.add_argument(
        "--versions", action="store_true", help="only what the memories said before they were replaced"
    )
    add_yes(command)
    add_theme(command)
    add_json(command)


def _forget(args: argparse.Namespace, home: Path) -> int:
    from ...domain.errors import WrongUsage
    from ..browse.browsing import session_place, theme_to_read
    from ..common.refs import parse_refs
    from . import corrections

    if sum(map(bool, (args.id, args.query, args.session))) != 1:
        raise WrongUsage("say what to forget: ids (m123, t123), or --query TEXT, or --session SESSION")
    if args.versions and not args.id:
        raise WrongUsage("--versions goes with ids of memories")
    refs = parse_refs(args.id)
    with at_bench(args, home) as (made, rules):
        with made.backend.connection(PATIENCE_S) as conn:
            theme = theme_to_read(conn, args.theme, rules, home) if args.theme or args.query else None
            if args.session:
                theme = session_place(conn, args.session, args.theme, rules)
        if args.session:
            done = corrections.forget_session(made.hand, str(theme), args.session, really=args.yes)
        elif args.versions:
            done = corrections.forget_versions(made.hand, refs, really=args.yes)
        else:
            if args.query:
                refs = _found(args, made, str(theme))
            done = corrections.forget(made.hand, refs, theme=theme, really=args.yes)
    if args.json:
        print_json(done.as_json())
        return EXIT_OK
    _show_forgotten(done)
    if args.query and refs and not args.yes:
        say(typed("exactly these: hermes-pgvector forget ") + " ".join(map(str, refs)) + " --yes")
    return EXIT_OK


def _found(args: argparse.Namespace, made: Bench, theme: str) -> list[Ref]:
    from ...domain.errors import WrongUsage
    from ...domain.types import Filters, Question, Scope
    from ..browse.operator_search import question
    from ..common.refs import Ref

    if not 1 <= args.limit <= _QUERY_MOST:
        raise WrongUsage(f"--limit must be 1 to {_QUERY_MOST}")
    if args.target and args.store == "turns":
        raise WrongUsage("--target is for memories")
    asked = Question(question(args.query), Scope("theme", theme), args.limit, PATIENCE_S, Filters(target=args.target))
    return [Ref(args.store, hit.id) for hit in made.searcher.recall([args.store], asked).hits]


def _show_forgotten(done: Correction) -> None:
    rows = [row | {"at": minute(row["at"])[:10] if "at" in row else ""} for row in done.rows[:_SHOWN]]
    show_table(_ROWS if rows and rows[0]["at"] else [each for each in _ROWS if each.key != "at"], rows)
    if (more := max(len(done.rows), sum(done.counts.values())) - len(rows)) > 0 and not done.counts.get("texts"):
        say(f"... and {more:,} more")
    for note in done.notes:
        say(f"note: {note}")
    counts = ", ".join(_counted(name, count) for name, count in done.counts.items() if count) or "nothing"
    if done.done:
        say(f"forgotten: {counts}")
    elif any(done.counts.values()):
        say(f"would forget {counts}; nothing was changed: add --yes")


def _counted(name: str, count: int) -> str:
    one = {"memories": "memory", "turns": "turn", "texts": "earlier text"}
    return f"1 {one[name]}" if count == 1 else f"{count:,} {name}"


ADD = Command(
    "add",
    "store a memory",
    'hermes-pgvector add "The staging database is rebuilt every Sunday" --theme sre\n'
    'hermes-pgvector add --target user "Prefers short answers" --metadata \'{"ticket": "OPS-12"}\'\n'
    "hermes-pgvector add - --theme sre < note.txt",
    _add,
    _add_arguments,
)
EDIT = Command(
    "edit",
    "change what a memory says",
    'hermes-pgvector edit m12 "The staging database is rebuilt every Monday"\n'
    "hermes-pgvector edit m12 --yes          # opens $EDITOR",
    _edit,
    _edit_arguments,
)
FORGET = Command(
    "forget",
    "delete memories or turns for good, with everything that was derived of them",
    'hermes-pgvector forget m12 m17 t345\nhermes-pgvector forget --query "the old price list" --theme sales\n'
    "hermes-pgvector forget --session 20260503_140211_a1b2c3 --yes",
    _forget,
    _forget_arguments,
)

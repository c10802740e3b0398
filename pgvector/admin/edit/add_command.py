"""The command add, also as `facts add`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...capture.sanitize import Sanitizer
from ...domain.commandline import typed
from ...domain.errors import WrongUsage
from ...domain.facts import PLAIN, Structure, parse_notation
from ...host.session_context import Policy
from ...runtime.spools import spools_of
from ..common.adding import NewMemory, add, memory_to_add
from ..common.command_context import CommandContext, context_for
from ..common.commands import Argument, Command, argument
from ..common.console import say
from ..common.database import settings_of
from ..common.fact_options import ADD_OPTIONS, said_in
from ..common.outcome import Outcome, print_outcome
from ..common.row_options import one_line, theme_option
from ..common.spool_views import inspect_spools
from ..common.theme_names import theme_to_write


def given_text(given: str) -> str:
    """Return the text of an argument, or stdin's content for `-`. Raises WrongUsage if that is no text."""
    piped = given == "-"
    try:
        text = sys.stdin.read() if piped else given
        text.encode()  # as an argument, or where no locale is set, what is no text comes as halves of surrogate pairs
    except UnicodeError as exc:
        what, encoding = (
            ("what stands on stdin", sys.stdin.encoding) if piped else ("this", sys.getfilesystemencoding())
        )
        raise WrongUsage(
            f"{what} is not text in {encoding}: write it in that encoding, as with iconv -f latin1 -t {encoding}"
        ) from exc
    return text


def vector_follows(done: Outcome, context: CommandContext) -> list[str]:
    """Return a note if a row has no vector yet."""
    if context.embedder is None or not any(row.get("pending") for row in done.rows):
        return []
    return [typed("it is found by words; its vector follows with the next agent, or hermes-pgvector backfill")]


def _add(plain: Structure, args: argparse.Namespace, home: Path) -> int:
    metadata = _metadata(args.metadata)
    text = given_text(args.text)
    done = _stored(args, home, text, metadata, plain) if args.wait else _handed_over(
        args, home, text, metadata, plain
    )  # fmt: skip
    return print_outcome(args, done, lambda: _show(done))


def _stored(args: argparse.Namespace, home: Path, text: str, metadata: dict[str, Any], plain: Structure) -> Outcome:
    with context_for(args, home) as (context, rules):
        theme, note = theme_to_write(args.theme, rules, home)
        structure = _structure(args, context.keep, text, plain)
        done = add(context, NewMemory(theme, args.target, text, structure, metadata))
        done.notes += [note] if note else []
        done.hints += vector_follows(done, context)
    return done


def _handed_over(
    args: argparse.Namespace, home: Path, text: str, metadata: dict[str, Any], plain: Structure
) -> Outcome:
    """Put the memory into the spool of this home, from which an agent writes it; the database is not accessed."""
    settings = settings_of(home)
    keep = Sanitizer(settings)
    theme, note = theme_to_write(args.theme, Policy.of(settings).rules, home)
    structure = _structure(args, keep, text, plain)
    op, notes = memory_to_add(keep, NewMemory(theme, args.target, text, structure, metadata))
    spools = spools_of(settings, home)
    spool = spools.open_own(taken_bytes=sum(view.size_bytes for view in inspect_spools(home)))
    try:
        spool.append(op)
    finally:
        spools.discard(spool)
    row = {"theme": theme, "target": args.target, "content": op.content, "state": "accepted", "op_id": str(op.op_id)}
    return Outcome("add", True, {"accepted": 1}, [row], notes=[*notes, *([note] if note else [])])


def _structure(args: argparse.Namespace, keep: Sanitizer, text: str, plain: Structure) -> Structure:
    """Return what the options say and, where the text is no line of notation, what `plain` says of such a memory."""
    said = Structure(**said_in(args, keep))
    return said.over(plain) if parse_notation(text) is None else said


def _metadata(given: Sequence[str]) -> dict[str, Any]:
    """Return the names and values given with --metadata; of equal names the last counts. Raises WrongUsage."""
    found: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        found |= {name.strip(): value} if equals and name.strip() and not each.startswith("{") else _object(each)
    return found


def _object(given: str) -> dict[str, Any]:
    try:
        value = json.loads(given)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise WrongUsage(
            f"--metadata {given!r} is neither KEY=VALUE nor a JSON object of names and values; write "
            '--metadata ticket=OPS-12 or, in single quotes, --metadata \'{"ticket": "OPS-12"}\''
        )
    return value


def _show(done: Outcome) -> None:
    (row,) = done.rows
    if row["state"] == "accepted":
        say(f"accepted for the theme {row['theme']!r}, an agent of this home writes it: {one_line(row['content'])}")
        return
    say(f"{row['state']} {row['ref']} in the theme {row['theme']!r}: {one_line(row['content'])}")
    said = row.get("structure", {})
    if "replaces" in said:
        say(f"it takes the place of {said['replaces']}")
    if said.get("state") == "superseded":
        say(f"{said.get('replaced_by', 'another memory of this subject')} was said later and stays current")


def _arguments() -> list[Argument]:
    return [
        argument("text TEXT", "what to remember; - reads it from stdin"),
        argument(
            "--target", "a note (the default), or a fact about the user", choices=("memory", "user"), default="memory"
        ),
        argument(
            "--metadata KEY=VALUE", "to keep beside it; repeatable, or one JSON object", action="append", default=[]
        ),
        *ADD_OPTIONS,
        argument("--sync", "wait until it is stored: the default", dest="wait", action="store_true", default=True),
        argument(
            "--no-wait",
            "only keep it on this machine, also without a database: an agent of this home writes it",
            dest="wait",
            action="store_false",
        ),
        theme_option("the theme (default: that of this home's sessions)"),
    ]


ADD = Command(
    'hermes-pgvector add "The staging database is rebuilt every Sunday" --theme sre\n'
    'hermes-pgvector add --target user "Prefers short answers" --metadata ticket=OPS-12 --metadata team=sre\n'
    'hermes-pgvector add "D[auth]: tokens last 7 days"\n'
    'hermes-pgvector add "Deploy, then watch the queue" --kind procedure --when "deploying the API" --no-wait\n'
    "hermes-pgvector add - --theme sre < note.txt",
    partial(_add, PLAIN),
    _arguments(),
)
ADD_FACT = Command(
    'hermes-pgvector facts add "The API listens on port 3005" --kind value --subject srv.prod\n'
    'hermes-pgvector facts add "The office moved to Nantes" --replaces m12\n'
    'hermes-pgvector facts add "Deploy from main only" --kind constraint --subject deploy --scope api --pinned',
    partial(_add, Structure(state="active")),
    _arguments(),
)

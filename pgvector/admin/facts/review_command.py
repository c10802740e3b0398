"""The command `facts review`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...domain.errors import WrongUsage
from ...domain.facts import KINDS
from ...domain.format import local_minute, plural
from ..common.command_context import CommandContext, context_for
from ..common.commands import EXIT_FAILED, EXIT_OK, Command, argument, between, printed
from ..common.console import Column, say, say_line, show_table, warn
from ..common.outcome import Outcome, print_outcome
from ..common.row_options import PATIENCE_S, one_line, theme_option
from ..common.theme_names import theme_to_read
from . import reviewing
from .proposal_rows import StoredProposal

_REF = re.compile(r"p?(\d{1,18})", re.IGNORECASE | re.ASCII)
_QUOTED_LINES = 2
_ANSWERS = "accept, edit, reject, skip or quit? [a/e/r/s/q] "
_PROPOSALS = (
    Column("ref", "id", style="bold"),
    Column("theme"),
    Column("kind"),
    Column("subject"),
    Column("scope"),
    Column("confidence", right=True),
    Column("said", style="dim"),
    Column("instead", "replaces", style="yellow"),
    Column("content", "text", flexible=True),
)


def _review(args: argparse.Namespace, home: Path) -> int:
    ids = _ids(args.id)
    _check(args, ids)
    with context_for(args, home) as (context, rules):
        theme = None
        if args.theme is not None:
            with context.backend.connection(PATIENCE_S) as conn:
                theme = theme_to_read(conn, args.theme, rules, home)
        least = 0.0 if args.accept_above is None else args.accept_above
        found = reviewing.waiting(context, theme=theme, ids=ids or None, least=least, rejected=args.rejected)
        if args.ask:
            return _ask_each(context, found)
        if _changes(args):
            names = {"kind": args.kind, "subject": args.subject, "scope": args.scope}
            found = [reviewing.edit(context, found[0], args.edit, **names)]
        return _decide(args, context, found)


def _ids(words: Sequence[str]) -> list[int]:
    """Return the ids of proposals that arguments name, each once. Raises WrongUsage."""
    numbers = []
    for word in (part for given in words for part in given.split(",") if part):
        match = _REF.fullmatch(word.strip())
        if match is None:
            raise WrongUsage(f"{word!r} names no proposal; write p123, as `facts review` shows them")
        numbers.append(int(match[1]))
    return list(dict.fromkeys(numbers))


def _changes(args: argparse.Namespace) -> bool:
    return any(each is not None for each in (args.edit, args.kind, args.subject, args.scope))


def _check(args: argparse.Namespace, ids: Sequence[int]) -> None:
    if sum((args.accept, args.reject, args.accept_above is not None, args.ask)) > 1:
        raise WrongUsage("give one of --accept, --reject, --accept-above and --ask")
    if _changes(args) and (len(ids) != 1 or args.reject or args.ask):
        raise WrongUsage("--edit, --kind, --subject and --scope go with one id, and at most with --accept")
    if args.ask and (args.json or not all(each.isatty() for each in (sys.stdin, sys.stdout))):
        raise WrongUsage("--ask needs a terminal; elsewhere give ids and --accept or --reject")
    _check_which(args, ids)


def _check_which(args: argparse.Namespace, ids: Sequence[int]) -> None:
    decides = args.accept or args.reject
    if decides and bool(ids) == args.all:
        raise WrongUsage("say which: ids as `facts review` shows them, or --all")
    if args.all and not decides:
        raise WrongUsage("--all goes with --accept or --reject")
    if args.accept_above is not None and ids:
        raise WrongUsage("--accept-above chooses by confidence: leave the ids out, or give --accept")


def _decide(args: argparse.Namespace, context: CommandContext, found: Sequence[StoredProposal]) -> int:
    if args.reject:
        return _print(args, reviewing.reject(context, found))
    if args.accept or args.accept_above is not None:
        return _print(args, reviewing.accept(context, found))
    rows = [reviewing.as_row(each) for each in found]
    return printed(args, rows, lambda: _show(rows, rejected=args.rejected))


def _show(rows: Sequence[dict[str, Any]], *, rejected: bool) -> None:
    shown = [row | {"said": local_minute(row["said_at"])[:10], "instead": _instead(row)} for row in rows]
    show_table(_PROPOSALS, shown, empty="nothing was rejected" if rejected else "nothing waits for a decision")
    if rows and not rejected:
        say(
            "nothing of it is recalled yet: hermes-pgvector facts review --ask, or with ids and --accept or --reject",
            "dim",
        )


def _instead(row: dict[str, Any]) -> str:
    return f"no, {row['superseded_by']} is newer" if "superseded_by" in row else row.get("replaces", "")


def _print(args: argparse.Namespace, done: Outcome) -> int:
    print_outcome(args, done, lambda: _show_accepted(done), _summary(done.counts))
    return EXIT_FAILED if "gone" in done.facts else EXIT_OK


def _show_accepted(done: Outcome) -> None:
    for row in done.rows:
        if "memory" in row:
            say(f"{row['ref']} is {row['memory']} in the theme {row['theme']!r}: {one_line(row['content'])}")


def _summary(counts: dict[str, int]) -> str:
    return "; ".join(f"{plural(count, 'proposal')} {what}" for what, count in counts.items())


# -- one by one


def _ask_each(context: CommandContext, found: Sequence[StoredProposal]) -> int:
    counts = {"accepted": 0, "rejected": 0}
    for number, each in enumerate(found, 1):
        say(f"\n{number} of {len(found)}", "dim")
        done = _ask_about(context, each)
        if done is None:
            break
        for what, count in done.items():
            counts[what] += count
    say(_summary(counts) if found else "nothing waits for a decision")
    return EXIT_OK


def _ask_about(context: CommandContext, proposal: StoredProposal) -> dict[str, int] | None:
    """Ask about one proposal until it is decided; return the counts, or None to quit."""
    while True:
        _show_one(context, proposal)
        match _line(_ANSWERS):
            case "a" | "accept":
                return _accept_one(context, proposal)
            case "r" | "reject":
                return reviewing.reject(context, [proposal]).counts
            case "s" | "skip":
                return {}
            case "q" | "quit" | None:
                return None
            case "e" | "edit":
                if text := _line("new text: "):
                    proposal = reviewing.edit(context, proposal, text)


def _accept_one(context: CommandContext, proposal: StoredProposal) -> dict[str, int]:
    done = reviewing.accept(context, [proposal])
    for note in done.notes:
        warn(note)
    return done.counts


def _show_one(context: CommandContext, proposal: StoredProposal) -> None:
    row = reviewing.as_row(proposal)
    known = [proposal.kind, proposal.subject, proposal.scope and f"scope {proposal.scope}", f"{row['confidence']:.2f}"]
    say(proposal.content, "bold")
    say_line(f"  {proposal.ref}, theme {proposal.theme!r}, {', '.join(str(each) for each in known if each)}")
    if proposal.rival_content is not None:
        what = "older than what is current" if proposal.outdated else "takes the place of"
        say(f"  {what}: m{proposal.rival} {one_line(proposal.rival_content)}", "yellow")
    for role, text in reviewing.said(context, proposal):
        say(f"  {proposal.said_at:%Y-%m-%d} {role}: {one_line(text, proposal.content, lines=_QUOTED_LINES)}", "dim")


def _line(question: str) -> str | None:
    """Return the typed line; None at the end of input."""
    sys.stdout.write(question)
    sys.stdout.flush()
    given = sys.stdin.readline()
    return given.strip() if given else None


REVIEW = Command(
    "hermes-pgvector facts review\nhermes-pgvector facts review --accept-above 0.8\n"
    "hermes-pgvector facts review p12 p15 --reject\n"
    'hermes-pgvector facts review p17 --edit "The API is deployed on Fridays" --accept\n'
    "hermes-pgvector facts review --theme coder --ask",
    _review,
    [
        argument("id ID", "the proposal: p123, or 123 (default: all that wait)", nargs="*"),
        argument("--accept", "make memories of these"),
        argument("--reject", "reject these; the same text is not proposed again"),
        argument("--all", "with --accept or --reject: all that wait, instead of ids"),
        argument("--accept-above SHARE", "accept those of at least this confidence", type=between(0, 1)),
        argument("--edit TEXT", "give one proposal another text"),
        argument("--kind", "give it another kind", choices=KINDS),
        argument("--subject NAME", 'give it another subject; "" takes it away'),
        argument("--scope NAME", 'give it another scope; "" takes it away'),
        argument("--ask", "decide one by one, on a terminal"),
        argument("--rejected", "those that were rejected, which can still be accepted"),
        theme_option("only of this theme (default: of every theme)"),
    ],
)

"""The command `mcp token`."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import Any

from ...domain.errors import HermesPgvectorError, WrongUsage
from ...host.session_context import Policy, load_settings
from ...mcp.tokens import Token, TokenFile
from ..common.commands import Command, action, argument, printed
from ..common.console import Column, say, show_table, warn
from ..common.theme_names import not_allowed
from .token_changes import add_token, remove_token

_COLUMNS = (
    Column("name", style="bold"),
    Column("themes", flexible=True),
    Column("may"),
    Column("created_at", "created"),
)


def _add(args: argparse.Namespace, home: Path) -> int:
    if args.theme and args.any_theme:
        raise WrongUsage("give --theme or --any-theme, not both: name the themes, or allow every one")
    if not (args.theme or args.any_theme):
        raise WrongUsage("say what the token is for: --theme THEME, which may be repeated, or --any-theme")
    made = add_token(home, args.name, args.theme or (), read_only=args.read_only)
    notes = _not_allowed(made.token, home)

    def show() -> None:
        say(f"made the token {made.token.name}: {_rights(made.token)} {_themes(made.token)}")
        for note in notes:
            warn(note)
        say("It is shown this once; clients send it as the header  Authorization: Bearer TOKEN")
        print(made.secret)

    return printed(args, _told(made.token) | {"token": made.secret, "notes": notes}, show)


def _not_allowed(token: Token, home: Path) -> list[str]:
    """Return warnings about themes that `allowed_themes` excludes; none if the settings cannot be read."""
    with contextlib.suppress(HermesPgvectorError):
        rules = Policy.of(load_settings(None, home).settings).rules
        named = () if token.any_theme else token.themes
        return [note for theme in named if (note := not_allowed(rules.resolve_name(theme), rules))]
    return []


def _list(args: argparse.Namespace, home: Path) -> int:
    told = [_told(token) for token in TokenFile(home).read()]
    shown = [
        row | {"themes": ", ".join(row["themes"]) or "any", "may": "read" if row["read_only"] else "read and write"}
        for row in told
    ]
    return printed(args, told, lambda: show_table(_COLUMNS, shown, empty="there is no token"))


def _remove(args: argparse.Namespace, home: Path) -> int:
    token = remove_token(home, args.name, really=not args.dry_run)
    said = f"{'would remove' if args.dry_run else 'removed'} the token {token.name}: {_rights(token)} {_themes(token)}"
    return printed(args, _told(token) | {"done": not args.dry_run}, lambda: say(said))


def _told(token: Token) -> dict[str, Any]:
    return {
        "name": token.name,
        "themes": [] if token.any_theme else list(token.themes),
        "any_theme": token.any_theme,
        "read_only": token.read_only,
        "created_at": token.created,
    }


def _rights(token: Token) -> str:
    return "it may read" if token.read_only else "it may read and write"


def _themes(token: Token) -> str:
    if token.any_theme:
        return "every theme"
    return f"the {'theme' if len(token.themes) == 1 else 'themes'} {', '.join(token.themes)}"


TOKEN = Command(
    "hermes-pgvector mcp token add laptop --theme work\n"
    "hermes-pgvector mcp token list\n"
    "hermes-pgvector mcp token remove laptop",
    actions=[
        action(
            "add",
            "make a token and print it, this once",
            "hermes-pgvector mcp token add laptop --theme work\n"
            "hermes-pgvector mcp token add board --theme work --theme home --read-only",
            _add,
            [
                argument("name NAME", "what to call it, in the list and in the log"),
                argument(
                    "--theme THEME",
                    "a theme that it is for; may be repeated, and then the first is used unless a client names "
                    "another one in X-Hermes-Session-Key",
                    action="append",
                ),
                argument("--any-theme", "let its bearer name any theme"),
                argument("--read-only", "let its bearer recall, and write nothing"),
            ],
        ),
        action("list", "list the tokens, without their secrets", "hermes-pgvector mcp token list", _list),
        action(
            "remove",
            "remove a token; a running server refuses it from then on",
            "hermes-pgvector mcp token remove laptop --dry-run\nhermes-pgvector mcp token remove laptop",
            _remove,
            [
                argument("name NAME", "the token"),
                argument("--dry-run", "only show what would be removed"),
            ],
        ),
    ],
)

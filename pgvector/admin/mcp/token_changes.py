"""Adds and removes tokens in the home's file, one command at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ...domain.errors import ConfigurationError
from ...domain.theme import CHATS_ALONE, is_chat, normalise_theme
from ...mcp.tokens import ANY_THEME, Token, TokenFile, check_name, dumped, hash_of, new_secret
from ..common.file_replacing import locked, write_file

_PATIENCE_S = 10.0


@dataclass(frozen=True)
class NewToken:
    """A new token with its secret, which is not stored and cannot be recovered."""

    token: Token
    secret: str


def add_token(home: Path, name: str, themes: Sequence[str], *, read_only: bool) -> NewToken:
    """Make a token and store its hash. Raises ConfigurationError if the name is in use, or it cannot be stored."""
    check_name(name)
    bound = tuple(dict.fromkeys(themes))
    _check_themes(bound)
    secret = new_secret()
    token = Token(name, hash_of(secret), bound or (ANY_THEME,), read_only, datetime.now(UTC).isoformat("T", "seconds"))
    with _changing(home) as (file, tokens):
        if any(each.name == name for each in tokens):
            raise ConfigurationError(
                f"there is a token {name!r} already; take another name, or remove it first: "
                f"hermes-pgvector mcp token remove {name}"
            )
        write_file(file.path, dumped([*tokens, token]), "nothing was changed", mode=0o600)
    return NewToken(token, secret)


def _check_themes(themes: Sequence[str]) -> None:
    """Raise ConfigurationError if a token cannot be for these themes."""
    if blank := [theme for theme in themes if not normalise_theme(theme)]:
        raise ConfigurationError(f"{blank[0]!r} is no name of a theme")
    if chats := [theme for theme in themes if is_chat(normalise_theme(theme))]:
        raise ConfigurationError(f"a token cannot be for {chats[0]!r}: {CHATS_ALONE}")
    if many := [theme for theme in themes if theme.endswith("*")]:
        raise ConfigurationError(
            f"a token is for themes by their whole names, and {many[0]!r} would be one of that name: "
            "give --theme for each, or --any-theme"
        )


def remove_token(home: Path, name: str, *, really: bool) -> Token:
    """Remove and return a token, which a running server then rejects. Raises ConfigurationError if there is none."""
    with _changing(home) as (file, tokens):
        found = next((each for each in tokens if each.name == name), None)
        if found is None:
            names = ", ".join(each.name for each in tokens) or "none"
            raise ConfigurationError(f"there is no token {name!r}; those that there are: {names}")
        if really:
            write_file(
                file.path, dumped([each for each in tokens if each is not found]), "nothing was changed", mode=0o600
            )
    return found


@contextmanager
def _changing(home: Path) -> Iterator[tuple[TokenFile, tuple[Token, ...]]]:
    """Yield the token file and its tokens, locked against changes by other commands."""
    file = TokenFile(home)
    busy = "another command changes the tokens right now; try again"
    with locked(file.path.with_suffix(".lock"), busy, wait_s=_PATIENCE_S):
        yield file, file.read()

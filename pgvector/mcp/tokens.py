"""The bearer tokens of a home, each bound to themes; only hashes of their texts are stored."""

from __future__ import annotations

import hmac
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from ..domain.errors import ConfigurationError
from ..domain.files import read_regular_file
from ..domain.theme import normalise_theme

ANY_THEME: Final = "*"
_PREFIX: Final = "hpg_"  # by which scanners for leaked secrets recognize a token
_BYTES: Final = 32
_HASH = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[\w.@-]{1,64}")


@dataclass(frozen=True, slots=True)
class Token:
    """A stored token: the hash of its text, and what its bearer may do in which themes."""

    name: str
    sha256: str
    themes: tuple[str, ...]
    read_only: bool = False
    created: str = ""

    @property
    def any_theme(self) -> bool:
        """Return whether the token is not bound to any theme."""
        return ANY_THEME in self.themes


def new_secret() -> str:
    """Return the text of a new token."""
    return _PREFIX + secrets.token_urlsafe(_BYTES)


def hash_of(secret: str) -> str:
    """Return the hash that is stored of a token: 256 random bits cannot be guessed from a plain hash."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def find_token(tokens: Sequence[Token], secret: str) -> Token | None:
    """Return the token with this text; the time taken reveals nothing about the stored ones."""
    shown = hash_of(secret)
    found = None
    for token in tokens:
        if hmac.compare_digest(shown, token.sha256):
            found = token
    return found


class TokenFile:
    """The file of tokens, read again when it has changed. Not thread-safe."""

    def __init__(self, home: Path) -> None:
        self.path = home / "pgvector" / "mcp-tokens.json"
        self._seen: tuple[int, ...] = ()
        self._tokens: tuple[Token, ...] = ()

    def read(self) -> tuple[Token, ...]:
        """Return the tokens; none where there is no file. Raises ConfigurationError for one that cannot be used."""
        try:
            found = self.path.stat()
            seen = (found.st_ino, found.st_size, found.st_mtime_ns)
            if seen != self._seen:
                self._tokens = _parsed(read_regular_file(self.path))
                self._seen = seen
        except FileNotFoundError:
            self._tokens, self._seen = (), ()
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else f"{type(exc).__name__}: {exc}"
            raise ConfigurationError(
                f"the tokens of the MCP server cannot be read ({reason}); correct {self.path}, or move it away and "
                "make new ones: hermes-pgvector mcp token add"
            ) from exc
        return self._tokens


def dumped(tokens: Sequence[Token]) -> bytes:
    """Return the content of the file with these tokens."""
    rows = {"tokens": [asdict(token) for token in tokens]}
    return json.dumps(rows, indent=1, ensure_ascii=False).encode() + b"\n"


def check_name(name: str) -> None:
    """Raise ConfigurationError for a name that a log line or a command could not show as it is."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} cannot name a token: take up to 64 letters, digits and the characters . _ @ -"
        )


def _parsed(data: bytes) -> tuple[Token, ...]:
    tokens = tuple(map(_token, json.loads(data)["tokens"]))
    if len({token.name for token in tokens}) < len(tokens):
        raise ValueError("a name stands in it twice")
    return tokens


def _token(row: Mapping[str, Any]) -> Token:
    token = Token(row["name"], row["sha256"], tuple(row["themes"]), row["read_only"], row["created"])
    texts = (token.name, token.sha256, token.created, *token.themes)
    if not all(isinstance(text, str) for text in texts) or not isinstance(token.read_only, bool):
        raise ValueError("a token's fields are not of their types")
    if not _NAME.fullmatch(token.name) or not _HASH.fullmatch(token.sha256):
        raise ValueError("a token's name or hash is not one")
    # A token without a theme would count as one that is not bound to any.
    if not token.themes or not all(map(normalise_theme, token.themes)):
        raise ValueError(f"the token {token.name} names no theme")
    return token

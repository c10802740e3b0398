"""Passwords of connection strings hidden in any text that may be shown."""

from __future__ import annotations

import re
from urllib.parse import unquote

_MASK = "***"
_SECRET_KEY = r"(?<![a-z])(?:pg|ssl)?(?:password|passwd|pwd)|oauth_client_secret|scram_(?:client|server)_key"
# Greedy up to the last "@" of the word: people paste passwords with "@", "/" or ":" unescaped.
_URI = re.compile(r"(://[^\s:/@]*:)(\S*)@")
# libpq takes spaces in a URI's password as they are.
_URI_SPACED = re.compile(r"(postgres(?:ql)?://[^\s:/@]*:)([^@/\n]*)@", re.IGNORECASE)
_QUERY = re.compile(rf"([?&](?:{_SECRET_KEY})=)([^&\s]*)", re.IGNORECASE)
# An unquoted value runs to the next blank and may hold escaped blanks. Each repr around it escapes quotes once more:
# the quote that ends a value has as many backslashes before it as the one that began it, and more mean another quote.
_PAIR = re.compile(
    rf"(?<![?&])((?:{_SECRET_KEY})\s*=\s*|['\"](?:{_SECRET_KEY})\\*['\"]\s*:\s*)"
    r"((?P<quote>\\*['\"])(?:.*?(?<!\\)(?P=quote)|.*)|(?:[^\s\\]|\\+.)+)",
    re.IGNORECASE | re.DOTALL,
)


def mask_dsn(text: str, dsn: str = "") -> str:
    """Replace the passwords of libpq URIs and key=value strings in `text` by ***.

    With `dsn`, every piece of that connection string's password is replaced as well, wherever it stands: libpq
    quotes fragments of a malformed string in its errors, without the key they came from. Masks too much rather
    than too little.
    """
    for piece in _secret_pieces(dsn) if dsn else ():
        text = text.replace(f'"{piece}"', f'"{_MASK}"') if len(piece) < 3 else text.replace(piece, _MASK)
    lowered = text.lower()
    if "://" in text and "@" in text:
        text = _URI_SPACED.sub(rf"\1{_MASK}@", _URI.sub(rf"\1{_MASK}@", text))
    if any(word in lowered for word in ("pass", "pwd", "secret", "scram")):
        text = _PAIR.sub(rf"\1{_MASK}", _QUERY.sub(rf"\1{_MASK}", text))
    return text


def _secret_pieces(dsn: str) -> list[str]:
    """Return the password in `dsn`, whole, decoded and in the fragments a parser may stumble over; longest first."""
    found = [match.group(2) for pattern in (_URI, _URI_SPACED, _QUERY, _PAIR) for match in pattern.finditer(dsn)]
    # An unquoted password with a blank in it: all words up to the next key are part of it.
    found += re.findall(r"(?i)password\s*=\s*(.*?)(?=\s+\w+\s*=|$)", dsn, re.DOTALL)
    pieces: set[str] = set()
    for secret in found:
        bare = re.sub(r"\\(.)", r"\1", secret.strip("'\""))
        pieces.update((secret, bare, unquote(secret)))
        pieces.update(re.split(r"[\s'\"@:/?&=]+", secret))
    return sorted((piece for piece in pieces if piece and piece != _MASK), key=len, reverse=True)

"""Which theme a request is about, and what it may do there.

| first that is given | theme |
|---|---|
| `--theme` | that |
| the token's themes | the one of them that `X-Hermes-Session-Key` names, else the first |
| `X-Hermes-Session-Key` | the key |
| the folder that the client works in | `project-<folder>-<8 hex of a digest of its path>` |
| none of these | the theme of the home's own sessions |
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

from ..domain.errors import InvalidArgument
from ..domain.text import clean
from ..domain.theme import normalise_theme
from .sdk import INVALID_PARAMS, Exchange, RequestRefused

SCOPE_KEY: Final = "hermes_pgvector.access"  # in the ASGI scope, where a guard before us puts an Access
_SHOWN_CHARS = 256  # of a theme in an error
_DIGEST_CHARS = 8
_HOMES = ("/home", "/Users")  # folders of home directories


@dataclass(frozen=True)
class Access:
    """What a token lets its bearer do.

    `themes` are those it is bound to, the first being the one it writes to unless told otherwise; none means that it
    is not bound.
    """

    themes: tuple[str, ...] = ()
    read_only: bool = False


@dataclass(frozen=True)
class Place:
    """What a request works with: its theme ("" for the home's own), its session, its access, and its client."""

    theme: str
    session: str
    access: Access
    client: str

    def within(self, theme: str, resolved: Callable[[str], str]) -> Place:
        """Return the same in another theme of the token. Raises InvalidArgument if the token is not bound to it.

        `resolved` returns the stored name of the theme that a name means.
        """
        wanted = resolved(theme)
        named = next((each for each in self.access.themes if resolved(each) == wanted), "")
        if not named:
            shown = clean(theme)[:_SHOWN_CHARS]
            raise InvalidArgument(
                f"{shown!r} is not the theme of this session: the profile of others is not shown here"
            )
        return replace(self, theme=named)


def access_of(exchange: Exchange) -> Access:
    """Return what the guard before us allows this request; everything if there is no guard."""
    found = (exchange.http or {}).get(SCOPE_KEY)
    return found if isinstance(found, Access) else Access()


def theme_of(exchange: Exchange, fixed: str, *, identity_key: str) -> str:
    """Return the theme that a request names by the table of this module, or "" if none. Raises RequestRefused.

    `fixed` is what --theme names. The folder that the client works in is not asked for here.
    """
    access = access_of(exchange)
    allowed = {normalise_theme(theme, identity_key): theme for theme in access.themes}
    # Not cut: two long keys with the same beginning would become one theme.
    asked = fixed or exchange.header("x-hermes-session-key")
    if access.themes:
        if not asked:
            return access.themes[0]
        if normalise_theme(asked, identity_key) not in allowed:
            raise RequestRefused(INVALID_PARAMS, f"this token is not for the theme {asked[:_SHOWN_CHARS]!r}")
        return asked
    return asked


def project_theme(folder: str) -> str:
    """Return the theme of a project by its folder's path; "" for a home directory or the root, which are none."""
    path = PurePosixPath(folder)
    at_home = str(path.parent) in _HOMES or folder in ("/root", os.path.expanduser("~"))
    if not folder or path.parent == path or at_home:
        return ""
    digest = hashlib.sha256(str(path).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"project-{path.name}-{digest}"


def session_of(exchange: Exchange, own: str) -> str:
    """Return the session of a request: `own` over stdio, one for each connection over HTTP, else one for each day."""
    if exchange.http is None:
        return own
    # Whoever knows the id can act in its name, so only its hash is stored.
    if given := exchange.header("mcp-session-id"):
        return "mcp-" + hashlib.sha256(given.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return f"mcp-{datetime.now(UTC):%Y-%m-%d}"
